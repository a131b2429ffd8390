"""A PriorityClass has no value.

Why: kube-apiserver stores the class with value 0. Pods without a class also have priority 0, so the class has no
effect. Often, the field `value` is misspelled or at the wrong level.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: high
    description: goes first

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: high
    value: 0
    description: an ordinary class, on purpose

Fix: add the field `value` at the top level of the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-value-missing"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a new class without a value."""
    if subject.object.get("value") is None and subject.old is None:
        yield Problem(
            "no value: it is stored with 0, the priority of Pods without a class", (), "add value at the top level"
        )
