"""The value of a class is below the cutoff of cluster-autoscaler, so its Pods get no new nodes.

Why: cluster-autoscaler treats Pods with a priority below --expendable-pods-priority-cutoff (-10 by default) as
expendable. It adds no node for them, and deletes nodes that run only expendable Pods.

Details: forewarn reads the cutoff from `autoscalerCutoff` in the configuration. If this key is not set, forewarn uses
the flag of an autoscaler in the input, or -10.

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

Fix: if Pods of this class should get new nodes, use a value of -10 or higher. If your cluster uses another cutoff, set
`autoscalerCutoff` to this cutoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.rules.support.autoscaler_cutoff import autoscaler_cutoff
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "below-autoscaler-cutoff"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a value below the cutoff."""
    value, cutoff = integer(subject.object.get("value")), autoscaler_cutoff(context)
    if value is not None and value < cutoff:
        yield Problem(
            f"value {value} is below cluster-autoscaler's cutoff ({cutoff}): it adds no nodes for these Pods",
            ("value",),
            f"use {cutoff} or higher if these Pods should get new nodes",
        )
