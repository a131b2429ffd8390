"""The default PriorityClass of a Namespace does not exist.

Why: forewarn assigns the class in the annotation forewarn.dev/default-priority-class to Pods that name no class. If the
class in the annotation does not exist, Pods that name no class get the global default.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: v1
    kind: Namespace
    metadata:
      name: team
      annotations:
        forewarn.dev/default-priority-class: golden

Good:

    apiVersion: v1
    kind: Namespace
    metadata:
      name: team
      annotations:
        forewarn.dev/default-priority-class: gold

Fix: create the class before you set the annotation, or use an existing class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.fields import text_at
from forewarn.policies.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import UnknownClass
from forewarn.policies.rules.support.recommended import recommended_to
from forewarn.policies.rules.support.rule_text import is_template_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "unknown-default-class"
TARGETS: Final = (Target.NAMESPACE,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("classes",), "the class may have been created a moment ago")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the annotation names an unknown class."""
    name = text_at(subject.object, "metadata", "annotations", DEFAULT_CLASS_ANNOTATION)
    if not name or not context.classes_known or name in context.classes:
        return
    if not is_template_variable(name, subject, context):
        known, fix = recommended_to(subject, context), "create it, or use one that exists"
        details = UnknownClass(name, "; Pods here get the cluster's default", known, fix)
        yield Problem(details, ("metadata", "annotations", DEFAULT_CLASS_ANNOTATION))
