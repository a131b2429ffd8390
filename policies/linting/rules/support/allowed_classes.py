"""What the configuration decides: allowedClasses, and the audience of messages, which may see some names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import OPEN, Audience, Disclose
from forewarn.policies.kubernetes.kube_apiserver.priority import default_priority_class
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_NAMES
from forewarn.policies.kubernetes.selectors import one_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject, User
    from forewarn.policies.kubernetes.options import AllowedClasses
    from forewarn.policies.linting.rules.support.context import Context


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


_MAX_CHECKED: Final = 500
"""Maximum number of Pods of the namespace whose classes are read, because a tenant decides on their number."""


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
                pods = islice(context.cluster.restrict_to(namespace).pods.values(), _MAX_CHECKED)
                names.update(pod.priority_class_name for pod in pods)
        if name in names or context.disclose is not Disclose.OWN_NAMESPACE:
            return name in names
        return any(permits(entry, subject, namespace, context) for entry in entries_of(name, context))

    return knows
