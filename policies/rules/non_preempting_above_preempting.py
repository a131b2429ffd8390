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

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, plural, quote
from policies.objects.priority_class import PREEMPT_NEVER
from policies.rules.context import About, Context, DependsOn
from policies.rules.wording import class_of, listed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.priority_class import PriorityClass
    from policies.objects.subject import Subject

ID: Final = "non-preempting-above-preempting"
ABOUT: Final = (About.PRIORITY_CLASS,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = DependsOn(("classes",), "the class below may be gone")


def check(subject: Subject, context: Context) -> Iterator[Problem]:
    """The preempting classes below a non-preempting one."""
    new = class_of(subject)
    if new.preemption_policy != PREEMPT_NEVER:
        return
    below = sorted(
        (c for c in context.classes.values() if c.preemption_policy != PREEMPT_NEVER and c.value < new.value),
        key=lambda c: (-c.value, c.name),
    )
    if below:
        yield Problem(
            lambda audience: f"pods of this class wait while pods of {_named(below, audience)} below it may preempt",
            ("preemptionPolicy",),
            "give the class that waits the lower value",
        )


def _named(classes: list[PriorityClass], audience: Audience) -> str:
    """`"low" (10) and 2 more`; `3 classes` where the reader may be told of none."""
    known = [f"{quote(c.name)} ({c.value})" for c in classes if audience.knows(c.name)]
    return listed_of(known, len(classes)) if known else plural(len(classes), "class", "classes")
