"""What reflectors tell the owner of the cache. `at`: when it was heard, on the monotonic clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from policies.kinds import KindSpec
    from policies.releases import Release


class ListBegins(NamedTuple):
    """A kind is listed anew; what an earlier list that broke off has told does not count."""

    resource: KindSpec


class Listed(NamedTuple):
    """A part of the list."""

    resource: KindSpec
    objects: list[dict[str, Any]]
    at: float


class ListEnds(NamedTuple):
    """The list is whole: what it did not name is gone."""

    resource: KindSpec
    at: float


class Changed(NamedTuple):
    """One object came or changed, or (`gone`) went."""

    resource: KindSpec
    object: dict[str, Any]
    gone: bool
    at: float


class Heard(NamedTuple):
    """The API server was there: a watch was opened, or a bookmark came."""

    resource: KindSpec
    at: float


class Runs(NamedTuple):
    """The API server says what release it is (`gitVersion`); empty: it does not."""

    version: str


class Asked(NamedTuple):
    """Somebody asks for another release, or another configuration of the scheduler, from now on."""

    release: Release


Delta = Asked | Runs | ListBegins | Listed | ListEnds | Changed | Heard
