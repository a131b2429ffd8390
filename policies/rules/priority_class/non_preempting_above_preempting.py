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
from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, plural, quote
from policies.objects.priority_class import PREEMPT_NEVER
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import class_of, naming

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.disclosure import Audience
    from policies.objects.priority_class import PriorityClass
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "non-preempting-above-preempting"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = DependsOn(("classes",), "the class below may be deleted")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The preempting classes below a non-preempting one."""
    new = class_of(subject)
    if new.preemption_policy != PREEMPT_NEVER:
        return
    above = bisect_right(context.preempting, -new.value, key=lambda c: -c.value)
    if above < len(context.preempting):
        lowest = context.preempting[-1]
        yield Problem(
            lambda audience: _told(context.preempting, above, audience),
            ("preemptionPolicy",),
            lambda audience: (
                f"set value below {lowest.value}"
                if audience.knows(lowest.name)
                else "set value below those of the classes that preempt"
            ),
        )


def _told(classes: Sequence[PriorityClass], start: int, audience: Audience) -> str:
    """Names the classes from `start` on: `lower class "web" (500)`; only counts those that the reader must not know."""
    below, count = (classes[index] for index in range(start, len(classes))), len(classes) - start
    known = [f"{quote(c.name)} ({c.value})" for c in islice((c for c in below if audience.knows(c.name)), 3)]
    lower = "lower class" if count == 1 else "lower classes"
    after = f" {'does' if count == 1 else 'do'} and can take its capacity"
    if not known:
        return f"never preempts, but {plural(count, 'lower class', 'lower classes')}{after}"
    return naming(f"never preempts, but {lower} ", known, count, after)
