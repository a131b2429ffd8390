"""PriorityClasses that messages may recommend. All hints and fixes that name a class use `is_recommended`."""

from __future__ import annotations

from forewarn.policies.kubernetes.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    OWN_CLASSES,
    PREEMPT_NEVER,
    SYSTEM_PRIORITY_CLASS_PREFIX,
    PriorityClass,
)


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
