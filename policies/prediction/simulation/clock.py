"""Simulated time: scheduled events, actors (controllers, kubelets, the scheduler) whose steps take time, and the
timeline of what happened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.controllers.own_pods import Recreator

if TYPE_CHECKING:
    from random import Random

    from forewarn.policies.base.documents import Hidden

_RESERVED: Final = 1 << 40

Steps = Generator[float | None, None, None]
"""An actor: yields the seconds of its next step, or None to wait for a wake-up."""


class Clock:
    """Simulated seconds and scheduled events. Events at the same time run in the order in which they were scheduled."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self.running: Task | None = None
        """The actor of the current step."""

    def schedule(self, time: float, call: Callable[[], object], number: int | None = None) -> None:
        """Schedule a call at a time in simulated seconds; at the current time if the time has passed."""
        if time < self.now:
            time = self.now
        heappush(self._due, (time, next(self._numbers) if number is None else number, call))

    def reserve(self) -> int:
        """Return a number that reserves the order of an event, which `at` schedules later."""
        number = next(self._numbers)
        self._numbers = count(number + _RESERVED)
        return number

    def is_due_before(self, time: float, number: int = 0) -> bool:
        return bool(self._due) and self._due[0][:2] < (time, number)

    def spawn(self, steps: Steps) -> Task:
        """Start an actor at the current time."""
        task = Task(self, steps)
        self.schedule(self.now, task.step)
        return task

    @property
    def next_time(self) -> float | None:
        return self._due[0][0] if self._due else None

    def join(self, tasks: Iterable[Task]) -> Steps:
        """Wait in the running task until these tasks are done."""
        for task in tasks:
            while not task.done:
                task.then_wake = self.running
                yield None

    def advance(self) -> Callable[[], object]:
        """Advance to the next event, and return the call that runs it. Raises IndexError without events."""
        self.now, _, call = heappop(self._due)
        return call


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
        """Run the next step. Schedule the following step as the yielded value requires."""
        clock = self._clock
        clock.running = self
        for seconds in self._steps:
            if seconds is None:
                self.parked = True
            else:
                clock.schedule(clock.now + seconds, self.step)
            return
        self.done = True
        if self.then_wake is not None:
            self.then_wake.wake()

    def wake(self) -> None:
        """Continue the actor at the current time, if it is parked."""
        if self.parked:
            self.parked = False
            self._clock.schedule(self._clock.now, self.step)


WRITE: Final = 1e-3
"""Seconds of a write to the API server."""
CYCLE: Final = 1e-4
"""Seconds of a scheduling cycle."""
START: Final = 0.1
"""Seconds from the binding of a Pod until it runs and is ready: the minimum of a kubelet.

The actual time until a container is ready is unknown.
"""
CLOSE: Final = 3.0
"""Seconds between two events whose order is uncertain, because the actual start of containers is unknown."""
_SLOWEST_START: Final = 30.0
"""Maximum factor of START with random latencies; each run draws one."""
_JITTER: Final = 12.0
_ASKED: Final = 6.0
"""Maximum factor for the time to create a Pod if webhooks are called: 5 to 30 ms each."""
_WEBHOOK_SECONDS: Final = 10e-3
"""Seconds for webhooks with fixed latencies, if a Pod replaces a removed one: kube-scheduler tries Pending Pods before
the replacement exists."""


