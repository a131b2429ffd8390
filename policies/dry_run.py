"""What kube-apiserver itself would answer to a request, in its words and codes; no rule of ours.

The stages are those of the API server, and the first that objects answers alone: decode (400), the Priority
plugin's mutation (403, first fault), object validation (422, all faults), the Priority plugin's validation of classes
(403), quota (403), and whether the object is there (404, 409). Judged are PriorityClass, Pod and ResourceQuota; other
kinds, and subresources other than `pods/resize`, are accepted without a look.

Differences, all on purpose: a generated name ends in `xxxxx`; an uncovered limited scope is a 403 (upstream: 500, a
plain error); faults of map entries come sorted by key (upstream: in Go's random order), of several failing quotas the
first by name. Not covered: unknown fields (kubectl's strict validation), what other admission plugins say or fill in
(LimitRanger, PodSecurity, RuntimeClass, NamespaceLifecycle …), and what apis/pod.py says of pods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from policies.apis.decode import decode_fault
from policies.apis.field_errors import FieldError, aggregate, go_quote
from policies.apis.pod import validate_pod_create, validate_pod_update
from policies.apis.resource_quota import validate_resource_quota, validate_resource_quota_update
from policies.apis.schema import POD, PRIORITY_CLASS, RESOURCE_QUOTA, Struct
from policies.objects.fields import NOTHING, at, group_kind
from policies.objects.priority_class import SYSTEM_CLASSES, PriorityClass
from policies.objects.resource_quota import ResourceQuota
from policies.objects.subject import Operation
from policies.options import Options
from policies.priority import (
    Forbidden,
    Resolved,
    admit_pod,
    check_default,
    validate_priority_class,
    validate_priority_class_object_update,
)
from policies.quota import RESOURCE_QUOTAS, Check, FaultKind, Pods, check_request, is_terminating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.subject import Subject

REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    422: "Invalid",
    500: "InternalError",
}
_GENERATED: Final = "xxxxx"
_LONGEST_PREFIX: Final = 58
_NO_OPTIONS: Final = Options()


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's answer: `code` as in HTTP, `message` empty where it accepts.

    `errors`: the faults behind a 422. `resolved`: what an accepted pod is stored with. `quotas`: those of its
    namespace, charged with an accepted object.
    """

    allowed: bool
    code: int
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    resolved: Resolved | None = None
    quotas: tuple[ResourceQuota, ...] = ()

    @property
    def reason(self) -> str:
        """The Status' reason, empty where it accepts."""
        return REASONS.get(self.code, "")

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without the faults one by one."""
        resolved = self.resolved and {
            "priorityClassName": self.resolved.priority_class_name or None,
            "priority": self.resolved.priority,
            "preemptionPolicy": self.resolved.preemption_policy,
        }
        return {"allowed": self.allowed, "code": self.code, "message": self.message, "resolved": resolved}


class _Refused(Exception):
    """A stage objects."""

    def __init__(self, code: int, message: str, errors: Iterable[FieldError] = ()) -> None:
        self.answer = Answer(False, code, message, tuple(errors))
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind that is judged, under its names in the API server's texts."""

    struct: Struct
    api_version: str
    resource: str
    kind: str
    namespaced: bool = True


_PODS: Final = _Kind(POD, "v1", "pods", "Pod")
_QUOTAS: Final = _Kind(RESOURCE_QUOTA, "v1", "resourcequotas", "ResourceQuota")
_CLASSES: Final = _Kind(
    PRIORITY_CLASS,
    "scheduling.k8s.io/v1",
    "priorityclasses.scheduling.k8s.io",
    "PriorityClass.scheduling.k8s.io",
    namespaced=False,
)
_KINDS: Final = {"/Pod": _PODS, "/ResourceQuota": _QUOTAS, "scheduling.k8s.io/PriorityClass": _CLASSES}


