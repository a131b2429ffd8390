"""Random requests for `forewarn policies`, and the rules that forewarn itself reports for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject, User
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.questions.application.admission_policies import COVERED

if TYPE_CHECKING:
    from random import Random

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

Obj = dict[str, Any]

CONFIG_TEXT: Final = r"""
actions: {system-class-outside-kube-system: deny}
severities: {class-required: error}
allowedClasses:
- classes: [policy-gold]
  namespaces: [policy-shop, "policy-shop-[a-c!]*"]
- classes: [policy-gold, "bat[!x]h-?"]
  namespaceSelector:
    matchLabels: {tier: production}
    matchExpressions:
    - {key: zone, operator: NotIn, values: [a, b]}
    - {key: example.com/team, operator: Exists}
    - {key: locked, operator: DoesNotExist}
  groups: ["devel*", '"] || true || g in ["']
- classes: [policy-silver]
  users: [alice, '") || true || ("', "a\\b\n\u2028'"]
requiredClasses:
- namespaces: ["policy-shop*"]
  kinds: [Deployment, "*Job"]
- namespaces: [policy-lab]
  classes: ["bat*", policy-silver]
exemptions:
- reason: on call
  namespaceSelector:
    matchLabels: {tier: sandbox}
  groups: [developers]
"""
CONFIG: Final = read_config(CONFIG_TEXT, "policies.yaml")
CLASSES: Final = {"policy-gold": 1000, "policy-silver": 100, "batch-a": 10, "batxh-a": 10, "other": 1}
SYSTEM: Final = "system-node-critical"
NAMESPACES: Final[dict[str, Obj]] = {
    "policy-shop": {},
    "policy-shop-b": {"annotations": {"forewarn.dev/default-priority-class": "policy-gold"}},
    "policy-shop-d": {"annotations": {"forewarn.dev/default-priority-class": "other"}},
    "policy-lab": {"labels": {"tier": "production", "zone": "c", "example.com/team": ""}},
    "policy-lab-locked": {"labels": {"tier": "production", "example.com/team": "x", "locked": "true"}},
    "policy-lab-a": {"labels": {"tier": "production", "zone": "a", "example.com/team": "x"}},
    "policy-sandbox": {"labels": {"tier": "sandbox"}},
}
USERS: Final = {"admin": User("admin", ("system:masters",)), "developer": User("alice", ("developers",))}
KINDS: Final = ("/Pod", *POD_TEMPLATE_PATHS, "/Namespace")
_NOT_UPDATED: Final = ("/Pod", "batch/Job")
"""Kinds whose class cannot change."""
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Request(NamedTuple):
    """A request of a user (a key of USERS). `old`: the stored object of an update."""

    user: str
    obj: Obj
    old: Obj | None = None

    @property
    def is_namespace(self) -> bool:
        return bool(self.obj["kind"] == "Namespace")

    @property
    def namespace(self) -> str:
        """`request.namespace` of the API server."""
        return str(self.obj["metadata"]["name" if self.is_namespace else "namespace"])


def namespace_object(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **NAMESPACES[name]}}


def class_object(name: str) -> Obj:
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": CLASSES[name]}


def random_request(random: Random, number: int) -> Request:
    """A request with an object that kube-apiserver itself accepts."""
    kind, user = random.choice(KINDS), random.choice(list(USERS))
    name, namespace = f"asked-{number}", random.choice(list(NAMESPACES))
    old_class, class_name = (random.choice([*CLASSES, SYSTEM, ""]) for _ in range(2))
    is_owned, is_pinned = random.random() < 0.15, random.random() < 0.2
    if kind == "/Namespace":
        obj, old = _defaulting(namespace_object(namespace), class_name), namespace_object(namespace)
    else:
        obj = workload(kind, name, namespace, class_name, is_owned=is_owned, is_pinned=is_pinned)
        old = workload(kind, name, namespace, old_class, is_owned=is_owned, is_pinned=is_pinned)
    is_update = kind == "/Namespace" or (kind not in _NOT_UPDATED and random.random() < 0.4)
    return Request(user, obj, old if is_update else None)


def workload(
    kind: str, name: str, namespace: str, class_name: str, *, is_owned: bool = False, is_pinned: bool = False
) -> Obj:
    """A Pod, or a workload with a Pod template."""
    spec: Obj = {"containers": [{"name": "c", "image": "img"}], "restartPolicy": "Never" if "Job" in kind else "Always"}
    spec |= {"priorityClassName": class_name} if class_name else {}
    metadata: Obj = {"name": name, "namespace": namespace}
    if is_owned:
        owner = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "o", "uid": "1", "controller": True}
        metadata["ownerReferences"] = [owner]
    obj: Obj = {"apiVersion": BY_GROUP_KIND[kind].api_version, "kind": kind.rpartition("/")[2], "metadata": metadata}
    if kind == "/Pod":
        return obj | {"spec": spec}
    spec |= {"priority": 7} if is_pinned else {}
    labels = {"app": name}
    inner: Obj = {"metadata": {"labels": labels}, "spec": spec}
    for step in reversed(POD_TEMPLATE_PATHS[kind]):
        inner = {step: inner}
    if obj["kind"] in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        inner["spec"]["selector"] = {"matchLabels": labels}
    if obj["kind"] == "CronJob":
        inner["spec"]["schedule"] = "0 0 * * *"
    return obj | inner


def _defaulting(namespace: Obj, class_name: str) -> Obj:
    annotations = {"forewarn.dev/default-priority-class": class_name} if class_name else {}
    return {**namespace, "metadata": {**namespace["metadata"], "annotations": annotations}}


def cluster(*, defaults: bool = True) -> ClusterSnapshot:
    """The classes and namespaces of the requests. `defaults`: with the default classes of namespaces."""
    cache = Cache()
    for obj in (*map(class_object, CLASSES), *map(namespace_object, NAMESPACES)):
        cache.add(obj if defaults else {**obj, "metadata": {**obj["metadata"], "annotations": {}}})
    return cache.snapshot()


def reported(request: Request, snapshot: ClusterSnapshot) -> dict[str, set[str]]:
    """The covered rules that report a problem, by action (deny, warn), as forewarn itself evaluates them."""
    user = USERS[request.user]
    namespace = snapshot.namespace(request.namespace)
    if CONFIG.exemption(user, namespace, NOW):
        return {}
    operation = Operation.UPDATE if request.old else Operation.CREATE
    subject = ReviewedObject(request.obj, operation, request.old, request.namespace, user=user)
    rules: dict[str, set[str]] = {}
    for phase in Phase:
        for finding in evaluate(EvaluationRequest(ChangeSet((subject,)), snapshot, CONFIG, phase, NOW)):
            if (finding.rule == "class-required") != (phase is Phase.LINT) or finding.rule not in COVERED:
                continue
            if phase is Phase.LINT and request.old and _class(request.obj) == _class(request.old):
                continue  # a stored object may keep its class
            action = Action.DENY if phase is Phase.LINT else finding.action
            rules.setdefault(str(action), set()).add(finding.rule)
    return rules


def _class(obj: Obj) -> str:
    path = POD_TEMPLATE_PATHS.get(f"{obj['apiVersion'].rpartition('/')[0]}/{obj['kind']}", ())
    for step in (*path, "spec"):
        obj = obj.get(step, {})
    return str(obj.get("priorityClassName", ""))
