"""After all mutation, a new pod's priority is not the value of its class.

Why: nothing in Kubernetes checks this. A mutating webhook that is called again can store any number with any class, or
none at all; the scheduler goes by the number. No class and 0 passes: so does a pod look to which the API server gave no
default, because it had not heard yet of one that has just come.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad (validate):

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold

Good (validate):

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      priority: 1000
      preemptionPolicy: PreemptLowerPriority

Fix: mend the webhook that changes the pod: one that sets priorityClassName must remove priority and preemptionPolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem
from policies.objects.fields import at
from policies.rules.support.context import Context, DependsOn, Phase, Target
from policies.rules.support.rule_text import class_name, is_earlier_than_the_default, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "final-priority-mismatch"
TARGETS: Final = (Target.POD,)
SEVERITY: Final = None
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "a class may have been deleted and created with another value")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The final number of a pod that is being created, against the class it names."""
    template = context.template(subject)
    if context.phase is not Phase.VALIDATE or template is None:
        return
    computed, given = resolved(template, context), at(subject.object, "spec", "priority")
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name = class_name(template) or "no class"
        stored = "is not set" if given is None else f"is {given}"
        yield Problem(
            f"spec.priority {stored} after all mutation, but {name} stands for {computed.priority}",
            ("spec", "priority"),
            "a webhook that sets priorityClassName must remove priority and preemptionPolicy",
            detail={"given": given, "computed": computed.priority},
        )