@dataclass(frozen=True, slots=True)
class _Request:
    """A request whose object decodes. `obj` has its namespace and its name, generated if need be."""

    kind: _Kind
    obj: ApiObject
    old: ApiObject | None
    name: str
    namespace: str
    cluster: ClusterSnapshot
    options: Options
    now: float

    @property
    def is_update(self) -> bool:
        return self.old is not None

    @property
    def quotas(self) -> list[ResourceQuota]:
        return self.cluster.quotas_of(self.namespace)

    def forbid(self, problem: str, name: str | None = None) -> _Refused:
        return _Refused(
            403, f"{self.kind.resource} {go_quote(self.name if name is None else name)} is forbidden: {problem}"
        )

    def check(self, errors: list[FieldError]) -> None:
        if errors:
            message = f"{self.kind.kind} {go_quote(self.name)} is invalid: {aggregate(errors)}"
            raise _Refused(422, message, errors)


def dry_run(subject: Subject, cluster: ClusterSnapshot, options: Options = _NO_OPTIONS, *, now: float = 0.0) -> Answer:
    """The answer to one request. Never raises for what its object holds.

    UPDATE needs `subject.old`; where it is absent, the cluster's object stands in. `now`: seconds since 1970, for pods
    that are past their deletion.
    """
    kind = _KINDS.get(group_kind(subject.object or subject.old or NOTHING))
    try:
        if kind is None or (subject.subresource and not (kind is _PODS and subject.subresource == "resize")):
            return _accepted(subject.operation is not Operation.CREATE)
        if subject.operation in (Operation.DELETE, Operation.CONNECT):
            return _delete(kind, subject, cluster)
        request = _decode(kind, subject, cluster, options, now)
        if subject.subresource:
            return _quota(request, _prepared_pod(request, request.obj), Pods(now))
        return _STAGES[kind.kind](request)
    except _Refused as refusal:
        return refusal.answer


def dry_run_apply(
    subjects: Iterable[Subject], cluster: ClusterSnapshot, options: Options = _NO_OPTIONS, *, now: float = 0.0
) -> Iterator[tuple[Subject, Answer]]:
    """The answers to objects applied in order: each sees the classes, quotas and quota use of those before it.

    What the cluster has already is updated. As in a cluster, a new quota limits nothing before its status is written.
    """
    for given in subjects:
        exists = given.operation is Operation.CREATE and _is_there(given, cluster)
        subject = replace(given, operation=Operation.UPDATE) if exists else given
        answer = dry_run(subject, cluster, options, now=now)
        yield subject, answer
        if answer.allowed:
            cluster = _after(subject, answer, cluster)


def _is_there(subject: Subject, cluster: ClusterSnapshot) -> bool:
    kind, ref = _KINDS.get(group_kind(subject.object)), subject.ref
    key = (ref.namespace or "default", ref.name)
    if kind is _CLASSES:
        return ref.name in cluster.priority_classes
    return (kind is _PODS and key in cluster.pods) or (kind is _QUOTAS and key in cluster.resource_quotas)


