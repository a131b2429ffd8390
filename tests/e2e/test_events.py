"""What `forewarn whatif` and `simulate --events` foretell of a cluster's owner is what then happens to the cluster.

Random small clusters with kube-controller-manager and kubelets that keep to grace periods; a node is lost (its Node is
deleted, as a cloud's controller does), one is drained by kubectl, a workload is scaled up or down, or deleted. EVENTS
says how many there are, SEED which ones, FIRST the number of the first one, a multiple of A_CLUSTER, WIDE=1 asks for
the wide clusters of test_changes.py, and EVIDENCE names a directory for the dump, the event and what was seen. The end
counts, by workload: which Pods are preempted, and which stay Pending.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.api import identity
from tests.e2e.living import (
    A_CLUSTER,
    NAMESPACE,
    Ending,
    build,
    clear,
    forewarn,
    keep,
    made,
    settled,
    settled_with_jobs,
    simulated,
    workloads,
)
from tests.e2e.objects import container, node
from tests.e2e.random_cases import SEED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.living import Living

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

EVENTS = int(os.environ.get("EVENTS", "12"))
FIRST = int(os.environ.get("FIRST", "0"))
WIDE = bool(os.environ.get("WIDE"))
QUIET = 13
"""Seconds in which nothing happens once all is over: more than kube-scheduler's longest back-off, 10 s."""


class Event(NamedTuple):
    """What happens: a line of a file of events, the words after `forewarn whatif`, and how it is brought about."""

    line: Obj
    asked: tuple[str, ...]
    happen: Callable[[], object]


def event_of(api: Api, plane: ControlPlane, rng: random.Random, file: Path) -> Event:
    """One of those that the cluster may live through. `file`: for what `whatif` reads."""
    nodes = sorted(each["metadata"]["name"] for each in api.list("Node") if not each["spec"].get("unschedulable"))
    what = rng.choice(("lost", "lost", "drain", "drain", "scale", "delete"))
    if what in ("lost", "drain") and len(nodes) > 1:
        name = rng.choice(nodes)
        if what == "lost":
            return Event({"lost": name}, ("lose", "node", name), lambda: api.delete(identity("Node", name)))
        drained = ("drain", name, "--force", "--ignore-daemonsets", "--timeout=40s")
        return Event({"drain": name}, ("drain", name), lambda: plane.kubectl(*drained))
    workload = rng.choice([each for each in workloads(api) if "replicas" in each["spec"] or what == "delete"])
    kind, name = workload["kind"], workload["metadata"]["name"]
    named = {"apiVersion": "apps/v1", **identity(kind, name, NAMESPACE)}
    if what == "delete":
        file.write_text(json.dumps(named))
        gone: Callable[[], object] = lambda: api.delete(named, propagationPolicy="Background")  # noqa: E731
        return Event({"delete": named}, ("delete", "-f", str(file)), gone)
    replicas = max(0, workload["spec"]["replicas"] + rng.choice((-2, -1, 1, 2, 3)))
    line = {"scale": {"kind": kind, "namespace": NAMESPACE, "name": name, "replicas": replicas}}
    asked = ("scale", f"{kind.lower()}/{name}", str(replicas))
    return Event(line, asked, lambda: api.patch(workload, {"spec": {"replicas": replicas}}))


def foretold(plane: ControlPlane, event: Event, directory: Path) -> tuple[set[Ending], Ending]:
    """What may come of it, by `forewarn whatif events`, and the one of it that `forewarn whatif` tells."""
    dump, events = directory / "cluster.json", directory / "events.json"
    events.write_text(json.dumps([event.line]))
    forewarn(plane, "snapshot", "-o", str(dump))
    answer = json.loads(forewarn(plane, "whatif", *event.asked, "--cluster", str(dump), "-o", "json"))
    one = Ending.of(
        Counter(push["victim"]["workload"] for push in answer["preempted"]),
        answer["pending"]["byWorkload"],
        answer["rejectedByQuota"],
    )
    return simulated(plane, dump, "--events", str(events)), one


