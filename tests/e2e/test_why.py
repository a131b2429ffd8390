"""`forewarn why` of Pods that end on a real control plane: preempted, tainted, evicted, deleted, stuck, failed Jobs.

The causes that a kubelet brings about are in test_why_kubelet.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.api import Refused, identity
from tests.e2e.explaining import answered, delete_events, messages, record, why
from tests.e2e.objects import container, deployment, node, pod, running
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
    delete_events(stage.api)
    stage.put({"namespaces": [], "nodes": [node("n1", cpu="2")], "pods": [low]})
    yield
    stage.clear()


def test_a_victim_reads_for_whom_it_goes_also_when_it_is_gone(stage: Stage, plane: ControlPlane) -> None:
    spec = {"priority": 100, "containers": [container("1500m")]}
    high = {"metadata": {"name": "high", "namespace": "default"}, "spec": spec}
    stage.create(stage.incoming(high))
    wait_until(lambda: stage.api.get("Pod", "low")["metadata"].get("deletionTimestamp"), 10, "low is told to end")
    wait_until(lambda: "Preempted" in why(plane, "low")["reported"], 10, "the Event is written")
    answer = why(plane, "low")
    assert answer["state"] == "preempted"
    assert (
        messages(answer)["preempted"]
        == "preempted on n1 by default/high (preemptlowerpriority-100, priority 100; its own is 0)"
    )
    assert answer["missing"] == []
    record(plane, stage, "low-preempted")
    waits = why(plane, "high")
    assert messages(waits)["waits-for-termination"].startswith("waits for 1 Pod of lower priority to terminate on n1")
    stage.api.delete(stage.api.get("Pod", "low"), gracePeriodSeconds="0")
    wait_until(lambda: why(plane, "low")["state"] == "gone", 10, "low is gone")
    assert messages(why(plane, "low")) == {
        "preempted": "preempted on n1 by default/high (preemptlowerpriority-100, priority 100)"
    }


CONTROLLERS = (
    "deployment",
    "replicaset",
    "statefulset",
    "job",
    "disruption",
    "taint-eviction",
    "device-taint-eviction",
    "garbage-collector",
    "daemonset",
)
"""The DaemonSet controller indexes Pods by node. Without this index, taint eviction misses the Pods of a node that gets
a taint (`handleNodeUpdate` in taint_eviction.go)."""


def start_controllers(plane: ControlPlane) -> None:
    plane.start_controllers(*(f"{name}-controller" for name in CONTROLLERS))


@pytest.fixture
def controllers(plane: ControlPlane, stage: Stage) -> Iterator[None]:
    """Without the workloads that other tests leave: no controller ran there, and now their Pods would fill the node."""
    for kind in ("DaemonSet", "Deployment", "ReplicaSet", "Job"):
        stage.api.delete_all(kind, "default")
    start_controllers(plane)
    yield
    plane.processes.stop("kube-controller-manager")


def test_a_no_execute_taint_names_the_taint(stage: Stage, plane: ControlPlane, controllers: None) -> None:
    taint = {"key": "node.kubernetes.io/out-of-order", "effect": "NoExecute"}
    stage.api.patch(stage.api.get("Node", "n1"), {"spec": {"taints": [taint]}})
    answer = answered(plane, stage, "low", "taint-evicted")
    assert messages(answer)["taint-evicted"] == "deleted on n1 because of the NoExecute taint " + taint["key"]
    stage.api.delete(stage.api.get("Pod", "low"), gracePeriodSeconds="0")
    wait_until(lambda: why(plane, "low")["state"] == "gone", 10, "low is gone")
    assert "taint-evicted" in messages(why(plane, "low"))


def device(**more: Any) -> Obj:
    """A ResourceSlice with one device on n1."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0", **more}]}
    return {**identity("ResourceSlice", "n1-gpu"), "spec": spec}


