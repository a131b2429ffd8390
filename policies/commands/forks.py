"""Work in forked processes: the parent's state is available immediately, and changes stay in the fork."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


class _Share:
    """The number of CPUs for this process; None: all."""

    cores: int | None = None


def cores() -> int:
    """The number of CPUs that this process may use; 1 if the platform cannot report it."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return found if _Share.cores is None else min(found, _Share.cores)


def share_cores(count: int) -> None:
    """Use so many CPUs in this process from now on, because other processes use the rest."""
    _Share.cores = count


def forked(work: Callable[[int], None]) -> tuple[int, int] | None:
    """Fork a process for `work`; returns its id and a pipe with its results, or None if that is impossible.

    `work` gets the other end of the pipe; exceptions end the process silently. The caller reads the pipe to its end,
    and then waits for the process.
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


def mapped(items: Sequence[T], work: Callable[[T], Any], here: Callable[[T], Any] | None = None) -> Iterator[Any]:
    """Yield the JSON result of `work` for each item in order, computed in forks, one per core at a time.

    If a fork is impossible or ends without a result (for example, after an exception), `here` (default: `work`) runs in
    this process. Thus caches remain for the next item, and exceptions are raised here.
    """
    here = here or work
    started: deque[tuple[T, tuple[int, int] | None]] = deque()
    gc.collect()
    gc.freeze()
    try:
        for item in items:
            started.append((item, forked(lambda pipe, item=item: _send(pipe, work(item)))))  # type: ignore[misc]
            if len(started) >= cores():
                yield _answer(*started.popleft(), here)
        while started:
            yield _answer(*started.popleft(), here)
    finally:
        gc.unfreeze()
        for _, process in started:
            if process is not None:
                _received(*process)


def _send(pipe: int, found: Any) -> None:
    with os.fdopen(pipe, "w", encoding="utf-8") as stream:
        json.dump([found], stream)


def _answer(item: T, process: tuple[int, int] | None, here: Callable[[T], Any]) -> Any:
    told = _received(*process) if process is not None else []
    return told[0] if told else here(item)


def _received(process: int, pipe: int) -> list[Any]:
    """The results of a process; fewer if it ended early."""
    with os.fdopen(pipe, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(process, 0)
    with suppress(ValueError):
        found: list[Any] = json.loads(text)
        return found
    return []


def _end_after(work: Callable[[int], None], writer: int) -> NoReturn:
    try:
        work(writer)
    finally:
        os._exit(0)
