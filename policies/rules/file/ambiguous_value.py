"""kubectl interprets an unquoted value differently from YAML 1.2.

Why: kubectl follows YAML 1.1, which reads yes, no, on and off as booleans, 0777 as octal, and 1:30 as a base-60 number.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: low
    value: 010

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: low
    value: 8

Fix: quote the text, or write the value in decimal.
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

ID: Final = "ambiguous-value"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield the problems that parsing the files has found."""
    yield from diagnostics(ID, context)
