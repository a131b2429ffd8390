"""Predictions against what happened: what is remembered, what counts as what, and that memory is bounded."""

from __future__ import annotations

import json
import pickle
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from forewarn.webhook import accuracy as module
from forewarn.webhook.accuracy import (
    NAMED,
    PATIENCE,
    SETTLING,
    Accuracy,
    Act,
    Expectation,
    Victim,
    act_of,
    expectation_of,
    path_of,
    request_table,
    serve_table,
)
from forewarn.webhook.admission.review import AdmissionCall, Hook
from forewarn.webhook.http.server import bind
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.workload_accuracy import LAG, RESULTS
from tests.cases import cases
from tests.e2e.objects import node, running
from tests.webhook.builders import answer_now, body, decided, endpoint, review
from tests.webhook.running import running as serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Obj = dict[str, Any]


def named_node(name: str, cpu: str = "4") -> Obj:
    return {"apiVersion": "v1", "kind": "Node", **node(name, cpu)}


def placed(name: str, node_name: str, cpu: str = "3", priority: int = 0, **status: Any) -> Obj:
    made = running(name, node_name, cpu, priority)
    made["metadata"]["uid"] = f"uid-{name}"
    made["status"] |= status
    return {"apiVersion": "v1", "kind": "Pod", **made}


def new_pod(name: str = "new", cpu: str = "2", priority: int = 100, **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"containers": [container], "priority": priority, "preemptionPolicy": "PreemptLowerPriority", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def with_status(pod: Obj, node_name: str = "", nominated: str = "", reason: str = "", **metadata: Any) -> Obj:
    """The pod as it is stored once the scheduler has acted."""
    status: Obj = {"phase": "Pending"}
    if nominated:
        status["nominatedNodeName"] = nominated
    if reason:
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason}]
    spec = {**pod["spec"], **({"nodeName": node_name} if node_name else {})}
    return {**pod, "metadata": {**pod["metadata"], **metadata}, "spec": spec, "status": status}


def preempted(pod: Obj) -> Obj:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return {**pod, "status": {**pod["status"], "conditions": [condition]}}


def state_of(*objects: Obj) -> ClusterSnapshot:
    cache = Cache()
    for obj in objects:
        cache.add(obj)
    return cache.snapshot()


def expected(pod: Obj, *objects: Obj) -> Expectation | None:
    subject = ReviewedObject(pod, namespace="default")
    found = expectation_of(subject, impact_of(subject, state_of(*objects), Config(), lambda: False))
    return found._replace(whole=None) if isinstance(found, Expectation) else None


# What is remembered


def test_of_a_pod_that_fits_the_nodes_are_remembered_that_can_run_it() -> None:
    found = expected(new_pod(), named_node("a"), named_node("b"), named_node("c", "1"))
    assert found == Expectation("uid-new", "fits", ("a", "b"))


def test_of_a_preemption_the_victims_are_remembered_that_do_not_go_already() -> None:
    going = placed("going", "a", "1")
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    found = expected(new_pod(), named_node("a"), placed("x", "a", "3"), going)
    assert found is not None
    assert (found.outcome, found.nodes, found.node) == ("preempts", ("a",), "a")
    assert found.victims is not None
    assert [(v.uid, v.key, v.rank[0]) for v in found.victims] == [("uid-x", "default/x", 0)]


def test_of_a_pod_without_a_place_that_is_all() -> None:
    assert expected(new_pod(cpu="9"), named_node("a")) == Expectation("uid-new", "pending")


@pytest.mark.parametrize(
    "pod",
    [
        new_pod(schedulerName="other"),
        new_pod(nodeName="a"),
        new_pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]),
        new_pod(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(65)]),
        {**new_pod(), "metadata": {"name": "new", "namespace": "default"}},
        {**new_pod(), "metadata": {"name": "new", "namespace": "default", "uid": "u" * 100}},
    ],
    ids=["another scheduler", "its own node", "an ephemeral volume", "many volumes", "no uid", "a long uid"],
)
def test_what_cannot_be_compared_is_not_remembered(pod: Obj) -> None:
    assert expected(pod, named_node("a")) is None


