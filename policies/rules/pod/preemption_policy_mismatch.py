"""spec.preemptionPolicy differs from the policy of the Pod's class.

Why: kube-apiserver reads the policy from the class and rejects a Pod that sets another policy.

Details: the rule reports an invalid policy even if the class is unknown.

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

Fix: remove spec.preemptionPolicy. kube-apiserver sets this field from the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut, quote
from forewarn.policies.kube_apiserver.priority import preemption_policy_mismatch
from forewarn.policies.objects.priority_class import POLICIES
from forewarn.policies.rules.support.context import Context, DependsOn, Phase, Target
from forewarn.policies.rules.support.names import nearest
from forewarn.policies.rules.support.rule_text import is_template_variable, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "preemption-policy-mismatch"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "a class may have been deleted and created with another policy")
_LONGEST: Final = 40


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the policy differs from the one that the Priority plugin computes."""
    template = context.template(subject)
    given = template.spec.get("preemptionPolicy") if template else None
    if template is None or not isinstance(given, str):
        return
    computed = resolved(template, context)
    rejected = "Pods" if template.is_template else "the Pod"
    is_invalid = given not in POLICIES and not is_template_variable(given, subject, context)
    differs = computed is not None and given != computed.preemption_policy
    if is_invalid and not differs and context.phase is Phase.LINT:
        shown = quote(cut(given, _LONGEST))
        hint = nearest(given.capitalize(), POLICIES)
        yield Problem(
            f"{rejected[0].upper()}{rejected[1:]} will be rejected: unsupported preemptionPolicy {shown}{hint}",
            template.at("preemptionPolicy"),
            "remove it",
        )
    if computed is not None and differs:
        yield Problem(
            f"preemptionPolicy differs from the class's ({computed.preemption_policy}); {rejected} will be rejected",
            template.at("preemptionPolicy"),
            "remove it",
            detail={"rejection": preemption_policy_mismatch(given, computed.preemption_policy)},
        )
