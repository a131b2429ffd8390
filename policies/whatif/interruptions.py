"""The running Pods of each workload during a simulation, and the workloads that have fewer for a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import DAEMON_SET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.simulation.clock import Event, Origin
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import Names

    Workload = tuple[str, str]

_LONG: Final = 120.0
"""Seconds of the shortest interruption of a part of the Pods: longer than to replace the Pods of a lost node."""
FAILS: Final = 300.0
"""Seconds from which on an interruption counts as fewer replicas (`--fail-on fewer`)."""
_MINUTE: Final = 60.0
"""Seconds of the shortest interruption of all Pods, and for which a Pod must run until it is preempted, to count as
running."""
_REMOVED: Final = ("deleted", "preempted", "succeeded", "gone")
"""The events after which a Pod does not run."""


class Interruption(NamedTuple):
    """A time in which a workload has fewer running Pods than at the start and at the end.

    `workload`: display name. `replicas`: running Pods at the start or at the end, whichever is less. `down`: so many
    fewer run, at least. `since`, `seconds`: when it begins, and how long it lasts. Of several times, one without any
    running Pod counts first, then the product of `down` and `seconds`. `most`: how many are down for a minute or longer
    at any time. `times`: the number of times with an interruption, between which all `replicas` run.
    """

    workload: str
    priority: int
    down: int
    replicas: int
    since: float
    seconds: float
    most: int
    longest: float
    times: int


class RunningPods:
    """`start`: the number of running Pods by workload."""

    def __init__(self, simulation: Simulation, events: Sequence[Event]) -> None:
        """`events`: of the simulation, all or some."""
        self._events, self._origins = events, simulation.timeline.origins
        self._nodes: dict[str, dict[str, Workload]] = {node.name: {} for node in simulation.world.nodes}
        self._where: dict[str, str] = {}
        self.start: Counter[Workload] = Counter()
        for pod in (state.pod for state in simulation.world.pods if not state.terminating):
            if pod.node_name in self._nodes and not pod.terminal:
                workload = self._origins[pod.key].workload
                self._where[pod.key] = pod.node_name
                self._nodes[pod.node_name][pod.key] = workload
                self.start[workload] += 1

    def changes(self) -> Iterator[tuple[float, Workload, int]]:
        """Yield (seconds, workload, change of its number). Call this once."""
        nodes, where = self._nodes, self._where
        for event in self._events:
            lost: Iterable[Workload] = ()
            if event.event == "nodeAdded":
                nodes.setdefault(event.node, {})
            elif event.event == "nodeRemoved":
                lost = nodes.pop(event.node, {}).values()
            elif event.event == "scheduled" and event.node in nodes and event.origin is not None:
                where[event.pod] = event.node
                nodes[event.node][event.pod] = event.origin.workload
                yield event.t, event.origin.workload, 1
            elif event.event in _REMOVED and (node := nodes.get(where.pop(event.pod, ""))) and event.pod in node:
                lost = [node.pop(event.pod)]
            yield from ((event.t, workload, -1) for workload in lost)


def _without_brief_runs(events: Sequence[Event]) -> list[Event]:
    """The events without the starts of Pods that are preempted within a minute."""
    starts: dict[str, int] = {}
    brief = set[int]()
    for place, event in enumerate(events):
        if event.event == "scheduled":
            starts[event.pod] = place
        elif event.event == "preempted" and event.pod in starts:
            start = starts.pop(event.pod)
            brief.update([start] * (event.t - events[start].t < _MINUTE))
    return [event for place, event in enumerate(events) if place not in brief]


def interruptions(simulation: Simulation, names: Names, origins: Iterable[Origin]) -> list[Interruption]:
    """Return the worst interruption of each of these workloads, without DaemonSets: the highest priority first."""
    pods = RunningPods(simulation, _without_brief_runs(simulation.timeline.events))
    changes, end = [*pods.changes()], Counter(pods.start)
    for _, workload, change in changes:
        end[workload] += change
    of = {origin.workload: origin for origin in origins if origin.kind != DAEMON_SET}
    replicas = {workload: min(pods.start[workload], end[workload]) for workload in of}
    running = pods.start
    most: Counter[Workload] = Counter()
    missing: dict[Workload, list[float]] = defaultdict(list)
    longest: dict[Workload, float] = {}
    worst: dict[Workload, tuple[bool, float, float, int]] = {}
    begins: dict[Workload, set[float]] = defaultdict(set)
    for seconds, workload, change in changes:
        wanted = replicas.get(workload, 0)
        if change < 0 and running[workload] <= wanted:
            missing[workload].append(seconds)
        elif change > 0 and running[workload] < wanted:
            down, since = wanted - running[workload], missing[workload].pop()
            lasts = seconds - since
            if lasts >= _MINUTE:
                most[workload] = max(most[workload], down)
            if lasts >= (_MINUTE if down == wanted else _LONG):
                time = down == wanted, down * lasts, since, down
                worst[workload] = max(time, worst.get(workload, time))
                longest[workload] = max(lasts, longest.get(workload, lasts))
                begins[workload].add([*missing[workload], since][0])
        running[workload] += change
    found = [
        Interruption(
            names.of(key),
            of[key].priority,
            down,
            replicas[key],
            since,
            total / down,
            most[key],
            longest[key],
            len(begins[key]),
        )
        for key, (_, total, since, down) in worst.items()
    ]
    return sorted(found, key=lambda each: (-each.priority, -each.seconds, each.workload))
