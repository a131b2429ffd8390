"""Simulated time: scheduled events, and actors (controllers, kubelets, the scheduler) whose steps take time."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_RESERVED: Final = 1 << 40

Steps = "Generator[float | None, None, None]"
"""An actor: yields the seconds of its next step, or None to wait for a wake-up."""


class Clock:
    """Simulated seconds and scheduled events. Events at the same time run in the order in which they were scheduled."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.running: Task | None = None
        """The actor of the current step."""

    def at(self, time: float, call: Callable[[], None], number: int | None = None) -> None:
        """Schedule a call at a time in simulated seconds; at the current time if the time has passed."""
        if time < self.now:
            time = self.now
        heappush(self._due, (time, next(self._numbers) if number is None else number, call))

    def reserve(self) -> int:
        """Return a number for an event that will be scheduled later by `at`."""
        number = next(self._numbers)
        self._numbers = count(number + _RESERVED)
        return number

    def is_due_before(self, time: float, number: int = 0) -> bool:
        return bool(self._due) and self._due[0][:2] < (time, number)

    def spawn(self, steps: Generator[float | None, None, None]) -> Task:
        """Start an actor at the current time."""
        task = Task(self, steps)
        self.at(self.now, task.step)
        return task

    @property
    def next_time(self) -> float | None:
        return self._due[0][0] if self._due else None

    def advance(self) -> None:
        """Advance to the next event and run it. Raises IndexError without events."""
        self.now, _, call = heappop(self._due)
        call()


class Task:
    """A running actor. `parked`: whether it waits for `wake`. `done`: whether it has ended.

    `then_wake`: the actor to wake when this one ends.
    """

    __slots__ = ("_clock", "_steps", "done", "parked", "then_wake")

    def __init__(self, clock: Clock, steps: Generator[float | None, None, None]) -> None:
        self._clock, self._steps = clock, steps
        self.parked = self.done = False
        self.then_wake: Task | None = None

    def step(self) -> None:
        """Run the next step, and schedule the step after it as the yielded value says."""
        clock = self._clock
        clock.running = self
        for seconds in self._steps:
            if seconds is None:
                self.parked = True
            else:
                clock.at(clock.now + seconds, self.step)
            return
        self.done = True
        if self.then_wake is not None:
            self.then_wake.wake()

    def wake(self) -> None:
        """Continue the actor at the current time, if it is parked."""
        if self.parked:
            self.parked = False
            self._clock.at(self._clock.now, self.step)
