"""Mutating webhooks give a new Pod a priority that differs from the value of its class.

Why: after all mutating webhooks have run, Kubernetes does not check whether the Pod's priority still matches its class.
If kube-apiserver calls a mutating webhook a second time, the webhook can set any priority. kube-scheduler uses only
spec.priority.

Details: the rule accepts a Pod that has priority 0 and no class. kube-apiserver stores such a Pod if it does not know a
new global default yet.

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

Fix: change the webhook that mutates the Pod. A webhook that sets priorityClassName must remove priority and
preemptionPolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem
from forewarn.policies.objects.fields import at
from forewarn.policies.rules.support.context import Context, DependsOn, Phase, Target
from forewarn.policies.rules.support.rule_text import class_name, is_earlier_than_the_default, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "final-priority-mismatch"
TARGETS: Final = (Target.POD,)
SEVERITY: Final = None
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "a class may have been deleted and created with another value")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the final priority of a new Pod differs from its class."""
    template = context.template(subject)
    if context.phase is not Phase.VALIDATE or template is None:
        return
    computed, given = resolved(template, context), at(subject.object, "spec", "priority")
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name = class_name(template)
        left = "no spec.priority" if given is None else f"spec.priority={given}"
        right = f"class {name} is {computed.priority}" if name else f"the default is {computed.priority}"
        yield Problem(
            f"a mutating webhook left {left}; {right}",
            ("spec", "priority"),
            "clear priority and preemptionPolicy when setting priorityClassName",
            detail={"given": given, "computed": computed.priority},
        )
