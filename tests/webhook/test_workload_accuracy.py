"""Predictions for workloads against the end of their rollouts: what is kept, when it is compared, and that memory is
bounded."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from forewarn.policies.prediction.forecast.why_not import MAX_PENDING
from forewarn.webhook import workload_accuracy as module
from forewarn.webhook.accuracy import Accuracy, Expectation, expectation_of
from forewarn.webhook.workload_accuracy import (
    MAX_PODS,
    MAX_SECONDS,
    QUIET,
    SLOW,
    WORKLOAD_RESULTS,
    RecordedVictim,
    WorkloadAccuracy,
    WorkloadExpectation,
    workload_of,
)
from tests.builders import make_storage_class
from tests.cases import cases
from tests.webhook.test_accuracy import named_node, new_pod, placed, preempted, serving_table, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable

Obj = dict[str, Any]
KEY = ("default", "Deployment", "web")


def deployment(replicas: int = 2, cpu: str = "2", priority: int = 100, name: str = "web", **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"app": name}}, "spec": new_pod(cpu=cpu, priority=priority)["spec"]}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def of(kind: str, name: str, pod: Obj, hash_: str = "", group: str = "apps") -> Obj:
    """The Pod of a workload."""
    reference = {"apiVersion": f"{group}/v1", "kind": kind, "name": name, "uid": "o", "controller": True}
    labels = {"app": name} | ({"pod-template-hash": hash_} if hash_ else {})
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference], "labels": labels}}


def of_web(name: str, node: str = "", nominated: str = "", hash_: str = "5d8f", **status: Any) -> Obj:
    pod = of("ReplicaSet", f"web-{hash_}", new_pod(name), hash_)
    pod["spec"] |= {"nodeName": node} if node else {}
    ready = {"type": "Ready", "status": "True"}
    found: Obj = {"phase": "Running", "conditions": [ready]} if node else {"phase": "Pending"}
    return {**pod, "status": {**found, **({"nominatedNodeName": nominated} if nominated else {}), **status}}


def expected(obj: Obj, *objects: Obj, old: Obj | None = None) -> WorkloadExpectation:
    subject = ReviewedObject(obj, Operation.UPDATE if old else Operation.CREATE, old=old, namespace="default")
    found = expectation_of(subject, impact_of(subject, state_of(*objects), Config(), lambda: False))
    assert isinstance(found, WorkloadExpectation)
    return found


class Scene:
    """A cache that reports its changes, as the one that follows an API server does, and a clock."""

    def __init__(self, *objects: Obj) -> None:
        self.now, self.counted = 1000.0, Counter[str]()
        count = self.counted.update
        self.accuracy = Accuracy(
            clock=lambda: self.now, wall=lambda: 1.9e9, count_workload=lambda result: count([result])
        )
        self.cache = Cache(self.accuracy.changed)
        self.objects: dict[str, Obj] = {}
        self.watch(*objects)
        self.now += 10

    def admit(self, obj: Obj, old: Obj | None = None) -> None:
        """Predict by what is there now; then it is stored."""
        self.accuracy.expect(expected(obj, *self.objects.values(), old=old), self.now)
        self.watch(obj)

    def watch(self, *objects: Obj) -> None:
        for obj in objects:
            self.now += 0.01
            self.cache.add(obj)
            self.objects[f"{obj['kind']}/{obj['metadata']['name']}"] = obj

    def deleted(self, *names: str) -> None:
        for name in names:
            self.now += 0.01
            self.cache.remove(self.objects.pop(name))

    def result(self, seconds: float = QUIET + 0.1) -> str:
        """The one result that there is after so many seconds; empty if there is none."""
        self.now += seconds
        self.accuracy.settle()
        return next(self.counted.elements(), "")

    @property
    def table(self) -> Obj:
        return {**self.accuracy.table()["workloads"]}

    @property
    def example(self) -> Obj:
        (found,) = self.table["examples"]
        made: Obj = found
        return made


FULL = (named_node("a"), named_node("b"), placed("x", "a", "3"), placed("y", "b", "3", 500))


# What is kept


def test_the_end_of_a_rollout_is_kept_with_its_victims() -> None:
    found = expected(deployment(3), *FULL)
    assert found == WorkloadExpectation(KEY, 2, 1, (RecordedVictim("default/x", 0),), 1, 0)
    assert str(found) == "2 placed, 1 Pending, preempts default/x"
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_other_workloads_are_kept_too(kind: str) -> None:
    assert expected({**deployment(2, podManagementPolicy="Parallel"), "kind": kind}, *FULL).key[1] == kind


def test_a_replica_set_is_kept_as_a_part_of_its_deployment() -> None:
    owned = of("Deployment", "web", {**deployment(), "kind": "ReplicaSet"})
    subject = ReviewedObject(owned, namespace="default")
    assert expectation_of(subject, impact_of(subject, state_of(*FULL), Config(), lambda: False)) is None


def test_time_until_pods_count_as_available_is_waited_for() -> None:
    assert expected(deployment(1, minReadySeconds=60), *FULL).quiet == QUIET + 60
    assert expected(deployment(1, minReadySeconds=10**6), *FULL).quiet == QUIET + 300


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        (of_web("web-5d8f-1"), KEY),
        (of("ReplicaSet", "web-5d8f", new_pod("p")), ("default", "ReplicaSet", "web-5d8f")),
        (of("StatefulSet", "db", new_pod("db-0")), ("default", "StatefulSet", "db")),
        (of("DaemonSet", "ds", new_pod("p")), ("default", "DaemonSet", "ds")),
        (of("DaemonSet", "ds", new_pod("p"), group="kruise.io"), ("default", "kruise.io/DaemonSet", "ds")),
        (of("Job", "once", new_pod("p"), group="batch"), ("default", "Job", "once")),
        (new_pod("alone"), ("default", "Pod", "alone")),
    ],
)
def test_the_workload_of_a_pod(pod: Obj, key: tuple[str, str, str]) -> None:
    (found,) = state_of(pod).pods.values()
    assert workload_of(found) == key


# What counts as what


def rolled_out(scene: Scene) -> None:
    """Three Pods of `web`: one fits, one preempts x, one stays Pending."""
    scene.watch(of_web("w1"), of_web("w2"), of_web("w3"), of_web("w1", "b"))
    scene.watch(of_web("w2", nominated="a"), preempted(FULL[2]))
    scene.deleted("Pod/x")
    scene.watch(of_web("w2", "a"))


ROOMY = (named_node("a", "3"), named_node("b"), placed("x", "a", "3"), placed("y", "b", "2", 500))


def test_a_rollout_that_ends_as_predicted_matches() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(3))
    rolled_out(scene)
    assert scene.result(QUIET / 2) == ""
    assert scene.table["open"] == 1
    assert scene.result() == "matched"
    results = {**dict.fromkeys(WORKLOAD_RESULTS, 0), "matched": 1}
    assert scene.table == {
        "results": results,
        "open": 0,
        "notJudged": {},
        "explainedBy": {},
        "preemptions": {"predicted": 1, "happened": 1, "both": 1},
        "examples": [],
    }


def test_one_more_pending_pod_is_wrong_and_the_example_says_how() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(3))
    scene.watch(of_web("w1", "b"), of_web("w2"), of_web("w3"))
    assert scene.result() == ""  # controllers may be late
    assert scene.result(SLOW) == "wrong"
    assert scene.example == {
        "result": "wrong",
        "workload": "Deployment default/web",
        "predicted": "2 placed, 1 Pending, preempts default/x",
        "happened": "1 placed, 2 Pending, no Pod preempted",
        "at": 1.9e9,
        "change": "",
    }


def test_a_victim_that_was_not_predicted_is_wrong() -> None:
    scene = Scene(named_node("a"), placed("x", "a", "1"))
    scene.admit(deployment(1))
    scene.watch(of_web("w1", "a"), preempted(FULL[2]))
    scene.deleted("Pod/x")
    assert scene.result(SLOW + 1) == "wrong"
    assert scene.example["happened"] == "1 placed, 0 Pending, preempts default/x"


@pytest.mark.parametrize(("priority", "result"), [(0, "matched"), (7, "wrong")])
def test_another_victim_of_the_same_priority_is_a_tie(priority: int, result: str) -> None:
    scene = Scene(named_node("a"), placed("x", "a", "3"), named_node("b"), placed("z", "b", "3", priority))
    scene.admit(deployment(1))
    victim = "x" if scene.accuracy._workloads._open[KEY].expected.victims == (RecordedVictim("default/z", 0),) else "z"
    other = scene.objects[f"Pod/{victim}"]
    node = other["spec"]["nodeName"]
    scene.watch(of_web("w1", nominated=node), preempted(other))
    scene.deleted(f"Pod/{victim}")
    scene.watch(of_web("w1", node))
    assert scene.result(SLOW + 1) == result


def test_a_difference_after_a_pod_of_others_is_explained() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(3))
    scene.watch(placed("other", "b", "2", 900))
    scene.watch(of_web("w1"), of_web("w2", "a"), of_web("w3"))
    assert scene.result(SLOW + 1) == "explained"
    assert scene.example["change"] == "Pod default/other"


@pytest.mark.parametrize("obj", [named_node("c"), named_node("a", "1")], ids=["a new node", "a changed node"])
def test_a_difference_after_a_change_of_nodes_is_explained(obj: Obj) -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(3))
    scene.watch(obj, of_web("w1", "b"), of_web("w2"), of_web("w3"))
    assert scene.result(SLOW + 1) == "explained"
    assert scene.example["change"] == "Node"


def test_what_pods_of_others_preempt_is_not_counted() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(1))
    scene.watch(of_web("w1", "b"))
    high = new_pod("high", cpu="4", priority=900)
    scene.watch(high, {**high, "status": {"phase": "Pending", "nominatedNodeName": "a"}}, preempted(ROOMY[2]))
    scene.deleted("Pod/x")
    assert scene.result(SLOW + 1) == "matched"


def test_what_replacements_preempt_is_counted_with_the_prediction_for_it() -> None:
    x, z = of("StatefulSet", "x", placed("x-0", "a", "3", 50)), placed("z", "b", "3", 0)
    owner = {**deployment(1, "3", 50, name="x", podManagementPolicy="Parallel"), "kind": "StatefulSet"}
    for both, result in ((True, "matched"), (False, "wrong")):
        nodes = named_node("a"), named_node("b", "3")
        scene = Scene(*nodes, owner, x, z)
        scene.admit(deployment(1, "4"))
        assert scene.accuracy._workloads._open[KEY].expected.more == 1
        scene.watch(of_web("w1", nominated="a"), preempted(x))
        scene.deleted("Pod/x-0")
        again = of("StatefulSet", "x", new_pod("x-0", "3", 50) | {"status": {"phase": "Pending"}})
        again["metadata"]["uid"] = "again"
        scene.watch(of_web("w1", "a"), again)
        if both:
            scene.watch({**again, "status": {"phase": "Pending", "nominatedNodeName": "b"}}, preempted(z))
            scene.deleted("Pod/z")
        assert scene.result(SLOW + 1) == result


def test_what_replacements_preempt_may_have_got_its_node_after_the_request() -> None:
    found = WorkloadExpectation(KEY, 1, 0, (RecordedVictim("default/x", 0),), 1, 1)
    x, y = RecordedVictim("default/x", 0), RecordedVictim("default/y", 0)
    assert found.agrees(1, 0, [x], let_in=1)
    assert found.agrees(1, 0, [x, y], let_in=1)
    assert not found.agrees(1, 0, [x])
    assert not found.agrees(1, 0, [x, y, y], let_in=1)
    assert not found._replace(more=0).agrees(1, 0, [], let_in=1)
    assert found._replace(more=None).agrees(1, 0, [x, y, y])


@pytest.mark.parametrize(("pending", "result"), [(0, "explained"), (1, "wrong")])
def test_other_victims_where_nodes_tie_are_explained_and_other_counts_are_not(pending: int, result: str) -> None:
    """Two nodes tie for the first Pod; the second one finds room beside it, or preempts on the other node."""
    scene = Scene(named_node("a"), placed("x", "a", "4"), named_node("b"), placed("z", "b", "4"))
    scene.admit(deployment(2))
    assert str(scene.accuracy._workloads._open[KEY].expected).startswith("2 placed, 0 Pending, preempts default/")
    scene.watch(of_web("w1", nominated="a"), preempted(scene.objects["Pod/x"]))
    scene.deleted("Pod/x")
    scene.watch(of_web("w1", "a"))
    if pending:
        scene.watch(of_web("w2"))
    else:
        scene.watch(of_web("w2", nominated="b"), preempted(scene.objects["Pod/z"]))
        scene.deleted("Pod/z")
        scene.watch(of_web("w2", "b"))
    assert scene.result(SLOW + 1) == result
    assert scene.example["change"] == ("" if pending else "ties: several nodes or Pods are equal")


def test_what_a_prediction_assumes_explains_a_difference() -> None:
    """The zone of a volume that its provisioner creates at once is not known."""
    scene = Scene(*ROOMY, make_storage_class("zonal", "Immediate").obj)
    claims = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "zonal"}}]
    scene.admit({**deployment(1, volumeClaimTemplates=claims), "kind": "StatefulSet"})
    scene.watch(of("StatefulSet", "web", new_pod("web-0")))
    assert scene.result(SLOW + 1) == "explained"
    assert scene.example["change"].endswith("claims that are created with the Pods are ignored")


def test_who_came_after_the_request_is_no_victim() -> None:
    scene = Scene(named_node("a"))
    scene.admit(deployment(1))
    late_pod = placed("late", "a", "3")
    scene.watch(late_pod, of_web("w1", nominated="a"), preempted(late_pod))
    scene.deleted("Pod/late")
    scene.watch(of_web("w1", "a"))
    assert scene.result(SLOW + 1) == "matched"


def test_a_rollout_is_waited_for_until_its_pods_are_ready_and_victims_are_gone() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(2))
    ready = [{"type": "Ready", "status": "False"}]
    scene.watch(of_web("w1", "b", conditions=ready), of_web("w2", nominated="a"), preempted(ROOMY[2]))
    assert scene.result(QUIET * 4) == ""
    scene.deleted("Pod/x")
    scene.watch(of_web("w2", "a"))
    assert scene.result(QUIET * 4) == ""
    scene.watch(of_web("w1", "b"))
    assert scene.result() == "matched"


def test_a_rollout_replaces_pods_that_are_not_counted() -> None:
    old = [of_web(f"o{i}", "ab"[i], hash_="old") for i in range(2)]
    before = deployment(2, "1", 0)
    scene = Scene(named_node("a"), named_node("b"), before, *old)
    scene.admit(deployment(2, "1"), before)
    for number, pod in enumerate(old):
        scene.watch(of_web(f"n{number}", "a"))
        scene.watch({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}})
        scene.deleted(f"Pod/o{number}")
    assert scene.result() == "matched"


def test_of_a_job_only_the_first_pods_are_counted() -> None:
    scene = Scene(named_node("a"))
    job = {**deployment(name="once"), "apiVersion": "batch/v1", "kind": "Job"}
    job["spec"] |= {"parallelism": 1, "completions": 3}
    scene.admit(job)
    for number in range(3):
        pod = of("Job", "once", placed(f"p{number}", "a", "2", 100), group="batch")
        scene.watch(pod, {**pod, "status": {"phase": "Succeeded"}})
        scene.deleted(f"Pod/p{number}")
    assert scene.result() == "matched"


def test_controllers_may_be_slow() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(1))
    assert scene.result(SLOW - 1) == ""
    scene.watch(of_web("w1", "b"))
    assert scene.result() == "matched"


# What is not compared


def test_an_incomplete_prediction_is_counted_apart() -> None:
    tracker = Accuracy()
    tracker.expect(WorkloadExpectation(KEY, 1, 0, incomplete=True), 0.0)
    assert tracker.table()["workloads"]["results"]["incomplete"] == 1


def test_a_second_change_ends_the_first_prediction() -> None:
    for again in (True, False):
        scene = Scene(*ROOMY)
        scene.admit(deployment(1))
        if again:
            scene.admit(deployment(2), deployment(1))
        else:
            scene.watch(deployment(0))
        assert scene.counted == {"unknown": 1}
        assert scene.table["notJudged"] == {"the workload changed again": 1}


def test_a_workload_that_is_deleted_is_not_compared() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(1))
    scene.deleted("Deployment/web")
    assert scene.table["notJudged"] == {"it was deleted": 1}


def test_a_change_that_is_not_stored_is_not_compared() -> None:
    scene = Scene(*ROOMY)
    scene.accuracy.expect(expected(deployment(1), *ROOMY), scene.now)
    scene.result(SLOW + 1)
    assert scene.table["notJudged"] == {"the change was not stored": 1}


def test_a_rollout_that_does_not_end_is_given_up() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(3))
    scene.watch(of_web("w1", "b", conditions=[{"type": "Ready", "status": "False"}]))
    assert scene.result(MAX_SECONDS - 1) == ""
    assert scene.result(1) == "unknown"
    assert scene.table["notJudged"] == {"the rollout was not done after 10 minutes": 1}


def test_the_status_of_a_workload_is_no_change_of_it() -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(1))
    scene.watch({**deployment(1), "status": {"replicas": 1}}, of_web("w1", "b"))
    assert scene.result() == "matched"


def test_too_many_pods_or_rollouts_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORKLOADS", 2)
    tracker = Accuracy(clock=lambda: 0.0)
    tracker.expect(WorkloadExpectation(KEY, MAX_PODS + 1, 0), 0.0)
    for name in "abc":
        tracker.expect(WorkloadExpectation(("default", "Deployment", name), 1, 0), 0.0)
    assert tracker.table()["workloads"]["notJudged"] == {"too many Pods": 1, "too many rollouts at a time": 1}
    assert tracker.table()["workloads"]["open"] == 2


# Quotas, and Pods without a controller


def pod_quota(hard: int, used: int = 0) -> Obj:
    limits, metadata = {"pods": str(hard)}, {"name": "pods", "namespace": "default", "uid": "q"}
    status = {"hard": limits, "used": {"pods": str(used)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": limits}} | {
        "status": status
    }


def test_pods_that_a_quota_rejects_are_a_part_of_the_prediction() -> None:
    scene = Scene(*ROOMY, pod_quota(1))
    prediction = expected(deployment(3), *scene.objects.values())
    assert (prediction.new, prediction.rejected) == (1, 2)
    assert str(prediction) == "1 placed, 0 Pending, 2 rejected by quotas, no Pod preempted"
    scene.admit(deployment(3))
    scene.watch(of_web("w1", "b"))
    assert scene.result() == "matched"


def test_rejected_pods_that_were_not_predicted_are_wrong() -> None:
    scene = Scene(named_node("a"), named_node("b"))
    scene.admit(deployment(2))
    scene.watch(of_web("w1", "b"))
    assert scene.result(SLOW + 1) == "wrong"
    assert scene.example["happened"] == "1 placed, 0 Pending, 1 not created, no Pod preempted"


def test_another_limit_of_a_quota_explains_a_difference_and_its_usage_does_not() -> None:
    for quota, result, causes in (
        (pod_quota(1, 1), "wrong", {}),
        (pod_quota(2), "explained", {"changes of others": 1}),
    ):
        scene = Scene(named_node("a"), named_node("b"), pod_quota(1))
        scene.admit(deployment(2))
        scene.watch(quota, of_web("w1", "b"), of_web("w2", "a"))
        assert scene.result(SLOW + 1) == result
        assert scene.table["explainedBy"] == causes


@pytest.mark.parametrize(
    ("quota", "end", "result"),
    [
        (9, ("a",), "matched"),
        (9, ("",), "wrong"),
        (0, (), "matched"),
        (0, ("a",), "wrong"),
        (9, (), "unknown"),
    ],
    ids=["bound", "Pending", "rejected", "created nevertheless", "never created"],
)
def test_a_pod_without_a_controller_is_a_whole_change(quota: int, end: tuple[str, ...], result: str) -> None:
    scene = Scene(named_node("a"), pod_quota(quota))
    pod = new_pod("alone")
    found = expectation_of(
        subject := ReviewedObject(pod, namespace="default"),
        impact_of(subject, state_of(*scene.objects.values()), Config(), lambda: False),
    )
    assert isinstance(found, WorkloadExpectation if quota == 0 else Expectation)
    scene.accuracy.expect(found, scene.now)
    for node in end:
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        scene.watch(pod, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": ready if node else {}})
    assert scene.result(SLOW + 1) == result


def test_a_pod_of_a_controller_is_a_part_of_its_workload() -> None:
    subject = ReviewedObject(of_web("w1"), namespace="default")
    found = expectation_of(subject, impact_of(subject, state_of(*ROOMY), Config(), lambda: False))
    assert isinstance(found, Expectation)
    assert found.whole is None


def test_pods_do_not_displace_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BARE", 1)
    tracker = Accuracy(clock=lambda: 0.0)
    for kind, name in (("Deployment", "a"), ("Pod", "b"), ("Pod", "c"), ("Deployment", "d")):
        tracker.expect(WorkloadExpectation(("default", kind, name), 1, 0), 0.0)
    assert tracker.table()["workloads"]["notJudged"] == {"too many rollouts at a time": 1}
    assert tracker.table()["workloads"]["open"] == 3


# Bounds

NAMES = ("web", "db", "x")
pods = st.builds(
    lambda i, name, node, nominated: {
        **of("StatefulSet", name, placed(f"{name}-{i}", node) if node else new_pod(f"{name}-{i}")),
        "status": {"phase": "Running" if node else "Pending", "nominatedNodeName": nominated},
    },
    st.integers(0, 5),
    st.sampled_from(NAMES),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "a", "b"]),
)
sets = st.builds(
    lambda name, n: {**deployment(n, name=name), "kind": "StatefulSet"}, st.sampled_from(NAMES), st.integers(0, 2)
)
expectations = st.builds(
    lambda name, placed, count: WorkloadExpectation(
        ("default", "StatefulSet", name), placed, 0, (RecordedVictim("default/v", 0),) * count, count
    ),
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.integers(0, 2),
)
steps = st.one_of(
    st.tuples(st.just("expect"), expectations),
    st.tuples(st.sampled_from(["watch", "gone"]), st.one_of(pods, pods.map(preempted), sets)),
    st.tuples(st.just("watch"), st.builds(named_node, st.sampled_from("ab"), st.sampled_from(["1", "2"]))),
    st.tuples(st.just("wait"), st.sampled_from([0.1, QUIET, SLOW, MAX_SECONDS / 3])),
)


@settings(max_examples=cases(100), deadline=None)
@given(st.lists(steps, max_size=60))
def test_each_prediction_gets_one_result_and_what_is_kept_is_bounded(history: Iterable[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, bound in (("MAX_WORKLOADS", 2), ("MAX_PODS", 3), ("MAX_EVENTS", 5), ("EXAMPLES", 2)):
            patch.setattr(module, name, bound)
        scene, taken = Scene(), 0
        tracker: WorkloadAccuracy = scene.accuracy._workloads
        for step, value in history:
            if step == "expect":
                taken += 1
                scene.accuracy.expect(value, scene.now)
            elif step == "wait":
                scene.now += value
            elif step == "gone":
                key = f"{value['kind']}/{value['metadata']['name']}"
                if key in scene.objects:
                    scene.deleted(key)
            else:
                scene.watch(value)
            table = tracker.table()
            assert sum(table.results.values()) + table.open == taken
            assert table.open <= 2
            assert len(table.examples) <= 2 * 2
            events = tracker._changes, tracker.preempted, tracker._nominated
            assert max(len(kept) for kept in (*events, tracker._placed, tracker._terminating)) <= 5
            assert all(len(rollout.pods) <= 2 * 3 for rollout in tracker._open.values())
        scene.now += 2 * MAX_SECONDS
        scene.accuracy.settle()
        assert scene.counted.total() == taken
        assert scene.counted == +Counter(tracker.table().results)


@pytest.mark.parametrize(("chance", "result"), [(False, "wrong"), (True, "explained")])
def test_a_declared_chance_is_no_miss(chance: bool, result: str) -> None:
    scene = Scene(*ROOMY)
    prediction = expected(deployment(3), *scene.objects.values())
    assert prediction is not None
    scene.accuracy.expect(prediction._replace(placed=2, pending=1, num_victims=0, victims=(), chance=chance), scene.now)
    scene.watch(deployment(3), of_web("w1", "b"), of_web("w2", "b"), of_web("w3", "b"))
    assert scene.result(SLOW + 1) == result
    assert ("chance" in scene.table["explainedBy"]) is chance


# Who is told


def test_the_command_prints_what_became_of_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(*ROOMY)
    scene.admit(deployment(3))
    scene.watch(of_web("w1", "b"), of_web("w2"), of_web("w3"))
    scene.result(SLOW + 1)
    scene.admit(deployment(1, name="gone"))
    scene.deleted("Deployment/gone")
    scene.admit(deployment(1, name="open"))
    with serving_table(scene.accuracy) as port:
        assert main(["webhook", "accuracy", "--health-port", str(port)]) == 0
    told = capsys.readouterr().out
    assert (
        told
        == """\
