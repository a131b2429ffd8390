"""forewarn cannot check a PriorityClass, because you passed no cluster and the input defines no PriorityClass.

Why: without this note, the linter would seem to have checked the class. An error could be a false alarm, because the
class may exist in the cluster.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec: {}

Fix: also lint the manifests of the PriorityClasses (`forewarn lint classes.yaml web.yaml`), or pass a cluster
(`--cluster FILE`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Problem, Severity, quote
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.meant_classes import meant_elsewhere, meant_system_class
from forewarn.policies.rules.support.names import is_reserved
from forewarn.policies.rules.support.rule_text import class_name, is_template_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-class-not-checked"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART, Target.UNRENDERED)
SEVERITY: Final = Severity.NOTE
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a PriorityClass name that forewarn cannot check, because no classes are known."""
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or context.classes_known or context.is_known(name):
        return
    if is_reserved(name) or is_template_variable(name, subject, context):
        return
    if meant_system_class(name) or meant_elsewhere(name, context):
        return  # unknown-priority-class
    is_elsewhere = name in context.options.input_classes
    yield Problem(
        f"can't verify PriorityClass {quote(name)}" + (": only other directories define it" if is_elsewhere else ""),
        template.at("priorityClassName"),
        "pass --cluster, or --one-apply" if is_elsewhere else "pass --cluster or include the class manifests",
        detail={"class": name},
    )
