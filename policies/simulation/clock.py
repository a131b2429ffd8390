"""Virtual time: what happens next, and actors that take time."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_RESERVED: Final = 1 << 40

Steps = "Generator[float | None, None, None]"
"""An actor: yields the seconds that its next step takes, or None until somebody wakes it."""


class Clock:
    """Seconds, and what is due when. Of two things that are due at one moment, the one that was arranged first comes
    first."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.running: Task | None = None
        """The actor whose step it is."""

    def at(self, time: float, call: Callable[[], None], number: int | None = None) -> None:
        """Do something at a time; at once where that has passed. `number`: as if it had been arranged when that was
        reserved."""
        if time < self.now:
            time = self.now
        heappush(self._due, (time, next(self._numbers) if number is None else number, call))

    def reserve(self) -> int:
        """The first of the numbers for what is arranged later, and comes before all that is arranged from now on."""
        number = next(self._numbers)
        self._numbers = count(number + _RESERVED)
        return number

    def is_due_before(self, time: float, number: int = 0) -> bool:
        """Whether anything is due before that time, or at it and before what has this number."""
        return bool(self._due) and self._due[0][:2] < (time, number)

    def spawn(self, steps: Generator[float | None, None, None]) -> Task:
        """Start an actor, at this moment."""
        task = Task(self, steps)
        self.at(self.now, task.step)
        return task

    @property
    def next_time(self) -> float | None:
        """When something is due next, None where nothing is."""
        return self._due[0][0] if self._due else None

    def advance(self) -> None:
        """Go to what is due next, and do it."""
        self.now, _, call = heappop(self._due)
        call()


class Task:
    """An actor that was started. `parked`: it waits to be woken; `done`: it has ended; `then_wake`: who goes on."""

    __slots__ = ("_clock", "_steps", "done", "parked", "then_wake")

    def __init__(self, clock: Clock, steps: Generator[float | None, None, None]) -> None:
        self._clock, self._steps = clock, steps
        self.parked = self.done = False
        self.then_wake: Task | None = None

    def step(self) -> None:
        """Its next step; what it yields says when it goes on."""
        self._clock.running = self
        for seconds in self._steps:
            if seconds is None:
                self.parked = True
            else:
                self._clock.at(self._clock.now + seconds, self.step)
            return
        self.done = True
        if self.then_wake is not None:
            self.then_wake.wake()

    def wake(self) -> None:
        """Go on, if it waits to be woken."""
        if self.parked:
            self.parked = False
            self._clock.at(self._clock.now, self.step)
