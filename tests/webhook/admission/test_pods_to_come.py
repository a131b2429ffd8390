"""The objects of one apply: a prediction counts the Pods of those before it that are not created yet."""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS as PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission import admitted_pods
from forewarn.webhook.admission.admitted_pods import AdmittedPods
from forewarn.webhook.admission.answer_cache import AnswerCache
from forewarn.webhook.admission.review import AdmissionCall, Hook
from tests.builders import Made, make_node, make_pod
from tests.policies.test_rollouts import deployment
from tests.webhook.admission.test_incomplete_answers import Forking
from tests.webhook.builders import OBJECTS, answer_now, endpoint, priority_class, review

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

Obj = dict[str, Any]
NODES = (make_node("n").obj, make_pod("victim").request(cpu="2").priority(-10).on("n").obj)
"""A node with room for one Pod of 2 CPUs, and one that such a Pod may preempt."""


class World:
    """A cluster state that changes, and a webhook with a clock."""

    def __init__(self, *objects: Obj, **more: Any) -> None:
        self.cache, self.seconds = Cache(), 100.0
        for obj in (*OBJECTS, priority_class("mid", 500), *(objects or NODES)):
            self.cache.add(obj)
        self.state = self.cache.snapshot()
        self.admitted_pods = AdmittedPods(lambda: self.seconds)
        config = Config()
        self.endpoint = endpoint(lambda: self.state, lambda: config, admitted_pods=self.admitted_pods, **more)

    def add(self, *objects: Obj) -> None:
        for obj in objects:
            self.cache.add(obj)
        self.state = self.cache.snapshot()

    def remove(self, obj: Obj) -> None:
        self.cache.remove(obj)
        self.state = self.cache.snapshot()

    def asks(self, obj: Obj, user: str = "kim", operation: str = "CREATE", **request: Any) -> Obj:
        """The impact that the audit log is told; empty where nothing goes."""
        given = review(obj, operation, userInfo={"username": user, "groups": []}, **request)
        reply = answer_now(self.endpoint, AdmissionCall(Hook.VALIDATE, json.dumps(given).encode(), monotonic()))
        response = json.loads(reply.body)["response"]
        assert response["allowed"]
        audit = response.get("auditAnnotations", {})
        self.audit = audit
        return dict(json.loads(audit.get("preemption-impact", "{}")))


def made(name: str, class_name: str, replicas: int = 1, cpu: str = "2", namespace: str = "team") -> Obj:
    spec = {**make_pod("").request(cpu=cpu).obj["spec"], "priorityClassName": class_name}
    del spec["priority"]
    new = Made("apps/v1", "Deployment", name, namespace).spec(replicas=replicas)
    labels = {"app": name}
    return new.spec(selector={"matchLabels": labels}, template={"metadata": {"labels": labels}, "spec": spec}).obj


def is_preempted(impact: Obj) -> bool:
    return bool(impact.get("preemptions"))


def test_the_second_object_of_an_apply_sees_the_pods_of_the_first() -> None:
    world = World()
    assert not world.asks(made("first", "gold"))
    assert is_preempted(world.asks(made("second", "mid")))


@pytest.mark.parametrize("first", ["Pod", "Deployment", "scale"])
def test_what_is_stored_counts_for_everybody_until_its_pods_have_a_place(first: str) -> None:
    world, obj = World(), made("first", "gold")
    if first == "Pod":
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first", "namespace": "team"}}
        obj["spec"] = {**made("", "gold")["spec"]["template"]["spec"], "priority": 1000}
    old = made("first", "gold", replicas=0) if first == "scale" else None
    world.asks(obj, operation="UPDATE" if old else "CREATE", oldObject=old)
    second = made("second", "mid")
    assert not is_preempted(world.asks(second, "sam", dryRun=True))
    world.add(obj)
    assert is_preempted(world.asks(second, "sam", dryRun=True))
    pod = make_pod("first", "team") if first == "Pod" else make_pod("first-1", "team")
    pod.obj["spec"] = {**made("", "gold")["spec"]["template"]["spec"], "priority": 1000}
    if first != "Pod":
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "first", "controller": True, "uid": ""}
        pod.metadata(ownerReferences=[owner])
    world.add(pod.labels(app="first").obj)
    assert is_preempted(world.asks(second, "sam", dryRun=True))
    world.add(pod.on("n").obj)
    impact = world.asks(second, "sam", dryRun=True)
    assert is_preempted(impact)  # as a stored Pod
    world.remove(pod.obj)
    world.remove(obj)
    assert not is_preempted(world.asks(second, "sam", dryRun=True))


