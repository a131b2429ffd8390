"""A class that never preempts stands above one that does.

Why: pods of the higher class are first in the queue but wait for room; a pod of the lower one may preempt and take the
room that the higher one is waiting for.

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

Fix: give the class that waits a value below those that preempt, unless the order in the queue is what you want.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, plural, quote
from policies.objects.priority_class import PREEMPT_NEVER
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import class_of, listed_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.disclosure import Audience
    from policies.objects.priority_class import PriorityClass
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "non-preempting-above-preempting"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = DependsOn(("classes",), "the class below may be gone")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The preempting classes below a non-preempting one."""
    new = class_of(subject)
    if new.preemption_policy != PREEMPT_NEVER:
        return
    above = bisect_right(context.preempting, -new.value, key=lambda c: -c.value)
    if above < len(context.preempting):
        yield Problem(
            lambda audience: (
                "pods of this class wait while pods of "
                f"{_named(context.preempting, above, audience)} below it may preempt"
            ),
            ("preemptionPolicy",),
            "give the class that waits the lower value",
        )


def _named(classes: Sequence[PriorityClass], start: int, audience: Audience) -> str:
    """`"low" (10) and 2 more` of the classes from `start` on; `3 classes` where the reader may be told of none."""
    below, count = (classes[index] for index in range(start, len(classes))), len(classes) - start
    known = [f"{quote(c.name)} ({c.value})" for c in islice((c for c in below if audience.knows(c.name)), 3)]
    return listed_of(known, count) if known else plural(count, "class", "classes")
