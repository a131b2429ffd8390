"""One scheduling cycle, evaluated with numpy for all nodes at once: finds the nodes for a Pod, or the plugins that
reject the Pod.

The result equals that of running each plugin on each node (tests compare them). Source: kubernetes
`pkg/scheduler/schedule_one.go` (`findNodesThatPassFilters`, `numFeasibleNodesToFind`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.configuration import configuration_of
from forewarn.policies.scheduling.framework import (
    Code,
    CycleState,
    NodeToStatus,
    Status,
    run_score_plugin,
    unresolvable,
)
from forewarn.policies.scheduling.plugins.node_affinity import named_nodes
from forewarn.policies.scheduling.preemption import NO_VICTIMS, Candidate, Decision, Preemption
from forewarn.policies.scheduling.responsible import (
    NOT_SCORED,
    Filtered,
    excluded_reason,
    framework_in_columns,
    num_feasible_nodes_to_find,
)
from forewarn.policies.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.node_fit import (
    FirstRejections,
    NodeFit,
    Present,
    StaticRejections,
    candidates_on,
    count_rejections,
    first_rejections,
    rejected,
    static_rejections,
)
from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix, is_large, pod_matrix_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.vectorized.node_fit import CapacityConstraint, RequiredAffinity


class Scores:
    """The scores of nodes for a Pod, by its profile. Hold the lock `snapshot.derived.locked()` while you use Scores."""

    def __init__(self, framework: Framework, pod: Pod, matrix: PodMatrix) -> None:
        """Raises NotValid if the numpy implementation does not support a Score plugin of the profile."""
        self._framework, self.pod, self.matrix = framework, pod, matrix
        if not framework.plan.scores:
            raise NotValid

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return np.zeros(len(rows), np.int64) + sum(worth for _, worth in self._weighted(rows))

    def by_plugin(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
        """Return plugin -> [index in `rows`] weighted score, without plugins that score 0. Raises NotValid."""
        scores = {name: np.broadcast_to(np.asarray(worth), len(rows)) for name, worth in self._weighted(rows)}
        return {name: worth for name, worth in scores.items() if worth.any()}

    def _weighted(self, rows: NDArray[np.intp]) -> Iterator[tuple[str, NDArray[np.int64] | int]]:
        """Yield (plugin, weighted scores) in the order of the profile; an integer for all nodes. Raises NotValid."""
        charge(len(rows) // 8)
        weights = self._framework.profile.weights
        for plugin in self._framework.scores:
            worth = plugin.scores_in_columns(self.pod, rows, self.matrix)
            yield plugin.name, weights[plugin.name] * (self._of_each_node(plugin, rows) if worth is None else worth)

    def _of_each_node(self, plugin: Any, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Return the scores of a plugin that runs on each node. Raises NotValid if the plugin fails."""
        state, nodes = CycleState(), [self._framework.snapshot.node_infos[row] for row in rows.tolist()]
        has_pre_score = plugin.name in self._framework.profile.at("preScore")
        status = plugin.pre_score(state, self.pod, nodes) if has_pre_score else None
        if status is not None:
            if status.code is Code.SKIP:
                return 0
            raise NotValid
        scores = run_score_plugin(plugin, state, self.pod, nodes)
        return np.fromiter(scores.values(), np.int64, len(nodes))


_CACHE_SIZE: Final = 512


class Found(NamedTuple):
    """Feasible nodes as row numbers, in the order of the search. `evaluated`: the number of evaluated nodes."""

    rows: NDArray[np.intp]
    evaluated: int


def found_in_order(feasible: NDArray[np.bool_], order: NDArray[np.intp], percentage: int = 0) -> Found:
    """Return the feasible nodes that kube-scheduler finds before it stops, if it evaluates the nodes in this order.

    `feasible`: [node], bool. `order`: row numbers of nodes. `percentage`: see `percentage_of`.
    """
    most = num_feasible_nodes_to_find(len(order), percentage)
    places = np.flatnonzero(feasible[order])
    if len(places) <= most:
        return Found(order[places], len(order))
    return Found(order[places[:most]], int(places[most]))


def num_nodes_after_pre_filter(snapshot: Snapshot, pod: Pod) -> int:
    """Return how many nodes PreFilter of NodeAffinity leaves. Source: upstream `findNodesThatFitPod`."""
    names = named_nodes(pod.spec.node_affinity.required)
    return len(snapshot.rows) if names is None else sum(name in snapshot.rows for name in names)


