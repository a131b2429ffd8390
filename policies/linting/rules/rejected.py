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
)
from forewarn.policies.kubernetes.objects.fields import at, group_kind, mapping_at
from forewarn.policies.kubernetes.objects.workload import is_fragment
from forewarn.policies.kubernetes.releases.minors import NEWEST
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS, is_template_variable

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_GATE: Final = "HPAScaleToZero"
_FIXES: Final = (
    ("percentage such as", "write a number without quotes, or a percentage"),
    ("cannot be both set", "remove one of them"),
    ("when maxUnavailable is non-zero", "set maxUnavailable: 0"),
    ("when maxSurge is 0", "set maxUnavailable: 1"),
    ("when `maxSurge` is 0", "set maxUnavailable: 1"),
    ("equal to `minReplicas`", "set maxReplicas to at least minReplicas"),
    ("does not match template `labels`", "add the labels of the selector"),
    ('only "Never"', "set restartPolicy: Never"),
    ('"OnFailure", "Never"', "set restartPolicy: Never or OnFailure"),
    ("is greater than", "make the values agree"),
    ("not a valid selector operator", "use In, NotIn, Exists or DoesNotExist"),
    ("greater than or equal to 0", "write 0 or more"),
    ("Unsupported value", "use a supported value"),
    ("Required value", "set the field"),
    ("Forbidden", "remove the field"),
)
"""The fix by a part of the message."""
_CERTAIN: Final = ("percentage such as", "cannot be both set", "Unsupported value", "greater than or equal to 0")
"""Parts of messages about single fields, which other fields of a template do not change."""


@rule(
    *POD_OR_TEMPLATE,
    Target.STATIC_POD,
    Target.OTHER,
    severity=Severity.ERROR,
    reads_parts=True,
    objects={Target.OTHER: "PodDisruptionBudgets, HorizontalPodAutoscalers, LimitRanges"},
)
def value_rejected(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kube-apiserver rejects a value, or values that do not go together.

    Why: the object is not created or changed, although kubectl can send it.

    Details: the rule has the validation of kube-apiserver for PodDisruptionBudgets, HorizontalPodAutoscalers,
    LimitRanges, tolerations, and the fields of workloads besides the Pod template. Other rules are about
    PriorityClasses, ResourceQuotas and resources of Pods. The rule ignores patches of kustomizations, and objects that
    they change.

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
    if context.phase is not Phase.LINT or subject.is_patched or subject.old is obj:
        return
    template = context.template(subject)
    if not _is_checked(subject) or (template is not None and is_fragment(obj, template)):
        return
    from forewarn.policies.kubernetes.kube_apiserver.validation.fields import (
        validate,  # pods start without it
    )

    reported = set[str]()
    for fault in validate(obj, scales_to_zero=group_kind(obj) == AUTOSCALER and _scales_to_zero(context)):
        if subject.is_partial and not any(part in str(fault) for part in _CERTAIN):
            continue
        message = cut(str(fault), MAX_CHARACTERS)
        if message not in reported and not _is_variable(subject, fault.path, context):
            reported.add(message)
            fix = next((fix for part, fix in _FIXES if part in str(fault)), "correct this field")
            yield Problem(message, fault.path, fix, detail={"rejection": str(fault)})


def _scales_to_zero(context: Context) -> bool:
    """Report whether a HorizontalPodAutoscaler may have minReplicas 0."""
    from forewarn.policies.kubernetes.releases.gates import default  # only for HorizontalPodAutoscalers: it reads files

    return dict(context.options.gates).get(_GATE, default(_GATE, context.minor or NEWEST))


def _is_checked(subject: ReviewedObject) -> bool:
    """Report whether a kind is validated, and an object has what its kind requires; others change another object."""
    kind = group_kind(subject.object)
    if kind == POD:
        return bool(_OF_PODS.intersection(mapping_at(subject.object, "spec")))
    path = ("spec", "scaleTargetRef") if kind == AUTOSCALER else POD_TEMPLATE_PATHS.get(kind, ("spec",))
    return (kind in _KINDS or kind in POD_TEMPLATE_PATHS) and at(subject.object, *path) is not None


_KINDS: Final = (AUTOSCALER, DISRUPTION_BUDGET, LIMIT_RANGE)
_OF_PODS: Final = frozenset(("tolerations", "restartPolicy"))


def _is_variable(subject: ReviewedObject, path: Path, context: Context) -> bool:
    """Report whether a template variable stands for the value; for labels also if one is in the selector."""
    values = [at(subject.object, *path[: index + 1]) for index in range(1, len(path))][-2:]
    if path[-1:] == ("labels",):
        values.append(at(subject.object, "spec", "selector"))
    return any(is_template_variable(str(value), subject, context) for value in values)