def _after(subject: Subject, answer: Answer, cluster: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster after an accepted request."""
    kind = _KINDS.get(group_kind(subject.object))
    if kind is _CLASSES:
        added = PriorityClass.from_api(subject.object)
        return replace(cluster, priority_classes={**cluster.priority_classes, added.name: added})
    charged = {(quota.namespace, quota.name): quota for quota in answer.quotas}
    if kind is _QUOTAS:
        new = ResourceQuota.from_api({**subject.object, "status": None})
        namespace = new.namespace if at(subject.object, "metadata", "namespace") else subject.namespace or "default"
        old = cluster.resource_quotas.get((namespace, new.name))
        hard, used = (old.hard, old.used) if old else ({}, {})
        charged[namespace, new.name] = replace(new, namespace=namespace, hard=hard, used=used)
    return replace(cluster, resource_quotas={**cluster.resource_quotas, **charged}) if charged else cluster


def _accepted(is_update: bool, resolved: Resolved | None = None, quotas: Iterable[ResourceQuota] = ()) -> Answer:
    return Answer(True, 200 if is_update else 201, resolved=resolved, quotas=tuple(quotas))


def _delete(kind: _Kind, subject: Subject, cluster: ClusterSnapshot) -> Answer:
    """Only the system's own classes may not be deleted (registry/scheduling/priorityclass/storage)."""
    name = str(at(subject.old or subject.object, "metadata", "name") or "")
    if kind is _CLASSES and subject.operation is Operation.DELETE:
        if name in {known.name for known in SYSTEM_CLASSES}:
            problem = "this is a system priority class and cannot be deleted"
            raise _Refused(403, f"{kind.resource} {go_quote(name)} is forbidden: {problem}")
        if subject.old is None and name not in cluster.priority_classes:
            raise _Refused(404, f"{kind.resource} {go_quote(name)} not found")
    return _accepted(is_update=True)


def _decode(kind: _Kind, subject: Subject, cluster: ClusterSnapshot, options: Options, now: float) -> _Request:
    obj = subject.object
    plain = kind.struct.name
    if obj.get("apiVersion") != kind.api_version:
        raise _Refused(404, f"no matches for kind {go_quote(plain)} in version {go_quote(str(obj.get('apiVersion')))}")
    fault = decode_fault(obj, kind.struct)
    if fault:
        raise _Refused(400, f'{plain} in version "v1" cannot be handled as a {plain}: {fault.text}')
    metadata: ApiObject = obj.get("metadata") or NOTHING
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    namespace = (metadata.get("namespace") or subject.namespace or "default") if kind.namespaced else ""
    old = None
    if subject.operation is Operation.UPDATE:
        old = _old(kind, subject, cluster, name, namespace)
    elif prefix and not name:
        name = f"{prefix[:_LONGEST_PREFIX]}{_GENERATED}"
    completed = {**obj, "metadata": {**metadata, "name": name, "namespace": namespace}}
    return _Request(kind, completed, old, name, namespace, cluster, options, now)


def _old(kind: _Kind, subject: Subject, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject:
    old = subject.old if subject.old is not None else _in_cluster(kind, subject.object, cluster, name, namespace)
    if old is None:
        raise _Refused(404, f"{kind.resource} {go_quote(name)} not found")
    fault = decode_fault(old, kind.struct)
    if fault:
        raise _Refused(400, f"the old object cannot be read: {fault}")
    old_name = at(old, "metadata", "name") or ""
    if not name:
        problem = f"the name of the object ({old_name} based on URL) was undeterminable: name must be provided"
        raise _Refused(400, problem)
    if name != old_name:
        raise _Refused(400, f"the name of the object ({name}) does not match the name on the URL ({old_name})")
    return old


def _in_cluster(kind: _Kind, obj: ApiObject, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject | None:
    """What is known of the stored object: of a pod its priority, the rest counts as unchanged."""
    if kind is _CLASSES:
        found = cluster.priority_classes.get(name)
        return None if found is None else found.to_api()
    if kind is _QUOTAS:
        quota = cluster.resource_quotas.get((namespace, name))
        return None if quota is None else quota.to_api()
    pod = cluster.pods.get((namespace, name))
    return None if pod is None else {**obj, "spec": {**(obj.get("spec") or NOTHING), **pod.to_api()["spec"]}}


def _create_class(request: _Request) -> Answer:
    obj = request.obj
    if request.old is None:
        request.check(validate_priority_class(obj))
    else:
        request.check(validate_priority_class_object_update(obj, request.old))
    if obj.get("globalDefault"):
        problem = check_default(request.name, request.is_update, request.cluster.priority_classes.values())
        if problem:
            raise request.forbid(problem)
    _check_new(request, request.name in request.cluster.priority_classes)
    return _accepted(request.is_update)


def _create_quota(request: _Request) -> Answer:
    if request.old is not None:
        request.check(validate_resource_quota_update(request.obj, request.old))
        return _accepted(is_update=True)
    request.check(validate_resource_quota(request.obj))
    check = check_request(request.obj, request.quotas, request.options.limited_resources, evaluator=RESOURCE_QUOTAS)
    _refuse(request, check)
    _check_new(request, (request.namespace, request.name) in request.cluster.resource_quotas)
    return _accepted(is_update=False, quotas=check.quotas)


def _create_pod(request: _Request) -> Answer:
    spec: ApiObject = request.obj.get("spec") or NOTHING
    if request.old is None:
        resolved = _admit(request, spec)
        pod = _prepared_pod(request, {**request.obj, "spec": _resolved_spec(spec, resolved)})
        request.check(validate_pod_create(pod))
        answer = _quota(request, pod, Pods(request.now))
        _check_new(request, (request.namespace, request.name) in request.cluster.pods)
        return replace(answer, resolved=resolved)
    pod = _prepared_pod(request, {**request.obj, "spec": _restored_spec(spec, request.old)})
    request.check(validate_pod_update(pod, request.old))
    spec = pod["spec"]
    resolved = Resolved(
        spec.get("priorityClassName") or "", spec.get("priority") or 0, spec.get("preemptionPolicy") or ""
    )
    if is_terminating(pod) == is_terminating(request.old):
        return _accepted(is_update=True, resolved=resolved)
    return replace(_quota(request, pod, Pods(request.now)), resolved=resolved)


_STAGES: Final = {_CLASSES.kind: _create_class, _QUOTAS.kind: _create_quota, _PODS.kind: _create_pod}


def _admit(request: _Request, spec: ApiObject) -> Resolved:
    """The Priority plugin, which runs before a name is generated."""
    try:
        return admit_pod(spec, request.cluster.priority_classes)
    except Forbidden as refusal:
        prefix = at(request.obj, "metadata", "generateName") or ""
        given = request.name if not prefix or not request.name.endswith(_GENERATED) else prefix
        raise request.forbid(str(refusal), given or "Unknown") from None


def _resolved_spec(spec: ApiObject, resolved: Resolved) -> ApiObject:
    return {
        **spec,
        "priorityClassName": resolved.priority_class_name,
        "priority": resolved.priority,
        "preemptionPolicy": resolved.preemption_policy,
    }


def _restored_spec(spec: ApiObject, old: ApiObject) -> ApiObject:
    """On UPDATE the plugin puts back what the new object leaves out."""
    kept = {key: at(old, "spec", key) for key in ("priority", "preemptionPolicy") if spec.get(key) is None}
    return {**spec, **kept}


def _prepared_pod(request: _Request, pod: ApiObject) -> ApiObject:
    """What clients may not set is taken out, or taken from the stored pod (`PrepareForCreate`, `PrepareForUpdate`)."""
    old = request.old
    system = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
    metadata = {key: value for key, value in pod["metadata"].items() if key not in system}
    if old is None:
        # A quality of service that the client claims is believed.
        return {**pod, "metadata": metadata, "status": {"qosClass": at(pod, "status", "qosClass")}}
    stored = {key: value for key, value in (old.get("metadata") or NOTHING).items() if key in system}
    return {**pod, "metadata": {**metadata, **stored}, "status": old.get("status")}


def _quota(request: _Request, pod: ApiObject, pods: Pods) -> Answer:
    limited = request.options.limited_resources
    check = check_request(pod, request.quotas, limited, old=request.old, evaluator=pods)
    _refuse(request, check)
    return _accepted(request.is_update, quotas=check.quotas)


def _refuse(request: _Request, check: Check) -> None:
    if not check.faults:
        return
    fault = check.faults[0]
    if fault.kind in (FaultKind.UNCOVERED_SCOPE, FaultKind.INVALID_SCOPE):
        # Plain errors, without the object's name before them.
        raise _Refused(403 if fault.kind is FaultKind.UNCOVERED_SCOPE else 500, fault.message)
    raise request.forbid(fault.message)


def _check_new(request: _Request, exists: bool) -> None:
    if exists and not request.is_update:
        generated = ", the server was not able to generate a unique name for the object"
        suffix = generated if at(request.obj, "metadata", "generateName") else ""
        raise _Refused(409, f"{request.kind.resource} {go_quote(request.name)} already exists{suffix}")