def test_what_was_not_stored_counts_for_nobody_else_and_not_for_long() -> None:
    world, second = World(), made("second", "mid")
    world.asks(made("first", "gold"))
    assert not is_preempted(world.asks(second, "sam", dryRun=True))
    assert is_preempted(world.asks(second, dryRun=True))
    world.seconds += admitted_pods.UNSEEN_SECONDS + 1
    assert not is_preempted(world.asks(second, dryRun=True))


def test_pods_that_do_not_come_count_for_some_seconds() -> None:
    world, first, second = World(), made("first", "gold"), made("second", "mid")
    world.asks(first)
    world.add(first)
    assert is_preempted(world.asks(second, "sam", dryRun=True))
    world.seconds += admitted_pods.SECONDS + 1
    assert not is_preempted(world.asks(second, "sam", dryRun=True))


def test_what_was_deleted_before_anybody_saw_it_does_not_count() -> None:
    world = World()
    world.asks(made("first", "gold"))
    world.admitted_pods.deleted(("apps/Deployment", "team", "another"))
    assert is_preempted(world.asks(made("second", "mid"), dryRun=True))
    world.admitted_pods.deleted(("apps/Deployment", "team", "first"))
    assert not is_preempted(world.asks(made("third", "mid"), dryRun=True))


def test_a_dry_run_counts_for_nobody() -> None:
    world = World()
    world.asks(made("first", "gold"), dryRun=True)
    assert not is_preempted(world.asks(made("second", "mid")))


def test_what_is_denied_counts_for_nobody() -> None:
    world = World()
    world.admitted_pods.note = lambda *_: pytest.fail("it was denied")  # type: ignore[method-assign]
    denied: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first", "namespace": "team"}}
    denied["spec"] = {**made("", "gold")["spec"]["template"]["spec"], "priority": 1}
    given = review(denied, userInfo={"username": "kim", "groups": []})
    reply = answer_now(world.endpoint, AdmissionCall(Hook.VALIDATE, json.dumps(given).encode(), monotonic()))
    assert not json.loads(reply.body)["response"]["allowed"]


def test_an_object_does_not_count_against_itself() -> None:
    world, first = World(), made("first", "gold")
    for _ in range(3):
        assert not world.asks(first)
    assert not world.asks(
        {**made("first", "gold"), "metadata": {"name": "first", "namespace": "team", "labels": {"a": "b"}}}
    )


def test_a_prediction_process_counts_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(predictors=Forking(answers=True))
    assert not world.asks(made("first", "gold"))
    monkeypatch.setattr("forewarn.webhook.admission.endpoint._ATTEMPT_SECONDS", dict.fromkeys(range(9), -1.0))
    assert is_preempted(world.asks(made("second", "mid")))


