"""Pods below the cluster autoscaler's cutoff never bring a new node.

Why: cluster-autoscaler takes pods with a priority under its --expendable-pods-priority-cutoff (-10 by default) for
expendable: it adds no node for them, and deletes nodes that run nothing else.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: filler
    value: -100

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: filler
    value: -10

Fix: use -10 or more if these pods should be able to wait for a new node; or set `autoscalerCutoff` to your cluster's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import NOTHING_STORED, Context, Target
from policies.rules.support.rule_text import integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "below-autoscaler-cutoff"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A value under the cutoff that options name."""
    value, cutoff = integer(subject.object.get("value")), context.options.autoscaler_cutoff
    if value is not None and value < cutoff:
        yield Problem(
            f"value {value} is under the cluster autoscaler's cutoff {cutoff}: it adds no node for such pods",
            ("value",),
            f"use {cutoff} or more if these pods should get a new node",
        )
