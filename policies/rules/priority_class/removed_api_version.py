"""The apiVersion of a PriorityClass is not scheduling.k8s.io/v1.

Why: Kubernetes 1.22 removed v1alpha1 and v1beta1. kubectl and kube-apiserver reject these versions.

Bad:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10

Fix: write `apiVersion: scheduling.k8s.io/v1`; no other change is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut, quote
from forewarn.policies.objects.priority_class import SERVED_VERSION
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "removed-api-version"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED
_LONGEST: Final = 60


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for any other version of the API group."""
    version = subject.object.get("apiVersion")
    if version != SERVED_VERSION:
        yield Problem(
            f"no PriorityClass in version {quote(cut(str(version), _LONGEST))}: Kubernetes 1.22 removed all but v1",
            ("apiVersion",),
            f"write apiVersion: {SERVED_VERSION}",
        )
