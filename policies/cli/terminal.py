"""Terminal output: colour, progress, columns, and messages without control characters."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TextIO, TypeVar

from forewarn.policies.base.findings import no_command, no_command_in_json, one_line, printable
from forewarn.policies.base.light import later

T = TypeVar("T")

_NOT_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE})
COLOR_CHOICES: Final = ("auto", "always", "never")
_CODES: Final = {"error": "1;31", "warning": "1;33", "note": "1;36", "bold": "1", "dim": "2", "good": "32"}
STYLE: Final = later(rf"(\033\[(?:{'|'.join(_CODES.values())}|0)m)")


class _Program:
    """The program that the user runs. `plugin`: matches commands to rewrite for the kubectl plugin, or None."""

    plugin: re.Pattern[str] | None = None


@contextmanager
def as_kubectl_plugin(commands: Iterable[str]) -> Iterator[None]:
    """Inside the block, write `kubectl forewarn COMMAND` instead of `forewarn COMMAND` in messages and help."""
    words = "|".join(sorted({re.escape(name.partition(" ")[0]) for name in commands}))
    _Program.plugin = re.compile(rf"(?<!kubectl )(?<!-- )\bforewarn(?=:| (?:{words}|COMMAND|--help)\b)")
    try:
        yield
    finally:
        _Program.plugin = None


def as_invoked(text: str) -> str:
    """The text with forewarn's commands written as the user types them."""
    return text if _Program.plugin is None else _Program.plugin.sub("kubectl forewarn", text)


def complain(command: str, fault: object, status: int) -> int:
    """Print a command's error on standard error in one line, and return `status`."""
    program = f"forewarn {command}".rstrip()
    print(as_invoked(f"{program}: {no_command(one_line(str(fault)))}"), file=sys.stderr)  # noqa: T201
    return status


def print_notice(line: str, stream: TextIO | None = None) -> None:
    """Print one line, which belongs to no finding, on standard error, or on another stream."""
    print(as_invoked(no_command(one_line(line))), file=stream or sys.stderr)


_MAX_FAULTS: Final = 20


def print_faults(command: str, faults: Sequence[Exception], stream: TextIO | None = None) -> None:
    """Print the errors of objects that a command leaves out; of many, the first."""
    for fault in faults[:_MAX_FAULTS]:
        print_notice(f"forewarn {command}: {fault}", stream)
    if (more := len(faults) - _MAX_FAULTS) > 0:
        print_notice(f"forewarn {command}: {more} more objects with errors", stream)


def clean(line: str, color: bool, *, is_patch: bool = False) -> str:
    """A report line that is safe for terminals and logs of CI systems.

    Control and invisible characters from the input become escapes; forewarn's own colours remain.
    """
    line = as_invoked(no_command(line, is_patch=is_patch))
    if line.isprintable():
        return line
    parts = STYLE.split(line) if color else [line]
    return "".join(part if index % 2 else printable(part) for index, part in enumerate(parts))


def as_json(value: object, indent: int | None = None) -> str:
    """A value as JSON with a line feed, without commands of CI systems."""
    import json

    return no_command_in_json(json.dumps(value, indent=indent)) + "\n"


def as_markdown(text: str) -> str:
    return "\n".join(map(no_command, text.split("\n")))


def columns() -> int:
    """The width of help texts in columns. argparse's default imports shutil, which costs the linter a millisecond."""
    with suppress(ValueError):
        return min(int(os.environ.get("COLUMNS", "")), 120)
    return min(os.get_terminal_size().columns, 120) if sys.stdout.isatty() else 100


def is_about_output(error: OSError) -> bool:
    """Report whether the error is about writing to an open stream, not about a named file."""
    return error.filename is None and error.errno in _NOT_WRITTEN


def wants_color(choice: str, stream: TextIO) -> bool:
    """True if the output has colour. On `auto`: a terminal, and NO_COLOR is not set (https://no-color.org)."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def painter(color: bool) -> Callable[[str, str], str]:
    """A function that applies a style to a text, or returns the text unchanged without colour."""

    def paint(text: str, style: str) -> str:
        return f"\033[{_CODES[style]}m{text}\033[0m" if color and text else text

    return paint


_ALIVE: Final = 1.0
"""Seconds after which a progress line without news shows the elapsed time."""


def of_total(count: float, total: int) -> str:
    """Return the numbers of a progress line, such as `3/10`."""
    return f"{count:.0f}{f'/{total}' if total else ''}"


@contextmanager
def counting(
    what: str, stream: TextIO, text: Callable[[float, int], str] = of_total
) -> Iterator[Callable[[float, int], None] | None]:
    """Yield a callback for the finished and the total number (0: unknown); None without a terminal.

    The line with the numbers and the elapsed time is rewritten at most every tenth of a second, and every second if
    there is no call. It is erased at the end. `text`: returns the numbers as text.
    """
    if not stream.isatty():
        yield None
        return
    shown = started = time.monotonic()
    numbers = ""

    def put(line: str) -> None:
        with suppress(OSError, RuntimeError):  # the terminal is closed, or the alarm interrupts a write
            stream.write(line)
            stream.flush()

    def write() -> None:
        nonlocal shown
        seconds = int(time.monotonic() - started)
        parts = ", ".join(filter(None, [numbers, f"{seconds} s" if seconds else ""]))
        put(f"\r\033[K{what}{parts and ': '}{parts}")

    def show(count: float, total: int) -> None:
        nonlocal numbers
        numbers = text(count, total)
        if time.monotonic() - shown >= 0.1 or not count:
            write()

    def keep_alive() -> None:
        if time.monotonic() - shown >= 0.9 * _ALIVE:
            write()

    try:
        with _every(_ALIVE, keep_alive):
            yield show
    finally:
        put("\r\033[K")


@contextmanager
def _every(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again, in the main thread: a process with more threads cannot fork safely."""
    import signal
    from threading import current_thread, main_thread

    if current_thread() is not main_thread():
        yield
        return
    former = signal.signal(signal.SIGALRM, lambda *_: call())
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def progress(items: Iterable[T], total: int | None, what: str, stream: TextIO) -> Iterator[T]:
    """Yield the items; on a terminal, print the progress as `counting` does."""
    with counting(what, stream) as show:
        if show is not None:
            show(0, total or 0)
        for count, item in enumerate(items, 1):
            yield item
            if show is not None:
                show(count, total or 0)
