"""Text from a stream of bytes: compressed or not, in UTF-8 or UTF-16 (as PowerShell writes it)."""

from __future__ import annotations

import codecs
import re
from itertools import islice
from typing import IO, TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from codecs import IncrementalDecoder

_GZIP: Final = b"\x1f\x8b"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLOCK: Final = 1 << 16
_NO_SPACE: Final = re.compile(r"\S")


class Bytes(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes, or all for -1; b"" at the end."""


class TextStream:
    """The text of a file or pipe. Raises UnicodeDecodeError; for compressed data also OSError, EOFError, zlib.error."""

    def __init__(self, binary: Bytes) -> None:
        start = binary.read(2)
        self._binary: Bytes = _Prefixed(start, binary)
        if start == _GZIP:
            import gzip

            packed = gzip.GzipFile(fileobj=cast("IO[bytes]", self._binary))
            start = packed.read(2)
            self._binary = _Prefixed(start, packed)
        encoding = "utf-16" if start in _UTF_16 else "utf-8-sig"
        self._decoder: IncrementalDecoder = codecs.getincrementaldecoder(encoding)()
        self._seen = ""

    def first(self, count: int = 1) -> str:
        """The first characters that are not spaces, without consuming them; fewer at the end."""
        blocks, found = [self._seen], _without_space(self._seen, count)
        while len(found) < count:
            more = self._decode(_BLOCK)
            if not more:
                break
            blocks.append(more)
            found += _without_space(more, count - len(found))
        self._seen = "".join(blocks)
        return found

    def read(self, size: int, /) -> str:
        """Read about `size` characters, or all for -1; "" at the end."""
        if size < 0:
            seen, self._seen = self._seen, ""
            return seen + self._decode(-1)
        if not self._seen:
            return self._decode(size)
        seen, self._seen = self._seen, ""
        return seen

    def _decode(self, size: int) -> str:
        while True:
            data = self._binary.read(size)
            text = self._decoder.decode(data, not data or size < 0)
            if text or not data or size < 0:
                return text


def _without_space(text: str, count: int) -> str:
    return "".join(islice((match.group() for match in _NO_SPACE.finditer(text)), count))


class _Prefixed:
    """Bytes that were already read, followed by the rest of a stream."""

    def __init__(self, start: bytes, rest: Bytes) -> None:
        self._start, self._rest = start, rest

    def read(self, size: int = -1, /) -> bytes:
        if not self._start:
            return self._rest.read(size)
        start, self._start = self._start, b""
        if 0 <= size <= len(start):
            self._start = start[size:]
            return start[:size]
        return start + self._rest.read(size if size < 0 else size - len(start))
