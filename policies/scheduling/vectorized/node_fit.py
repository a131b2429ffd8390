"""The nodes on which a Pod fits, or the node and victims of preemption, computed by numpy in milliseconds,
without reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from forewarn.policies.cow_table import FrozenTable
from forewarn.policies.metering import VECTOR, charge, meter
from forewarn.policies.scheduling.framework import Code, CycleState, Framework, StaticFilter, Status, unresolvable
from forewarn.policies.scheduling.preemption import (
    VIOLATIONS,
    Candidate,
    Decision,
    by_importance,
    least,
    pod_eligible_to_preempt_others,
)
from forewarn.policies.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.scheduling.vectorized.lower_priority_pods import (
    LowerPriorityPods,
    Occupancy,
    cheapest,
    costs_on,
    lower_priority_pods_of,
    victims_on,
)
from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix, is_large, pod_matrix_of, read_by_filters

if TYPE_CHECKING:
    from collections import Counter

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.scheduling.node_info import NodeInfo

_NOMINATIONS_CACHE_SIZE: Final = 64
"""Maximum number of cached sums, one for each resource and priority."""
_FREE: Final = -(2**63)
"""The priority of an index without a nomination, lower than that of any Pod."""


class Nominated(NamedTuple):
    """A nominated Pod that counts. `row`: the row number of its node. `kind`: the number of its equivalence class."""

    row: int
    kind: int
    priority: int


class Nominations:
    """The nominated Pods on the nodes of a Snapshot, updated from one Snapshot to the next."""

    def __init__(self, matrix: PodMatrix) -> None:
        self._kinds = matrix.kinds
        self._count = len(matrix.serials)
        self._table: object = None
        self._nodes: object = None
        self._shards: list[Mapping[str, tuple[Pod, ...]]] = []
        self._pods: dict[str, tuple[Pod, ...]] = {}
        """Node name -> its nominated Pods as in the table."""
        self._by_node: dict[str, list[tuple[str, Nominated, int]]] = {}
        """Node name -> (Pod identity, its nomination, the index in `_columns`)."""
        self._by_pod: dict[str, Nominated] = {}
        """Pod identity -> its nomination. A Pod is nominated once."""
        self._sums: dict[tuple[int, str], NDArray[np.int64]] = {}
        self._columns: NDArray[np.int64] = np.zeros((3, 0), np.int64)
        """[row, kind or priority; index]: the nominations; the priority is _FREE at an index without one."""
        self._free: list[int] = []
        """The indices without a nomination."""
        self._largest: dict[str, tuple[int, int]] = {}
        """Resource -> (number of equivalence classes at that time, the largest amount of any)."""
        self.version = 0
        """Increases with each change."""

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def is_of(self, snapshot: Snapshot) -> bool:
        return snapshot.objects.nominated is self._table and snapshot.rows is self._nodes

    def sync(self, snapshot: Snapshot) -> None:
        """Update to the nominated Pods of this Snapshot. Raises CutShort; the next call continues."""
        table = snapshot.objects.nominated
        if self.is_of(snapshot):
            return
        shards = table.shards if isinstance(table, FrozenTable) else (table,)
        if snapshot.rows is not self._nodes or len(shards) != len(self._shards):
            self._forget(snapshot)
            self._shards = [{}] * len(shards)
        self._table = None
        for number, new in enumerate(shards):
            if self._shards[number] is not new:
                self._change(snapshot, self._shards[number], new)
                self._shards[number] = new
        self._table = table

    def _forget(self, snapshot: Snapshot) -> None:
        self._nodes, self._count = snapshot.rows, len(snapshot.node_infos)
        self.version += 1
        self._pods, self._by_node, self._by_pod, self._sums = {}, {}, {}, {}
        self._columns, self._free = np.zeros((3, 0), np.int64), []

    def _change(
        self, snapshot: Snapshot, old: Mapping[str, tuple[Pod, ...]], new: Mapping[str, tuple[Pod, ...]]
    ) -> None:
        """Replace one shard of the table of nominated Pods. Removes nominations first, because a Pod may move to
        another node.

        Raises CutShort before any change.
        """
        come = [(name, pods) for name, pods in new.items() if self._pods.get(name) is not pods]
        charge(len(new) // 8 + 4 * len(come))
        for name, _ in come:
            for pod in snapshot.nominated_pods(name) if name in snapshot.rows else ():
                self._kinds.number(pod)
        for _, resource in self._sums:
            self._kinds.amounts(resource)
        for name in [name for name in old if name not in new]:
            self._take(name)
        for name, _ in come:
            self._take(name)
        for name, pods in come:
            self._put(snapshot, name, pods)

    def _take(self, name: str) -> None:
        self._pods.pop(name, None)
        for identity, nominated, index in self._by_node.pop(name, ()):
            if self._by_pod.get(identity) is nominated:
                del self._by_pod[identity]
            self._columns[2, index] = _FREE
            self._free.append(index)
            self._add(nominated, -1)

    def _put(self, snapshot: Snapshot, name: str, pods: tuple[Pod, ...]) -> None:
        self._pods[name] = pods
        row = snapshot.rows.get(name)
        if row is None:
            return
        here: list[tuple[str, Nominated, int]] = []
        for pod in snapshot.nominated_pods(name):
            nominated, index = Nominated(row, self._kinds.number(pod), pod.effective_priority), self._free_index()
            self._by_pod[pod.identity] = nominated
            here.append((pod.identity, nominated, index))
            self._columns[:, index] = nominated
            self._add(nominated, 1)
        if here:
            self._by_node[name] = here

    def _free_index(self) -> int:
        if not self._free:
            size = self._columns.shape[1]
            more = max(size, 64)
            self._columns = np.pad(self._columns, ((0, 0), (0, more)), constant_values=_FREE)
            self._free += range(size, size + more)
        return self._free.pop()

    def _add(self, nominated: Nominated, sign: int) -> None:
        amounts = dict[str, int]()
        self.version += 1
        for (priority, resource), total in self._sums.items():
            if nominated.priority >= priority:
                if resource not in amounts:
                    amounts[resource] = sign * int(self._kinds.amounts(resource)[nominated.kind])
                total[nominated.row] += amounts[resource]

    def of(self, pod: Pod) -> Nominated | None:
        """Return the nomination of this Pod; None without one, or if its priority is lower than the Pod's."""
        nomination = self._by_pod.get(pod.identity)
        return nomination if nomination is not None and nomination.priority >= pod.effective_priority else None

    def amounts(self, resource: str, priority: int) -> NDArray[np.int64]:
        """Return [node]: the amount of a resource for the nominated Pods with at least this priority. Do not modify."""
        totals = self._sums.get((priority, resource))
        if totals is None:
            if len(self._sums) >= _NOMINATIONS_CACHE_SIZE:
                self._sums.clear()
            rows, kinds = self.columns(priority)
            amounts, totals = self._kinds.amounts(resource), np.zeros(self._count, np.int64)
            np.add.at(totals, rows, amounts[kinds])
            self._sums[priority, resource] = totals
        return totals

    def may_reach(self, resource: str, amount: int) -> bool:
        """Report whether the nominated Pods on one node may use at least `amount` of a resource; by an upper bound."""
        cached = self._largest.get(resource)
        if cached is None or cached[0] != len(self._kinds):
            amounts = self._kinds.amounts(resource)
            cached = self._largest[resource] = len(self._kinds), int(amounts.max(initial=0))
        return len(self._by_pod) * cached[1] >= amount

    def columns(self, priority: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (rows, equivalence classes) of the nominated Pods of at least this priority."""
        rows, kinds, priorities = self._columns
        charge(len(rows) // VECTOR)
        count = priorities >= priority
        return rows[count], kinds[count]


def nominations_of(snapshot: Snapshot, matrix: PodMatrix) -> Nominations:
    """Return the nominated Pods of a Snapshot, up to date.

    Caches two kinds of tables: the table of the cluster has many shards, the table after a hypothetical preemption has
    one.
    """
    table = snapshot.objects.nominated
    cached: Nominations
    for cached in matrix.nominations.values():
        if cached.is_of(snapshot):
            return cached
    parts = len(table.shards) if isinstance(table, FrozenTable) else 1
    nomination = matrix.nominations.get(parts)
    if nomination is None:
        nomination = matrix.nominations[parts] = Nominations(matrix)
    nomination.sync(snapshot)
    return nomination


P = ParamSpec("P")
T = TypeVar("T")
MAX: Final = 2**60
"""Amounts from here on are not supported by columns; the plugins use Python's integers."""


class Unsupported(NamedTuple):
    """The result of `attempt` if the numpy implementation does not support the Pod, with the reason."""

    why: str = ""


def attempt(compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Unsupported:
    """Return what `compute` returns, or Unsupported."""
    try:
        return compute(*args, **kwargs)
    except NotValid as fault:
        return Unsupported(str(fault))


class Skew(NamedTuple):
    """A topology spread constraint: no domain may have more than `max_skew` Pods above the minimum.

    `few`: there are fewer domains than minDomains, so the minimum is 0. `domains`: [node], number of the domain, -1 for
    none.
    """

    max_skew: int
    few: bool
    domains: NDArray[np.int64]


class Constraint(NamedTuple):
    """A constraint of a Pod other than a resource. Arrays are by node unless stated otherwise.

    `per_kind`: [class], what a Pod counts. `concerned`: nodes whose Pods count; `counts`: indices of nodes with such
    Pods. `present`: the current count, including Pods on other nodes; `limit`: its maximum. `possible`: nodes that the
    constraint does not exclude. `domains`: number of the domain, -1 for none; one Pod that counts excludes all nodes of
    the domain. `skew`: set instead of `domains` for topology spread. `own`: for anti-affinity, `per_kind` by the Pod's
    own terms; None without terms.
    """

    per_kind: NDArray[np.int64]
    concerned: NDArray[np.bool_]
    counts: NDArray[np.intp]
    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    possible: NDArray[np.bool_] | None = None
    domains: NDArray[np.int64] | None = None
    skew: Skew | None = None
    own: NDArray[np.int64] | None = None


class RequiredAffinity(NamedTuple):
    """The domains that satisfy required Pod affinity: for the topology key of each term, the domains with Pods that
    match all terms.

    More such Pods never remove a domain, so preemption need not evaluate the affinity again when Pods are reprieved.
    Arrays are [node] unless stated otherwise. `now`: the nodes that satisfy the affinity; `with_nominated`: the same
    with the nominated Pods of each node. `after`: the number of constraints whose plugins run before. `labelled`: nodes
    with the labels of all terms. `per_kind`: [class], 1 for matching Pods; `here`: number of matching Pods on the node;
    `least`: their number in the domain of the node with the fewest; `total`: their number in all topologies together.
    `matches_itself`: whether the Pod matches its own terms: if no other Pod matches, the Pod may be the first. Source:
    upstream `satisfyPodAffinity`.
    """

    now: NDArray[np.bool_]
    with_nominated: NDArray[np.bool_]
    after: int
    labelled: NDArray[np.bool_]
    per_kind: NDArray[np.int64]
    here: NDArray[np.int64]
    least: NDArray[np.int64]
    total: int
    matches_itself: bool

    @property
    def settled(self) -> bool:
        """Whether more Pods like this one do not change the domains, because they join existing matching Pods."""
        return self.total > 0 or not self.matches_itself

    def when_removed(self, nodes: NDArray[np.intp], kind: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return [index in `nodes`], bool: whether the node satisfies the affinity without those of its Pods that are
        in `kind`.

        `kind`: [position, node], equivalence classes of the removed Pods of all nodes.
        """
        met = self.now[nodes]
        places = np.flatnonzero(self.here[nodes])
        few = nodes[places]
        charge(len(kind) * len(few) // VECTOR)
        removed = self.per_kind[kind[:, few]].sum(axis=0)
        met[places] = self.labelled[few] & (
            (self.least[few] > removed) | (self.matches_itself & (removed == self.total))
        )
        return met


class CapacityConstraint(NamedTuple):
    """The amount of a resource, or of another constraint, on each node, and its limit.

    `present`, `limit`: [node]. `present` includes nominated Pods. `resource`: "" for a constraint.
    """

    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    resource: str = ""
    constraint: Constraint | None = None

    @property
    def exceeded(self) -> NDArray[np.bool_]:
        return self.present > self.limit

    def fits_without(self, removed: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return [node], bool: whether the Pod fits if Pods with these amounts ([node]) were removed."""
        return self.present - removed <= self.limit


def with_nominated(
    present: NDArray[np.int64], nominations: Nominations, resource: str, priority: int
) -> NDArray[np.int64]:
    """Return [node]: `present` plus the amount of a resource for the nominated Pods of at least this priority; without
    nominated Pods, `present` itself.

    Raises NotValid for very large amounts. Source: `addGENominatedPods`.
    """
    if not nominations:
        return present
    added = nominations.amounts(resource, priority)
    if nominations.may_reach(resource, MAX) and added.max(initial=0) >= MAX:
        raise NotValid
    return present + added


class NodeNames(Sequence[str]):
    """The names of the nodes with these row numbers (`rows`), read only when needed."""

    __slots__ = ("_infos", "rows")

    def __init__(self, infos: Sequence[NodeInfo], rows: NDArray[np.intp]) -> None:
        self._infos, self.rows = infos, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        """The name, or a list of names for a slice."""
        if isinstance(place, slice):
            return [self._infos[row].name for row in self.rows[place].tolist()]
        return self._infos[self.rows[place]].name

    def __iter__(self) -> Iterator[str]:
        return (self._infos[row].name for row in self.rows.tolist())


def decide(framework: Framework, pod: Pod) -> Decision:
    """Return the decision about a Pod, by numpy over all nodes. Raises NotValid.

    Condition: the numpy implementation supports all plugins of the profile. There may be nominated Pods on any node.
    Then the removal of a Pod only reduces amounts in use, and nothing else depends on Pods except required affinity,
    which is also evaluated without all lower-priority Pods.
    """
    if framework.without_columns:
        raise NotValid(framework.without_columns)
    snapshot = framework.snapshot
    with snapshot.derived.locked():
        return NodeFit(snapshot, pod, pod_matrix_of(snapshot), framework).decide()


class NodeFit:
    """The constraints of one Pod on one Snapshot, to which the plugins of its profile add theirs, and the decision.

    `possible`: [node], bool, the nodes that static filters and constraints do not exclude. `resolvable`: those of
    `possible` with sufficient allocatable resources. `row`: the cost of a few numpy operations on a [node] array, in
    units of work. Raises NotValid if the numpy implementation does not support the Pod.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix, framework: Framework) -> None:
        self.snapshot, self.pod, self.matrix, self.framework = snapshot, pod, matrix, framework
        columns = snapshot.columns
        self.row = len(columns.serials) // VECTOR
        if pod.node_name or columns.largest >= MAX:
            raise NotValid("the pod names its node, or what is requested is beyond all measure")
        if pod.nominated_node_name and any(p.static_filter(pod) for p in framework.late_static_plugins):
            # Whether its node may ever do is asked after whether it does now.
            raise NotValid("the pod is nominated, and the profile asks other plugins first")
        self._nominations, self._kinds = nominations_of(snapshot, matrix), matrix.kinds
        self.demands: list[CapacityConstraint] = []
        self.added: dict[str, list[CapacityConstraint]] = {}
        """Plugin -> the constraints that it added."""
        self.affinity: RequiredAffinity | None = None
        self.static = self.possible = self._static()
        """[node], bool: whether the node passes all static filters."""
        self.resolvable = self.possible
        self.tried_in_vain: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node], bool: rejected for good, but preemption evaluates the node."""
        self.undecided: NDArray[np.bool_] = np.zeros(len(self.possible), np.bool_)
        """[node], bool: columns cannot determine the victims there."""
        self.rejections: dict[str, Rejections] = {}
        """Plugin -> static rejections, for plugins that call `narrow`."""
        for plugin in framework.column_plugins:
            before = len(self.demands)
            result = attempt(plugin.in_columns, self)
            if isinstance(result, Unsupported):
                why = result.why or "to which more than the pods of a node matters for such a pod"
                raise NotValid(f"of plugin {plugin.name}, {why}")
            self.added[plugin.name] = self.demands[before:]

    def _static(self) -> NDArray[np.bool_]:
        """Return [node], bool: whether all static filters pass. Sets `static_key`, the key of the cached result."""
        framework, pod = self.framework, self.pod

        def filters() -> list[StaticFilter]:
            columns = (plugin.static_filter_in_columns(pod) for plugin in framework.static_plugins)
            return [static for static in columns if static is not None]

        whose, constraints = read_by_filters(pod, whole=framework.plan.reads_whole_pod)
        whose = framework.profile, self.snapshot.semantics, *whose
        self.static_key: Hashable = whose, id(pod.spec) if constraints is None else constraints
        return self.matrix.nodes.static(whose, pod.spec, filters, constraints)

    def is_valid(self, matrix: PodMatrix) -> bool:
        """Report whether the problem still belongs to these tables, which may have been replaced by new ones."""
        return self._kinds is matrix.kinds and self._nominations is nominations_of(self.snapshot, matrix)

    def add(self, constraint: Constraint) -> None:
        """Add a constraint of the plugin that is currently evaluated."""
        self.demands.append(self.counted(constraint))
        if constraint.possible is not None:
            self.possible = self.possible & constraint.possible

    def counted(self, constraint: Constraint) -> CapacityConstraint:
        """Return the constraint as an amount and a limit on each node."""
        nominated = np.where(constraint.concerned, self.of_nominated(constraint.per_kind), 0)
        return CapacityConstraint(constraint.present + nominated, constraint.limit, constraint=constraint)

    def narrow(self, plugin: str, rejections: Rejections) -> None:
        """Exclude the nodes that a plugin rejects, with any Pods on them.

        kube-scheduler tries preemption on such a node if the first plugin that rejects the node does not call it
        unresolvable, although preemption cannot help. Raises NotValid if the Pod is nominated to an excluded node.
        """
        charge(self.row)
        rejected = rejections.codes >= 0
        closed = self.open & rejected
        self.rejections[plugin] = rejections
        if not closed.any():
            return
        own = self.snapshot.rows.get(self.pod.nominated_node_name)
        if own is not None and closed[own]:
            raise NotValid("as the pod is nominated to a node that will not do")
        full = self.full(self.demands)
        tried = np.array([*(status.code is Code.UNSCHEDULABLE for status in rejections.statuses), False])[
            rejections.codes
        ]
        self.tried_in_vain = self.tried_in_vain | (closed & (full | tried))
        self.possible = self.possible & ~rejected

    def full(self, demands: Sequence[CapacityConstraint]) -> NDArray[np.bool_]:
        """Return [node], bool: whether one of the constraints in `demands` is exceeded."""
        charge(len(demands) * self.row)
        full = np.zeros(len(self.possible), np.bool_)
        for demand in demands:
            full |= demand.exceeded
        return full

    def with_nominated(self, present: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        """Return `with_nominated` for the Pod, without its own nomination. Raises NotValid for very large amounts."""
        total = with_nominated(present, self._nominations, resource, self.pod.effective_priority)
        if (own := self._nominations.of(self.pod)) is not None:
            total[own.row] -= self.matrix.kinds.amounts(resource)[own.kind]
        return total

    def of_nominated(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [node]: the sum of `per_kind` ([class]) over the Pods nominated to the node with at least the Pod's
        priority.

        Raises NotValid for very large sums.
        """
        total = np.zeros(len(self.possible), np.int64)
        if self._nominations:
            rows, kinds = self._nominations.columns(self.pod.effective_priority)
            np.add.at(total, rows, per_kind[kinds])
            if (own := self._nominations.of(self.pod)) is not None:
                total[own.row] -= per_kind[own.kind]
        if total.max(initial=0) >= MAX:
            raise NotValid
        return total

    @property
    def open(self) -> NDArray[np.bool_]:
        """[node], bool: whether the Pod may fit if all other Pods were removed. Ignores required affinity."""
        return self.possible & self.resolvable

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """[node], bool: whether the node can run the Pod now."""
        fits = self.open & ~self.full(self.demands)
        return fits if self.affinity is None else fits & self.affinity.now

    @property
    def _potential(self) -> NDArray[np.bool_]:
        """[node], bool: whether preemption evaluates the node of an unschedulable Pod."""
        if self.affinity is None:
            return self.open
        before = self.full(self.demands[: self.affinity.after])
        return self.open & (before | (self.affinity.with_nominated & self.full(self.demands)))

    def decide(self) -> Decision:
        """Return the decision over all nodes. Raises NotValid."""
        infos = self.snapshot.node_infos
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return Decision(NodeNames(infos, feasible))
        if not self.framework.plan.preempts or self.ineligible_reason:
            return Decision()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self.clearable()
        if not len(nodes):
            return Decision()
        selected = cheapest(rows, nodes, lower, self.matrix.kinds.priority.values())
        names = [infos[row].name for row in selected.nodes.tolist()]
        candidate = candidates_with(
            self.snapshot, lower, selected.nodes[:1], selected.victims[:, :1], selected.costs[:, :1]
        )[0]
        return Decision((), names, candidate, self._is_sampled(len(nodes)))

    def _is_sampled(self, candidates: int) -> bool:
        """Report whether kube-scheduler evaluates only some nodes for preemption, of this many candidates."""
        if "DefaultPreemption" not in self.framework.profile.plugins:
            return False
        args: DefaultPreemptionArgs = self.framework.plugin("DefaultPreemption").args
        most, least = len(self.possible), int(np.count_nonzero(self._potential | self.tried_in_vain))
        if candidates > args.num_candidates(most) or candidates <= args.num_candidates(least):
            return candidates > args.num_candidates(most)
        return candidates > args.num_candidates(int(np.count_nonzero(self._unschedulable())))

    def _unschedulable(self) -> NDArray[np.bool_]:
        """Return [node], bool: whether preemption may resolve the first rejection (Unschedulable). Raises NotValid."""
        rejections = first_rejections(self, rejected(~self.static, unresolvable()), Present())
        return rejections.where(Code.UNSCHEDULABLE)

    def candidates(self, nodes: NDArray[np.intp]) -> Sequence[Candidate]:
        """Return the candidates among these nodes. `nodes`: row numbers; only Pods may prevent scheduling there."""
        if not self.framework.plan.preempts or self.ineligible_reason:
            return ()
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        rows, nodes = self._clearable(lower, nodes[lower.count[nodes] > 0])
        return candidates_on(self.snapshot, self.matrix, rows, lower, nodes) if len(nodes) else ()

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or "". Raises NotValid."""
        rows = self.snapshot.rows
        return pod_eligible_to_preempt_others(
            self.pod, self.snapshot, lambda name: not self._unschedulable()[rows[name]]
        )

    def clearable(self) -> tuple[list[Occupancy], NDArray[np.intp]]:
        """Return (amounts of each constraint, rows of nodes that fit without all lower-priority Pods)."""
        lower = lower_priority_pods_of(self.matrix, self.snapshot, self.pod.effective_priority)
        return self._clearable(lower, np.flatnonzero(self.open & (lower.count > 0)))

    def _clearable(self, lower: LowerPriorityPods, nodes: NDArray[np.intp]) -> tuple[list[Occupancy], NDArray[np.intp]]:
        """Return (the amounts of each constraint, those of `nodes` on which the Pod fits without all lower-priority
        Pods).

        Sorts the Pods of the returned nodes. Raises NotValid.
        """
        if self.affinity is not None:
            nodes = nodes[self._potential[nodes]]
            nodes = nodes[self.affinity.when_removed(nodes, lower.kind)]
        for demand in self.demands:
            if demand.constraint is None:  # what pods occupy in all does not depend on their order
                charge(self.row)
                nodes = nodes[demand.fits_without(lower.total(demand.resource, self.matrix))[nodes]]
        if self.undecided[nodes].any():
            raise NotValid("of plugin NodeVolumeLimits, as pods of lower priority take a node to its limit of volumes")
        lower.settle(nodes, self.matrix, self.snapshot)
        rows = self.rows(lower)
        for demand, row in zip(self.demands, rows, strict=True):
            if demand.constraint is not None:
                charge(self.row)
                nodes = nodes[row.base[nodes] <= row.limit[nodes]]
        return rows, nodes

    def rows(self, lower: LowerPriorityPods) -> list[Occupancy]:
        """Return the amounts of each constraint: those in use, the limit, and those of lower-priority Pods."""
        rows = []
        for demand in self.demands:
            charge(lower.kind.size // VECTOR)
            if demand.constraint is not None:
                few = lower.amounts_at(demand.constraint.per_kind, demand.constraint.counts)
                rows.append(Occupancy(few, demand.present, demand.limit))
                continue
            amounts = lower.amounts(demand.resource, self.matrix)
            bounds = lower.bounds(demand.resource, self.matrix) if len(lower.levels) else None
            rows.append(Occupancy(amounts, demand.present, demand.limit, bounds))
        return rows


class Candidates(Sequence[Candidate]):
    """The nodes on which preemption helps, in the order of the Snapshot. Each Candidate is created on access.

    `costs`: [criterion, candidate]; smaller is better.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: NDArray[np.intp],
        ends: list[int],
        places: list[int],
        harmed: list[int],
        costs: NDArray[np.int64],
    ) -> None:
        """`nodes`: [candidate], row number of the node.

        `places`: indices of the victims in the Pods of their node, in reprieve order, for all candidates one after the
        other. `ends`: [candidate], end of the candidate's part of `places`. `harmed`: [candidate], number of Pods whose
        eviction violates a PDB; 0 if this applies to all Pods.
        """
        self._snapshot, self._nodes = snapshot, nodes.tolist()
        self._ends, self._places, self._harmed, self.costs = ends, places, harmed, costs

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...

    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return [self._made(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._made(index % len(self))

    def __iter__(self) -> Iterator[Candidate]:
        return map(self._made, range(len(self)))

    @property
    def names(self) -> list[str]:
        """[candidate]: names of the nodes."""
        infos = self._snapshot.node_infos
        return [infos[row].node.name for row in self._nodes]

    def _made(self, number: int) -> Candidate:
        info: NodeInfo = self._snapshot.node_infos[self._nodes[number]]
        begin = self._ends[number - 1] if number else 0
        pods = info.pods
        victims = [pods[place] for place in self._places[begin : self._ends[number]]]
        if self._harmed[number]:  # upstream orders them anew where there were others too
            victims = by_importance(victims, self._snapshot.semantics)
        return Candidate(info.node.name, tuple(victims), int(self.costs[VIOLATIONS, number]))

    def best(self) -> tuple[Candidate, ...]:
        """Return the candidates of lowest cost by node name. Source: upstream `pickOneNodeForPreemption`."""
        left = least(self.costs, np.arange(len(self)))
        return tuple(sorted((self._made(number) for number in left.tolist()), key=lambda item: item.node_name))


def candidates_on(
    snapshot: Snapshot, matrix: PodMatrix, rows: Iterable[Occupancy], lower: LowerPriorityPods, nodes: NDArray[np.intp]
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
    snapshot: Snapshot,
    lower: LowerPriorityPods,
    nodes: NDArray[np.intp],
    is_victim: NDArray[np.bool_],
    costs: NDArray[np.int64],
) -> Candidates:
    """Return these nodes (row numbers) as candidates. `is_victim`: [rank, node]. `costs`: [criterion, node]."""
    columns, ranks = np.nonzero(is_victim.T)
    places = lower.place[ranks, nodes[columns]].tolist()
    ends = is_victim.sum(axis=0).cumsum().tolist()
    violating = lower.violating[nodes]
    harmed = np.where(violating < lower.count[nodes], violating, 0).tolist()
    return Candidates(snapshot, nodes, ends, places, harmed, costs)


PASSES: Final = -1
_CACHE_SIZE: Final = 64
"""Maximum number of cached static rejections, one for each set of node constraints."""


class Rejections(NamedTuple):
    """The results of one plugin. `codes`: [node], an index of `statuses`, or PASSES."""

    codes: NDArray[np.int64]
    statuses: Sequence[Status]


def rejected(where: NDArray[np.bool_], status: Status) -> Rejections:
    """Return rejections with one status for all nodes in the mask `where`."""
    return Rejections(np.where(where, 0, PASSES), (status,))


class Present:
    """The amounts in use on each node, including nominated Pods. Subclasses assume that some Pods are removed."""

    def of(self, demand: CapacityConstraint) -> NDArray[np.int64]:
        """Return [node]: the amount of a resource in use, or the count of Pods for a constraint."""
        return demand.present

    def affinity_met(self, affinity: RequiredAffinity) -> NDArray[np.bool_]:
        """Return [node], bool: whether the node satisfies the Pod's required affinity."""
        return affinity.now

    def affinity_met_with_nominated(self, problem: NodeFit, affinity: RequiredAffinity) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return the same as `affinity_met`, but with the Pods nominated to each node. Raises NotValid."""
        return affinity.with_nominated

    def exceeded(self, demand: CapacityConstraint) -> NDArray[np.bool_]:
        """Return [node], bool: whether the amount in use on the node exceeds the limit."""
        charge(len(demand.limit) // VECTOR)
        return demand._replace(present=self.of(demand)).exceeded


class FirstRejections:
    """The first rejection of each node: as in upstream, no plugin evaluates a node that an earlier plugin rejected."""

    def __init__(self, nodes: int) -> None:
        self.codes: NDArray[np.int64] = np.full(nodes, PASSES, np.int64)
        """[node]: an index of `statuses`, or PASSES."""
        self.statuses: list[Status] = []

    def add(self, rejections: Rejections, plugin: str) -> None:
        """Record the rejections of the next plugin, for nodes that passed all earlier plugins."""
        charge(2 + len(self.codes) // VECTOR)
        new = (self.codes < 0) & (rejections.codes >= 0)
        if new.any():
            self.codes[new] = rejections.codes[new] + len(self.statuses)
            self.statuses += [status.of(plugin) for status in rejections.statuses]

    def where(self, code: Code) -> NDArray[np.bool_]:
        """Return [node], bool: whether the status of the node has this code."""
        return np.array([*(status.code is code for status in self.statuses), False])[self.codes]

    def of(self, rows: Sequence[int]) -> list[Status]:
        """Return the statuses of these nodes, all of which must be rejected. `rows`: row numbers."""
        return [self.statuses[code] for code in self.codes[rows].tolist()]


def first_rejections(problem: NodeFit, static: Rejections, amounts: Present) -> FirstRejections:
    """Return the first rejection of each node.

    `static`: the rejections that do not depend on Pods. `amounts`: the amounts in use. Raises NotValid. The filters run
    with nominated Pods, then without: only required affinity can fail in the second run alone. Source: upstream
    `RunFilterPluginsWithNominatedPods`.
    """
    result = FirstRejections(len(problem.possible))
    result.codes, result.statuses = static.codes.copy(), list(static.statuses)
    for plugin in problem.framework.column_plugins:
        for rejections in plugin.rejections_in_columns(problem, amounts):
            result.add(rejections, plugin.name)
    for plugin in problem.framework.column_plugins:
        for rejections in plugin.rejections_without_nominated(problem, amounts):
            result.add(rejections, plugin.name)
    return result


def count_rejections(
    rejections: FirstRejections | Rejections, nodes: NDArray[np.bool_], plugins: set[str], reasons: Counter[str]
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
        self.codes: NDArray[np.int64] = np.full(nodes, PASSES, np.int64)
        self.statuses: dict[Status, int] = {}


class StaticRejections(NamedTuple):
    """The rejections by plugins that read only the node, and that run before those that read Pods.

    `left`: [node], bool, the nodes that PreFilter does not exclude. `restricting`: the PreFilter plugins that exclude
    nodes.
    """

    left: NDArray[np.bool_]
    restricting: tuple[str, ...]
    found: Rejections


def static_rejections(fit: NodeFit) -> StaticRejections:
    """Return the rejections by plugins that read only the node. Runs their PreFilter, and Filter on the rejected nodes.

    Raises NotValid if PreFilter rejects the Pod.
    """
    state, framework, rows = CycleState(), fit.framework, fit.snapshot.rows
    static = {plugin.name for plugin in framework.static_plugins}
    prepared = [plugin for plugin in framework.pre_filters if plugin.name in static]
    result, restricting = framework.run_pre_filter_plugins(state, fit.pod, prepared)
    if result.status is not None:
        raise NotValid
    left = np.ones(len(rows), np.bool_)
    if result.names is not None:
        left[:] = False
        left[[rows[name] for name in result.names if name in rows]] = True
    return StaticRejections(left, restricting, _filtered(fit, state))


def _filtered(fit: NodeFit, state: CycleState) -> Rejections:
    """Return the first rejection of each node by a plugin that reads only the node. Raises NotValid."""
    matrix, pod, key = fit.matrix, fit.pod, fit.static_key
    status: _Known | None = matrix.static_statuses.get(key)
    if status is None or len(status.statuses) > status.max_statuses:
        if len(matrix.static_statuses) >= _CACHE_SIZE:
            matrix.static_statuses.clear()
        status = _Known(len(fit.static), pod.spec)
        if not is_large(pod.spec):
            matrix.static_statuses[key] = status
    rows = np.flatnonzero(~fit.static)
    codes = np.full(len(fit.static), PASSES, np.int64)
    charge(len(rows) // 16)
    infos, nodes, work = fit.snapshot.node_infos, status.nodes, meter()
    skipped = {plugin.name for plugin in fit.framework.late_static_plugins} | state.skip_filter
    plugins = [plugin for plugin in fit.framework.static_plugins if plugin.name not in skipped]
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
            return status.of(plugin.name)
    raise NotValid  # a plugin that contradicts what it says of itself in columns