whole changes as predicted: 0 of 1 (0%); explained: 0; wrong: 1
preemptions   precision 0 of 1 predicted, recall 0 of 0 happened
Pods          as predicted: 0 of 0; explained: 0; wrong: 0

Whole changes: workloads and Pods without a controller, at the end of the rollout
matched     0  as many placed and Pending Pods as predicted, and preempted Pods of the predicted priorities
explained   0  the rollout ended differently; other changes, timing, chance, ties or an assumption can explain this
wrong       1  the rollout ended differently, and nothing explains this
incomplete  0  not compared: the prediction was incomplete
unknown     1  not compared: it was deleted (1)
1 more has no result yet

Pods: the first action of kube-scheduler
matched    0  kube-scheduler did what was predicted
explained  0  kube-scheduler did something else, and objects that affect where Pods fit changed in the meantime
wrong      0  kube-scheduler did something else, and no such object changed
unknown    0  not compared: the Pod was never created, was deleted first, or kube-scheduler's decision was not seen

wrong, whole changes, the last 1:
  Deployment default/web  2030-03-17 17:46:40Z
    predicted: 2 placed, 1 Pending, preempts default/x
    happened:  1 placed, 2 Pending, no Pod preempted
"""
    )


def test_more_victims_than_at_least_predicted_are_no_miss() -> None:
    """More Pending Pods than forewarn evaluates may take the capacity of the victim."""
    pending = [new_pod(f"p{number}", "3") | {"status": {"phase": "Pending"}} for number in range(MAX_PENDING + 1)]
    found = expected(deployment(1, "4"), named_node("a"), placed("x", "a", "3", 0), *pending)
    assert (found.num_victims, found.more) == (1, None)
