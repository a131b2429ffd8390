"""A user exempts a Namespace from forewarn without permission.

Why: the annotation forewarn.dev/exempt-until disables all rules in a Namespace. Without this rule, all users who may
update the Namespace could set it.

Details: only members of `breakGlass.groups` in the configuration may set the annotation. By default, the members are
cluster administrators. All users may remove the annotation. If the time in the annotation is in the past, the
annotation has no effect. The FAQ shows how to exempt a namespace.

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

Fix: ask a member of breakGlass.groups to exempt the namespace, or add a group to breakGlass.groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, cut
from forewarn.policies.objects.fields import text_at
from forewarn.policies.objects.namespace import EXEMPT_UNTIL_ANNOTATION, exempt_until
from forewarn.policies.objects.reviewed_object import User
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "exemption-not-allowed"
TARGETS: Final = (Target.NAMESPACE,)
SEVERITY: Final = None
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED
_LONGEST: Final = 60
_PATH: Final = ("metadata", "annotations", EXEMPT_UNTIL_ANNOTATION)


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if a user outside breakGlass.groups sets a new time in the future."""
    until, before = text_at(subject.object, *_PATH), text_at(subject.old or {}, *_PATH)
    end = exempt_until(until)
    if end is None or end <= context.now or until == before:
        return
    user = subject.user or User()
    if not any(one_of(context.options.break_glass.groups, group) for group in user.groups):
        yield Problem(
            f"user {cut(user.name, _LONGEST) or 'unknown'} may not set annotation {EXEMPT_UNTIL_ANNOTATION}",
            _PATH,
            "remove it, or ask a member of breakGlass.groups",
        )