def test_many_nodes_or_victims_are_not_compared_by_name() -> None:
    nodes = [named_node(f"n{i}") for i in range(NAMED + 1)]
    assert expected(new_pod(), *nodes) == Expectation("uid-new", "fits")
    many = [placed(f"x{i}", "a", "100m") for i in range(NAMED + 1)]
    found = expected(new_pod(cpu="4"), named_node("a"), *many)
    assert found is not None
    assert (found.outcome, found.victims) == ("preempts", None)


@pytest.mark.parametrize(
    ("pod", "act"),
    [
        (new_pod(), None),
        (with_status(new_pod(), "a"), Act("fits", "a")),
        (with_status(new_pod(), "a", nominated="a"), Act("fits", "a")),
        (with_status(new_pod(), nominated="a"), Act("fits", "a")),
        (with_status(new_pod(), nominated="a", reason="Unschedulable"), Act("preempts", "a")),
        (with_status(new_pod(), reason="Unschedulable"), Act("pending")),
        (with_status(new_pod(), reason="SchedulerError"), None),
        (with_status(new_pod(), reason="SchedulingGated"), None),
    ],
)
def test_the_first_act_of_the_scheduler(pod: Obj, act: Act | None) -> None:
    assert act_of(pod) == act


# What counts as what


class Scene:
    """A cache that tells of its changes, as the one that follows an API server does, and a clock."""

    def __init__(self, *objects: Obj) -> None:
        self.now, self.counted = 1000.0, Counter[str]()
        self.accuracy = Accuracy(lambda result: self.counted.update([result]), lambda: self.now, lambda: 1.9e9)
        self.cache = Cache(self.accuracy.changed)
        self.objects = {f"{obj['kind']}/{obj['metadata']['name']}": obj for obj in objects}
        for obj in objects:
            self.cache.add(obj)
        self.now += LAG * 2

    def admit(self, pod: Obj) -> None:
        """Predict for a pod by what is there now; then it is stored."""
        found = expected(pod, *self.objects.values())
        assert found is not None
        assert self.accuracy.expect(found, self.now)
        self.now += 0.01
        self.watch(pod)

    def watch(self, *objects: Obj, deleted: bool = False) -> None:
        for obj in objects:
            self.now += 0.01
            self.list(obj, deleted=deleted)
            if obj["kind"] == "Pod":
                self.accuracy.seen(obj, deleted)

    def list(self, obj: Obj, deleted: bool = False) -> None:
        key = f"{obj['kind']}/{obj['metadata']['name']}"
        if deleted:
            self.cache.remove(obj)
            self.objects.pop(key)
        else:
            self.cache.add(obj)
            self.objects[key] = obj

    def result(self) -> str:
        """The one result that there is after a while."""
        self.now += SETTLING + 0.1
        self.accuracy.settle()
        (found,) = self.counted.elements()
        return found

    def example(self) -> Obj:
        (found,) = self.accuracy.table()["examples"]
        return {**found}


FULL = (named_node("a"), placed("x", "a", "3"))


def test_a_pod_that_is_bound_where_it_fits_matches_at_once() -> None:
    scene = Scene(named_node("a"))
    scene.admit(new_pod())
    scene.watch(with_status(new_pod(), "a"))
    assert scene.counted == {"matched": 1}
    results, found = {**dict.fromkeys(RESULTS, 0), "matched": 1}, scene.accuracy.table()
    rest = {"workloads": found["workloads"], "notCompared": 0, "examples": []}
    assert found == {"results": results, "open": 0, **rest}


def test_predictions_that_cannot_be_compared_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    state, tracker = Scene(*FULL).cache.snapshot(), Accuracy()
    many = new_pod(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(65)], priority=0)
    asked = endpoint(lambda: state, expect=tracker.expect)
    for sent in (body(many), body(many), body(many, dryRun=True)):
        answer_now(asked, AdmissionCall(Hook.VALIDATE, sent, monotonic()))
    assert tracker.table()["notCompared"] == 2
    with serving_table(tracker) as port:
        assert main(["webhook", "accuracy", "--health-port", str(port)]) == 0
    assert "\nPods: the first action of kube-scheduler. Not compared: 2\n" in capsys.readouterr().out


