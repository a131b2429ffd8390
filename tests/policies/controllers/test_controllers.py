"""What each controller does next, in the cases that people meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.policies.kubernetes.controllers.daemon_set import triggers_sync
from forewarn.policies.kubernetes.controllers.disruption import PdbStatus, pdb_status
from forewarn.policies.kubernetes.controllers.replica_set import ReplicaSetStatus
from forewarn.policies.kubernetes.controllers.taint_eviction import collect
from forewarn.policies.kubernetes.controllers.view import CreatePod, DeletePod, Report, Requeue
from forewarn.policies.kubernetes.objects.pod import Owner
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.policies.controllers.world import World, with_image, workload


def test_a_replica_set_replaces_a_pod_as_soon_as_it_is_told_to_end() -> None:
    world = World()
    key = world.add(workload("ReplicaSet", replicas=2))
    world.step(key)
    world.run()
    assert world.names() == ["w-1", "w-2"]
    world.apply(DeletePod("default", "w-1"))
    world.step(key)
    assert world.names() == ["w-2", "w-3"]
    assert ("default", "w-1") in world.pods


def test_a_replica_set_makes_500_pods_in_one_sync() -> None:
    world = World()
    key = world.add(workload("ReplicaSet", replicas=2**31 - 1))
    assert sum(isinstance(action, CreatePod) for action in world.step(key)) == 500


def test_scaling_down_takes_waiting_pods_then_the_cheap_then_crowded_nodes_then_the_young() -> None:
    world = World()
    key = world.add(workload("ReplicaSet", replicas=6))
    world.step(key)
    world.run("w-1", "w-2", node="a")
    world.run("w-3", node="b")
    world.run("w-4", node="c")
    world.run("w-5", node="d")
    world.change("w-1", ready=1.0)
    world.change("w-3", ready=900.0)
    world.change("w-4", ready=1.0, deletion_cost=-1)
    world.change("w-5", ready=1.0)
    for replicas, left in ((5, "12345"), (4, "1235"), (3, "135"), (2, "15")):
        world.add(workload("ReplicaSet", replicas=replicas))
        world.step(key)
        assert "".join(name[2:] for name in world.names()) == left


def test_a_stateful_set_waits_for_each_pod_and_makes_one_again_when_it_is_gone() -> None:
    world = World()
    key = world.add(workload("StatefulSet", replicas=2))
    world.step(key)
    world.step(key)
    assert world.names() == ["w-0"]
    world.run()
    world.step(key)
    assert world.names() == ["w-0", "w-1"]
    world.run()
    world.apply(DeletePod("default", "w-0"))
    world.step(key)
    assert world.names() == ["w-1"]
    world.end()
    world.step(key)
    assert world.names() == ["w-0", "w-1"]


def test_a_parallel_stateful_set_makes_all_at_once_from_its_first_ordinal() -> None:
    world = World()
    key = world.add(workload("StatefulSet", replicas=3, podManagementPolicy="Parallel", ordinals={"start": 5}))
    world.step(key)
    assert world.names() == ["w-5", "w-6", "w-7"]


@pytest.mark.parametrize(("partition", "kept"), [(0, 0), (2, 2)])
def test_a_stateful_set_rolls_from_the_highest_ordinal_down_to_its_partition(partition: int, kept: int) -> None:
    world = World()
    old = workload("StatefulSet", replicas=3, updateStrategy={"rollingUpdate": {"partition": partition}})
    key = world.add(old)
    for _ in range(3):
        world.step(key)
        world.run()
    world.step(key)
    world.add(with_image(old, "new"))
    order: list[str] = []
    for _ in range(12):
        order += [action.name for action in world.step(key) if isinstance(action, DeletePod)]
        world.end()
        world.run()
    assert order == ["w-2", "w-1", "w-0"][: 3 - kept]
    assert len({pod.pod.labels["controller-revision-hash"] for pod in world.pods.values()}) == (2 if kept else 1)


OFF, ON = Semantics(36), Semantics(37)
ON_IN_36 = OFF.with_gates(MaxUnavailableStatefulSet=True)


@pytest.mark.parametrize(
    ("semantics", "policy", "limit", "unavailable", "deleted"),
    [
        (OFF, "OrderedReady", 2, (), ["w-4"]),
        (ON, "OrderedReady", 2, (), ["w-4", "w-3"]),
        (ON, "OrderedReady", None, (), ["w-4"]),
        (ON, "OrderedReady", "50%", (), ["w-4", "w-3"]),
        (ON, "OrderedReady", "1%", (), ["w-4"]),
        (ON, "OrderedReady", 9, (), ["w-4", "w-3", "w-2", "w-1"]),
        (ON.with_gates(MaxUnavailableStatefulSet=False), "OrderedReady", 2, (), ["w-4"]),
        (ON, "Parallel", 2, (), ["w-4", "w-3"]),
        (OFF, "Parallel", 2, ("w-2",), ["w-4"]),
        (ON_IN_36, "Parallel", 2, ("w-2",), ["w-4"]),
        (ON, "Parallel", 2, ("w-2",), ["w-2", "w-4"]),
        (ON_IN_36, "Parallel", 2, ("w-2", "w-3"), []),
        (ON, "Parallel", 2, ("w-2", "w-3"), ["w-3", "w-2"]),
        (ON, "Parallel", 2, ("w-0", "w-3"), ["w-3"]),
    ],
)
def test_a_rollout_of_a_stateful_set_replaces_max_unavailable_pods(
    semantics: Semantics, policy: str, limit: int | str | None, unavailable: tuple[str, ...], deleted: list[str]
) -> None:
    """With a partition of 1. What kube-controller-manager of the release deletes in its first sync."""
    world = World(semantics=semantics)
    rolling = {"partition": 1, **({} if limit is None else {"maxUnavailable": limit})}
    old = workload("StatefulSet", replicas=5, podManagementPolicy=policy, updateStrategy={"rollingUpdate": rolling})
    key = world.add(old)
    for _ in range(6):
        world.step(key)
        world.run()
    for name in unavailable:
        world.change(name, ready=None)
    world.add(with_image(old, "new"))
    assert [action.name for action in world.step(key) if isinstance(action, DeletePod)] == deleted
    before = world.names()
    assert [action for action in world.step(key) if isinstance(action, DeletePod)] == [], "they terminate"
    world.end()
    for _ in range(20):
        world.step(key)
        world.run()
        world.end()
    assert world.names() == [f"w-{number}" for number in range(5)]
    assert len(before) == 5 - len(deleted)
    revisions = [pod.pod.labels["controller-revision-hash"] for _, pod in sorted(world.pods.items())]
    assert len({*revisions[1:]}) == 1
    assert revisions[0] != revisions[1]


def test_a_stateful_set_ends_nobody_while_a_higher_ordinal_waits() -> None:
    world = World()
    old = workload("StatefulSet", replicas=2)
    key = world.add(old)
    for _ in range(2):
        world.step(key)
        world.run()
    world.step(key)
    world.add(with_image(old, "new"))
    world.step(key)
    world.end()
    for _ in range(3):
        world.step(key)
    assert world.names() == ["w-0", "w-1"]
    assert world.pods["default", "w-1"].ready is None


def test_a_daemon_set_runs_where_taints_let_it_and_comes_again_when_the_old_pod_is_gone() -> None:
    world = World()
    world.add_node("a")
    world.add_node("b", taints=[{"key": "k", "effect": "NoSchedule"}])
    world.add_node(
        "c", unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    )
    key = world.add(workload("DaemonSet"))
    created = [action for action in world.step(key) if isinstance(action, CreatePod)]
    assert [sorted(t.names or ()) for p in created for t in p.pod.spec.node_affinity.required.terms] == [["a"], ["c"]]  # type: ignore[union-attr]
    world.run("w-1", node="a")
    world.run("w-2", node="c")
    world.apply(DeletePod("default", "w-1"))
    world.step(key)
    assert world.names() == ["w-2"]
    world.end()
    world.step(key)
    assert world.names() == ["w-2", "w-3"]


def test_a_daemon_set_deletes_waiting_pods_of_nodes_that_are_gone() -> None:
    world = World()
    world.add_node("a")
    key = world.add(workload("DaemonSet"))
    world.step(key)
    del world.node_table["a"]
    world.step(key)
    assert world.names() == []


def test_a_daemon_set_is_looked_at_for_a_node_where_a_pod_lacks_or_may_not_stay() -> None:
    """Source: `shouldIgnoreNodeUpdate`, `syncNodeUpdate`."""
    world = World()
    world.add_node("a")
    key, free = world.add(workload("DaemonSet")), world.node_table["a"]
    tainted = {}
    for effect in ("NoSchedule", "NoExecute"):
        world.add_node("a", taints=[{"key": "k", "effect": effect}])
        tainted[effect] = world.node_table["a"]
    labelled, grown = replace(free, labels={"x": "y"}), replace(free, unschedulable=True)
    assert triggers_sync(world, key, None, free)
    assert triggers_sync(world, key, free, labelled)
    assert not triggers_sync(world, key, free, grown)
    assert not triggers_sync(world, key, free, tainted["NoExecute"])
    world.node_table["a"] = free
    world.step(key)
    assert triggers_sync(world, key, free, labelled), "it waits, and is not on the node"
    world.run(node="a")
    assert not triggers_sync(world, key, free, labelled)
    assert not triggers_sync(world, key, free, tainted["NoSchedule"])
    assert triggers_sync(world, key, free, tainted["NoExecute"])
    (name,) = world.pods
    owner = Owner("DaemonSet", key[2], "", "apps.kruise.io/v1alpha1")
    world.pods[name] = replace(world.pods[name], pod=replace(world.pods[name].pod, owner=owner))
    assert triggers_sync(world, key, free, labelled), "the Pod of a DaemonSet of another API group"


def test_a_daemon_set_updates_one_node_at_a_time_by_default() -> None:
    world = World()
    for name in "abc":
        world.add_node(name)
    old = workload("DaemonSet")
    key = world.add(old)
    world.step(key)
    for number, name in enumerate("abc", 1):
        world.run(f"w-{number}", node=name)
    world.step(key)
    world.add(with_image(old, "new"))
    assert [a.name for a in world.step(key) if isinstance(a, DeletePod)] == ["w-1"]
    world.end()
    world.step(key)
    assert not [a for a in world.step(key) if isinstance(a, DeletePod)]
    world.run(node="a")
    assert [a.name for a in world.step(key) if isinstance(a, DeletePod)] == ["w-2"]


def test_a_daemon_set_that_surges_ends_the_old_pod_when_the_new_one_is_there() -> None:
    world = World()
    for name in "ab":
        world.add_node(name)
    old = workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    key = world.add(old)
    world.step(key)
    for number, name in enumerate("ab", 1):
        world.run(f"w-{number}", node=name)
    world.step(key)
    world.add(with_image(old, "new"))
    world.step(key)
    assert world.names() == ["w-1", "w-2", "w-3"]
    world.run(node="a")
    world.step(key)
    assert world.names() == ["w-2", "w-3"]


def test_a_job_makes_a_failed_pod_again_after_ten_then_twenty_seconds() -> None:
    world = World()
    key = world.add(workload("Job", parallelism=1))
    world.step(key)
    for failures, backoff in ((1, 10), (2, 20)):
        world.run()
        world.now += 0.5
        world.apply(DeletePod("default", f"w-{failures}"))
        world.now += 1.0
        requeued = [action.at for action in world.step(key) if isinstance(action, Requeue)]
        assert requeued == [int(world.now - 1.0) + backoff]
        world.now = requeued[0]
        world.end()
        world.step(key)
        assert world.names() == [f"w-{failures + 1}"]


def test_the_job_controller_leaves_jobs_of_another_controller_alone() -> None:
    world = World()
    assert not world.step(world.add(workload("Job", parallelism=1, managedBy="kueue.x-k8s.io/multikueue")))


def test_a_job_counts_a_pod_that_was_gone_before_it_looked() -> None:
    world = World()
    key = world.add(workload("Job", parallelism=1, backoffLimit=0))
    world.step(key)
    world.run()
    world.apply(DeletePod("default", "w-1"))
    world.end()
    reports = [action for action in world.step(key) if isinstance(action, Report)]
    assert [report.reason for report in reports] == ["Failed"]
    assert not world.gone
    assert not world.step(key)


def test_a_job_that_replaces_failed_pods_only_waits_until_they_are_gone() -> None:
    world = World()
    key = world.add(workload("Job", parallelism=1, podReplacementPolicy="Failed"))
    world.step(key)
    world.run()
    world.apply(DeletePod("default", "w-1"))
    world.now += 20
    world.step(key)
    assert world.names() == []
    world.end()
    world.step(key)
    assert world.names() == ["w-2"]


def test_a_job_does_not_count_preempted_pods_that_its_policy_ignores() -> None:
    world = World()
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    key = world.add(workload("Job", parallelism=1, backoffLimit=0, podFailurePolicy={"rules": rules}))
    world.step(key)
    world.run()
    world.change("w-1", pod=replace(world.pods["default", "w-1"].pod, preempted=True))
    world.apply(DeletePod("default", "w-1"))
    world.end()
    world.now += 20
    world.step(key)
    assert world.names() == ["w-2"]


def test_an_indexed_job_makes_the_index_again_that_is_missing() -> None:
    world = World()
    key = world.add(workload("Job", parallelism=2, completions=3, completionMode="Indexed"))
    world.step(key)
    world.run()
    assert world.names() == ["w-0-1", "w-1-2"]
    world.change("w-0-1", pod=replace(world.pods["default", "w-0-1"].pod, phase="Succeeded"), finished=world.now)
    world.step(key)
    assert world.names() == ["w-0-1", "w-1-2", "w-2-3"]


@pytest.mark.parametrize(
    ("strategy", "first"),
    [
        ({}, (5, 3)),  # 25 % of 4, each way
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, (4, 3)),
        ({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}, (6, 4)),
        ({"type": "Recreate"}, (0, 0)),
    ],
)
def test_a_rollout_begins_with_its_surge_and_takes_what_may_be_missing(
    strategy: dict[str, object], first: tuple[int, int]
) -> None:
    """(pods that are not ending, old ones among them) before any new one is ready or any old one gone."""
    world = World()
    old = workload("Deployment", replicas=4, strategy=strategy)
    key = world.add(old)
    world.settle(key)
    world.run()
    world.settle(key)
    world.add(with_image(old, "new"))
    world.settle(key)
    ready = [pod for pod in world.pods.values() if pod.ready is not None and not pod.terminating]
    assert (len(world.names()), len(ready)) == first


def test_a_rollout_ends_with_new_pods_alone() -> None:
    world = World()
    old = workload("Deployment", replicas=4)
    key = world.add(old)
    world.settle(key)
    world.run()
    world.settle(key)
    world.add(with_image(old, "new"))
    for _ in range(20):
        world.settle(key)
        world.end()
        world.run()
    sets = {state.key[2]: state.status for state in world.owned(key)}
    assert sorted(status.replicas for status in sets.values()) == [0, 4]
    assert len(world.names()) == 4


def test_scale_and_template_at_once_scales_the_old_template_first() -> None:
    world = World()
    old = workload("Deployment", replicas=4)
    key = world.add(old)
    world.settle(key)
    world.run()
    world.settle(key)
    new = with_image(old, "new")
    world.add({**new, "spec": {**new["spec"], "replicas": 8}})
    first = world.step(key)
    (only,) = world.owned(key)
    assert only.object["spec"]["replicas"] == 8
    assert not any(isinstance(action, CreatePod) for action in first)


def test_a_stalled_rollout_is_told_once() -> None:
    world = World()
    key = world.add(workload("Deployment", replicas=1, progressDeadlineSeconds=60))
    world.settle(key)
    world.now += 60
    assert [a.reason for a in world.step(key) if isinstance(a, Report)] == ["ProgressDeadlineExceeded"]
    world.now += 60
    assert not [a for a in world.step(key) if isinstance(a, Report)]


PDB = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"}}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("ReplicaSet", {"minAvailable": 1}, PdbStatus(2, 3, 1, 4)),
        ("ReplicaSet", {"minAvailable": "50%"}, PdbStatus(1, 3, 2, 4)),
        ("ReplicaSet", {"maxUnavailable": "30%"}, PdbStatus(1, 3, 2, 4)),
        ("ReplicaSet", {"maxUnavailable": 0}, PdbStatus(0, 3, 4, 4)),
        ("Job", {"minAvailable": 1}, PdbStatus(2, 3, 1, 4)),
        ("Job", {"maxUnavailable": 1}, PdbStatus(0, 0, 0, 0)),
    ],
)
def test_a_budget_counts_healthy_pods_against_what_must_be(
    kind: str, spec: dict[str, object], expected: PdbStatus
) -> None:
    world = World()
    world.step(world.add(workload(kind, **{"replicas" if kind == "ReplicaSet" else "parallelism": 4})))
    world.run("w-1", "w-2", "w-3")
    key = world.add({**PDB, "spec": {"selector": {"matchLabels": {"app": "w"}}, **spec}})
    assert pdb_status(world, world.objects[key]) == expected


def test_pods_of_a_removed_node_are_collected_in_the_third_round_after_it_was_missed() -> None:
    world = World()
    key = world.add(workload("ReplicaSet", replicas=1))
    world.step(key)
    world.run(node="lost")
    quarantine: dict[str, float] = {}
    rounds = []
    for _ in range(4):
        deletes, found = collect(world.pods.values(), ["n"], quarantine, world.now)
        quarantine = dict(found)
        rounds.append([delete.name for delete in deletes])
        world.now += 20
    assert rounds == [[], [], [], ["w-1"]]


def test_what_a_replica_set_counts() -> None:
    world = World()
    key = world.add(workload("ReplicaSet", replicas=2, minReadySeconds=10))
    world.step(key)
    world.run("w-1")
    actions = world.step(key)
    state = world.objects[key]
    assert state.status == ReplicaSetStatus(2, 1, 0, state.object["spec"])
    assert [action.at for action in actions if isinstance(action, Requeue)] == [1010.0]
