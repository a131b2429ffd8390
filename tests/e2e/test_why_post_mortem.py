"""`forewarn why --since` after 30 preemptions on a real control plane: it names the right preemptor of each Pod that
Events, conditions or the audit log show, and no other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.explaining import delete_events, messages
from tests.e2e.objects import container, node
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e
PAIRS = range(30)
MAX_SECONDS = 120
GONE, TERMINATING, REPLACED = range(3)
"""What becomes of pair number modulo 3: both Pods are deleted, the victim still terminates, the preemptor runs."""
WITHOUT_EVENT = range(24, 30)


def namespace_of(number: int) -> str:
    return "dev" if number % 2 else "default"


def pod_on(number: int, name: str, namespace: str, priority: int) -> Obj:
    """A Pod that fits only on this node, and fills it."""
    spec: Obj = {"priority": priority, "containers": [container("1500m")]}
    spec["nodeSelector"] = {"kubernetes.io/hostname": f"n{number}"}
    metadata = {"name": f"{name}-{number}", "namespace": namespace, "labels": {"app": f"{name}-{number % 5}"}}
    return {"metadata": metadata, "spec": spec}


BUDGET = {
    "metadata": {"name": "low", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low-0"}}},
    "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "pods", "namespace": "prod"},
    "spec": {"hard": {"pods": "30"}},
}


@pytest.fixture
def preempted(stage: Stage) -> Iterator[None]:
    """The cluster after the preemptions, without the Events of some."""
    delete_events(stage.api)
    nodes = [node(f"n{number}", cpu="2") for number in PAIRS]
    namespaces = [{"metadata": {"name": name}} for name in ("default", "dev", "prod")]
    stage.put({"namespaces": namespaces, "nodes": nodes, "pods": [], "pdbs": [BUDGET]})
    stage.api.create(QUOTA)
    for number in PAIRS:
        stage.create(stage.incoming(pod_on(number, "low", namespace_of(number), priority=10 * (number % 2))))

    def stored(number: int) -> Obj:
        return stage.api.get("Pod", f"low-{number}", namespace_of(number))

    def events() -> list[Obj]:
        return [event for event in stage.api.list("Event") if event["reason"] == "Preempted"]

    wait_until(
        lambda: all(stored(number)["spec"].get("nodeName") for number in PAIRS), MAX_SECONDS, "all Pods have a node"
    )
    for number in PAIRS:
        stage.create(stage.incoming(pod_on(number, "high", "prod", priority=100 * (1 + number % 4))))
    wait_until(
        lambda: all("deletionTimestamp" in stored(number)["metadata"] for number in PAIRS),
        MAX_SECONDS,
        "all Pods are preempted",
    )
    wait_until(lambda: len(events()) == len(PAIRS), MAX_SECONDS, "all Events are written")
    for number in PAIRS:
        if number % 3 == GONE:
            stage.api.delete(stage.api.get("Pod", f"high-{number}", "prod"), gracePeriodSeconds="0")
        if number % 3 != TERMINATING:
            stage.api.delete(stored(number), gracePeriodSeconds="0")
    for event in events():
        regarding = event.get("involvedObject") or event["regarding"]
        if regarding["name"] in {f"low-{number}" for number in WITHOUT_EVENT}:
            stage.api.delete(event)
    yield
    stage.api.delete(QUOTA)
    stage.clear()


def why(plane: ControlPlane, *arguments: str) -> Obj:
    command = [sys.executable, "-m", "forewarn", "why", *arguments, "--cluster", "live", "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=MAX_SECONDS)
    assert done.returncode == 0, done.stderr
    answer: Obj = json.loads(done.stdout)
    return answer


def named(plane: ControlPlane, *arguments: str) -> dict[str, tuple[str, str]]:
    """Victim -> preemptor and source."""
    answer = why(plane, "--since", "1h", *arguments)
    return {each["pod"]: (each["by"], each["source"]) for each in answer["preempted"]}


def test_each_preemptor_is_named_by_what_still_shows_it(plane: ControlPlane, preempted: None) -> None:
    victims = {number: f"{namespace_of(number)}/low-{number}" for number in PAIRS}
    found = named(plane)
    for number, victim in victims.items():
        by = f"prod/high-{number}"
        if number not in WITHOUT_EVENT:
            preemptor, source = found.pop(victim)
            assert source == "Event"
            assert "no longer exists" in preemptor if number % 3 == GONE else preemptor == by
        elif number % 3 == TERMINATING:
            assert found.pop(victim) == (by, "condition")
    assert found == {}, "nothing shows the other preemptions"
    log = ("--audit-log", str(plane.home / "audit.log"))
    found = named(plane, *log)
    assert {victim: by for victim, (by, _) in found.items() if victim in victims.values()} == {
        victim: f"prod/high-{number}" for number, victim in victims.items()
    }
    assert {found[victims[number]][1] for number in WITHOUT_EVENT if number % 3 != TERMINATING} == {"audit log"}
    gone, replaced = (next(number for number in WITHOUT_EVENT if number % 3 == what) for what in (GONE, REPLACED))
    for number in (gone, replaced):
        message = messages(why(plane, victims[number], *log))["preempted"]
        assert message == f"preempted on n{number} by prod/high-{number} (audit log)"
    assert messages(why(plane, victims[2]))["preempted"].startswith(
        "preempted on n2 by prod/high-2 (preemptlowerpriority-300, priority 300)"
    )
