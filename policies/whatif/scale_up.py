"""Plan the nodes that cluster-autoscaler adds for Pending Pods: an estimate for each node group, and the choice.

Sources, of cluster-autoscaler 1.36.1: core/scaleup/orchestrator/orchestrator.go, core/scaleup/equivalence/groups.go,
estimator/binpacking_estimator.go, estimator/decreasing_pod_orderer.go, core/podlistprocessor/filter_out_schedulable.go,
expander/waste/waste.go. The filters are those of `policies.scheduling`. If upstream depends on the order of a Go map
(Pods of equal score, nodes of a snapshot), the order here is the input order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.metering import CutShort, charge, metered
from forewarn.policies.scheduling.framework import PluginFault
from forewarn.policies.scheduling.responsible import not_predicted
from forewarn.policies.scheduling.schedule_one import Prediction
from forewarn.policies.whatif.node_estimate import MAX_NODES, MAX_SIZE_REACHED, NOT_TRIED, EquivalenceGroup, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.whatif.node_groups import NodeGroup

_MAX_PER_CONTROLLER: Final = 10
"""Maximum groups of equal Pods per controller. Source: maxEquivalenceGroupsByController."""
MAX_SCALE_UPS: Final = 100
"""Maximum scale-ups in sequence, as cluster-autoscaler's loop would continue with the remaining Pods."""
MAX_WORK: Final = 20_000_000
"""Maximum units of work for one plan: less than a minute."""


LOST: Final = "its nodes would be in what is lost"


class Option(NamedTuple):
    """What one node group offers: `nodes` new nodes for `pods` Pods.

    `waste`: the idle share of the new nodes' cpu plus that of their memory.
    """

    group: str
    nodes: int
    pods: int
    waste: float


class ForWorkload(NamedTuple):
    """The number of a workload's Pods that fit on a number of new nodes."""

    workload: str
    pods: int
    nodes: int


class ScaleUp(NamedTuple):
    """One scale-up: the chosen node group, and all `options` in the file's order.

    `ties`: other groups that are equally good; upstream chooses randomly among these. `workloads`: whose Pods get
    nodes.
    """

    option: Option
    options: Sequence[Option]
    ties: Sequence[str]
    workloads: Sequence[ForWorkload]


class NotHelped(NamedTuple):
    """Pods of a workload for which no node group adds a node. `reasons`: node group -> upstream's message."""

    workload: str
    pods: int
    reasons: Mapping[str, str]


class Plan(NamedTuple):
    """The scale-ups in sequence, and the Pods that remain Pending.

    `fit`: number of Pods that fit on existing nodes. `cut`: true if the work exceeded MAX_WORK, so that further
    scale-ups are unknown. `lost`: the node groups whose nodes would be in what is lost.
    """

    scale_ups: Sequence[ScaleUp]
    not_helped: Sequence[NotHelped]
    fit: int = 0
    cut: bool = False
    lost: Sequence[str] = ()


def plan(
    pods: Iterable[Pod],
    snapshot: Snapshot,
    groups: Sequence[NodeGroup],
    daemon_sets: Iterable[ApiObject],
    workload_of: Callable[[Pod], str],
) -> Plan:
    """Return the nodes to add for these Pending Pods. Raises InvalidObject.

    `snapshot`: the cluster as cluster-autoscaler sees it. `groups`: the node groups that may grow. `workload_of`:
    returns the displayed workload of a Pod.
    """
    daemon_sets = list(daemon_sets)
    scale_ups: list[ScaleUp] = []
    waiting = sorted(pods, key=lambda pod: -pod.effective_priority)
    fit, cut, equivalence_groups = 0, False, [EquivalenceGroup([pod]) for pod in waiting]
    max_added = {group.name: group.max_added for group in groups}
    added = Counter[str]()
    try:
        with metered(lambda: False, MAX_WORK):
            while waiting and len(scale_ups) < MAX_SCALE_UPS:
                snapshot, waiting = _without_schedulable(snapshot, waiting)
                fit += sum(len(equivalence_group.pods) for equivalence_group in equivalence_groups) - len(waiting)
                equivalence_groups = group_by_scheduling_properties(waiting)
                estimates = [
                    estimate
                    for group in groups
                    if (
                        estimate := _estimated(
                            snapshot, equivalence_groups, group, max_added[group.name], added, daemon_sets
                        )
                    ).placed
                ]
                if not estimates:
                    break
                scale_up, chosen = _chosen(estimates, workload_of)
                scale_ups.append(scale_up)
                snapshot = chosen.after()
                name = chosen.group.name
                added[name] += chosen.added
                if (rest := max_added[name]) is not None:
                    max_added[name] = rest - chosen.nodes
                placed = {id(pod) for pod, _ in chosen.placed}
                waiting = [pod for pod in waiting if id(pod) not in placed]
                equivalence_groups = [
                    EquivalenceGroup([pod for pod in equivalence_group.pods if id(pod) not in placed])
                    for equivalence_group in equivalence_groups
                ]
    except CutShort:
        cut = True
    lost = [group.name for group in groups if group.lost]
    return Plan(scale_ups, _not_helped(equivalence_groups, groups, workload_of), fit, cut, lost)


def without_schedulable(pods: Iterable[Pod], snapshot: Snapshot) -> list[Pod]:
    """Return the Pods that do not fit on existing nodes, at most MAX_WORK; the Pods after that limit also."""
    waiting = sorted(pods, key=lambda pod: -pod.effective_priority)
    try:
        with metered(lambda: False, MAX_WORK):
            return _without_schedulable(snapshot, waiting)[1]
    except CutShort:
        return waiting


