"""One scheduling cycle, evaluated with numpy for all nodes at once: finds the nodes for a Pod, or the plugins that
reject the Pod.

The result equals that of running each plugin on each node (tests compare them). Source: kubernetes
`pkg/scheduler/schedule_one.go` (`findNodesThatPassFilters`, `numFeasibleNodesToFind`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from forewarn.policies.base.copies import MadeOnAccess
from forewarn.policies.base.metering import VECTOR, charge, charging, meter
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.find_nodes import (
    NOT_SCORED,
    Filtered,
    excluded_reason,
    framework_in_columns,
    num_feasible_nodes_to_find,
)
from forewarn.policies.kubernetes.scheduling.framework import Code, CycleState, NodeToStatus, Status, unresolvable
from forewarn.policies.kubernetes.scheduling.plugins.one_node import named_nodes
from forewarn.policies.kubernetes.scheduling.preemption import (
    NO_VICTIMS,
    VIOLATIONS,
    Candidate,
    Decision,
    Preemption,
    pick_nodes_for_preemption,
    pod_eligible_to_preempt_others,
    sort_by_importance,
)
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import (
    LowerPriorityPods,
    Occupancy,
    cheapest,
    costs_on,
    lower_priority_pods_of,
    victims_on,
)
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
    MAX,
    PASSES,
    NodeFit,
    Present,
    Rejections,
    WithoutLower,
    rejected,
)
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import (
    PodMatrix,
    is_large,
    pod_matrix_of,
    read_by_filters,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.kubernetes.scheduling.framework import Framework, StaticFilter
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import NodeTables


class Scores:
    """The scores of nodes for a Pod, by its profile. Hold the lock `snapshot.derived.locked()` while you use Scores."""

    def __init__(self, framework: Framework, pod: Pod, matrix: PodMatrix) -> None:
        """Raises NotValid if the numpy implementation does not support a Score plugin of the profile."""
        self._framework, self.pod, self.matrix = framework, pod, matrix
        if not framework.plan.scores:
            raise NotValid

    def total_scores(self, rows: Rows) -> Ints:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return np.zeros(len(rows), np.int64) + sum(worth for _, worth in self._weighted(rows))

    def scores_by_plugin(self, rows: Rows) -> dict[str, Ints]:
        """Return plugin -> weighted scores [index in `rows`], without plugins that score 0. Raises NotValid."""
        scores = {name: np.broadcast_to(np.asarray(worth), len(rows)) for name, worth in self._weighted(rows)}
        return {name: worth for name, worth in scores.items() if worth.any()}

    def _weighted(self, rows: Rows) -> Iterator[tuple[str, Ints | int]]:
        """Yield (plugin, weighted scores) in the order of the profile; an integer for all nodes. Raises NotValid."""
        charge(len(rows) // 8)
        weights = self._framework.profile.weights
        for plugin in self._framework.scores:
            yield plugin.name, weights[plugin.name] * plugin.scores_in_columns(self.pod, rows, self.matrix)


class Found(NamedTuple):
    """Feasible nodes as row numbers, in the order of the search. `evaluated`: the number of evaluated nodes."""

    rows: Rows
    evaluated: int


def found_in_order(feasible: Mask, order: Rows, percentage: int = 0) -> Found:
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


class NodeNames(Sequence[str]):
    """The names of the nodes with these row numbers (`rows`), read only when needed."""

    __slots__ = ("_infos", "rows")

    def __init__(self, infos: Sequence[NodeInfo], rows: Rows) -> None:
        self._infos, self.rows = infos, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        """Return the name, or a list of names for a slice."""
        if isinstance(place, slice):
            return [self._infos[row].name for row in self.rows[place].tolist()]
        return self._infos[self.rows[place]].name

    def __iter__(self) -> Iterator[str]:
        return (self._infos[row].name for row in self.rows.tolist())


class Candidates(MadeOnAccess[Candidate]):
    """The nodes on which preemption helps, in the order of the Snapshot. Each Candidate is created on access."""

    def __init__(
        self, snapshot: Snapshot, nodes: Rows, ends: list[int], places: list[int], harmed: list[int], costs: Ints
    ) -> None:
        """`nodes`: [candidate], row number of the node.

        `places`: indices of the victims in the Pods of their node, in reprieve order, for all candidates one after the
        other. `ends`: [candidate], end of the candidate's part of `places`. `harmed`: [candidate], number of Pods whose
        eviction violates a PDB; 0 if this applies to all Pods. `costs`: [criterion, candidate].
        """
        super().__init__(range(len(nodes)))
        self._snapshot, self._nodes = snapshot, nodes.tolist()
        self._ends, self._places, self._harmed, self._costs = ends, places, harmed, costs

    @property
    def names(self) -> list[str]:
        """[candidate]: names of the nodes."""
        infos = self._snapshot.node_infos
        return [infos[self._nodes[place]].node.name for place in self.places]

    @property
    def costs(self) -> Ints:
        """[criterion, candidate]; smaller is better."""
        return self._costs[:, self.places]

    def _made(self, place: int) -> Candidate:
        info: NodeInfo = self._snapshot.node_infos[self._nodes[place]]
        begin = self._ends[place - 1] if place else 0
        pods = info.pods
        victims = [pods[number] for number in self._places[begin : self._ends[place]]]
        if self._harmed[place]:  # upstream sorts them again if there are Pods that do not violate a PDB
            victims = sort_by_importance(victims, self._snapshot.semantics)
        return Candidate(info.node.name, tuple(victims), int(self._costs[VIOLATIONS, place]))


def candidates_on(
    snapshot: Snapshot, matrix: PodMatrix, rows: Iterable[Occupancy], lower: LowerPriorityPods, nodes: Rows
) -> Candidates:
    """Return the candidates for these nodes. `nodes`: row numbers; preemption must help on each of them.

    `rows`: the constraints. Call `lower.settle` for the nodes first.
    """
    rows = [row for row in rows if (row.present[nodes] > row.limit[nodes]).any()]
    is_victim = victims_on(rows, nodes, lower)
    charge(len(nodes))
    costs = costs_on(nodes, is_victim, lower, matrix.kinds.priority.values())
    return candidates_with(snapshot, lower, nodes, is_victim, costs)


def candidates_with(
    snapshot: Snapshot, lower: LowerPriorityPods, nodes: Rows, is_victim: Mask, costs: Ints
) -> Candidates:
    """Return these nodes (row numbers) as candidates. `is_victim`: [rank, node]. `costs`: [criterion, node]."""
    columns, ranks = np.nonzero(is_victim.T)
    places = lower.place[ranks, nodes[columns]].tolist()
    ends = is_victim.sum(axis=0).cumsum().tolist()
    violating = lower.violating[nodes]
    harmed = np.where(violating < lower.count[nodes], violating, 0).tolist()
    return Candidates(snapshot, nodes, ends, places, harmed, costs)


class Cheapest:
    """The best nodes for preemption."""

    def __init__(
        self, snapshot: Snapshot, lower: LowerPriorityPods, rows: Sequence[Occupancy], nodes: Rows, matrix: PodMatrix
    ) -> None:
        """Search among `nodes` (row numbers). `rows`: the constraints. Call `lower.settle` for the nodes first."""
        self._snapshot, self._lower = snapshot, lower
        self._selected = cheapest(rows, nodes, lower, matrix.kinds.priority.values())
        self.names = [snapshot.node_infos[row].name for row in self._selected.nodes.tolist()]

    def candidate(self, place: int) -> Candidate:
        """Return the candidate on a node, with its victims. `place`: index in `names`."""
        nodes, victims, costs = self._selected
        one = slice(place, place + 1)
        return candidates_with(self._snapshot, self._lower, nodes[one], victims[:, one], costs[:, one])[0]


class Cycle:
    """The scheduling cycle of one Pod on one Snapshot. The result equals that of `find_nodes_that_fit_pod` and
    `preempt`, which run each plugin on each node; tests compare them.

    Hold the lock `snapshot.derived.locked()` while you use a Cycle, except for `filtered` and `preempt`.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, framework: Framework | None = None) -> None:
        """Evaluate the filters on all nodes.

        `framework`: the framework of the Pod's profile; None: get it from the Snapshot, and require that there are no
        extenders. Raises NotValid if the numpy implementation does not support the Pod or the profile.
        """
        self.snapshot, self.pod = snapshot, pod
        self.matrix: PodMatrix = pod_matrix_of(snapshot)
        self.framework = framework_in_columns(snapshot, pod) if framework is None else framework
        if self.framework.without_columns:
            raise NotValid(self.framework.without_columns)
        self.node_fit = self._fit()

    def _fit(self) -> NodeFit:
        """Return the Pod's constraints by all plugins. Sets `static_key`, the key of cached static results."""
        snapshot, pod, framework = self.snapshot, self.pod, self.framework
        if pod.node_name or snapshot.columns.largest >= MAX:
            raise NotValid("the pod names its node, or what is requested is beyond all measure")
        if pod.nominated_node_name and any(p.static_filter(pod) for p in framework.late_static_plugins):
            # On the nominated node, these filters run after those that read Pods.
            raise NotValid("the pod is nominated, and the profile asks other plugins first")
        whose, constraints = read_by_filters(pod, whole=framework.plan.reads_whole_pod)
        whose = framework.profile, snapshot.semantics, *whose
        self.static_key: Hashable = whose, id(pod.spec) if constraints is None else constraints
        static = self.matrix.nodes.static(self.static_key)
        if static is None:
            columns = (plugin.static_filter_in_columns(pod) for plugin in framework.static_plugins)
            filters = [static for static in columns if static is not None]
            passing = _passing(self.matrix.nodes, filters)
            static = self.matrix.nodes.add_static(self.static_key, pod.spec, filters, passing)
        node_fit = NodeFit(snapshot, pod, self.matrix, static)
        for plugin in framework.column_plugins:
            before = len(node_fit.demands)
            try:
                plugin.in_columns(node_fit)
            except NotValid as fault:
                why = str(fault) or "to which more than the pods of a node matters for such a pod"
                raise NotValid(f"of plugin {plugin.name}, {why}") from None
            node_fit.added[plugin.name] = node_fit.demands[before:]
        return node_fit

    @cached_property
    def feasible(self) -> Mask:
        """[node], bool: whether the node can run the Pod now."""
        return self.node_fit.feasible

    def fits_on(self, name: str) -> bool:
        """Report whether the Pod fits on the node with this name; False if the node does not exist."""
        row = self.snapshot.rows.get(name)
        return row is not None and bool(self.feasible[row])

    def find(self, order: Rows) -> Found:
        """Return the feasible nodes that kube-scheduler finds before it stops."""
        return found_in_order(self.feasible, order, percentage_of(self.framework))

    @property
    def preempts(self) -> bool:
        """Whether the profile has a PostFilter plugin that preempts."""
        return self.framework.plan.preempts

    @cached_property
    def decision(self) -> Decision:
        """The decision over all nodes. Raises NotValid."""
        infos = self.snapshot.node_infos
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return Decision(NodeNames(infos, feasible))
        if not self.framework.plan.preempts or not self.node_fit.open.any() or self.ineligible_reason:
            return Decision()
        lower, fit = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority), self.node_fit
        rows, nodes = fit.clearable(lower, np.flatnonzero(fit.open & (lower.count > 0)))
        if not len(nodes):
            return Decision()
        self._cheapest = Cheapest(self.snapshot, lower, rows, nodes, self.matrix)
        names = self._cheapest.names
        candidate = self._cheapest.candidate(0)
        is_sampled = self._is_sampled(len(nodes))
        may_miss_best = is_sampled and self._is_sampled(len(nodes) - len(names) + 1)
        return Decision((), names, candidate, is_sampled, may_miss_best=may_miss_best)

    def _is_sampled(self, candidates: int) -> bool:
        """Report whether kube-scheduler evaluates preemption on only some nodes, if there are this many candidates."""
        if "DefaultPreemption" not in self.framework.profile.plugins:
            return False
        args: DefaultPreemptionArgs = self.framework.plugin("DefaultPreemption").args
        fit = self.node_fit
        most, least = len(fit.possible), int(np.count_nonzero(fit.potential | fit.tried_in_vain))
        if candidates > args.num_candidates(most) or candidates <= args.num_candidates(least):
            return candidates > args.num_candidates(most)
        return candidates > args.num_candidates(int(np.count_nonzero(self._unschedulable())))

    def _unschedulable(self) -> Mask:
        """Return [node], bool: whether preemption may resolve the first rejection (Unschedulable). Raises NotValid."""
        rejections = first_rejections(self, rejected(~self.node_fit.static, unresolvable()), Present())
        return rejections.node_mask(Code.UNSCHEDULABLE)

    def candidates(self, nodes: Rows) -> Sequence[Candidate]:
        """Return the candidates among these nodes. `nodes`: row numbers; only Pods prevent scheduling on these."""
        if not self.framework.plan.preempts or self.ineligible_reason:
            return ()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self.node_fit.clearable(lower, nodes[lower.count[nodes] > 0])
        return candidates_on(self.snapshot, self.matrix, rows, lower, nodes) if len(nodes) else ()

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or "". Raises NotValid."""
        rows = self.snapshot.rows
        return pod_eligible_to_preempt_others(
            self.pod, self.snapshot, lambda name: not self._unschedulable()[rows[name]]
        )

    def candidate_on(self, name: str) -> Candidate:
        """Return the preemption candidate on the node `name`, one of `decision.best_nodes`, with its victims."""
        return self._cheapest.candidate(self._cheapest.names.index(name))

    def rejection(self) -> tuple[frozenset[str], Counter[str]]:
        """Return (plugins that reject the Pod, reason -> number of nodes). Raises NotValid."""
        plugins, reasons, left = self.static_rejections()
        rejections = first_rejections(self, rejected(~left, unresolvable()), Present())
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
        static = static_rejections(self)
        return static, first_rejections(self, static.found, Present())

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
        statuses.by_node = dict(zip(names, rejections.statuses_of(rows), strict=True))
        return Filtered(nodes, statuses, restricting=restricting)

    def preempt(self) -> Preemption:
        """Dry-run preemption on nodes that Pods keep from fitting. Source: upstream `Preempt`, `DryRunPreemption`."""
        pod, snapshot = self.pod, self.snapshot
        (left, _, static), rejections = self.rejections
        potential = rejections.node_mask(Code.UNSCHEDULABLE) & left
        rows = np.flatnonzero(potential)
        with snapshot.derived.locked():
            matrix = pod_matrix_of(snapshot)  # another Snapshot may have updated it in the meantime
            cycle = self if self.node_fit.is_valid(matrix) else Cycle(snapshot, pod, self.framework)
            lower = lower_priority_pods_of(matrix, snapshot, pod.effective_priority)
            lower.settle(rows, matrix, snapshot)
            without_lower = first_rejections(cycle, static, WithoutLower(lower, matrix))
            helps = potential & (lower.count > 0) & (without_lower.codes < 0)
            nodes = np.flatnonzero(helps)
            demands = cycle.node_fit.rows(lower) if len(nodes) else ()
            candidates = candidates_on(snapshot, matrix, demands, lower, nodes) if len(nodes) else None
        dropped: dict[str, Status] = {}
        for row in rows[~helps[rows]].tolist():
            code = int(without_lower.codes[row])
            status = without_lower.statuses[code] if lower.count[row] else NO_VICTIMS
            dropped[snapshot.node_infos[row].node.name] = status
        if candidates is None:
            return Preemption(statuses=dropped, potential_nodes=len(rows))
        best = pick_nodes_for_preemption(candidates)
        return Preemption(candidates=candidates, statuses=dropped, best_candidates=best, potential_nodes=len(rows))

    def static_rejections(self) -> tuple[set[str], Counter[str], Mask]:
        """Return the rejections that do not depend on Pods on nodes: (plugins, reason -> number of nodes, [node]: not
        rejected).

        Raises NotValid.
        """
        left, restricting, rejections = static_rejections(self)
        plugins, reasons = set(restricting), Counter[str]()
        if restricting and not left.all():
            reasons[excluded_reason(restricting)] += int(np.count_nonzero(~left))
        count_rejections(rejections, left, plugins, reasons)
        return plugins, reasons, left & (rejections.codes < 0)

    @property
    def column_scores(self) -> Scores:
        """The scores of nodes for the Pod. Raises NotValid."""
        return Scores(self.framework, self.pod, self.matrix)

    def scores(self, rows: Rows) -> Ints:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return self.column_scores.total_scores(rows)


def _passing(nodes: NodeTables, filters: Sequence[StaticFilter]) -> Mask:
    """Return [node], bool: whether all filters pass.

    Filters in columns run first. Each other filter evaluates only nodes that its `may_reject` includes and that the
    earlier filters pass.
    """
    known = nodes.known_nodes()
    passing = np.ones(len(known), np.bool_)
    for one in sorted(filters, key=lambda one: one.in_columns is None):
        if one.in_columns is not None:
            passing &= one.in_columns(nodes)
            continue
        evaluated = passing if one.may_reject is None else passing & nodes.node_mask(one.may_reject)
        rows = np.flatnonzero(evaluated)
        some = known if len(rows) == len(known) else [known[row] for row in rows.tolist()]
        passing[rows] = np.fromiter(map(one.passes, charging(some, 0.4)), np.bool_, len(rows))
    return passing


def decide(framework: Framework, pod: Pod) -> Decision:
    """Return the decision about a Pod, computed with numpy for all nodes. Raises NotValid.

    Condition: the numpy implementation supports all plugins of the profile. There may be nominated Pods on any node.
    Then the removal of a Pod only reduces amounts in use, and nothing else depends on Pods except required affinity,
    which is also evaluated without all lower-priority Pods.
    """
    with framework.snapshot.derived.locked():
        return Cycle(framework.snapshot, pod, framework).decision


def percentage_of(framework: Framework) -> int:
    """Return the effective percentageOfNodesToScore of the profile; NOT_SCORED if neither plugins nor extenders score
    nodes, and no extender filters them: kube-scheduler then stops at the first feasible node.

    Source: upstream `findNodesThatPassFilters`, `hasScoring`.
    """
    configuration = configuration_of(framework.snapshot.semantics)
    if framework.profile.plugins_at("score") or any(
        e.prioritize_verb or e.filter_verb for e in configuration.extenders
    ):
        return configuration.percentage(framework.profile)
    return NOT_SCORED


_STATIC_CACHE_SIZE: Final = 64
"""Maximum number of cached static rejections, one for each set of node constraints."""


class FirstRejections:
    """The first rejection of each node: as in upstream, no plugin evaluates a node that an earlier plugin rejected."""

    def __init__(self, nodes: int) -> None:
        self.codes: Ints = np.full(nodes, PASSES, np.int64)
        """[node]: an index of `statuses`, or PASSES."""
        self.statuses: list[Status] = []

    def add(self, rejections: Rejections, plugin: str) -> None:
        """Record the rejections of the next plugin, for nodes that passed all earlier plugins."""
        charge(2 + len(self.codes) // VECTOR)
        new = (self.codes < 0) & (rejections.codes >= 0)
        if new.any():
            self.codes[new] = rejections.codes[new] + len(self.statuses)
            self.statuses += [status.with_plugin(plugin) for status in rejections.statuses]

    def node_mask(self, code: Code) -> Mask:
        """Return [node], bool: whether the status of the node has this code."""
        return np.array([*(status.code is code for status in self.statuses), False])[self.codes]

    def statuses_of(self, rows: Sequence[int]) -> list[Status]:
        """Return the statuses of these nodes, all of which must be rejected. `rows`: row numbers."""
        return [self.statuses[code] for code in self.codes[rows].tolist()]


def first_rejections(cycle: Cycle, static: Rejections, amounts: Present) -> FirstRejections:
    """Return the first rejection of each node.

    `static`: the rejections that do not depend on Pods. `amounts`: the amounts in use. Raises NotValid. The filters run
    with nominated Pods, then without: only required affinity can fail in the second run alone. Source: upstream
    `RunFilterPluginsWithNominatedPods`.
    """
    problem, result = cycle.node_fit, FirstRejections(len(static.codes))
    result.codes, result.statuses = static.codes.copy(), list(static.statuses)
    for plugin in cycle.framework.column_plugins:
        for rejections in plugin.rejections_in_columns(problem, amounts):
            result.add(rejections, plugin.name)
    for plugin in cycle.framework.column_plugins:
        for rejections in plugin.rejections_without_nominated(problem, amounts):
            result.add(rejections, plugin.name)
    return result


def count_rejections(
    rejections: FirstRejections | Rejections, nodes: Mask, plugins: set[str], reasons: Counter[str]
) -> None:
    """Add the rejections of some nodes to `plugins` and to `reasons` (reason -> number of nodes).

    `nodes`: [node], bool: which nodes to count.
    """
    counts = np.bincount(rejections.codes[nodes & (rejections.codes >= 0)], minlength=len(rejections.statuses))
    for code in np.flatnonzero(counts).tolist():
        status = rejections.statuses[code]
        plugins.add(status.plugin)
        for reason in status.reasons:
            reasons[reason] += int(counts[code])


class _Known:
    """Cached static rejections. `codes` of a node is valid while its node is the same object as in `nodes`."""

    def __init__(self, nodes: int, keep: object) -> None:
        self.keep = keep
        self.max_statuses = 2 * nodes
        self.nodes: list[Any] = [None] * nodes
        self.codes: Ints = np.full(nodes, PASSES, np.int64)
        self.statuses: dict[Status, int] = {}


class StaticRejections(NamedTuple):
    """The rejections by plugins that read only the node, and that run before those that read Pods.

    `left`: [node], bool, the nodes that PreFilter does not exclude. `restricting`: the PreFilter plugins that exclude
    nodes.
    """

    left: Mask
    restricting: tuple[str, ...]
    found: Rejections


def static_rejections(cycle: Cycle) -> StaticRejections:
    """Return the rejections by plugins that read only the node. Runs their PreFilter, and Filter on the rejected nodes.

    Raises NotValid if PreFilter rejects the Pod.
    """
    state, framework, rows = CycleState(), cycle.framework, cycle.snapshot.rows
    static = {plugin.name for plugin in framework.static_plugins}
    prepared = [plugin for plugin in framework.pre_filters if plugin.name in static]
    result, restricting = framework.run_pre_filter_plugins(state, cycle.pod, prepared)
    if result.status is not None:
        raise NotValid
    left = np.ones(len(rows), np.bool_)
    if result.names is not None:
        left[:] = False
        left[[rows[name] for name in result.names if name in rows]] = True
    return StaticRejections(left, restricting, _filtered(cycle, state))


def _filtered(cycle: Cycle, state: CycleState) -> Rejections:
    """Return the first rejection of each node by a plugin that reads only the node. Raises NotValid."""
    matrix, pod, key, static = cycle.matrix, cycle.pod, cycle.static_key, cycle.node_fit.static
    status: _Known | None = matrix.static_statuses.get(key)
    if status is None or len(status.statuses) > status.max_statuses:
        if len(matrix.static_statuses) >= _STATIC_CACHE_SIZE:
            matrix.static_statuses.clear()
        status = _Known(len(static), pod.spec)
        if not is_large(pod.spec):
            matrix.static_statuses[key] = status
    rows = np.flatnonzero(~static)
    codes = np.full(len(static), PASSES, np.int64)
    charge(len(rows) // 16)
    infos, nodes, work = cycle.snapshot.node_infos, status.nodes, meter()
    skipped = {plugin.name for plugin in cycle.framework.late_static_plugins} | state.skip_filter
    plugins = [plugin for plugin in cycle.framework.static_plugins if plugin.name not in skipped]
    for row in rows.tolist():
        info = infos[row]
        if nodes[row] is not info.node:
            work.charge(3)
            status.codes[row] = status.statuses.setdefault(_first(plugins, state, pod, info), len(status.statuses))
            nodes[row] = info.node
    codes[rows] = status.codes[rows]
    return Rejections(codes, list(status.statuses))


def _first(plugins: Sequence[Any], state: CycleState, pod: Pod, info: NodeInfo) -> Status:
    """Return the status of the first plugin that rejects the node. Raises NotValid."""
    for plugin in plugins:
        status: Status | None = plugin.filter(state, pod, info)
        if status is not None:
            if not status.rejected:
                raise NotValid
            return status.with_plugin(plugin.name)
    raise NotValid  # the plugin passes a node that its columns reject
