"""The value of a PriorityClass is above 1000000000.

Why: Kubernetes reserves higher values for the two system classes. kube-apiserver rejects other classes with such
values.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: top
    value: 2000000000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: top
    value: 1000000000

Fix: use a value of at most 1000000000. Only the order of the values of classes matters, not their difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.priority_class import HIGHEST_USER_DEFINABLE_PRIORITY
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-value-too-high"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a new class above the limit. An update can never change the value."""
    if subject.old is not None or (integer(subject.object.get("value")) or 0) <= HIGHEST_USER_DEFINABLE_PRIORITY:
        return
    from forewarn.policies.kube_apiserver.validation.priority_class import (
        validate_priority_class,  # only where there is a class: pods start without it
    )

    for fault in validate_priority_class(subject.object):
        if fault.path == ("value",):
            yield Problem(str(fault), fault.path, f"use a value of {HIGHEST_USER_DEFINABLE_PRIORITY} or less")
