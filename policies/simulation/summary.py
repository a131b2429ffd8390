"""What a run comes to: who pushed out whom, at which level of the cascade, and who waits in the end."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.simulation.simulation import Simulation
    from policies.simulation.timeline import Event, Origin

NO_CLASS: Final = "none"


class Eviction(NamedTuple):
    """A pod that was pushed out at `t` seconds. `level`: 1 by what arrived, 2 by a replacement of such a victim, …"""

    t: float
    victim: str
    by: str
    node: str
    level: int
    origin: Origin
    """The victim's."""


class Waiting(NamedTuple):
    """Pods of one workload that wait in the end, and upstream's words why. `before`: how many did so at time 0."""

    group: str
    pods: int
    priority: int
    message: str
    before: int


class Missing(NamedTuple):
    """Pods that a workload lacks because a quota refuses them, and upstream's words why."""

    group: str
    pods: int
    message: str


class Summary(NamedTuple):
    """What a run comes to. `groups`: a pod is told as its top workload, or by its own name: `namespace/name`."""

    evictions: Sequence[Eviction]
    waiting: Sequence[Waiting]
    new_pods: int
    new_running: int
    all_run_at: float | None
    """When the last of the new pods was bound; None where one is not."""
    broken_budgets: Mapping[str, int]
    settled_at: float
    settled: bool
    """Whether nothing more would happen; else the run was cut off."""
    stopped: str = ""
    """Why it was, where that was more work than is done."""
    missing: Sequence[Missing] = ()

    @property
    def depth(self) -> int:
        """Levels of the cascade."""
        return max((eviction.level for eviction in self.evictions), default=0)

    def victims_by(self, what: str) -> Counter[str]:
        """How many pods were pushed out by `group`, `namespace` or `priority_class`."""
        return Counter(getattr(eviction.origin, what) or NO_CLASS for eviction in self.evictions)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pushedOut": len(self.evictions),
            "levels": self.depth,
            "byWorkload": dict(self.victims_by("group")),
            "byNamespace": dict(self.victims_by("namespace")),
            "byPriorityClass": dict(self.victims_by("priority_class")),
            "pending": {waiting.group: waiting.pods for waiting in self.waiting},
            **({"missing": {each.group: each.pods for each in self.missing}} if self.missing else {}),
            "newPods": self.new_pods,
            "newPodsRunning": self.new_running,
            "brokenBudgets": dict(self.broken_budgets),
            "settled": self.settled,
            "settledAt": round(self.settled_at, 4),
            **({"stopped": self.stopped} if self.stopped else {}),
        }


def summarize(simulation: Simulation) -> Summary:
    """What a finished run comes to."""
    levels = Levels()
    events = simulation.timeline.events
    evictions = [eviction for event in events if (eviction := levels.next(event)) is not None]
    bound = {event.pod: event.t for event in events if event.event == "scheduled" and event.pod in levels.new}
    return Summary(
        evictions=evictions,
        waiting=_waiting(simulation),
        new_pods=len(levels.new),
        new_running=len(bound),
        all_run_at=max(bound.values(), default=None) if len(bound) == len(levels.new) else None,
        broken_budgets=simulation.scheduler.broken_budgets,
        settled_at=max(simulation.timeline.last, 0.0),
        settled=simulation.settled,
        stopped=simulation.stopped,
        missing=missing(simulation),
    )


def missing(simulation: Simulation) -> list[Missing]:
    """By workload that people know: a Deployment's ReplicaSets are told together."""
    found: dict[str, Missing] = {}
    for group, refused in simulation.controllers.refusals:
        pods = found[group].pods if group in found else 0
        found[group] = Missing(group, pods + refused.missing, refused.message)
    return list(found.values())


class Levels:
    """How deep in the cascade each new pod is: a replacement is as deep as the eviction that it is made for.

    `new`: pods that stand in for nobody.
    """

    def __init__(self) -> None:
        self._owed: dict[tuple[str, str], deque[int]] = {}
        self._dying: set[str] = set()
        self._of: dict[str, int] = {}
        self.new: set[str] = set()

    def next(self, event: Event) -> Eviction | None:
        """Take the next event in; an eviction where it is one, each pod's once."""
        if event.origin is None:
            return None
        if event.event == "created":
            self._came(event.pod, event.origin)
        elif event.event == "gone":
            self._dying.discard(event.pod)
        elif event.event == "deleted":
            self._owe(event.origin, self._of.get(event.pod, 0))
        elif event.event == "preempted" and event.pod not in self._dying:
            self._dying.add(event.pod)
            level = self._of.get(event.by, 0) + 1
            self._owe(event.origin, level)
            return Eviction(event.t, event.pod, event.by, event.node, level, event.origin)
        return None

    def _came(self, pod: str, origin: Origin) -> None:
        owed = self._owed.get(origin.workload)
        if owed:
            self._of[pod] = owed.popleft()
        else:
            self.new.add(pod)

    def _owe(self, origin: Origin, level: int) -> None:
        if origin.controlled:
            self._owed.setdefault(origin.workload, deque()).append(level)


def _waiting(simulation: Simulation) -> list[Waiting]:
    origins, groups = simulation.timeline.origins, dict[str, list[str]]()
    for state in simulation.api.pods.values():
        if not state.pod.node_name and not state.pod.terminal:
            groups.setdefault(origins[state.pod.key].group, []).append(state.pod.key)
    told = {event.pod: event.message for event in simulation.timeline.events if event.event == "unschedulable"}
    return [_of_group(origins, group, pods, told) for group, pods in sorted(groups.items())]


def _of_group(origins: Mapping[str, Origin], group: str, pods: Sequence[str], told: Mapping[str, str]) -> Waiting:
    message = next((told[pod] for pod in pods if pod in told), "")
    return Waiting(group, len(pods), origins[pods[0]].priority, message, sum(origins[pod].before for pod in pods))


def counted(names: Iterable[str]) -> list[tuple[str, int]]:
    """Names with how often they come, most often first."""
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
