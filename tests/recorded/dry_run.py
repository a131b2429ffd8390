"""The response of kube-apiserver to a request, with its messages and codes, without forewarn's rules.

The stages are those of the API server, and the first stage with an error determines the response: decode (400), the
Priority plugin's mutation (403, first error), object validation (422, all errors), the Priority plugin's validation of
classes (403), quota (403), and existence of the object (404, 409). PriorityClass, Pod, ResourceQuota, PodGroup and
Workload are evaluated; other kinds, and subresources other than `pods/resize`, are accepted without evaluation.
PodGroups and Workloads count as served unless the feature gate GenericWorkload is known to be off.

Intended differences: a generated name ends with `xxxxx`; an uncovered limited scope is a 403 (upstream: 500, a plain
error); errors of map entries are sorted by key (upstream: in Go's random order), and of several exceeded quotas, the
first LimitRange or quota by name is reported. LimitRanges are not checked for `pods/resize`. Unknown fields are
rejected with `strict`, also in workloads; for an update, without the text of kubectl's patch. Also not modelled: other
admission plugins (PodSecurity, RuntimeClass, NamespaceLifecycle …), and Pod validation beyond
tests/recorded/validation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from forewarn.policies.base.documents import Always, Document, Hidden, in_json
from forewarn.policies.kubernetes.cluster.admission import with_limit_range_defaults
from forewarn.policies.kubernetes.kinds import registry as kinds
from forewarn.policies.kubernetes.kube_apiserver.priority import (
    Forbidden,
    Resolved,
    admit_pod,
    admit_pod_group,
    check_default,
    resolved_spec,
)
from forewarn.policies.kubernetes.kube_apiserver.quota import Check, FaultKind, Pods, is_terminating
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import (
    POD_STRUCT,
    PRIORITY_CLASS_STRUCT,
    RESOURCE_QUOTA_STRUCT,
    Struct,
    decode_fault,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError, aggregate, go_quote
from forewarn.policies.kubernetes.kube_apiserver.validation.pod import (
    admission_gates,
    defaulted_group,
    group_struct,
    group_versions,
    validate_group,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
    validate_limits,
    validate_resource_quota,
    validate_resource_quota_update,
)
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at, group_kind
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_NAMES
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from tests.recorded.validation import (
    RESOURCE_QUOTAS,
    ObjectCount,
    PodsAt,
    check_request,
    strict_error,
    validate_pod_create,
    validate_pod_update,
    validate_priority_class_object_update,
    worded,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

    Key = tuple[str, str]


REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    422: "Invalid",
    500: "InternalError",
}


class ResolvedPriority(NamedTuple):
    """The values that the Priority admission plugin writes into a Pod."""

    priority_class_name: str | None
    priority: int
    preemption_policy: str


@dataclass(frozen=True, slots=True)
class Answer(Document):
    """The API server's response: `code` is the HTTP status, `message` is "" for an accepted request.

    `errors`: the errors of a 422. `resolved`: the priority fields of an accepted Pod. `stored`: the stored spec of an
    accepted PodGroup or Workload. `quotas`: the quotas of the namespace, with the usage of an accepted object.
    """

    allowed: bool
    code: int
    message: Always[str] = ""
    errors: Hidden[tuple[FieldError, ...]] = ()
    resolved: Hidden[Resolved | None] = None
    quotas: Hidden[tuple[ResourceQuota, ...]] = ()
    stored: ApiObject | None = None
    is_unknown_kind: Hidden[bool] = False
    """True if the server does not serve the kind in this version."""

    @property
    def reason(self) -> str:
        """The reason of the Status; "" for an accepted request."""
        return REASONS.get(self.code, "")

    @in_json
    def resolved_(self) -> ResolvedPriority | None:
        """The priority fields of an accepted Pod."""
        return self.resolved and ResolvedPriority(self.resolved.priority_class_name or None, *self.resolved[1:])


class RequestRejected(Exception):
    """Raised by a stage that rejects the request. `answer`: the response."""

    def __init__(
        self, code: int, message: str, errors: Iterable[FieldError] = (), *, is_unknown_kind: bool = False
    ) -> None:
        self.answer = Answer(False, code, message, tuple(errors), is_unknown_kind=is_unknown_kind)
        super().__init__(message)


T = TypeVar("T")
_GENERATED: Final = "xxxxx"
_MAX_PREFIX_LENGTH: Final = 58


@dataclass(frozen=True, slots=True)
class Kind:
    """A modelled kind, with its names in kube-apiserver's messages.

    `minors`: the minor versions that serve this version of the kind; None for all.
    """

    struct: Struct
    api_version: str
    resource: str
    kind: str
    namespaced: bool = True
    minors: range | None = None

    @property
    def is_group(self) -> bool:
        """Whether the kind is PodGroup or Workload, which are served only with the feature gate GenericWorkload."""
        return self.minors is not None


PODS: Final = Kind(POD_STRUCT, "v1", "pods", "Pod")
QUOTAS: Final = Kind(RESOURCE_QUOTA_STRUCT, "v1", "resourcequotas", "ResourceQuota")
CLASSES: Final = Kind(
    PRIORITY_CLASS_STRUCT,
    "scheduling.k8s.io/v1",
    "priorityclasses.scheduling.k8s.io",
    "PriorityClass.scheduling.k8s.io",
    namespaced=False,
)
_KINDS = {kinds.POD: PODS, kinds.RESOURCE_QUOTA: QUOTAS, kinds.PRIORITY_CLASS: CLASSES}
_GROUPS: Final = {
    (version, kind): Kind(
        struct := group_struct(version, kind),
        version,
        f"{kinds.BY_GROUP_KIND[kind].plural}.{kinds.BY_GROUP_KIND[kind].group}",
        f"{struct.name}.{kinds.BY_GROUP_KIND[kind].group}",
        minors=known.minors,
    )
    for version, known in group_versions().items()
    for kind in (kinds.POD_GROUP, kinds.GROUP_TEMPLATES)
}


_KINDS |= {kind: known for (_, kind), known in _GROUPS.items()}


def kind_of(obj: ApiObject) -> Kind | None:
    """Return the kind of an object, of another version if its version is unknown; None if not modelled."""
    kind = group_kind(obj)
    return _GROUPS.get((str(obj.get("apiVersion")), kind)) or _KINDS.get(kind)


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request with a decoded object. `obj` has its namespace, and a name, which may be generated.

    `given_name`: the name in messages of the Priority plugin, which runs before a name is generated.
    """

    kind: Kind
    obj: ApiObject
    old: ApiObject | None
    name: str
    given_name: str
    namespace: str
    cluster: ClusterSnapshot
    options: Options
    now: float

    @property
    def is_update(self) -> bool:
        return self.old is not None

    @property
    def drops_scheduling_groups(self) -> bool:
        """True if kube-apiserver is known to drop `spec.schedulingGroup` from Pods (`dropDisabledSchedulingGroup`)."""
        minor = self.options.minor
        is_unknown = minor is not None and minor < 36
        return is_unknown or self.cluster.semantics.pods_are_grouped is False

    @property
    def quotas(self) -> list[ResourceQuota]:
        return self.cluster.quotas_of(self.namespace)

    def forbid(self, problem: str, name: str = "") -> RequestRejected:
        """The rejection by an admission plugin (`admission.NewForbidden`)."""
        return RequestRejected(403, f"{self.kind.resource} {go_quote(name or self.name)} is forbidden: {problem}")

    def admit(self, plugin: Callable[[], T]) -> T:
        """Return the result of `plugin`, which mutates before a name is generated. Raises RequestRejected."""
        try:
            return plugin()
        except Forbidden as rejection:
            raise self.forbid(str(rejection), self.given_name) from None

    def check(self, errors: list[FieldError]) -> None:
        """Raise RequestRejected if there are errors (`errors.NewInvalid`)."""
        if errors:
            errors = [error._replace(text=worded(error.text, self.options.minor)) for error in errors]
            message = f"{self.kind.kind} {go_quote(self.name)} is invalid: {aggregate(errors)}"
            raise RequestRejected(422, message, errors)


