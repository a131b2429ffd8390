"""The Priority admission plugin and the validation of PriorityClasses, in upstream's words.

Sources: plugin/pkg/admission/priority/admission.go, pkg/apis/scheduling/validation/validation.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from policies.apis.decode import decode_fault
from policies.apis.field_errors import FieldError as FieldError
from policies.apis.field_errors import Named, forbidden, invalid, not_supported, required
from policies.apis.names import dns1123_subdomain
from policies.apis.object_meta import validate_object_meta, validate_object_meta_update
from policies.apis.schema import PRIORITY_CLASS
from policies.objects.fields import at
from policies.objects.priority_class import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER, SYSTEM_CLASSES, PriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.findings import Path
    from policies.objects.fields import ApiObject

HIGHEST_USER_DEFINABLE_PRIORITY: Final = 1_000_000_000
SYSTEM_PRIORITY_CLASS_PREFIX: Final = "system-"
POLICIES: Final = (PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER)


class Forbidden(ValueError):
    """The Priority plugin refuses the pod; the message is upstream's. `path`: the field that is at fault."""

    def __init__(self, message: str, path: Path) -> None:
        self.path = path
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Resolved:
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


def check_default(name: str, is_update: bool, classes: Iterable[PriorityClass]) -> str:
    """Why a class may not become the global default, empty where it may (`validatePriorityClass`)."""
    current = default_priority_class(classes)
    if current is None or (is_update and current.name == name):
        return ""
    return already_default(current.name)


def decode_error(obj: ApiObject) -> FieldError | None:
    """The field of a PriorityClass that cannot be decoded, in encoding/json's words; None where it can be."""
    fault = decode_fault(obj, PRIORITY_CLASS)
    return fault and FieldError(fault.path, fault.text.removeprefix("json: "))


def validate_priority_class(obj: ApiObject) -> list[FieldError]:
    """All faults of a new class, in upstream's order (`ValidatePriorityClass`). It must decode."""
    errors = validate_object_meta(obj, namespaced=False)
    name, value = at(obj, "metadata", "name") or "", obj.get("value") or 0
    if name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        fault = _system_fault(name, value, bool(obj.get("globalDefault")))
        if fault:
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {fault}"
            errors.append(forbidden(("metadata", "name"), detail))
    elif value > HIGHEST_USER_DEFINABLE_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
        errors.append(forbidden(("value",), detail))
    if fault := policy_fault(obj.get("preemptionPolicy")):
        errors.append(FieldError(("preemptionPolicy",), fault))
    return errors


def validate_priority_class_update(new: PriorityClass, old: PriorityClass) -> list[FieldError]:
    """What of a class's own fields may not change, in upstream's order (`ValidatePriorityClassUpdate`)."""
    errors = []
    if new.value != old.value:
        errors.append(forbidden(("value",), "may not be changed in an update."))
    if new.preemption_policy != old.preemption_policy:
        errors.append(invalid(("preemptionPolicy",), Named(new.preemption_policy), "field is immutable"))
    return errors


def validate_priority_class_object_update(new: ApiObject, old: ApiObject) -> list[FieldError]:
    """All faults of a change, those of the metadata first. Both must decode; raises InvalidObject otherwise."""
    errors = validate_object_meta_update(new, old, namespaced=False)
    return errors + validate_priority_class_update(PriorityClass.from_api(new), PriorityClass.from_api(old))


def policy_fault(policy: Any) -> str:
    """What is wrong with a preemptionPolicy, empty where nothing is (`ValidatePreemptionPolicy`)."""
    if policy is None or policy in POLICIES:
        return ""
    if policy == "":
        return required(()).text
    return not_supported((), policy, POLICIES).text


def name_faults(name: str) -> list[str]:
    """What is wrong with a name that must be a DNS subdomain (`ValidateObjectMeta`, `NameIsDNSSubdomain`)."""
    if not name:
        return [required((), "name or generateName is required").text]
    return [invalid((), name, fault).text for fault in dns1123_subdomain(name)]


def _system_fault(name: str, value: int, global_default: bool) -> str:
    """Upstream `IsKnownSystemPriorityClass`."""
    for known in SYSTEM_CLASSES:
        if known.name == name:
            if known.value != value:
                return f"value of {name} PriorityClass must be {known.value}"
            return f"globalDefault of {name} PriorityClass must be false" if global_default else ""
    return f"{name} is not a known system priority class"