def test_the_prediction_for_a_workload_is_followed_apart() -> None:
    state, tracker = Scene(*FULL).cache.snapshot(), Accuracy()
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": new_pod()["spec"]["containers"]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    metadata = {"name": "d", "namespace": "default"}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    asked = endpoint(lambda: state, expect=tracker.expect)
    for sent in (body(workload), body(workload, dryRun=True)):
        answer_now(asked, AdmissionCall(Hook.VALIDATE, sent, monotonic()))
    found = tracker.table()
    assert (found["notCompared"], found["open"], found["workloads"]["open"]) == (0, 0, 1)


def test_a_pod_that_is_bound_to_another_node_is_wrong() -> None:
    scene = Scene(named_node("a"), named_node("b", "1"))
    scene.admit(new_pod())
    scene.watch(with_status(new_pod(), "b"))
    assert scene.result() == "wrong"
    example = scene.example()
    assert (example["pod"], example["predicted"], example["happened"]) == ("default/new", "runs on a", "runs on b")
    assert example["at"] == 1.9e9


def test_a_preemption_matches_once_its_victims_are_told() -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.watch(with_status(new_pod(), nominated="a", reason="Unschedulable"), preempted(FULL[1]))
    assert not scene.counted
    assert scene.result() == "matched"


def test_victims_may_be_told_before_the_node_is_nominated_and_be_gone() -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.watch(preempted(FULL[1]))
    scene.watch(preempted(FULL[1]), deleted=True)
    scene.watch(with_status(new_pod(), nominated="a", reason="Unschedulable"))
    scene.watch(with_status(new_pod(), "a"))
    assert scene.result() == "matched"


def test_another_victim_of_the_same_rank_matches_and_of_another_does_not() -> None:
    equals = placed("x", "a", "2"), placed("y", "a", "2")
    for other, result in ((equals[1], "matched"), (placed("y", "a", "2", 7), "wrong")):
        scene = Scene(named_node("a"), equals[0], other)
        scene.admit(new_pod())
        scene.watch(preempted(other), with_status(new_pod(), nominated="a", reason="Unschedulable"))
        assert scene.result() == result


def test_one_victim_too_few_is_wrong() -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.watch(with_status(new_pod(), nominated="a", reason="Unschedulable"))
    assert scene.result() == "wrong"
    example = scene.example()
    assert (example["predicted"], example["happened"]) == ("preempts default/x on a", "preempts no Pod on a")


def test_what_is_preempted_elsewhere_or_was_before_is_nobodys_victim_here() -> None:
    scene = Scene(*FULL, named_node("b"), placed("y", "b", "3", 200), placed("z", "a", "1"))
    scene.watch(preempted(scene.objects["Pod/z"]))
    scene.now += 0.1
    scene.admit(new_pod())
    scene.watch(preempted(scene.objects["Pod/y"]), preempted(FULL[1]))
    scene.watch(with_status(new_pod(), nominated="a", reason="Unschedulable"))
    assert scene.result() == "matched"


BOUND = placed("other", "a", "1")
CHANGES: dict[str, tuple[Obj, ...]] = {
    "another pod was bound": (BOUND,),
    "a node came": (named_node("b"),),
    "a node changed": (named_node("a", "1"),),
    "a pod was nominated": (with_status(new_pod("higher", priority=500), nominated="a", reason="Unschedulable"),),
    "a pod begins to go": (
        {**FULL[1], "metadata": {**FULL[1]["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}},
    ),
    "a budget came": (
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {}, "minAvailable": 1},
        },
    ),
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_difference_after_a_change_is_explained(changes: tuple[Obj, ...]) -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.watch(*changes)
    scene.watch(with_status(new_pod(), reason="Unschedulable"))
    assert scene.result() == "explained"
    kind = changes[0]["kind"]
    assert scene.example()["change"].startswith(kind)


@pytest.mark.parametrize(
    "objects",
    [
        (new_pod("waiting", priority=500),),
        (with_status(new_pod("waiting"), reason="Unschedulable"),),
        (FULL[0],),
        (FULL[1],),
        ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {}},),
        (with_status(new_pod(), labels={"a": "b"}),),
    ],
    ids=["a pod that waits", "a pod that waits still", "a heartbeat", "a pod's status", "a service", "the pod itself"],
)
def test_what_changes_nothing_for_the_pod_explains_nothing(objects: tuple[Obj, ...]) -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.watch(*objects)
    scene.watch(with_status(new_pod(), reason="Unschedulable"))
    assert scene.result() == "wrong"


