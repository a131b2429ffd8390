"""Find the risks of each workload: possible preemptors, and losses that cost replicas.

A loss of a zone or node is simulated. `whatif` simulates one question; this module the usual losses for all workloads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

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
from forewarn.policies.questions.whatif.autoscalers import NO_GROUPS, Autoscaling
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.occupancy import Occupancy, PodInterval
from forewarn.policies.questions.whatif.questions import Question, each_lost
from forewarn.policies.questions.whatif.risk_answer import (
    Amounts,
    PreemptedTogether,
    Preemptor,
    Risks,
    WorkloadRisk,
    ZonesAndNodes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.prediction.simulation.scenario import World
    from forewarn.policies.questions.whatif.sweep import Tallied

MAX_CLASSES: Final = 30
"""The maximum number of listed PriorityClasses that may preempt a workload, lowest value first."""
_NO_LOSS: Final = "no loss"


def risks(
    cluster: ClusterSnapshot,
    world: World,
    limit: int,
    lose: Callable[[Sequence[Question]], Iterable[Tallied]],
    options: Options,
    autoscaling: Autoscaling = NO_GROUPS,
) -> Risks:
    """Return the risks of all workloads: those that lose replicas first, by priority; placeholder Pods last.

    `world`: this cluster without arrivals. `limit`: number of zones, and of nodes, whose loss is simulated; nodes with
    most Pods first. `lose`: simulates the questions and yields the effects of each in turn, also on placeholder Pods.
    `autoscaling`: whether nodes arrive.
    """
    occupancy = Occupancy(Simulation(world._replace(arrivals=())))
    intervals = grouped((interval.group, interval) for interval in occupancy.intervals)
    on = Counter(interval.node for interval in occupancy.intervals)
    names = sorted(occupancy.nodes, key=lambda name: (-on[name], name))
    zones = sorted({zone for node in occupancy.nodes.values() if (zone := zone_of(node))})
    outcomes = _outcomes(cluster, zones[:limit], names[:limit], lose)
    losses = {**outcomes}
    alone = losses.pop(_NO_LOSS, None)
    by_group = _priorities_in_groups(cluster)
    free_amounts, classes = _FreeAmounts(cluster, occupancy, by_group), _preempting_classes(cluster)
    grows, workloads = autoscaling.grows and autoscaling.node_delay is not None, list[WorkloadRisk]()
    for name, own in intervals.items():
        pods = _pods(cluster, own)
        risk = _risk(name, own, pods, classes, free_amounts, losses, cluster)
        reserves = bool(pods) and all(is_placeholder(pod, options) for pod in pods)
        later = risk.with_new_nodes if grows else None
        workloads.append(risk._replace(with_new_nodes=later, is_placeholder=reserves))
    workloads.sort(key=lambda risk: (risk.is_placeholder, risk.damage, risk.workload))
    assumes = assumptions(cluster.objects, cluster.pods.values(), victims=True, created=True)
    return Risks(
        head_of(cluster, (*assumes, *autoscaling.assumes)),
        workloads,
        ZonesAndNodes(len(zones[:limit]), len(names[:limit])),
        ZonesAndNodes(len(zones), len(names)),
        sorted({*chain.from_iterable(each.left_out for each in outcomes.values())}),
        [*dict.fromkeys(chain.from_iterable(each.not_modelled for each in outcomes.values()))],
        {what: each.end for what, each in outcomes.items() if not each.row.steady},
        without_loss={name: loss.replicas for name, loss in alone.row.lost.items()} or None if alone else None,
        losses=[*losses] if max(len(zones), len(names)) > limit else None,
        is_incomplete=any(each.row.incomplete for each in outcomes.values()),
    )


def _outcomes(
    cluster: ClusterSnapshot,
    zones: Sequence[str],
    names: Sequence[str],
    lose: Callable[[Sequence[Question]], Iterable[Tallied]],
) -> dict[str, Tallied]:
    """Return the effects by lost zone or node, and of no loss."""
    every = {loss.title: loss for scope in ("zone", "node") for loss in each_lost(cluster, scope)}
    of_zones, of_nodes = [f"zone {zone}" for zone in zones], [f"node {name}" for name in names]
    # Nodes first: each takes less time than a zone, so progress moves at once.
    losses = [every[what] for what in (*of_nodes, *of_zones)]
    outcomes = {each.row.case: each for each in lose([Question(_NO_LOSS), *losses] if losses else [])}
    return {what: outcomes[what] for what in (_NO_LOSS, *of_zones, *of_nodes) if what in outcomes}


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
        self._free: dict[tuple[Callable[[Node], bool], int], Amounts] = {}

    def priority(self, interval: PodInterval) -> int:
        return self._by_group.get(interval.pod, interval.priority)

    def free_below(self, name: str, priority: int) -> Amounts:
        """Return the free amounts of a node without all Pods below a priority."""
        priorities, sums = self._sums[name]
        return sums[bisect_left(priorities, priority)]

    def maximum(self, names: Iterable[str], priority: int) -> Amounts:
        """Return the maximum free amounts of these nodes; `priority`: see `free_below`."""
        found = [self.free_below(name, priority) for name in names]
        return Amounts(max((cpu for cpu, _ in found), default=0), max((memory for _, memory in found), default=0))

    def free_for(self, pod: Pod, priority: int) -> Amounts:
        """Return the maximum free amounts of nodes that the filters allow for a Pod; `priority`: see `free_below`."""
        key = passes, _ = self._filters.filter_for(pod), priority
        if key not in self._free:
            self._free[key] = self.maximum((name for name, node in self._nodes.items() if passes(node)), priority)
        return self._free[key]

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


def _preempting_classes(cluster: ClusterSnapshot) -> list[PriorityClass]:
    """Return the PriorityClasses that may preempt, lowest first, without the system classes."""
    found = [c for c in cluster.priority_classes.values() if c.preemption_policy != PREEMPT_NEVER]
    return sorted((c for c in found if c.name not in SYSTEM_NAMES), key=lambda c: (c.value, c.name))


def _risk(
    name: str,
    intervals: Sequence[PodInterval],
    pods: Sequence[Pod],
    classes: Sequence[PriorityClass],
    free_amounts: _FreeAmounts,
    losses: Mapping[str, Tallied],
    cluster: ClusterSnapshot,
) -> WorkloadRisk:
    """Return the risks of one workload, from the lowest priority of its Pods, which are preempted first.

    `intervals`, `pods`: the workload's Pods on nodes. `classes`: PriorityClasses that may preempt, lowest first.
    """
    least = min(intervals, key=lambda interval: interval.priority)
    lowest = min(map(free_amounts.priority, intervals))
    above = classes[bisect_right(classes, lowest, key=lambda each: each.value) :]
    allowed = {pod.node_name for pod in pods if free_amounts.is_allowed(pod)}
    amounts = [
        free_amounts.maximum(allowed, lowest),
        *(free_amounts.free_for(pod, lowest) for pod in pods[:1]),
    ]  # the affinity of a DaemonSet's Pod names one node
    free = Amounts(max(cpu for cpu, _ in amounts), max(memory for _, memory in amounts))
    preemptors = [Preemptor(c.name, c.value, free, free_amounts.maximum(allowed, c.value)) for c in above[:MAX_CLASSES]]
    own = {what: each.row for what, each in losses.items() if name in each.row.lost}
    return WorkloadRisk(
        workload=name,
        namespace=least.namespace,
        priority_class=least.priority_class,
        priority=least.priority,
        pods=len(intervals),
        classes_above=len(above),
        may_be_preempted_by=preemptors,
        loses_replicas_with={what: row.lost[name].replicas for what, row in own.items()},
        rejected_by_quota={
            what: min(row.rejections[name], row.lost[name].replicas)
            for what, row in own.items()
            if row.rejections.get(name)
        },
        pod_losses=losses_of(pods, cluster.workload),
        pod_groups=_pod_groups(cluster, pods),
        rivals={what: row.lost[name].rivals for what, row in own.items() if row.lost[name].rivals} or None,
        with_new_nodes={what: each.later[name] for what, each in losses.items() if name in each.later},
        only_in=_only_place(pods, cluster),
    )


def _only_place(pods: Sequence[Pod], cluster: ClusterSnapshot) -> str | None:
    """Return the node or zone on which all these Pods run; None for a DaemonSet, one Pod that is not the replica of a
    Deployment, ReplicaSet or StatefulSet, or if the cluster has no other.
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
