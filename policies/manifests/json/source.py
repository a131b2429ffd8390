"""Positions of an object's fields in JSON text, found on demand."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Location, Path
    from forewarn.policies.manifests.documents import Document

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SCAN: Final = json.JSONDecoder(parse_int=len, parse_float=len).scan_once  # type: ignore[attr-defined]


class Member(NamedTuple):
    """A member of an object or list: its key (or index), and the character spans of key and value."""

    key: str | int
    key_start: int
    key_end: int
    start: int
    end: int


class Spans:
    """Positions in one JSON text. Results are cached, because several findings are often about one object."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._members: dict[int, dict[str | int, Member]] = {}

    def children(self, start: int) -> dict[str | int, Member]:
        """Return the members of the object or list at a character position, by key; the last one for a repeated key."""
        if start not in self._members:
            self._members[start] = {member.key: member for member in members(self.document.text, start)}
        return self._members[start]


class JsonSource(NamedTuple):
    """The source of an object in JSON text. `start`: position of the root's first character. `prefix`: the object's
    path from there.
    """

    spans: Spans
    start: int
    prefix: Path = ()

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of the value at `path` (with `key`, of its key); of the nearest parent if absent."""
        start, found = self.start, None
        full = (*self.prefix, *path)
        for step in full:
            member = self.spans.children(start).get(step)
            if member is None:
                key = True
                break
            start, found = member.start, member
        locate = self.spans.document.location
        if found is None:
            return locate(start, start + 1)
        by_key = key and isinstance(found.key, str)
        return locate(found.key_start, found.key_end) if by_key else locate(found.start, found.end)

    def extent(self) -> tuple[int, int]:
        """The character span of the object."""
        start, end = self.start, len(self.spans.document.text)
        for step in self.prefix:
            member = self.spans.children(start)[step]
            start, end = member.start, member.end
        return start, end


def members(text: str, start: int) -> Iterator[Member]:
    """The members of the object or list at `start` in valid JSON; none for a scalar."""
    is_object = text[start : start + 1] == "{"
    if not is_object and text[start : start + 1] != "[":
        return
    position, index = _skip(text, start + 1), 0
    while text[position] not in "]}":
        key: str | int = index
        key_start = key_end = position
        if is_object:
            key, key_end = scanstring(text, position + 1, True)
            position = _skip(text, _skip(text, key_end) + 1)
        _, end = _SCAN(text, position)
        yield Member(key, key_start, key_end, position, end)
        index += 1
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def repeated(text: str, start: int) -> Iterator[tuple[Member, Member]]:
    """Yield pairs of a member that a repeated key overwrites, and the member that replaces it."""
    stack = [start]
    while stack:
        seen: dict[str | int, Member] = {}
        for member in members(text, stack.pop()):
            if member.key in seen:
                yield seen[member.key], member
            seen[member.key] = member
            if text[member.start] in "[{":
                stack.append(member.start)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
