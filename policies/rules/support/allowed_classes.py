"""Whether allowedClasses of the configuration lets a class be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.selectors import one_of

if TYPE_CHECKING:
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import AllowedClasses
    from forewarn.policies.rules.support.context import Context

_KINDS: Final = ("deployment", "replicaset", "replication", "statefulset", "daemon-set", "job", "cronjob")
CONTROLLERS: Final = frozenset(
    ("system:kube-controller-manager", *(f"system:serviceaccount:kube-system:{kind}-controller" for kind in _KINDS))
)
"""Who makes pods of workloads. Source: pkg/controlplane, bootstrappolicy `controller_policy.go`."""


def is_allowed(
    subject: ReviewedObject, name: str, namespace: str, context: Context, *, had: bool = False
) -> bool | None:
    """Whether a subject's Pods may use a class in a namespace; None: not known. `had`: the stored object has it."""
    answers = [_holds(entry, subject, namespace, context, had=had) for entry in entries_of(name, context)]
    return True if not answers or True in answers else None if None in answers else False


def entries_of(name: str, context: Context) -> list[AllowedClasses]:
    """The entries that name a class."""
    return [entry for entry in context.options.allowed_classes if name and one_of(entry.classes, name)]


def _holds(
    entry: AllowedClasses, subject: ReviewedObject, namespace: str, context: Context, *, had: bool
) -> bool | None:
    """Whether all that an entry gives holds; None: not known."""
    answers: list[bool | None] = [not entry.namespaces or one_of(entry.namespaces, namespace)]
    if entry.namespace_selector is not None:
        found = context.namespace(namespace)
        answers.append(None if found is None else entry.namespace_selector.matches(found.labels))
    if entry.asks_who:
        answers.append(_is_among(entry, subject, had=had))
    return False if False in answers else None if None in answers else True


def _is_among(entry: AllowedClasses, subject: ReviewedObject, *, had: bool) -> bool | None:
    """Whether the requester is one of the users, and in one of the groups.

    Not checked where the stored object has this class: it was checked then, and an autoscaler need not be allowed.
    """
    if subject.user is None:
        return None
    if subject.user.name in CONTROLLERS or had:
        return True
    in_group = not entry.groups or any(one_of(entry.groups, group) for group in subject.user.groups)
    return in_group and (not entry.users or one_of(entry.users, subject.user.name))