def test_a_device_taint_names_the_cause(stage: Stage, plane: ControlPlane, controllers: None) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    held = [
        {**identity("DeviceClass", "gpu"), "spec": {}},
        stage.api.create(device()),
        {**identity("ResourceClaim", "gpu"), "spec": {"devices": {"requests": requests}}},
    ]
    stage.api.create(held[0])
    stage.api.create(held[2])
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    stage.api.create(pod("training", **spec))
    wait_until(lambda: stage.api.get("Pod", "training")["spec"].get("nodeName"), 30, "training has a node")
    tainted = device(taints=[{"key": "example.com/broken", "effect": "NoExecute"}])
    stage.api.patch(held[1], {"spec": tainted["spec"]})
    answer = answered(plane, stage, "training", "device-taint-evicted")
    told = "deleted on n1: a device that it uses has a NoExecute taint"
    assert messages(answer)["device-taint-evicted"] == told
    stage.api.delete(stage.api.get("Pod", "training"), gracePeriodSeconds="0")
    wait_until(lambda: why(plane, "training")["state"] == "gone", 30, "training is gone")
    assert messages(why(plane, "training"))["device-taint-evicted"] == told
    for obj in held:
        stage.api.delete(obj)


def stateful_set(stage: Stage) -> Obj:
    """A StatefulSet with one Pod, which runs on n1 instead of low."""
    stage.api.delete(stage.api.get("Pod", "low"), gracePeriodSeconds="0")
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container("1500m")]}}
    spec = {"serviceName": "db", "selector": {"matchLabels": labels}, "template": template}
    made = stage.api.create({**identity("StatefulSet", "db"), "spec": spec})
    wait_until(lambda: any(each["spec"].get("nodeName") for each in of_db(stage)), 30, "db-0 has a node")
    return made


def of_db(stage: Stage) -> list[Obj]:
    return [each for each in stage.api.list("Pod", "default") if each["metadata"]["name"] == "db-0"]


def replaced(stage: Stage) -> None:
    """Wait until the Pod of the StatefulSet is deleted, end it as its kubelet does, and wait for the next one."""
    wait_until(lambda: any("deletionTimestamp" in each["metadata"] for each in of_db(stage)), 30, "db-0 is deleted")
    (old,) = of_db(stage)
    stage.api.delete(old, gracePeriodSeconds="0")
    wait_until(lambda: old["metadata"]["uid"] not in [e["metadata"]["uid"] for e in of_db(stage)] and of_db(stage), 30,
               "db-0 is created again")  # fmt: skip


def test_the_next_pod_of_a_stateful_set_names_the_preemption(
    stage: Stage, plane: ControlPlane, controllers: None
) -> None:
    made = stateful_set(stage)
    high = {"metadata": {"name": "high", "namespace": "default"}}
    stage.create(stage.incoming({**high, "spec": {"priority": 100, "containers": [container("1500m")]}}))
    replaced(stage)
    answer = answered(plane, stage, "db-0", "former-preempted")
    told = "the previous Pod of this name was preempted on n1 by default/high (preemptlowerpriority-100, priority 100)"
    assert messages(answer)["former-preempted"] == told
    stage.api.delete(made, propagationPolicy="Background")


def test_the_next_pod_of_a_stateful_set_names_the_taint(stage: Stage, plane: ControlPlane, controllers: None) -> None:
    made = stateful_set(stage)
    taint = {"key": "node.kubernetes.io/out-of-order", "effect": "NoExecute"}
    stage.api.patch(stage.api.get("Node", "n1"), {"spec": {"taints": [taint]}})
    replaced(stage)
    answer = answered(plane, stage, "db-0", "former-ended")
    told = f"the previous Pod of this name: deleted on n1 because of the NoExecute taint {taint['key']}"
    assert messages(answer)["former-ended"] == told
    stage.api.delete(made, propagationPolicy="Background")


def test_a_condition_of_another_component_is_quoted(stage: Stage, plane: ControlPlane) -> None:
    told = {"reason": "Rebalanced", "message": "moved by a descheduler", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    condition = {"type": "DisruptionTarget", "status": "True", **told}
    stage.api.patch(stage.api.get("Pod", "low"), {"status": {"conditions": [condition]}}, "status")
    answer = answered(plane, stage, "low", "disrupted")
    assert messages(answer)["disrupted"] == "disrupted on n1: Rebalanced: moved by a descheduler"


def evict(stage: Stage, name: str) -> None:
    path = f"api/v1/namespaces/default/pods/{name}/eviction"
    metadata = {"name": name, "namespace": "default"}
    stage.api.do("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})


def test_a_drain_is_refused_by_the_budget_and_then_evicts(stage: Stage, plane: ControlPlane, controllers: None) -> None:
    stage.api.patch(stage.api.get("Pod", "low"), {"metadata": {"labels": {"app": "low"}}})
    stage.api.patch(stage.api.get("Node", "n1"), {"spec": {"unschedulable": True}})
    budget = identity("PodDisruptionBudget", "b")
    stage.api.create({**budget, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}}})
    answered(plane, stage, "low", "drain-blocked")
    with pytest.raises(Refused):
        evict(stage, "low")
    stage.api.delete(budget)
    wait_until(lambda: not stage.api.list("PodDisruptionBudget", "default"), 10, "the PodDisruptionBudget is gone")
    evict(stage, "low")
    answer = answered(plane, stage, "low", "evicted-by-api")
    assert "n1 is cordoned" in messages(answer)["evicted-by-api"]


