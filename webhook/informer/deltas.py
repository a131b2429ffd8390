"""The messages from reflectors to the thread that owns the cache. `at`: time of arrival (monotonic clock)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.policies.releases.release import Release


class ListStarted(NamedTuple):
    """A new list of a kind starts; objects of an interrupted list no longer count."""

    resource: KindSpec


class Listed(NamedTuple):
    """A page of a list."""

    resource: KindSpec
    objects: list[dict[str, Any]]
    at: float


class ListCompleted(NamedTuple):
    """The list is complete: objects that the list does not contain are deleted."""

    resource: KindSpec
    at: float


class Changed(NamedTuple):
    """One object was created or changed; if `deleted`, it was deleted."""

    resource: KindSpec
    object: dict[str, Any]
    deleted: bool
    at: float


class Responded(NamedTuple):
    """The API server responded: a watch was opened, or a bookmark arrived."""

    resource: KindSpec
    at: float


class Runs(NamedTuple):
    """The Kubernetes version that the API server reports (`gitVersion`); "" if none."""

    version: str


class ReleaseSet(NamedTuple):
    """The release or scheduler configuration to use from now on."""

    release: Release


Delta = ReleaseSet | Runs | ListStarted | Listed | ListCompleted | Changed | Responded
