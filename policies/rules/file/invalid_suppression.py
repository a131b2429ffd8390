"""A suppression cannot be read, gives no reason, names no rule that exists, or is past its end.

Why: what is silenced without a word why, or for longer than was meant, is forgotten. Such a suppression has no effect.

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

Fix: name the rule and say why: `# forewarn: ignore[rule] reason until=2027-01-31` behind the value, or above it.
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

ID: Final = "invalid-suppression"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Nothing here: suppressions are looked at when all findings are there."""
    yield from diagnostics(ID, context)
