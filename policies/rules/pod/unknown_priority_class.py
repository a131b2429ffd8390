"""A Pod or a template names a PriorityClass that does not exist.

Why: kube-apiserver rejects such a Pod. kube-apiserver accepts a workload whose template names a missing class, but
rejects the workload's Pods. For a Deployment, only an Event of the ReplicaSet shows the reason.

Details: if you pass no cluster, the class may exist in the cluster, so the finding is a warning. If the name is similar
to the name of a class in the input or of a system class, or begins with `system-`, which Kubernetes reserves, the
finding is an error. With `--cluster`, `--closed` or `knownClasses` in the configuration, the linter knows all classes,
and every finding is an error. If no class is visible in a directory, the rule reports names that are similar to a class
of another directory. It also reports names that differ in one letter from a name that the input uses more often. The
rule does not check names that contain a template variable ({{ … }}, ${X}, @X@, %X%). In texts, values files and kinds
that forewarn does not know, it checks the keys `priorityClassName`: a name that is similar to no class is a note there.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: glod

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold

Fix: create the class before the Pod, or use an existing class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.kinds.registry import GROUP_TEMPLATES, POD, POD_GROUP
from forewarn.policies.kube_apiserver.priority import Forbidden, establish_priority
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.rules.support.context import Context, DependsOn, Phase, Target
from forewarn.policies.rules.support.details import UnknownClass
from forewarn.policies.rules.support.meant_classes import meant_elsewhere, meant_system_class
from forewarn.policies.rules.support.names import is_misspelt, is_reserved
from forewarn.policies.rules.support.recommended import recommended_to
from forewarn.policies.rules.support.rule_text import class_name, is_template_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate

ID: Final = "unknown-priority-class"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART, Target.UNRENDERED)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "the class may have been created a moment ago")


_REJECTED: Final = {POD: "the Pod", POD_GROUP: "the PodGroup", GROUP_TEMPLATES: "PodGroups"}


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a class that neither the cluster nor the change set has."""
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or context.is_known(name):
        return
    if template.is_guess and name in context.options.input_classes:
        return
    system = meant_system_class(name)
    elsewhere = "" if system or context.classes_complete else meant_elsewhere(name, context)
    if not (context.classes_known or is_reserved(name) or system or elsewhere):
        return
    try:
        establish_priority(name, context.classes)
    except Forbidden:
        if not is_template_variable(name, subject, context):
            yield _unknown(name, template, subject, context, system, elsewhere)


def _unknown(
    name: str, template: PodTemplate, subject: ReviewedObject, context: Context, system: str, elsewhere: str
) -> Problem:
    rejected = _REJECTED.get(group_kind(subject.object), "Pods")
    is_certain = context.classes_complete or is_reserved(name)
    consequence = f"; {rejected} will be rejected" if is_certain else " in this input"
    known = recommended_to(subject, context)
    near = known.nearest_name(name) if context.phase is Phase.LINT else ""
    is_near = bool(near) and is_misspelt(name, near)
    other = system or ("" if is_near else elsewhere)
    return Problem(
        UnknownClass(
            name,
            consequence,
            known,
            is_certain=context.classes_complete,
            is_reserved=is_reserved(name),
            suggestion=other or near,
            meant=other,
        ),
        template.at("priorityClassName"),
        severity=_severity(template, is_certain=is_certain, is_misspelt=is_near or bool(system), is_meant=bool(other)),
    )


def _severity(template: PodTemplate, *, is_certain: bool, is_misspelt: bool, is_meant: bool) -> Severity | None:
    if template.is_guess:
        return Severity.WARNING if is_misspelt or is_meant else Severity.NOTE
    return None if is_certain or is_misspelt else Severity.WARNING
