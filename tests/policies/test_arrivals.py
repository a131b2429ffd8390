"""A workload brings as many pods as its controller would make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.controllers.changes import Arrivals, arrivals, present
from forewarn.policies.kubernetes.controllers.own_pods import count_daemons, new_pods
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.pod import Pod
from tests.builders import Made, cluster, make_node, make_pod


def workload(kind: str, api_version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "team"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def rolling(surge: Any, **spec: Any) -> dict[str, Any]:
    return workload("Deployment", strategy={"rollingUpdate": {"maxSurge": surge}}, **spec)


def cron(**spec: Any) -> dict[str, Any]:
    return workload("CronJob", "batch/v1", **spec)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (workload("Deployment"), Arrivals(1, 1)),
        (workload("Deployment", replicas=10), Arrivals(10, 3)),
        (workload("Deployment", replicas=0), Arrivals(0, 0)),
        (workload("Deployment", replicas=10, strategy={"type": "Recreate"}), Arrivals(10)),
        (rolling(2, replicas=10), Arrivals(10, 2)),
        (rolling("21%", replicas=10), Arrivals(10, 3)),
        (rolling("0%", replicas=10), Arrivals(10)),
        (rolling("300%", replicas=10), Arrivals(10, 10)),
        (workload("StatefulSet", replicas=3), Arrivals(3)),
        (workload("ReplicaSet", replicas=3), Arrivals(3)),
        (workload("ReplicationController", "v1", replicas=3), Arrivals(3)),
        (workload("Rollout", "argoproj.io/v1alpha1", replicas=3), Arrivals(3)),
        (workload("PodTemplate", "v1"), Arrivals(0)),
        (workload("Job", "batch/v1"), Arrivals(1)),
        (workload("Job", "batch/v1", parallelism=5, completions=3), Arrivals(3)),
        (workload("Job", "batch/v1", parallelism=5), Arrivals(5)),
        (workload("Job", "batch/v1", completions=5), Arrivals(1)),
        (workload("Job", "batch/v1", parallelism=5, suspend=True), Arrivals(0)),
        (cron(jobTemplate={"spec": {"parallelism": 4}}), Arrivals(4)),
        (cron(suspend=True), Arrivals(0)),
        (cron(jobTemplate={"spec": {"suspend": True}}), Arrivals(0)),
        (workload("DaemonSet"), Arrivals(1)),
    ],
)
def test_a_workload_asks_for_as_many_pods_as_its_controller_makes(obj: dict[str, Any], expected: Arrivals) -> None:
    assert arrivals(obj, {}, None, None) == expected


@pytest.mark.parametrize("surge", ["a%", "5", True, [], "%", "-1%"])
def test_a_surge_that_cannot_be_read_is_named(surge: Any) -> None:
    with pytest.raises(
        InvalidObject, match=r"spec\.strategy\.rollingUpdate\.maxSurge: must be a whole number or a perc"
    ):
        arrivals(rolling(surge), {}, None, None)


def test_a_daemon_set_asks_for_a_pod_on_each_node_that_lets_it_in() -> None:
    nodes = [make_node("a").label("disk", "ssd"), make_node("b").label("disk", "ssd"), make_node("c")]
    nodes[1].taint("no")
    state = cluster(*nodes)
    obj = workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": "50%"}})
    assert arrivals(obj, {"spec": {"containers": []}}, None, state) == Arrivals(2, 1)
    assert arrivals(obj, {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": []}}, None, state) == Arrivals(1, 1)


def test_replicas_that_are_left_out_stay_as_they_are() -> None:
    assert arrivals(workload("Deployment"), {}, workload("Deployment", replicas=8), None) == Arrivals(8, 2)


def test_the_pods_that_are_there_are_counted_by_owner_or_selector() -> None:
    obj = workload("Deployment", replicas=5, selector={"matchLabels": {"app": "w"}})
    pods = [make_pod(name, "team").labels(app="w") for name in "ab"]
    state = cluster(*pods, make_pod("c", "other").labels(app="w"), make_pod("d", "team").labels(app="x"))
    assert present(obj, obj, {}, state) == 2


@pytest.mark.parametrize(
    ("kind", "status"),
    [("Deployment", {"replicas": 7}), ("DaemonSet", {"currentNumberScheduled": 7}), ("StatefulSet", {"replicas": 7})],
)
def test_the_status_of_the_stored_object_is_believed(kind: str, status: dict[str, int]) -> None:
    old = {**workload(kind), "status": status}
    assert present(workload(kind), old, {}, cluster(make_pod("a", "team"))) == 7


def test_a_count_that_a_controller_left_out_is_zero() -> None:
    old = {**workload("Deployment", replicas=5), "status": {"observedGeneration": 1, "unavailableReplicas": 5}}
    cache = Cache()
    assert cache.add(old)
    state = cache.snapshot()
    (stored,) = state.workloads.values()
    assert stored.object["status"] == {"observedGeneration": 1}
    assert present(workload("Deployment", replicas=5), stored.object, {}, state) == 0


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@given(st.lists(st.tuples(st.sampled_from(["ssd", "hdd", ""]), st.booleans()), max_size=6), st.data())
def test_daemons_are_made_as_their_controller_makes_them_as_many_as_are_counted(
    nodes: list[tuple[str, bool]], data: st.DataObject
) -> None:
    made = [make_node(f"n{number}") for number in range(len(nodes))]
    for node, (disk, tainted) in zip(made, nodes, strict=True):
        if disk:
            node.label("disk", disk)
        if tainted:
            node.taint("no")
    expression = {"key": "disk", "operator": data.draw(st.sampled_from(["In", "NotIn"])), "values": ["ssd"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    possible: list[dict[str, Any]] = [{"matchExpressions": [expression]}, {"matchFields": [field]}, {}]
    terms = data.draw(st.lists(st.sampled_from(possible), max_size=2))
    required = {_REQUIRED: {"nodeSelectorTerms": terms}}
    template = {"spec": {"containers": [], "affinity": {"nodeAffinity": required}}}
    state, obj = cluster(*made), workload("DaemonSet")
    pods = new_pods(state, obj, template).pods
    assert count_daemons(state, obj, template) == len(pods)
    for pod in pods:
        here = [{"key": "metadata.name", "operator": "In", "values": [pod.name.removeprefix("w-")]}]
        named = {
            **required,
            _REQUIRED: {"nodeSelectorTerms": [{**term, "matchFields": here} for term in terms or [{}]]},
        }
        want = Pod.from_api({"spec": {"affinity": {"nodeAffinity": named}}, "metadata": {"name": pod.name}})
        assert pod.spec.node_affinity == want.spec.node_affinity


def test_a_state_without_pods_is_taken_to_run_what_it_asks_for() -> None:
    old = workload("Deployment", replicas=5)
    assert present(workload("Deployment", replicas=9), old, {}, Cache().snapshot()) == 5
    assert present(workload("Deployment", replicas=9), old, {}, None) == 5


@pytest.mark.parametrize(("policy", "count"), [("Allow", 0), (None, 0), ("Forbid", 1), ("Replace", 1)])
def test_a_run_comes_beside_the_present_one_where_the_policy_allows_it(policy: str | None, count: int) -> None:
    obj = cron(concurrencyPolicy=policy, jobTemplate={"spec": {"parallelism": 1}})
    job = Made("batch/v1", "Job", "w-1", "team").metadata(
        ownerReferences=[{"apiVersion": "batch/v1", "kind": "CronJob", "name": "w", "controller": True}]
    )
    pod = make_pod("w-1-x", "team").metadata(
        ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "w-1", "controller": True}]
    )
    assert present(obj, obj, {}, cluster(job, pod)) == count
