"""Kubernetes has removed the apiVersion of an object.

Why: kubectl and kube-apiserver reject the object. Kubernetes 1.22 removed v1alpha1 and v1beta1 of PriorityClasses.

Details: the rule checks PriorityClasses, workloads and PodDisruptionBudgets.

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

Fix: write the version that the finding names. Workloads from `extensions/v1beta1` also need `spec.selector`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut, quote
from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kinds.removed_versions import removed_version
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.priority_class import SERVED_VERSION
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import diagnostics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "removed-api-version"
TARGETS: Final = (Target.PRIORITY_CLASS, Target.TEMPLATE, Target.OTHER, Target.FILE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED
_LONGEST: Final = 60


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a removed version, and for each version of PriorityClasses except v1."""
    version = subject.object.get("apiVersion")
    if not subject.object:
        yield from diagnostics(ID, context)
    elif group_kind(subject.object) != PRIORITY_CLASS:
        kind = subject.object.get("kind")
        removed = None if subject.is_partial else removed_version(version, kind)
        if removed:
            message = f"no {kind} in version {quote(str(version))}: Kubernetes 1.{removed.minor} removed it"
            yield Problem(message, ("apiVersion",), f"write apiVersion: {removed.replacement}")
    elif version != SERVED_VERSION:
        yield Problem(
            f"no PriorityClass in version {quote(cut(str(version), _LONGEST))}: Kubernetes 1.22 removed all but v1",
            ("apiVersion",),
            f"write apiVersion: {SERVED_VERSION}",
        )
