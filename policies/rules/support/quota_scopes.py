"""The scopes of a ResourceQuota: their paths in the object, and the PriorityClasses that they select."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forewarn.policies.kube_apiserver.quota import InvalidScope, matches_scope
from forewarn.policies.kube_apiserver.validation.decode import RESOURCE_QUOTA_STRUCT, decode_fault
from forewarn.policies.metering import TooLarge
from forewarn.policies.objects.extent import check_quota_extent
from forewarn.policies.objects.fields import ApiObject, InvalidObject, sequence
from forewarn.policies.objects.resource_quota import ResourceQuota

if TYPE_CHECKING:
    from forewarn.policies.findings import Path
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import ScopeSelector


def read_quota(subject: ReviewedObject) -> ResourceQuota:
    """Return the subject as a ResourceQuota. Raises InvalidObject if the API server could not decode the new or the
    stored quota.

    Rules call `Context.quota_of`, which parses each subject once.
    """
    check_quota_extent(subject.object.get("spec"))
    for obj in (subject.object, _readable(subject.old)):
        fault = decode_fault(obj, RESOURCE_QUOTA_STRUCT) if obj else None
        if fault is not None:
            raise InvalidObject(fault.text, fault.path, subject.ref)
    return ResourceQuota.from_api(subject.object)


def _readable(stored: ApiObject | None) -> ApiObject | None:
    """Return the stored quota; None if too large to evaluate, so that users can still make the quota smaller."""
    try:
        check_quota_extent((stored or {}).get("spec"))
    except TooLarge:
        return None
    return stored


def placed_selectors(quota: ResourceQuota, subject: ReviewedObject) -> Iterator[tuple[ScopeSelector, Path]]:
    """Yield the scopes of a quota, each with its path in the object."""
    scopes = len(sequence(subject.object, "spec", "scopes"))
    for index, selector in enumerate(quota.scope_selectors):
        if index < scopes:
            yield selector, ("spec", "scopes", index)
        else:
            yield selector, ("spec", "scopeSelector", "matchExpressions", index - scopes)


def is_readable(selector: ScopeSelector) -> bool:
    """Report whether the scope is valid for the API server."""
    try:
        matches_scope(selector, {"spec": {"priorityClassName": "x"}})
    except InvalidScope:
        return False
    return True


def matches(selector: ScopeSelector, class_name: str) -> bool:
    """True if a PriorityClass scope selects Pods with a class ("" for no class); an invalid scope selects none."""
    try:
        return matches_scope(selector, {"spec": {"priorityClassName": class_name}})
    except InvalidScope:
        return False
