"""JSON text as kubectl reads it: several values in sequence, with Go's rules for numbers; positions of fields."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.documents import Document, Fault
from forewarn.policies.inputs.manifests.yaml.scalars import as_integer

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Location, Path


_INT64: Final = range(-(2**63), 2**63)
_POSITION: Final = re.compile(r"(?: starting)? at$")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _number(digits: str) -> int | float:
    """Return a number with fraction or exponent; an integer below 1e21 becomes an int, as in Go's encoding/json."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} does not fit into a number")
    return as_integer(number)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 or (len(digits) < 21 and int(digits) in _INT64) else _number(digits)


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"no number is written {name}", "", 0)


def problem_of(error: json.JSONDecodeError) -> str:
    """The error message of Python's parser without the position."""
    return _POSITION.sub("", error.msg[:1].lower() + error.msg[1:])


class NotJson(Fault):
    """The text is not JSON; kubectl may still read it as YAML."""


_DECODE: Final = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=_no_constant).raw_decode
_DECODE_SHORT: Final = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant).raw_decode
"""Decodes texts without long integers as `_DECODE` does, in a third of the time."""
_LONG: Final = later(r"[0-9]{19}")


class JsonReader:
    """Decodes the JSON values in a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._decode = _DECODE if _LONG.search(text) else _DECODE_SHORT

    def value(self, start: int) -> tuple[Any, int]:
        """The value at a character, and its end. Raises NotJson; Fault if kubectl rejects the value."""
        try:
            value, end = self._decode(self.text, start)
            if _SURROGATE.search(self.text, start, end):
                value = _well_formed(value)
        except json.JSONDecodeError as error:
            at = max(start, min(error.pos, len(self.text)))
            raise NotJson(f"invalid JSON: {problem_of(error)}", at, at + 1) from None
        except RecursionError:
            raise Fault("nested too deeply", start, start + 1, is_own=True) from None
        except ValueError as error:
            raise Fault(f"invalid JSON: {error}", start, start + 1) from None
        return value, end

    def repeats(self, start: int) -> bool:
        """Report whether an object in this value has a duplicate key. Parses the value again."""
        is_repeated = False

        def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal is_repeated
            result = dict(pairs)
            is_repeated = is_repeated or len(result) != len(pairs)
            return result

        with suppress(RecursionError):  # nested as deeply as the decoder can read: `note` needs one more call
            json.JSONDecoder(object_pairs_hook=note, parse_float=len, parse_int=len).raw_decode(self.text, start)
        return is_repeated


def _well_formed(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates, as in Go."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    return value


_JSON_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SCAN: Final = json.JSONDecoder(parse_int=len, parse_float=len).scan_once  # type: ignore[attr-defined]


class Member(NamedTuple):
    """A member of an object or list: its key (or index), and the character spans of key and value."""

    key: str | int
    key_start: int
    key_end: int
    start: int
    end: int


class Spans:
    """The positions of members in one JSON text. Results are cached, because one object often has several findings."""

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
        start, innermost = self.start, None
        for step in (*self.prefix, *path):
            member = self.spans.children(start).get(step)
            if member is None:
                key = True
                break
            start, innermost = member.start, member
        locate = self.spans.document.location
        if innermost is None:
            return locate(start, start + 1)
        by_key = key and isinstance(innermost.key, str)
        return locate(innermost.key_start, innermost.key_end) if by_key else locate(innermost.start, innermost.end)

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
    position, index = skip(text, start + 1), 0
    while text[position] not in "]}":
        key: str | int = index
        key_start = key_end = position
        if is_object:
            key, key_end = scanstring(text, position + 1, True)
            position = skip(text, skip(text, key_end) + 1)
        _, end = _SCAN(text, position)
        yield Member(key, key_start, key_end, position, end)
        index += 1
        position = skip(text, end)
        if text[position] == ",":
            position = skip(text, position + 1)


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


def skip(text: str, position: int) -> int:
    """Return the first position, from `position` on, of a character other than white space."""
    match = _JSON_SPACE.match(text, position)
    return match.end() if match else position