def test_its_own_victims_and_their_budgets_explain_nothing() -> None:
    scene = Scene(*FULL, placed("y", "a", "500m", 7))
    scene.admit(new_pod())
    scene.watch(with_status(new_pod(), nominated="a", reason="Unschedulable"))
    for name in ("x", "y"):
        scene.watch(preempted(scene.objects[f"Pod/{name}"]))
        scene.watch(scene.objects[f"Pod/{name}"], deleted=True)
    scene.watch(*CHANGES["a budget came"])
    assert scene.result() == "wrong"


def test_a_change_a_moment_before_the_request_or_after_the_act_explains_too() -> None:
    before = Scene(*FULL)
    before.watch(BOUND)
    before.admit(new_pod())
    before.watch(with_status(new_pod(), reason="Unschedulable"))
    assert before.result() == "explained"
    after = Scene(*FULL)
    after.admit(new_pod())
    after.watch(with_status(new_pod(), reason="Unschedulable"), BOUND)
    assert after.result() == "explained"


def test_a_change_long_before_explains_nothing() -> None:
    scene = Scene(*FULL)
    scene.watch(BOUND)
    scene.now += LAG * 2
    scene.admit(new_pod())
    scene.watch(with_status(new_pod(), reason="Unschedulable"))
    assert scene.result() == "wrong"


def test_more_changes_than_are_remembered_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHANGES", 4)
    scene = Scene(*FULL, placed("y", "a", "500m", 7))
    scene.admit(new_pod())
    scene.watch(BOUND)
    for turn in range(8):
        other = placed("y", "a", "500m", 7)
        other["metadata"]["labels"] = {"turn": str(turn)}
        scene.watch(other)
    scene.watch(preempted(placed("y", "a", "500m", 7)), with_status(new_pod(), nominated="a", reason="Unschedulable"))
    assert scene.result() == "explained"


def test_a_pod_that_goes_undecided_or_never_comes_is_unknown() -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.watch(new_pod(), deleted=True)
    assert scene.counted == {"unknown": 1}
    scene.admit(new_pod("other"))
    scene.now += PATIENCE + 1
    scene.accuracy.settle()
    assert scene.counted == {"unknown": 2}


def test_a_pod_whose_turn_was_only_listed_is_unknown() -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    scene.list(with_status(new_pod(), "a"))
    scene.watch({**with_status(new_pod(), "a"), "status": {"phase": "Running", "startTime": "2030-01-01T00:00:00Z"}})
    assert scene.counted == {"unknown": 1}


def test_a_pod_that_cannot_be_read_is_as_one_that_nothing_happened_to() -> None:
    scene = Scene(*FULL)
    scene.admit(new_pod())
    for status in ("x", {"conditions": "x"}, {"conditions": ["x"]}, {"nominatedNodeName": 7, "conditions": {}}):
        scene.accuracy.seen({**new_pod(), "status": status}, False)
    assert scene.accuracy.table()["open"] == 1


def test_what_was_said_first_of_a_pod_stands() -> None:
    tracker = Accuracy(clock=lambda: 0.0)
    assert tracker.expect(Expectation("u", "fits"), 0.0)
    assert not tracker.expect(Expectation("u", "pending"), 0.0)
    assert tracker.table()["open"] == 1


# Bounds

