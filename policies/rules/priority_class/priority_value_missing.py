"""A PriorityClass without a value is stored with value 0.

Why: 0 is what pods without any class have, so the class does nothing; most often the field was misspelt or misplaced.

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

Fix: write the value, at the top level of the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-value-missing"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """No value, and no stored one to compare with."""
    if subject.object.get("value") is None and subject.old is None:
        yield Problem("value is missing: it is stored as 0, what pods without a class have", (), "write a value")
