"""Which PriorityClasses a text may recommend. Every hint, fix and remedy that names a class asks here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    OWN_CLASSES,
    PREEMPT_NEVER,
    SYSTEM_PRIORITY_CLASS_PREFIX,
)

if TYPE_CHECKING:
    from forewarn.policies.objects.priority_class import PriorityClass


def is_recommended(found: PriorityClass, *, to_preempt: bool = False) -> bool:
    """Whether a text may recommend this class: not the system's, not forewarn's, none that kube-apiserver rejects.

    `to_preempt`: the recommendation is about preempting, so the class must preempt.
    """
    if found.name in OWN_CLASSES or found.name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        return False
    if to_preempt and found.preemption_policy == PREEMPT_NEVER:
        return False
    from forewarn.policies.kube_apiserver.validation.names import dns1123_subdomain

    return found.value <= HIGHEST_USER_DEFINABLE_PRIORITY and not dns1123_subdomain(found.name)
