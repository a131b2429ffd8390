"""Which pods an object brings: paused and scaled Deployments, StatefulSets that do not begin at 0, DaemonSets."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.controllers.changes import pod_change
from forewarn.policies.kubernetes.controllers.deployment import find_new_replica_set
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.linting.rules.wording.forecasts import MISSING_ONLY
from forewarn.policies.questions.application.predict import predict
from tests.builders import Made, Obj, cluster, make_node, make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {"app": "w"}
HASH = {"pod-template-hash": "abc"}


def workload(kind: str = "Deployment", image: str = "old", pod: Obj | None = None, **spec: Any) -> Obj:
    made = {"containers": [{"name": "c", "image": image}], **(pod or {})}
    template = {"metadata": {"labels": LABELS}, "spec": made}
    return Made("apps/v1", kind, "w", "default").spec(selector={"matchLabels": LABELS}, template=template, **spec).obj


def replica_set(pod: Obj | None = None) -> Made:
    """What the Deployment `old` has made."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "controller": True}
    made = Made("apps/v1", "ReplicaSet", "w-abc", "default").labels(**LABELS, **HASH)
    made.metadata(ownerReferences=[owner]).spec(selector={"matchLabels": {**LABELS, **HASH}})
    template = workload(pod=pod)["spec"]["template"]
    return made.spec(template={**template, "metadata": {"labels": {**LABELS, **HASH}}})


def running(number: int) -> Made:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w-abc", "controller": True}
    return make_pod(f"w-abc-{number}").labels(**LABELS, **HASH).on("n1").metadata(ownerReferences=[owner])


NEW = workload(image="new", replicas=4)
PAUSED = workload(paused=True, replicas=4)


@pytest.mark.parametrize(
    ("old", "new", "pods", "comes"),
    [
        (None, workload(replicas=4), 0, 4),
        (None, PAUSED, 0, 0),
        (workload(replicas=4), workload(replicas=4), 4, 0),
        (workload(replicas=4), workload(replicas=6), 4, 2),
        (workload(replicas=4), NEW, 4, 4),
        (workload(replicas=8), workload(image="new"), 8, 8),
        (PAUSED, {**NEW, "spec": {**NEW["spec"], "paused": True}}, 4, 0),
        (PAUSED, workload(paused=True, replicas=6), 4, 2),
        ({**NEW, "spec": {**NEW["spec"], "paused": True}}, NEW, 4, 4),
        (PAUSED, workload(replicas=4), 4, 0),
    ],
    ids=[
        "created", "created paused", "as it was", "scaled", "rolled out", "the autoscaler's replicas stay",
        "changed while paused", "scaled while paused", "goes on with a change", "goes on without one",
    ],
)  # fmt: skip
def test_a_deployment_brings(old: Obj | None, new: Obj, pods: int, comes: int) -> None:
    there = [] if old is None else [replica_set(), *map(running, range(pods))]
    state = cluster(make_node("n1"), *there)
    subject = ReviewedObject(object=new, operation=Operation.UPDATE if old else Operation.CREATE, old=old)
    found = pod_change(subject, state, POD_TEMPLATE_PATHS)
    assert (len(found.pods), len(found.own)) == (comes, pods)
    changed = new["spec"]["template"] != workload()["spec"]["template"]
    assert all(pod.labels["pod-template-hash"] == ("new" if changed or not old else "abc") for pod in found.pods)


@pytest.mark.parametrize(("paused", "comes"), [({}, 0), ({"paused": False}, 4)])
def test_an_apply_does_not_resume_a_paused_deployment(paused: Obj, comes: int) -> None:
    stored = Made("apps/v1", "Deployment", "w", "default").spec(**PAUSED["spec"])
    state = cluster(make_node("n1"), stored, replica_set(), *map(running, range(4)))
    new = {**NEW, "spec": {**NEW["spec"], **paused}}
    assert len(pod_change(ReviewedObject(object=new), state, POD_TEMPLATE_PATHS).pods) == comes


def test_a_stateful_set_begins_where_it_says() -> None:
    subject = ReviewedObject(object=workload("StatefulSet", replicas=2, ordinals={"start": 5}))
    found = pod_change(subject, cluster(make_node("n1")), POD_TEMPLATE_PATHS)
    assert [pod.name for pod in found.pods] == ["w-5", "w-6"]


def numbered(place: int, node: str = "", **status: Any) -> Made:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "controller": True, "uid": ""}
    pod = make_pod(f"w-{place}").labels(**LABELS).metadata(ownerReferences=[owner]).status(**status)
    return pod.on(node) if node else pod


