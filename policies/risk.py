"""What each workload risks: who may push it out, which loss it does not survive, where the kubelet ends it first.

`whatif` answers one question; this asks the usual ones for every workload.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.kubelet.pods import SYSTEM_CRITICAL
from policies.objects.fields import InvalidObject
from policies.objects.priority_class import PREEMPT_NEVER, SYSTEM_CLASSES
from policies.scheduling.missing_lists import assumptions
from policies.scheduling.pod_groups import preempted_together
from policies.simulation.simulation import Simulation
from policies.simulation.summary import missing
from policies.whatif.comparison import Losses
from policies.whatif.node_bands import zone_of
from policies.whatif.occupancy import Occupancy
from policies.whatif.questions import nodes_lost, zone_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.node import Node
    from policies.objects.priority_class import PriorityClass
    from policies.simulation.scenario import World
    from policies.whatif.occupancy import Stay
    from policies.whatif.questions import Question

MOST_CLASSES: Final = 30
"""Above a workload that are told, the lowest first."""
_SYSTEM: Final = {each.name for each in SYSTEM_CLASSES}


class Pusher(NamedTuple):
    """A class whose pods may push a workload's out: those that ask for so much that no node has it free (more than
    `free`), and at most what a node has that the workload is on when all below the class are gone (`room`), each in
    (thousandths of a cpu, bytes)."""

    priority_class: str
    priority: int
    free: tuple[int, int]
    room: tuple[int, int]


class Loss(NamedTuple):
    """`zone a` or `node a-1`, how many replicas do not come back when it is lost, and of how many of these a
    ResourceQuota refuses the replacements."""

    what: str
    replicas: int
    refused: int = 0


class Risk(NamedTuple):
    """Of a workload's running pods. `above`: how many classes rank above it and preempt; `pushers`: the lowest of them.
    `first_on`: nodes on which one of its pods has the lowest priority of all that the kubelet may evict; `nodes`: on
    which they are."""

    workload: str
    namespace: str
    priority_class: str
    priority: int
    pods: int
    above: int
    pushers: Sequence[Pusher]
    losses: Sequence[Loss]
    first_on: int
    nodes: int


class Unended(NamedTuple):
    """A loss whose try was cut off: what follows is not known. `stopped`: why it was given up; empty where the time
    was up, `at` so many seconds."""

    what: str
    stopped: str
    at: float


class Risks(NamedTuple):
    """Of all workloads, those that lose most first. `tried`: zones and nodes whose loss was looked at, of `there`;
    `unended`: those of them of which not all is known; `not_modelled`: what they leave open."""

    risks: Sequence[Risk]
    tried: tuple[int, int]
    there: tuple[int, int]
    unended: Sequence[Unended] = ()
    unread: Sequence[str] = ()
    """Workloads whose Pods are not replaced in these simulations because something cannot be read, and why."""
    assumes: Sequence[str] = ()
    """What holds only where lists that the cluster state lacks are empty."""
    not_modelled: Sequence[str] = ()


class Tried:
    """Tells what a loss comes to; made of a simulation that has not run."""

    def __init__(self, simulation: Simulation) -> None:
        self._losses = Losses(simulation)

    def of(self, simulation: Simulation) -> dict[str, Any]:
        """As JSON, of one of the same cluster that has run: `lost` and `refused`, workload -> replicas, why it was
        `stopped`, where it was not `settled`, `at` how many seconds, and what controllers cannot go on with (`unread`).
        """
        lost, names = self._losses.by_workload(simulation), self._losses.names
        refused = missing(simulation, names).items()
        return {
            "lost": {names.of(workload): count for workload, count in lost.items()},
            "refused": {each.group: each.pods for workload, each in refused if workload in lost},
            "settled": simulation.settled,
            "stopped": simulation.stopped,
            "at": simulation.clock.now,
            "unread": sorted(simulation.controllers.unreadable.values()),
            "notModelled": simulation.storage.not_modelled,
        }


def risks(
    cluster: ClusterSnapshot,
    world: World,
    most: int,
    lose: Callable[[World, Sequence[Question]], Iterator[Mapping[str, Any]]],
) -> Risks:
    """`world`: of this cluster, without arrivals; `most`: zones, and nodes, whose loss is simulated, those with most
    pods first; `lose` says of each question in turn what `Tried` tells of it. Raises InvalidObject."""
    if why := preempted_together(cluster.objects):
        raise InvalidObject(f"not predicted: {why}")
    occupancy = Occupancy(Simulation(world._replace(arrivals=())))
    stays: dict[str, list[Stay]] = {}
    for stay in occupancy.stays:
        stays.setdefault(stay.group, []).append(stay)
    pods = Counter(stay.node for stay in occupancy.stays)
    names = sorted(occupancy.nodes, key=lambda name: (-pods[name], name))
    zones = sorted({zone for node in occupancy.nodes.values() if (zone := zone_of(node))})
    losses, unknown = _losses(cluster, world, zones[:most], names[:most], lose)
    rooms, lowest, classes = _Rooms(occupancy), _lowest(cluster), _that_preempt(cluster)
    found = [_risk(name, each, classes, rooms, losses.get(name, ()), lowest) for name, each in stays.items()]
    found.sort(key=lambda risk: (-sum(loss.replicas for loss in risk.losses), risk.priority, risk.workload))
    assumed = assumptions(cluster.objects, cluster.pods.values(), victims=True, created=True)
    counts = (len(zones[:most]), len(names[:most])), (len(zones), len(names))
    return Risks(found, *counts, unknown.unended, sorted(unknown.unread), assumed, list(unknown.not_modelled))


class _Unknown(NamedTuple):
    """Tries that were cut off, what controllers cannot go on with, and what is not modelled."""

    unended: list[Unended]
    unread: set[str]
    not_modelled: dict[str, None]


def _losses(
    cluster: ClusterSnapshot,
    world: World,
    zones: Sequence[str],
    names: Sequence[str],
    lose: Callable[[World, Sequence[Question]], Iterator[Mapping[str, Any]]],
) -> tuple[dict[str, list[Loss]], _Unknown]:
    """Workload -> the losses that it does not survive; and what the simulations leave open."""
    asked = [zone_lost(cluster, zone) for zone in zones] + [nodes_lost(cluster, [name]) for name in names]
    told = [f"zone {zone}" for zone in zones] + [f"node {name}" for name in names]
    found: dict[str, list[Loss]] = {}
    unknown = _Unknown([], set(), {})
    for what, outcome in zip(told, lose(world, asked), strict=True):
        refused: Mapping[str, int] = outcome["refused"]
        for workload, replicas in outcome["lost"].items():
            loss = Loss(what, replicas, min(refused.get(workload, 0), replicas))
            found.setdefault(workload, []).append(loss)
        unknown.unread.update(outcome["unread"])
        unknown.not_modelled.update(dict.fromkeys(outcome["notModelled"]))
        if not outcome["settled"]:
            unknown.unended.append(Unended(what, outcome["stopped"], outcome["at"]))
    return found, unknown


class _Rooms:
    """What nodes have free, and what is on them."""

    def __init__(self, occupancy: Occupancy) -> None:
        on: dict[str, list[Stay]] = {name: [] for name in occupancy.nodes}
        for stay in occupancy.stays:
            on.setdefault(stay.node, []).append(stay)
        self._sums = {name: _sums(stays, occupancy.nodes.get(name)) for name, stays in on.items()}
        schedulable = [name for name, node in occupancy.nodes.items() if not node.unschedulable]
        free = [self.below(name, None) for name in schedulable]
        self.free = (max((cpu for cpu, _ in free), default=0), max((memory for _, memory in free), default=0))

    def below(self, name: str, priority: int | None) -> tuple[int, int]:
        """What a node has when all pods below a priority are gone; None: when none is."""
        priorities, sums = self._sums[name]
        place = 0 if priority is None else bisect_left(priorities, priority)
        return sums[place]

    def most(self, names: Sequence[str], priority: int) -> tuple[int, int]:
        """The most of each that one of these nodes has then."""
        found = [self.below(name, priority) for name in names]
        return max(cpu for cpu, _ in found), max(memory for _, memory in found)


def _sums(stays: Sequence[Stay], node: Node | None) -> tuple[list[int], list[tuple[int, int]]]:
    """The priorities on a node from low to high, and what it has when so many of these pods are gone."""
    ordered = sorted(stays, key=lambda stay: stay.priority)
    cpu = (node.allocatable.milli_cpu if node else 0) - sum(stay.milli_cpu for stay in stays)
    memory = (node.allocatable.memory if node else 0) - sum(stay.memory for stay in stays)
    sums = [(cpu, memory)]
    for stay in ordered:
        sums.append((sums[-1][0] + stay.milli_cpu, sums[-1][1] + stay.memory))
    return [stay.priority for stay in ordered], sums


def _that_preempt(cluster: ClusterSnapshot) -> list[PriorityClass]:
    """Classes whose pods push others out, the lowest first, less the cluster's own."""
    found = [c for c in cluster.priority_classes.values() if c.preemption_policy != PREEMPT_NEVER]
    return sorted((c for c in found if c.name not in _SYSTEM), key=lambda c: (c.value, c.name))


