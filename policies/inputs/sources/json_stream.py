"""JSON objects from a stream of text, one at a time: never holds all items of a List in memory. The lines of an audit
log about scheduling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from forewarn.policies.inputs.manifests.json_text import problem_of
from forewarn.policies.inputs.manifests.object_finder import filled_in, items_of
from forewarn.policies.inputs.manifests.reading import Value
from forewarn.policies.inputs.sources.files import SourceError, open_file, unreadable
from forewarn.policies.kubernetes.kinds.registry import incomplete_list, listed_as_empty
from forewarn.policies.kubernetes.objects.fields import ApiObject, text_at

_CHUNK: Final = 1 << 20
_MAX_LENGTH: Final = 64 << 20
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_COMMA: Final = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_CUT_SHORT: Final = 16
"""An error within this distance of the end of the buffer may only mean that more text must be read."""


class Text(Protocol):
    """A readable stream of text."""

    def read(self, size: int, /) -> str:
        """Read at most `size` characters; "" at the end."""


class JsonFault(ValueError):
    """The text is not valid JSON; the error contains the line."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


Decode = Callable[[str, int], tuple[Any, int]]
"""Text and position -> the value there, and its end; StopIteration if there is none."""
scan_once: Final[Decode] = json.JSONDecoder(parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]


def json_objects(stream: Text, start: str = "") -> Iterator[Value]:
    """The objects in a stream of JSON values, and the items of Lists and arrays. Raises JsonFault.

    `start`: the text before the stream.
    """
    window = Window(stream, start=start)
    while (first := window.next_character()) != "":
        line = window.line()
        if first == "{":
            yield from _object(window, line)
        elif first == "[":
            for value, item_line in _items(window):
                yield from flat(value, item_line)
        else:
            raise JsonFault("a Kubernetes object must start with {", line)


def _object(window: Window, line: int) -> Iterator[Value]:
    """Yield the items of an object while they are read; other objects and empty typed lists as a whole."""
    head: dict[str, Any] = {}
    has_items = False
    untyped: list[tuple[str, int]] = []
    for key in window.names():
        if key == "items" and window.next_character() == "[":
            head[key] = []
            for item, item_line in _items(window):
                has_items = True
                if "kind" in head or (isinstance(item, dict) and item.get("kind")):
                    yield from flat(filled_in(item, head), item_line)
                else:
                    untyped.append((window.text(), item_line))
        else:
            head[key] = window.value()
    for text, item_line in untyped:
        yield from flat(filled_in(json.loads(text), head), item_line)
    if problem := incomplete_list(head):
        raise JsonFault(problem, line)
    if "items" not in head or (listed_as_empty(head) and not has_items):
        yield Value(head, line)


def _items(window: Window) -> Iterator[tuple[Any, int]]:
    """Yield the items of an array with their lines."""
    for _ in window.entries("[", "]"):
        line = window.line()
        yield window.scan(), line


def flat(value: Any, line: int) -> list[Value]:
    """Return a value, or the items of a List, recursively. Raises JsonFault for an incomplete List."""
    items = items_of(value)
    if problem := incomplete_list(value):
        raise JsonFault(problem, line)
    if items is None or listed_as_empty(value):
        return [Value(value, line)]
    return [located for item in items for located in flat(item, line)]


