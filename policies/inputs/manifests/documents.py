"""Splits a file into the documents that kubectl sees. Sources: apimachinery pkg/util/yaml/decoder.go, YAMLReader;
kustomize kyaml/kio/byteio_reader.go, splitDocuments.

Also finds comments with suppressions: `# forewarn: ignore[rule] reason until=2027-01-31`, after a value or above it.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Final

from forewarn.policies.base.findings import Location
from forewarn.policies.base.light import NamedTuple, later

NOT_TEXT: Final = "not a text file"
MAX_DEPTH: Final = 256
"""The maximum nesting depth of a document: API objects are far below it, and readers may recurse."""

_FEW: Final = 20
"""Number of lookups above which an index of all line ends is faster."""

_GO_SPACE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Characters for which Go's unicode.IsSpace is true; a separator line may end with them."""
_LINE_END: Final = later("\n")
_SEPARATOR: Final = b"---"
_CONTENT: Final = later(rb"^(?!---(?:[ \t]+#[ -~]*| *)\r?\n| *(?:#[ -~]*)?\r?\n)", re.MULTILINE)
"""The start of a line that is neither a separator nor a comment nor blank. A search ends at the end of the text."""
_SEPARATOR_LINE: Final = later(rb"^---[^\n]*\n", re.MULTILINE)


class Fault(Exception):
    """A document cannot be read. `start`, `end`: characters of the cause. `since`: start of the invalid part; None if
    unknown. `is_own`: another tool may read it, because the cause is a limit of forewarn, or only kubectl rejects it.
    """

    def __init__(
        self, message: str, start: int = 0, end: int | None = None, since: int | None = None, *, is_own: bool = False
    ) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.since, self.is_own = message, start, end, since, is_own


def as_utf8(data: bytes) -> bytes:
    """The text in UTF-8 without a byte order mark. Source: cli-runtime's FileVisitor, which decodes UTF-16.

    Invalid UTF-8 becomes U+FFFD. After a byte order mark it stays invalid, and is rejected later.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    if data.startswith(codecs.BOM_UTF8):
        return data.removeprefix(codecs.BOM_UTF8)
    if data.isascii():
        return data
    with suppress(UnicodeDecodeError):
        data.decode()
        return data
    return data.decode("utf-8", "replace").encode()


class Document:
    """One document of a file: its bytes, and the numbers of lines and columns before it.

    For text inside a field of another document: `indent` columns precede each line; or all positions are `at`, if the
    lines are not lines of the file.
    """

    def __init__(
        self, data: bytes, file: str, line: int = 0, column: int = 0, indent: int = 0, at: Location | None = None
    ) -> None:
        self.data, self.file, self.line, self.column = data, file, line, column
        self.indent, self.at = indent, at
        self._asked = 0
        self.masks: dict[str, str] = {}
        """Mask character in this text -> the original character that it replaces."""

    def create_like(self, text: str) -> Document:
        return Document(text.encode(), self.file, self.line, self.column, self.indent, self.at)

    @cached_property
    def text(self) -> str:
        """The characters of the document; U+FFFD replaces invalid UTF-8."""
        return self.data.decode("utf-8", "replace")

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in _LINE_END.finditer(self.text)]

    def line_of(self, index: int) -> int:
        """The line (from 1) of a character of the document."""
        self._asked += 1
        before = self.text.count("\n", 0, index) if self._asked < _FEW else bisect_left(self._line_ends, index)
        return self.line + before + 1

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the document, split at each LF. A line that ends with CRLF keeps its CR."""
        return self.text.split("\n")

    def location(self, start: int, end: int | None = None) -> Location:
        """Return the location of a span of characters, cut at the end of its first line (the default `end`)."""
        if self.at is not None:
            return self.at
        text = self.text
        start = min(start, len(text))
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        if end is None or end > stop:
            end = start + len(text[start:stop].rstrip())
        before = self.indent + (self.column if begin == 0 else 0)
        return Location(
            self.file, self.line_of(start), before + start - begin + 1, before + max(end, start) - begin + 1
        )


def split(data: bytes, file: str, line: int = 0, column: int = 0) -> Iterator[Document | tuple[Document, Fault]]:
    """Yield the documents of YAML text, with a Fault for a document that kubectl rejects because of text after a
    separator. The text itself follows as a document if kustomize reads it.

    Every line that starts with `---` is a separator, because kubectl splits before it parses. Skips most documents
    that contain only comments.
    """
    start = at = _first_nonempty(data, 0)
    line, column, broken = line + data.count(b"\n", 0, start), 0 if start else column, False
    while (begin := _separator(data, at)) >= 0:
        at = data.find(b"\n", begin) + 1 or len(data)
        rest = data[begin + len(_SEPARATOR) : at].decode("utf-8", "replace").strip(_GO_SPACE)
        proper = not rest or rest.startswith("#")
        if proper and not broken and begin == start:
            continue  # The first line of a document: kubectl leaves it there.
        if not broken:
            yield Document(data[start:begin], file, line, column)
        here, broken = data[begin:at], not proper
        if broken:
            fault = Fault(f"only a comment may follow the separator ---, not {rest[:40]!r}", 3, is_own=True)
            yield Document(here, file, line + data.count(b"\n", start, begin)), fault
            if begin == 0 or not here.endswith(b"\n"):  # kustomize only rejects such a line between two lines
                line += data.count(b"\n", start, begin)
                start, column, broken = begin + len(_SEPARATOR), len(_SEPARATOR), False
                continue
        else:
            at = _first_nonempty(data, at)
        line += data.count(b"\n", start, at)
        start, column = at, 0
    if not broken:
        last = data[start:] if start else data
        yield Document(last if last.endswith(b"\n") else last + b"\n", file, line, column)


def _separator(data: bytes, at: int) -> int:
    """The start of the next line that starts with `---`, searched from the start of a line; -1 if there is none."""
    return at if data.startswith(_SEPARATOR, at) else data.find(b"\n" + _SEPARATOR, max(at - 1, 0)) + 1 or -1


def _first_nonempty(data: bytes, at: int) -> int:
    """Return the start of the first document that contains more than comments: a file may contain two million others.

    A separator in the first line of a document does not end it.
    """
    content = _CONTENT.search(data, at)
    for separator in _SEPARATOR_LINE.finditer(data, at, content.start() if content else len(data)):
        if separator.start() > at:
            at = separator.end()
    return at


_COMMENT: Final = later(r"(?:^|(?<=[ \t]))#[ \t]*forewarn:[ \t]*(.*)")
_NOTHING: Final = later(r"[ \t\r]*(?:#.*|---[ \t\r]*(?:#.*)?)?")
MAX_COMMENTS: Final = 10_000
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
            if count > MAX_COMMENTS:
                return
            own = (number, number)
            if not line[: match.start()].strip():
                # Consecutive comments apply to the same line, which is searched only once.
                own = below = below if below[0] > number else _commented_lines(lines, number, is_fresh=is_fresh)
            text = match[1].rstrip(" \t\r")
            yield Comment(text, Location(file, number, match.start() + 1, match.start(1) + len(text) + 1), *own)
        # Fresh: the document has only comments before the next line.
        if line.startswith("---"):
            below, is_fresh = (0, 0), True
        elif is_fresh:
            is_fresh = _NOTHING.fullmatch(line) is not None


def _commented_lines(lines: list[str], number: int, *, is_fresh: bool) -> tuple[int, int]:
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


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())
