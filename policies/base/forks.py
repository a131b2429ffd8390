"""Work in forked processes, which have the parent's state immediately and whose changes stay in the fork."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

_PAGE: Final = resource.getpagesize()


class _Share:
    """The number of CPUs that this process may use; None: all."""

    cores: int | None = None


def cores() -> int:
    """Return the number of CPUs that this process may use; 1 if the platform cannot report it."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return count if _Share.cores is None else min(count, _Share.cores)


def share_cores(count: int) -> None:
    """Limit this process to `count` CPUs from now on, because other processes use the rest."""
    _Share.cores = count


def without_streams() -> None:
    """Disconnect this process from its standard streams."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)


def limit_memory(more: int) -> None:
    """Limit the memory of this process to `more` bytes above its present memory. Does not raise an earlier limit."""
    with suppress(OSError, ValueError), open("/proc/self/statm") as statm:
        most = int(statm.read().split()[0]) * _PAGE + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def forked(work: Callable[[int], None]) -> tuple[int, int] | None:
    """Fork a process for `work`; return its process id and a pipe with its results, or None if a fork is impossible.

    `work`: called with the other end of the pipe; exceptions end the process silently. The caller must read the pipe to
    its end, and then wait for the process.
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
