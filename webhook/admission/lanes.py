"""Work queues with their own threads: one for evaluations, eight for requests that may wait for the API server, and one
for each prediction process; and the steps to a response, each on its own kind of thread or process.

A coroutine on the event loop awaits the result of each step, so the code for one request reads from top to bottom,
although several threads and a process run it.

Each queue runs the cheapest function first.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum, IntEnum
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from math import inf
from threading import Condition, Thread
from time import monotonic, thread_time
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from forewarn.policies.base.metering import holding
from forewarn.policies.kubernetes.durations import parse_duration

DEFAULT_SECONDS: Final = 10.0
"""The default of `timeoutSeconds` in webhook configurations."""
MAX_SECONDS: Final = 30.0
_RESERVE: Final = 0.25
"""The part of the timeout that is reserved for the response."""


@lru_cache(maxsize=64)
def parse_timeout(text: str) -> float:
    """Return a Go duration in seconds; the default if not positive or invalid. Cached: API servers use few values."""
    timeout = parse_duration(text) or 0.0
    return min(timeout, MAX_SECONDS) if timeout > 0 else DEFAULT_SECONDS


class Deadline(NamedTuple):
    """The latest time to send the response, in seconds of the monotonic clock."""

    at: float

    @classmethod
    def after(cls, received: float, seconds: float) -> Deadline:
        """Return the deadline of a request that arrived at `received` with a timeout of `seconds`, minus a reserve."""
        return cls(received + seconds * (1 - _RESERVE))

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, monotonic() + seconds))

    def seconds(self) -> float:
        """Return the remaining time; never negative."""
        return max(0.0, self.at - monotonic())

    def expired(self) -> bool:
        """Report whether no time remains for predictions."""
        return monotonic() >= self.at


class Attempt:
    """The time limit of a prediction on the evaluating thread.

    Counts CPU time of the thread, so other processes on a busy machine do not shorten the limit. `give_way` runs
    cheaper requests first; their time does not count.
    """

    def __init__(self, seconds: float, deadline: Deadline, give_way: Callable[[], bool] = lambda: False) -> None:
        self._deadline, self._started, self._give_way = deadline, thread_time(), give_way
        self._seconds = seconds
        self.used_up = False

    def expired(self) -> bool:
        """Report whether the time is used up; stays true. Runs cheaper requests first, unless the thread has a shared
        lock.
        """
        if not self.used_up:
            took = thread_time() - self._started
            self.used_up = took >= self._seconds or self._deadline.expired()
            if not (self.used_up or holding()) and self._give_way():
                self._started = thread_time() - took
        return self.used_up


T = TypeVar("T")
_WEIGHT: Final = 0.25
"""Weight of the last duration in the estimate for the next function."""


class Cost(IntEnum):
    """Expected cost of a request: the evaluating thread runs cheaper requests first."""

    RULES = 0
    """Rules alone: classes, namespaces, quotas."""
    POD = 1
    """One Pod without affinity and topology spread constraints."""
    PODS = 2
    """Many Pods, or one Pod with affinity or topology spread constraints."""


_REST_SECONDS: Final = 0.04
"""Seconds between two functions that block all threads: a small request needs several event loop iterations."""
_Queued = tuple[int, int, Future[Any], "Callable[[], Any]", bool]
"""(cost, sequence number, future, function, `holds_up`), in the order of a heap."""


def _nothing() -> None:
    """Do nothing: the default callback of an idle queue."""


class Lane:
    """A queue that runs functions on its own threads: the cheapest first, then the oldest. Thread-safe.

    `limit`: maximum number of queued functions; `submit` then returns None. `idle`: called on a thread without a
    function for `idle_seconds`, and when the thread ends.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        threads: int = 1,
        idle: Callable[[], None] = _nothing,
        idle_seconds: float | None = None,
    ) -> None:
        self._limit, self._threads, self._idle, self._idle_seconds = limit, threads, idle, idle_seconds
        self._seconds = 0.0
        self._waiting: list[_Queued] = []
        self._numbers = count()
        self._changed = Condition()
        self._stopped = False
        self._rests_until = 0.0
        """The time before which no thread starts a function that holds up all threads."""
        for _ in range(threads):
            Thread(target=self._run, name=name, daemon=True).start()

    @property
    def length(self) -> int:
        return len(self._waiting)

    def give_way(self, cost: int) -> bool:
        """Run queued functions of lower cost than `cost` inside the current function; return whether there were any.

        Only for the queue's own threads, between two steps of an expensive function.
        """
        ran = False
        while (work := self._cheaper(cost)) is not None:
            self._do(work)
            ran = True
        return ran

    def _cheaper(self, cost: int) -> _Queued | None:
        waiting = self._waiting  # read without the lock, so it may miss the latest entry
        if not waiting or waiting[0][0] >= cost:
            return None
        with self._changed:
            waiting = self._waiting
            if not waiting or waiting[0][0] >= cost:
                return None
            return heappop(waiting)

    @property
    def wait_seconds(self) -> float:
        """Return the expected waiting time of a new function in seconds, from the durations of recent functions."""
        return len(self._waiting) * self._seconds / self._threads

    def submit(
        self, cost: int, run: Callable[[], T], within: float = inf, *, holds_up: bool = False
    ) -> Future[T] | None:
        """Queue a function; return its future, or None if the queue is full or the wait would exceed `within` seconds.

        `holds_up`: whether the function blocks all other threads for up to some tenths of a second, because it parses a
        large body.
        """
        future: Future[T] = Future()
        with self._changed:
            if len(self._waiting) >= self._limit or self._stopped or self.wait_seconds > within:
                return None
            heappush(self._waiting, (cost, next(self._numbers), future, run, holds_up))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """Accept no more functions, and cancel the queued ones."""
        with self._changed:
            self._stopped = True
            given_up, self._waiting = self._waiting, []
            self._changed.notify_all()
        for _, _, future, *_ in given_up:
            future.cancel()

    def _run(self) -> None:
        while not self._stopped:
            work = self._next(self._idle_seconds)
            if work is None:
                self._idle()  # without the lock, so that other threads can queue functions
                work = self._next(None)
            if work is not None:
                begun = monotonic()
                self._do(work)
                self._seconds += _WEIGHT * (monotonic() - begun - self._seconds)
                if work[-1]:
                    self._rests_until = monotonic() + _REST_SECONDS
        self._idle()

    def _do(self, work: _Queued) -> None:
        _, _, future, run, _ = work
        if not future.set_running_or_notify_cancel():
            return
        try:
            value = run()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(value)

    def _next(self, seconds: float | None) -> _Queued | None:
        """Return the next function; None after `seconds` without one, or after `stop`."""
        with self._changed:
            while not self._stopped and (rest := self._remaining()) != 0:
                if not self._changed.wait(seconds if rest is None else rest) and rest is None:
                    return None
            return None if self._stopped else heappop(self._waiting)

    def _remaining(self) -> float | None:
        """Return the seconds until a thread may run the first function, or None. The caller holds the lock."""
        if not self._waiting:
            return None
        return max(0.0, self._rests_until - monotonic()) if self._waiting[0][-1] else 0.0


class Where(Enum):
    """The thread or process of a step."""

    EVALUATE = "evaluate"
    """The evaluating thread, cheapest step first: no step uses it for more than a few milliseconds."""
    REQUEST = "request"
    """A thread that may block while it waits for the API server."""
    PREDICT = "predict"
    """A prediction process, for long predictions."""


class Step(NamedTuple, Generic[T]):
    """One step of a request. `run`: its function.

    `otherwise`: the function to run immediately if the queue is full; None: reject the request. `within`: seconds in
    which the step must start. `holds_up`: as in `Lane.submit`.
    """

    run: Callable[[], T]
    where: Where = Where.EVALUATE
    cost: Cost = Cost.RULES
    otherwise: Callable[[], T] | None = None
    within: float = inf
    holds_up: bool = False


class Run(Protocol):
    """Runs a step on its thread or process, and returns its result. Raises QueueFull."""

    async def __call__(self, step: Step[T], /) -> T: ...


class QueueFull(Exception):
    """The queue of a step is full, and the step has no `otherwise`."""
