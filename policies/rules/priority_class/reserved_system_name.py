"""The name of a PriorityClass begins with "system-".

Why: kube-apiserver rejects every such class except system-cluster-critical and system-node-critical, which it creates
itself.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: system-batch
    value: 1000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: batch-system
    value: 1000

Fix: choose a name without the prefix "system-".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES, SYSTEM_PRIORITY_CLASS_PREFIX
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import class_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "reserved-system-name"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a new class with a system name, unless the class equals one of the two system classes."""
    if subject.old is not None or not name_of(subject).startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
        return
    priority_class = class_of(subject)
    from forewarn.policies.kube_apiserver.validation.priority_class import (
        system_class_fault,  # only where there is a class: pods start without it
    )

    if fault := system_class_fault(priority_class.name, priority_class.value, priority_class.global_default):
        detail = f": {fault}" if any(known.name == priority_class.name for known in SYSTEM_CLASSES) else ""
        yield Problem(
            f'prefix "{SYSTEM_PRIORITY_CLASS_PREFIX}" is reserved for Kubernetes{detail}',
            ("metadata", "name"),
            f'use a name without the prefix "{SYSTEM_PRIORITY_CLASS_PREFIX}"',
        )
