"""Reviews and clusters for tests."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.decide import decide
from forewarn.webhook.admission.decision import Decision
from forewarn.webhook.admission.endpoint import Endpoint
from forewarn.webhook.admission.lanes import Step
from forewarn.webhook.admission.prediction_access import Confirm, ReviewContext, Time, read_classes
from forewarn.webhook.admission.review import Gate, Hook, parse_review
from forewarn.webhook.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.admission.review import AdmissionCall, Reply

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RESOURCES = {
    "PodGroup": ("scheduling.k8s.io", "podgroups"),
    "Workload": ("scheduling.k8s.io", "workloads"),
    "Pod": ("", "pods"),
    "Namespace": ("", "namespaces"),
    "PodTemplate": ("", "podtemplates"),
    "ResourceQuota": ("", "resourcequotas"),
    "PriorityClass": ("scheduling.k8s.io", "priorityclasses"),
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "ControllerRevision": ("apps", "controllerrevisions"),
    "ReplicaSet": ("apps", "replicasets"),
    "DaemonSet": ("apps", "daemonsets"),
    "ReplicationController": ("", "replicationcontrollers"),
    "Job": ("batch", "jobs"),
    "CronJob": ("batch", "cronjobs"),
    "ConfigMap": ("", "configmaps"),
    "Scale": ("apps", "deployments"),
}


def answer_now(endpoint: Endpoint, call: AdmissionCall) -> Reply:
    """The response; runs all steps on this thread."""
    return answer_by(endpoint, call, lambda step: step.run())


def answer_by(endpoint: Endpoint, call: AdmissionCall, run: Callable[[Step[Any]], object]) -> Reply:
    """The response, with steps that `run` runs on this thread."""

    async def finished(step: Step[Any]) -> Any:
        return run(step)

    try:
        endpoint.answer(call, finished).send(None)
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    raise AssertionError("a step awaits something")


def pod(class_name: str | None = None, priority: int | None = None, **metadata: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    if class_name is not None:
        spec["priorityClassName"] = class_name
    if priority is not None:
        spec |= {"priority": priority, "preemptionPolicy": "PreemptLowerPriority"}
    metadata = {"name": "p", "namespace": "team", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def deployment(class_name: str = "gold") -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod(class_name)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": spec,
    }


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def namespace(name: str, **annotations: str) -> dict[str, Any]:
    keys = {f"forewarn.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": keys}}


OBJECTS = (
    priority_class("gold", 1000),
    priority_class("batch-low", -5, preemptionPolicy="Never"),
    namespace("team"),
    namespace("batch", default_priority_class="batch-low"),
    namespace("odd", default_priority_class="missing"),
    namespace("broken-glass", exempt_until="2030-01-02T00:00:00Z"),
    namespace("glass-again", exempt_until="2001-01-01T00:00:00Z"),
)


def cluster(*more: dict[str, Any]) -> ClusterSnapshot:
    cache = Cache()
    for obj in (*OBJECTS, *more):
        cache.add(obj)
    return cache.snapshot()


def review(obj: dict[str, Any] | None, operation: str = "CREATE", **request: Any) -> dict[str, Any]:
    """An AdmissionReview; the objects are in the namespace of the request, as an API server makes sure."""
    if namespace := request.get("namespace"):
        obj, old = (_moved(stated, namespace) for stated in (obj, request.get("oldObject")))
        request = {**request, "oldObject": old}
    about = obj or request.get("oldObject") or {"kind": "Pod", "metadata": {}}
    group, resource = RESOURCES[about["kind"]]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {
                "group": "autoscaling" if about["kind"] == "Scale" else group,
                "version": "v1",
                "kind": about["kind"],
            },
            "resource": {"group": group, "version": "v1", "resource": resource},
            "name": about["metadata"].get("name", ""),
            "namespace": about["metadata"].get("namespace", ""),
            "operation": operation,
            "userInfo": {"username": "kim", "groups": ["developers"]},
            "object": obj,
            "oldObject": None,
            **request,
        },
    }


def _moved(obj: dict[str, Any] | None, namespace: str) -> dict[str, Any] | None:
    metadata = obj.get("metadata") if obj else None
    if not obj or not isinstance(metadata, dict) or "namespace" not in metadata:
        return obj
    return {**obj, "metadata": {**metadata, "namespace": namespace}}


def body(obj: dict[str, Any] | None, operation: str = "CREATE", **request: Any) -> bytes:
    """A review as an API server writes it."""
    return json.dumps(review(obj, operation, **request), separators=(",", ":")).encode()


def decided(
    hook: Hook,
    given: dict[str, Any],
    *,
    state: ClusterSnapshot | str | None = "default",
    config: Config | None = None,
    confirm: Confirm | None = None,
    expired: bool | Callable[[], bool] = False,
    staleness: str = "",
) -> Decision:
    """The decision on a review, as built by `review`."""
    request = parse_review(json.dumps(given).encode())
    known = cluster() if isinstance(state, str) else state
    time = Time(NOW, expired if callable(expired) else lambda: bool(expired), staleness)
    live = None if confirm is None else read_classes(confirm, time.expired)
    return decide(ReviewContext(request, hook, known, config or Config(), time, live))


def endpoint(
    state: Callable[[], ClusterSnapshot | None] | None = None,
    config: Callable[[], Config] = Config,
    limit: int = 256,
    **more: Any,
) -> Endpoint:
    known = cluster()
    return Endpoint(state or (lambda: known), config, Metrics(), Gate(limit), **more)


def patch_of(answer: bytes) -> list[dict[str, Any]]:
    """The operations in an AdmissionReview that was answered."""
    response = json.loads(answer)["response"]
    assert ("patch" in response) == ("patchType" in response)
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return found
