"""A bounded pool of forked processes: one that fails or hangs does not affect the others."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from math import inf
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from forewarn.policies.base.forks import cores, forked, share_cores

T = TypeVar("T")
_BLOCK: Final = 1 << 16
MAX_BYTES: Final = 512 * 1024 * 1024
"""Maximum bytes of the result of one process."""


class Lost(NamedTuple):
    """A process that ended without a result. `why`: the reason."""

    why: str


class _Running(NamedTuple):
    item: Any
    process: int
    until: float
    output: bytearray


_POLL: Final = 0.5
"""Maximum seconds between two calls of `waiting`."""


def mapped(
    items: Sequence[T],
    work: Callable[[T], Any],
    here: Callable[[T], Any] | None = None,
    waiting: Callable[[], object] | None = None,
    shared: object = None,
) -> Iterator[Any]:
    """Yield the result of `work` for each item in order, computed in forks, one per core at a time.

    If a fork is impossible or ends without a result (for example, after an exception), `here` (default: `work`) runs in
    this process. Its caches then remain for the next item, and its exceptions are raised here. `waiting`, `shared`: as
    in `pooled`.
    """
    done, first = dict[int, Any](), 0
    numbers, lost = range(len(items)), Lost("no process")
    results = pooled(numbers, lambda number: work(items[number]), cores(), inf, lambda _: lost, waiting, shared)
    for number, result in results:
        done[number] = result
        while first in done:
            part = done.pop(first)
            yield (here or work)(items[first]) if isinstance(part, Lost) else part
            first += 1


def pooled(
    items: Sequence[T],
    work: Callable[[T], Any],
    at_once: int,
    seconds: float,
    here: Callable[[T], Any] | None = None,
    waiting: Callable[[], object] | None = None,
    shared: object = None,
) -> Iterator[tuple[T, Any]]:
    """Yield each item with the result of `work` as processes complete; at most `at_once` run at the same time.

    The result is a `Lost` if a process ends without one, or after `seconds`, when it is killed with all processes that
    it started. The processes share the CPUs, and their standard input is empty. If a fork is impossible, `here`
    (default: `work`) runs in this process without a time limit. `waiting`: called at least twice a second while
    processes run; an exception that it raises ends them. `shared`: an object that results may contain, and that a
    process does not send.
    """
    left = deque(items)
    share = max(1, cores() // max(1, min(at_once, len(items))))
    with _frozen(), _Pool(work, share, seconds, shared) as pool:
        while left or pool.running:
            while left and len(pool.running) < at_once:
                item = left.popleft()
                if not pool.start(item):
                    yield item, (here or work)(item)
            yield from pool.completed(inf if waiting is None else _POLL)
            if waiting is not None:
                waiting()


class _Pool:
    """The running processes, by the pipe that receives their results."""

    def __init__(self, work: Callable[[Any], Any], share: int, seconds: float, shared: object) -> None:
        self.running: dict[int, _Running] = {}
        self._work, self._share, self._seconds, self._shared = work, share, seconds, shared
        self._selector = DefaultSelector()

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in list(self.running):
            self._end(pipe)
        self._selector.close()

    def start(self, item: Any) -> bool:
        """Start a process for an item; return false if a fork is impossible."""
        started = forked(lambda pipe: self._alone(pipe, item))
        if started is None:
            return False
        process, pipe = started
        with suppress(OSError):  # the child process does the same; whichever is first takes effect
            os.setpgid(process, process)
        self.running[pipe] = _Running(item, process, monotonic() + self._seconds, bytearray())
        self._selector.register(pipe, EVENT_READ)
        return True

    def completed(self, limit: float) -> Iterator[tuple[Any, Any]]:
        """Wait at most `limit` seconds for results or time limits; yield the items that completed or are late."""
        if not self.running:
            return
        wait = min(limit, min(item.until for item in self.running.values()) - monotonic())
        for key, _ in self._selector.select(None if wait == inf else max(0.0, wait)):
            data = os.read(key.fd, _BLOCK)
            output = self.running[key.fd].output
            output += data
            if not data:
                yield self._end(key.fd).item, self._result(output)
            elif len(output) > MAX_BYTES:
                yield self._end(key.fd).item, Lost(f"result larger than {MAX_BYTES >> 20} MiB")
        now = monotonic()
        for pipe in [pipe for pipe, value in self.running.items() if value.until <= now]:
            yield self._end(pipe).item, Lost(f"timeout after {self._seconds:g} s")

    def _end(self, pipe: int) -> _Running:
        """Kill a process if it still runs, and all processes that it started."""
        ended = self.running.pop(pipe)
        self._selector.unregister(pipe)
        os.close(pipe)
        try:
            os.killpg(ended.process, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # the child process has not created its process group yet
            with suppress(ProcessLookupError):
                os.kill(ended.process, signal.SIGKILL)
        os.waitpid(ended.process, 0)
        return ended

    def _alone(self, pipe: int, item: Any) -> None:
        """Do the work in the forked process, in its own process group, and write the result to the pipe."""
        os.setpgid(0, 0)
        share_cores(self._share)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        with os.fdopen(pipe, "wb") as stream:
            _Pickler(stream, self._shared).dump(self._work(item))

    def _result(self, output: bytearray) -> Any:
        with suppress(EOFError, pickle.UnpicklingError):
            return _Unpickler(BytesIO(output), self._shared).load()
        return Lost("the process ended without a result; it may have been out of memory")


@contextmanager
def _frozen() -> Iterator[None]:
    """Freeze Python's garbage collector inside the block, so that forks do not copy shared memory."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BinaryIO, shared: object) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def persistent_id(self, obj: Any) -> str | None:
        """Return a reference for the shared object; None for other objects."""
        return "shared" if obj is self._shared is not None else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, shared: object) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, _: Any) -> object:
        return self._shared
