"""The Priority admission plugin and the validation of PriorityClasses, in upstream's words.

Sources: plugin/pkg/admission/priority/admission.go, pkg/apis/scheduling/validation/validation.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.findings import Path, field_path
from policies.objects.fields import INT32, at, json_type
from policies.objects.priority_class import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER, SYSTEM_CLASSES, PriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.objects.fields import ApiObject

HIGHEST_USER_DEFINABLE_PRIORITY: Final = 1_000_000_000
SYSTEM_PRIORITY_CLASS_PREFIX: Final = "system-"
POLICIES: Final = (PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


class FieldError(NamedTuple):
    """One fault of an object: `str()` is what upstream's field.Error prints."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{field_path(self.path)}: {self.text}"


class Forbidden(ValueError):
    """The Priority plugin refuses the pod; the message is upstream's. `path`: the field that is at fault."""

    def __init__(self, message: str, path: Path) -> None:
        self.path = path
        super().__init__(message)


class Resolved(NamedTuple):
    """What the plugin writes into a pod's spec."""

    priority_class_name: str
    priority: int
    preemption_policy: str


def default_priority_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """The global default; of several, left over from a race, the lowest value (`getDefaultPriorityClass`)."""
    return min((c for c in classes if c.global_default), key=lambda c: (c.value, c.name), default=None)


def establish_priority(class_name: str, classes: Mapping[str, PriorityClass]) -> Resolved:
    """What a class name, or none, stands for. Raises Forbidden where no such class exists (`establishPriority`)."""
    if class_name:
        found = classes.get(class_name)
        if found is None:
            raise Forbidden(f"no PriorityClass with name {class_name} was found", ("spec", "priorityClassName"))
        return Resolved(class_name, found.value, found.preemption_policy)
    default = default_priority_class(classes.values())
    if default is None:
        return Resolved("", 0, PREEMPT_LOWER_PRIORITY)
    return Resolved(default.name, default.value, default.preemption_policy)


def priority_mismatch(given: int, computed: int) -> str:
    """Why a pod may not bring this number."""
    return (
        f"the integer value of priority ({given}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )


def preemption_policy_mismatch(given: str, computed: str) -> str:
    """Why a pod may not bring this policy."""
    return (
        f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )


def admit_pod(spec: ApiObject, classes: Mapping[str, PriorityClass]) -> Resolved:
    """The plugin's answer to CREATE of a pod with this spec; raises Forbidden at the first fault (`admitPod`)."""
    resolved = establish_priority(spec.get("priorityClassName") or "", classes)
    given = spec.get("priority")
    if given is not None and given != resolved.priority:
        raise Forbidden(priority_mismatch(given, resolved.priority), ("spec", "priority"))
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy != resolved.preemption_policy:
        message = preemption_policy_mismatch(policy, resolved.preemption_policy)
        raise Forbidden(message, ("spec", "preemptionPolicy"))
    return resolved


def already_default(name: str) -> str:
    """Why a second global default is refused (`validatePriorityClass`)."""
    return f"PriorityClass {name} is already marked as default. Only one default can exist"


def decode_error(obj: ApiObject) -> FieldError | None:
    """The first field of a PriorityClass that cannot be decoded, in encoding/json's words."""
    value = obj.get("value")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value not in INT32):
        number = f"number {value}" if json_type(value) == "number" else json_type(value)
        return FieldError(
            ("value",), f"cannot unmarshal {number} into Go struct field PriorityClass.value of type int32"
        )
    for key, kind, name in (
        ("globalDefault", bool, "bool"),
        ("preemptionPolicy", str, "v1.PreemptionPolicy"),
        ("description", str, "string"),
    ):
        given = obj.get(key)
        if given is not None and not isinstance(given, kind):
            text = f"cannot unmarshal {json_type(given)} into Go struct field PriorityClass.{key} of type {name}"
            return FieldError((key,), text)
    return None


def validate_priority_class(obj: ApiObject) -> list[FieldError]:
    """All faults of a new class, in upstream's order (`ValidatePriorityClass`). It must decode."""
    name = at(obj, "metadata", "name") or ""
    errors = [FieldError(("metadata", "name"), text) for text in name_faults(name)]
    value = obj.get("value") or 0
    if name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        fault = _system_fault(name, value, bool(obj.get("globalDefault")))
        if fault:
            text = (
                "Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {fault}"
            )
            errors.append(FieldError(("metadata", "name"), text))
    elif value > HIGHEST_USER_DEFINABLE_PRIORITY:
        text = f"Forbidden: maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
        errors.append(FieldError(("value",), text))
    if fault := policy_fault(obj.get("preemptionPolicy")):
        errors.append(FieldError(("preemptionPolicy",), fault))
    return errors


def validate_priority_class_update(new: PriorityClass, old: PriorityClass) -> list[FieldError]:
    """All faults of a change, in upstream's order (`ValidatePriorityClassUpdate`)."""
    errors = []
    if new.value != old.value:
        errors.append(FieldError(("value",), "Forbidden: may not be changed in an update."))
    if new.preemption_policy != old.preemption_policy:
        text = f'Invalid value: "{new.preemption_policy}": field is immutable'
        errors.append(FieldError(("preemptionPolicy",), text))
    return errors


def policy_fault(policy: Any) -> str:
    """What is wrong with a preemptionPolicy, empty where nothing is (`ValidatePreemptionPolicy`)."""
    if policy is None or policy in POLICIES:
        return ""
    if policy == "":
        return "Required value"
    return f'Unsupported value: "{policy}": supported values: "PreemptLowerPriority", "Never"'


def name_faults(name: str) -> list[str]:
    """What is wrong with a name that must be a DNS subdomain (`ValidateObjectMeta`, `NameIsDNSSubdomain`)."""
    if not name:
        return ["Required value: name or generateName is required"]
    faults = []
    if len(name) > 253:
        faults.append(f'Invalid value: "{name}": must be no more than 253 characters')
    if _SUBDOMAIN.fullmatch(name) is None:
        faults.append(f'Invalid value: "{name}": {_SUBDOMAIN_MESSAGE}')
    return faults


def _system_fault(name: str, value: int, global_default: bool) -> str:
    """Upstream `IsKnownSystemPriorityClass`."""
    for known in SYSTEM_CLASSES:
        if known.name == name:
            if known.value != value:
                return f"value of {name} PriorityClass must be {known.value}"
            return f"globalDefault of {name} PriorityClass must be false" if global_default else ""
    return f"{name} is not a known system priority class"
