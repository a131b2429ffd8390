"""Results of checks, each with its fix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import cut, one_line, plural

if TYPE_CHECKING:
    from forewarn.policies.documents import Always

MAX_PER_CHECK: Final = 10
"""Maximum lines of one check in the report; the last one gives the number of the others."""
AGAIN: Final = "apply the manifests or the chart again (docs/guides/run-the-webhook.md)"
"""Fix for missing objects."""
LONGEST: Final = 400
"""Maximum characters of a message, which can quote texts of the cluster."""
_LONGEST_FIX: Final = 1_000
"""Maximum characters of a fix. It is longer, because a truncated command is useless."""


class Status(StrEnum):
    """Result of a check. Only a problem makes the command fail."""

    OK = "ok"
    PROBLEM = "problem"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """Not checked: no permission, no response, or no time left."""


class Line(NamedTuple):
    """One line of the report. `check`: a fixed name, the same on every cluster."""

    area: str
    check: str
    status: Status
    message: str
    fix: Always[str] = ""


class Checks(NamedTuple):
    """The output of `forewarn webhook doctor`."""

    checks: Sequence[Line]


class Area(NamedTuple):
    """Creates the lines of one part of the report. Texts are limited to one line and a maximum length."""

    name: str

    def ok(self, check: str, message: str) -> Line:
        return self._line(check, Status.OK, message, "")

    def problem(self, check: str, message: str, fix: str) -> Line:
        """A line for an error or a misleading setting."""
        return self._line(check, Status.PROBLEM, message, fix)

    def warning(self, check: str, message: str, fix: str) -> Line:
        """A line for a setting that may be intended."""
        return self._line(check, Status.WARNING, message, fix)

    def unknown(self, check: str, message: str, fix: str = "") -> Line:
        return self._line(check, Status.UNKNOWN, message, fix)

    def _line(self, check: str, status: Status, message: str, fix: str) -> Line:
        return Line(self.name, check, status, cut(one_line(message), LONGEST), cut(one_line(fix), _LONGEST_FIX))


def kubectl_patch(what: str, *changes: object) -> str:
    """The kubectl command that applies these changes (JSON Patch) to an object."""
    return f"kubectl patch {what} --type=json -p {quote(json.dumps(changes))}"


def bounded(lines: Iterable[Line]) -> list[Line]:
    """Return the lines, with at most MAX_PER_CHECK for each check and status; the last line counts the omitted ones."""
    counts: dict[tuple[str, str, Status], int] = {}
    kept: list[Line] = []
    last: dict[tuple[str, str, Status], int] = {}
    for line in lines:
        key = (line.area, line.check, line.status)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MAX_PER_CHECK:
            last[key] = len(kept)
            kept.append(line)
    for key, place in last.items():
        if (more := counts[key] - MAX_PER_CHECK) > 0:
            kept[place] = kept[place]._replace(
                message=f"{kept[place].message} (and {plural(more, 'more check')} like this)"
            )
    return kept


def summary(lines: Sequence[Line]) -> str:
    """Summary of the results in one line."""
    words = {
        Status.PROBLEM: "problem",
        Status.WARNING: "warning",
    }
    counts = {status: sum(line.status is status for line in lines) for status in Status}
    phrases = [plural(counts[status], word) for status, word in words.items() if counts[status]] or ["no problems"]
    if counts[Status.UNKNOWN]:
        phrases.append(f"{counts[Status.UNKNOWN]} not checked")
    return f"{', '.join(phrases)}: {plural(len(lines), 'check')}"
