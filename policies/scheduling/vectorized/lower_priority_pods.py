"""The Pods with lower priority than a given one on each node, in the order in which preemption reprieves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import VECTOR, charge, meter
from forewarn.policies.scheduling.pdb_violations import filter_pods_with_pdb_violation
from forewarn.policies.scheduling.vectorized.constraints import NotValid
from forewarn.policies.scheduling.vectorized.pdbs import affected, changed_pdbs
from forewarn.policies.scheduling.vectorized.reprieve_order import reprieve_order
from forewarn.policies.scheduling.victim import by_importance, start_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

CACHE_SIZE: Final = 6
"""Maximum number of priorities with cached tables: about 5 MB each at 5,000 nodes."""
_TOGETHER: Final = 6
"""Number of changed nodes above which numpy is faster than Python."""
BLOCK: Final = 512
"""Number of nodes that are processed at a time: some milliseconds."""
_NODE: Final = 40
"""Units of work for a node, and three more for each of its Pods."""
_SORTING: Final = 40
"""Operations for each entry of a table to sort it."""
_PUTTING: Final = 8
"""Operations for each entry of a table to copy it unsorted."""
_MAX_CHANGES: Final = 32
"""Maximum number of pending changes of PDBs."""
MAX_LEVELS: Final = 48
LOWEST: Final = -(2**62)


class Amounts(NamedTuple):
    """The amounts of one resource that lower-priority Pods use.

    `by_rank`: [rank, node]. `total`: [node], the sum. `violating`: [node], the sum of Pods whose eviction violates a
    PDB.
    """

    by_rank: NDArray[np.int64]
    total: NDArray[np.int64]
    violating: NDArray[np.int64]

    def on(self, nodes: NDArray[np.intp], ranks: int) -> NDArray[np.int64]:
        """Return [rank, node]: the amounts of the first `ranks` ranks on these nodes."""
        return self.by_rank[:ranks] if len(nodes) == len(self.total) else self.by_rank[:ranks, nodes]


class AmountsOfFew(NamedTuple):
    """The amounts of lower-priority Pods, evaluated only for some nodes; all other nodes count as 0.

    A table of all nodes would need memory pages that the operating system clears first, which takes longer than the
    search. `per_kind`: [class]. `kind`: [rank, node]. `counts`: [node], bool: whether the node is evaluated. `total`,
    `violating`: as in Amounts.
    """

    per_kind: NDArray[np.int64]
    kind: NDArray[np.int32]
    counts: NDArray[np.bool_]
    total: NDArray[np.int64]
    violating: NDArray[np.int64]

    def on(self, nodes: NDArray[np.intp], ranks: int) -> NDArray[np.int64]:
        """Return [rank, node]: the amounts of the first `ranks` ranks on these nodes."""
        return self.per_kind[self.kind[:ranks, nodes]] * self.counts[nodes]


class Bounds(NamedTuple):
    """Limits of the amounts of one resource that lower-priority Pods use.

    `largest`: [node], the largest amount of a Pod. `above`: [level, node], the sum of Pods with a higher priority than
    this level of `LowerPriorityPods.levels`, without Pods whose eviction violates a PDB.
    """

    largest: NDArray[np.int64]
    above: NDArray[np.int64]


class LowerPriorityPods:
    """Tables of [rank, node] for the Pods with lower priority than `priority`: class, start time, and whether a PDB is
    violated.

    The Pod of rank 0 is reprieved first.
    """

    def __init__(self, priority: int, matrix: PodMatrix) -> None:
        nodes = len(matrix.serials)
        self.priority = priority
        self.serials: NDArray[np.int64] = np.full(nodes, -1, np.int64)
        self.version: NDArray[np.int64] = np.zeros(nodes, np.int64)
        """[node]: changes each time the Pods of the node are sorted."""
        self.stale: NDArray[np.bool_] = np.zeros(nodes, np.bool_)
        """[node], bool: the Pods are not sorted, or their order may be outdated because PDBs changed.

        Then only `count` and the totals of amounts are valid. Relevant nodes are sorted first (`settle`); they are
        usually few, so changes of PDBs are evaluated only for them (`stale_of`).
        """
        self._changes: list[tuple[int, PodDisruptionBudget]] = []
        self._noticed: NDArray[np.int64] = np.zeros(nodes, np.int64)
        """[node]: how many of these changes the node includes."""
        self.kind: NDArray[np.int32] = np.zeros((0, nodes), np.int32)
        self.start: NDArray[np.int64] = np.zeros((0, nodes), np.int64)
        self.place: NDArray[np.int16] = np.zeros((0, nodes), np.int16)
        self.violates: NDArray[np.bool_] = np.zeros((0, nodes), np.bool_)
        self.count: NDArray[np.int64] = np.zeros(nodes, np.int64)
        self.violating: NDArray[np.int64] = np.zeros(nodes, np.int64)
        self.levels: NDArray[np.int64] = np.zeros(0, np.int64)
        """The priorities of the Pods, lowest first; empty if there are too many."""
        self._known_kinds = 1
        self._totals: dict[str, NDArray[np.int64]] = {}
        self._amounts: dict[str, Amounts] = {}
        self._bounds: dict[str, Bounds] = {}
        self._pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]] = {}
        self._left: NDArray[np.intp] | None = None
        """Indices in the tables of the nodes that still exist; None: all."""

    def sync(self, matrix: PodMatrix, snapshot: Snapshot) -> None:
        """Update the tables to this Snapshot. The Pods of changed nodes are stale: unsorted until `settle`.

        Raises CutShort; the next call continues.
        """
        if self._left is not None:
            self._keep_only(self._left)
        if snapshot.pdbs is not self._pdbs:
            changed = list(changed_pdbs(self._pdbs, snapshot.pdbs)) if len(self.kind) else []
            if len(self._changes) + len(changed) > _MAX_CHANGES:
                self.stale_of(np.arange(len(self.stale)), matrix)
                self.stale |= affected(matrix, self.kind, changed)
                self._changes, self._noticed[:] = [], 0
            else:
                self._changes += changed
            self._pdbs = snapshot.pdbs
        self._learn_levels(matrix)
        others = np.flatnonzero(self.serials != matrix.serials)
        for start in range(0, len(others), BLOCK):
            self._put(others[start : start + BLOCK], matrix)

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Remove the nodes at these indices. The tables shrink at the next `sync`."""
        left = np.arange(len(self.serials)) if self._left is None else self._left
        self._left = np.delete(left, rows)

    def _keep_only(self, left: NDArray[np.intp]) -> None:
        for name in ("serials", "version", "stale", "_noticed", "count", "violating"):
            setattr(self, name, getattr(self, name)[left])
        for name in ("kind", "start", "place", "violates"):
            setattr(self, name, np.take(getattr(self, name), left, axis=1))
        self._totals = {resource: total[left] for resource, total in self._totals.items()}
        self._amounts = {
            resource: Amounts(np.take(amounts.by_rank, left, axis=1), self._totals[resource], amounts.violating[left])
            for resource, amounts in self._amounts.items()
        }
        self._bounds = {
            resource: Bounds(bounds.largest[left], np.take(bounds.above, left, axis=1))
            for resource, bounds in self._bounds.items()
        }
        self._left = None

    def _put(self, some: NDArray[np.intp], matrix: PodMatrix) -> None:
        """Store the Pods of some nodes, unsorted, and mark the nodes as stale."""
        charge(20 + _PUTTING * len(matrix.kind) * len(some) // VECTOR)
        kinds = matrix.kind[:, some]
        kinds = np.where(matrix.kinds.priority.values()[kinds] < self.priority, kinds, 0)
        places = len(kinds)
        if places > len(self.kind):
            self._grow(places)
        amounts = {resource: matrix.kinds.amounts(resource) for resource in self._totals}
        self.kind[:places, some], self.kind[places:, some] = kinds, 0
        self.count[some] = np.count_nonzero(kinds, axis=0)
        for resource, total in self._totals.items():
            total[some] = amounts[resource][kinds].sum(axis=0)
        self.serials[some], self.stale[some] = matrix.serials[some], True

    def stale_of(self, nodes: NDArray[np.intp], matrix: PodMatrix) -> NDArray[np.intp]:
        """Return those of these nodes whose Pods are unsorted, or were sorted before a PDB that matters for them
        changed.
        """
        behind = nodes[self._noticed[nodes] < len(self._changes)]
        if len(behind):
            changed = self._changes[int(self._noticed[behind].min()) :]
            self.stale[behind] |= affected(matrix, self.kind[:, behind], changed)
            self._noticed[behind] = len(self._changes)
        return nodes[self.stale[nodes]]

    def settle(self, nodes: NDArray[np.intp], matrix: PodMatrix, snapshot: Snapshot) -> None:
        """Sort the Pods of these nodes if they are stale. Raises CutShort; the next call continues."""
        stale = self.stale_of(nodes, matrix)
        self.version[stale] += 1
        if len(stale) > _TOGETHER:
            for start in range(0, len(stale), BLOCK):
                some = stale[start : start + BLOCK]
                self._order(matrix, snapshot, some)
                self._amount_to(matrix, some)
                self.stale[some] = False
            return
        work = meter()
        for row in stale.tolist():
            work.charge(_NODE + 3 * len(snapshot.node_infos[row].pods))
            self._set(row, snapshot.node_infos[row], matrix)
            self.stale[row] = False

    def _learn_levels(self, matrix: PodMatrix) -> None:
        if self._known_kinds == len(matrix.kinds):
            return
        priorities = matrix.kinds.priority.values()[self._known_kinds : len(matrix.kinds)]
        self._known_kinds = len(matrix.kinds)
        new = set(priorities[priorities < self.priority].tolist()).difference(self.levels.tolist())
        if new:
            self._bounds = {}
            levels = np.array(sorted(new.union(self.levels.tolist())), np.int64)
            self.levels = levels if len(levels) <= MAX_LEVELS else levels[:0]

    def _order(self, matrix: PodMatrix, snapshot: Snapshot, some: NDArray[np.intp]) -> None:
        """Sort the Pods of some nodes into the order in which preemption reprieves them."""
        charge(20 + _SORTING * len(matrix.kind) * len(some) // VECTOR)
        order = reprieve_order(matrix, self.priority, self._pdbs, some)
        ranks = len(order.kind)
        if ranks > len(self.kind):
            self._grow(ranks)
        for name in ("kind", "start", "place", "violates"):
            table = getattr(self, name)
            table[:ranks, some], table[ranks:, some] = getattr(order, name), 0
        self.count[some] = np.count_nonzero(order.kind, axis=0)
        self.violating[some] = np.count_nonzero(order.violates, axis=0)
        for row in some[order.undecided].tolist():
            charge(_NODE + 3 * len(snapshot.node_infos[row].pods))
            self._set(row, snapshot.node_infos[row], matrix)

    def _amount_to(self, matrix: PodMatrix, some: NDArray[np.intp]) -> None:
        """Recompute the cached amounts and bounds of some nodes after their Pods were sorted. `some`: node indices."""
        kind, violates = self.kind[:, some], self.violates[:, some]
        for resource, amounts in self._amounts.items():
            charge(20 + kind.size // VECTOR)
            by_rank = matrix.kinds.amounts(resource)[kind]
            amounts.by_rank[:, some], amounts.total[some] = by_rank, by_rank.sum(axis=0)
            amounts.violating[some] = by_rank.sum(axis=0, where=violates)
            if resource in self._bounds:
                bounds = self._bounds[resource]
                bounds.largest[some] = by_rank.max(axis=0, initial=0)
                bounds.above[:, some] = self._above(matrix, by_rank, kind, violates)

    def _set(self, row: int, info: NodeInfo, matrix: PodMatrix) -> None:
        lower = [pod for pod in info.pods if pod.effective_priority < self.priority]
        semantics = matrix.semantics
        violating, others = filter_pods_with_pdb_violation(
            by_importance(lower, semantics),
            self._pdbs,
            matrix.matching_pdbs.of,
            first_ends_the_count=semantics.pdb_count_ends_at_first_violation,
        )
        ordered, count = [*violating, *others], len(lower)
        if count > len(self.kind):
            self._grow(count + 4)
        places = {id(pod): place for place, pod in enumerate(info.pods)}
        for table in (self.kind, self.violates):
            table[:, row] = 0
        if ordered:
            self.kind[:count, row] = [matrix.kinds.number(pod) for pod in ordered]
            self.start[:count, row] = [start_time(pod) for pod in ordered]
            self.place[:count, row] = [places[id(pod)] for pod in ordered]
            self.violates[: len(violating), row] = True
        self.count[row], self.violating[row] = count, len(violating)
        for resource, amounts in self._amounts.items():
            column = matrix.kinds.amounts(resource)[self.kind[:, row]]
            amounts.by_rank[:, row] = column
            amounts.total[row], amounts.violating[row] = column.sum(), column[: len(violating)].sum()
            if resource in self._bounds:
                bounds, counted = self._bounds[resource], column[len(violating) : count]
                priorities = np.array([pod.effective_priority for pod in others], np.int64)
                bounds.largest[row] = column.max(initial=0)
                bounds.above[:, row] = (priorities > self.levels[:, None]) @ counted

    def _grow(self, ranks: int) -> None:
        more = ((0, ranks - len(self.kind)), (0, 0))
        self.kind, self.start = np.pad(self.kind, more), np.pad(self.start, more)
        self.place, self.violates = np.pad(self.place, more), np.pad(self.violates, more)
        self._amounts = {
            resource: amounts._replace(by_rank=np.pad(amounts.by_rank, more))
            for resource, amounts in self._amounts.items()
        }

    def amounts(self, resource: str, matrix: PodMatrix) -> Amounts:
        """Return the amounts of a resource that the Pods use; cached."""
        if resource not in self._amounts:
            amounts = self.amounts_of(matrix.kinds.amounts(resource))
            self._amounts[resource] = amounts._replace(total=self.total(resource, matrix))
        return self._amounts[resource]

    def total(self, resource: str, matrix: PodMatrix) -> NDArray[np.int64]:
        """Return [node]: the sum of a resource over the lower-priority Pods of the node, also for stale nodes."""
        if resource not in self._totals:
            charge(self.kind.size // VECTOR)
            self._totals[resource] = matrix.kinds.amounts(resource)[self.kind].sum(axis=0)
        return self._totals[resource]

    def amounts_of(self, per_kind: NDArray[np.int64]) -> Amounts:
        """Return the amounts of the lower-priority Pods by `per_kind`: [class], amount of a Pod of the class."""
        by_rank = per_kind[self.kind]
        return Amounts(by_rank, by_rank.sum(axis=0), by_rank.sum(axis=0, where=self.violates))

    def amounts_at(self, per_kind: NDArray[np.int64], nodes: NDArray[np.intp]) -> AmountsOfFew:
        """Return the amounts of the lower-priority Pods of some nodes only. `per_kind`: [class], amount of a Pod of the
        class.

        `nodes`: row numbers.
        """
        theirs, violates = per_kind[self.kind[:, nodes]], self.violates[:, nodes]
        counts, (total, violating) = np.zeros(len(self.count), np.bool_), np.zeros((2, len(self.count)), np.int64)
        counts[nodes], total[nodes] = True, theirs.sum(axis=0)
        if violates.any():
            violating[nodes] = (theirs * violates).sum(axis=0)
        return AmountsOfFew(per_kind, self.kind, counts, total, violating)

    def bounds(self, resource: str, matrix: PodMatrix) -> Bounds:
        """Return the Bounds of one resource, which narrow the selection of victims; cached.

        `levels` must not be empty.
        """
        if resource not in self._bounds:
            by_rank = self.amounts(resource, matrix).by_rank
            self._bounds[resource] = Bounds(
                by_rank.max(axis=0, initial=0), self._above(matrix, by_rank, self.kind, self.violates)
            )
        return self._bounds[resource]

    def _above(
        self, matrix: PodMatrix, by_rank: NDArray[np.int64], kind: NDArray[np.int32], violates: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return `Bounds.above` ([level, node]) for the nodes in the tables `by_rank`, `kind` and `violates`
        ([rank, node]).
        """
        # A sum with `where` makes no table of amounts: at 5,000 nodes these are pages that the kernel clears first.
        above = np.empty((len(self.levels), kind.shape[1]), np.int64)
        others, priority = ~violates, matrix.kinds.priority.values()
        for number, level in enumerate(self.levels.tolist()):
            above[number] = by_rank.sum(axis=0, where=others & (priority > level)[kind])
        return above


def lower_priority_pods_of(matrix: PodMatrix, snapshot: Snapshot, priority: int) -> LowerPriorityPods:
    """Return the up-to-date tables of the Pods with lower priority than `priority`; cached for few priorities.

    Raises CutShort: the next call continues; NotValid: some of the Pods are in PodGroups.
    """
    if snapshot.may_preempt_groups(priority):
        raise NotValid("of Pods that belong to PodGroups")
    lower_priority_pods = matrix.lower_priority.pop(priority, None)
    if lower_priority_pods is None:
        while len(matrix.lower_priority) >= CACHE_SIZE:
            del matrix.lower_priority[next(iter(matrix.lower_priority))]
        lower_priority_pods = LowerPriorityPods(priority, matrix)
    matrix.lower_priority[priority] = lower_priority_pods
    lower_priority_pods.sync(matrix, snapshot)
    return lower_priority_pods
