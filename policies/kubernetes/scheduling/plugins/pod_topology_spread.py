"""PodTopologySpread: topology spread constraints. Source: upstream `plugins/podtopologyspread`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from forewarn.policies.base.copies import replace
from forewarn.policies.base.metering import VECTOR, charge, charging, meter
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.kubernetes.objects.node import HOSTNAME, ZONE, Node
from forewarn.policies.kubernetes.objects.pod import Pod, TopologySpreadConstraint
from forewarn.policies.kubernetes.scheduling.arguments import SYSTEM_DEFAULTING, PodTopologySpreadArgs
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    SKIP,
    CycleState,
    FilterInColumns,
    PreFilterResult,
    Status,
    failed,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized.equivalence_classes import scope_of
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
    Constraint,
    NodeFit,
    Present,
    Rejections,
    Skew,
    rejected,
)
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.kubernetes.scheduling.vectorized.scores import ScorePluginInColumns
from forewarn.policies.kubernetes.selectors import LabelSelector, Requirement, selector_or_error, with_label_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects, Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodCounts, PodMatrix, Topology


_GROUPS: Final = {"v1": "", "apps/v1": "apps"}


def default_selector(pod: Pod, objects: ClusterObjects) -> LabelSelector:
    """Return the selector of the Pod's Services and ReplicationController, ReplicaSet or StatefulSet combined."""
    labels: dict[str, str] = {}
    for service in objects.services.values():
        if service.namespace == pod.namespace and service.matches(pod.labels):
            labels.update(service.selector or {})
    kind, selector = _controller_selector(pod, objects)
    if kind == "/ReplicationController" and isinstance(selector, dict):
        labels.update(selector)
    more: tuple[Requirement, ...] = ()
    if kind in ("apps/ReplicaSet", "apps/StatefulSet"):
        parsed, _ = selector_or_error(selector)
        more = parsed.requirements if parsed else ()
    return LabelSelector((*(Requirement(key, "In", frozenset([value])) for key, value in labels.items()), *more))


def _controller_selector(pod: Pod, objects: ClusterObjects) -> tuple[str, Any]:
    """Return the `group/Kind` of the Pod's controller and its `spec.selector`; ("", None) if it is unknown."""
    group = None if pod.owner is None else _GROUPS.get(pod.owner.api_version)
    if pod.owner is None or group is None:
        return "", None
    kind = f"{group}/{pod.owner.kind}"
    workload = objects.workloads.get((kind, pod.namespace, pod.owner.name))
    return ("", None) if workload is None else (kind, at(workload.object, "spec", "selector"))


def spread(problem: NodeFit, constraints: Sequence[TopologySpreadConstraint]) -> Iterator[Constraint]:
    """Yield the DoNotSchedule `constraints`, evaluated for all nodes. Raises NotValid for an invalid maxSkew."""
    pod, matrix = problem.pod, problem.matrix
    possible = None
    for number, constraint in enumerate(constraints):
        if constraint.max_skew < 1:
            raise NotValid
        if possible is None:
            possible = np.logical_and.reduce([matrix.nodes.topology(c.topology_key).present for c in constraints])
        yield _spread_constraint(pod, matrix, number, constraint, possible)


