"""Do pods that are nominated to a node, but not bound, count when the scheduler filters nodes? Asked of kube-scheduler.

n1 has 2 CPUs and `low` holds 1.5 of them; `waiting` is nominated to n1 and needs 1.5. In the first test `low` is going
away for its sake, but takes its time. `late` has priority 100 and needs 0.4: there is room for it beside `low`, but not
if `waiting` counts. Then it fits only without `low`, and is nominated to n1 itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity
from tests.e2e.objects import container, node, running
from tests.e2e.staging import SELECTED_NODE
from tests.e2e.truth import CASES, SETTLING, Outcome, Question, act, as_case, ask, compact, differences, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

COUNTED = Outcome(nominated="n1")
COUNTED_AND_LOW_GOES = Outcome(nominated="n1", victims=frozenset({"default/low"}))
NOT_COUNTED = Outcome(bound="n1")


@pytest.fixture(autouse=True)
def cluster(stage: Stage) -> Iterator[None]:
    stage.put({"namespaces": [], "nodes": [node("n1", cpu="2")], "pods": [running("low", "n1", cpu="1500m")]})
    yield
    stage.clear()


@pytest.mark.parametrize(("priority", "outcome"), [(200, COUNTED), (100, COUNTED), (50, NOT_COUNTED)])
def test_a_pod_that_the_scheduler_nominated_counts_from_equal_priority_on(
    stage: Stage, priority: int, outcome: Outcome
) -> None:
    stage.create(stage.incoming(waiting_pod("waiting", "1500m", priority)))
    waiting = stage.decided(waiting_pod("waiting", "1500m", priority))
    assert waiting["status"].get("nominatedNodeName") == "n1"
    going = lambda: "deletionTimestamp" in stage.api.get("Pod", "low")["metadata"]  # noqa: E731
    wait_until(going, 5, "low is being deleted")
    assert settle(stage) == outcome


@pytest.mark.parametrize(("priority", "outcome"), [(200, COUNTED_AND_LOW_GOES), (50, NOT_COUNTED)])
def test_a_pod_that_somebody_else_nominated_counts_likewise(stage: Stage, priority: int, outcome: Outcome) -> None:
    waiting = waiting_pod("waiting", "1500m", priority)
    waiting["spec"]["nodeSelector"] = {"no-node": "has-this"}
    stage.create(stage.incoming(waiting))
    stage.decided(waiting)
    nominate(stage, "waiting")
    assert settle(stage) == outcome


def test_a_pod_of_another_scheduler_does_not_count(stage: Stage) -> None:
    waiting = waiting_pod("waiting", "1500m", 200)
    waiting["spec"]["schedulerName"] = "another"
    stage.create(stage.incoming(waiting))
    nominate(stage, "waiting")
    assert settle(stage) == NOT_COUNTED


def test_a_pod_with_a_scheduling_gate_counts_until_the_scheduler_is_restarted(
    stage: Stage, plane: ControlPlane
) -> None:
    """From outside that cannot be seen. forewarn takes such pods not to count: nobody is known to nominate them.

    Since 1.37 they count always.
    """
    waiting = waiting_pod("waiting", "1500m", 200)
    waiting["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    stage.create(stage.incoming(waiting))
    nominate(stage, "waiting")
    if stage.semantics.gated_nominations_count:
        assert settle(stage) == COUNTED_AND_LOW_GOES
        return
    question, outcome = ask_and_act(stage)
    assert outcome == COUNTED_AND_LOW_GOES
    assert differences(question, outcome) == [f"predicted fits on ['n1'], was {outcome}"]
    keep(question, outcome, "gated-nominated")
    plane.processes.stop("kube-scheduler")
    stage.api.delete(identity("Pod", "late"), gracePeriodSeconds="0")
    stage.api.delete(identity("Pod", "low"), gracePeriodSeconds="0")
    stage.put({"namespaces": [], "nodes": [], "pods": [running("low", "n1", cpu="1500m")]})
    plane.start_scheduler()
    assert settle(stage) == NOT_COUNTED


def test_a_pod_whose_volumes_are_being_bound_is_on_its_node_already(stage: Stage) -> None:
    """The scheduler writes the node of such a pod into nominatedNodeName, but to itself it is there, at any priority.

    A nominated pod of lower priority would not count, and there would be more room on n1 than on n2. What tells it
    apart is its claim, which has been told the node. 1.34 writes nothing into the pod, so that it is not seen.
    """
    stage.api.delete(identity("Pod", "low"), gracePeriodSeconds="0")
    binding = waiting_pod("binding", "1800m", 50)
    binding["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    stage.put({"namespaces": [], "nodes": [], "pods": [], **UNBOUND})
    stage.create(stage.incoming(binding))
    announced = stage.semantics.expected_bindings_are_announced
    wait_until(lambda: node_of_claim(stage) == "n1", 20, "the claim names the node")
    # The status also has a condition, if the scheduler saw the Pod before its claim.
    status = stage.api.get("Pod", "binding")["status"]
    assert (status["phase"], status.get("nominatedNodeName")) == ("Pending", "n1" if announced else None)
    stage.put({"namespaces": [], "nodes": [node("n2", cpu="2")], "pods": [running("other", "n2", cpu="1500m")]})
    question, outcome = ask_and_act(stage)
    assert outcome == Outcome(bound="n2")
    assert differences(question, outcome) == ([] if announced else ["predicted fits on ['n1'], was bound to n2"])


UNBOUND: Obj = {
    "storageClasses": [
        {"metadata": {"name": "late"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    ],
    "pvcs": [
        {
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "late",
            },
        }
    ],
}


def node_of_claim(stage: Stage) -> str:
    annotations: Obj = stage.api.get("PersistentVolumeClaim", "data")["metadata"].get("annotations", {})
    return str(annotations.get(SELECTED_NODE, ""))


def keep(question: Question, outcome: Outcome, name: str) -> None:
    """Write a cluster on which the prediction is known to be wrong to tests/e2e/cases, unless it is there."""
    path = CASES / f"{name}.json"
    if not path.exists():
        path.write_text(compact(as_case(name, question, outcome, differences(question, outcome))))


def settle(stage: Stage) -> Outcome:
    """What becomes of `late`; fails where it is not what was predicted."""
    question, outcome = ask_and_act(stage)
    assert differences(question, outcome) == []
    return outcome


def ask_and_act(stage: Stage) -> tuple[Question, Outcome]:
    time.sleep(SETTLING)
    late = stage.incoming(waiting_pod("late", "400m", 100))
    question = ask(stage, late)
    return question, act(stage, question, late)


def nominate(stage: Stage, name: str) -> None:
    waiting = stage.api.get("Pod", name)
    stage.api.patch(waiting, {"status": {"nominatedNodeName": "n1"}}, "status")


def waiting_pod(name: str, cpu: str, priority: int) -> Obj:
    spec = {"containers": [container(cpu)], "priority": priority}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
