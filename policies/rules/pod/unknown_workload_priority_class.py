"""A workload names a WorkloadPriorityClass of Kueue that does not exist.

Why: Kueue creates no Workload for such a Job, so the Job stays suspended. Only an event on the Job shows the reason,
WorkloadPriorityClassNotFound.

Details: forewarn checks the label `kueue.x-k8s.io/priority-class` if the input defines a WorkloadPriorityClass. The
class may exist elsewhere, so the finding is a warning. It is an error if the name is a misspelling of a class in the
input.

Bad:

    apiVersion: kueue.x-k8s.io/v1beta1
    kind: WorkloadPriorityClass
    metadata:
      name: research
    value: 1000
    ---
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
      namespace: ml
      labels:
        kueue.x-k8s.io/queue-name: team
        kueue.x-k8s.io/priority-class: reserach

Good:

    apiVersion: kueue.x-k8s.io/v1beta1
    kind: WorkloadPriorityClass
    metadata:
      name: research
    value: 1000
    ---
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
      namespace: ml
      labels:
        kueue.x-k8s.io/queue-name: team
        kueue.x-k8s.io/priority-class: research

Fix: create the class first, or use an existing class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Problem, Severity, Text, quote
from forewarn.policies.kinds.registry import WORKLOAD_PRIORITY_CLASS
from forewarn.policies.objects.fields import group_kind, text_at
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.names import Names, is_misspelt
from forewarn.policies.rules.support.rule_text import is_template_variable, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "unknown-workload-priority-class"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.OTHER)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED

_LABEL: Final = ("metadata", "labels", "kueue.x-k8s.io/priority-class")
"""The label that names a WorkloadPriorityClass.

Source: kueue pkg/controller/constants, WorkloadPriorityClassLabel; pkg/controller/jobframework/reconciler.go.
"""


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a label that names a WorkloadPriorityClass that the input does not define."""
    name = text_at(subject.object, *_LABEL)
    known = context.once(_Defined) if name else None
    if known is None or not known.sorted or name in known.sorted or is_template_variable(name, subject, context):
        return
    meant = known.nearest_name(name)
    yield Problem(
        Text(
            f"WorkloadPriorityClass {quote(name)} not found in this input",
            f"create it, or use {meant}" if meant else "create it, or use one that exists",
            (f"Did you mean {quote(meant)}?",) if meant else (),
        ),
        _LABEL,
        detail={"class": name},
        severity=None if meant and is_misspelt(name, meant) else Severity.WARNING,
    )


class _Defined(Names):
    """The names of the WorkloadPriorityClasses in the change set."""

    def __init__(self, context: Context) -> None:
        subjects = context.change_set.subjects
        super().__init__({name_of(each) for each in subjects if group_kind(each.object) == WORKLOAD_PRIORITY_CLASS})
