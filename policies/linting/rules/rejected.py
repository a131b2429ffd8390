"""Values that kube-apiserver rejects although it can decode them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Path, Problem, Severity, cut
from forewarn.policies.kubernetes.kinds.registry import (
    AUTOSCALER,
    DISRUPTION_BUDGET,
    LIMIT_RANGE,
    POD,
    POD_TEMPLATE_PATHS,
    WEBHOOK_CONFIGURATIONS,
)
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at, group_kind
from forewarn.policies.kubernetes.objects.workload import is_fragment, lacks_images, selector_of
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.rule_text import (
    MAX_CHARACTERS,
    is_template_variable,
    shown_path,
    shows_placeholder,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_CERTAIN: Final = ("percentage such as", "cannot be both set", "Unsupported value", "greater than or equal to 0")
"""Parts of messages about single fields, which other fields of a template do not change."""


@rule(
    *POD_OR_TEMPLATE,
    Target.STATIC_POD,
    Target.OTHER,
    severity=Severity.ERROR,
    reads_parts=True,
    objects={
        Target.OTHER: "PodDisruptionBudgets, HorizontalPodAutoscalers, LimitRanges, admission webhook configurations"
    },
)
def value_rejected(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kube-apiserver rejects a value, or values that do not go together.

    Why: the object is not created or changed, although kubectl can send it.

    Details: the rule has the validation of kube-apiserver for PodDisruptionBudgets, HorizontalPodAutoscalers,
    LimitRanges, admission webhook configurations, Pods and workloads. Of Pods and Pod templates, it checks labels,
    annotations, names, restarts, deadlines, priorities, and the fields for scheduling. It does not check containers,
    volumes, resource claims, security contexts, DNS and host settings, volumeClaimTemplates, CEL expressions and CA
    bundles. Other rules are about PriorityClasses, ResourceQuotas and resources of Pods. Without a known release, the
    rule reports what all supported releases reject. The rule ignores patches of kustomizations, and objects that they
    change.

    Example:

          PodDisruptionBudget team/web
          spec:
        -   minAvailable: "2"
        +   minAvailable: 2
            selector:
              matchLabels:
                app: web

    Fix: write a value that the message permits.
    """
    obj = subject.object
    if context.phase is not Phase.LINT or subject.is_patched:
        return
    template = context.template(subject)
    if subject.old is obj:  # stored, so that kube-apiserver has accepted it
        selector_of(obj if template is not None and template.is_template else NOTHING)
        return
    if not _is_checked(subject) or (template is not None and (is_fragment(obj, template) or lacks_images(template))):
        return
    from forewarn.policies.kubernetes.kube_apiserver.validation.fields import fix_of  # pods start without it

    reported = set[str]()
    for fault in _faults(subject, context):
        text = fault.text.partition(_EXAMPLES)[0]
        message = cut(f"{shown_path(fault.path)}: {text}", MAX_CHARACTERS)
        if message not in reported and not _is_variable(subject, fault.path, text, context):
            reported.add(message)
            yield Problem(message, fault.path, fix_of(fault), detail={"rejection": str(fault)})


def _faults(subject: ReviewedObject, context: Context) -> list[FieldError]:
    """Return the errors of an object; without a known release, those in all releases."""
    from forewarn.policies.kubernetes.kube_apiserver.validation.fields import validate

    obj, faults = subject.object, validate(subject.object, context.semantics)
    if subject.is_partial:
        faults = [fault for fault in faults if any(part in str(fault) for part in _CERTAIN)]
    for semantics in context.possible_semantics[1:] if faults else ():
        others = {fault.path for fault in validate(obj, semantics)}  # the texts can differ, as in minimum values
        faults = [fault for fault in faults if fault.path in others]
    return [fault for fault in faults if not _is_repeated(obj, fault)]


def _is_repeated(obj: ApiObject, fault: FieldError) -> bool:
    """Report whether another error, or one of another rule, is about the same fault."""
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import INVALID_SELECTOR

    is_of_default = fault.path[:2] in _WITH_DEFAULTS and at(obj, *fault.path) is None
    return (
        INVALID_SELECTOR in fault.text
        or fault.path[-1:] == (_CLASS,)
        or (is_of_default and not fault.text.startswith("Required"))
    )


_WITH_DEFAULTS: Final = (("metadata", "labels"), ("spec", "limits"))
"""Fields that kube-apiserver also sets from others: of Jobs and LimitRanges."""
_CLASS: Final = "priorityClassName"
_EXAMPLES: Final = " (e.g. "


def _is_checked(subject: ReviewedObject) -> bool:
    """Report whether a kind is validated, and an object has what its kind requires; others change another object."""
    kind = group_kind(subject.object)
    path = _REQUIRED.get(kind, POD_TEMPLATE_PATHS.get(kind, ("spec",)))
    return (kind in _KINDS or kind in POD_TEMPLATE_PATHS) and at(subject.object, *path) is not None


_KINDS: Final = (AUTOSCALER, DISRUPTION_BUDGET, LIMIT_RANGE, POD, *WEBHOOK_CONFIGURATIONS)
_REQUIRED: Final = {AUTOSCALER: ("spec", "scaleTargetRef"), **dict.fromkeys(WEBHOOK_CONFIGURATIONS, ("webhooks",))}


def _is_variable(subject: ReviewedObject, path: Path, text: str, context: Context) -> bool:
    """Report whether a template variable or a placeholder stands for the value; for labels also if a variable is in
    the selector. `text`: the error, which shows the value.
    """
    values = [at(subject.object, *path[: index + 1]) for index in range(1, len(path))][-2:]
    if path[-1:] == ("labels",):
        values.append(at(subject.object, "spec", "selector"))
    return shows_placeholder(text) or any(
        is_template_variable(str(value), subject, context) for value in (*values, text)
    )
