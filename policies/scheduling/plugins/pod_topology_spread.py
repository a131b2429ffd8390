"""PodTopologySpread: how evenly pods lie over zones and nodes. Source: upstream `plugins/podtopologyspread`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, log
from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.metering import charge, each, meter
from forewarn.policies.objects.taints import untolerated_taint
from forewarn.policies.objects.topology_spread import TopologySpreadConstraint
from forewarn.policies.scheduling.arguments import SYSTEM_DEFAULTING
from forewarn.policies.scheduling.framework import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    Status,
    failed,
    unresolvable,
    unschedulable,
)
from forewarn.policies.scheduling.plugins.default_selector import default_selector
from forewarn.policies.scheduling.plugins.pod_topology_spread_columns import HOSTNAME, spread
from forewarn.policies.scheduling.status import NOT_FOUND
from forewarn.policies.scheduling.vectorized.problem import NodeFitProblem, NotValid
from forewarn.policies.scheduling.vectorized.rejections import Present, Rejections, rejected
from forewarn.policies.selectors import with_label_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import PodTopologySpreadArgs
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.scheduling.node_info import NodeInfo

NOT_MATCHED: Final = unschedulable("node(s) didn't match pod topology spread constraints")
LABEL_MISSING: Final = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway"),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", "ScheduleAnyway"),
)
_MAX_INT32: Final = 2**31 - 1

Constraints = tuple[TopologySpreadConstraint, ...]


class CriticalPaths:
    """The minimum of a constraint's counts, updated while one domain changes.

    Two domains suffice, because preemption evaluates one node at a time. Source: upstream `criticalPaths`.
    """

    __slots__ = ("least", "least_value", "other", "other_value")

    def __init__(self) -> None:
        self.least_value = self.other_value = ""
        self.least = self.other = _MAX_INT32

    def clone(self) -> CriticalPaths:
        """A copy."""
        copy = CriticalPaths()
        copy.least_value, copy.least = self.least_value, self.least
        copy.other_value, copy.other = self.other_value, self.other
        return copy

    def update(self, value: str, count: int) -> None:
        """The domain `value` has `count` matching pods now."""
        if value == self.least_value:
            self.least = count
        elif value == self.other_value:
            self.other = count
        elif count < self.least:
            self.other_value, self.other = self.least_value, self.least
            self.least_value, self.least = value, count
            return
        elif count < self.other:
            self.other_value, self.other = value, count
            return
        if self.least > self.other:
            self.least_value, self.other_value = self.other_value, self.least_value
            self.least, self.other = self.other, self.least


@dataclass(slots=True)
class _FilterState:
    """Per constraint: the least count, and the count of every domain."""

    constraints: Constraints
    critical_paths: list[CriticalPaths]
    counts: list[dict[str, int]]

    def clone(self) -> _FilterState:
        charge(sum(map(len, self.counts)) // 32 + len(self.counts))
        return _FilterState(
            self.constraints, [paths.clone() for paths in self.critical_paths], [dict(counts) for counts in self.counts]
        )

    def min_match_num(self, index: int) -> int:
        """The global minimum; 0 while there are fewer domains than asked for."""
        if len(self.counts[index]) < self.constraints[index].min_domains:
            return 0
        return self.critical_paths[index].least


@dataclass(frozen=True, slots=True)
class _ScoreState:
    """Per constraint: the count of every domain of a feasible node, and how much the topology weighs."""

    constraints: Constraints
    ignored: frozenset[str]
    counts: tuple[dict[str, int], ...]
    weights: tuple[float, ...]


class PodTopologySpread(Plugin):
    """Rejects nodes where DoNotSchedule constraints would be broken; scores ScheduleAnyway ones.

    Without constraints of its own a pod that belongs to a Service or a controller gets the system's defaults.
    """

    name: ClassVar[str] = "PodTopologySpread"
    needs_pre_filter: ClassVar[str] = f'reading "PreFilterPodTopologySpread" from cycleState: {NOT_FOUND}'
    needs_pre_score: ClassVar[str] = f'error reading "PreScorePodTopologySpread" from cycleState: {NOT_FOUND}'
    args: PodTopologySpreadArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Upstream `PreFilter`. The system's defaults only score."""
        if any(c.error and c.when_unsatisfiable == DO_NOT_SCHEDULE for c in pod.spec.topology_spread):
            return PreFilterResult(status=failed("get constraints from pod: its label selector cannot be read"))
        constraints = self._of(pod, DO_NOT_SCHEDULE)
        if not constraints:
            return PreFilterResult(status=SKIP)
        counts: list[dict[str, int]] = [{} for _ in constraints]
        work = meter()
        for node_info in nodes:
            node = node_info.node
            if not _has_all_keys(node, constraints):
                work.charge(1)
                continue
            work.charge(len(constraints) * (2 + len(node_info.pods) // 4))
            for index, constraint in enumerate(constraints):
                if _included(constraint, pod, node):
                    value = node.labels[constraint.topology_key]
                    count = self._matching(node_info.pods, constraint, pod.namespace)
                    counts[index][value] = counts[index].get(value, 0) + count
        critical_paths = [CriticalPaths() for _ in constraints]
        for paths, by_value in zip(critical_paths, counts, strict=True):
            for value, count in by_value.items():
                paths.update(value, count)
        state.data[self.name] = _FilterState(constraints, critical_paths, counts)
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        """Upstream `AddPod`."""
        _update_with_pod(state.data[self.name], pod, added, node_info.node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        """Upstream `RemovePod`."""
        _update_with_pod(state.data[self.name], pod, removed, node_info.node, -1)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Upstream `Filter`: matching pods + this one - global minimum ≤ maxSkew."""
        filter_state: _FilterState = state.data[self.name]
        labels = node_info.node.labels
        for index, constraint in enumerate(each(filter_state.constraints, 0.5)):
            value = labels.get(constraint.topology_key)
            if value is None:
                return LABEL_MISSING
            count = filter_state.counts[index].get(value, 0) + constraint.matches(pod.labels)
            if count - filter_state.min_match_num(index) > constraint.max_skew:
                return NOT_MATCHED
        return None

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Upstream `PreScore`."""
        own = bool(pod.spec.topology_spread) or self.args.defaulting_type != SYSTEM_DEFAULTING
        constraints = self._of(pod, SCHEDULE_ANYWAY)
        if not constraints:
            return SKIP
        ignored = frozenset(n.name for n in nodes if own and not _has_all_keys(n.node, constraints))
        scored = [n.node for n in nodes if n.name not in ignored]
        charge(len(nodes) * len(constraints) // 8)
        counts: list[dict[str, int]] = [
            {} if c.topology_key == HOSTNAME else {node.labels.get(c.topology_key, ""): 0 for node in scored}
            for c in constraints
        ]
        sizes = [len(scored if c.topology_key == HOSTNAME else n) for c, n in zip(constraints, counts, strict=True)]
        self._count(constraints, counts, pod, own=own)
        state.data[self.name] = _ScoreState(constraints, ignored, tuple(counts), tuple(log(s + 2) for s in sizes))
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Upstream `Score`: the fewer the better, until normalized."""
        score_state: _ScoreState = state.data[self.name]
        if node_info.name in score_state.ignored:
            return 0
        score = 0.0
        for index, constraint in enumerate(each(score_state.constraints, 2)):
            value = node_info.node.labels.get(constraint.topology_key)
            if value is None:
                continue
            if constraint.topology_key == HOSTNAME:
                count = self._matching(node_info.pods, constraint, pod.namespace)
            else:
                count = score_state.counts[index][value]
            score += float(count) * score_state.weights[index] + float(constraint.max_skew - 1)
        return floor(score + 0.5)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:  # noqa: ARG002
        """Upstream `NormalizeScore`; nodes that lack a key of the pod's own constraints get 0."""
        ignored = state.data[self.name].ignored
        counted = [score for name, score in scores.items() if name not in ignored]
        least, most = min(counted, default=0), max(counted, default=0)
        for name, score in scores.items():
            if name in ignored:
                scores[name] = 0
            else:
                scores[name] = MAX_NODE_SCORE * (most + least - score) // most if most else MAX_NODE_SCORE

    def in_columns(self, problem: NodeFitProblem) -> None:
        """Return the nodes whose skew preemption can resolve."""
        pod = problem.pod
        if any(c.error and c.when_unsatisfiable == DO_NOT_SCHEDULE for c in pod.spec.topology_spread):
            raise NotValid
        for constraint in spread(problem, self._of(pod, DO_NOT_SCHEDULE)):
            problem.add(constraint)

    def rejections_in_columns(self, problem: NodeFitProblem, amounts: Present) -> Iterator[Rejections]:
        """One constraint after the other: the label that is missing, then the skew."""
        constraints = self._of(problem.pod, DO_NOT_SCHEDULE)
        for constraint, demand in zip(constraints, problem.added[self.name], strict=True):
            has_label = problem.matrix.nodes.topology(constraint.topology_key).present
            yield rejected(~has_label, LABEL_MISSING)
            yield rejected(amounts.exceeded(demand), NOT_MATCHED)

    def _of(self, pod: Pod, action: str) -> Constraints:
        """The pod's own constraints, else the default ones. Source: upstream `getConstraints`."""
        if pod.spec.topology_spread:
            return _constraints(pod.spec.topology_spread, pod, action)
        system = self.args.defaulting_type == SYSTEM_DEFAULTING
        defaults = SYSTEM_DEFAULTS if system else self.args.default_constraints
        wanted = [constraint for constraint in defaults if constraint.when_unsatisfiable == action]
        if not wanted:
            return ()
        selector = default_selector(pod, self.snapshot.objects)
        return () if selector.empty else tuple(replace(constraint, selector=selector) for constraint in wanted)

    def _matching(self, pods: Sequence[Pod], constraint: TopologySpreadConstraint, namespace: str) -> int:
        """Pods of the namespace that match and do not terminate. Source: upstream `countPodsMatchSelector`."""
        if not constraint.counts_pods(self.snapshot.semantics):
            return 0
        return sum(p.namespace == namespace and not p.terminating and constraint.matches(p.labels) for p in pods)

    def _count(self, constraints: Constraints, counts: list[dict[str, int]], pod: Pod, *, own: bool) -> None:
        """Count pods of every node in the domains of the feasible ones."""
        work = meter()
        for node_info in self.snapshot.node_infos:
            node = node_info.node
            if own and not _has_all_keys(node, constraints):
                work.charge(1)
                continue
            work.charge(len(constraints) * (2 + len(node_info.pods) // 4))
            for constraint, by_value in zip(constraints, counts, strict=True):
                value = node.labels.get(constraint.topology_key, "")
                if value in by_value and _included(constraint, pod, node):
                    by_value[value] += self._matching(node_info.pods, constraint, pod.namespace)


def default_constraints(pod: Pod, objects: ClusterObjects) -> Constraints:
    """The system's defaults by the selectors of the pod's Services and controller; none where there are none.

    Source: upstream `buildDefaultConstraints`.
    """
    selector = default_selector(pod, objects)
    if selector.empty:
        return ()
    return tuple(replace(constraint, selector=selector) for constraint in SYSTEM_DEFAULTS)


def do_not_schedule(pod: Pod) -> Constraints:
    """The pod's own constraints that its place must meet."""
    return _constraints(pod.spec.topology_spread, pod, DO_NOT_SCHEDULE)


def schedule_anyway(pod: Pod) -> Constraints:
    """The pod's own constraints by which places are scored."""
    return _constraints(pod.spec.topology_spread, pod, SCHEDULE_ANYWAY)


def _constraints(constraints: Constraints, pod: Pod, action: str) -> Constraints:
    """Those with this `whenUnsatisfiable`. Source: upstream `filterTopologySpreadConstraints`."""
    return tuple(
        replace(c, selector=with_label_keys(c.selector, "In", c.match_label_keys, pod.labels))
        for c in constraints
        if c.when_unsatisfiable == action
    )


def _has_all_keys(node: Node, constraints: Constraints) -> bool:
    return all(constraint.topology_key in node.labels for constraint in each(constraints, 0.1))


def _included(constraint: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    """Source: upstream `matchNodeInclusionPolicies`."""
    if constraint.node_affinity_policy == "Honor" and not pod.spec.node_affinity.matches(node.labels, node.name):
        return False
    return constraint.node_taints_policy != "Honor" or untolerated_taint(node.taints, pod.spec.tolerations) is None


def _update_with_pod(state: _FilterState, pod: Pod, changed: Pod, node: Node, delta: int) -> None:
    """Source: upstream `updateWithPod`. Unlike the count before, terminating pods and empty selectors always count."""
    if changed.namespace != pod.namespace or not _has_all_keys(node, state.constraints):
        return
    labels: Mapping[str, str] = changed.labels
    for index, constraint in enumerate(each(state.constraints, 1)):
        if constraint.matches(labels) and _included(constraint, pod, node):
            value = node.labels[constraint.topology_key]
            counts = state.counts[index]
            counts[value] = counts.get(value, 0) + delta
            state.critical_paths[index].update(value, counts[value])
