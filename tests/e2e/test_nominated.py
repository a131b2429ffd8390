"""Do pods that are nominated to a node, but not bound, count when the scheduler filters nodes? Asked of kube-scheduler.

n1 has 2 CPUs and `low` holds 1.5 of them; `waiting` is nominated to n1 and needs 1.5. In the first test `low` is going
away for its sake, but takes its time. `late` has priority 100 and needs 0.4: there is room for it beside `low`, but not
if `waiting` counts. Then it fits only without `low`, and is nominated to n1 itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.truth import SETTLING, Outcome, act, ask, differences, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

COUNTED = Outcome(nominated="n1")
COUNTED_AND_LOW_GOES = Outcome(nominated="n1", victims=frozenset({"default/low"}))
NOT_COUNTED = Outcome(bound="n1")


@pytest.fixture(autouse=True)
def cluster(stage: Stage) -> Iterator[None]:
    stage.put({"namespaces": [], "nodes": [node("n1")], "pods": [{**pod("low", "1500m", 0), **running_on("n1")}]})
    yield
    stage.clear()


@pytest.mark.parametrize(("priority", "outcome"), [(200, COUNTED), (100, COUNTED), (50, NOT_COUNTED)])
def test_a_pod_that_the_scheduler_nominated_counts_from_equal_priority_on(
    stage: Stage, priority: int, outcome: Outcome
) -> None:
    stage.create(stage.incoming(pod("waiting", "1500m", priority)))
    waiting = stage.decided(pod("waiting", "1500m", priority))
    assert waiting["status"].get("nominatedNodeName") == "n1"
    going = lambda: "deletionTimestamp" in stage.api.get("Pod", "low")["metadata"]  # noqa: E731
    wait_until(going, 5, "low is being deleted")
    assert settle(stage) == outcome


@pytest.mark.parametrize(("priority", "outcome"), [(200, COUNTED_AND_LOW_GOES), (50, NOT_COUNTED)])
def test_a_pod_that_somebody_else_nominated_counts_likewise(stage: Stage, priority: int, outcome: Outcome) -> None:
    waiting = pod("waiting", "1500m", priority)
    waiting["spec"]["nodeSelector"] = {"no-node": "has-this"}
    stage.create(stage.incoming(waiting))
    stage.decided(waiting)
    nominate(stage, "waiting")
    assert settle(stage) == outcome


def test_a_pod_of_another_scheduler_does_not_count(stage: Stage) -> None:
    waiting = pod("waiting", "1500m", 200)
    waiting["spec"]["schedulerName"] = "another"
    stage.create(stage.incoming(waiting))
    nominate(stage, "waiting")
    assert settle(stage) == NOT_COUNTED


def test_a_pod_with_a_scheduling_gate_counts(stage: Stage) -> None:
    waiting = pod("waiting", "1500m", 200)
    waiting["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    stage.create(stage.incoming(waiting))
    nominate(stage, "waiting")
    assert settle(stage) == COUNTED_AND_LOW_GOES


def settle(stage: Stage) -> Outcome:
    """What becomes of `late`; fails where it is not what was predicted."""
    time.sleep(SETTLING)
    late = stage.incoming(pod("late", "400m", 100))
    question = ask(stage, late)
    outcome = act(stage, question, late)
    assert differences(question, outcome) == []
    return outcome


def nominate(stage: Stage, name: str) -> None:
    waiting = stage.api.get("Pod", name)
    stage.api.patch(waiting, {"status": {"nominatedNodeName": "n1"}}, "status")


def node(name: str) -> Obj:
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": amounts, "capacity": amounts}}


def pod(name: str, cpu: str, priority: int) -> Obj:
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "priority": priority}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def running_on(name: str) -> Obj:
    spec = pod("", "1500m", 0)["spec"]
    return {
        "spec": {**spec, "nodeName": name},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }
