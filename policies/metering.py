"""How much work one question may cost: counted where input can make a loop longer, and stopped from outside.

`policies` knows no clock. Whoever asks passes `expired()`; loops charge the current meter in proportion to what they
are about to do, and every so many units the meter calls it. When it says that time is up, or the work itself has passed
its bound, CutShort unwinds to where an answer can be given without the rest: `rest="unknown"`, in the annotation
`"incomplete": true`.

Without `metered` nothing is limited: offline commands answer in full.

What a caller of `metered` may rely on: while a question is worked on, `expired()` is called about every half
millisecond of work, at least every 2 ms and not more often than every 0.1 ms, on the thread that asks. It may block to
let cheaper questions go first, but for one thing: where `holding()` is true the thread has the lock that every
prediction on these nodes needs, and must not wait for another prediction.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")
FEW: Final = 16
"""Of so many things, or fewer, nobody counts what they cost."""
LOOK_EVERY: Final = 500
"""Units between two calls of `expired()`. A unit is about a microsecond of Python's work."""
VECTOR: Final = 500
"""Elements on which numpy does simple arithmetic in one unit."""
MOST_WORK: Final = 60_000_000
"""Units that one question may cost though its time is not up: about a minute."""


class CutShort(Exception):
    """Time is up, or there is too much to do: what is not worked out yet stays unknown."""


class Excess(NamedTuple):
    """What exceeds which bound (`the Pod has 501 tolerations; forewarn evaluates at most 500`), and what to change."""

    problem: str
    fix: str = ""


class TooLarge(CutShort):
    """A bound stopped the evaluation, not the clock. `detail`: what is known, for programs."""

    def __init__(self, problem: str, fix: str = "", detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(problem)
        self.excess, self.detail = Excess(problem, fix), detail or {}


def excess_of(why: CutShort) -> Excess | None:
    """The bound that stopped an evaluation; None if time was up."""
    return why.excess if isinstance(why, TooLarge) else None


class Meter:
    """Counts the work on one question. Of one thread."""

    __slots__ = ("_expired", "_left", "_most", "held")

    def __init__(self, expired: Callable[[], bool], most: int = MOST_WORK) -> None:
        """`expired`: whether time is up; `most`: units at most, whatever the time."""
        self._expired = expired
        self._left, self._most = LOOK_EVERY, most
        self.held = 0
        """How many locks are held that other questions need."""

    def charge(self, units: int = 1) -> None:
        """Count work that is about to be done. Raises CutShort."""
        self._left -= units
        if self._left <= 0:
            self._look()

    def look(self) -> None:
        """Ask now whether time is up: what was just done may have taken any time. Raises CutShort."""
        if self._expired():
            raise CutShort("time is up")

    def _look(self) -> None:
        self._most -= LOOK_EVERY - self._left
        self._left = LOOK_EVERY
        if self._expired():
            raise CutShort("time is up")
        if self._most <= 0:
            raise TooLarge(
                "its evaluation takes too much work, whatever the time", "ask for fewer Pods, or simpler ones"
            )


class _Free(Meter):
    """Counts nothing."""

    __slots__ = ()

    def charge(self, units: int = 1) -> None:
        """Nothing is limited."""


def never() -> bool:
    """The `expired()` of who can wait: nothing is limited."""
    return False


_FREE: Final = _Free(never)
_CURRENT: Final[ContextVar[Meter]] = ContextVar("meter", default=_FREE)


@contextmanager
def metered(expired: Callable[[], bool], most: int = MOST_WORK) -> Iterator[Meter]:
    """Limit the work that is done inside, on this thread; with `never`, not at all."""
    token = _CURRENT.set(_FREE if expired is never else Meter(expired, most))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)


@contextmanager
def unmetered() -> Iterator[None]:
    """What is done inside is not limited: it is of use to every question, and grows with the cluster alone."""
    with metered(never):
        yield


def meter() -> Meter:
    """The meter in force: take it once before a loop, charge it inside."""
    return _CURRENT.get()


def limited() -> bool:
    """Whether work is counted at all."""
    return _CURRENT.get() is not _FREE


def charge(units: int = 1) -> None:
    """Count work that is about to be done. Raises CutShort."""
    _CURRENT.get().charge(units)


def look() -> None:
    """Ask now whether time is up. Raises CutShort."""
    _CURRENT.get().look()


def each(items: Sequence[T], units: float = 0.3) -> Iterable[T]:
    """The items, each charged so many units; of a few nothing is charged: whoever asks for them has."""
    return items if len(items) <= FEW else _charged(items, units)


def _charged(items: Sequence[T], units: float) -> Iterator[T]:
    current, cost = _CURRENT.get(), max(1, round(FEW * units))
    for start in range(0, len(items), FEW):
        yield from items[start : start + FEW]
        current.charge(cost)


@contextmanager
def held() -> Iterator[None]:
    """While this lasts, the thread has a lock that other questions wait for."""
    current = _CURRENT.get()
    if current is _FREE:  # every thread has this one
        yield
        return
    current.held += 1
    try:
        yield
    finally:
        current.held -= 1


def holding() -> bool:
    """Whether this thread has such a lock: inside `expired()` it must not wait for another question then."""
    return _CURRENT.get().held > 0