def test_what_is_foretold_of_an_event_is_what_happens(living: Living, tmp_path: Path) -> None:
    plane, webhook, api, stage, kubelets = living
    as_simulated, as_asked, of_several, differences, apart = 0, 0, 0, list[str](), list[str]()
    print(f"\ne2e: {EVENTS} events, SEED={SEED}")
    for number in range(FIRST, FIRST + EVENTS):
        rng = random.Random(f"{SEED} event {number}")
        if number % A_CLUSTER == 0 or number == FIRST:
            if number > FIRST:
                clear(api)
            build(stage, api, rng, every_kind=WIDE, wide=WIDE)
            api.create(made("Deployment", "shop", rng, "high"))
            settled(kubelets, QUIET)
        webhook.catch_up(api)
        event = event_of(api, plane, rng, tmp_path / "named.json")
        expected, one = foretold(plane, event, tmp_path)
        kubelets.preempted.clear()
        kubelets.seen.clear()
        event.happen()
        kubelets.changed = time.monotonic()
        settled_with_jobs(api, kubelets, QUIET)
        found = Ending.seen(api, kubelets)
        as_simulated += found in expected
        as_asked += found == one
        of_several += found != one and found in expected
        what = f"{number}: {json.dumps(event.line)}"
        if one not in expected:  # the first of the runs has whatif's times
            apart.append(f"{what}: {one} by whatif, and by simulate {sorted(map(str, expected))}")
        if found not in expected:
            told = "; or ".join(map(str, sorted(expected, key=str)[:3]))
            differences.append(f"{what}: {found}; one of {len(expected)} was told: {told}; by whatif {one}")
            print(differences[-1], flush=True)
        keep(
            tmp_path, f"{SEED}-{number}", [what, str(found), f"load {os.getloadavg()[0]:.0f}", str(one), *kubelets.seen]
        )
    clear(api)
    print(f"e2e: {as_simulated} of {EVENTS} as simulated, {as_asked} of {EVENTS} as whatif told, {of_several} others")
    print(f"e2e: came to another end that ties or races allow (SEED={SEED})")
    print("\n".join(differences))
    assert not apart
    assert as_simulated >= 0.9 * EVENTS


def test_an_upgrade_preempts_what_is_foretold(living: Living, tmp_path: Path) -> None:
    """Three full nodes: each drained Pod of 3 cpu preempts 3 Pods of 1 cpu, whichever nodes kube-scheduler chooses."""
    plane, webhook, api, stage, kubelets = living
    for number in range(3):
        stage.node(node(f"n{number}", cpu="4"))
    for name, class_, replicas, cpu in (("large", "high", 2, "3"), ("small", "", 6, "1")):
        obj = made("Deployment", name, random.Random(SEED), class_)
        obj["spec"] |= {"replicas": replicas, "strategy": {"type": "RollingUpdate"}}
        obj["spec"]["template"]["spec"]["containers"] = [container(cpu)]
        api.create(obj)
        kubelets.changed = time.monotonic()
        settled(kubelets, QUIET)
    webhook.catch_up(api)
    dump = tmp_path / "cluster.json"
    forewarn(plane, "snapshot", "-o", str(dump))
    answer = json.loads(forewarn(plane, "whatif", "upgrade", "--away", "10s", "--cluster", str(dump), "-o", "json"))
    expected = Counter(push["victim"]["workload"] for push in answer["preempted"])
    assert (answer["upgrade"]["complete"], answer["pending"]["byWorkload"]) == (True, {})
    kubelets.preempted.clear()
    for step in answer["upgrade"]["order"]:
        plane.kubectl("drain", step["node"], "--force", "--ignore-daemonsets", "--timeout=60s")
        time.sleep(10)
        plane.kubectl("uncordon", step["node"])
        kubelets.changed = time.monotonic()
        settled(kubelets, QUIET)
    print(f"\ne2e: {dict(expected)} preempted by an upgrade of {len(answer['upgrade']['order'])} nodes")
    assert sum(expected.values()) >= 6
    assert Ending.seen(api, kubelets) == Ending.of(expected, {}, {})
    clear(api)
