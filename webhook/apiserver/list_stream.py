"""Stream parser for lists of an API server: parses one object at a time, and retains only the needed part."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.footprint import max_memory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

MAX_OBJECT: Final = 32 << 20
"""Maximum characters of an object: at most 3 MiB in etcd, but its JSON is larger."""
_LARGE: Final = 128 * 1024
_ONE: Final = Lock()
_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\n\r"


def parsing(size: int) -> AbstractContextManager[object]:
    """Return a context manager to hold while parsing `size` characters: only one large text is parsed at a time.

    Parsed text needs up to 24 times the memory of the text.
    """
    return _ONE if size > _LARGE else nullcontext()


class NoList(ValueError):
    """The text is JSON, but not a list of objects."""


class NoObject(ValueError):
    """The text is JSON, but not an object."""


def read_list(
    blocks: Iterator[bytes], take: Callable[[dict[str, Any], int], dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Parse a list; return the results of `take` for each of `items`, and the other fields.

    `take` gets an object, and the maximum memory that the object needs. Raises ValueError, RecursionError, and the
    errors of `blocks`.
    """
    text = _Text(blocks)
    if text.next() != "{":
        text.value()
        raise NoObject
    objects: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    for key in text.names():
        if key == "items" and text.next() == "[":
            objects, fields[key] = [text.value(take) for _ in text.entries()], True
        else:
            fields[key] = text.value()
    if text.next():
        raise ValueError("more than one value")
    if "items" not in fields or fields["items"] not in (None, True):
        raise NoList
    return objects, fields


class _Text:
    """A buffer of received JSON text, with the current position."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._decode = blocks, getincrementaldecoder("utf-8")("surrogatepass").decode
        self._text, self._at, self._ended = "", 0, False

    def next(self) -> str:
        """The next character that is not a space, without consuming it; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def names(self) -> Iterator[str]:
        """Yield the keys of an object. The caller reads the value of each key before it continues."""
        for _ in self._parts("{", "}"):
            if self.next() != '"':
                raise ValueError("a key is a string")
            key = self.value()
            self._expect(":")
            yield key

    def entries(self) -> Iterator[None]:
        """Yield before each entry of a list. The caller must read the entry before it continues."""
        yield from self._parts("[", "]")

    def value(self, take: Callable[[dict[str, Any], int], dict[str, Any]] | None = None) -> Any:
        """The next value; with `take`, the result of `take` for an object."""
        self.next()
        if not self._text:
            raise ValueError("there is nothing")
        while True:
            size = len(self._text) - self._at
            with parsing(size):
                try:
                    result, end = _DECODER.raw_decode(self._text, self._at)
                except ValueError:
                    if self._ended or size > MAX_OBJECT:
                        raise
                else:
                    if end < len(self._text) or self._ended:
                        begin, self._at = self._at, end
                        if take is None:
                            return result
                        if not isinstance(result, dict):
                            raise NoList
                        return take(result, max_memory_of(self._text, begin, end))
            while len(self._text) - self._at < 2 * size and self._more():
                pass  # as much again, so that what is tried in vain is at most as much as what is not

    def _parts(self, begin: str, end: str) -> Iterator[None]:
        self._expect(begin)
        if self.next() != end:
            yield
            while self.next() == ",":
                self._at += 1
                yield
        self._expect(end)

    def _expect(self, char: str) -> None:
        if self.next() != char:
            raise ValueError(f"{char} is missing")
        self._at += 1

    def _more(self) -> bool:
        """Read more text into the buffer; return false at the end."""
        while not self._ended:
            block = next(self._blocks, None)
            self._ended = block is None
            text = self._decode(block or b"", self._ended)
            if text:
                self._text, self._at = self._text[self._at :] + text, 0
                return True
        return False