def _spread_constraint(
    pod: Pod, matrix: PodMatrix, number: int, constraint: TopologySpreadConstraint, possible: Mask
) -> Constraint:
    """Return one topology spread constraint, evaluated for all nodes. `possible`: [node], nodes with all topology keys.

    Upstream's initial count skips terminating Pods, and up to 1.37 empty selectors; AddPod and RemovePod do not.
    """
    counts_pods = constraint.counts_pods(matrix.semantics)

    def changes(other: Pod) -> int:
        return other.namespace == pod.namespace and constraint.matches(other.labels)

    def counted(other: Pod) -> int:
        return counts_pods and not other.terminating and changes(other)

    of_default = () if pod.spec.topology_spread else (constraint,)
    about = pod.namespace, id(pod.labels), id(pod.spec), number, *of_default
    keep = pod.labels, pod.spec
    scope = scope_of(pod.namespace, constraint.selector)
    per_kind = matrix.cached(("spread", *about), keep, changes, scope)
    included = possible & included_nodes(constraint, pod, matrix)
    changing = matrix.counts(("spread", *about), keep, changes, scope).here
    of_counted = matrix.counts(("counted", *about), keep, counted, scope)
    topology = matrix.nodes.topology(constraint.topology_key)
    present = topology.sums(np.where(included, of_counted.here, 0))
    others, domains = _least_elsewhere(topology.values, included, present, len(topology))
    least = others if domains >= constraint.min_domains else np.zeros(len(present), np.int64)
    limit = least + (constraint.max_skew - constraint.matches(pod.labels))
    # If the constraint counts no Pods (an empty selector), matching Pods still change the count.
    skew = None if not counts_pods else Skew(constraint.max_skew, domains < constraint.min_domains, topology.values)
    counts = np.flatnonzero(included & (changing > 0))
    return Constraint(per_kind, included, counts, present, limit, possible, skew=skew)


def pods_that_match(pod: Pod, constraint: TopologySpreadConstraint, matrix: PodMatrix) -> PodCounts:
    """Return the number of Pods on each node that count for a constraint in Score."""
    namespace, counts_pods = pod.namespace, constraint.counts_pods(matrix.semantics)

    def counted(other: Pod) -> int:
        return (
            counts_pods and other.namespace == namespace and not other.terminating and constraint.matches(other.labels)
        )

    selector = constraint.selector
    return matrix.counts(("matching", namespace, selector), selector, counted, scope_of(namespace, selector))


