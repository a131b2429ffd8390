"""The risks of each workload: possible preemptors, losses that it does not survive, and node-pressure eviction.

`whatif` answers one question; this module asks the usual questions for each workload.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.kubelet.pods import SYSTEM_CRITICAL
from forewarn.policies.objects.pod_loss import losses_of
from forewarn.policies.objects.priority_class import PREEMPT_NEVER, SYSTEM_CLASSES
from forewarn.policies.scheduling.missing_lists import assumptions
from forewarn.policies.scheduling.victim import pod_priority
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.simulation.summary import missing
from forewarn.policies.whatif.comparison import Losses
from forewarn.policies.whatif.node_bands import zone_of
from forewarn.policies.whatif.occupancy import Occupancy
from forewarn.policies.whatif.questions import nodes_lost, zone_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_loss import PodLoss
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.occupancy import Stay
    from forewarn.policies.whatif.questions import Question

MOST_CLASSES: Final = 30
"""The maximum number of listed workloads that may preempt a workload, lowest priority first."""
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


class Whole(NamedTuple):
    """A PodGroup of the disruption mode `all`: preempting one Pod preempts all `pods` on all `nodes`."""

    pod_group: str
    priority: int
    pods: int
    nodes: int


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
    wholes: Sequence[Whole] = ()
    pod_losses: Sequence[PodLoss] = ()
    """What fails or is interrupted if one of its Pods is lost."""


class Unended(NamedTuple):
    """A loss whose try was cut off: what follows is not known. `stopped`: why it was given up; empty where the time
    was up, `at` so many seconds."""

    what: str
    stopped: str
    at: float


class Risks(NamedTuple):
    """The risks of all workloads, largest losses first.

    `tried`: the simulated losses of zones and nodes, of `there`; `unended`: those without a complete result;
    `not_modelled`: what they do not model.
    """

    risks: Sequence[Risk]
    tried: tuple[int, int]
    there: tuple[int, int]
    unended: Sequence[Unended] = ()
    unread: Sequence[str] = ()
    """Workloads whose Pods are not replaced in these simulations because something cannot be read, and why."""
    assumes: Sequence[str] = ()
    """Assumptions: lists that the cluster state lacks are empty."""
    not_modelled: Sequence[str] = ()


class Tried:
    """Returns the effects of a loss, from a simulation that has not run."""

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
    """Return the risks of all workloads.

    `world`: of this cluster, without arrivals; `most`: the number of zones, and of nodes, whose loss is simulated,
    those with most Pods first; `lose` returns the effects of each loss in turn.
    """
    occupancy = Occupancy(Simulation(world._replace(arrivals=())))
    stays: dict[str, list[Stay]] = {}
    for stay in occupancy.stays:
        stays.setdefault(stay.group, []).append(stay)
    pods = Counter(stay.node for stay in occupancy.stays)
    names = sorted(occupancy.nodes, key=lambda name: (-pods[name], name))
    zones = sorted({zone for node in occupancy.nodes.values() if (zone := zone_of(node))})
    losses, unknown = _losses(cluster, world, zones[:most], names[:most], lose)
    by_group = _priorities_in_groups(cluster)
    rooms, lowest, classes = _Rooms(occupancy, by_group), _lowest(cluster), _that_preempt(cluster)
    found = [
        _risk(name, each, classes, rooms, losses.get(name, ()), lowest)._replace(
            wholes=_wholes(cluster, each), pod_losses=losses_of(_pods(cluster, each), cluster.workload)
        )
        for name, each in stays.items()
    ]
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
    """The free amounts of nodes, and their Pods."""

    def __init__(self, occupancy: Occupancy, by_group: Mapping[str, int]) -> None:
        """`by_group`: Pod -> the priority of its PodGroup, by which preemption compares the Pod."""
        self._by_group = by_group
        on: dict[str, list[Stay]] = {name: [] for name in occupancy.nodes}
        for stay in occupancy.stays:
            on.setdefault(stay.node, []).append(stay._replace(priority=self.priority(stay)))
        self._sums = {name: _sums(stays, occupancy.nodes.get(name)) for name, stays in on.items()}
        schedulable = [name for name, node in occupancy.nodes.items() if not node.unschedulable]
        free = [self.below(name, None) for name in schedulable]
        self.free = (max((cpu for cpu, _ in free), default=0), max((memory for _, memory in free), default=0))

    def priority(self, stay: Stay) -> int:
        """The priority by which preemption compares a Pod."""
        return self._by_group.get(stay.pod, stay.priority)

    def below(self, name: str, priority: int | None) -> tuple[int, int]:
        """Return the free amounts of a node without all Pods below a priority; None: with all Pods."""
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
    """Return the lowest of several priorities, which a changed class leaves: those Pods are preempted first."""
    least = min(stays, key=lambda stay: stay.priority)
    nodes = sorted({stay.node for stay in stays})
    above = classes[bisect_right(classes, min(map(rooms.priority, stays)), key=lambda each: each.value) :]
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


def _priorities_in_groups(cluster: ClusterSnapshot) -> dict[str, int]:
    """Pod of a PodGroup -> the priority by which preemption compares the Pod."""
    snapshot = cluster.scheduling
    return {pod.key: pod_priority(pod, snapshot) for pods in snapshot.pods_of_groups.values() for pod in pods}


def _pods(cluster: ClusterSnapshot, stays: Sequence[Stay]) -> Iterator[Pod]:
    return (pod for stay in stays if (pod := cluster.pods.get(_key_of(stay))) is not None)


def _wholes(cluster: ClusterSnapshot, stays: Sequence[Stay]) -> list[Whole]:
    """The PodGroups of these Pods that kube-scheduler preempts as a whole."""
    snapshot, found = cluster.scheduling, list[Whole]()
    keys = {(pod.namespace, pod.spec.pod_group) for pod in _pods(cluster, stays)}
    for key in sorted(keys & snapshot.pods_of_groups.keys()):
        group, pods = snapshot.objects.pod_groups.get(key), snapshot.pods_of_groups[key]
        if group is not None and group.preempted_together and len(pods) > 1:
            found.append(Whole(group.key, group.priority, len(pods), len({pod.node_name for pod in pods})))
    return found


def _key_of(stay: Stay) -> tuple[str, str]:
    namespace, _, name = stay.pod.partition("/")
    return namespace, name


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
                **({"podLosses": [loss.to_dict() for loss in risk.pod_losses]} if risk.pod_losses else {}),
                **({"podGroups": [_whole_as_dict(each) for each in risk.wholes]} if risk.wholes else {}),
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


def _whole_as_dict(whole: Whole) -> dict[str, Any]:
    counts = {"preemptedPods": whole.pods, "nodes": whole.nodes}
    return {"podGroup": whole.pod_group, "priority": whole.priority, **counts}
