"""A class that never preempts has a higher value than a class that preempts.

Why: Pods of the non-preempting class are first in the queue, but stay Pending until capacity is free. Pods of the lower
class can preempt other Pods, and use the capacity first.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: analytics
    value: 1000
    preemptionPolicy: Never
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: web
    value: 500

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: analytics
    value: 100
    preemptionPolicy: Never
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: web
    value: 500

Fix: give the non-preempting class a lower value than all preempting classes, unless it should only change the order of
the queue.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import PreemptingClasses
from forewarn.policies.rules.support.rule_text import class_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "non-preempting-above-preempting"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = DependsOn(("classes",), "the class below may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem with the preempting classes below a class that never preempts."""
    new = class_of(subject)
    if new.preemption_policy != PREEMPT_NEVER:
        return
    above = bisect_right(context.preempting, -new.value, key=lambda c: -c.value)
    if above < len(context.preempting):
        yield Problem(PreemptingClasses(context.preempting, above), ("preemptionPolicy",))
