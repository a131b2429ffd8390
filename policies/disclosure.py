"""Whom a text is for, and so what it may name: names are for those who may read the objects, others get counts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Disclose(StrEnum):
    """What a requester is told by name of what is not in the request."""

    NAMES = "names"
    """Everything."""
    OWN_NAMESPACE = "own-namespace"
    """What is in the namespace of the request, and the classes that may be used there."""
    COUNTS = "counts"
    """Nothing: pods, nodes and classes are counted."""


class Shown(NamedTuple):
    """How much of a prediction a requester is shown.

    `coarse`: numbers about others as ranges; `not_predicted`: why nothing is shown, empty where something is.
    """

    coarse: bool = False
    not_predicted: str = ""


EXACT: Final = Shown()


class Range(NamedTuple):
    """The range that a number is in, all that is shown of it. `highest` None: it has no upper end."""

    lowest: int | None
    highest: int | None


_NO_MORE_THAN: Final = 5
_COUNTS: Final = (Range(0, 0), Range(1, _NO_MORE_THAN), Range(_NO_MORE_THAN + 1, None))
_PRIORITIES: Final = (Range(None, -1), Range(0, 999), Range(1_000, 999_999), Range(1_000_000, None))
_EACH: Final = 30
_LONGEST: Final = 300
"""Seconds of a grace period: shown in steps of 30, up to so many."""


def count_range(number: int) -> Range:
    """0, 1 to 5, or more."""
    return next(found for found in _COUNTS if found.highest is None or number <= found.highest)


def priority_range(lowest: int, highest: int) -> Range:
    """The range of the two priority values: the bands are below 0, from 0, from 1,000 and from 1,000,000."""
    bands = [
        next(band for band in _PRIORITIES if band.highest is None or value <= band.highest)
        for value in (lowest, highest)
    ]
    return Range(bands[0].lowest, bands[1].highest)


def seconds_range(seconds: int) -> Range:
    """The 30 seconds that a time ends in; of more than 300 seconds, no upper end."""
    if seconds > _LONGEST:
        return Range(_LONGEST + 1, None)
    highest = -(-seconds // _EACH) * _EACH
    return Range(max(highest - _EACH + 1, 0), highest)


class Audience(NamedTuple):
    """Who reads a text: somebody in `namespace` (empty: in none, as for a PriorityClass). Without arguments: everybody.

    `knows`: whether he may be told that there is a class of this name. `shown`: how much of a prediction.
    """

    disclose: Disclose = Disclose.NAMES
    namespace: str = ""
    knows: Callable[[str], bool] = lambda _: True
    shown: Shown = EXACT

    @property
    def coarse(self) -> bool:
        """Whether numbers about others are shown as ranges, or not at all."""
        return self.shown != EXACT

    @property
    def sees_all(self) -> bool:
        """Whether nothing is withheld: names of other namespaces, of nodes, of every class."""
        return self.disclose is Disclose.NAMES

    def is_told_of(self, namespace: str) -> bool:
        """Whether objects of this namespace are named."""
        own = self.disclose is Disclose.OWN_NAMESPACE and bool(namespace) and namespace == self.namespace
        return self.sees_all or own


OPEN: Final = Audience()
"""Who may see everything: the audit log, the log, whoever runs a command on files of his own."""
