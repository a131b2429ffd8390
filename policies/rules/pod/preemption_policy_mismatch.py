"""spec.preemptionPolicy differs from the policy of the Pod's class.

Why: kube-apiserver reads the policy from the class and rejects a Pod that sets another policy.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10
    preemptionPolicy: Never

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: report
      namespace: team
    spec:
      priorityClassName: batch
      preemptionPolicy: PreemptLowerPriority

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: report
      namespace: team
    spec:
      priorityClassName: batch

Fix: remove spec.preemptionPolicy; the class decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.kube_apiserver.priority import preemption_policy_mismatch
from policies.rules.support.context import Context, DependsOn, Target
from policies.rules.support.rule_text import resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "preemption-policy-mismatch"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "a class may have been deleted and created with another policy")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A policy that differs from the one the Priority plugin computes."""
    template = context.template(subject)
    given = template.spec.get("preemptionPolicy") if template else None
    if template is None or not isinstance(given, str):
        return
    computed = resolved(template, context)
    if computed is not None and given != computed.preemption_policy:
        rejected = "Pods" if template.is_template else "the Pod"
        yield Problem(
            f"preemptionPolicy differs from the class's ({computed.preemption_policy}); {rejected} will be rejected",
            template.at("preemptionPolicy"),
            "remove it",
            detail={"rejection": preemption_policy_mismatch(given, computed.preemption_policy)},
        )