class Latencies:
    """Durations of steps in seconds.

    `random`: the source of random durations; None for fixed ones. `asks_webhooks`: whether the creation of Pods may
    take longer than other writes, as in a cluster; with random durations, by a factor that each run draws. Fixed
    durations do not depend on names for a cluster; for recorded scenarios they do, as in the reference scheduler.
    """

    def __init__(self, random: Random | None = None, *, asks_webhooks: bool = False) -> None:
        self._random, self._asks_webhooks = random, asks_webhooks
        self._creating = 1.0 if random is None or not asks_webhooks else random.uniform(1.0, _ASKED)
        self._webhook_seconds = _WEBHOOK_SECONDS if random is None and asks_webhooks else 0.0
        self._start = START if random is None or not asks_webhooks else START * _SLOWEST_START ** (random.random() ** 2)

    def write(self, verb: str, name: str) -> float:
        """Return the seconds of a write to the API server."""
        return self._latency(WRITE, verb, name, self._creating if verb == "create" else 1.0)

    def replacement(self, name: str) -> float:
        """Return the seconds to create a Pod that replaces a removed Pod."""
        return self._webhook_seconds + self.write("create", name)

    def cycle(self, name: str) -> float:
        """Return the seconds of a scheduling cycle. `name`: varies the duration a little."""
        return self._latency(CYCLE, "cycle", name)

    def start(self) -> float:
        """Return the seconds from the binding of a Pod until the Pod is ready."""
        return self._start * (1.0 if self._random is None else 0.5 + self._random.random())

    def up_to(self, seconds: float) -> float:
        """Return a random duration up to `seconds`; 0 with fixed durations."""
        return 0.0 if self._random is None else seconds * self._random.random()

    def _latency(self, seconds: float, verb: str, name: str, times: float = 1.0) -> float:
        if self._random is not None:
            return seconds * (1 + self._random.random() * _JITTER * times)
        if self._asks_webhooks:
            return seconds
        return seconds * (1 + crc32(f"{verb} {name}".encode()) % 997 / 9970)


class Origin(NamedTuple):
    """The origin of a Pod: its workload and what recreates it. It remains available after the removal of the Pod.

    `group`: the top workload of the Pod, or the Pod itself, as `namespace/name`. `again`: what recreates the Pod.
    `before`: whether the Pod existed at time 0. `grace`: termination grace period in seconds. `kind`: that of the top
    workload, "" for a Pod without a controller; workloads of several kinds may have the same name.
    """

    group: str
    namespace: str
    priority: int
    priority_class: str
    again: Recreator
    before: bool
    grace: int
    kind: str = ""

    @property
    def controlled(self) -> bool:
        return self.again is Recreator.CONTROLLER

    @property
    def workload(self) -> tuple[str, str]:
        """The Pod's top workload: (kind, `namespace/name`)."""
        return self.kind, self.group


BY_WORKLOAD: Final = "by its workload"


class Event(NamedTuple):
    """An event `t` seconds after the start.

    `origin`, `by_origin`: the origins of the Pods `pod` and `by`; None without such a Pod. `change`: the change of a
    node, for example "cordoned"; BY_WORKLOAD for a Pod that its workload deletes; otherwise ""; not part of recorded
    answers. `group`: a PodGroup; `status`, `reason`: those of its condition.
    """

    t: float
    event: str
    pod: str = ""
    node: str = ""
    by: str = ""
    message: str = ""
    origin: Hidden[Origin | None] = None
    by_origin: Hidden[Origin | None] = None
    change: Hidden[str] = ""
    group: str = ""
    status: str = ""
    reason: str = ""


class Timeline:
    """The events of a simulation in order. `last`: time of the last event other than a failed scheduling attempt."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events: list[Event] = []
        self.last = 0.0
        self.origins: dict[str, Origin] = {}
        """`namespace/name` of a Pod -> its origin; for removed Pods, that of the last one with this name."""

    def add(
        self,
        event: str,
        pod: str = "",
        node: str = "",
        *,
        by: str = "",
        message: str = "",
        change: str = "",
        group: str = "",
        condition: tuple[str, str] = ("", ""),
    ) -> None:
        """Add an event at the current time. `condition`: (status, reason) of a PodGroup."""
        origins = self.origins.get(pod), self.origins.get(by)
        self.events.append(Event(self._clock.now, event, pod, node, by, message, *origins, change, group, *condition))
        if event not in ("unschedulable", "groupCondition"):
            self.last = self._clock.now

    def has_close_preemptions(self) -> bool:
        """Report whether new Pods of a rollout preempt less than CLOSE seconds before the old Pods that it deletes have
        terminated.
        """
        deleted = {event.pod for event in self.events if event.event == "deleted" and event.change == BY_WORKLOAD}
        gone = (event for event in self.events if event.event == "gone" and event.pod in deleted)
        ends = grouped((self.origins[event.pod].workload, event.t) for event in gone)

        def is_close(event: Event) -> bool:
            own = ends.get(self.origins[event.by].workload, ())
            number = bisect_left(own, event.t)
            return number < len(own) and own[number] <= event.t + CLOSE

        return any(event.event == "preempted" and is_close(event) for event in self.events)