def test_answers_to_other_requests_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no prediction, and predictions for other users while an object is not stored."""
    world, asked = World(answers=AnswerCache(lambda: 0.0)), list[object]()
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}
    second, put = made("second", "mid"), world.endpoint.answers.put

    def counted(*given: Any) -> None:
        asked.append(given)
        put(*given)

    monkeypatch.setattr(world.endpoint.answers, "put", counted)
    for number in range(4):
        world.asks(second, "sam", dryRun=True)
        world.asks(config_map, "sam")
        world.asks(made(f"first-{number}", "gold"))
    assert len(asked) == 1 + 4


def test_nobody_makes_it_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    to_come = AdmittedPods(lambda: 0.0)
    state: ClusterSnapshot = World().state
    for number in range(200):
        obj = made(f"d-{number}", "gold", namespace=f"ns-{number % 50}")
        to_come.note(ReviewedObject(obj), f"user-{number % 40}", 1, 100)
    to_come.note(ReviewedObject(made("large", "gold")), "large", 1, admitted_pods.MAX_BYTES + 1)
    every = [admitted for n in range(40) for admitted in to_come.admitted_for(f"user-{n}", ("", "", ""), state)]
    assert len(every) == admitted_pods.MAX_OBJECTS
    assert not to_come.admitted_for("large", ("", "", ""), state)


def test_a_flood_of_one_user_leaves_those_of_others() -> None:
    world = World()
    world.asks(made("first", "gold"))
    for number in range(500):
        obj = made(f"d-{number}", "gold", namespace=f"ns-{number}")
        world.admitted_pods.note(ReviewedObject(obj), "mallory", 1, 100)
    assert is_preempted(world.asks(made("second", "mid"), dryRun=True))
    assert len(world.admitted_pods.admitted_for("mallory", ("", "", ""), world.state)) <= admitted_pods.MAX_OF_ONE


def test_many_pods_are_counted_in_part_and_the_audit_log_says_so() -> None:
    world = World(make_node("n").has(cpu="100", pods="1000").obj)
    world.asks(made("first", "gold", replicas=admitted_pods.MAX_PODS + 1, cpu="1"))
    world.asks(made("second", "mid"))
    assert world.audit[admitted_pods.AUDIT_KEY] == "Pods of 1 object just admitted"


def test_pods_that_fit_nowhere_cost_one_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    world, placed = World(), list[object]()
    with_ = admitted_pods._add_pod

    def counted(*given: Any) -> Any:
        placed.append(given)
        return with_(*given)

    monkeypatch.setattr(admitted_pods, "_add_pod", counted)
    world.asks(made("first", "gold", replicas=30, cpu="50"))
    world.asks(made("second", "mid", cpu="1"))
    assert len(placed) == 1


def test_too_much_work_is_left_out_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_pods, "MAX_WORK", 0)
    monkeypatch.setattr("forewarn.policies.base.metering.CHECK_INTERVAL", 1)
    world = World()
    world.asks(made("first", "gold"))
    assert not is_preempted(world.asks(made("second", "mid")))
    assert admitted_pods.AUDIT_KEY in world.audit


def test_a_rollout_is_not_counted() -> None:
    """Its Pods come when old ones have gone, and not at once."""
    objects = [one.obj for one in (*deployment("web", ["n"], "1", 0), make_node("n"))]
    world, change = World(*objects), json.loads(json.dumps(objects[0]))
    change["spec"]["template"]["spec"]["priority"] = 0
    change["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    world.asks(change, operation="UPDATE", oldObject=objects[0])
    assert not world.admitted_pods.admitted_for("kim", ("", "", ""), world.state)


def test_one_more_object_costs_one_more_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    world, placed = World(make_node("n").has(cpu="1000", pods="1000").obj), list[object]()
    with_ = admitted_pods._add_pod

    def counted(*given: Any) -> Any:
        placed.append(given)
        return with_(*given)

    monkeypatch.setattr(admitted_pods, "_add_pod", counted)
    many = 3 * admitted_pods.MAX_OF_ONE
    for number in range(many):
        world.asks(made(f"d-{number}", "gold", cpu="1"))
    assert many - 1 <= len(placed) <= 2 * many
    counted_ones = world.admitted_pods.admitted_for("kim", ("", "", ""), world.state)
    assert len(counted_ones) >= admitted_pods.MAX_OF_ONE // 2
    whole = AdmittedPods(lambda: 0.0).placed(world.state, counted_ones, PATHS, lambda: False)
    known = world.admitted_pods.placed(world.state, counted_ones, PATHS, lambda: False)
    assert _nodes(whole) == _nodes(known)


def _nodes(arriving: admitted_pods.Arriving) -> dict[str, list[str]]:
    assert arriving.cluster is not None
    return {info.name: sorted(pod.name for pod in info.pods) for info in arriving.cluster.scheduling.node_infos}


def quota(pods: int, used: int) -> Obj:
    made = Made("v1", "ResourceQuota", "q", "team").spec(hard={"pods": str(pods)})
    return made.status(hard={"pods": str(pods)}, used={"pods": str(used)}).obj


def test_the_pods_of_the_first_object_use_up_the_quota_of_the_second() -> None:
    world = World(*NODES, quota(pods=3, used=0))
    assert not world.asks(made("first", "gold"))
    second = world.asks(made("second", "mid", replicas=3))
    assert (second["newPods"], second["pending"], second["rejectedByQuota"]) == (3, 1, 1)
    assert is_preempted(second)
    assert not is_preempted(world.asks(made("third", "gold")))  # its Pod is rejected
    pod = make_pod("first-1", "team").labels(app="first")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "first", "controller": True, "uid": ""}
    pod.obj["spec"] = {**made("", "gold")["spec"]["template"]["spec"], "priority": 1000}
    world.add(made("first", "gold"), pod.metadata(ownerReferences=[owner]).obj, quota(pods=3, used=1))
    assert "rejectedByQuota" not in world.asks(made("fourth", "mid", replicas=2), "sam", dryRun=True)
    assert world.asks(made("fifth", "mid", replicas=3), "sam", dryRun=True)["rejectedByQuota"] == 1
