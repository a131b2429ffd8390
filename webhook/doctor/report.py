"""What a look at one thing came to, and what to do about it."""

from __future__ import annotations

import json
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.findings import cut, one_line, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_OF_A_CHECK: Final = 10
"""Lines of one check that are told; the last of them says how many more there are."""
AGAIN: Final = "apply the manifests or the chart again (docs/install.md)"
"""The fix for what is missing of an installation."""
LONGEST: Final = 400
"""Characters of a text: what is quoted in it comes from the cluster."""
_LONGEST_FIX: Final = 1_000
"""Characters of a fix: a command that is cut repairs nothing."""


class Status(StrEnum):
    """How a thing is. Only a problem makes the command fail."""

    OK = "ok"
    PROBLEM = "problem"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """It could not be looked at: no right to, no answer, or no time left."""


class Line(NamedTuple):
    """One line of the report. `check`: the same words for the same check on every cluster."""

    area: str
    check: str
    status: Status
    told: str
    fix: str = ""


class Area(NamedTuple):
    """Makes the lines of a part of the report; texts from the cluster become one line each, and not too long."""

    name: str

    def ok(self, check: str, told: str) -> Line:
        """As it should be."""
        return self._line(check, Status.OK, told, "")

    def problem(self, check: str, told: str, fix: str) -> Line:
        """Something that does not work, or tells people wrong things."""
        return self._line(check, Status.PROBLEM, told, fix)

    def warning(self, check: str, told: str, fix: str) -> Line:
        """Something that may be meant so."""
        return self._line(check, Status.WARNING, told, fix)

    def unknown(self, check: str, told: str, fix: str = "") -> Line:
        """Something that could not be looked at."""
        return self._line(check, Status.UNKNOWN, told, fix)

    def _line(self, check: str, status: Status, told: str, fix: str) -> Line:
        return Line(self.name, check, status, cut(one_line(told), LONGEST), cut(one_line(fix), _LONGEST_FIX))


def kubectl_patch(what: str, *changes: object) -> str:
    """The command that makes these changes (JSON Patch) to an object."""
    return f"kubectl patch {what} --type=json -p {quote(json.dumps(changes))}"


def bounded(lines: Iterable[Line]) -> list[Line]:
    """The lines, of each check and status so many at most."""
    counts: dict[tuple[str, str, Status], int] = {}
    kept: list[Line] = []
    last: dict[tuple[str, str, Status], int] = {}
    for line in lines:
        key = (line.area, line.check, line.status)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MOST_OF_A_CHECK:
            last[key] = len(kept)
            kept.append(line)
    for key, place in last.items():
        if (more := counts[key] - MOST_OF_A_CHECK) > 0:
            kept[place] = kept[place]._replace(told=f"{kept[place].told} (and {plural(more, 'more line')} like it)")
    return kept


def summary(lines: Sequence[Line]) -> str:
    """How many lines of each status there are, in one line."""
    words = {
        Status.PROBLEM: "problem",
        Status.WARNING: "warning",
    }
    counts = {status: sum(line.status is status for line in lines) for status in Status}
    told = [plural(counts[status], word) for status, word in words.items() if counts[status]] or ["nothing wrong"]
    if counts[Status.UNKNOWN]:
        told.append(f"{counts[Status.UNKNOWN]} not looked at")
    return f"{plural(len(lines), 'line')}: {', '.join(told)}"
