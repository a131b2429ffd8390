"""preemptionPolicy is PreemptLowerPriority or Never.

Why: the API server refuses any other word, also in another case.

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

Fix: write PreemptLowerPriority or Never, or leave the field out (PreemptLowerPriority).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.objects.priority_class import POLICIES
from policies.rules.support.context import NOTHING_STORED, Context, Target
from policies.rules.support.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "preemption-policy-invalid"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A policy that is none, on a new class; on update any change is refused already."""
    from policies.kube_apiserver.validation.priority_class import (
        policy_fault,  # only where there is a class: pods start without it
    )

    policy = subject.object.get("preemptionPolicy")
    fault = policy_fault(policy) if subject.old is None and isinstance(policy, str) else ""
    if fault:
        hint = nearest(str(policy).capitalize(), POLICIES)
        yield Problem(f"preemptionPolicy: {fault}{hint}", ("preemptionPolicy",), "write PreemptLowerPriority or Never")