def _risk(
    name: str,
    stays: Sequence[Stay],
    classes: Sequence[PriorityClass],
    rooms: _Rooms,
    losses: Sequence[Loss],
    lowest: Mapping[str, int],
) -> Risk:
    """Of several priorities, as a change of class leaves them, the lowest counts: it is pushed out first."""
    least = min(stays, key=lambda stay: stay.priority)
    nodes = sorted({stay.node for stay in stays})
    above = classes[bisect_right(classes, least.priority, key=lambda each: each.value) :]
    pushers = [Pusher(c.name, c.value, rooms.free, rooms.most(nodes, c.value)) for c in above[:MOST_CLASSES]]
    first = {stay.node for stay in stays if lowest.get(stay.node) == stay.priority}
    return Risk(
        workload=name,
        namespace=least.namespace,
        priority_class=least.priority_class,
        priority=least.priority,
        pods=len(stays),
        above=len(above),
        pushers=pushers,
        losses=losses,
        first_on=len(first),
        nodes=len(nodes),
    )


def _lowest(cluster: ClusterSnapshot) -> dict[str, int]:
    """Node -> the lowest priority of a pod that its kubelet may evict. Source: pkg/kubelet/types `IsCriticalPod`."""
    found: dict[str, int] = {}
    for pod in cluster.pods.values():
        static = pod.owner is not None and pod.owner.kind == "Node"
        if pod.node_name and not pod.terminal and not static and pod.effective_priority < SYSTEM_CRITICAL:
            found[pod.node_name] = min(found.get(pod.node_name, SYSTEM_CRITICAL), pod.effective_priority)
    return found