UIDS = [f"uid-p{i}" for i in range(6)]
VICTIMS = [Victim(f"uid-v{i}", f"default/v{i}", (0, i)) for i in range(3)]
expectations = st.builds(
    Expectation,
    st.sampled_from(UIDS),
    st.sampled_from(["fits", "preempts", "pending"]),
    st.sampled_from([(), ("a",), ("a", "b")]),
    st.sampled_from(["a", "b"]),
    st.one_of(st.none(), st.lists(st.sampled_from(VICTIMS), max_size=2, unique=True).map(tuple)),
)
pods = st.builds(
    lambda i, node_name, nominated, reason: with_status(new_pod(f"p{i}"), node_name, nominated, reason),
    st.integers(0, 5),
    st.sampled_from(["", "", "a", "b"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "Unschedulable", "SchedulerError"]),
)
victims = st.builds(
    lambda i, deleted: preempted(placed(f"v{i}", "a")) if deleted else placed(f"v{i}", "a"),
    st.integers(0, 2),
    st.booleans(),
)
steps = st.one_of(
    st.tuples(st.just("expect"), expectations),
    st.tuples(st.sampled_from(["watch", "list", "gone"]), st.one_of(pods, victims)),
    st.tuples(st.just("watch"), st.builds(named_node, st.sampled_from("ab"), st.sampled_from(["1", "2"]))),
    st.tuples(st.just("wait"), st.sampled_from([0.1, LAG, SETTLING, PATIENCE / 3])),
)


