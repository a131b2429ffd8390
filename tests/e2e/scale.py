"""forewarn on a big cluster: `make e2e-scale`, apart from CI. PODS says how many pods there are.

Once they are there: synced in 60 s, 500 MB resident, and 50 events a second at 20 % of one core.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import pod
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

PODS = int(os.environ.get("PODS", "150000"))
NODES = PODS // 30
EVENTS, SECONDS = 50, 30
SYNCED, RESIDENT, SHARE = 60, 500_000_000, 0.20
TICKS = os.sysconf("SC_CLK_TCK")


def running(number: int) -> Obj:
    requests = {"cpu": "100m", "memory": "256Mi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    made = pod(f"p{number}", nodeName=f"n{number % NODES}", containers=[container])
    made["metadata"]["labels"] = {"app": f"a{number % 1000}", "pod-template-hash": f"{number % 3000:010x}"}
    return made


def node(number: int) -> Obj:
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"n{number}", "topology.kubernetes.io/zone": f"z{number % 3}"}
    status = {"allocatable": amounts, "capacity": amounts}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "spec": {}, "status": status}


def test_a_big_cluster(plane: ControlPlane, installed: Installation, stage: Stage, api: Api) -> None:
    plane.processes.stop("kube-scheduler")
    with ThreadPoolExecutor(8) as pool:
        in_turn(pool, "nodes", NODES, lambda number: stage.node(node(number)))
        in_turn(pool, "pods", PODS, lambda number: api.create(running(number)))
    with closing(Webhook(plane, installed)) as webhook:
        replica = webhook.replicas[0]
        started = time.monotonic()
        webhook.start(patience=600)
        took = time.monotonic() - started
        known = replica.metric("forewarn_cache_objects", kind="Pod")
        memory = replica.resident()
        print(f"e2e: {known:.0f} pods known after {took:.1f} s, {memory / 1e6:.0f} MB resident")
        for turn in range(3):
            began = time.monotonic()
            asked = pod(f"probe-{turn}", priority=0, preemptionPolicy="PreemptLowerPriority")
            assert webhook.review(asked)["allowed"]
            print(f"e2e: a pod judged in {(time.monotonic() - began) * 1000:.0f} ms")
        memory = replica.resident()
        print(f"e2e: {memory / 1e6:.0f} MB resident after that")
        share = cpu_share(plane, replica.name, api)
        later = replica.resident()
        print(f"e2e: {EVENTS} events a second at {share:.1%} of one core; {later / 1e6:.0f} MB resident then")
    assert known == PODS
    assert took <= SYNCED
    assert max(memory, later) <= RESIDENT
    assert share <= SHARE


def in_turn(pool: ThreadPoolExecutor, what: str, count: int, make: object) -> None:
    began = time.monotonic()
    for done, _ in enumerate(pool.map(make, range(count)), 1):  # type: ignore[arg-type]
        if done % 10_000 == 0 or done == count:
            print(f"e2e: {done} {what} after {time.monotonic() - began:.0f} s", flush=True)


def cpu_share(plane: ControlPlane, name: str, api: Api) -> float:
    """Which part of a core the process takes while pods change."""
    before, began = ticks(plane, name), time.monotonic()
    for event in range(EVENTS * SECONDS):
        found = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{event * 97 % PODS}"}}
        api.patch(found, {"metadata": {"labels": {"turn": str(event)}}})
        time.sleep(max(0.0, began + (event + 1) / EVENTS - time.monotonic()))
    return (ticks(plane, name) - before) / TICKS / (time.monotonic() - began)


def ticks(plane: ControlPlane, name: str) -> int:
    """Its processor time so far, in ticks of the clock."""
    fields = Path(f"/proc/{plane.processes.pid(name)}/stat").read_text().rsplit(") ", 1)[1].split()
    return int(fields[11]) + int(fields[12])