class Cycle:
    """The scheduling cycle of one Pod on one Snapshot. The result equals that of `find_nodes_that_fit_pod` and
    `preempt`, which run each plugin on each node; tests compare them.

    Hold the lock `snapshot.derived.locked()` while you use a Cycle, except for `filtered` and `preempt`.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, framework: Framework | None = None) -> None:
        """Evaluate the filters on all nodes.

        `framework`: of the Pod's profile; None for a cycle in which also no extender takes part. Raises NotValid if the
        numpy implementation does not support the Pod or the profile.
        """
        self.snapshot, self.pod = snapshot, pod
        self.matrix: PodMatrix = pod_matrix_of(snapshot)
        self.framework = framework_in_columns(snapshot, pod) if framework is None else framework
        if self.framework.without_columns:
            raise NotValid(self.framework.without_columns)
        self.node_fit = NodeFit(snapshot, pod, self.matrix, self.framework)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """[node], bool: whether the node can run the Pod now."""
        return self.node_fit.feasible

    def fits_on(self, name: str) -> bool:
        """Report whether the Pod fits on the node with this name; False if the node does not exist."""
        row = self.snapshot.rows.get(name)
        return row is not None and bool(self.feasible[row])

    def find(self, order: NDArray[np.intp]) -> Found:
        """Return the feasible nodes that kube-scheduler finds before it stops."""
        return found_in_order(self.feasible, order, percentage_of(self.framework))

    @property
    def preempts(self) -> bool:
        """Whether the profile has a PostFilter plugin that preempts."""
        return self.framework.plan.preempts

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or "". Raises NotValid."""
        return self.node_fit.ineligible_reason

    def best_nodes(self) -> list[str]:
        """Return the names of the nodes that preemption may nominate; empty if preemption does not help."""
        return [*self._decision.best_nodes]

    @property
    def is_sampled(self) -> bool:
        """Whether kube-scheduler evaluates only a part of the nodes for preemption."""
        return self._decision.is_sampled

    @cached_property
    def _decision(self) -> Decision:
        return self.node_fit.decide()

    def candidate_on(self, name: str) -> Candidate:
        """Return the preemption candidate on the node `name`, with its victims."""
        return self.node_fit.candidates(np.array([self.snapshot.rows[name]]))[0]

    def rejection(self) -> tuple[frozenset[str], Counter[str]]:
        """Return (plugins that reject the Pod, reason -> number of nodes). Raises NotValid."""
        plugins, reasons, left = self.static_rejections()
        rejections = first_rejections(self.node_fit, rejected(~left, unresolvable()), Present())
        plugins, reasons = set(plugins), reasons.copy()
        count_rejections(rejections, left, plugins, reasons)
        return frozenset(plugins), reasons

    def unhelped(self) -> Counter[str]:
        """Return reason -> number of nodes on which preemption does not help for this reason. Raises NotValid."""
        return self.preempt().reasons(len(self.snapshot.node_infos))

    @cached_property
    def rejections(self) -> tuple[StaticRejections, FirstRejections]:
        """The rejections that do not depend on Pods, and the first rejection of each node. Raises NotValid."""
        if any(plugin.static_filter(self.pod) for plugin in self.framework.late_static_plugins):
            raise NotValid
        static = static_rejections(self.node_fit)
        return static, first_rejections(self.node_fit, static.found, Present())

    @cached_property
    def filtered(self) -> Filtered:
        """The nodes that pass the filters, and why the others do not. Source: upstream `findNodesThatFitPod`."""
        (left, restricting, _), rejections = self.rejections
        infos, statuses = self.snapshot.node_infos, NodeToStatus()
        if restricting:
            statuses.absent = unresolvable(excluded_reason(restricting))
        passing = rejections.codes < 0
        nodes = [infos[row] for row in np.flatnonzero(passing & left).tolist()]
        rows = np.flatnonzero(~passing & left).tolist()
        charge(len(rows) // 8)
        names = [infos[row].node.name for row in rows]
        statuses.by_node = dict(zip(names, rejections.of(rows), strict=True))
        return Filtered(nodes, statuses, restricting=restricting)

    def preempt(self) -> Preemption:
        """Dry-run preemption on nodes that Pods keep from fitting. Source: upstream `Preempt`, `DryRunPreemption`."""
        pod, snapshot = self.pod, self.snapshot
        (left, _, static), rejections = self.rejections
        potential = rejections.where(Code.UNSCHEDULABLE) & left
        rows = np.flatnonzero(potential)
        with snapshot.derived.locked():
            matrix = pod_matrix_of(snapshot)  # it may have been another snapshot's meanwhile
            fit = self.node_fit if self.node_fit.is_valid(matrix) else NodeFit(snapshot, pod, matrix, self.framework)
            lower = lower_priority_pods_of(matrix, snapshot, pod.effective_priority)
            lower.settle(rows, matrix, snapshot)
            without_lower = first_rejections(fit, static, WithoutLower(lower, matrix))
            helps = potential & (lower.count > 0) & (without_lower.codes < 0)
            nodes = np.flatnonzero(helps)
            candidates = candidates_on(snapshot, matrix, fit.rows(lower), lower, nodes) if len(nodes) else None
        dropped: dict[str, Status] = {}
        for row in rows[~helps[rows]].tolist():
            code = int(without_lower.codes[row])
            status = without_lower.statuses[code] if lower.count[row] else NO_VICTIMS
            dropped[snapshot.node_infos[row].node.name] = status
        if candidates is None:
            return Preemption(statuses=dropped, potential_nodes=len(rows))
        return Preemption(
            candidates=candidates, statuses=dropped, best_candidates=candidates.best(), potential_nodes=len(rows)
        )

    def static_rejections(self) -> tuple[set[str], Counter[str], NDArray[np.bool_]]:
        """Return the rejections that do not depend on Pods on nodes: (plugins, reason -> number of nodes, [node]: not
        rejected).

        Pods with equal node constraints share the result: do not modify it. Raises NotValid.
        """
        key, table = self.node_fit.static_key, self.snapshot.objects.nodes
        cache = self.matrix.static_rejections
        cached = cache.get(key)
        if cached is None or cached[1] is not table:
            if len(cache) >= _CACHE_SIZE:
                cache.clear()
            cached = self.pod.spec, table, self._work_out_static()
            if not is_large(self.pod.spec):
                cache[key] = cached
        result: tuple[set[str], Counter[str], NDArray[np.bool_]] = cached[2]
        return result

    def _work_out_static(self) -> tuple[set[str], Counter[str], NDArray[np.bool_]]:
        left, restricting, rejections = static_rejections(self.node_fit)
        plugins, reasons = set(restricting), Counter[str]()
        if restricting and not left.all():
            reasons[excluded_reason(restricting)] += int(np.count_nonzero(~left))
        count_rejections(rejections, left, plugins, reasons)
        return plugins, reasons, left & (rejections.codes < 0)

    @property
    def in_tables(self) -> Scores:
        """The scores of nodes for the Pod. Raises NotValid."""
        return Scores(self.framework, self.pod, self.matrix)

    def scores(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return self.in_tables.of(rows)


class WithoutLower(Present):
    """The amounts in use on each node if all Pods with lower priority were removed."""

    def __init__(self, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        self._lower, self._matrix = lower, matrix

    def of(self, demand: CapacityConstraint) -> NDArray[np.int64]:
        """Return [node]: the amount of a resource in use, or the count of Pods for a constraint."""
        if demand.constraint is None:
            return demand.present - self._lower.total(demand.resource, self._matrix)
        constraint = demand.constraint
        return demand.present - self._lower.amounts_at(constraint.per_kind, constraint.counts).total

    def affinity_met(self, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """Return [node], bool: whether the Pod's required affinity is satisfied."""
        return affinity.when_removed(np.arange(len(affinity.now)), self._lower.kind)

    def affinity_met_with_nominated(self, problem: NodeFit, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """Return the same as `affinity_met`, but with the Pods nominated to each node."""
        nominated = problem.of_nominated(affinity.per_kind) > 0
        return self.affinity_met(affinity) | (affinity.labelled & nominated)


def percentage_of(framework: Framework) -> int:
    """Return the effective percentageOfNodesToScore of the profile; NOT_SCORED if neither plugins nor extenders score
    nodes, and no extender filters them: kube-scheduler then stops at the first feasible node.

    Source: upstream `findNodesThatPassFilters`, `hasScoring`.
    """
    configuration = configuration_of(framework.snapshot.semantics)
    if framework.profile.at("score") or any(e.prioritize_verb or e.filter_verb for e in configuration.extenders):
        return configuration.percentage(framework.profile)
    return NOT_SCORED
