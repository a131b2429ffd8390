"""Work in forked processes: what a process has read is there at once, and what it changes there nobody sees."""

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


def mapped(items: Sequence[T], work: Callable[[T], Any], here: Callable[[T], Any] | None = None) -> Iterator[Any]:
    """What `work` makes of each, in their order: JSON, worked out in a fork each, as many at once as there are cores.

    Where there can be no fork, or one ends without an answer (as after an exception), `here` is done in this process;
    None: `work` again. So it leaves behind what the next one needs, and raises here what it raises.
    """
    here = here or work
    started: deque[tuple[T, tuple[int, int] | None]] = deque()
    gc.collect()
    gc.freeze()
    try:
        for item in items:
            started.append((item, forked(lambda pipe, item=item: _tell(pipe, work(item)))))  # type: ignore[misc]
            if len(started) >= cores():
                yield _answer(*started.popleft(), here)
        while started:
            yield _answer(*started.popleft(), here)
    finally:
        gc.unfreeze()
        for _, process in started:
            if process is not None:
                _heard(*process)


def _tell(pipe: int, found: Any) -> None:
    with os.fdopen(pipe, "w", encoding="utf-8") as stream:
        json.dump([found], stream)


def _answer(item: T, process: tuple[int, int] | None, here: Callable[[T], Any]) -> Any:
    told = _heard(*process) if process is not None else []
    return told[0] if told else here(item)


def _heard(process: int, pipe: int) -> list[Any]:
    """What a process tells; nothing where it ended early."""
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
