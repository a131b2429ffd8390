"""Simulated time: scheduled events, and actors (controllers, kubelets, the scheduler) whose steps take time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from random import Random

_RESERVED: Final = 1 << 40

Steps = Generator[float | None, None, None]
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

    def spawn(self, steps: Steps) -> Task:
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

    def __init__(self, clock: Clock, steps: Steps) -> None:
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


WRITE: Final = 1e-3
"""Seconds of a write to the API server; up to a tenth more by its name, so that no two coincide."""
CYCLE: Final = 1e-4
"""Seconds of a scheduling cycle; up to a tenth more by the Pod's name."""
START: Final = 0.1
"""Seconds from the binding of a Pod until it runs and is ready: the minimum of a kubelet.

The actual time until a container is ready is unknown.
"""
_SLOWEST_START: Final = 30.0
"""Maximum factor of START with random latencies; it differs by run."""
_JITTER: Final = 12.0
_ASKED: Final = 6.0
"""Maximum factor for the creation of a Pod if webhooks are called: 5 to 30 ms each."""
_WEBHOOK_SECONDS: Final = 10e-3
"""Seconds for webhooks with fixed latencies, if a Pod replaces a removed one: kube-scheduler tries Pending Pods before
the replacement exists."""


class Latencies:
    """Durations of steps in seconds.

    `random`: the source of random durations; None for fixed ones. `asks_webhooks`: whether the creation of Pods may
    take longer than other writes; with random durations, by a factor that differs by run.
    """

    def __init__(self, random: Random | None = None, *, asks_webhooks: bool = False) -> None:
        self._random = random
        self._creating = 1.0 if random is None or not asks_webhooks else random.uniform(1.0, _ASKED)
        self._webhook_seconds = _WEBHOOK_SECONDS if random is None and asks_webhooks else 0.0
        self._start = START if random is None or not asks_webhooks else START * _SLOWEST_START ** (random.random() ** 2)

    def write(self, verb: str, name: str) -> float:
        """Return the seconds of a write to the API server."""
        return self._of(WRITE, verb, name, self._creating if verb == "create" else 1.0)

    def replacement(self, name: str) -> float:
        """Return the seconds to create a Pod that replaces a removed Pod."""
        return self._webhook_seconds + self.write("create", name)

    def cycle(self, name: str) -> float:
        """Return the seconds of a scheduling cycle. `name`: varies the duration a little."""
        return self._of(CYCLE, "cycle", name)

    def start(self) -> float:
        """Return the seconds from the binding of a Pod until the Pod is ready."""
        return self._start * (1.0 if self._random is None else 0.5 + self._random.random())

    def _of(self, seconds: float, verb: str, name: str, times: float = 1.0) -> float:
        share = crc32(f"{verb} {name}".encode()) % 997 / 9970
        jitter = 0.0 if self._random is None else self._random.random() * _JITTER * times
        return seconds * (1 + share + jitter)
