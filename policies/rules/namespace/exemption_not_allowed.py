"""A Namespace is exempted from forewarn by somebody who may not do that.

Why: the annotation forewarn.dev/exempt-until lets everything in a namespace pass, and whoever may change a Namespace
could write it. Who may is said by breakGlass.groups of the configuration; by default, the administrators of the
cluster. Anybody may take it away, and an end that is over exempts nothing.

Bad (validate):

    apiVersion: v1
    kind: Namespace
    metadata:
      name: team
      annotations:
        forewarn.dev/exempt-until: "2026-01-02T12:00:00Z"

Good (validate):

    apiVersion: v1
    kind: Namespace
    metadata:
      name: team

Fix: have somebody of these groups set it, or add a group to breakGlass.groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem
from policies.objects.namespace import EXEMPT_UNTIL_ANNOTATION, exempt_until
from policies.objects.reviewed_object import User
from policies.rules.support.context import NOTHING_STORED, Context, Target
from policies.rules.support.rule_text import text_at
from policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "exemption-not-allowed"
TARGETS: Final = (Target.NAMESPACE,)
SEVERITY: Final = None
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED
_PATH: Final = ("metadata", "annotations", EXEMPT_UNTIL_ANNOTATION)


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An end to come that is not the stored one, by a user of none of the groups."""
    until, before = text_at(subject.object, *_PATH), text_at(subject.old or {}, *_PATH)
    end = exempt_until(until)
    if end is None or end <= context.now or until == before:
        return
    user = subject.user or User()
    if not any(one_of(context.options.break_glass.groups, group) for group in user.groups):
        yield Problem(
            f"{user.name or 'who is not known'} may not set the annotation {EXEMPT_UNTIL_ANNOTATION}",
            _PATH,
            "ask somebody of the groups that breakGlass of forewarn's configuration names, or leave it out",
        )
