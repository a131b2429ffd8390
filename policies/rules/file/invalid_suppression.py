"""A suppression is malformed or expired, has no reason, or names no existing rule.

Why: an invalid suppression has no effect. With a reason and an end date, suppressions do not hide findings forever.

Bad (also pinned-priority):

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priority: 0  # forewarn: ignore[pinned-priority]

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priority: 0  # forewarn: ignore[pinned-priority] the vendor's chart writes it until=2099-01-31

Fix: write `# forewarn: ignore[RULE] REASON until=2027-01-31` after the value or on the line above.
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

ID: Final = "invalid-suppression"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield nothing: suppressions are checked after all rules have run."""
    yield from diagnostics(ID, context)
