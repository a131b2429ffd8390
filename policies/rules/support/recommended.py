"""The PriorityClasses that a message may recommend for a subject: only classes that the same run does not reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.kinds.registry import NAMESPACE, RESOURCE_QUOTA
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.priority_class import SERVED_VERSION
from forewarn.policies.recommended_classes import is_recommended
from forewarn.policies.rules.support.allowed_classes import is_allowed
from forewarn.policies.rules.support.names import Names

if TYPE_CHECKING:
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.rules.support.context import Context


class Recommended:
    """The PriorityClasses of the change set and the cluster that may be recommended for a subject."""

    def __init__(self, context: Context) -> None:
        self._context = context
        rejected = _rejected(context)
        known = each(sorted(context.classes.values()))
        self._classes = [c for c in known if is_recommended(c) and c.name not in rejected]
        self._to_all = Names([c.name for c in self._classes])
        self._of_namespace: dict[str, Names] = {}

    def names_for(self, subject: ReviewedObject) -> Names:
        """The names of classes that allowedClasses and limitedResources permit for a subject."""
        options = self._context.options
        if options.limited_resources and group_kind(subject.object) not in (NAMESPACE, RESOURCE_QUOTA):
            return Names([c.name for c in each(self._classes, 20) if self._is_covered(c, subject)])
        if not options.allowed_classes:
            return self._to_all
        namespace = _namespace_of(subject)
        if namespace not in self._of_namespace:
            names = [c.name for c in each(self._classes) if self._is_allowed(c, subject)]
            self._of_namespace[namespace] = Names(names)
        return self._of_namespace[namespace]

    def _is_allowed(self, priority_class: PriorityClass, subject: ReviewedObject) -> bool:
        return is_allowed(subject, priority_class.name, _namespace_of(subject), self._context) is not False

    def _is_covered(self, priority_class: PriorityClass, subject: ReviewedObject) -> bool:
        """Report whether allowedClasses permits the class, and quotas cover what limitedResources requires for the
        class.
        """
        from forewarn.policies.rules.support.quota_use import (
            uncovered_of,  # late: ask for it only where something is limited
        )

        context = self._context
        return self._is_allowed(priority_class, subject) and not uncovered_of(
            subject, context, context.options.limited_resources, priority_class.name
        )


def _rejected(context: Context) -> set[str]:
    """The classes of the change set that kube-apiserver rejects, so that they will not exist."""
    if not context.defined:
        return set()
    from forewarn.policies.kube_apiserver.validation.priority_class import (
        decode_error,  # only where there is a class: pods start without it
        validate_priority_class,
    )

    rejected, accepted = set[str](), set(context.stored_classes)
    for subject, defined in context.defined:
        new, other = defined.priority_class, context.default_before(subject)
        is_second_default = new.global_default and other is not None and other.priority_class.name != new.name
        is_served = subject.object.get("apiVersion") == SERVED_VERSION
        if (
            not is_served
            or is_second_default
            or decode_error(subject.object)
            or validate_priority_class(subject.object)
        ):
            rejected.add(new.name)
        else:
            accepted.add(new.name)
    return rejected - accepted


def recommended_to(subject: ReviewedObject, context: Context) -> Names:
    """The names of the classes that may be recommended for a subject."""
    return context.once(Recommended).names_for(subject)


def _namespace_of(subject: ReviewedObject) -> str:
    return subject.ref.name if group_kind(subject.object) == NAMESPACE else subject.effective_namespace