def test_kubectl_drain_evicts(stage: Stage, plane: ControlPlane) -> None:
    stage.api.patch(stage.api.get("Pod", "low"), {"metadata": {"labels": {"app": "low"}}})
    drained = plane.kubectl("drain", "n1", "--force", "--timeout=2s", "--grace-period=300", "--pod-selector=app=low")
    assert "evicting pod default/low" in drained.out + drained.err
    answer = answered(plane, stage, "low", "evicted-by-api")
    assert "n1 is cordoned" in messages(answer)["evicted-by-api"]


def names_of(stage: Stage, workload: str) -> set[str]:
    """The names of a workload's Pods."""
    names = {each["metadata"]["name"] for each in stage.api.list("Pod", "default")}
    return {name for name in names if name.startswith(f"{workload}-")}


def test_a_scale_down_names_controller_and_deployment(stage: Stage, plane: ControlPlane, controllers: None) -> None:
    made = stage.api.create(deployment("web", replicas=2))

    def assigned() -> bool:
        # The API server removes a Pod without a node at once: it would never be seen terminating.
        mine = (each for each in stage.api.list("Pod", "default") if each["metadata"]["name"] in names_of(stage, "web"))
        return sum("nodeName" in each["spec"] for each in mine) == 2

    wait_until(assigned, 30, "the Pods of web have a node")
    stage.api.patch(made, {"spec": {"replicas": 1}})

    def terminating() -> list[Obj]:
        return [each for each in stage.api.list("Pod", "default") if "deletionTimestamp" in each["metadata"]]

    wait_until(terminating, 30, "a Pod of web is deleted")
    (deleted,) = terminating()
    stage.api.delete(deleted, gracePeriodSeconds="0")  # as its kubelet does in the end
    name = deleted["metadata"]["name"]
    answer = answered(plane, stage, name, "deleted-by-controller", "scaled")
    assert messages(answer)["scaled"].startswith("a scale-down of Deployment web: Scaled down replica set web-")
    stage.api.delete(made, propagationPolicy="Foreground")


def test_a_finalizer_keeps_a_deleted_pod(stage: Stage, plane: ControlPlane) -> None:
    low = stage.api.get("Pod", "low")
    stage.api.patch(low, {"metadata": {"finalizers": ["example.com/hold"]}})
    stage.api.delete(low, gracePeriodSeconds="0")
    answer = answered(plane, stage, "low", "deleted", "stuck-terminating")
    message = messages(answer)["stuck-terminating"]
    assert message.startswith("exists as long as it has finalizer example.com/hold; deletion requested at ")
    stage.api.patch(low, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("policy", [True, False])
def test_an_evicted_pod_fails_its_job(policy: bool, stage: Stage, plane: ControlPlane, controllers: None) -> None:
    template = {"spec": {**pod("x")["spec"], "restartPolicy": "Never", "nodeName": "n1"}}
    rule = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    more = {"podFailurePolicy": {"rules": [rule]}} if policy else {}
    name = "policy" if policy else "night"
    job = stage.api.create({**identity("Job", name), "spec": {"backoffLimit": 0, "template": template, **more}})
    wait_until(lambda: names_of(stage, name), 30, "the Pod of the Job is created")
    (mine,) = (each for each in stage.api.list("Pod", "default") if each["metadata"]["name"] in names_of(stage, name))
    low = "The node was low on resource: memory. "
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": low}
    status = {"phase": "Failed", "reason": "Evicted", "message": low, "conditions": [condition]}
    stage.api.patch(mine, {"status": status}, "status")
    answer = answered(plane, stage, mine["metadata"]["name"], "node-pressure-evicted", "job-failed")
    expected = "PodFailurePolicy because of this Pod" if policy else "BackoffLimitExceeded (backoffLimit 0)"
    assert expected in messages(answer)["job-failed"]
    stage.api.delete(job, propagationPolicy="Background")
