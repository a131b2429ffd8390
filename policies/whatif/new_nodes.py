"""Added nodes: their arrival, the first Pods on these nodes, and DaemonSets whose Pods for these nodes stay Pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.view import controller_of
from forewarn.policies.documents import in_json
from forewarn.policies.simulation.scenario import Arrival
from forewarn.policies.whatif.node_groups import free_names

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from forewarn.policies.documents import Hidden
    from forewarn.policies.objects.node import Node
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import Names

    NewNode = tuple[str, Node, float]
    """Group, node, and seconds until it is ready."""

MAX_NODES: Final = 2_000
"""Maximum nodes that arrive in a simulation."""
MAX_ROUNDS: Final = 50
"""Maximum rounds of an autoscaler in a simulation, without those of Karpenter that launch no node."""


class ScheduledOnNewNodes(NamedTuple):
    """Pods of a workload on new nodes. `first`, `last`: seconds until the first and the last of them is scheduled."""

    workload: str
    priority: int
    pods: int
    first: float
    last: float


class PendingDaemonSet(NamedTuple):
    """A DaemonSet with Pending Pods for some nodes. `ranks_too_low`: no Pod on such a node has a lower priority.

    `lowest`: the lowest priority of the Pods on these nodes; None if the nodes have no Pods.
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


def new_nodes_after(simulation: Simulation, nodes: Sequence[str], names: Names) -> NewNodes:
    """Return the workloads on added nodes after a simulation. `nodes`: names of the added nodes."""
    wanted, firsts = set(nodes), dict[str, ScheduledOnNewNodes]()
    for event in simulation.timeline.events:
        if event.event == "scheduled" and event.node in wanted and event.origin is not None:
            name = names.of(event.origin.workload)
            earlier = firsts.get(name, ScheduledOnNewNodes(name, event.origin.priority, 0, event.t, event.t))
            firsts[name] = earlier._replace(pods=earlier.pods + 1, last=event.t)
    return NewNodes(nodes, list(firsts.values()), starved_on(simulation, wanted, names))


def starved_on(simulation: Simulation, nodes: Container[str], names: Names) -> list[PendingDaemonSet]:
    """The DaemonSets with Pending Pods for these nodes."""
    api, rows = simulation.api, dict[str, PendingDaemonSet]()
    for state in api.pods.values():
        owner = None if state.pod.node_name or not state.active else controller_of(state.pod)
        node = state.pod.spec.node_affinity.only_node if owner is not None and owner[0] == "apps/DaemonSet" else ""
        if node not in nodes:
            continue
        neighbours = [other.pod.effective_priority for other in api.by_node.get(node, {}).values() if other.active]
        origin = simulation.timeline.origins[state.pod.key]
        name, lowest = names.of(origin.workload), min(neighbours, default=None)
        earlier = rows.get(name, PendingDaemonSet(name, origin.priority, 0, lowest))
        least = min((row for row in (earlier.lowest, lowest) if row is not None), default=None)
        rows[name] = earlier._replace(pods=earlier.pods + 1, lowest=least)
    return sorted(rows.values(), key=lambda item: (-item.pods, item.workload))


def arrivals_of(nodes: Iterable[NewNode]) -> list[Arrival]:
    """Return the arrivals of new nodes."""
    return [
        Arrival(at, "create", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}}, node)
        for _, node, at in nodes
    ]


def namer(taken: Container[str]) -> Callable[[str], str]:
    """Return a function that names new nodes of a group, unlike nodes that exist and each other."""
    free: dict[str, Iterator[str]] = {}

    def name_of(group: str) -> str:
        start = group.rpartition("/")[2]
        if start not in free:
            free[start] = free_names(f"{start}-new", taken)
        return next(free[start])

    return name_of
