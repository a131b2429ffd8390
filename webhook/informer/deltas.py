"""The messages of reflectors to the owner of the cache. `at`: time of arrival (monotonic clock)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.policies.releases.release import Release


class ListStarted(NamedTuple):
    """A new list of a kind begins; objects of an interrupted list do not count."""

    resource: KindSpec


class Listed(NamedTuple):
    """A page of a list."""

    resource: KindSpec
    objects: list[dict[str, Any]]
    at: float


class ListCompleted(NamedTuple):
    """The list is complete: all objects that it did not contain are deleted."""

    resource: KindSpec
    at: float


class Changed(NamedTuple):
    """One object was created or changed, or deleted (`deleted`)."""

    resource: KindSpec
    object: dict[str, Any]
    deleted: bool
    at: float


class Responded(NamedTuple):
    """The API server responded: a watch was opened, or a bookmark arrived."""

    resource: KindSpec
    at: float


class Runs(NamedTuple):
    """The release of the API server (`gitVersion`); "" if it does not report one."""

    version: str


class ReleaseSet(NamedTuple):
    """The owner must use this release or scheduler configuration from now on."""

    release: Release


Delta = ReleaseSet | Runs | ListStarted | Listed | ListCompleted | Changed | Responded