class Window:
    """The buffered part of the stream: discards decoded text, and reads more when necessary.

    `block`: minimum number of characters per read. `start`: the text before the stream.
    """

    def __init__(self, stream: Text, block: int = _CHUNK, start: str = "") -> None:
        self._stream, self._block, self._buffer, self._position = stream, block, start, 0
        self._value_start, self._ended = 0, False
        self._lines, self._counted = 1, 0

    def line(self) -> int:
        """The line (from 1) of the current position."""
        self._lines += self._buffer.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._lines

    def text(self) -> str:
        """The text of the value that was decoded last."""
        return self._buffer[self._value_start : self._position]

    def fault(self, problem: str, at: int | None = None) -> JsonFault:
        """A JsonFault at a position in the buffer, by default at the current one."""
        self._position = max(self._position, self._counted) if at is None else min(at, len(self._buffer))
        return JsonFault(problem, self.line())

    def next_character(self) -> str:
        """The next character that is not a space, without consuming it; "" at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._buffer) or not self._more():
                return self._buffer[self._position : self._position + 1]

    def take(self, character: str) -> None:
        """Consume this character. Raises JsonFault for another one."""
        taken = self.next_character()
        if taken != character:
            raise self.fault(f"expected {character}, found {taken or 'end of file'}")
        self._position += 1

    def names(self) -> Iterator[str]:
        """Yield the keys of an object; the caller consumes each value before the next key. Raises JsonFault."""
        for _ in self.entries("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise self.fault("a key must be a string")
            self.take(":")
            yield key

    def entries(self, begin: str, end: str) -> Iterator[None]:
        """Yield before each entry of an object or array, which the caller consumes. Raises JsonFault."""
        self.take(begin)
        while self.next_character() != end:
            yield
            self._comma(end)
        self.take(end)

    def _comma(self, end: str) -> None:
        """Consume a comma between members, unless the end follows. Raises JsonFault."""
        match = _COMMA.match(self._buffer, self._position)
        if match is not None and match.end() < len(self._buffer) and self._buffer[match.end()] != end:
            self._position = match.end()
            return
        if self.next_character() != end:
            self.take(",")
            if self.next_character() == end:
                raise self.fault(f"comma before {end}")

    def value(self) -> Any:
        """Decode and consume one value. Raises JsonFault."""
        self.next_character()
        return self.scan()

    def scan(self, decode: Decode | None = None) -> Any:
        """Decode and consume the value that begins at the current position. Raises JsonFault.

        `decode`: instead of `scan_once`.
        """
        decode = decode or scan_once
        while True:
            size = len(self._buffer)
            try:
                value, end = decode(self._buffer, self._position)
            except StopIteration as stop:
                at, problem = stop.value, "missing value"
            except json.JSONDecodeError as error:
                at, problem = error.pos, problem_of(error)
                if problem.startswith("unterminated"):
                    at = size
            except (RecursionError, ValueError) as error:
                problem = str(error).partition("; use sys.")[0]  # ValueError: a number with more than 4,300 digits
                raise self.fault("nested too deeply" if isinstance(error, RecursionError) else problem) from None
            else:
                if end < size or isinstance(value, str | list | dict) or not self._more():
                    self._value_start, self._position = self._position, end
                    return value
                continue
            if at < size - _CUT_SHORT or not self._more():
                raise self.fault(problem, at)

    def _more(self) -> bool:
        """Read more text, at least as much as is left; returns false at the end of the stream."""
        if self._ended:
            return False
        left = self._buffer[self._position :]
        if len(left) > _MAX_LENGTH:
            raise self.fault(f"value longer than {_MAX_LENGTH >> 20} MiB")
        self.line()
        read = self._stream.read(max(self._block, len(left)))
        self._ended = not read
        self._buffer, self._position, self._counted = left + read, 0, 0
        return bool(read)


MAX_LINE: Final = 4 << 20
"""Maximum bytes of an event; longer ones are skipped."""
MAX_BYTES: Final = 8 << 30
_WANTED: Final = (b"kube-scheduler", b'"delete"', b'"eviction"')
"""Each line with a wanted event contains one of these texts."""
_FIX: Final = "pass the file of kube-apiserver's --audit-log-path, with an event in each line"


def audit_events(path: str) -> Iterator[ApiObject]:
    """Yield the audit events of kube-scheduler, of deletions and of evictions. Raises SourceError, also for a file
    without audit events.
    """
    with open_file(path) as stream:
        size, number, is_rest = 0, 0, False
        while True:
            try:
                line = stream.readline(MAX_LINE)
            except (OSError, EOFError) as error:
                raise unreadable(path, error, named=False) from None
            if not line:
                break
            size, number = size + len(line), number + (not is_rest)
            if size > MAX_BYTES:
                raise SourceError(path, f"more than {MAX_BYTES >> 30} GiB", fix="pass a shorter log")
            is_of_long, is_rest = is_rest, not line.endswith(b"\n")
            if is_of_long or not line.strip():
                continue
            if (number == 1 or any(part in line for part in _WANTED)) and (event := _event(line, path, number)):
                yield event
        if not number:
            raise SourceError(path, "no audit events", fix=_FIX)


def _event(line: bytes, path: str, number: int) -> ApiObject | None:
    """Return the event of a line; None for an incomplete line. Raises SourceError for text other than audit events."""
    if len(line) == MAX_LINE and number > 1:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or not text_at(event, "apiVersion").startswith("audit.k8s.io/"):
        if number > 1 and not line.endswith(b"\n"):
            return None  # the log may still be being written
        raise SourceError(path, f"line {number}: no audit event", fix=_FIX)
    return event
