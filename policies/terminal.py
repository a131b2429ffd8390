"""What a terminal can show: colour where it is wanted, progress where somebody watches."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from forewarn.policies.findings import no_command, no_command_in_json, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

_NOT_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE})
COLOR_CHOICES: Final = ("auto", "always", "never")
_CODES: Final = {"error": "1;31", "warning": "1;33", "note": "1;36", "bold": "1", "dim": "2", "good": "32"}
_STYLE: Final = re.compile(rf"(\033\[(?:{'|'.join(_CODES.values())}|0)m)")


class _Program:
    """What started this process: the text in which messages write its commands, None for `forewarn` itself."""

    plugin: re.Pattern[str] | None = None


@contextmanager
def as_kubectl_plugin(commands: Iterable[str]) -> Iterator[None]:
    """Write `kubectl forewarn COMMAND` in messages and help for `forewarn COMMAND`, until the end of the block."""
    words = "|".join(sorted({re.escape(name.partition(" ")[0]) for name in commands}))
    _Program.plugin = re.compile(rf"(?<!kubectl )(?<!-- )\bforewarn(?=:| (?:{words}|COMMAND|--help)\b)")
    try:
        yield
    finally:
        _Program.plugin = None


def as_invoked(text: str) -> str:
    """A message with its commands as the user types them."""
    return text if _Program.plugin is None else _Program.plugin.sub("kubectl forewarn", text)


def complain(command: str, fault: object, status: int) -> int:
    """Say on standard error why a command ends, in one line whatever the fault quotes; returns the status."""
    program = f"forewarn {command}".rstrip()
    print(as_invoked(f"{program}: {no_command(one_line(str(fault)))}"), file=sys.stderr)  # noqa: T201
    return status


def say(line: str) -> None:
    """Say something on standard error that belongs to no finding, in one line."""
    print(as_invoked(no_command(one_line(line))), file=sys.stderr)  # noqa: T201


def clean(line: str, color: bool, *, is_patch: bool = False) -> str:
    """A line of a report as a terminal, or the log of a CI system, may get it.

    What input has brought in is made visible, our own colour stays.
    """
    line = as_invoked(no_command(line, is_patch=is_patch))
    if line.isprintable():
        return line
    parts = _STYLE.split(line) if color else [line]
    return "".join(part if index % 2 else printable(part) for index, part in enumerate(parts))


def as_json(value: object, indent: int | None = None) -> str:
    """A value as JSON and a line feed, without what a CI system takes for a command."""
    import json

    return no_command_in_json(json.dumps(value, indent=indent)) + "\n"


def as_markdown(text: str) -> str:
    """Markdown without such commands."""
    return "\n".join(map(no_command, text.split("\n")))


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
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


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
    try:
        for count, item in enumerate(items, 1):
            yield item
            if time.monotonic() - shown >= 0.1:
                shown = time.monotonic()
                rate = count / max(shown - started, 1e-9)
                of = f"/{total}" if total else ""
                stream.write(f"\r\033[K{what}: {count}{of}, {rate:.0f}/s")
                stream.flush()
    finally:
        if count:
            stream.write("\r\033[K")
            stream.flush()
