"""A suppression suppresses nothing.

Why: what it was written for is mended, or was never there. Left in place it would silence the next fault. Rules that
depend on a cluster are not counted where none is given.

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        # forewarn: ignore[pinned-priority] the vendor's chart writes it
        spec: {}

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec: {}

Fix: take it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Severity
from policies.rules.support.context import NOTHING_STORED, Context, Target
from policies.rules.support.rule_text import diagnostics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.findings import Problem
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "unused-suppression"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Nothing here: suppressions are looked at when all findings are there."""
    yield from diagnostics(ID, context)
