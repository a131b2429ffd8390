"""kube-apiserver's validation and quota usage that only recorded requests need: whole Pods, updates, unknown fields.

Covered of Pods: metadata; names and images of containers, presence and uniqueness; resources of containers, of the Pod,
of its overhead; restartPolicy, nodeSelector, nodeName, serviceAccountName, activeDeadlineSeconds, priorityClassName,
preemptionPolicy, schedulingGroup; on UPDATE also immutable fields. Not covered, and thus accepted: volumes, ports,
env, probes, lifecycle, security contexts, affinity, tolerations, topology spread, DNS, host names, claims, ephemeral
containers, and annotations with a meaning. On UPDATE of an immutable field, the message is upstream's without its
diff of the internal spec. Only fields in kube_apiserver/validation/decode.py are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.kube_apiserver import quota
from forewarn.policies.kubernetes.kube_apiserver.quota import Check, FaultKind, InvalidScope, Pods
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import unknown_fields
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    KEY_FORM,
    FieldError,
    dns1123_label,
    dns1123_subdomain,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    validate_labels,
    validate_object_meta,
    validate_object_meta_update,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.pod import validate_scheduling_group
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import (
    policy_fault,
    validate_priority_class_update,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_pod_level, validate_requirements
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at, int32, timestamp
from forewarn.policies.kubernetes.objects.pod_resources import PodResources, read_pod_resources
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.kubernetes.objects.resources import subtract_to_zero, without_zeros
from forewarn.policies.kubernetes.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.objects.resources import ResourceList
    from forewarn.policies.kubernetes.options import LimitedResource, ScopeSelector

_CONTAINERS: Final = ("containers", "initContainers")
_MAX_ERRORS: Final = 100
_INT32_MAX: Final = 2**31 - 1
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_COMPARED: Final[Mapping[str, object]] = {
    "priority": None,
    "priorityClassName": "",
    "preemptionPolicy": None,
    "nodeName": "",
    "schedulerName": "default-scheduler",
    "serviceAccountName": "",
    "restartPolicy": "Always",
    "schedulingGroup": None,
}
"""Immutable fields that are compared without normalization, and the values of absent fields."""


def validate_pod_create(pod: ApiObject) -> list[FieldError]:
    """Return all errors of a decodable new Pod in a namespace, in upstream's order (`ValidatePodCreate`)."""
    errors = validate_object_meta(pod, namespaced=True) + _validate_spec(pod)
    if at(pod, "spec", "nodeName") and at(pod, "spec", "schedulingGates"):
        errors.append(forbidden(("spec", "nodeName"), "cannot be set until all schedulingGates have been cleared"))
    return errors


def validate_pod_update(new: ApiObject, old: ApiObject) -> list[FieldError]:
    """Return all errors of a change of a Pod in upstream's order (`ValidatePodUpdate`). Both Pods must be decodable."""
    errors = validate_object_meta_update(new, old, namespaced=True)
    errors += validate_object_meta(new, namespaced=True) + _validate_spec(new)
    for kind in _CONTAINERS:
        given, stored = _list(new, kind), _list(old, kind)
        if len(given) != len(stored):
            return [*errors, forbidden(("spec", kind), "pod updates may not add or remove containers")]
        errors += _validate_images(given, kind, must_be_there=True)
    deadline, stop = _validate_deadline_update(new, old)
    errors += deadline
    if not stop and _has_changed(new, old):
        errors.append(forbidden(("spec",), f"pod updates may not change fields other than {_UPDATABLE}"))
    return errors


def _validate_spec(pod: ApiObject) -> list[FieldError]:
    """The errors of a Pod's spec in upstream's order (`ValidatePodSpec`)."""
    spec: ApiObject = pod.get("spec") or NOTHING
    resources = read_pod_resources(pod)
    errors = _validate_containers(pod, resources)
    if resources.has_own:
        errors += validate_pod_level(resources)
    policy = spec.get("restartPolicy") or "Always"
    if policy not in _RESTART_POLICIES:
        errors.append(not_supported(("spec", "restartPolicy"), policy, _RESTART_POLICIES))
    errors += validate_labels(spec.get("nodeSelector") or {}, ("spec", "nodeSelector"))
    errors += _validate_name(spec, "serviceAccountName") + _validate_name(spec, "nodeName")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        detail = f"must be between 1 and {_INT32_MAX}, inclusive"
        errors.append(invalid(("spec", "activeDeadlineSeconds"), deadline, detail))
    errors += _validate_name(spec, "priorityClassName")
    if fault := policy_fault(spec.get("preemptionPolicy")):
        errors.append(FieldError(("spec", "preemptionPolicy"), fault))
    errors += validate_requirements(resources.overhead, {}, ("spec", "overhead"))
    errors += validate_scheduling_group(spec)
    return errors + [fault for kind in _CONTAINERS for fault in _validate_images(_list(pod, kind), kind)]


