"""Work in forked processes: what a process has read is there at once, and what it changes there nobody sees."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def forked(work: Callable[[int], None]) -> tuple[int, int] | None:
    """A process that does some work, and the pipe by which it tells; None where there can be none.

    `work` gets the other end of the pipe; whatever ends it early ends it without a word. Who reads the pipe to its end
    then waits for the process.
    """
    if sys.platform != "linux":
        return None
    reader, writer = os.pipe()
    try:
        process = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if process == 0:
        _end_after(work, writer)
    os.close(writer)
    return process, reader


def _end_after(work: Callable[[int], None], writer: int) -> NoReturn:
    try:
        work(writer)
    finally:
        os._exit(0)
