"""Limit the work on one question: loops count their work, and a callback stops them when the time is up.

`policies` reads no clock. The caller passes `expired()`; loops charge the current meter before they do work, in
proportion to the work. Every CHECK_INTERVAL units the meter calls `expired()`. If `expired()` returns true, or the work
exceeds its bound, the meter raises CutShort. The handler then returns a partial result: `rest="unknown"`, in the
annotation `"incomplete": true`.

Without `metered`, work is not limited: offline commands compute complete results.

Guarantee for callers of `metered`: during the work, the thread calls `expired()` about every 0.5 ms, at least every 2
ms and at most every 0.1 ms. `expired()` may block to let cheaper requests run first. Exception: while `holding()` is
true, the thread has a lock that every prediction on these nodes needs, so `expired()` must not wait for another
prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from forewarn.policies.base.light import NamedTuple

T = TypeVar("T")
FEW: Final = 16
"""Work on up to this many items is not counted."""
CHECK_INTERVAL: Final = 500
"""Units between two calls of `expired()`. A unit is about a microsecond of Python's work."""
VECTOR: Final = 500
"""Elements that numpy processes in one unit, for simple arithmetic."""
MAX_WORK: Final = 60_000_000
"""Maximum units of one question, even if time remains: about a minute."""


class CutShort(Exception):
    """The error if time is up, or the work exceeds a bound. Results that are not yet computed stay unknown."""


class Excess(NamedTuple):
    """The exceeded limit, such as `the Pod has 501 tolerations; forewarn evaluates at most 500`, and the fix."""

    problem: str
    fix: str = ""


class TooLarge(CutShort):
    """The error if a size limit, not the time, is exceeded. `excess`: the limit. `detail`: the known facts as JSON."""

    def __init__(self, problem: str, fix: str = "", detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(problem)
        self.excess, self.detail = Excess(problem, fix), detail or {}


class Meter:
    """Counts the work on one question. Use it in one thread only."""

    __slots__ = ("_expired", "_most", "_remaining", "locks")

    def __init__(self, expired: Callable[[], bool], limit: int = MAX_WORK) -> None:
        """Start at 0. `expired`: returns true when time is up. `limit`: maximum units of work, regardless of time."""
        self._expired = expired
        self._remaining, self._most = CHECK_INTERVAL, limit
        self.locks = 0
        """Number of held locks that other questions need."""

    def charge(self, units: int = 1) -> None:
        """Count work before the work is done. Raises CutShort if the time is up or the work exceeds the limit."""
        self._remaining -= units
        if self._remaining <= 0:
            self._check_time()

    @property
    def remaining(self) -> int:
        """The units of work that remain."""
        return self._most

    def check_time(self) -> None:
        """Check immediately whether time is up, after a step of unknown duration. Raises CutShort."""
        if self._expired():
            raise CutShort("time is up")

    def _check_time(self) -> None:
        self._most -= CHECK_INTERVAL - self._remaining
        self._remaining = CHECK_INTERVAL
        if self._expired():
            raise CutShort("time is up")
        if self._most <= 0:
            raise TooLarge(
                "its evaluation takes too much work, whatever the time", "ask for fewer Pods, or simpler ones"
            )


class _Free(Meter):
    """A meter that counts nothing."""

    __slots__ = ()

    def charge(self, units: int = 1) -> None:
        """Do nothing: the work is not limited."""


def never() -> bool:
    """Return false: an `expired()` for callers without a time limit."""
    return False


_FREE: Final = _Free(never)
_CURRENT: Final[ContextVar[Meter]] = ContextVar("meter", default=_FREE)


@contextmanager
def metered(expired: Callable[[], bool], limit: int = MAX_WORK) -> Iterator[Meter]:
    """Limit the work inside the block, on this thread. With `never` as `expired`, nothing is limited."""
    token = _CURRENT.set(_FREE if expired is never else Meter(expired, limit))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)


@contextmanager
def unmetered() -> Iterator[None]:
    """Suspend the limit inside the block, for work that all questions share and that grows only with the cluster."""
    with metered(never):
        yield


def meter() -> Meter:
    """Return the current meter. Call `meter` once before a loop, and charge the meter inside the loop."""
    return _CURRENT.get()


def limited() -> bool:
    return _CURRENT.get() is not _FREE


def charge(units: int = 1) -> None:
    """Count work on the current meter, before the work is done. Raises CutShort."""
    _CURRENT.get().charge(units)


def check_time() -> None:
    """Check immediately whether time is up for the current meter. Raises CutShort."""
    _CURRENT.get().check_time()


def charging(items: Sequence[T], units: float = 0.3) -> Iterable[T]:
    """Return the items; iterating charges `units` for each. Up to FEW are free: the caller charges for them."""
    return items if len(items) <= FEW else _charged(items, units)


def _charged(items: Sequence[T], units: float) -> Iterator[T]:
    current, cost = _CURRENT.get(), max(1, round(FEW * units))
    for start in range(0, len(items), FEW):
        yield from items[start : start + FEW]
        current.charge(cost)


@contextmanager
def holding_lock() -> Iterator[None]:
    """Mark a block in which this thread holds a lock that other predictions need.

    In the block, `holding()` is true, so `expired()` must not wait for another prediction. No effect without a limit
    (`metered`).
    """
    current = _CURRENT.get()
    if current is _FREE:  # all threads share this meter
        yield
        return
    current.locks += 1
    try:
        yield
    finally:
        current.locks -= 1


def holding() -> bool:
    """Report whether this thread is inside `holding_lock`; `expired()` must then not wait for another question."""
    return _CURRENT.get().locks > 0
