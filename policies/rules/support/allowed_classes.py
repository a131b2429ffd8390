"""Checks if the configuration's allowedClasses permit the use of a PriorityClass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.selectors import one_of

if TYPE_CHECKING:
    from forewarn.policies.objects.reviewed_object import ReviewedObject, User
    from forewarn.policies.options import AllowedClasses
    from forewarn.policies.rules.support.context import Context

_KINDS: Final = ("deployment", "replicaset", "replication", "statefulset", "daemon-set", "job", "cronjob")
CONTROLLERS: Final = frozenset(
    ("system:kube-controller-manager", *(f"system:serviceaccount:kube-system:{kind}-controller" for kind in _KINDS))
)
"""Users that create the Pods of workloads. Source: pkg/controlplane, bootstrappolicy `controller_policy.go`."""


def is_allowed(
    subject: ReviewedObject, name: str, namespace: str, context: Context, *, had: bool = False
) -> bool | None:
    """Report whether Pods may use a class; None if unknown. `had`: the stored object already has this class."""
    # A class that was allowed earlier stays so, and controllers need no permission: autoscalers change workloads.
    is_exempt = subject.user is not None and (had or subject.user.name in CONTROLLERS)
    answers = [permits(entry, subject, namespace, context, is_exempt=is_exempt) for entry in entries_of(name, context)]
    return True if not answers or True in answers else None if None in answers else False


def entries_of(name: str, context: Context) -> list[AllowedClasses]:
    return [entry for entry in context.options.allowed_classes if name and one_of(entry.classes, name)]


def permits(
    entry: AllowedClasses, subject: ReviewedObject, namespace: str, context: Context, *, is_exempt: bool = False
) -> bool | None:
    """Whether all conditions of an entry hold in a namespace ("": none); None if unknown. `is_exempt`: any user may."""
    answers: list[bool | None] = [not entry.namespaces or (bool(namespace) and one_of(entry.namespaces, namespace))]
    if entry.namespace_selector is not None:
        labelled = context.namespace(namespace) if namespace else None
        answers.append(None if labelled is None else entry.namespace_selector.matches(labelled.labels))
    if entry.depends_on_user and not is_exempt:
        answers.append(subject.user and _is_among(entry, subject.user))
    return False if False in answers else None if None in answers else True


def _is_among(entry: AllowedClasses, user: User) -> bool:
    in_group = not entry.groups or any(one_of(entry.groups, group) for group in user.groups)
    return in_group and (not entry.users or one_of(entry.users, user.name))
