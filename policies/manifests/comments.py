"""Comments that speak to forewarn: `# forewarn: ignore[rule] reason until=2027-01-31`, behind a value or above it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.findings import Location

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#[ \t]*forewarn:[ \t]*(.*?)[ \t\r]*$")
_NOTHING: Final = re.compile(r"[ \t\r]*(?:#.*|---[ \t\r]*(?:#.*)?)?")
MOST: Final = 10_000
"""Comments of one file that are read; nobody writes more."""


class Comment(NamedTuple):
    """One comment: its text behind `forewarn:`, where it stands, and the first and last line that it is about."""

    text: str
    location: Location
    first: int
    last: int


def comments_of(data: bytes, file: str) -> tuple[Comment, ...]:
    """The comments of YAML text; where it holds none, at once."""
    return tuple(_comments(data.decode("utf-8", "replace").split("\n"), file)) if b"forewarn:" in data else ()


def _comments(lines: list[str], file: str) -> Iterator[Comment]:
    found = 0
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line) if "forewarn:" in line else None
        if match is None:
            continue
        found += 1
        if found > MOST:
            return
        first, last = (number, number) if line[: match.start()].strip() else _below(lines, number)
        yield Comment(match[1], Location(file, number, match.start() + 1, match.end() + 1), first, last)


def _below(lines: list[str], number: int) -> tuple[int, int]:
    """The line that a comment stands above; the whole document, where that is its first."""
    first = number + 1
    while first <= len(lines) and _NOTHING.fullmatch(lines[first - 1]):
        first += 1
    if not _begins_document(lines, number):
        return first, first
    last = first
    while last < len(lines) and not lines[last].startswith("---"):
        last += 1
    return first, last


def _begins_document(lines: list[str], number: int) -> bool:
    """Whether nothing but comments stands between a line and the beginning of its document."""
    for line in reversed(lines[: number - 1]):
        if line.startswith("---"):
            return True
        if not _NOTHING.fullmatch(line):
            return False
    return True
