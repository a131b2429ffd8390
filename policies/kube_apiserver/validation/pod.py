"""Validation of Pods, limited to fields for priority, quota and identity (pkg/apis/core/validation).

Covered: metadata; names and images of containers, presence and uniqueness; resources of containers, of the Pod, of
its overhead; restartPolicy, nodeSelector, nodeName, serviceAccountName, activeDeadlineSeconds, priorityClassName,
preemptionPolicy, schedulingGroup; on UPDATE also immutable fields. Not covered, and thus accepted: volumes, ports,
env, probes, lifecycle, security contexts, affinity, tolerations, topology spread, DNS, host names, claims, ephemeral
containers, and annotations with a meaning. On UPDATE of an immutable field, the message is upstream's without its
diff of the internal spec. Only fields in kube_apiserver/validation/decode.py are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    keyed,
    not_supported,
    required,
)
from forewarn.policies.kube_apiserver.validation.object_meta import (
    dns1123_label,
    dns1123_subdomain,
    validate_labels,
    validate_object_meta,
    validate_object_meta_update,
)
from forewarn.policies.kube_apiserver.validation.resources import (
    PodResources,
    container_limits,
    container_requests,
    is_huge_page,
    read_pod_resources,
    validate_requirements,
)
from forewarn.policies.objects.fields import NOTHING, at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject

_CONTAINERS: Final = ("containers", "initContainers")
_INT32_MAX: Final = 2**31 - 1
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
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
    """Return all errors of a new Pod in upstream's order (`ValidatePodCreate`). The Pod must be decodable and have a
    namespace.
    """
    errors = validate_object_meta(pod, namespaced=True) + _validate_spec(pod)
    if at(pod, "spec", "nodeName") and at(pod, "spec", "schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden(("spec", "nodeName"), detail))
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
        errors += _validate_pod_level(resources)
    policy = spec.get("restartPolicy") or "Always"
    if policy not in _RESTART_POLICIES:
        errors.append(not_supported(("spec", "restartPolicy"), policy, _RESTART_POLICIES))
    errors += validate_labels(spec.get("nodeSelector") or {}, ("spec", "nodeSelector"))
    for key in ("serviceAccountName", "nodeName"):
        errors += [
            invalid(("spec", key), spec[key], f) for f in (dns1123_subdomain(spec[key]) if spec.get(key) else ())
        ]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        detail = f"must be between 1 and {_INT32_MAX}, inclusive"
        errors.append(invalid(("spec", "activeDeadlineSeconds"), deadline, detail))
    name = spec.get("priorityClassName")
    errors += [invalid(("spec", "priorityClassName"), name, f) for f in (dns1123_subdomain(name) if name else ())]
    preemption = spec.get("preemptionPolicy")
    if preemption == "":
        errors.append(required(("spec", "preemptionPolicy")))
    elif preemption is not None and preemption not in _PREEMPTION_POLICIES:
        errors.append(not_supported(("spec", "preemptionPolicy"), preemption, _PREEMPTION_POLICIES))
    errors += validate_requirements(resources.overhead, {}, ("spec", "overhead"))
    errors += validate_scheduling_group(spec)
    return errors + [fault for kind in _CONTAINERS for fault in _validate_images(_list(pod, kind), kind)]


def validate_scheduling_group(spec: ApiObject) -> list[FieldError]:
    """Return the errors of `schedulingGroup`, which names a PodGroup (`validateSchedulingGroup`). The spec must be
    decodable.
    """
    group = spec.get("schedulingGroup")
    if group is None:
        return []
    path: Path = ("spec", "schedulingGroup")
    name = group.get("podGroupName")
    if name is None:
        errors = [invalid((*path, "podGroupName"), None, "must specify one of: `podGroupName`")]
    else:
        errors = [invalid((*path, "podGroupName"), name, fault) for fault in dns1123_subdomain(name)]
    if spec.get("evictionResponders"):
        errors.append(forbidden(path, "may not be set when evictionResponders is set"))
    return errors


def _validate_containers(pod: ApiObject, resources: PodResources) -> list[FieldError]:
    containers = _list(pod, "containers")
    if not containers:
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


def _validate_pod_level(resources: PodResources) -> list[FieldError]:
    """The errors of Pod-level resources (upstream `validatePodResources`)."""
    path = ("spec", "resources")
    errors = validate_requirements(resources.limits, resources.requests, path, pod_level=True)
    for name, together in sorted(container_requests(resources).items()):
        given = resources.requests.get(name)
        if given is not None and given < together:
            detail = f"must be greater than or equal to aggregate container requests of {together}"
            where = (*path, "requests")
            errors.append(invalid((*where, name), str(given), detail, keyed(where, name)))
    for name, together in sorted(container_limits(resources).items()):
        given = resources.limits.get(name)
        if given is not None and is_huge_page(name) and given < together:
            detail = f"must be greater than or equal to aggregate container limits of {together}"
            where = (*path, "limits")
            errors.append(invalid((*where, name), str(given), detail, keyed(where, name)))
    return errors + _validate_under_pod(resources)


def _validate_under_pod(resources: PodResources) -> list[FieldError]:
    errors = []
    for index, container in enumerate(resources.containers):
        for name, limit in sorted(container.limits.items()):
            most = resources.limits.get(name)
            if most is not None and most < limit:
                field = f"spec.resources.containers[{index}][{name}].limits"
                where = ("spec", "containers", index, "resources", "limits", name)
                errors.append(invalid(where, str(limit), f"must be less than or equal to pod limits of {most}", field))
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
