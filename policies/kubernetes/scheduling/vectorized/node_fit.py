"""The constraints of a Pod on all nodes as arrays, to which plugins add theirs, and the nodes on which the Pod fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.cow_table import FrozenTable
from forewarn.policies.base.metering import VECTOR, charge
from forewarn.policies.kubernetes.scheduling.framework import Code, Status
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, Occupancy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix

_NOMINATIONS_CACHE_SIZE: Final = 64
"""Maximum number of cached sums, one for each priority."""
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
        self._resources: Sequence[str] = ()
        self._sums: dict[int, Ints] = {}
        """Priority -> [resource, node]: the amounts for the nominated Pods with at least this priority."""
        self._columns: Ints = np.zeros((3, 0), np.int64)
        """[row, kind or priority; index]: the nominations; the priority is _FREE at an index without one."""
        self._free: list[int] = []
        """The indices without a nomination."""
        self._largest = 0, 0
        """(number of equivalence classes at that time, the largest amount of any)."""
        self.version = 0
        """Increases with each change."""

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def is_of(self, snapshot: Snapshot) -> bool:
        is_same = snapshot.objects.nominated is self._table and snapshot.rows is self._nodes
        return is_same and snapshot.columns.resources == self._resources

    def sync(self, snapshot: Snapshot) -> None:
        """Update to the nominated Pods of this Snapshot. Raises CutShort; the next call continues."""
        table = snapshot.objects.nominated
        if self.is_of(snapshot):
            return
        shards = table.shards if isinstance(table, FrozenTable) else (table,)
        resources, is_same = snapshot.columns.resources, snapshot.rows is self._nodes
        if not is_same or resources != self._resources or len(shards) != len(self._shards):
            self._nodes, self._count, self._resources = snapshot.rows, len(snapshot.node_infos), resources
            self.version += 1
            self._pods, self._by_node, self._by_pod, self._sums = {}, {}, {}, {}
            self._columns, self._free = np.zeros((3, 0), np.int64), []
            self._shards = [{}] * len(shards)
        self._table = None
        for number, new in enumerate(shards):
            if self._shards[number] is not new:
                self._change(snapshot, self._shards[number], new)
                self._shards[number] = new
        self._table = table

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
        for resource in self._resources:
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
            if not self._free:
                size = self._columns.shape[1]
                more = max(size, 64)
                self._columns = np.pad(self._columns, ((0, 0), (0, more)), constant_values=_FREE)
                self._free += range(size, size + more)
            nominated, index = Nominated(row, self._kinds.number(pod), pod.effective_priority), self._free.pop()
            self._by_pod[pod.identity] = nominated
            here.append((pod.identity, nominated, index))
            self._columns[:, index] = nominated
            self._add(nominated, 1)
        if here:
            self._by_node[name] = here

    def _add(self, nominated: Nominated, sign: int) -> None:
        self.version += 1
        amounts = [sign * self._kinds.amounts(resource)[nominated.kind] for resource in self._resources]
        for priority, totals in self._sums.items():
            if nominated.priority >= priority:
                totals[:, nominated.row] += amounts

    def nomination_of(self, pod: Pod) -> Nominated | None:
        """Return the nomination of this Pod; None without one, or if its priority is lower than the Pod's."""
        nomination = self._by_pod.get(pod.identity)
        return nomination if nomination is not None and nomination.priority >= pod.effective_priority else None

    def amounts(self, priority: int) -> Ints:
        """Return [resource, node]: the amounts for the nominated Pods with at least this priority, for the resources of
        `Columns`. Do not modify. Raises NotValid for very large amounts.
        """
        totals = self._sums.get(priority)
        if totals is None:
            if len(self._sums) >= _NOMINATIONS_CACHE_SIZE:
                self._sums.clear()
            per_kind = map(self._kinds.amounts, self._resources)
            totals = self._sums[priority] = np.array([self.total(amounts, priority) for amounts in per_kind])
        if self._may_reach(MAX) and totals.max(initial=0) >= MAX:
            raise NotValid
        return totals

    def _may_reach(self, amount: int) -> bool:
        """Report whether the nominated Pods on one node may use at least `amount` of a resource; by an upper bound."""
        if self._largest[0] != len(self._kinds):
            largest = max(int(self._kinds.amounts(each).max(initial=0)) for each in self._resources)
            self._largest = len(self._kinds), largest
        return len(self._by_pod) * self._largest[1] >= amount

    def columns(self, priority: int) -> tuple[Ints, Ints]:
        """Return (rows, equivalence classes) of the nominated Pods of at least this priority."""
        rows, kinds, priorities = self._columns
        charge(len(rows) // VECTOR)
        count = priorities >= priority
        return rows[count], kinds[count]

    def total(self, per_kind: Ints, priority: int) -> Ints:
        """Return [node]: the sum of `per_kind` ([class]) over the nominated Pods of at least this priority."""
        total = np.zeros(self._count, np.int64)
        if self:
            rows, kinds = self.columns(priority)
            np.add.at(total, rows, per_kind[kinds])
        return total


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
    nomination: Nominations = cached_in(matrix.nominations, parts, lambda: Nominations(matrix))
    nomination.sync(snapshot)
    return nomination


MAX: Final = 2**60
"""Columns support only smaller amounts; the plugins use Python's integers."""


class Skew(NamedTuple):
    """A topology spread constraint: no domain may have more than `max_skew` Pods above the minimum.

    `few`: there are fewer domains than minDomains, so the minimum is 0. `domains`: [node], number of the domain, -1 for
    none.
    """

    max_skew: int
    few: bool
    domains: Ints


class Constraint(NamedTuple):
    """A constraint of a Pod other than a resource. Arrays are by node unless stated otherwise.

    `per_kind`: [class], what a Pod counts. `concerned`: nodes whose Pods count; `counts`: indices of nodes with such
    Pods. `present`: the current count, including Pods on other nodes; `limit`: its maximum. `possible`: nodes that the
    constraint does not exclude. `domains`: number of the domain, -1 for none; one Pod that counts excludes all nodes of
    the domain. `skew`: set instead of `domains` for topology spread. `own`: for anti-affinity, `per_kind` by the Pod's
    own terms; None without terms.
    """

    per_kind: Ints
    concerned: Mask
    counts: Rows
    present: Ints
    limit: Ints
    possible: Mask | None = None
    domains: Ints | None = None
    skew: Skew | None = None
    own: Ints | None = None


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

    now: Mask
    with_nominated: Mask
    after: int
    labelled: Mask
    per_kind: Ints
    here: Ints
    least: Ints
    total: int
    matches_itself: bool

    @property
    def settled(self) -> bool:
        """Whether more Pods like this one do not change the domains, because they join existing matching Pods."""
        return self.total > 0 or not self.matches_itself

    def matches_without(self, nodes: Rows, kind: NDArray[np.int32]) -> Mask:
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

    present: Ints
    limit: Ints
    resource: str = ""
    constraint: Constraint | None = None

    @property
    def exceeded(self) -> Mask:
        return self.present > self.limit

    def fits_without(self, removed: Ints) -> Mask:
        """Return [node], bool: whether the Pod fits if Pods with these amounts ([node]) were removed."""
        return self.present - removed <= self.limit


class NodeFit:
    """The constraints of one Pod on one Snapshot, to which the plugins of its profile add theirs.

    `possible`: [node], bool, the nodes that static filters and constraints do not exclude. `resolvable`: those of
    `possible` with sufficient allocatable resources. `row`: the cost of a few numpy operations on a [node] array, in
    units of work. Raises NotValid if the numpy implementation does not support the Pod.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix, static: Mask) -> None:
        """`static`: [node], bool: whether the node passes all static filters."""
        self.snapshot, self.pod, self.matrix, self.static = snapshot, pod, matrix, static
        self.row = len(snapshot.columns.serials) // VECTOR
        self._nominations, self._kinds = nominations_of(snapshot, matrix), matrix.kinds
        self.demands: list[CapacityConstraint] = []
        self.added: dict[str, list[CapacityConstraint]] = {}
        """Plugin -> the constraints that it added."""
        self.affinity: RequiredAffinity | None = None
        self.resolvable = self.possible = static
        self.tried_in_vain: Mask = np.zeros(len(self.possible), np.bool_)
        """[node], bool: rejected for good, but preemption evaluates the node."""
        self.undecided: Mask = np.zeros(len(self.possible), np.bool_)
        """[node], bool: columns cannot determine the victims there."""
        self.rejections: dict[str, Rejections] = {}
        """Plugin -> static rejections, for plugins that call `narrow`."""

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
        nominated = np.where(constraint.concerned, self.nominated_sums(constraint.per_kind), 0)
        return CapacityConstraint(constraint.present + nominated, constraint.limit, constraint=constraint)

    def narrow(self, plugin: str, rejections: Rejections) -> None:
        """Exclude the nodes that a plugin rejects regardless of their Pods.

        kube-scheduler tries preemption on such a node if the first plugin that rejects the node does not call the
        rejection unresolvable, although preemption cannot help. Raises NotValid if the Pod is nominated to an excluded
        node.
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

    def full(self, demands: Sequence[CapacityConstraint]) -> Mask:
        """Return [node], bool: whether one of the constraints in `demands` is exceeded."""
        charge(len(demands) * self.row)
        full = np.zeros(len(self.possible), np.bool_)
        for demand in demands:
            full |= demand.exceeded
        return full

    def with_nominated(self, index: int) -> Ints:
        """Return [node]: the amount of a resource in use, with the other nominated Pods of at least the Pod's priority.

        `index`: of the resource in `Columns.resources`. Raises NotValid for very large amounts. Source:
        `addGENominatedPods`.
        """
        columns = self.snapshot.columns
        present: Ints = columns.requested[index]
        if not self._nominations:
            return present
        total: Ints = present + self._nominations.amounts(self.pod.effective_priority)[index]
        if (own := self._nominations.nomination_of(self.pod)) is not None:
            total[own.row] -= self.matrix.kinds.amounts(columns.resources[index])[own.kind]
        return total

    def nominated_sums(self, per_kind: Ints) -> Ints:
        """Return [node]: the sum of `per_kind` ([class]) over the Pods nominated to the node with at least the Pod's
        priority.

        Raises NotValid for very large sums.
        """
        total = self._nominations.total(per_kind, self.pod.effective_priority)
        if (own := self._nominations.nomination_of(self.pod)) is not None:
            total[own.row] -= per_kind[own.kind]
        if total.max(initial=0) >= MAX:
            raise NotValid
        return total

    @property
    def open(self) -> Mask:
        """[node], bool: whether the Pod may fit if all other Pods were removed. Ignores required affinity."""
        return self.possible & self.resolvable

    @property
    def feasible(self) -> Mask:
        """[node], bool: whether the node can run the Pod now."""
        fits = self.open & ~self.full(self.demands)
        return fits if self.affinity is None else fits & self.affinity.now

    @property
    def potential(self) -> Mask:
        """[node], bool: whether preemption evaluates the node of an unschedulable Pod."""
        if self.affinity is None:
            return self.open
        before = self.full(self.demands[: self.affinity.after])
        return self.open & (before | (self.affinity.with_nominated & self.full(self.demands)))

    def clearable(self, lower: LowerPriorityPods, nodes: Rows) -> tuple[list[Occupancy], Rows]:
        """Return (the amounts of each constraint, those of `nodes` on which the Pod fits without all lower-priority
        Pods).

        Sorts the Pods of the returned nodes. Raises NotValid.
        """
        if self.affinity is not None:
            nodes = nodes[self.potential[nodes]]
            nodes = nodes[self.affinity.matches_without(nodes, lower.kind)]
        for demand in self.demands:
            if demand.constraint is None:  # the sum does not depend on the order of Pods
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
            rows.append(lower.occupancy(demand, self.matrix))
        return rows


PASSES: Final = -1


class Rejections(NamedTuple):
    """The results of one plugin. `codes`: [node], an index of `statuses`, or PASSES."""

    codes: Ints
    statuses: Sequence[Status]


def rejected(where: Mask, status: Status) -> Rejections:
    """Return rejections with one status for all nodes in the mask `where`."""
    return Rejections(np.where(where, 0, PASSES), (status,))


class Present:
    """The amounts in use on each node, including nominated Pods. Subclasses assume that some Pods are removed."""

    def amount_in_use(self, demand: CapacityConstraint) -> Ints:
        """Return [node]: the amount of a resource in use, or the count of Pods for a constraint."""
        return demand.present

    def affinity_met(self, affinity: RequiredAffinity) -> Mask:
        """Return [node], bool: whether the node satisfies the Pod's required affinity."""
        return affinity.now

    def affinity_met_with_nominated(self, problem: NodeFit, affinity: RequiredAffinity) -> Mask:  # noqa: ARG002
        """Return the same as `affinity_met`, but with the Pods nominated to each node. Raises NotValid."""
        return affinity.with_nominated

    def exceeded(self, demand: CapacityConstraint) -> Mask:
        """Return [node], bool: whether the amount in use on the node exceeds the limit."""
        charge(len(demand.limit) // VECTOR)
        return demand._replace(present=self.amount_in_use(demand)).exceeded


class WithoutLower(Present):
    """The amounts in use on each node if all Pods with lower priority were removed."""

    def __init__(self, lower: LowerPriorityPods, matrix: PodMatrix) -> None:
        self._lower, self._matrix = lower, matrix

    def amount_in_use(self, demand: CapacityConstraint) -> Ints:
        """Return [node]: the amount of a resource in use, or the count of Pods for a constraint."""
        if demand.constraint is None:
            return demand.present - self._lower.total(demand.resource, self._matrix)
        constraint = demand.constraint
        return demand.present - self._lower.amounts_at(constraint.per_kind, constraint.counts).total

    def affinity_met(self, affinity: RequiredAffinity) -> Mask:
        """Return [node], bool: whether the Pod's required affinity is satisfied."""
        return affinity.matches_without(np.arange(len(affinity.now)), self._lower.kind)

    def affinity_met_with_nominated(self, problem: NodeFit, affinity: RequiredAffinity) -> Mask:
        """Return the same as `affinity_met`, but with the Pods nominated to each node."""
        nominated = problem.nominated_sums(affinity.per_kind) > 0
        return self.affinity_met(affinity) | (affinity.labelled & nominated)
