"""The exemption of a Namespace has no effect, because its end is not a valid time or is too far in the future.

Why: the annotation forewarn.dev/exempt-until exempts a Namespace for a short time in an emergency. If its time is more
than breakGlass.maxDuration (default: 30 days) in the future, the annotation has no effect yet.

Bad:

    apiVersion: v1
    kind: Namespace
    metadata:
      name: team
      annotations:
        forewarn.dev/exempt-until: "2999-01-01T00:00:00Z"

Good:

    apiVersion: v1
    kind: Namespace
    metadata:
      name: team
      annotations:
        forewarn.dev/exempt-until: "2026-01-02T12:00:00Z"

Fix: set an earlier time in UTC, such as 2026-01-02T12:00:00Z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.fields import text_at
from forewarn.policies.objects.namespace import EXEMPT_UNTIL_ANNOTATION, not_honoured
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "exemption-without-effect"
TARGETS: Final = (Target.NAMESPACE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED
_FIX: Final = "set an earlier time, such as 2026-01-02T12:00:00Z"
_PATH: Final = ("metadata", "annotations", EXEMPT_UNTIL_ANNOTATION)


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the request sets a time that is invalid or too far in the future."""
    until = text_at(subject.object, *_PATH)
    if until and until != text_at(subject.old or {}, *_PATH):
        why = not_honoured(until, context.now, context.options.break_glass.max_duration)
        if why:
            yield Problem(f"{EXEMPT_UNTIL_ANNOTATION} {why}", _PATH, _FIX)