@pytest.mark.parametrize(
    ("policy", "waits", "scaled", "changed"),
    [
        ("OrderedReady", {}, [], []),
        ("OrderedReady", {"nominatedNodeName": "n1"}, ["w-3"], ["w-3", "w-2", "w-1", "w-0"]),
        ("Parallel", {}, ["w-3"], ["w-3", "w-2", "w-1", "w-0"]),
    ],
)
def test_a_stateful_set_that_goes_in_order_makes_and_ends_nobody_while_one_waits(
    policy: str, waits: Obj, scaled: list[str], changed: list[str]
) -> None:
    """w-1 waits for a node: neither what comes after it nor what is there is touched, as processReplica has it."""
    stored = workload("StatefulSet", replicas=3, podManagementPolicy=policy)
    state = cluster(make_node("n1"), numbered(0, "n1"), numbered(1, **waits), numbered(2, "n1"))

    def come(image: str) -> list[str]:
        wanted = workload("StatefulSet", image, replicas=4, podManagementPolicy=policy)
        subject = ReviewedObject(object=wanted, operation=Operation.UPDATE, old=stored)
        return [pod.name for pod in pod_change(subject, state, POD_TEMPLATE_PATHS).pods]

    assert come("old") == scaled
    assert come("new") == changed


@pytest.mark.parametrize(
    ("minor", "order", "deleted"),
    [
        (36, "43210", {0: "4", 1: "3", 2: "2", 3: "1", 4: "0"}),
        (37, "34120", {0: "43", 2: "21", 4: "0"}),
    ],
)
def test_a_stateful_set_replaces_max_unavailable_pods_at_a_time(
    minor: int, order: str, deleted: dict[int, str]
) -> None:
    spec: Obj = {"replicas": 5, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}
    cache = Cache(semantics=Semantics(minor))
    for made in (make_node("n1"), *(numbered(number, "n1") for number in range(5))):
        cache.add(made.obj)
    stored, wanted = workload("StatefulSet", **spec), workload("StatefulSet", "new", **spec)
    subject = ReviewedObject(object=wanted, operation=Operation.UPDATE, old=stored)
    found = pod_change(subject, cache.snapshot(), POD_TEMPLATE_PATHS)
    assert [pod.name for pod in found.pods] == [f"w-{number}" for number in order]
    assert {at: "".join(pod.name[2:] for pod in pods) for at, pods in found.deleted.items()} == deleted
    assert found.deleted_first == len(deleted[0])


def test_a_stateful_set_makes_what_is_missing_below_the_one_that_waits() -> None:
    stored = workload("StatefulSet", replicas=4)
    state = cluster(make_node("n1"), numbered(0, "n1"), numbered(2), numbered(3, "n1"))
    wanted = workload("StatefulSet", "new", replicas=4)
    subject = ReviewedObject(object=wanted, operation=Operation.UPDATE, old=stored)
    found = pod_change(subject, state, POD_TEMPLATE_PATHS)
    assert [pod.name for pod in found.pods] == ["w-1"]
    assert not found.deleted


def only(*terms: Obj) -> Obj:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


N1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


@pytest.mark.parametrize(
    ("pod", "nodes"),
    [
        ({}, ["n1", "n2"]),
        ({"nodeSelector": {"disk": "ssd"}}, ["n2"]),
        (only(N1), ["n1"]),
        (only({}), []),
        (only(N1, {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}), ["n1", "n2"]),
        ({"tolerations": [{"operator": "Exists"}]}, ["n1", "n2", "n3"]),
    ],
)
def test_a_daemon_set_brings_pods_for_the_nodes_that_its_template_names(pod: Obj, nodes: list[str]) -> None:
    """Source: NodeShouldRunDaemonPod, which reads the template's own affinity."""
    state = cluster(make_node("n1"), make_node("n2").label("disk", "ssd"), make_node("n3").taint("no"))
    found = pod_change(ReviewedObject(object=workload("DaemonSet", pod=pod)), state, POD_TEMPLATE_PATHS)
    assert [one.name for one in found.pods] == [f"w-{node}" for node in nodes]


def test_of_a_daemon_that_does_not_fit_its_own_node_is_named() -> None:
    obj = workload("DaemonSet")
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    state = cluster(*(make_node(f"n{number}").has(cpu="1" if number else "4") for number in range(4)))
    messages = [
        f.message
        for f in evaluate(
            EvaluationRequest(ChangeSet((ReviewedObject(object=obj),)), state, Config(), phase=Phase.LINT, now=NOW)
        )
    ]
    said = "3 of 4 new Pods stay Pending even with preemption: 0/3 nodes fit (insufficient cpu)"
    assert any(message.endswith(said) for message in messages), messages


@pytest.mark.parametrize("given", [{}, {"paused": True}], ids=["omitted", "in the manifest"])
def test_while_a_deployment_is_paused_predict_scales_its_old_pods(given: Obj) -> None:
    large = {"containers": [{"name": "c", "image": "new", "resources": {"requests": {"cpu": "500"}}}]}
    stored = Made("apps/v1", "Deployment", "w", "default").spec(**workload(paused=True, replicas=5)["spec"])
    state = cluster(make_node("n1"), replica_set(), stored, *map(running, range(5)))
    result = predict(state, workload(pod=large, replicas=7, **given))
    assert result.outcomes == {"fits": 2}
    assert {prediction.pod.labels["pod-template-hash"] for prediction in result.predictions} == {"abc"}


SIDECAR: Obj = {"containers": [{"name": "c", "image": "old"}, {"name": "sidecar", "image": "old"}]}
ON_SSD: Obj = {"nodeSelector": {"disk": "ssd"}}
DEFAULTED: Obj = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}