def decode(
    kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot, options: Options, now: float, *, strict: bool = False
) -> DecodedRequest:
    """Decode a request. Raises RequestRejected, also if the object to update does not exist."""
    obj = subject.object
    plain = kind.struct.name
    if obj.get("apiVersion") != kind.api_version or not _is_served(kind, cluster, options):
        message = f"no matches for kind {go_quote(plain)} in version {go_quote(str(obj.get('apiVersion')))}"
        raise RequestRejected(404, message, is_unknown_kind=True)
    fault = decode_fault(obj, kind.struct)
    if fault:
        version = kind.api_version.rpartition("/")[2]
        raise RequestRejected(
            400, f"{plain} in version {go_quote(version)} cannot be handled as a {plain}: {fault.text}"
        )
    if strict:
        check_fields(subject, options.minor)
    metadata: ApiObject = obj.get("metadata") or NOTHING
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    namespace = (metadata.get("namespace") or subject.namespace or kinds.DEFAULT_NAMESPACE) if kind.namespaced else ""
    old, given_name = None, name or prefix or "Unknown"
    if subject.operation is Operation.UPDATE:
        old = _old(kind, subject, cluster, name, namespace)
    elif prefix and not name:
        name = f"{prefix[:_MAX_PREFIX_LENGTH]}{_GENERATED}"
    completed = {**obj, "metadata": {**metadata, "name": name, "namespace": namespace}}
    return DecodedRequest(kind, completed, old, name, given_name, namespace, cluster, options, now)


