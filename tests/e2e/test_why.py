"""`forewarn why` of a pod that kube-scheduler pushes out: by its condition, and by the scheduler's Event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import container, node, running
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def cluster(stage: Stage) -> Iterator[None]:
    low = running("low", "n1", cpu="1500m")
    stage.put({"namespaces": [], "nodes": [node("n1", cpu="2")], "pods": [low]})
    yield
    stage.clear()


def why(plane: ControlPlane, name: str) -> Obj:
    command = [sys.executable, "-m", "policies.cli", "why", f"default/{name}", "--cluster", "live", "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    answer: Obj = json.loads(told.stdout)
    return answer


def messages(answer: Obj) -> dict[str, str]:
    return {trouble["id"]: trouble["message"] for trouble in answer["troubles"]}


def test_a_victim_reads_for_whom_it_goes_also_when_it_is_gone(stage: Stage, plane: ControlPlane) -> None:
    spec = {"priority": 100, "containers": [container("1500m")]}
    high = {"metadata": {"name": "high", "namespace": "default"}, "spec": spec}
    stage.create(stage.incoming(high))
    wait_until(lambda: stage.api.get("Pod", "low")["metadata"].get("deletionTimestamp"), 10, "low is told to end")
    wait_until(lambda: "Preempted" in why(plane, "low")["reported"], 10, "the Event is written")
    answer = why(plane, "low")
    assert answer["state"] == "preempted"
    assert messages(answer)["preempted"] == "preempted on n1 by default/high (priority 100; its own is 0)"
    assert "eventsNotRead" not in answer
    waits = why(plane, "high")
    assert messages(waits)["waits-for-termination"].startswith("waits for 1 Pod of lower priority to terminate on n1")
    stage.api.delete(stage.api.get("Pod", "low"), gracePeriodSeconds="0")
    wait_until(lambda: why(plane, "low")["state"] == "gone", 10, "low is gone")
    assert messages(why(plane, "low")) == {"preempted": "preempted on n1 by default/high (priority 100)"}
