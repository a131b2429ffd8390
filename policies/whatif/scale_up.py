"""Which nodes cluster-autoscaler would bring for pods that wait: its estimate, group by group, and its choice.

Sources, of cluster-autoscaler 1.36.1: core/scaleup/orchestrator/orchestrator.go, core/scaleup/equivalence/groups.go,
estimator/binpacking_estimator.go, estimator/decreasing_pod_orderer.go, core/podlistprocessor/filter_out_schedulable.go,
expander/waste/waste.go. Filters are those of the scheduling core. Where upstream leaves something to the order of a Go
map (pods of one score, nodes of a snapshot), the order here is that of arrival.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.metering import CutShort, charge, metered
from policies.scheduling.framework import FILTERS, CycleState, PluginFault, Status, unresolvable
from policies.scheduling.node_info import NodeInfo
from policies.scheduling.responsible import framework_of, not_predicted
from policies.scheduling.schedule_one import Prediction
from policies.whatif.node_groups import HOSTNAME, daemon_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.scheduling.framework import Framework
    from policies.scheduling.snapshot import Snapshot
    from policies.whatif.node_groups import NodeGroup

MOST_NODES: Final = 1_000
"""Nodes of one scale-up. Source: --max-nodes-per-scaleup."""
MOST_SCALE_UPS: Final = 100
"""One after the other, as cluster-autoscaler's loop would go on with the pods that are left."""
MOST_WORK: Final = 20_000_000
"""Units that one answer may cost: under a minute."""
MAX_SIZE_REACHED: Final = "max node group size reached"
"""Upstream's words, as those of the filters are. Source: orchestrator/skippedreasons.go."""
NOT_TRIED: Final = "estimate limit reached"
_FILTERED_OUT: Final = unresolvable("PreFilter filtered the Node out")
_SPREAD: Final = "node(s) didn't match pod topology spread constraints"
_NEW_NODE: Final = 20
"""Units of work that one more node costs."""
_MOST_OF_CONTROLLER: Final = 10
"""Groups of like pods that one controller may have. Source: maxEquivalenceGroupsByController."""
_NODE_ALONE: Final = frozenset(
    {
        "NodeAffinity",
        "NodeDeclaredFeatures",
        "NodeName",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "TaintToleration",
    }
)
"""Filters that look at the pod and one node: what they prepared for a pod holds for its like, whatever comes."""


class Option(NamedTuple):
    """What one group could do: `nodes` new nodes for `pods`. `waste`: the idle part of cpu plus that of memory."""

    group: str
    nodes: int
    pods: int
    waste: float


class ForWorkload(NamedTuple):
    """How many `pods` of a workload are to run on how many of the new `nodes`."""

    workload: str
    pods: int
    nodes: int


class ScaleUp(NamedTuple):
    """The group that is chosen, and the `options` that there were, in the file's order. `ties`: other groups that
    would be as good: upstream draws lots."""

    option: Option
    options: Sequence[Option]
    ties: Sequence[str]
    workloads: Sequence[ForWorkload]


class NotHelped(NamedTuple):
    """Pods of a workload for which no group brings a node. `reasons`: group -> upstream's words."""

    workload: str
    pods: int
    reasons: Mapping[str, str]


class Plan(NamedTuple):
    """The scale-ups, one after the other, and who is left. `fit`: pods that fit on nodes that are there.

    `cut`: there was too much to work out; what is left out of `scale_ups` then is not known.
    """

    scale_ups: Sequence[ScaleUp]
    not_helped: Sequence[NotHelped]
    fit: int = 0
    cut: bool = False


class Like:
    """Pods that are alike to the scheduler. Source: equivalence `PodGroup`."""

    def __init__(self, pods: list[Pod]) -> None:
        self.pods = pods
        self.reasons: dict[str, str] = {}