def _not_helped(
    equivalence_groups: Iterable[EquivalenceGroup], groups: Sequence[NodeGroup], workload_of: Callable[[Pod], str]
) -> list[NotHelped]:
    """Return the Pods that no node group helps, by workload and reasons."""
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for equivalence_group in equivalence_groups:
        reasons = tuple(equivalence_group.reasons.get(group.name, NOT_TRIED) for group in groups)
        for pod in equivalence_group.pods:
            counts[workload_of(pod), reasons] += 1
    names = [group.name for group in groups]
    return [
        NotHelped(workload, count, dict(zip(names, why, strict=True)))
        for (workload, why), count in sorted(counts.items())
    ]


def group_by_scheduling_properties(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """Group equal Pods by controller, labels and spec. Source: upstream `groupPodsBySchedulingProperties`."""
    equivalence_groups: list[EquivalenceGroup] = []
    of_controller: dict[tuple[str, ...], list[EquivalenceGroup]] = {}
    for pod in pods:
        known: list[EquivalenceGroup] = []
        if pod.owner is not None:
            known = of_controller.setdefault((pod.namespace, pod.owner.kind, pod.owner.name, pod.owner.uid), [])
            charge(1 + len(known))
        same = next((equivalence_group for equivalence_group in known if _same(equivalence_group.pods[0], pod)), None)
        if same is not None:
            same.pods.append(pod)
            continue
        equivalence_groups.append(EquivalenceGroup([pod]))
        if pod.owner is not None and len(known) < _MAX_PER_CONTROLLER:
            known.append(equivalence_groups[-1])
    return equivalence_groups


def _same(one: Pod, other: Pod) -> bool:
    return (
        one.labels == other.labels
        and one.spec == other.spec
        and one.device_claims == other.device_claims
        and one.effective_priority == other.effective_priority
    )


def _without_schedulable(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[Snapshot, list[Pod]]:
    """Return the cluster with the Pods that fit on existing nodes placed, and the Pods that do not fit.

    Tries Pods in the given order. If one Pod does not fit, equal ones are not tried. Source:
    `filterOutSchedulableByPacking`.
    """
    unschedulable: list[Pod] = []
    hopeless: set[int] = set()
    like_of = {
        id(pod): id(equivalence_group)
        for equivalence_group in group_by_scheduling_properties(pods)
        for pod in equivalence_group.pods
    }
    for pod in pods:
        equivalence_group = like_of[id(pod)]
        prediction = (
            None if equivalence_group in hopeless or not_predicted(pod, snapshot) else Prediction(snapshot, pod)
        )
        if prediction is None or not prediction.fits:
            hopeless.add(equivalence_group)
            unschedulable.append(pod)
        else:
            snapshot = snapshot.with_pods([snapshot.bound(pod, prediction.feasible[0])], ())
    return snapshot, unschedulable


def _estimated(
    base: Snapshot,
    equivalence_groups: Sequence[EquivalenceGroup],
    group: NodeGroup,
    capacity: int | None,
    added: Mapping[str, int],
    daemon_sets: Sequence[ApiObject],
) -> Estimate:
    """Return the estimate of new nodes for the Pods that fit on a node of the group; record why other Pods do not fit.

    `capacity`: number of nodes that may be added; None if unknown. `added`: number of nodes added before, by node
    group.
    """
    most = MAX_NODES if capacity is None else min(capacity, MAX_NODES)
    estimate = Estimate(base, group, most, added[group.name], daemon_sets)
    if group.lost or most <= 0:
        for equivalence_group in equivalence_groups:
            equivalence_group.reasons[group.name] = LOST if group.lost else MAX_SIZE_REACHED
        return estimate
    fitting = []
    for equivalence_group in equivalence_groups:
        why = estimate.why_not(equivalence_group)
        if why:
            equivalence_group.reasons[group.name] = why
        else:
            fitting.append(equivalence_group)
    try:
        estimate.run(fitting)
    except PluginFault as fault:
        for equivalence_group in fitting:
            equivalence_group.reasons[group.name] = str(fault)
        estimate.placed.clear()
    return estimate


def _chosen(estimates: Sequence[Estimate], workload_of: Callable[[Pod], str]) -> tuple[ScaleUp, Estimate]:
    """Return the scale-up with the least waste, and its estimate. Source: expander/waste `BestOptions`."""
    options = [Option(each.group.name, each.nodes, len(each.placed), _waste(each)) for each in estimates]
    least = min(option.waste for option in options)
    best = [index for index, option in enumerate(options) if option.waste == least]
    chosen = estimates[best[0]]
    nodes: dict[str, set[str]] = {}
    pods = Counter[str]()
    for pod, node in chosen.placed:
        workload = workload_of(pod)
        nodes.setdefault(workload, set()).add(node)
        pods[workload] += 1
    workloads = [ForWorkload(name, pods[name], len(nodes[name])) for name in sorted(pods)]
    return ScaleUp(options[best[0]], options, [options[index].group for index in best[1:]], workloads), chosen


def _waste(estimate: Estimate) -> float:
    """Return the idle share of the new nodes' cpu plus that of their memory."""
    capacity, nodes = estimate.group.capacity, estimate.nodes
    cpu, memory = capacity.milli_cpu * nodes, capacity.memory * nodes
    requests = [pod.occupies.resource for pod, _ in estimate.placed]
    return (cpu - sum(a.milli_cpu for a in requests)) / cpu + (memory - sum(a.memory for a in requests)) / memory
