"""The running Pods of each workload during a simulation, and the workloads that have fewer for a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden  # noqa: TC001 -- of parts of a sweep, read by their types
from forewarn.policies.kubernetes.controllers.disruption import SCALED
from forewarn.policies.kubernetes.controllers.replica_set import spec_replicas
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, DEFAULT_NAMESPACE
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.prediction.simulation.clock import Event, Origin
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import Names

    Workload = tuple[str, str]

_LONG: Final = 120
"""Minimum seconds of a reported interruption of some Pods: longer than replacing the Pods of a lost node takes."""
_WHOLE: Final = 30
"""Minimum seconds of a reported interruption of all Pods: the default grace period."""
MINUTE: Final = 60
"""Seconds of the shortest interruption, between two interruptions, and for which a Pod must run until it is preempted,
to count as running."""
_REMOVED: Final = ("deleted", "preempted", "succeeded", "gone")
"""Events after which a Pod no longer runs."""


class Interruption(NamedTuple):
    """The times in which a workload has fewer running Pods than at the start. Pods that are lost at the end, or by
    which it was scaled down, do not count.

    Only times of a minute or longer count, or of 30 seconds if no replica runs. Times with less than a minute between
    them are one time, whose length excludes what is between. Reported are workloads that have no running Pod at such a
    time, or fewer Pods for 2 minutes in all.

    `workload`: display name. `replicas`: running Pods without an interruption. `down`: at least this many fewer run:
    all, if no Pod runs at such a time, otherwise the number whose product with `seconds` is the largest. `since`,
    `until`: when the first of these times begins, and the last one ends. `seconds`: how long these times are in all.
    `times`: number of these times. `most`: how many replicas are down at any time. `longest`: seconds of the longest
    time in which one or more replicas are down without a break.
    """

    workload: str
    priority: int
    down: int
    replicas: int
    since: int
    until: int
    seconds: int
    times: int
    most: int
    longest: int
    priority_class: Hidden[str] = ""


class _Time(NamedTuple):
    since: int
    until: int
    seconds: int


class _Level(NamedTuple):
    """A level of interruption: at least `down` of the `replicas` do not run."""

    down: int
    replicas: int


class _Step(NamedTuple):
    """A change of the numbers of running Pods and of replicas. `seconds`: since the start."""

    seconds: float
    workload: Workload
    running: int
    replicas: int


class AtStart:
    """The running Pods at the start of simulations of the same cluster: their workloads by node, and their number."""

    def __init__(self, simulation: Simulation) -> None:
        origins = simulation.timeline.origins
        self.nodes: dict[str, dict[str, Workload]] = {node.name: {} for node in simulation.world.nodes}
        self.where: dict[str, str] = {}
        self.running: Counter[Workload] = Counter()
        for pod in (state.pod for state in simulation.world.pods if not state.terminating):
            if pod.node_name in self.nodes and not pod.terminal:
                workload = origins[pod.key].workload
                self.where[pod.key] = pod.node_name
                self.nodes[pod.node_name][pod.key] = workload
                self.running[workload] += 1


def surplus(simulation: Simulation, running: Mapping[Workload, int]) -> Counter[Workload]:
    """Return how many of the running Pods at the start their workload deletes, because it has more than `replicas`."""
    found = Counter[tuple[str, str]]()
    for state in simulation.world.workloads:
        workload = state.key[0], "/".join(state.key[1:])
        if state.key[0] in SCALED and workload in running:
            with suppress(InvalidObject):
                found[workload] = running[workload] - spec_replicas(state.object)
    return +found


class RunningPods:
    """Follows the number of running Pods of each workload. `start`: the numbers at the start."""

    def __init__(self, simulation: Simulation, events: Sequence[Event], at_start: AtStart | None = None) -> None:
        """`events`: of the simulation, all or some. `at_start`: of the simulation, if it is known."""
        at_start = at_start or AtStart(simulation)
        self._events = events
        self._nodes = {node: {**pods} for node, pods in at_start.nodes.items()}
        self._where = {**at_start.where}
        self.start = Counter(at_start.running)

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
    """Return the events without starts of Pods that are preempted within a minute."""
    starts: dict[str, int] = {}
    brief = set[int]()
    for place, event in enumerate(events):
        if event.event == "scheduled":
            starts[event.pod] = place
        elif event.event == "preempted" and event.pod in starts:
            start = starts.pop(event.pod)
            brief.update([start] * (event.t - events[start].t < MINUTE))
    return [event for place, event in enumerate(events) if place not in brief]


def interruptions(
    simulation: Simulation, names: Names, origins: Iterable[Origin], at_start: AtStart | None = None
) -> list[Interruption]:
    """Return the interruptions of these workloads, without DaemonSets: the highest priority first."""
    of = {origin.workload: origin for origin in origins if origin.kind != DAEMON_SET}
    pods = RunningPods(simulation, _without_brief_runs(simulation.timeline.events), at_start)
    steps = [*_scaled(simulation, pods.start), *(_Step(*change, 0) for change in pods.changes())]
    times = _times(sorted((step for step in steps if step.workload in of), key=lambda step: step.seconds), pods.start)
    worst = ((key, _worst(names.name_of(key), of[key].priority, each)) for key, each in times.items())
    found = [each._replace(priority_class=of[key].priority_class) for key, each in worst if each is not None]
    return sorted(found, key=lambda each: (-each.priority, -each.seconds, each.workload))


def _scaled(simulation: Simulation, start: Mapping[Workload, int]) -> Iterator[_Step]:
    """Yield the changes by which users scale or delete workloads; replicas count up to the number at the start."""
    more = surplus(simulation, start)
    replicas = Counter(start) - more
    yield from (_Step(0, workload, 0, -pods) for workload, pods in more.items())
    for at, operation, obj, *_ in sorted(simulation.world.arrivals, key=lambda arrival: arrival.at):
        kind, ref = group_kind(obj), ref_of(obj, DEFAULT_NAMESPACE)
        if kind in SCALED and at <= simulation.clock.now:
            workload = kind, f"{ref.namespace}/{ref.name}"
            wanted = 0 if operation == "delete" else obj["replicas"] if operation == "scale" else spec_replicas(obj)
            change = min(wanted, start[workload]) - replicas[workload]
            replicas[workload] += change
            yield _Step(at, workload, 0, change)


def _times(steps: Sequence[_Step], running: Counter[Workload]) -> Mapping[Workload, Mapping[_Level, list[_Time]]]:
    """Return, by workload and level, the times in which so many Pods do not run, not counting those that are lost at
    the end. `running`: at the start.
    """
    lost: Counter[Workload] = Counter()
    for step in steps:
        lost[step.workload] += step.replicas - step.running
    replicas = running - +lost
    missing: dict[Workload, list[int]] = defaultdict(list)
    times: dict[Workload, dict[_Level, list[_Time]]] = defaultdict(lambda: defaultdict(list))
    for seconds, workload, change, more in steps:
        since, before = missing[workload], replicas[workload]
        running[workload] += change
        replicas[workload] += more
        down = max(replicas[workload] - running[workload], 0)
        while len(since) > down:
            level, start = _Level(len(since), before), since.pop()
            if seconds - start >= (_WHOLE if level.down == before else MINUTE):
                _add(times[workload][level], start, int(seconds))
        since += [int(seconds)] * (down - len(since))
    return times


def _add(times: list[_Time], since: int, until: int) -> None:
    """Append a time; extend the last one instead if less than a minute is between them."""
    begins, seconds = since, until - since
    if times and since - times[-1].until < MINUTE:
        begins, _, before = times.pop()
        seconds += before
    times.append(_Time(begins, until, seconds))


def _worst(workload: str, priority: int, times: Mapping[_Level, list[_Time]]) -> Interruption | None:
    """Return the worst level of a workload as an Interruption; None if the times of all levels are too short."""
    total = {level: sum(one.seconds for one in each) for level, each in times.items()}
    reported = [level for level in total if level.down == level.replicas or total[level] >= _LONG]
    if not reported:
        return None
    worst = max(reported, key=lambda each: (each.down == each.replicas, each.down * total[each]))
    found = times[worst]
    span = found[0].since, found[-1].until, total[worst], len(found)
    most = max(level.down for level in times)
    longest = max(one.seconds for each in times.values() for one in each)
    return Interruption(workload, priority, *worst, *span, most, longest)