def as_dict(found: Risks) -> dict[str, Any]:
    """For programs."""
    return {
        "workloads": [
            {
                "workload": risk.workload,
                "namespace": risk.namespace,
                "priorityClass": risk.priority_class,
                "priority": risk.priority,
                "pods": risk.pods,
                "classesAbove": risk.above,
                "mayBePreemptedBy": [
                    {
                        "class": pusher.priority_class,
                        "priority": pusher.priority,
                        "moreThan": {"milliCpu": pusher.free[0], "memory": pusher.free[1]},
                        "upTo": {"milliCpu": pusher.room[0], "memory": pusher.room[1]},
                    }
                    for pusher in risk.pushers
                ],
                "losesReplicasWith": {loss.what: loss.replicas for loss in risk.losses},
                "refusedByQuota": {loss.what: loss.refused for loss in risk.losses if loss.refused},
                "evictedFirstOn": {"nodes": risk.first_on, "of": risk.nodes},
            }
            for risk in found.risks
        ],
        "simulated": {"zones": found.tried[0], "nodes": found.tried[1]},
        "total": {"zones": found.there[0], "nodes": found.there[1]},
        "notPredicted": list(found.unread),
        **({"assumptions": list(found.assumes)} if found.assumes else {}),
        "notModelled": list(found.not_modelled),
        "unfinished": {each.what: {"stopped": each.stopped, "at": round(each.at, 4)} for each in found.unended},
    }
