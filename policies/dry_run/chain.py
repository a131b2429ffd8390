"""The response of kube-apiserver to a request, with its messages and codes, without forewarn's rules.

The stages are those of the API server, and the first stage with an error determines the response: decode (400), the
Priority plugin's mutation (403, first error), object validation (422, all errors), the Priority plugin's validation of
classes (403), quota (403), and existence of the object (404, 409). PriorityClass, Pod, ResourceQuota, PodGroup and
Workload are evaluated; other kinds, and subresources other than `pods/resize`, are accepted without evaluation.
PodGroups and Workloads count as served unless the feature gate GenericWorkload is known to be off.

Intended differences: a generated name ends with `xxxxx`; an uncovered limited scope is a 403 (upstream: 500, a plain
error); errors of map entries are sorted by key (upstream: in Go's random order), and of several exceeded quotas, the
first by name is reported. The cluster's LimitRanges add defaults; their rejections (minimum, maximum, ratio) are not
modelled, nor are LimitRanges of the same apply. Unknown fields are rejected with `strict`, also in workloads; for an
update, without the text of kubectl's patch. Also not modelled: other admission plugins (PodSecurity, RuntimeClass,
NamespaceLifecycle …), and Pod validation beyond kube_apiserver/validation/pod.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.dry_run.answer import Answer, RequestRejected
from forewarn.policies.dry_run.request import (
    CLASSES,
    PODS,
    QUOTAS,
    DecodedRequest,
    Kind,
    check_fields,
    decode,
    kind_of,
    stored_of,
)
from forewarn.policies.kube_apiserver.priority import (
    Resolved,
    admit_pod,
    admit_pod_group,
    check_default,
    resolved_spec,
)
from forewarn.policies.kube_apiserver.quota import (
    RESOURCE_QUOTAS,
    Check,
    FaultKind,
    ObjectCount,
    Pods,
    check_request,
    is_terminating,
)
from forewarn.policies.kube_apiserver.validation.field_errors import go_quote
from forewarn.policies.kube_apiserver.validation.limit_ranger import with_limit_range_defaults
from forewarn.policies.kube_apiserver.validation.pod import validate_pod_create, validate_pod_update
from forewarn.policies.kube_apiserver.validation.pod_group import admission_gates, defaulted_group, validate_group
from forewarn.policies.kube_apiserver.validation.priority_class import (
    validate_priority_class,
    validate_priority_class_object_update,
)
from forewarn.policies.kube_apiserver.validation.resource_quota import (
    validate_resource_quota,
    validate_resource_quota_update,
)
from forewarn.policies.objects.fields import NOTHING, at
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.objects.reviewed_object import ReviewedObject


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
            return _quota(request, _prepared_pod(request, request.obj), Pods(now))
        return _answer_group(request) if kind.is_group else _STAGES[kind.kind](request)
    except RequestRejected as rejection:
        return rejection.answer


def _accepted(is_update: bool, resolved: Resolved | None = None, quotas: Iterable[ResourceQuota] = ()) -> Answer:
    return Answer(True, 200 if is_update else 201, resolved=resolved, quotas=tuple(quotas))


def _delete(kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot) -> Answer:
    """Respond to a deletion: only the system classes may not be deleted (registry/scheduling/priorityclass/storage)."""
    name = str(at(subject.old or subject.object, "metadata", "name") or "")
    if kind is CLASSES and subject.operation is Operation.DELETE:
        if name in {known.name for known in SYSTEM_CLASSES}:
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


def _answer_group(request: DecodedRequest) -> Answer:
    """Respond to a PodGroup or Workload: admission and validation.

    The Priority plugin ignores Workloads, and updates of PodGroups.
    """
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
        counted = ObjectCount(request.kind.resource, (f"count/{request.kind.resource}",))
        check = check_request(request.obj, request.quotas, request.options.limited_resources, evaluator=counted)
        _reject(request, check)
        quotas = check.quotas
        _check_new(request, stored_of(request.kind, request.cluster, request.name, request.namespace) is not None)
    return replace(_accepted(request.is_update, quotas=quotas), stored=stored)


_STAGES: Final = {CLASSES.kind: _answer_class, QUOTAS.kind: _answer_quota, PODS.kind: _answer_pod}


def _restored_spec(spec: ApiObject, old: ApiObject) -> ApiObject:
    """The spec of an update with fields that the Priority plugin restores from the old object."""
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