def _validate_name(spec: ApiObject, key: str) -> list[FieldError]:
    faults = dns1123_subdomain(spec[key]) if spec.get(key) else ()
    return [invalid(("spec", key), spec[key], fault) for fault in faults]


def _validate_containers(pod: ApiObject, resources: PodResources) -> list[FieldError]:
    if not _list(pod, "containers"):
        return [required(("spec", "containers"))]
    errors: list[FieldError] = []
    names: set[str] = set()
    for kind, read in (("containers", resources.containers), ("initContainers", resources.init_containers)):
        for index, (container, amounts) in enumerate(zip(_list(pod, kind), read, strict=True)):
            path: Path = ("spec", kind, index)
            name = container.get("name") or ""
            errors += [invalid((*path, "name"), name, f) for f in dns1123_label(name)] if name else []
            errors += [required((*path, "name"))] if not name else []
            errors += [required((*path, "image"))] if not container.get("image") else []
            errors += validate_requirements(amounts.limits, amounts.requests, (*path, "resources"))
            # An init container without a name does not collide with another one.
            if name in names:
                errors.append(duplicate((*path, "name"), name))
            elif name or kind == "containers":
                names.add(name)
    return errors


def _validate_images(containers: list[Any], kind: str, *, must_be_there: bool = False) -> list[FieldError]:
    errors = []
    for index, container in enumerate(containers):
        image, path = container.get("image") or "", ("spec", kind, index, "image")
        if not image and must_be_there:
            errors.append(required(path))
        elif image != image.strip():
            errors.append(invalid(path, image, "must not have leading or trailing whitespace"))
    return errors


def _validate_deadline_update(new: ApiObject, old: ApiObject) -> tuple[list[FieldError], bool]:
    """The errors of a changed deadline, which may be set or reduced; and true if validation stops at this error."""
    path = ("spec", "activeDeadlineSeconds")
    given, stored = at(new, *path), at(old, *path)
    if given is None:
        text = "must not update from a positive integer to nil value"
        return ([] if stored is None else [invalid(path, None, text)]), False
    if not 0 <= given <= _INT32_MAX:
        return [invalid(path, given, f"must be between 0 and {_INT32_MAX}, inclusive")], True
    if stored is not None and stored < given:
        return [invalid(path, given, "must be less than or equal to previous value")], True
    return [], False


def _has_changed(new: ApiObject, old: ApiObject) -> bool:
    given: ApiObject = new.get("spec") or NOTHING
    stored: ApiObject = old.get("spec") or NOTHING
    for key, default in _COMPARED.items():
        before, after = (default if spec.get(key) is None else spec[key] for spec in (stored, given))
        if before != after:
            return True
    if (given.get("nodeSelector") or {}) != (stored.get("nodeSelector") or {}) and not stored.get("schedulingGates"):
        return True
    return _resources(new) != _resources(old)


def _resources(pod: ApiObject) -> tuple[Any, ...]:
    read = read_pod_resources({"spec": pod.get("spec")})
    containers = [(c.name, dict(c.limits), dict(c.requests)) for c in (*read.containers, *read.init_containers)]
    return containers, dict(read.limits), dict(read.requests), dict(read.overhead)


def _list(pod: ApiObject, kind: str) -> list[Any]:
    return [container or {} for container in at(pod, "spec", kind) or ()]


def validate_priority_class_object_update(new: ApiObject, old: ApiObject) -> list[FieldError]:
    """Return all errors of a change, those of metadata first. Raises InvalidObject if a class is not decodable."""
    errors = validate_object_meta_update(new, old, namespaced=False)
    return errors + validate_priority_class_update(PriorityClass.from_api(new), PriorityClass.from_api(old))


_LENGTH: Final = re.compile(r"must be no more than [0-9]+ bytes\Z").search


def worded(text: str, minor: int | None) -> str:
    """Return the message of a field error in the words of a minor version; None: as in the supported versions after
    1.34.

    Until 1.34, label keys had the messages of `util/validation`.
    """
    if minor is None:
        return text
    if minor > 34:
        return text
    if text.endswith(f"a valid label key {KEY_FORM}"):
        return f"{text.removesuffix(f'a valid label key {KEY_FORM}')}a qualified name {KEY_FORM}"
    return f"{text.removesuffix(' bytes')} characters" if _LENGTH(text) else text


