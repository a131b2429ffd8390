"""Find the risks of each workload: possible preemptors, and losses that cost replicas.

A loss of a zone or node is simulated. `whatif` simulates one question; this module the usual losses for all workloads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, head_of
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, REPLICA_SET, STATEFUL_SET
from forewarn.policies.kubernetes.objects.pod_loss import losses_of
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER, SYSTEM_NAMES, PriorityClass
from forewarn.policies.kubernetes.scheduling.find_nodes import NodeFilters
from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions
from forewarn.policies.kubernetes.scheduling.preemption import pod_priority
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import is_incomplete, missing, of_other_schedulers, pods_left_out
from forewarn.policies.questions.whatif.arrivals import Branch, last_scheduled
from forewarn.policies.questions.whatif.autoscalers import NO_GROUPS, Autoscaling, not_predicted
from forewarn.policies.questions.whatif.comparison import Losses, prepare
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.occupancy import Occupancy, PodInterval
from forewarn.policies.questions.whatif.questions import Question, nodes_lost, zone_lost
from forewarn.policies.questions.whatif.races import rivals_by_loser
from forewarn.policies.questions.whatif.risk_answer import (
    AfterNewNodes,
    Amounts,
    PreemptedTogether,
    Preemptor,
    Risks,
    Unfinished,
    WorkloadRisk,
    ZonesAndNodes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.prediction.simulation.scenario import World

MAX_CLASSES: Final = 30
"""The maximum number of listed PriorityClasses that may preempt a workload, lowest value first."""
_NO_LOSS: Final = "no loss"


class Tried:
    """Measures the effects of a loss. Create an instance from a simulation before the simulation runs."""

    def __init__(self, simulation: Simulation, autoscaling: Autoscaling) -> None:
        """`autoscaling`: new nodes arrive if node groups and a delay are known."""
        self._losses = Losses(simulation)
        self._autoscaling = autoscaling if autoscaling.node_delay is not None else NO_GROUPS

    def measure(self, simulation: Simulation, question: Question) -> dict[str, Any]:
        """Run the simulation of a loss, and return its effects as a JSON object.

        `lost` and `rejected` (by a ResourceQuota): number of replicas by workload. `steady`: true in a steady state,
        reached at `at` seconds. `stopped`: why the simulation was stopped, "" if it was not. `incomplete`: whether a
        limit may have changed the result. `unread`: objects with which controllers cannot continue, and workloads whose
        Pods are not all simulated. `rivals`: by lost workload. `withNodes`: fields of AfterNewNodes by workload;
        None without node groups.
        """
        prepare(simulation, question)
        autoscaling = self._autoscaling.after(question.lost)
        with Branch(question, autoscaling, self._end) as branch:
            branch.run(simulation)
            lost, names = self._losses.by_workload(simulation), self._losses.names
            rejected, racing = missing(simulation, names).items(), rivals_by_loser(simulation, names, lost)
            growth, cut = branch.grown(), pods_left_out(simulation)
        by_name = {names.name_of(workload): count for workload, count in lost.items()}
        return {
            "lost": by_name,
            "rejected": {each.group: each.pods for workload, each in rejected if workload in lost},
            "rivals": racing,
            "steady": simulation.steady,
            "stopped": simulation.stopped,
            "incomplete": is_incomplete(simulation, cut),
            "at": simulation.clock.now,
            "unread": [
                *sorted(map(str, simulation.controllers.unreadable.values())),
                *map(str, of_other_schedulers(simulation, names)),
                *map(str, cut),
            ],
            "notModelled": [*simulation.storage.not_modelled, *(not_predicted(growth.reaction) if growth else ())],
            "withNodes": growth and _after(by_name, growth.result),
        }

    def _end(self, simulation: Simulation) -> tuple[dict[str, int], dict[str, float]]:
        """Return the lost replicas after new nodes have arrived, and the time of the last scheduled Pod."""
        names = self._losses.names
        return self._losses.lost_replicas(simulation), {
            names.name_of(of): at for of, at in last_scheduled(simulation).items()
        }


def _after(lost: dict[str, int], end: tuple[dict[str, int], dict[str, float]] | None) -> dict[str, AfterNewNodes]:
    if end is None:
        return {workload: AfterNewNodes(replicas) for workload, replicas in lost.items()}
    left, last = end
    return {
        workload: AfterNewNodes(left.get(workload, 0), round(last[workload], 4) if workload in last else None)
        for workload in {**lost, **left}
    }


def risks(
    cluster: ClusterSnapshot,
    world: World,
    limit: int,
    lose: Callable[[World, Sequence[Question]], Iterator[Mapping[str, Any]]],
    options: Options,
    autoscaling: Autoscaling = NO_GROUPS,
) -> Risks:
    """Return the risks of all workloads: those that lose replicas first, by priority; placeholder Pods last.

    `world`: this cluster without arrivals. `limit`: number of zones, and of nodes, whose loss is simulated; nodes with
    most Pods first. `lose`: simulates the questions and yields the effects of each in turn, like `Tried.of`.
    `autoscaling`: whether nodes arrive.
    """
    occupancy = Occupancy(Simulation(world._replace(arrivals=())))
    intervals = grouped((interval.group, interval) for interval in occupancy.intervals)
    on = Counter(interval.node for interval in occupancy.intervals)
    names = sorted(occupancy.nodes, key=lambda name: (-on[name], name))
    zones = sorted({zone for node in occupancy.nodes.values() if (zone := zone_of(node))})
    outcomes = _outcomes(cluster, world, zones[:limit], names[:limit], lose)
    losses = {what: each for what, each in outcomes.items() if what != _NO_LOSS}
    by_group = _priorities_in_groups(cluster)
    free_amounts, classes = _FreeAmounts(cluster, occupancy, by_group), _that_preempt(cluster)
    workloads = [
        _risk(name, own, _pods(cluster, own), classes, free_amounts, losses, cluster) for name, own in intervals.items()
    ]
    if not autoscaling.grows or autoscaling.node_delay is None:
        workloads = [risk._replace(with_new_nodes=None) for risk in workloads]
    placeholders = {name for name, own in intervals.items() if _only_placeholders(_pods(cluster, own), options)}
    workloads = [risk._replace(is_placeholder=risk.workload in placeholders) for risk in workloads]
    workloads.sort(key=lambda risk: (risk.is_placeholder, risk.damage, risk.workload))
    assumes = assumptions(cluster.objects, cluster.pods.values(), victims=True, created=True)
    return Risks(
        head_of(cluster, (*assumes, *autoscaling.assumes)),
        workloads,
        ZonesAndNodes(len(zones[:limit]), len(names[:limit])),
        ZonesAndNodes(len(zones), len(names)),
        sorted({*chain.from_iterable(each["unread"] for each in outcomes.values())}),
        [*dict.fromkeys(chain.from_iterable(each["notModelled"] for each in outcomes.values()))],
        _unfinished(outcomes),
        without_loss=outcomes.get(_NO_LOSS, {}).get("lost") or None,
        losses=[*losses] if max(len(zones), len(names)) > limit else None,
        is_incomplete=any(outcome["incomplete"] for outcome in outcomes.values()),
    )


def _unfinished(outcomes: Mapping[str, Mapping[str, Any]]) -> dict[str, Unfinished]:
    unsteady = {what: each for what, each in outcomes.items() if not each["steady"]}
    return {what: Unfinished(each["stopped"], round(each["at"], 4)) for what, each in unsteady.items()}


def _outcomes(
    cluster: ClusterSnapshot,
    world: World,
    zones: Sequence[str],
    names: Sequence[str],
    lose: Callable[[World, Sequence[Question]], Iterator[Mapping[str, Any]]],
) -> dict[str, Mapping[str, Any]]:
    """Return what happens without a loss, and with that of each zone and node, by what is lost."""
    nothing = {_NO_LOSS: Question(_NO_LOSS)} if zones or names else {}
    of_zones = {f"zone {zone}": zone_lost(cluster, zone) for zone in zones}
    # Nodes first: each takes less time than a zone, so progress moves at once.
    questions = nothing | {f"node {name}": nodes_lost(cluster, [name]) for name in names} | of_zones
    outcomes = dict(zip(questions, lose(world, [*questions.values()]), strict=True))
    return {what: outcomes[what] for what in nothing | of_zones | questions}


class _FreeAmounts:
    """The free amounts of nodes if Pods below a priority were removed: (thousandths of a cpu, bytes)."""

    def __init__(self, cluster: ClusterSnapshot, occupancy: Occupancy, by_group: Mapping[str, int]) -> None:
        """`by_group`: Pod -> priority of its PodGroup, which replaces the Pod's own priority here."""
        self._by_group = by_group
        ranked = (interval._replace(priority=self.priority(interval)) for interval in occupancy.intervals)
        on: dict[str, list[PodInterval]] = {name: [] for name in occupancy.nodes}
        on |= grouped((interval.node, interval) for interval in ranked)
        self._sums = {name: _sums(intervals, occupancy.nodes.get(name)) for name, intervals in on.items()}
        self._nodes, self._filters = occupancy.nodes, NodeFilters(cluster.scheduling)
        self._free: dict[Callable[[Node], bool], Amounts] = {}

    def priority(self, interval: PodInterval) -> int:
        return self._by_group.get(interval.pod, interval.priority)

    def below(self, name: str, priority: int | None) -> Amounts:
        """Return the free amounts of a node without all Pods below a priority; None: with all Pods."""
        priorities, sums = self._sums[name]
        place = 0 if priority is None else bisect_left(priorities, priority)
        return sums[place]

    def maximum(self, names: Iterable[str], priority: int | None) -> Amounts:
        """Return the maximum free amounts of these nodes; `priority`: as in `below`."""
        found = [self.below(name, priority) for name in names]
        return Amounts(max((cpu for cpu, _ in found), default=0), max((memory for _, memory in found), default=0))

    def free_for(self, pod: Pod) -> Amounts:
        """Return the maximum free amounts of the nodes that the filters allow for the Pod."""
        passes = self._filters.filter_for(pod)
        if passes not in self._free:
            self._free[passes] = self.maximum((name for name, node in self._nodes.items() if passes(node)), None)
        return self._free[passes]

    def is_allowed(self, pod: Pod) -> bool:
        """Report whether the filters allow the Pod's node for a new Pod with the same constraints."""
        node = self._nodes.get(pod.node_name)
        return node is not None and self._filters.filter_for(pod)(node)