def spread_scores(
    pod: Pod, constraints: Sequence[TopologySpreadConstraint], rows: Rows, matrix: PodMatrix, *, own: bool
) -> Ints | int:
    """Return [index in `rows`]: scores 0 to 100 by ScheduleAnyway constraints. `rows`: row numbers of nodes.

    `own`: a node without one of the topology keys scores 0; otherwise only missing keys do not count. Source: upstream
    PodTopologySpread `PreScore`, `Score`, `NormalizeScore`.
    """
    if own and not matrix.nodes.keys.issuperset(c.topology_key for c in constraints):
        return 0
    topologies = [matrix.nodes.topology(constraint.topology_key) for constraint in constraints]
    possible: Mask | None = None
    scored: Mask | slice = slice(None)
    number = len(rows)
    if own:
        charge(4 * len(constraints) * (len(rows) + len(matrix.serials)) // VECTOR)
        possible = np.logical_and.reduce([topology.present for topology in topologies])
        scored = possible[rows]
        number = int(np.count_nonzero(scored))
        if not number:
            return 0
    total = np.zeros(len(rows), np.float64)
    for constraint, topology in zip(constraints, topologies, strict=True):
        domains, matching = topology.values[rows], pods_that_match(pod, constraint, matrix)
        if constraint.topology_key == HOSTNAME:
            worth = _scores(matching.here[rows], number, constraint)
        else:
            size = int(np.count_nonzero(np.bincount(domains[scored] + 1)))
            worth = _scores(_count_by_domain(pod, constraint, topology, matching, possible, matrix), size, constraint)[
                domains
            ]
        total += worth if possible is not None or domains.min() >= 0 else np.where(domains >= 0, worth, 0.0)
    scores = np.floor(total + 0.5).astype(np.int64)
    least, most = int(scores[scored].min()), int(scores[scored].max())
    shares = MAX_NODE_SCORE * (most + least - scores) // most if most else MAX_NODE_SCORE
    return shares if possible is None else np.where(possible[rows], shares, 0)


def _scores(counts: Ints, domains: int, constraint: TopologySpreadConstraint) -> NDArray[np.float64]:
    """Return the weighted counts, of the same shape. Source: `scoreForCount`, `topologyNormalizingWeight`."""
    return counts.astype(np.float64) * log(domains + 2) + float(constraint.max_skew - 1)


def _count_by_domain(
    pod: Pod,
    constraint: TopologySpreadConstraint,
    topology: Topology,
    matching: PodCounts,
    possible: Mask | None,
    matrix: PodMatrix,
) -> Ints:
    """Return [domain]: the number of matching Pods. `possible`: [node], the nodes that count; None for all."""
    if possible is None and includes_all_nodes(constraint, pod):
        return topology.sums_by_value(matching.here)
    included = included_nodes(constraint, pod, matrix)
    if possible is not None:
        included = included & possible
    return topology.sums_by_value(np.where(included, matching.here, 0))


def includes_all_nodes(constraint: TopologySpreadConstraint, pod: Pod) -> bool:
    """Report whether a constraint counts all nodes: the Pod's node affinity and the nodes' taints do not matter."""
    affinity = pod.spec.node_affinity
    return affinity.node_selector is None and affinity.required is None and constraint.node_taints_policy != "Honor"


def included_nodes(constraint: TopologySpreadConstraint, pod: Pod, matrix: PodMatrix) -> Mask:
    """Return [node], bool: whether a constraint counts the node."""
    spec = pod.spec
    if includes_all_nodes(constraint, pod):
        return np.ones(len(matrix.serials), np.bool_)
    policies = f"{constraint.node_affinity_policy} {constraint.node_taints_policy}"
    return matrix.nodes.values(policies, spec, lambda node: constraint.includes(node, spec), bool)


def _least_elsewhere(domain: Ints, included: Mask, present: Ints, values: int) -> tuple[Ints, int]:
    """Return ([node]: the minimum count of the domains other than the node's; the number of domains).

    `domain`, `included`, `present`: [node], number of the domain, whether the node counts, and count of its domain.
    `values`: number of values.
    """
    by_value = np.full(values + 1, _MAX_INT32, np.int64)
    by_value[domain[included]] = present[included]
    domains = int(np.count_nonzero(by_value != _MAX_INT32))
    if not domains:
        return np.full(len(domain), _MAX_INT32, np.int64), 0
    first, next_one = np.argpartition(by_value, 1)[:2]
    if by_value[next_one] < by_value[first]:
        first, next_one = next_one, first
    return np.where(domain == first, by_value[next_one], by_value[first]), domains


CHANGE: Final = "change topologySpreadConstraints"
NOT_MATCHED: Final = unschedulable(
    Reason(
        "node(s) didn't match pod topology spread constraints",
        "violates its topology spread constraints",
        CHANGE,
        of_pods=True,
    )
)
LABEL_MISSING: Final = unresolvable(
    Reason(
        "node(s) didn't match pod topology spread constraints (missing required label)",
        "no label for a spread constraint",
        CHANGE,
    )
)
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway"),
    TopologySpreadConstraint(5, ZONE, "ScheduleAnyway"),
)
_MAX_INT32: Final = 2**31 - 1

Constraints = tuple[TopologySpreadConstraint, ...]


