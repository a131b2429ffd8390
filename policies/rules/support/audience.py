"""The audience of messages about a subject: the names that the requester may read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import OPEN, Audience, Disclose
from forewarn.policies.kube_apiserver.priority import default_priority_class
from forewarn.policies.objects.priority_class import SYSTEM_NAMES
from forewarn.policies.rules.support.allowed_classes import entries_of, permits

if TYPE_CHECKING:
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.rules.support.context import Context

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
            names.update(SYSTEM_NAMES, (default.name,) if default else ())
            if context.disclose is Disclose.OWN_NAMESPACE and namespace and context.cluster is not None:
                pods = islice(context.cluster.within(namespace).pods.values(), _MAX_CHECKED)
                names.update(pod.priority_class_name for pod in pods)
        return name in names or (context.disclose is Disclose.OWN_NAMESPACE and _is_allowed(name, subject, context))

    return knows


def _is_allowed(name: str, subject: ReviewedObject, context: Context) -> bool:
    """Whether the conditions of an entry of allowedClasses for the class are known to hold for the requester."""
    return any(permits(entry, subject, subject.namespace, context) for entry in entries_of(name, context))
