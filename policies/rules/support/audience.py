"""The audience of messages about a subject: the names that the requester may read."""

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
_MAX_CHECKED: Final = 500
"""Maximum Pods of the namespace whose classes are read, because a tenant decides on their number."""


def audience_of(subject: ReviewedObject, context: Context) -> Audience:
    """The audience of messages about a subject, according to `disclose`."""
    if context.disclose is Disclose.NAMES:
        return OPEN
    namespace = subject.namespace  # the request's, whatever the object says
    return Audience(context.disclose, namespace, _knows(subject, namespace, context), context.shown())


def _knows(subject: ReviewedObject, namespace: str, context: Context) -> Callable[[str], bool]:
    """Return a function: class name -> whether the requester may learn that the PriorityClass exists.

    True for system classes and the global default; `own-namespace` adds classes that Pods of the namespace use, or
    that allowedClasses permits.
    """
    names: set[str] = set()

    def knows(name: str) -> bool:
        if not names:
            default = default_priority_class(context.stored_classes.values())
            names.update(_SYSTEM, (default.name,) if default else ())
            if context.disclose is Disclose.OWN_NAMESPACE and namespace and context.cluster is not None:
                pods = islice(context.cluster.within(namespace).pods.values(), _MAX_CHECKED)
                names.update(pod.priority_class_name for pod in pods)
        return name in names or (context.disclose is Disclose.OWN_NAMESPACE and _is_allowed(name, subject, context))

    return knows


def _is_allowed(name: str, subject: ReviewedObject, context: Context) -> bool:
    """Whether an entry of allowedClasses that matches the class also matches the subject's namespace and user."""
    return any(
        one_of(entry.classes, name) and _matches(entry, subject, context) for entry in context.options.allowed_classes
    )


def _matches(entry: AllowedClasses, subject: ReviewedObject, context: Context) -> bool:
    """Report whether all conditions of an entry are known to hold; false if a condition is unknown."""
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
