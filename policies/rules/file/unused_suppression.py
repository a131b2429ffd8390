"""A suppression matches no finding.

Why: the suppressed problem was fixed, or never existed. An unused suppression can hide the next problem. If you pass no
cluster, the rule ignores suppressions of rules that depend on a cluster.

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

Fix: remove the suppression.
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

ID: Final = "unused-suppression"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield nothing: suppressions are checked after all rules have run."""
    yield from diagnostics(ID, context)
