"""The class that a namespace gives to pods which ask for none: it counts wherever new pods are judged."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.prediction.forecast.placement import place
from tests.builders import make_node, make_pod
from tests.recorded.dry_run import dry_run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WANTED = frozenset(
    ("/Pod", "/Namespace", "/ResourceQuota", "scheduling.k8s.io/PriorityClass", "apps/Deployment", *POD_TEMPLATE_PATHS)
)


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    header = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**header, "metadata": {"name": name}, "value": value, **fields}


def namespace(name: str = "team", default: str = "batch", **annotations: str) -> dict[str, Any]:
    keys = {"forewarn.dev/default-priority-class": default, **annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": keys}}


def quota(*classes: str, pods: str = "0") -> dict[str, Any]:
    by_class = {"scopeName": "PriorityClass", "operator": "In", "values": list(classes)}
    spec = {"hard": {"pods": pods}, "scopeSelector": {"matchExpressions": [by_class]}}
    status = {"hard": {"pods": pods}, "used": {"pods": "0"}}
    metadata = {"name": "q", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": status}


def pod(class_name: str = "", namespace: str = "team", **spec: Any) -> dict[str, Any]:
    named = {"priorityClassName": class_name} if class_name else {}
    resources = {"requests": {"cpu": "4"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], **named, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec}


def deployment(class_name: str = "", namespace: str = "team") -> dict[str, Any]:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": pod(class_name)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "d", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


CLASSES = (priority_class("usual", 100, globalDefault=True), priority_class("batch", 10), priority_class("gold", 1000))
FULL = (make_node("n1").obj, make_pod("b", "x").priority(50).request(cpu="4").on("n1").obj)


def state(*objects: dict[str, Any]) -> ClusterSnapshot:
    cache = Cache()
    for obj in (*CLASSES, *objects):
        cache.add(obj)
    return cache.snapshot()


STATE = state(namespace())


def config_of(text: str) -> Config:
    return read_config(text, "forewarn.yaml")


def rules(
    *objects: dict[str, Any],
    cluster: ClusterSnapshot | None,
    config: Config | None = None,
    phase: Phase = Phase.LINT,
) -> set[str]:
    """The ids of what is found about these objects, which are applied together."""
    reading = read(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "f.json", WANTED)
    found = evaluate(EvaluationRequest(ChangeSet(reading.subjects), cluster, config or Config(), phase=phase, now=NOW))
    return {finding.rule for finding in found}


@pytest.mark.parametrize("obj", [deployment(), pod()], ids=["Deployment", "Pod"])
def test_the_pods_of_a_namespace_push_nobody_out_that_its_class_does_not(obj: dict[str, Any]) -> None:
    assert "preempts-running-pods" in rules(obj, cluster=state(*FULL))
    assert rules(obj, cluster=state(*FULL, namespace())) == {"fits-nowhere"}
    assert "preempts-running-pods" in rules(obj, cluster=state(*FULL, namespace(default="gold")))


def test_a_namespace_of_the_same_input_counts() -> None:
    assert rules(namespace(), deployment(), cluster=state(*FULL)) == {"fits-nowhere"}
    assert "preempts-running-pods" in rules(namespace(), deployment("gold"), cluster=state(*FULL))


@pytest.mark.parametrize(("class_name", "priority"), [("", 10), ("usual", 10), ("batch", 10), ("gold", 1000)])
def test_a_pod_that_asks_for_a_class_keeps_it_and_the_global_default_looks_like_none(
    class_name: str, priority: int
) -> None:
    assert predict(STATE, pod(class_name)).pod.priority == priority
    (predicted,) = place(STATE, deployment(class_name)).predictions
    assert predicted.pod.priority == priority


@pytest.mark.parametrize(
    "objects",
    [[namespace("other")], [namespace(default="missing")], [namespace(default="")]],
    ids=["another namespace", "a class that is missing", "no class"],
)
def test_everywhere_else_the_global_default_stays(objects: list[dict[str, Any]]) -> None:
    assert predict(state(*objects), pod()).pod.priority == 100


@pytest.mark.parametrize("name", ["kube-system", "forewarn"])
def test_namespaces_that_the_webhook_does_not_evaluate_are_left_alone(name: str) -> None:
    assert predict(state(namespace(name)), pod(namespace=name)).pod.priority == 100


def test_a_pod_that_has_a_priority_keeps_it() -> None:
    assert predict(STATE, pod("usual", priority=100)).pod.priority == 100


def test_quotas_count_the_class_of_the_namespace() -> None:
    for obj in (deployment(), pod()):
        assert "quota-exceeded" in rules(obj, quota("batch"), cluster=STATE)
        assert "quota-exceeded" not in rules(obj, quota("usual"), cluster=STATE)
        assert "quota-exceeded" in rules(namespace(), *CLASSES, obj, quota("batch"), cluster=None)


def test_limited_resources_count_the_class_of_the_namespace() -> None:
    limited = (
        "limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [%s]}]}]"
    )
    for class_name, rejected in (("batch", True), ("usual", False)):
        found = rules(deployment(), cluster=STATE, config=config_of(limited % class_name))
        assert ("limited-class-without-quota" in found) is rejected


def test_a_system_class_that_the_namespace_gives_can_be_blocked() -> None:
    system = "system-cluster-critical"
    node = make_node("n1").label("cloud.google.com/gke-nodepool", "a").obj
    found = rules(deployment(), cluster=state(namespace(default=system), node))
    assert "system-class-blocked-by-quota" in found


ALLOWED = config_of("allowedClasses: [{classes: [batch], namespaces: [other]}]")


def test_what_is_allowed_is_asked_of_the_class_of_the_namespace() -> None:
    for obj in (deployment(), pod(), deployment("usual")):
        assert "class-not-allowed" in rules(obj, cluster=STATE, config=ALLOWED)
    assert "class-not-allowed" not in rules(deployment(namespace="other"), cluster=STATE, config=ALLOWED)
    assert "class-not-allowed" not in rules(deployment("gold"), cluster=STATE, config=ALLOWED)


def test_without_known_classes_the_namespace_is_believed() -> None:
    assert "class-not-allowed" in rules(namespace(), deployment(), cluster=None, config=ALLOWED)


def test_a_stored_pod_is_judged_by_what_it_has() -> None:
    """It may have come by while the webhook was away."""
    stored = pod("usual", priority=100, preemptionPolicy="PreemptLowerPriority")
    for obj in (stored, pod("usual")):
        assert "class-not-allowed" not in rules(obj, cluster=STATE, config=ALLOWED, phase=Phase.VALIDATE)
        assert "quota-exceeded" not in rules(obj, cluster=state(namespace(), quota("batch")), phase=Phase.VALIDATE)


def test_what_the_api_server_itself_says_is_said_of_its_own_default() -> None:
    """The Priority plugin runs before webhooks: a number in a file must be that of the global default."""
    assert "priority-mismatch" not in rules(pod(priority=100), cluster=STATE)
    assert "priority-mismatch" in rules(pod(priority=10), cluster=STATE)
    answer = dry_run(ReviewedObject(pod()), STATE)
    assert answer.resolved is not None
    assert answer.resolved.priority == 100


@pytest.mark.parametrize(
    ("config", "annotations"),
    [("exemptions: [{reason: theirs, namespaces: [te*]}]", {}), ("{}", {"forewarn.dev/exempt-until": "2026-01-02"})],
    ids=["by configuration", "by break glass"],
)
def test_an_exempted_namespace_gives_nothing(config: str, annotations: dict[str, str]) -> None:
    for rule, more in (("preempts-running-pods", ()), ("quota-exceeded", (quota("usual"),))):
        cluster = state(*FULL, *more, namespace(**annotations))
        assert rule in rules(deployment(), cluster=cluster, config=config_of(config))
