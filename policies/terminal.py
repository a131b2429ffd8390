"""What a terminal can show: colour where it is wanted, progress where somebody watches."""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

_NOT_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE})
COLOR_CHOICES: Final = ("auto", "always", "never")
_CODES: Final = {"error": "1;31", "warning": "1;33", "note": "1;36", "bold": "1", "dim": "2", "good": "32"}


def columns() -> int:
    """How wide help may be; argparse left to itself imports shutil to ask, which costs the linter a millisecond."""
    try:
        return min(int(os.environ.get("COLUMNS", "")), 120)
    except ValueError:
        return min(os.get_terminal_size().columns, 120) if sys.stdout.isatty() else 100


def is_about_output(error: OSError) -> bool:
    """Whether this is about writing to a stream that is open, and not about a file that is named."""
    return error.filename is None and error.errno in _NOT_WRITTEN


def wants_color(choice: str, stream: TextIO) -> bool:
    """Whether to write colour: as told; on `auto`, on a terminal and unless NO_COLOR is set (https://no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painter(color: bool) -> Callable[[str, str], str]:
    """A function that puts a text into a style, or leaves it as it is."""

    def paint(text: str, style: str) -> str:
        return f"\033[{_CODES[style]}m{text}\033[0m" if color and text else text

    return paint


def progress(items: Iterable[T], total: int | None, what: str, stream: TextIO) -> Iterator[T]:
    """Hand the items on; on a terminal say every tenth of a second how far it is, and wipe that line at the end."""
    if not stream.isatty():
        yield from items
        return
    shown = started = time.monotonic()
    count = 0
    for count, item in enumerate(items, 1):
        yield item
        if time.monotonic() - shown >= 0.1:
            shown = time.monotonic()
            rate = count / max(shown - started, 1e-9)
            of = f"/{total}" if total else ""
            stream.write(f"\r\033[K{what}: {count}{of}, {rate:.0f}/s")
            stream.flush()
    if count:
        stream.write("\r\033[K")
        stream.flush()
