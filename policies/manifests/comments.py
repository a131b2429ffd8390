"""Comments with suppressions: `# forewarn: ignore[rule] reason until=2027-01-31`, after a value or above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forewarn.policies.findings import Location
from forewarn.policies.light import NamedTuple, later

_COMMENT: Final = later(r"(?:^|(?<=[ \t]))#[ \t]*forewarn:[ \t]*(.*)")
_NOTHING: Final = later(r"[ \t\r]*(?:#.*|---[ \t\r]*(?:#.*)?)?")
MAX: Final = 10_000
"""The maximum number of comments that are read in one file."""


class Comment(NamedTuple):
    """A comment: its text after `forewarn:`, its location, and the first and last line to which it applies."""

    text: str
    location: Location
    first: int
    last: int


def comments_of(data: bytes, file: str) -> tuple[Comment, ...]:
    """Return the forewarn comments in YAML text."""
    return tuple(_comments(data.decode("utf-8", "replace").split("\n"), file)) if b"forewarn:" in data else ()


def _comments(lines: list[str], file: str) -> Iterator[Comment]:
    count, below, is_fresh = 0, (0, 0), True
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line) if "forewarn:" in line else None
        if match is not None:
            count += 1
            if count > MAX:
                return
            own = (number, number)
            if not line[: match.start()].strip():
                # Of comments one above the other all stand above the same line: looked for once.
                own = below = below if below[0] > number else _below(lines, number, is_fresh=is_fresh)
            text = match[1].rstrip(" \t\r")
            yield Comment(text, Location(file, number, match.start() + 1, match.start(1) + len(text) + 1), *own)
        # Fresh: nothing but comments stands between the beginning of the document and the next line.
        if line.startswith("---"):
            below, is_fresh = (0, 0), True
        elif is_fresh:
            is_fresh = _NOTHING.fullmatch(line) is not None


def _below(lines: list[str], number: int, *, is_fresh: bool) -> tuple[int, int]:
    """Return the first and last line to which a comment at line `number` applies: the next line, or the whole
    document.

    `is_fresh`: the comment is at the start of the document, so it applies to all of it.
    """
    first = number + 1
    while first <= len(lines) and _NOTHING.fullmatch(lines[first - 1]):
        first += 1
    if not is_fresh:
        return first, first
    last = first
    while last < len(lines) and not lines[last].startswith("---"):
        last += 1
    return first, last