def _sums(intervals: Sequence[PodInterval], node: Node | None) -> tuple[list[int], list[Amounts]]:
    """Return the priorities on a node in ascending order, and [n]: the free amounts without the first n of these
    Pods.
    """
    ordered = sorted(intervals, key=lambda interval: interval.priority)
    cpu = (node.allocatable.milli_cpu if node else 0) - sum(interval.milli_cpu for interval in intervals)
    memory = (node.allocatable.memory if node else 0) - sum(interval.memory for interval in intervals)
    sums = [Amounts(cpu, memory)]
    for interval in ordered:
        sums.append(Amounts(sums[-1][0] + interval.milli_cpu, sums[-1][1] + interval.memory))
    return [interval.priority for interval in ordered], sums


def _that_preempt(cluster: ClusterSnapshot) -> list[PriorityClass]:
    """Return the PriorityClasses that may preempt, lowest first, without the system classes."""
    found = [c for c in cluster.priority_classes.values() if c.preemption_policy != PREEMPT_NEVER]
    return sorted((c for c in found if c.name not in SYSTEM_NAMES), key=lambda c: (c.value, c.name))


def _risk(
    name: str,
    intervals: Sequence[PodInterval],
    pods: Sequence[Pod],
    classes: Sequence[PriorityClass],
    free_amounts: _FreeAmounts,
    losses: Mapping[str, Mapping[str, Any]],
    cluster: ClusterSnapshot,
) -> WorkloadRisk:
    """Return the risks of one workload, from the lowest priority of its Pods, which are preempted first.

    `intervals`, `pods`: the workload's Pods on nodes. `classes`: PriorityClasses that may preempt, lowest first.
    """
    least = min(intervals, key=lambda interval: interval.priority)
    above = classes[bisect_right(classes, min(map(free_amounts.priority, intervals)), key=lambda each: each.value) :]
    allowed = {pod.node_name for pod in pods if free_amounts.is_allowed(pod)}
    amounts = [
        free_amounts.maximum(allowed, None),
        *map(free_amounts.free_for, pods[:1]),
    ]  # a DaemonSet's names one node
    free = Amounts(max(cpu for cpu, _ in amounts), max(memory for _, memory in amounts))
    preemptors = [Preemptor(c.name, c.value, free, free_amounts.maximum(allowed, c.value)) for c in above[:MAX_CLASSES]]
    own = {what: each for what, each in losses.items() if name in each["lost"]}
    return WorkloadRisk(
        workload=name,
        namespace=least.namespace,
        priority_class=least.priority_class,
        priority=least.priority,
        pods=len(intervals),
        classes_above=len(above),
        may_be_preempted_by=preemptors,
        loses_replicas_with={what: each["lost"][name] for what, each in own.items()},
        rejected_by_quota={
            what: min(each["rejected"][name], each["lost"][name])
            for what, each in own.items()
            if each["rejected"].get(name)
        },
        pod_losses=losses_of(pods, cluster.workload),
        pod_groups=_pod_groups(cluster, pods),
        rivals={what: each["rivals"][name] for what, each in own.items() if each["rivals"].get(name)} or None,
        with_new_nodes={
            what: each["withNodes"][name] for what, each in losses.items() if name in (each["withNodes"] or ())
        },
        only_in=_only_place(pods, cluster),
    )