@settings(max_examples=cases(100), deadline=None)
@given(st.lists(steps, max_size=60))
def test_each_prediction_gets_one_result_and_what_is_kept_is_bounded(history: Iterable[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FOLLOWED", 3)
        patch.setattr(module, "CHANGES", 5)
        patch.setattr("forewarn.webhook.workload_accuracy.EXAMPLES", 2)
        scene, taken = Scene(), 0
        for step, value in history:
            if step == "expect":
                taken += scene.accuracy.expect(value, scene.now)
            elif step == "wait":
                scene.now += value
            elif step == "list":
                scene.list(value)
            elif step == "gone":
                key = f"{value['kind']}/{value['metadata']['name']}"
                if key in scene.objects:
                    scene.watch(value, deleted=True)
            else:
                scene.watch(value)
            tracker = scene.accuracy
            table = tracker.table()
            assert sum(table["results"].values()) + table["open"] == taken
            assert table["open"] <= 2 * 3
            assert len(table["examples"]) <= 2 * 2
            assert len(tracker._changes) <= 5
        scene.now += PATIENCE + SETTLING
        scene.accuracy.settle()
        assert scene.counted.total() == taken
        assert scene.counted == Counter(scene.accuracy.table()["results"])


def test_whatever_is_asked_memory_is_bounded() -> None:
    """A flood of predictions for pods that never come: each gives way to a later one, and is counted."""
    counted: Counter[str] = Counter()
    tracker = Accuracy(lambda result: counted.update([result]), lambda: 0.0)
    victims = tuple(Victim(f"v{i}", "n" * 200, (0, 0)) for i in range(NAMED))
    numbers = count()
    for _ in range(3 * module.FOLLOWED):
        tracker.expect(Expectation(f"u{next(numbers)}", "preempts", ("a",), "a", victims), 0.0)
    assert tracker.table()["open"] == module.FOLLOWED
    assert counted == {"unknown": 2 * module.FOLLOWED}


# At the endpoint


@pytest.mark.parametrize(
    ("pod", "more", "allowed", "followed"),
    [
        (new_pod(priority=0), {}, True, ["preempts"]),
        (new_pod(priority=0), {"dryRun": True}, True, []),
        (new_pod(priorityClassName="missing"), {}, False, []),
        (new_pod(priority=0, schedulerName="other"), {}, True, []),
    ],
    ids=["admitted", "a dry run", "denied", "not predicted"],
)
def test_what_was_said_of_admitted_pods_is_followed(pod: Obj, more: Obj, allowed: bool, followed: list[str]) -> None:
    state, told = state_of(named_node("a"), placed("x", "a", "3", -5)), list[tuple[Expectation, float]]()
    before = monotonic()
    asked = endpoint(lambda: state, expect=lambda *given: told.append(given))
    with serving(asked) as server:
        status, _, answer = server.post("/validate", body(pod, **more))
        assert status == 200
    assert json.loads(answer)["response"]["allowed"] is allowed
    assert [expectation.outcome for expectation, _ in told] == followed
    assert all(before < since < monotonic() for _, since in told)


def test_by_late_state_nothing_is_followed() -> None:
    state = state_of(named_node("a"))
    assert decided(Hook.VALIDATE, review(new_pod(priority=0)), state=state).expected is not None
    assert decided(Hook.VALIDATE, review(new_pod(priority=0)), state=state, staleness="old").expected is None


def test_what_a_prediction_process_found_is_followed_too() -> None:
    state = state_of(named_node("a"), placed("x", "a", "3", -5))
    decision = decided(Hook.VALIDATE, review(new_pod(priority=0)), state=state)
    sent = pickle.loads(pickle.dumps(decision.plain()))
    assert sent.expected == decision.expected
    assert sent.expected.victims[0].key == "default/x"


# Who is told


def test_only_the_user_of_the_webhook_may_open_the_socket() -> None:
    with serving_table(Accuracy()) as port:
        assert path_of(port).parent.stat().st_mode & 0o777 == 0o700
    assert not path_of(port).parent.exists()


def _open_directory(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


@pytest.mark.parametrize("make", [_open_directory, lambda path: path.symlink_to("/root"), Path.touch])
def test_a_socket_is_only_in_a_private_directory(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "path_of", lambda port: tmp_path / "directory/accuracy")
    make(tmp_path / "directory")
    for use in (partial(serve_table, 1, dict), partial(request_table, 1)):
        with pytest.raises(PermissionError, match="only this user"):
            use()


def test_a_long_path_of_the_temporary_directory_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with serving_table(Accuracy()) as port:
        assert json.loads(request_table(port)) == Accuracy().table()


def test_a_socket_of_a_process_that_was_killed_is_replaced() -> None:
    with bind("127.0.0.1", 0) as reserved:
        port = reserved.getsockname()[1]
        path_of(port).parent.mkdir(0o700, exist_ok=True)
        path_of(port).unlink(missing_ok=True)  # of a webhook that another test killed
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(path_of(port)))
        with pytest.raises(ConnectionRefusedError):
            request_table(port)
        stop = serve_table(port, dict)
        assert request_table(port) == b"{}"
        stop()


def test_metrics_have_results_and_no_names() -> None:
    metrics = Metrics()
    tracker = Accuracy(partial(metrics.count, metrics.prediction_results), lambda: 0.0)
    tracker.expect(Expectation("u", "fits", ("secret-node",)), 0.0)
    tracker.seen(with_status(new_pod("secret-pod"), "a") | {"metadata": {"uid": "u", "name": "secret-pod"}}, False)
    tracker._clock = lambda: SETTLING + 1
    tracker.settle()
    text = metrics.exposition("")[0].decode()
    assert 'forewarn_prediction_results_total{result="wrong"} 1.0' in text
    assert "secret" not in text


@contextmanager
def serving_table(tracker: Accuracy) -> Iterator[int]:
    """Yield the health port of the webhook whose table is served. The port is reserved, so other tests have others."""
    with bind("127.0.0.1", 0) as reserved:
        port = reserved.getsockname()[1]
        stop = serve_table(port, tracker.table)
        try:
            yield port
        finally:
            stop()


def test_the_command_prints_the_table_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(named_node("a"), named_node("b", "1"))
    scene.admit(new_pod("right"))
    scene.watch(with_status(new_pod("right"), "a"))
    scene.now += LAG * 2
    scene.admit(new_pod("else"))
    scene.watch(with_status(new_pod("else"), "b"))
    scene.now += SETTLING * 2
    scene.admit(new_pod("late", "1"))
    scene.watch(named_node("a", "1"), with_status(new_pod("late", "1"), reason="Unschedulable"))
    scene.now += SETTLING * 2
    scene.admit(new_pod("open", "1"))
    with serving_table(scene.accuracy) as port:
        assert main(["webhook", "accuracy", "--health-port", str(port)]) == 0
        assert (
            capsys.readouterr().out
            == """\
whole changes as predicted: 0 of 0; explained: 0; wrong: 0
preemptions   precision 0 of 0 predicted, recall 0 of 0 happened
Pods          as predicted: 1 of 3 (33%); explained by changes in between: 1; wrong: 1

Whole changes: workloads and Pods without a controller, at the end of the rollout
matched     0  as many placed and Pending Pods as predicted, and preempted Pods of the predicted priorities
explained   0  the rollout ended differently; other changes, timing, chance, ties or an assumption can explain this
wrong       0  the rollout ended differently, and nothing explains this
incomplete  0  not compared: the prediction was incomplete
unknown     0  not compared

Pods: the first action of kube-scheduler
matched    1  kube-scheduler did what was predicted
explained  1  kube-scheduler did something else, and objects that affect where Pods fit changed in the meantime
wrong      1  kube-scheduler did something else, and no such object changed
unknown    0  not compared: the Pod was never created, was deleted first, or kube-scheduler's decision was not seen
1 more has no result yet

wrong, Pods, the last 1:
  default/else  2030-03-17 17:46:40Z
    predicted: runs on a
    happened:  runs on b

explained, Pods, the last 1:
  default/late  2030-03-17 17:46:40Z
    predicted: runs on a
    happened:  stays Pending
    in between: Node
"""
        )
        assert main(["webhook", "accuracy", "--health-port", str(port), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == scene.accuracy.table()


def test_without_a_socket_the_command_names_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["webhook", "accuracy", "--health-port", "1"]) == 3
    fix = "run it in the webhook's Pod: kubectl -n forewarn exec deploy/forewarn -- forewarn webhook accuracy"
    said = f"forewarn webhook accuracy: {path_of(1)}: no webhook with a live cluster listens. Fix: {fix}\n"
    assert capsys.readouterr().err == said


WORKLOADS = Accuracy().table()["workloads"]
HOSTILE: dict[str, object] = {
    "no table": {},
    "a list": [],
    "a number": 7,
    "words for numbers": {"results": dict.fromkeys(RESULTS, "x"), "open": 0, "examples": []},
    "an example without a time": {**Accuracy().table(), "examples": [{"at": "now"}]},
    "no workloads": {**Accuracy().table(), "workloads": {}},
    "words for reasons": {**Accuracy().table(), "workloads": {**WORKLOADS, "notJudged": {"x": "y"}}},
    "no causes": {**Accuracy().table(), "workloads": {**WORKLOADS, "explainedBy": None}},
}


@pytest.mark.parametrize("told", HOSTILE.values(), ids=HOSTILE)
def test_whatever_answers_there_is_no_traceback(
    told: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = Accuracy()
    monkeypatch.setattr(tracker, "table", lambda: told)
    with serving_table(tracker) as port:
        assert main(["webhook", "accuracy", "--health-port", str(port)]) == 3
    assert "what answers there is no webhook of this version" in capsys.readouterr().err


def test_nothing_unprintable_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker, text = Accuracy(), "\033[31m\u202e\n" + "x" * 1_000
    example = {"result": "wrong", "pod": text, "predicted": text, "happened": text, "change": text, "at": 0.0}
    results = dict.fromkeys(RESULTS, 1)
    workloads = {**WORKLOADS, "notJudged": {text: 1}, "results": {**WORKLOADS["results"], "explained": 1}}
    workloads |= {"explainedBy": {text: 1}, "examples": [{**example, "workload": text}] * 50}
    table = {"results": results, "open": 0, "examples": [example] * 50, "workloads": workloads}
    monkeypatch.setattr(tracker, "table", lambda: table)
    with serving_table(tracker) as port:
        assert main(["webhook", "accuracy", "--health-port", str(port)]) == 0
    out = capsys.readouterr().out
    assert not set("\033\u202e") & set(out)
    assert max(map(len, out.splitlines())) < 700
    assert len(out.splitlines()) < 300
