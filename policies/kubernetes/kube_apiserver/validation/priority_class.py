"""Decoding and validation of PriorityClasses, with upstream's messages in upstream's order.

Sources: pkg/apis/scheduling/validation/validation.go, pkg/registry/scheduling/priorityclass/strategy.go.
"""

from __future__ import annotations

from typing import Any

from forewarn.policies.kubernetes.kube_apiserver.validation import decode
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    Named,
    dns1123_subdomain,
    forbidden,
    invalid,
    not_supported,
    required,
    validate_object_meta,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.policies.kubernetes.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    POLICIES,
    SYSTEM_CLASSES,
    SYSTEM_PRIORITY_CLASS_PREFIX,
    PriorityClass,
)


def decode_error(obj: ApiObject) -> FieldError | None:
    """Return the decoding error of a PriorityClass with encoding/json's message; None if decodable."""
    return decode.decode_error(obj, decode.PRIORITY_CLASS_STRUCT)


def validate_priority_class(obj: ApiObject) -> list[FieldError]:
    """Return all errors of a new class in upstream's order (`ValidatePriorityClass`). The class must be decodable."""
    errors = validate_object_meta(obj, namespaced=False)
    name, value = at(obj, "metadata", "name") or "", obj.get("value") or 0
    if name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        if fault := system_class_fault(name, value, bool(obj.get("globalDefault"))):
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {fault}"
            errors.append(forbidden(("metadata", "name"), detail))
    elif value > HIGHEST_USER_DEFINABLE_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
        errors.append(forbidden(("value",), detail))
    if fault := policy_fault(obj.get("preemptionPolicy")):
        errors.append(FieldError(("preemptionPolicy",), fault))
    return errors


def validate_priority_class_update(new: PriorityClass, old: PriorityClass) -> list[FieldError]:
    """Return the errors of changed immutable fields of a class, in upstream's order (`ValidatePriorityClassUpdate`)."""
    errors = []
    if new.value != old.value:
        errors.append(forbidden(("value",), "may not be changed in an update."))
    if new.preemption_policy != old.preemption_policy:
        errors.append(invalid(("preemptionPolicy",), Named(new.preemption_policy), "field is immutable"))
    return errors


def policy_fault(policy: Any) -> str | None:
    """Return the error of a preemptionPolicy; None if it is valid (`ValidatePreemptionPolicy`)."""
    if policy is None or policy in POLICIES:
        return None
    return required(()).text if policy == "" else not_supported((), policy, POLICIES).text


def name_faults(name: str) -> list[str]:
    """Return the errors of a name that must be a DNS subdomain (`ValidateObjectMeta`, `NameIsDNSSubdomain`)."""
    if not name:
        return [required((), "name or generateName is required").text]
    return [invalid((), name, fault).text for fault in dns1123_subdomain(name)]


def system_class_fault(name: str, value: int, global_default: bool) -> str | None:
    """Return why a class must not have a system name, or None. Source: `IsKnownSystemPriorityClass`."""
    for system_class in SYSTEM_CLASSES:
        if system_class.name == name:
            if system_class.value != value:
                return f"value of {name} PriorityClass must be {system_class.value}"
            return f"globalDefault of {name} PriorityClass must be false" if global_default else None
    return f"{name} is not a known system priority class"