def _is_served(kind: Kind, cluster: ClusterSnapshot, options: Options) -> bool:
    if kind.minors is None:
        return True
    is_known = options.minor is None or options.minor in kind.minors
    return is_known and cluster.semantics.pods_are_grouped is not False


def check_fields(subject: ReviewedObject, minor: int | None) -> None:
    """Raise RequestRejected for fields that the kind does not define. Source: handlers/create.go and patch.go."""
    error = strict_error(subject.object, minor)
    if error and subject.operation is Operation.UPDATE:
        raise RequestRejected(422, f' "" is invalid: patch: Invalid value: "map[...]": {error}')
    if error:
        kind, version = subject.object["kind"], subject.object["apiVersion"].rpartition("/")[2]
        raise RequestRejected(400, f"{kind} in version {go_quote(version)} cannot be handled as a {kind}: {error}")


def _old(kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject:
    stored = cluster.stored(group_kind(subject.object), namespace, name)
    old = stored if subject.old is None else subject.old
    if old is None:
        raise RequestRejected(404, f"{kind.resource} {go_quote(name)} not found")
    fault = decode_fault(old, kind.struct)
    if fault:
        raise RequestRejected(400, f"the old object cannot be read: {fault}")
    old_name = at(old, "metadata", "name") or ""
    if not name:
        problem = f"the name of the object ({old_name} based on URL) was undeterminable: name must be provided"
        raise RequestRejected(400, problem)
    if name != old_name:
        raise RequestRejected(400, f"the name of the object ({name}) does not match the name on the URL ({old_name})")
    if kind is PODS and not at(old, "spec", "containers"):
        # Only its priority and its group are known: the rest counts as unchanged.
        unchanged = {key: at(old, "spec", key) for key in ("priorityClassName", "priority", "preemptionPolicy")}
        unchanged |= {key: value for key, value in (at(old, "spec") or {}).items() if key == "schedulingGroup"}
        return {**subject.object, "spec": {**(subject.object.get("spec") or NOTHING), **unchanged}}
    return old


def dry_run(
    subject: ReviewedObject,
    cluster: ClusterSnapshot,
    options: Options | None = None,
    *,
    now: float = 0.0,
    strict: bool = False,
) -> Answer:
    """Return the response to one request. Never raises for any content of the object.

    UPDATE needs `subject.old`; by default, the cluster's object is used. `now`: seconds since 1970, for Pods after
    their deletion. `strict`: `fieldValidation=Strict`, kubectl's default: reject fields that neither `options.minor`
    nor (if None) any supported release defines.
    """
    options = options or Options()
    kind = kind_of(subject.object or subject.old or NOTHING)
    try:
        if kind is None and strict:
            check_fields(subject, options.minor)
        if kind is None or (subject.subresource and not (kind is PODS and subject.subresource == "resize")):
            return _accepted(subject.operation is not Operation.CREATE)
        if subject.operation in (Operation.DELETE, Operation.CONNECT):
            return _delete(kind, subject, cluster)
        request = decode(kind, subject, cluster, options, now, strict=strict)
        if subject.subresource:
            return _quota(request, _prepared_pod(request, request.obj), PodsAt.of(now))
        return _answer_group(request) if kind.is_group else _STAGES[kind.kind](request)
    except RequestRejected as rejection:
        return rejection.answer


def _accepted(is_update: bool, resolved: Resolved | None = None, quotas: Iterable[ResourceQuota] = ()) -> Answer:
    return Answer(True, 200 if is_update else 201, resolved=resolved, quotas=tuple(quotas))


def _delete(kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot) -> Answer:
    """Respond to a deletion: only the system classes may not be deleted (registry/scheduling/priorityclass/storage)."""
    name = str(at(subject.old or subject.object, "metadata", "name") or "")
    if kind is CLASSES and subject.operation is Operation.DELETE:
        if name in SYSTEM_NAMES:
            problem = "this is a system priority class and cannot be deleted"
            raise RequestRejected(403, f"{kind.resource} {go_quote(name)} is forbidden: {problem}")
        if subject.old is None and name not in cluster.priority_classes:
            raise RequestRejected(404, f"{kind.resource} {go_quote(name)} not found")
    return _accepted(is_update=True)


def _answer_class(request: DecodedRequest) -> Answer:
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


def _answer_quota(request: DecodedRequest) -> Answer:
    if request.old is not None:
        request.check(validate_resource_quota_update(request.obj, request.old))
        return _accepted(is_update=True)
    request.check(validate_resource_quota(request.obj))
    check = check_request(request.obj, request.quotas, request.options.limited_resources, evaluator=RESOURCE_QUOTAS)
    _reject(request, check)
    _check_new(request, (request.namespace, request.name) in request.cluster.resource_quotas)
    return _accepted(is_update=False, quotas=check.quotas)


def _answer_pod(request: DecodedRequest) -> Answer:
    spec: ApiObject = request.obj.get("spec") or NOTHING
    if request.old is None:
        resolved = request.admit(lambda: admit_pod(spec, request.cluster.priority_classes))
        pod = _prepared_pod(request, {**request.obj, "spec": resolved_spec(spec, resolved)})
        ranges = request.cluster.limit_ranges_of(request.namespace)
        pod = with_limit_range_defaults(pod, ranges, request.cluster.semantics)
        request.check(validate_pod_create(pod))
        for limit_range in ranges:
            if errors := [error.text for error in validate_limits(read_pod_resources(pod), limit_range)]:
                raise request.forbid(aggregate(errors))
        answer = _quota(request, pod, PodsAt.of(request.now))
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
    return replace(_quota(request, pod, PodsAt.of(request.now)), resolved=resolved)


def _answer_group(request: DecodedRequest) -> Answer:
    """Respond to a PodGroup or Workload. The Priority plugin ignores Workloads, and updates of PodGroups."""
    semantics, old = request.cluster.semantics, request.old
    spec = defaulted_group(request.obj, semantics)
    if old is None and request.kind.struct.name == "PodGroup":
        is_on, with_policy = admission_gates(request.obj, semantics)
        if is_on:
            spec = request.admit(
                lambda: admit_pod_group(spec, request.cluster.priority_classes, with_policy=with_policy)
            )
    errors, stored = validate_group(request.obj, spec, old, semantics)
    request.check(errors)
    quotas: tuple[ResourceQuota, ...] = ()
    if old is None:
        counted = ObjectCount.of(request.kind.resource, f"count/{request.kind.resource}")
        check = check_request(request.obj, request.quotas, request.options.limited_resources, evaluator=counted)
        _reject(request, check)
        quotas = check.quotas
        stored_group = request.cluster.stored(group_kind(request.obj), request.namespace, request.name)
        _check_new(request, stored_group is not None)
    return replace(_accepted(request.is_update, quotas=quotas), stored=stored)


_STAGES: Final = {CLASSES.kind: _answer_class, QUOTAS.kind: _answer_quota, PODS.kind: _answer_pod}


def _restored_spec(spec: ApiObject, old: ApiObject) -> ApiObject:
    stored_fields = {key: at(old, "spec", key) for key in ("priority", "preemptionPolicy") if spec.get(key) is None}
    return {**spec, **stored_fields}


def _prepared_pod(request: DecodedRequest, pod: ApiObject) -> ApiObject:
    """Return the Pod without fields that clients may not set; on updates, with the stored values of these fields.

    Source: `PrepareForCreate`, `PrepareForUpdate`.
    """
    old = request.old
    if request.drops_scheduling_groups and at(old or NOTHING, "spec", "schedulingGroup") is None:
        spec = pod.get("spec") or NOTHING
        pod = {**pod, "spec": {key: value for key, value in spec.items() if key != "schedulingGroup"}}
    system = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
    metadata = {key: value for key, value in pod["metadata"].items() if key not in system}
    if old is None:
        # A quality of service that the client claims is believed.
        return {**pod, "metadata": metadata, "status": {"qosClass": at(pod, "status", "qosClass")}}
    stored = {key: value for key, value in (old.get("metadata") or NOTHING).items() if key in system}
    return {**pod, "metadata": {**metadata, **stored}, "status": old.get("status")}


def _quota(request: DecodedRequest, pod: ApiObject, pods: Pods) -> Answer:
    limited = request.options.limited_resources
    check = check_request(pod, request.quotas, limited, old=request.old, evaluator=pods)
    _reject(request, check)
    return _accepted(request.is_update, quotas=check.quotas)


def _reject(request: DecodedRequest, check: Check) -> None:
    if not check.faults:
        return
    fault = check.faults[0]
    if fault.kind in (FaultKind.UNCOVERED_SCOPE, FaultKind.INVALID_SCOPE):
        # Plain errors, without the object's name before them.
        raise RequestRejected(403 if fault.kind is FaultKind.UNCOVERED_SCOPE else 500, fault.message)
    raise request.forbid(fault.message)


def _check_new(request: DecodedRequest, exists: bool) -> None:
    if exists and not request.is_update:
        generated = ", the server was not able to generate a unique name for the object"
        suffix = generated if at(request.obj, "metadata", "generateName") else ""
        raise RequestRejected(409, f"{request.kind.resource} {go_quote(request.name)} already exists{suffix}")
