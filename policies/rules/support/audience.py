"""Who reads what rules say of a subject: what he may be told by name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import OPEN, Audience, Disclose
from forewarn.policies.kube_apiserver.priority import default_priority_class
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import AllowedClasses
    from forewarn.policies.rules.support.context import Context

_SYSTEM: Final = frozenset(c.name for c in SYSTEM_CLASSES)
_LOOKED_AT: Final = 500
"""Of so many pods of the namespace, the classes are looked at: a tenant decides how many there are."""


def audience_of(subject: ReviewedObject, context: Context) -> Audience:
    """Who asked for a subject, as far as `disclose` goes."""
    if context.disclose is Disclose.NAMES:
        return OPEN
    namespace = subject.namespace  # the request's, whatever the object says
    return Audience(context.disclose, namespace, _knows(subject, namespace, context), context.shown())


def _knows(subject: ReviewedObject, namespace: str, context: Context) -> Callable[[str], bool]:
    """Whether he may be told of a class: those that he may use are his to know, others only where he has the right.

    Every cluster has the system's, and every pod without a class shows the global default. What the request itself
    names is in its text already. On `counts` that is all; else there are the classes of the namespace's pods, and
    those that an entry of allowedClasses gives to this namespace or user.
    """
    found: set[str] = set()

    def knows(name: str) -> bool:
        if not found:
            default = default_priority_class(context.stored_classes.values())
            found.update(_SYSTEM, (default.name,) if default else ())
            if context.disclose is Disclose.OWN_NAMESPACE and namespace and context.cluster is not None:
                pods = islice(context.cluster.within(namespace).pods.values(), _LOOKED_AT)
                found.update(pod.priority_class_name for pod in pods)
        return name in found or (context.disclose is Disclose.OWN_NAMESPACE and _is_allowed(name, subject, context))

    return knows


def _is_allowed(name: str, subject: ReviewedObject, context: Context) -> bool:
    """Whether an entry of allowedClasses gives the class to the subject's namespace and user."""
    return any(
        one_of(entry.classes, name) and _holds(entry, subject, context) for entry in context.options.allowed_classes
    )


def _holds(entry: AllowedClasses, subject: ReviewedObject, context: Context) -> bool:
    """Whether all that an entry gives is known to hold."""
    name, user = subject.namespace, subject.user
    if entry.namespaces and not (name and one_of(entry.namespaces, name)):
        return False
    if entry.namespace_selector is not None:
        namespace = context.namespace(name) if name else None
        if namespace is None or not entry.namespace_selector.matches(namespace.labels):
            return False
    if entry.users and not (user and one_of(entry.users, user.name)):
        return False
    return not entry.groups or bool(user and any(one_of(entry.groups, group) for group in user.groups))
