"""The name of a PriorityClass must be a DNS subdomain.

Why: the API server refuses any other name, and pods name the class by it.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: Very_High
    value: 1000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: very-high
    value: 1000

Fix: use lower case letters, digits, "-" and ".", beginning and ending with a letter or digit, 253 characters at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-class-name-invalid"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Every fault of the name, as the API server words it."""
    metadata = subject.object.get("metadata") or {}
    if subject.old is not None or not isinstance(metadata, Mapping) or metadata.get("generateName"):
        return
    name = metadata.get("name") or ""
    from policies.kube_apiserver.validation.priority_class import (
        name_faults,  # only where there is a class: pods start without it
    )

    if isinstance(name, str):
        for fault in name_faults(name):
            yield Problem(f"metadata.name: {fault}", ("metadata", "name"))