def plan(
    pods: Iterable[Pod],
    snapshot: Snapshot,
    groups: Sequence[NodeGroup],
    daemon_sets: Iterable[ApiObject],
    workload_of: Callable[[Pod], str],
) -> Plan:
    """What would be brought for these pods, in a cluster as cluster-autoscaler sees it. Raises InvalidObject where a
    DaemonSet's template is none."""
    daemon_sets = list(daemon_sets)
    scale_ups: list[ScaleUp] = []
    waiting = sorted(pods, key=lambda pod: -pod.effective_priority)
    fit, cut, left = 0, False, [Like([pod]) for pod in waiting]
    room = {group.name: group.room for group in groups}
    made = Counter[str]()
    try:
        with metered(lambda: False, MOST_WORK):
            while waiting and len(scale_ups) < MOST_SCALE_UPS:
                snapshot, waiting = _without_schedulable(snapshot, waiting)
                fit += sum(len(like.pods) for like in left) - len(waiting)
                left = alike(waiting)
                found = [
                    estimate
                    for group in groups
                    if (estimate := _estimated(snapshot, left, group, room[group.name], made, daemon_sets)).placed
                ]
                if not found:
                    break
                scale_up, chosen = _chosen(found, workload_of)
                scale_ups.append(scale_up)
                snapshot = chosen.after()
                name = chosen.group.name
                made[name] += chosen.added
                if (rest := room[name]) is not None:
                    room[name] = rest - chosen.nodes
                placed = {id(pod) for pod, _ in chosen.placed}
                waiting = [pod for pod in waiting if id(pod) not in placed]
                left = [Like([pod for pod in like.pods if id(pod) not in placed]) for like in left]
    except CutShort:
        cut = True
    return Plan(scale_ups, _not_helped(left, groups, workload_of), fit, cut)


def _not_helped(
    left: Iterable[Like], groups: Sequence[NodeGroup], workload_of: Callable[[Pod], str]
) -> list[NotHelped]:
    """By workload, and by why no group helps."""
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for like in left:
        reasons = tuple(like.reasons.get(group.name, NOT_TRIED) for group in groups)
        for pod in like.pods:
            counts[workload_of(pod), reasons] += 1
    names = [group.name for group in groups]
    return [NotHelped(who, count, dict(zip(names, why, strict=True))) for (who, why), count in sorted(counts.items())]


def alike(pods: Iterable[Pod]) -> list[Like]:
    """Pods by controller, labels and spec. Source: `groupPodsBySchedulingProperties`."""
    found: list[Like] = []
    of_controller: dict[tuple[str, ...], list[Like]] = {}
    for pod in pods:
        known: list[Like] = []
        if pod.owner is not None:
            known = of_controller.setdefault((pod.namespace, pod.owner.kind, pod.owner.name, pod.owner.uid), [])
            charge(1 + len(known))
        same = next((like for like in known if _same(like.pods[0], pod)), None)
        if same is not None:
            same.pods.append(pod)
            continue
        found.append(Like([pod]))
        if pod.owner is not None and len(known) < _MOST_OF_CONTROLLER:
            known.append(found[-1])
    return found


def _same(one: Pod, other: Pod) -> bool:
    return (
        one.labels == other.labels
        and one.spec == other.spec
        and one.device_claims == other.device_claims
        and one.effective_priority == other.effective_priority
    )


