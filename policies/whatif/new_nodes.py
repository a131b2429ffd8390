"""Added nodes: the first Pods on these nodes, and DaemonSets whose Pods for these nodes stay Pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.controllers.view import controller_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import Names


class First(NamedTuple):
    """The Pods of one workload on new nodes.

    `first`, `last`: seconds until the workload's first and last Pod was scheduled on a new node.
    """

    workload: str
    priority: int
    pods: int
    first: float
    last: float


class Starved(NamedTuple):
    """A DaemonSet with Pending Pods for some nodes.

    `lowest`: the lowest priority of the Pods on these nodes; None if the nodes have no Pods. A DaemonSet's Pod preempts
    only Pods of lower priority.
    """

    workload: str
    priority: int
    pods: int
    lowest: int | None

    @property
    def ranks_too_low(self) -> bool:
        return self.lowest is not None and self.priority <= self.lowest


class NewNodes(NamedTuple):
    """The new nodes: the workloads in the order of their first Pod on a new node, and the DaemonSets with Pending
    Pods.
    """

    names: Sequence[str]
    first: Sequence[First]
    starved: Sequence[Starved]


def new_nodes_after(simulation: Simulation, nodes: Sequence[str], names: Names) -> NewNodes:
    """Return the workloads on added nodes after a simulation. `nodes`: names of the added nodes."""
    wanted, firsts = set(nodes), dict[str, First]()
    for event in simulation.timeline.events:
        if event.event == "scheduled" and event.node in wanted and event.origin is not None:
            name = names.of(event.origin.workload)
            earlier = firsts.get(name, First(name, event.origin.priority, 0, event.t, event.t))
            firsts[name] = earlier._replace(pods=earlier.pods + 1, last=event.t)
    return NewNodes(nodes, list(firsts.values()), starved_on(simulation, wanted, names))


def starved_on(simulation: Simulation, nodes: Container[str], names: Names) -> list[Starved]:
    """The DaemonSets with Pending Pods for these nodes."""
    api, rows = simulation.api, dict[str, Starved]()
    for state in api.pods.values():
        owner = None if state.pod.node_name or not state.active else controller_of(state.pod)
        node = state.pod.spec.node_affinity.only_node if owner is not None and owner[0] == "apps/DaemonSet" else ""
        if node not in nodes:
            continue
        neighbours = [other.pod.effective_priority for other in api.by_node.get(node, {}).values() if other.active]
        origin = simulation.timeline.origins[state.pod.key]
        name, lowest = names.of(origin.workload), min(neighbours, default=None)
        earlier = rows.get(name, Starved(name, origin.priority, 0, lowest))
        least = min((row for row in (earlier.lowest, lowest) if row is not None), default=None)
        rows[name] = earlier._replace(pods=earlier.pods + 1, lowest=least)
    return sorted(rows.values(), key=lambda item: (-item.pods, item.workload))


def as_dict(new_nodes: NewNodes) -> dict[str, Any]:
    """Return the added nodes as a JSON object."""
    return {
        "nodes": list(new_nodes.names),
        "scheduled": [
            row._asdict() | {"first": round(row.first, 4), "last": round(row.last, 4)} for row in new_nodes.first
        ],
        "pendingDaemonSets": starved_as_dicts(new_nodes.starved),
    }


def starved_as_dicts(starved: Sequence[Starved]) -> list[dict[str, Any]]:
    """Return the DaemonSets with Pending Pods as JSON objects."""
    return [
        {"workload": row.workload, "priority": row.priority, "pods": row.pods, "ranksTooLow": row.ranks_too_low}
        for row in starved
    ]
