"""The scopes of a ResourceQuota in a file: where they stand, and which classes are in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.objects.fields import sequence
from policies.objects.resource_quota import ResourceQuota
from policies.quota.scopes import InvalidScope, matches_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.findings import Path
    from policies.objects.subject import Subject
    from policies.options import ScopeSelector


def quota_of(subject: Subject) -> ResourceQuota:
    """The subject as a quota. Raises InvalidObject."""
    return ResourceQuota.from_api(subject.object)


def placed_selectors(quota: ResourceQuota, subject: Subject) -> Iterator[tuple[ScopeSelector, Path]]:
    """The scopes of a quota, each with its place in the object."""
    scopes = len(sequence(subject.object, "spec", "scopes"))
    for index, selector in enumerate(quota.scope_selectors):
        if index < scopes:
            yield selector, ("spec", "scopes", index)
        else:
            yield selector, ("spec", "scopeSelector", "matchExpressions", index - scopes)


def holds(selector: ScopeSelector, class_name: str) -> bool:
    """Whether pods of a class, empty for none, are in a PriorityClass scope; one that cannot be read holds none."""
    try:
        return matches_scope(selector, {"spec": {"priorityClassName": class_name}})
    except InvalidScope:
        return False