def _without_schedulable(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[Snapshot, list[Pod]]:
    """The pods that fit nowhere, and the cluster with the others in their places, the most important first.

    Source: `filterOutSchedulableByPacking`. Of pods that are alike none is tried behind one that does not fit.
    """
    kept: list[Pod] = []
    hopeless: set[int] = set()
    like_of = {id(pod): id(like) for like in alike(pods) for pod in like.pods}
    for pod in pods:
        like = like_of[id(pod)]
        prediction = None if like in hopeless or not_predicted(pod, snapshot) else Prediction(snapshot, pod)
        if prediction is None or not prediction.fits:
            hopeless.add(like)
            kept.append(pod)
        else:
            snapshot = snapshot.with_pods([snapshot.bound(pod, prediction.feasible[0])], ())
    return snapshot, kept


class Estimate:
    """How many nodes of a group some pods need. Source: `BinpackingNodeEstimator`.

    `placed`: the pods that get a place, and on which node; `nodes`: how many nodes have got one.
    """

    def __init__(self, base: Snapshot, group: NodeGroup, most: int, first: int, daemons: Sequence[ApiObject]) -> None:
        """`most`: nodes that may be added; `first`: the number of the first of them."""
        self.group = group
        self.placed: list[tuple[Pod, str]] = []
        self._base, self._most, self._first = base, most, first
        self._infos: list[NodeInfo] = []
        self._taken: set[str] = set()
        self._snapshot: Snapshot | None = None
        self._keeps_away = False
        self._last = 0
        self._template = NodeInfo(group.node, daemon_pods(group.node, daemons), base.semantics)
        charge(len(base.node_infos) // 4)
        self._with_template = base.with_nodes([self._template])

    @property
    def nodes(self) -> int:
        """How many nodes have a pod for whose sake they came."""
        return len(self._taken)

    @property
    def added(self) -> int:
        """How many nodes have been tried, the last of them maybe for nothing."""
        return len(self._infos)

    def after(self) -> Snapshot:
        """The cluster with the nodes that have got a pod."""
        return self._base.with_nodes([info.clone() for info in self._infos if info.name in self._taken])

    def why_not(self, like: Like) -> str:
        """Why one of them does not fit on a node of the group, empty where it does. Source: `SchedulablePodGroups`."""
        if why := not_predicted(like.pods[0], self._base):
            return why
        try:
            framework = framework_of(self._with_template, like.pods[0])
            rejected = self._rejected(_Prepared(framework, like.pods[0]), like.pods[0], self._template)
        except PluginFault as fault:
            return str(fault)
        return "" if rejected is None else ", ".join(rejected.reasons)

    def on_one_node(self, pod: Pod, most: int) -> int | None:
        """How many pods like it a new node takes, `most` at most; None where other nodes have a say. Raises
        PluginFault."""
        prepared, info = _Prepared(framework_of(self._with_template, pod), pod), self._template.clone()
        if not prepared.holds:
            return None
        for number in range(most):
            if self._rejected(prepared, pod, info) is not None:
                return number
            info.add_pod(pod.bound_to(info.name, {}))
        return most

    def with_all(self) -> Snapshot:
        """The cluster with all nodes that may be added, and no pod for whose sake they come."""
        charge(_NEW_NODE * self._most + len(self._base.node_infos) // 4)
        for _ in range(self._most):
            self._add_node()
        return self._base.with_nodes([info.clone() for info in self._infos])

    def run(self, likes: Iterable[Like]) -> None:
        """Place them, the largest first. Source: `Estimate`."""
        more = True
        for like in sorted(likes, key=lambda like: -self._score(like.pods[0])):
            rest = self._on_added(like.pods)
            if more:
                more = self._on_new(rest)

    def _score(self, pod: Pod) -> float:
        """Source: `calculatePodScore`."""
        asked, has = pod.occupies.resource, self.group.node.allocatable
        score = asked.milli_cpu / has.milli_cpu if has.milli_cpu > 0 else 0.0
        return score + (asked.memory / has.memory if has.memory > 0 else 0.0)

    def _on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Fill the nodes that have been added; the first pod that finds no place ends it. Those that are left.

        Each search begins behind the node of the last one. Source: `tryToScheduleOnExistingNodes`.
        """
        prepared: _Prepared | None = None
        for index, pod in enumerate(pods):
            prepared = self._prepared(pod, prepared)
            found = next((n for n in self._in_turn() if self._rejected(prepared, pod, self._infos[n]) is None), None)
            if found is None:
                return pods[index:]
            self._last = len(self._base.node_infos) + found
            self._place(pod, self._infos[found])
        return ()

    def _in_turn(self) -> Iterator[int]:
        """The numbers of the added nodes, in the order of `NewLastIndexOrderMapping(1)` over all nodes."""
        before, count = len(self._base.node_infos), len(self._infos)
        first = max((self._last + 1) % (before + count) - before, 0) if count else 0
        yield from range(first, count)
        yield from range(first)

    def _on_new(self, pods: Sequence[Pod]) -> bool:
        """Fill the node that was added last, then add one more. Whether more may be added.

        Source: `tryToScheduleOnNewNodes`.
        """
        prepared: _Prepared | None = None
        for pod in pods:
            if self._infos:
                prepared, last = self._prepared(pod, prepared), self._infos[-1]
                rejected = self._rejected(prepared, pod, last)
                if rejected is None:
                    self._place(pod, last)
                    continue
                if self._on_any_other(prepared, pod, rejected):
                    continue
                if last.name not in self._taken:
                    return True
            if len(self._infos) >= self._most:
                return False
            self._add_node()
            prepared = self._prepared(pod, prepared)
            if self._rejected(prepared, pod, self._infos[-1]) is not None:
                break
            self._place(pod, self._infos[-1])
        return True

    def _on_any_other(self, prepared: _Prepared, pod: Pod, rejected: Status) -> bool:
        """A pod that spreads over hosts may fit on any other node, of the cluster too; upstream counts that one."""
        if _SPREAD not in rejected.reasons or all(c.topology_key != HOSTNAME for c in pod.spec.topology_spread):
            return False
        for info in [*self._base.node_infos, *self._infos[:-1]]:
            if self._rejected(prepared, pod, info) is not None:
                continue
            if info.name in self._base.rows:
                self._base = self._base.with_pods([pod.bound_to(info.name, {})], ())
                self._placed(pod, info.name)
            else:
                self._place(pod, info)
            return True
        return False

    def _add_node(self) -> None:
        info = self._template.clone()
        info.node = self.group.new_node(self._first + len(self._infos))
        self._infos.append(info)
        self._snapshot = None

    def _place(self, pod: Pod, info: NodeInfo) -> None:
        info.add_pod(pod.bound_to(info.name, {}))
        self._placed(pod, info.name)

    def _placed(self, pod: Pod, name: str) -> None:
        self._keeps_away = self._keeps_away or pod.spec.pod_affinity.has_required_anti_affinity
        self._taken.add(name)
        self.placed.append((pod, name))
        self._snapshot = None

    def _prepared(self, pod: Pod, before: _Prepared | None) -> _Prepared:
        """What PreFilter makes of the pod. `before`: of one like it, which may still hold."""
        if before is not None and (before.holds or self._snapshot is not None):
            return before
        if before is None and not self._keeps_away:
            of_node_alone = _Prepared(framework_of(self._with_template, pod), pod)
            if of_node_alone.holds:
                return of_node_alone
        if self._snapshot is None:
            charge((len(self._base.node_infos) + 8 * len(self._infos)) // 4)
            self._snapshot = self._base.with_nodes([info.clone() for info in self._infos])
        return _Prepared(framework_of(self._snapshot, pod), pod)

    def _rejected(self, prepared: _Prepared, pod: Pod, info: NodeInfo) -> Status | None:
        """Source: `RunFiltersOnNode`. Raises PluginFault."""
        charge(FILTERS)
        if prepared.rejected is not None:
            return prepared.rejected
        if prepared.names is not None and info.name not in prepared.names:
            return _FILTERED_OUT
        return prepared.framework.run_filter_plugins(prepared.state, pod, info)


class _Prepared:
    """What PreFilter says of a pod. `holds`: it says the same of every pod like it, whatever nodes and pods come."""

    def __init__(self, framework: Framework, pod: Pod) -> None:
        self.framework, self.state = framework, CycleState()
        result, _ = framework.run_pre_filter_plugins(self.state, pod)
        self.rejected, self.names = result.status, result.names
        asked = {name for name, _ in framework.filters if name not in self.state.skip_filter}
        self.holds = result.status is None and result.names is None and asked <= _NODE_ALONE


def _estimated(
    base: Snapshot,
    likes: Sequence[Like],
    group: NodeGroup,
    room: int | None,
    made: Mapping[str, int],
    daemon_sets: Sequence[ApiObject],
) -> Estimate:
    """What a group could do for the pods that fit on a node of it; of the others, why they do not."""
    most = MOST_NODES if room is None else min(room, MOST_NODES)
    estimate = Estimate(base, group, most, made[group.name], daemon_sets)
    if most <= 0:
        for like in likes:
            like.reasons[group.name] = MAX_SIZE_REACHED
        return estimate
    fitting = []
    for like in likes:
        why = estimate.why_not(like)
        if why:
            like.reasons[group.name] = why
        else:
            fitting.append(like)
    try:
        estimate.run(fitting)
    except PluginFault as fault:
        for like in fitting:
            like.reasons[group.name] = str(fault)
        estimate.placed.clear()
    return estimate


def _chosen(found: Sequence[Estimate], workload_of: Callable[[Pod], str]) -> tuple[ScaleUp, Estimate]:
    """The one that wastes least. Source: expander/waste `BestOptions`."""
    options = [Option(each.group.name, each.nodes, len(each.placed), _waste(each)) for each in found]
    least = min(option.waste for option in options)
    best = [index for index, option in enumerate(options) if option.waste == least]
    chosen = found[best[0]]
    nodes: dict[str, set[str]] = {}
    pods = Counter[str]()
    for pod, node in chosen.placed:
        workload = workload_of(pod)
        nodes.setdefault(workload, set()).add(node)
        pods[workload] += 1
    workloads = [ForWorkload(name, pods[name], len(nodes[name])) for name in sorted(pods)]
    return ScaleUp(options[best[0]], options, [options[index].group for index in best[1:]], workloads), chosen


def _waste(estimate: Estimate) -> float:
    """Of the new nodes' capacity, the part of cpu plus the part of memory that these pods do not ask for."""
    capacity, nodes = estimate.group.capacity, estimate.nodes
    cpu, memory = capacity.milli_cpu * nodes, capacity.memory * nodes
    asked = [pod.occupies.resource for pod, _ in estimate.placed]
    return (cpu - sum(a.milli_cpu for a in asked)) / cpu + (memory - sum(a.memory for a in asked)) / memory