class CriticalPaths:
    """The minimum of the Pod counts of a constraint's domains, updated when the count of one domain changes.

    Holds only the two lowest domains. These suffice, because preemption evaluates one node at a time. Source: upstream
    `criticalPaths`.
    """

    __slots__ = ("least", "least_value", "other", "other_value")

    def __init__(self) -> None:
        self.least_value = self.other_value = ""
        self.least = self.other = _MAX_INT32

    def update(self, value: str, count: int) -> None:
        """Set the number of matching Pods of the domain `value` to `count`."""
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
    """The DoNotSchedule constraints; for each constraint, the minimum count (`critical_paths`) and topology value
    -> count (`counts`).
    """

    constraints: Constraints
    critical_paths: list[CriticalPaths]
    counts: list[dict[str, int]]

    def clone(self) -> _FilterState:
        charge(sum(map(len, self.counts)) // 32 + len(self.counts))
        return _FilterState(
            self.constraints, [copy(paths) for paths in self.critical_paths], [dict(counts) for counts in self.counts]
        )

    def min_match_num(self, index: int) -> int:
        """Return the minimum count over all domains; 0 if there are fewer domains than `minDomains`."""
        if len(self.counts[index]) < self.constraints[index].min_domains:
            return 0
        return self.critical_paths[index].least


class PodTopologySpread(ScorePluginInColumns, FilterInColumns):
    """Rejects nodes that violate DoNotSchedule constraints; scores ScheduleAnyway constraints.

    A Pod without constraints that belongs to a Service or a controller gets the default constraints.
    """

    name: ClassVar[str] = "PodTopologySpread"
    needs_pre_filter: ClassVar[str] = f'reading "PreFilterPodTopologySpread" from cycleState: {NOT_FOUND}'
    needs_pre_score: ClassVar[str] = f'error reading "PreScorePodTopologySpread" from cycleState: {NOT_FOUND}'
    args: PodTopologySpreadArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Count the matching Pods in each domain of DoNotSchedule constraints. Upstream `PreFilter`."""
        if any(c.error and c.when_unsatisfiable == DO_NOT_SCHEDULE for c in pod.spec.topology_spread):
            return PreFilterResult(status=failed("get constraints from pod: its label selector cannot be read"))
        constraints = self.constraints_of(pod, DO_NOT_SCHEDULE)
        if not constraints:
            return PreFilterResult(status=SKIP)
        counts: list[dict[str, int]] = [{} for _ in constraints]
        self._count(nodes, constraints, counts, pod)
        critical_paths = [CriticalPaths() for _ in constraints]
        for paths, by_value in zip(critical_paths, counts, strict=True):
            for value, count in by_value.items():
                paths.update(value, count)
        state.data[self.name] = _FilterState(constraints, critical_paths, counts)
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        _update_with_pod(state.data[self.name], pod, added, node_info.node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        _update_with_pod(state.data[self.name], pod, removed, node_info.node, -1)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Reject a node if its domain's matching Pods + this Pod - the minimum exceeds maxSkew. Upstream `Filter`."""
        filter_state: _FilterState = state.data[self.name]
        labels = node_info.node.labels
        for index, constraint in enumerate(charging(filter_state.constraints, 0.5)):
            value = labels.get(constraint.topology_key)
            if value is None:
                return LABEL_MISSING
            count = filter_state.counts[index].get(value, 0) + constraint.matches(pod.labels)
            if count - filter_state.min_match_num(index) > constraint.max_skew:
                return NOT_MATCHED
        return None

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        constraints = self.constraints_of(pod, SCHEDULE_ANYWAY)
        # A node without a topology key scores 0, except for the default constraints of the system.
        own = bool(pod.spec.topology_spread) or self.args.defaulting_type != SYSTEM_DEFAULTING
        return spread_scores(pod, constraints, rows, matrix, own=own) if constraints else 0

    def in_columns(self, problem: NodeFit) -> None:
        """Add each DoNotSchedule constraint of the Pod to `problem`. Raises NotValid for invalid constraints."""
        pod = problem.pod
        if any(c.error and c.when_unsatisfiable == DO_NOT_SCHEDULE for c in pod.spec.topology_spread):
            raise NotValid
        for constraint in spread(problem, self.constraints_of(pod, DO_NOT_SCHEDULE)) if problem.possible.any() else ():
            problem.add(constraint)

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield rejections for each constraint: nodes without the label, then nodes that exceed maxSkew."""
        constraints = self.constraints_of(problem.pod, DO_NOT_SCHEDULE)
        for constraint, demand in zip(constraints, problem.added[self.name], strict=False):
            has_label = problem.matrix.nodes.topology(constraint.topology_key).present
            yield rejected(~has_label, LABEL_MISSING)
            yield rejected(amounts.exceeded(demand), NOT_MATCHED)

    def constraints_of(self, pod: Pod, action: str) -> Constraints:
        """Return the Pod's constraints with this `whenUnsatisfiable` (`action`), or the default constraints if the Pod
        has none.

        Source: upstream `getConstraints`, `buildDefaultConstraints`.
        """
        if pod.spec.topology_spread:
            return _constraints(pod.spec.topology_spread, pod, action)
        system = self.args.defaulting_type == SYSTEM_DEFAULTING
        defaults = SYSTEM_DEFAULTS if system else self.args.default_constraints
        wanted = [constraint for constraint in defaults if constraint.when_unsatisfiable == action]
        if not wanted:
            return ()
        selector = default_selector(pod, self.snapshot.objects)
        return () if selector.empty else tuple(replace(constraint, selector=selector) for constraint in wanted)

    def keeps_zero(self, pod: Pod, constraint: TopologySpreadConstraint, moved: int) -> bool:
        """Report whether enough nodes have no Pod that a constraint on hostnames matches, so that the minimum stays 0
        after `moved` Pods are created or evicted. The constraint then limits each node by itself. Raises CutShort.
        """
        with self.snapshot.derived.locked():
            matrix = pod_matrix_of(self.snapshot)
            included = included_nodes(constraint, pod, matrix) & matrix.nodes.topology(HOSTNAME).present
            empty = included & (pods_that_match(pod, constraint, matrix).here == 0)
        return int(np.count_nonzero(empty)) > moved

    def _matching(self, pods: Sequence[Pod], constraint: TopologySpreadConstraint, namespace: str) -> int:
        """Return the number of matching Pods that are not terminating. Source: upstream `countPodsMatchSelector`."""
        if not constraint.counts_pods(self.snapshot.semantics):
            return 0
        return sum(p.namespace == namespace and not p.terminating and constraint.matches(p.labels) for p in pods)

    def _count(
        self, nodes: Iterable[NodeInfo], constraints: Constraints, counts: list[dict[str, int]], pod: Pod
    ) -> None:
        """Add matching Pods on nodes with all topology keys to `counts` ([constraint]: topology value -> number)."""
        work = meter()
        for node_info in nodes:
            node = node_info.node
            if not _has_all_keys(node, constraints):
                work.charge(1)
                continue
            work.charge(len(constraints) * (2 + len(node_info.pods) // 4))
            for constraint, by_value in zip(constraints, counts, strict=True):
                if constraint.includes(node, pod.spec):
                    value = node.labels[constraint.topology_key]
                    matching = self._matching(node_info.pods, constraint, pod.namespace)
                    by_value[value] = by_value.get(value, 0) + matching


def do_not_schedule(pod: Pod) -> Constraints:
    return _constraints(pod.spec.topology_spread, pod, DO_NOT_SCHEDULE)


def _constraints(constraints: Constraints, pod: Pod, action: str) -> Constraints:
    """Return the constraints with this `whenUnsatisfiable`. Source: upstream `filterTopologySpreadConstraints`."""
    return tuple(
        replace(c, selector=with_label_keys(c.selector, "In", c.match_label_keys, pod.labels))
        for c in constraints
        if c.when_unsatisfiable == action
    )


def _has_all_keys(node: Node, constraints: Constraints) -> bool:
    return all(constraint.topology_key in node.labels for constraint in charging(constraints, 0.1))


def _update_with_pod(state: _FilterState, pod: Pod, changed: Pod, node: Node, delta: int) -> None:
    """Add the Pod `changed` to the counts (`delta` 1), or remove the Pod (-1). Source: upstream `updateWithPod`.

    As in upstream, and unlike in the initial count, terminating Pods and empty selectors count.
    """
    if changed.namespace != pod.namespace or not _has_all_keys(node, state.constraints):
        return
    labels: Mapping[str, str] = changed.labels
    for index, constraint in enumerate(charging(state.constraints, 1)):
        if constraint.matches(labels) and constraint.includes(node, pod.spec):
            value = node.labels[constraint.topology_key]
            counts = state.counts[index]
            counts[value] = counts.get(value, 0) + delta
            state.critical_paths[index].update(value, counts[value])
