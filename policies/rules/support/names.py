"""Names of classes: which of them another one may have been meant for. Of very many, few are looked at."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from policies.disclosure import OPEN
from policies.findings import quote
from policies.objects.priority_class import SYSTEM_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.disclosure import Audience

_LONGEST: Final = 253
"""Characters of a name that another one may be meant by."""
_MOST_CANDIDATES: Final = 100
_MOST_QUESTIONS: Final = 1_000
"""Different names that are looked up for one apply: whoever misspells more has no use for guesses."""
_SYSTEM: Final = frozenset(c.name for c in SYSTEM_CLASSES)


class Names:
    """The names that there are, put in order once."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = known
        self._found: dict[str, str] = {}

    @cached_property
    def _sorted(self) -> Sequence[str]:
        return sorted(self._known)

    @cached_property
    def own(self) -> list[str]:
        """Those that are not the system's, sorted."""
        return [name for name in self._sorted if name not in _SYSTEM]

    @cached_property
    def _by_length(self) -> Sequence[tuple[int, str]]:
        return sorted((len(name), name) for name in self._known)

    def nearest(self, name: str, audience: Audience = OPEN) -> str:
        """`; did you mean "high"?`, or nothing where no known name is near.

        Only classes that the reader may be told of: a guess that is half right must not bring out the rest.
        """
        if not audience.sees_all:
            return nearest(name, filter(audience.knows, self._known))
        if name not in self._found:
            if len(self._found) >= _MOST_QUESTIONS:
                return ""
            self._found[name] = nearest(name, self._candidates(name))
        return self._found[name]

    def _candidates(self, name: str) -> Iterable[str]:
        """The names, or of very many those that are about as long and nearest in the alphabet."""
        names = self._by_length
        if len(names) <= _MOST_CANDIDATES:
            return self._known
        found, each = set(_SYSTEM), _MOST_CANDIDATES // 6
        for length in (len(name) - 1, len(name), len(name) + 1):
            at = bisect_left(names, (length, name))
            found.update(other for _, other in names[max(at - each, 0) : at + each])
        return found.intersection(self._known)


def nearest(name: str, known: Iterable[str]) -> str:
    """The same of names that are given here. Few mean a system class: it must be nearer."""
    if len(name) > _LONGEST:
        return ""
    from difflib import get_close_matches  # only when something is wrong

    names = sorted(known)
    if len(names) > _MOST_CANDIDATES:
        names = sorted(nsmallest(_MOST_CANDIDATES, names, key=lambda other: _distance(name, other)))
    system = [name for name in names if name in _SYSTEM]
    matches = get_close_matches(name, [name for name in names if name not in _SYSTEM], n=1, cutoff=0.6)
    matches = matches or get_close_matches(name, system, n=1, cutoff=0.6 if name.startswith("system-") else 0.85)
    return f"; did you mean {quote(matches[0])}?" if matches else ""


def _distance(name: str, other: str) -> tuple[bool, int, str]:
    """Which of many names are worth a closer look: those that begin alike, and are about as long."""
    return name[:2] != other[:2], abs(len(name) - len(other)), other