@pytest.mark.parametrize(
    ("more", "is_known", "created"),
    [(SIDECAR, True, 4), (SIDECAR, False, 4), (ON_SSD, True, 4), (ON_SSD, False, 0), (DEFAULTED, False, 0)],
)
def test_an_apply_rolls_out_what_it_removes(more: Obj, is_known: bool, created: int) -> None:
    old, new = workload(pod=more, replicas=4), workload(replicas=4)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(old)} if is_known else {}
    stored = Made("apps/v1", "Deployment", "w", "default").spec(**old["spec"]).metadata(annotations=applied)
    state = cluster(make_node("n1"), stored, *map(running, range(4)))
    assert predict(state, new).outcomes == ({"fits": created} if created else {})
    assert len(pod_change(ReviewedObject(object=new), state, POD_TEMPLATE_PATHS).pods) == created


@pytest.mark.parametrize(
    ("more", "is_new"), [({}, True), (DEFAULTED, True), (ON_SSD, False), ({"initContainers": "unreadable"}, False)]
)
def test_the_replica_set_of_a_template_may_have_more_defaults(more: Obj, is_new: bool) -> None:
    stored = replica_set(more).obj
    assert (find_new_replica_set(workload()["spec"]["template"], [stored]) is stored) is is_new


def job(kind: str = "Job", **spec: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    made = {"template": template, **spec}
    cron = {"schedule": "@daily", "jobTemplate": {"spec": made}}
    return Made("batch/v1", kind, "w", "default").spec(**(made if kind == "Job" else cron)).obj


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (PAUSED, "paused"),
        (workload(replicas=0), "0 replicas"),
        (workload("DaemonSet", pod={"nodeSelector": {"no": "node"}}), "no node matches"),
        (job(suspend=True), "suspended"),
        (job("CronJob", suspend=True), "suspended"),
        (job(managedBy="example.com/other"), "spec.managedBy"),
        (job(parallelism=0), "parallelism 0"),
        (job(completions=0), "completions 0"),
    ],
)
def test_predict_says_why_a_new_workload_creates_no_pods(obj: Obj, why: str) -> None:
    result = predict(cluster(make_node("n1")), obj)
    assert not result.outcomes
    assert result.document.headline == f"{obj['kind']} default/w: no new Pods: {why}"


NO_ROOM: Obj = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500"}}}]}


@pytest.mark.parametrize(
    ("policy", "pods", "outcomes"),
    [
        ("OrderedReady", [], {"pending": 1, "later": 2}),
        ("OrderedReady", [numbered(0, "n1")], {"pending": 1, "later": 1}),
        ("OrderedReady", [numbered(0)], {"later": 2}),
        ("Parallel", [], {"pending": 3}),
    ],
)
def test_predict_counts_pods_that_an_ordered_stateful_set_does_not_create(
    policy: str, pods: list[Made], outcomes: dict[str, int]
) -> None:
    state = cluster(make_node("n1"), *pods)
    created = workload("StatefulSet", pod=NO_ROOM, replicas=3, podManagementPolicy=policy)
    result = predict(state, created)
    assert (result.outcomes, result.predicted.effects().pending) == (outcomes, outcomes.get("pending", 0))
    other = make_pod("other").obj
    assert result.outcomes == predict(state, [created, other]).outcomes - Counter(fits=1)


KEEPS_OLD = "no new Pods: the updateStrategy replaces no existing Pod"


@pytest.mark.parametrize(
    ("kind", "strategy", "says"),
    [
        ("StatefulSet", {"type": "OnDelete"}, KEEPS_OLD),
        ("StatefulSet", {"rollingUpdate": {"partition": 1}}, KEEPS_OLD),
        ("StatefulSet", {}, "the new Pod runs"),
        ("DaemonSet", {"type": "OnDelete"}, KEEPS_OLD),
        ("DaemonSet", {}, "the new Pod runs"),
    ],
)
def test_predict_says_that_an_update_strategy_creates_no_pods(kind: str, strategy: Obj, says: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "w", "controller": True, "uid": "uid-w"}
    old = make_pod("w-0").labels(**LABELS).metadata(ownerReferences=[owner]).on("n1")
    stored = Made("apps/v1", kind, "w", "default").spec(**workload(kind, updateStrategy=strategy)["spec"])
    new = workload(kind, "new", updateStrategy=strategy)
    document = predict(cluster(make_node("n1"), stored, old), new).document
    assert (document.headline, [*document.warnings]) == (f"{kind} default/w: {says}", [])


def test_predict_mentions_no_rollout_of_a_job() -> None:
    def job(parallelism: int) -> Made:
        template = {"metadata": {"labels": LABELS}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
        return Made("batch/v1", "Job", "w", "default").spec(parallelism=parallelism, completions=5, template=template)

    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "controller": True, "uid": "uid-w"}
    old = make_pod("w-a").labels(**LABELS).metadata(ownerReferences=[owner]).on("n1")
    document = predict(cluster(make_node("n1"), job(1), old), job(2).obj).document
    assert document.headline == "Job default/w: the new Pod runs on n1"
    assert [*document.warnings] == [MISSING_ONLY]
