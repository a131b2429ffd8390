"""The Priority admission plugin with upstream's messages, and PriorityClasses that messages may recommend. All hints
and fixes that name a class use `is_recommended`.

Source: plugin/pkg/admission/priority/admission.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION, Namespace
from forewarn.policies.kubernetes.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    OWN_CLASSES,
    PREEMPT_LOWER_PRIORITY,
    PREEMPT_NEVER,
    SYSTEM_PRIORITY_CLASS_PREFIX,
    PriorityClass,
)

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.pod import Pod


SYSTEM_NAMESPACE: Final = "kube-system"
WITHOUT_DEFAULT_CLASS: Final = (SYSTEM_NAMESPACE, "forewarn")
"""Namespaces that the webhook's matchConditions exclude."""


class Forbidden(ValueError):
    """The error if the Priority plugin rejects a Pod, with upstream's message. `path`: the invalid field."""

    def __init__(self, message: str, path: Path) -> None:
        self.path = path
        super().__init__(message)


class Resolved(NamedTuple):
    """The priority fields of a Pod's spec after admission."""

    priority_class_name: str
    priority: int
    preemption_policy: str


OLD_POLICY: Final = "with an old preemption policy"


def has_old_policy(pod: Pod, classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether a Pod has another preemptionPolicy than its class, which was recreated after the Pod; False
    without the field, which kube-apiserver sets in all Pods.
    """
    own = classes.get(pod.priority_class_name)
    return own is not None and pod.preemption_policy not in ("", own.preemption_policy)


def default_priority_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the global default; among several (by a race), that with the lowest value (`getDefaultPriorityClass`)."""
    return min((c for c in classes if c.global_default), key=lambda c: (c.value, c.name), default=None)


class Classes(dict[str, "PriorityClass"]):
    """An immutable mapping of PriorityClasses by name, with cached derived values."""

    @cached_property
    def default(self) -> PriorityClass | None:
        return default_priority_class(self.values())


def _default_of(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    return classes.default if isinstance(classes, Classes) else default_priority_class(classes.values())


def establish_priority(class_name: str, classes: Mapping[str, PriorityClass]) -> Resolved:
    """Return the priority fields for a PriorityClass, "" for the default. Raises Forbidden (`establishPriority`)."""
    if class_name:
        priority_class = classes.get(class_name)
        if priority_class is None:
            raise Forbidden(f"no PriorityClass with name {class_name} was found", ("spec", "priorityClassName"))
        return Resolved(class_name, priority_class.value, priority_class.preemption_policy)
    default = _default_of(classes)
    if default is None:
        return Resolved("", 0, PREEMPT_LOWER_PRIORITY)
    return Resolved(default.name, default.value, default.preemption_policy)


def class_by_namespace(class_name: str, namespace: Namespace | None, classes: Mapping[str, PriorityClass]) -> str:
    """Return the class that forewarn's mutating webhook assigns to a new Pod with this class name (or ""); "" if none.

    The assigned class is the one in the namespace's annotation; that class need not exist. kube-apiserver ignores the
    annotation.
    """
    wanted = namespace.annotations.get(DEFAULT_CLASS_ANNOTATION, "") if namespace else ""
    if namespace is None or not wanted or namespace.name in WITHOUT_DEFAULT_CLASS:
        return ""
    default = _default_of(classes)
    # The plugin sets the global default in Pods without a class, so the webhook cannot distinguish the two.
    asks_for_nothing = class_name in ("", default.name if default else "")
    return wanted if asks_for_nothing and class_name != wanted else ""


def establish_new_priority(
    class_name: str, namespace: Namespace | None, classes: Mapping[str, PriorityClass]
) -> Resolved:
    """Return the priority fields of a new Pod with this class or "", after forewarn's webhook. Raises Forbidden."""
    given = class_by_namespace(class_name, namespace, classes)
    return establish_priority(given if given in classes else class_name, classes)


def priority_mismatch(priority: int, computed: int) -> str:
    """Return the message for a Pod whose priority differs from that of its class."""
    return _mismatch("integer value of priority", priority, "pod", computed)


def preemption_policy_mismatch(policy: str, computed: str, holder: str = "pod") -> str:
    """Return the message for a Pod (or other `holder`) whose preemptionPolicy differs from that of its class."""
    return _mismatch("string value of PreemptionPolicy", policy, holder, computed)


def _mismatch(what: str, actual: object, holder: str, computed: object) -> str:
    return (
        f"the {what} ({actual}) must not be provided in {holder} spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )


def _check_policy(spec: ApiObject, resolved: Resolved, holder: str = "pod") -> None:
    """Raise Forbidden if a spec sets a preemptionPolicy that differs from the resolved one."""
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy != resolved.preemption_policy:
        message = preemption_policy_mismatch(policy, resolved.preemption_policy, holder)
        raise Forbidden(message, ("spec", "preemptionPolicy"))


def admit_pod(spec: ApiObject, classes: Mapping[str, PriorityClass]) -> Resolved:
    """Return the priority fields of a new Pod with this spec. Raises Forbidden at the first error (`admitPod`)."""
    resolved = establish_priority(spec.get("priorityClassName") or "", classes)
    given = spec.get("priority")
    if given is not None and given != resolved.priority:
        raise Forbidden(priority_mismatch(given, resolved.priority), ("spec", "priority"))
    _check_policy(spec, resolved)
    return resolved


def admit_pod_group(
    spec: ApiObject, classes: Mapping[str, PriorityClass], *, with_policy: bool = False
) -> dict[str, Any]:
    """Return the spec of a new PodGroup after the plugin. Raises Forbidden at the first error (`admitPodGroup`).

    `with_policy`: whether the feature gate PodGroupPreemptionPolicy is on; `spec` then has kube-apiserver's defaults.
    """
    resolved = establish_priority(spec.get("priorityClassName") or "", classes)
    given = spec.get("priority")
    if given is not None and given != resolved.priority:
        problem = f"priority set in the pod group ({given}) must match the priority computed ({resolved.priority})"
        raise Forbidden(f"{problem} based on the priority class set in the spec", ("spec", "priority"))
    if not with_policy:
        return {**spec, "priorityClassName": resolved.priority_class_name, "priority": resolved.priority}
    _check_policy(spec, resolved, "pod group")
    return resolved_spec(spec, resolved)


def resolved_spec(spec: ApiObject, resolved: Resolved) -> dict[str, Any]:
    """Return the Pod's spec after the Priority plugin."""
    return {
        **spec,
        "priorityClassName": resolved.priority_class_name,
        "priority": resolved.priority,
        "preemptionPolicy": resolved.preemption_policy,
    }


def already_default(name: str) -> str:
    """Return the message for a second global default (`validatePriorityClass`)."""
    return f"PriorityClass {name} is already marked as default. Only one default can exist"


def check_default(name: str, is_update: bool, classes: Iterable[PriorityClass]) -> str | None:
    """Return the reason why a class must not become the global default; None if it may (`validatePriorityClass`)."""
    current = default_priority_class(classes)
    return None if current is None or (is_update and current.name == name) else already_default(current.name)


def is_recommended(priority_class: PriorityClass, *, to_preempt: bool = False) -> bool:
    """Report whether a message may recommend this class.

    Excludes system classes, forewarn's own classes, and names that kube-apiserver rejects. `to_preempt`: also excludes
    classes that never preempt.
    """
    if priority_class.name in OWN_CLASSES or priority_class.name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        return False
    if to_preempt and priority_class.preemption_policy == PREEMPT_NEVER:
        return False
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import dns1123_subdomain

    return priority_class.value <= HIGHEST_USER_DEFINABLE_PRIORITY and not dns1123_subdomain(priority_class.name)
