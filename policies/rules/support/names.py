"""Known names, and which of them a misspelled one may mean. Of very many, few are compared."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from policies.disclosure import OPEN
from policies.findings import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.disclosure import Audience

_LONGEST: Final = 253
"""Characters of a name that another one may be meant by."""
_MOST_CANDIDATES: Final = 100
_MOST_QUESTIONS: Final = 1_000
"""Different names that are looked up for one apply: whoever misspells more has no use for guesses."""


class Names:
    """The names that there are, put in order once."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = known
        self._found: dict[str, str] = {}

    @cached_property
    def sorted(self) -> list[str]:
        """All of them, in order."""
        return sorted(self._known)

    @cached_property
    def _by_length(self) -> Sequence[tuple[int, str]]:
        return sorted((len(name), name) for name in self._known)

    def nearest(self, name: str, audience: Audience = OPEN) -> str:
        """A sentence of its own, `. Did you mean "high"?`; empty if no known name is near.

        Only classes that the reader may be told of: a guess that is half right must not reveal the rest.
        """
        known = filter(audience.knows, self._known)
        meant = self.meant(name) if audience.sees_all else _nearest(name, known)
        return f". Did you mean {quote(meant)}?" if meant else ""

    def meant(self, name: str) -> str:
        """The known name that is nearest to this one; empty where none is near."""
        if name not in self._found:
            if len(self._found) >= _MOST_QUESTIONS:
                return ""
            self._found[name] = _nearest(name, self._candidates(name))
        return self._found[name]

    def _candidates(self, name: str) -> Iterable[str]:
        """The names, or of very many those that are about as long and nearest in the alphabet."""
        names = self._by_length
        if len(names) <= _MOST_CANDIDATES:
            return self._known
        found, each = set[str](), _MOST_CANDIDATES // 6
        for length in (len(name) - 1, len(name), len(name) + 1):
            at = bisect_left(names, (length, name))
            found.update(other for _, other in names[max(at - each, 0) : at + each])
        return found.intersection(self._known)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean "high"?` of names that are given here; empty if none is near."""
    meant = _nearest(name, known)
    return f"; did you mean {quote(meant)}?" if meant else ""


def _nearest(name: str, known: Iterable[str]) -> str:
    if len(name) > _LONGEST:
        return ""
    from difflib import get_close_matches  # only when something is wrong

    names = sorted(known)
    if len(names) > _MOST_CANDIDATES:
        names = sorted(nsmallest(_MOST_CANDIDATES, names, key=lambda other: _distance(name, other)))
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.6)), "")


def _distance(name: str, other: str) -> tuple[bool, int, str]:
    """Which of many names are worth a closer look: those that begin alike, and are about as long."""
    return name[:2] != other[:2], abs(len(name) - len(other)), other