def _only_place(pods: Sequence[Pod], cluster: ClusterSnapshot) -> str | None:
    """Return the node or zone on which all these Pods run; None for a DaemonSet, one Pod that is not the replica of a
    Deployment, ReplicaSet or StatefulSet, or if there is no other.
    """
    kind = pods[0].owner_kind if pods else DAEMON_SET
    if kind == DAEMON_SET or (len(pods) == 1 and kind not in (REPLICA_SET, STATEFUL_SET)):
        return None
    every = cluster.objects.nodes
    nodes = {pod.node_name for pod in pods}
    zones = {zone_of(every["", name]) for name in nodes if ("", name) in every}
    if len(nodes) == 1 and len(every) > 1:
        return f"node {nodes.pop()}"
    has_others = any(zone_of(node) not in ("", *zones) for node in every.values())
    return f"zone {zone}" if len(zones) == 1 and has_others and (zone := zones.pop()) else None


def _only_placeholders(pods: Sequence[Pod], options: Options) -> bool:
    return bool(pods) and all(is_placeholder(pod, options) for pod in pods)


def _priorities_in_groups(cluster: ClusterSnapshot) -> dict[str, int]:
    """Return Pod -> the priority of its PodGroup, by which preemption compares the Pod; only for Pods of PodGroups."""
    snapshot = cluster.scheduling
    return {pod.key: pod_priority(pod, snapshot) for pods in snapshot.pods_of_groups.values() for pod in pods}


def _pods(cluster: ClusterSnapshot, intervals: Sequence[PodInterval]) -> list[Pod]:
    keys = (interval.pod.partition("/") for interval in intervals)
    return [pod for namespace, _, name in keys if (pod := cluster.pods.get((namespace, name))) is not None]


def _pod_groups(cluster: ClusterSnapshot, pods: Sequence[Pod]) -> list[PreemptedTogether]:
    """Return the PodGroups of these Pods that kube-scheduler preempts as a whole."""
    snapshot, found = cluster.scheduling, list[PreemptedTogether]()
    keys = {(pod.namespace, pod.spec.pod_group) for pod in pods}
    for key in sorted(keys & snapshot.pods_of_groups.keys()):
        group, whole = snapshot.objects.pod_groups.get(key), snapshot.pods_of_groups[key]
        if group is not None and group.preempted_together and len(whole) > 1:
            found.append(
                PreemptedTogether(group.key, group.priority, len(whole), len({pod.node_name for pod in whole}))
            )
    return found
