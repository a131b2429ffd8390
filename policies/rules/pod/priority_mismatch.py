"""spec.priority differs from the value of the Pod's class.

Why: kube-apiserver computes the priority from the class and rejects a Pod that sets another value.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      priority: 5

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold

Fix: remove spec.priority. kube-apiserver sets this field from the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.kube_apiserver.priority import priority_mismatch
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_name, integer, is_earlier_than_the_default, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-mismatch"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "a class may have been deleted and created with another value")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the priority differs from the one that the Priority plugin computes."""
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is None or given is None:
        return
    computed = resolved(template, context)
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name, rejected = class_name(template), "Pods" if template.is_template else "the Pod"
        other = f"the value of class {name}" if name else "the default"
        yield Problem(
            f"priority {given} differs from {other} ({computed.priority}); {rejected} will be rejected",
            template.at("priority"),
            "remove priority",
            detail={
                "given": given,
                "computed": computed.priority,
                "rejection": priority_mismatch(given, computed.priority),
            },
        )
