"""A mapping has the same key twice.

Why: only one of the two values takes effect, and programs do not agree which value. kubectl uses the last value and
prints no warning.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      name: web-2

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web

Fix: keep one of the two keys.
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

ID: Final = "duplicate-key"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield the problems that parsing the files has found."""
    yield from diagnostics(ID, context)
