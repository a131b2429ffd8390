"""An update changes priority, priorityClassName or preemptionPolicy of a Pod.

Why: kube-apiserver rejects the update, because the priority of a Pod is immutable.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priority: 0
      preemptionPolicy: PreemptLowerPriority

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      activeDeadlineSeconds: 600

Fix: delete the Pod, and create it again with the new class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.fields import at
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-field-changed"
TARGETS: Final = (Target.UPDATED_POD,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each of the three fields that the update changes.

    The API server restores an absent priority or policy, so their absence is not a change.
    """
    old = subject.old or {}
    for name, restored in (("priorityClassName", False), ("priority", True), ("preemptionPolicy", True)):
        new, stored = at(subject.object, "spec", name), at(old, "spec", name)
        if restored and new is None:
            continue
        if (new or None if not restored else new) != (stored or None if not restored else stored):
            before = "unset" if stored in (None, "") else stored
            yield Problem(
                f"spec.{name} of a Pod cannot be changed; it is {before}",
                ("spec", name),
                "delete the Pod and create it again",
            )
