"""The kind or apiVersion of a PriorityClass is misspelled.

Why: kubectl does not know the misspelled kind and creates no PriorityClass, so Pods name a class that does not exist.
The rule ignores kinds in the API groups of custom resources.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: Priorityclass
    metadata:
      name: gold
    value: 1000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Fix: write `apiVersion: scheduling.k8s.io/v1` and `kind: PriorityClass`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Severity
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import diagnostics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Problem
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "unknown-kind"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield the problems that parsing the files has found."""
    yield from diagnostics(ID, context)
