"""Added nodes: rounds of autoscalers in a simulation, the arrival of the nodes, the first Pods on these nodes, and
DaemonSets whose Pods for these nodes stay Pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, in_json
from forewarn.policies.kubernetes.controllers.view import PodState, controller_of
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import lacks_capacity
from forewarn.policies.prediction.simulation.scenario import Arrival, node_object
from forewarn.policies.prediction.simulation.scheduler import UNSCHEDULABLE
from forewarn.policies.questions.whatif.node_groups import free_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
    from random import Random

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.autoscaling import Arrival as Added
    from forewarn.policies.prediction.simulation.api_server import Change
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import Names

    NewNode = tuple[str, Node, float]
    """Group, node, and seconds until it is ready."""

_JITTER: Final = 1.0
"""Maximum seconds by which a node is late in randomized runs."""


class Rounds:
    """The rounds of an autoscaler in a simulation, which follow Pods that kube-scheduler marks Unschedulable.

    `launched`: the nodes. `omitted`: number of nodes that were not launched because of a limit. `not_predicted`: why
    further nodes are unknown, or "". `autoscaler`: the field of `Autoscalers` for `result`.
    """

    autoscaler: ClassVar[str]

    def __init__(self, simulation: Simulation, delay: float, random: Random | None = None) -> None:
        """`delay`: seconds from the launch of a node until it is ready. `random`: for delays."""
        self.launched: list[tuple[NewNode, Added]] = []
        self.omitted, self.not_predicted = 0, ""
        self._simulation, self._delay, self._random = simulation, delay, random
        self._waiting: dict[tuple[str, str], str] = {}
        """Key -> uid of Pods that were marked Unschedulable."""
        self._delivers = self._stopped = False
        self._changed = True
        self._name_of = namer(simulation.api.nodes)
        simulation.api.watchers.append(self._handle)
        for state in [state for state in simulation.api.pods.values() if state.pod.uid in simulation.api.conditions]:
            self._consider(state.pod)

    def stop(self) -> None:
        """Launch no more nodes."""
        self._stopped = True

    def deliver(self) -> None:
        """Add the launched nodes to the simulation when they are ready; until this call, nodes are only decided."""
        self._delivers = True
        self._simulation.add(arrivals_of(node for node, _ in self.launched))

    def result(self, names: Names, pending: Collection[str]) -> Any:
        """The nodes of all rounds, and the Pods that they do not help. `pending`: keys of the Pending Pods."""
        raise NotImplementedError

    def scale_down(self) -> Any:
        """The removed nodes; None if removals are not simulated."""
        return None

    def helped(self) -> set[str]:
        """The keys of Pods for which nodes were launched."""
        return {key for _, arrival in self.launched for key in arrival.pods}

    def _handle(self, change: Change) -> None:
        self._changed = self._changed or self._matters(change)
        if change.kind == "Pod" and change.new is not None:
            self._consider(change.new.pod)

    def _consider(self, pod: Pod) -> None:
        if self._takes(pod) and not self._stopped:
            self._changed = self._changed or self._waiting.get((pod.namespace, pod.name)) != pod.uid
            self._waiting[pod.namespace, pod.name] = pod.uid
            self._trigger(pod.uid)

    def _matters(self, change: Change) -> bool:  # noqa: ARG002  (of subclasses)
        """Report whether a round after this change may decide differently than the one before."""
        return True

    def _takes(self, pod: Pod) -> bool:
        """Report whether a Pod may trigger a round."""
        if pod.node_name or self._simulation.api.conditions.get(pod.uid, ("", ""))[0] != UNSCHEDULABLE:
            return False
        return not pod.terminal

    def _trigger(self, uid: str) -> None:
        """Schedule a round, unless one is scheduled already. `uid`: of the Pod that needs it."""

    def _pending(self) -> list[PodState]:
        """The Pods that may trigger a round now."""
        found = []
        for key, uid in [*self._waiting.items()]:
            state = self._simulation.api.pods.get(key)
            if state is None or state.pod.uid != uid or state.pod.node_name:
                del self._waiting[key]
            elif self._takes(state.pod):
                found.append(state)
        return found

    def _upcoming(self) -> list[Added]:
        """The launched nodes that are not ready, including a node that arrives at this moment."""
        now, existing = self._simulation.clock.now, self._simulation.api.nodes
        return [added for (_, node, at), added in self.launched if at >= now and node.name not in existing]

    def _launch(self, nodes: Iterable[tuple[str, Node, Added]]) -> None:
        """Add nodes. `nodes`: (group, node, what the autoscaler decided)."""
        ready, before = self._simulation.clock.now + self._delay, len(self.launched)
        for group, node, added in nodes:
            late = self._random.uniform(0, _JITTER) if self._random else 0.0
            self.launched.append(((group, node, ready + late), added))
            self._changed = True
        if self._delivers:
            self._simulation.add(arrivals_of(node for node, _ in self.launched[before:]))

    def _give_up(self, reason: str) -> None:
        self.not_predicted, self._stopped = reason, True


class ScheduledOnNewNodes(NamedTuple):
    """Pods of a workload on new nodes. `first`, `last`: seconds until the first and the last of them is scheduled."""

    workload: str
    priority: int
    pods: int
    first: float
    last: float


class PendingDaemonSet(NamedTuple):
    """A DaemonSet with Pending Pods for some nodes. `ranks_too_low`: no Pod on such a node has a lower priority.

    `lowest`: the lowest priority of the Pods on the nodes that lack capacity; None without such Pods.
    """

    workload: str
    priority: int
    pods: int
    lowest: Hidden[int | None]

    @in_json
    def ranks_too_low(self) -> bool:
        return self.lowest is not None and self.priority <= self.lowest


class NewNodes(NamedTuple):
    """The new nodes. `scheduled`: the workloads in the order of their first Pods there."""

    nodes: Sequence[str]
    scheduled: Sequence[ScheduledOnNewNodes]
    pending_daemon_sets: Sequence[PendingDaemonSet]

    @property
    def pods(self) -> int:
        """The number of Pods that are scheduled on the new nodes."""
        return sum(first.pods for first in self.scheduled)


def new_nodes_after(simulation: Simulation, nodes: Sequence[str], names: Names) -> NewNodes:
    """Return the workloads with Pods on added nodes after a simulation. `nodes`: names of the added nodes."""
    wanted, firsts = set(nodes), dict[str, ScheduledOnNewNodes]()
    for event in simulation.timeline.events:
        if event.event == "scheduled" and event.node in wanted and event.origin is not None:
            name = names.name_of(event.origin.workload)
            earlier = firsts.get(name, ScheduledOnNewNodes(name, event.origin.priority, 0, event.t, event.t))
            firsts[name] = earlier._replace(pods=earlier.pods + 1, last=event.t)
    return NewNodes(nodes, list(firsts.values()), starved_on(simulation, wanted, names))


def starved_on(simulation: Simulation, nodes: Container[str], names: Names) -> list[PendingDaemonSet]:
    """The DaemonSets with Pending Pods for these nodes."""
    api, rows = simulation.api, dict[str, PendingDaemonSet]()
    for state in api.pods.values():
        owner = None if state.pod.node_name or not state.active else controller_of(state.pod)
        node = state.pod.spec.node_affinity.only_node if owner is not None and owner[0] == DAEMON_SET else ""
        if node not in nodes:
            continue
        lacks = lacks_capacity(api.conditions.get(state.pod.uid, ("", ""))[1])
        on_node = api.by_node.get(node, {}).values() if lacks else ()
        neighbours = [other.pod.effective_priority for other in on_node if other.active]
        origin = simulation.timeline.origins[state.pod.key]
        name, lowest = names.name_of(origin.workload), min(neighbours, default=None)
        earlier = rows.get(name, PendingDaemonSet(name, origin.priority, 0, lowest))
        least = min((row for row in (earlier.lowest, lowest) if row is not None), default=None)
        rows[name] = earlier._replace(pods=earlier.pods + 1, lowest=least)
    return sorted(rows.values(), key=lambda item: (-item.pods, item.workload))


def arrivals_of(nodes: Iterable[NewNode]) -> list[Arrival]:
    """Return the arrivals of new nodes."""
    return [Arrival(at, "create", node_object(node.name), node) for _, node, at in nodes]


def namer(taken: Container[str]) -> Callable[[str], str]:
    """Return a function that returns an unused name for a new node of a group. `taken`: names of existing nodes."""
    free: dict[str, Iterator[str]] = {}

    def name_of(group: str) -> str:
        start = group.rpartition("/")[2]
        if start not in free:
            free[start] = free_names(f"{start}-new", taken)
        return next(free[start])

    return name_of