def unknown_field_texts(obj: ApiObject, minor: int | None = None) -> list[str]:
    """Return the API server's message for each unknown field, without duplicates, at most 100.

    kubectl sorts the keys of an object by bytes, and the server reports the fields in this order.
    """
    unknown_in_order = sorted(unknown_fields(obj, minor), key=lambda unknown: _sent_order(unknown.path))
    texts = dict.fromkeys(f"unknown field {go_quote(_shown(unknown.path))}" for unknown in unknown_in_order)
    return list(islice(texts, _MAX_ERRORS))


def strict_error(obj: ApiObject, minor: int | None = None) -> str:
    """The `strict decoding error` of the API server; "" if there is none."""
    texts = unknown_field_texts(obj, minor)
    return "strict decoding error: " + ", ".join(texts) if texts else ""


def _sent_order(path: Path) -> tuple[tuple[int, bytes], ...]:
    return tuple((step, b"") if isinstance(step, int) else (0, step.encode("utf-8", "replace")) for step in path)


def _shown(path: Path) -> str:
    """The path as the API server writes it: `spec.containers[0].nam`; map keys are not quoted."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


@dataclass(frozen=True, slots=True)
class ObjectCount(Pods):
    """Quota usage of kinds of which quotas only count the objects. A quota with scopes never applies to them.

    `names`: the names of the count in quotas.
    """

    names: tuple[str, ...] = ()

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        return {*self.names}.intersection(names)

    def matching_scopes(self, *_: object) -> list[ScopeSelector]:
        """Return an empty list: only Pods have scopes."""
        return []

    def matches(self, quota: ResourceQuota, _obj: ApiObject) -> bool:
        return not quota.scope_selectors and bool(self.matching_resources(quota.hard))

    def constraints(self, *_: object) -> dict[str, list[str]]:
        """Return no fields: none are required."""
        return {}

    def usage(self, _obj: ApiObject) -> ResourceList:
        """Return 1 under each resource name of the kind."""
        return dict.fromkeys(self.names, _ONE_OBJECT)

    @classmethod
    def of(cls, resource: str, *names: str) -> ObjectCount:
        return cls(resource=resource, names=names)


@dataclass(frozen=True, slots=True)
class PodsAt(Pods):
    """Quota usage of Pods at a time: one past its grace period counts only as an object. Source: `QuotaV1Pod`.

    `now`: seconds since 1970.
    """

    now: float = 0

    @classmethod
    def of(cls, now: float) -> PodsAt:
        return cls(now=now)

    def usage(self, obj: ApiObject) -> ResourceList:
        deleted = timestamp(obj, "metadata", "deletionTimestamp")
        grace = int32(obj, "metadata", "deletionGracePeriodSeconds")
        if deleted is not None and grace is not None and self.now > deleted + grace:
            return {quota.POD_COUNT: _ONE_OBJECT}
        return Pods.usage(self, obj)


def check_request(
    obj: ApiObject,
    quotas: Sequence[ResourceQuota],
    limited: Sequence[LimitedResource] = (),
    *,
    old: ApiObject | None = None,
    evaluator: Pods = quota.PODS,
) -> Check:
    """`quota.check_request` with the plugin's limitedResources, and of updates.

    `old`: the replaced object, whose usage the quotas already include. A limited scope that cannot be parsed disables
    all checks, as upstream.
    """
    try:
        limited_scopes = [scope for entry in limited for scope in evaluator.matching_scopes(entry.match_scopes, obj)]
    except InvalidScope:
        return Check((), tuple(quotas))
    check = quota.check_request(obj, quotas, evaluator=evaluator)
    if any(fault.kind is not FaultKind.EXCEEDED for fault in check.faults) or not (limited or old):
        return check
    deltas = _deltas(old, [each for each in quotas if evaluator.matches(each, obj)], evaluator.usage(obj), evaluator)
    if not any(deltas.values()):
        return Check((), tuple(quotas))
    if limited and (faults := quota._uncovered(obj, quotas, limited, limited_scopes, evaluator)):
        return Check(tuple(faults), tuple(quotas))
    return quota._charge(quotas, deltas)


def _deltas(
    old: ApiObject | None, interesting: Sequence[ResourceQuota], used: ResourceList, evaluator: Pods
) -> dict[str, dict[str, Quantity]]:
    """Return quota name -> usage to add; under "" if no quota applies."""
    if old is None:
        return {name: without_zeros(used) for name in ([each.name for each in interesting] or [""])}
    change = without_zeros(subtract_to_zero(used, evaluator.usage(old)))
    if not interesting:
        return {"": change}
    return {q.name: change if evaluator.matches(q, old) else without_zeros(used) for q in interesting}


_ONE_OBJECT: Final = Quantity(10**9)
RESOURCE_QUOTAS: Final = ObjectCount.of("resourcequotas", "count/resourcequotas", "resourcequotas")
