"""An update changes the value or the preemptionPolicy of a PriorityClass.

Why: kube-apiserver rejects the update. If a Helm chart changes one of these fields, `helm upgrade` fails.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 20

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch
    value: 10
    description: nightly work

Fix: create a class with another name, and move the workloads to the new class. Or delete and recreate the class.
Running Pods keep the old priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Phase, Target
from forewarn.policies.rules.support.rule_text import class_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "immutable-field-changed"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each immutable field that the update changes."""
    if subject.old is None:
        return
    from forewarn.policies.kube_apiserver.validation.priority_class import (
        validate_priority_class_update,  # only where there is a class: pods start without it
    )

    new, old = class_of(subject), PriorityClass.from_api(subject.old)
    stored = {"value": old.value, "preemptionPolicy": old.preemption_policy}
    offline = context.phase is Phase.LINT and context.cluster is None
    known = "an earlier object of the input has" if offline else "the cluster has"
    for fault in validate_priority_class_update(new, old):
        name = str(fault.path[0])
        yield Problem(
            f"{str(fault).rstrip('.')}; {known} {stored[name]}",
            fault.path,
            f"keep {name}: {stored[name]}, or create a class with another name",
        )
