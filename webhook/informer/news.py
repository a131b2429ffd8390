"""What reflectors tell the owner of the cache. `at`: when it was heard, on the monotonic clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from webhook.apiserver import Resource


class ListBegins(NamedTuple):
    """A kind is listed anew; what an earlier list that broke off has told does not count."""

    resource: Resource


class Listed(NamedTuple):
    """A part of the list."""

    resource: Resource
    objects: list[dict[str, Any]]
    at: float


class ListEnds(NamedTuple):
    """The list is whole: what it did not name is gone."""

    resource: Resource
    at: float


class Changed(NamedTuple):
    """One object came or changed, or (`gone`) went."""

    resource: Resource
    object: dict[str, Any]
    gone: bool
    at: float


class Heard(NamedTuple):
    """The API server was there: a watch was opened, or a bookmark came."""

    resource: Resource
    at: float


News = ListBegins | Listed | ListEnds | Changed | Heard
