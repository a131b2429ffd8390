"""preemptionPolicy is neither PreemptLowerPriority nor Never.

Why: kube-apiserver rejects any other value, including `never` in lowercase.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10
    preemptionPolicy: never

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10
    preemptionPolicy: Never

Fix: write PreemptLowerPriority or Never. If you remove the field, PreemptLowerPriority applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut, quote
from forewarn.policies.objects.priority_class import POLICIES
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "preemption-policy-invalid"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED
_LONGEST: Final = 40


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for an unknown policy of a new class. Updates cannot change the policy at all."""
    policy = subject.object.get("preemptionPolicy")
    if subject.old is not None or not isinstance(policy, str) or policy in POLICIES:
        return
    hint = nearest(policy.capitalize(), POLICIES)
    shown = quote(cut(policy, _LONGEST)) if policy else "empty string"
    yield Problem(
        f"unsupported preemptionPolicy: {shown}{hint}", ("preemptionPolicy",), "write PreemptLowerPriority or Never"
    )
