"""The Pods with lower priority than a given one on each node, in the order in which preemption reprieves them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from forewarn.policies.base.metering import VECTOR, charge, charging, meter
from forewarn.policies.kubernetes.objects.pod import NOW, Pod
from forewarn.policies.kubernetes.scheduling.preemption import (
    HIGHEST,
    TOTAL,
    VIOLATIONS,
    costs_of,
    importance,
    least,
    sort_by_importance,
    violations,
)
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.equivalence_classes import (
    EquivalenceClasses,
    PerClass,
    scope_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import CapacityConstraint
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix

_MAX_NUMBERS: Final = 4096
"""Number of PDB numbers above which all PDBs are numbered again, if there are more than twice as many numbers as
PDBs.
"""
_MAX_CHANGED: Final = 32
"""Maximum number of changed PDBs whose nodes are looked up."""
_CACHE_SIZE: Final = 256
"""Maximum number of PDBs with cached results for all equivalence classes."""


class _Numbered(NamedTuple):
    """The PDBs of a namespace, possibly none, with consecutive numbers.

    `first`: number of the first PDB. `kinds`: the equivalence classes matched so far.
    """

    pdbs: Sequence[PodDisruptionBudget]
    first: int
    kinds: list[int]


class MatchingPdbs:
    """The PDBs that match each equivalence class, cached while the selectors of the PDBs do not change.

    PDBs have numbers, consecutive within a namespace. A PDB that only allows more or fewer disruptions has the same
    number as before, so after a preemption, no selector is evaluated again. Numbers of deleted PDBs are not reused.
    """

    def __init__(self, kinds: EquivalenceClasses) -> None:
        self._kinds = kinds
        self._forget()

    def _forget(self) -> None:
        self._namespaces: dict[str, _Numbered] = {}
        self._all: Mapping[str, Sequence[PodDisruptionBudget]] | None = None
        self._of_kind: dict[int, tuple[int, ...]] = {}
        """Equivalence class -> the numbers of the PDBs that match it."""
        self._allowed: Ints = np.zeros(64, np.int64)
        self._names_pods: Mask = np.zeros(64, np.bool_)
        self._count = 0

    def matching(self, pod: Pod, pdbs: Sequence[PodDisruptionBudget]) -> Iterable[PodDisruptionBudget]:
        """Return the PDBs that match a Pod. `pdbs`: the PDBs of the Pod's namespace."""
        if not pdbs:
            return ()
        numbered = self._numbered(pod.namespace, pdbs)
        return [pdbs[number - numbered.first] for number in self._matching(self._kinds.number(pod), pod)]

    def matches_of_kinds(self, kinds: Rows, pdbs: Mapping[str, Sequence[PodDisruptionBudget]]) -> tuple[Rows, Ints]:
        """Return ([index in `kinds`]: number of matching PDBs; the numbers of these PDBs, one class after the other).

        `pdbs`: namespace -> PDBs. Raises CutShort.
        """
        self._learn(pdbs)
        work = meter()
        rows = list(map(self._of_kind.get, kinds.tolist()))
        work.charge(len(rows) // 16)
        if None in rows:
            for place, kind in enumerate(rows):
                if kind is None:
                    work.charge(1)
                    pod = self._kinds.members[int(kinds[place])]
                    assert pod is not None
                    rows[place] = self._matching(int(kinds[place]), pod)
        matched = cast("list[tuple[int, ...]]", rows)
        lengths = np.array(list(map(len, matched)), np.intp)
        numbers = list(chain.from_iterable(matched))
        work.charge(len(numbers) // 8)
        return lengths, np.array(numbers, np.int64)

    @property
    def allowed(self) -> Ints:
        """[PDB number]: allowed disruptions at the last `matches_of_kinds`. Do not modify."""
        return self._allowed[: self._count]

    @property
    def names_pods(self) -> Mask:
        """[PDB number], bool: whether the PDB lists disrupted Pods in its status."""
        return self._names_pods[: self._count]

    def _learn(self, pdbs: Mapping[str, Sequence[PodDisruptionBudget]]) -> None:
        if pdbs is self._all:
            return
        if self._count > _MAX_NUMBERS and self._count > 2 * sum(map(len, pdbs.values())):
            self._forget()
        charge((len(pdbs) + len(self._namespaces)) // 16)
        for namespace in [name for name, number in self._namespaces.items() if number.pdbs and name not in pdbs]:
            self._drop(namespace)
        for namespace, row in pdbs.items():
            self._numbered(namespace, row)
        self._all = pdbs

    def _numbered(self, namespace: str, pdbs: Sequence[PodDisruptionBudget]) -> _Numbered:
        numbers = self._namespaces.get(namespace)
        if numbers is not None and numbers.pdbs is pdbs:
            return numbers
        self._all = None
        if numbers is not None and _same_selectors(numbers.pdbs, pdbs):
            numbers = numbers._replace(pdbs=pdbs)
        else:
            self._drop(namespace)
            numbers = _Numbered(pdbs, self._count, [])
            self._count += len(pdbs)
            if self._count > len(self._allowed):
                more = 0, self._count
                self._allowed, self._names_pods = np.pad(self._allowed, more), np.pad(self._names_pods, more)
        charge(len(pdbs) // 8)
        here = slice(numbers.first, numbers.first + len(pdbs))
        self._allowed[here] = [pdb.disruptions_allowed for pdb in pdbs]
        self._names_pods[here] = [bool(pdb.disrupted_pods) for pdb in pdbs]
        self._namespaces[namespace] = numbers
        return numbers

    def _drop(self, namespace: str) -> None:
        numbers = self._namespaces.pop(namespace, None)
        for kind in numbers.kinds if numbers is not None else ():
            self._of_kind.pop(kind, None)

    def _matching(self, kind: int, pod: Pod) -> tuple[int, ...]:
        """Return the numbers of PDBs that match a class; cached. Call `_numbered` for the namespace first."""
        result = self._of_kind.get(kind)
        if result is None:
            pdbs, first, kinds = self._namespaces.setdefault(pod.namespace, _Numbered((), 0, []))
            here = enumerate(charging(pdbs, 1.5), first)
            result = tuple(number for number, pdb in here if pdb.matches(pod.namespace, pod.labels))
            self._of_kind[kind] = result
            kinds.append(kind)
        return result


def _same_selectors(one: Sequence[PodDisruptionBudget], other: Sequence[PodDisruptionBudget]) -> bool:
    return len(one) == len(other) and all(a.selector is b.selector for a, b in zip(one, other, strict=True))


def affected(matrix: PodMatrix, kind: NDArray[np.int32], changed: Sequence[tuple[int, PodDisruptionBudget]]) -> Mask:
    """Return [node], bool: whether the changes may affect which evictions violate PDBs. `kind`: [rank, node], Pods.

    `changed`: see `changed_pdbs`. A PDB that allows at least as many disruptions as it has Pods on a node, before and
    after, cannot be violated on the node. After many changes, all nodes count as affected: evaluating these costs less.
    """
    if len(changed) > _MAX_CHANGED:
        return np.ones(kind.shape[1], np.bool_)
    charge((2 + len(changed)) * kind.size // VECTOR)
    counted = [matching_kinds(matrix, pdb)[: len(matrix.kinds)] > 0 for _, pdb in changed]
    mask = np.zeros(kind.shape[1], np.bool_)
    # Few Pods match any of the PDBs. They are selected once, and counted for each PDB.
    place = np.flatnonzero(np.logical_or.reduce(counted).take(kind)) if counted else np.zeros(0, np.intp)
    kinds, nodes = kind.ravel()[place], place % kind.shape[1]
    for (allowed, _), counts in zip(changed, counted, strict=True):
        mask |= np.bincount(nodes[counts[kinds]], minlength=len(mask)) > allowed
    return mask


def changed_pdbs(
    old: Mapping[str, tuple[PodDisruptionBudget, ...]], new: Mapping[str, tuple[PodDisruptionBudget, ...]]
) -> Iterator[tuple[int, PodDisruptionBudget]]:
    """Yield (n, PDB) for added, changed and deleted PDBs: nodes with at most n Pods of the PDB are not affected."""
    for namespace in old.keys() | new.keys():
        before, after = old.get(namespace, ()), new.get(namespace, ())
        if before is after:
            continue
        was, now = {b.name: b for b in before}, {b.name: b for b in after}
        for name in was.keys() | now.keys():
            one, other = was.get(name), now.get(name)
            if one is other:
                continue
            if one and other and (one.selector, one.disrupted_pods) == (other.selector, other.disrupted_pods):
                if one.disruptions_allowed != other.disruptions_allowed:
                    yield min(one.disruptions_allowed, other.disruptions_allowed), other
            else:
                yield from ((0, pdb) for pdb in (one, other) if pdb)


def matching_kinds(matrix: PodMatrix, pdb: PodDisruptionBudget) -> Ints:
    """Return [class]: 1 if the PDB matches the Pods of the equivalence class."""
    key = pdb.namespace, id(pdb.selector)
    entry = matrix.pdbs.pop(key, None)
    if entry is None:
        if len(matrix.pdbs) >= _CACHE_SIZE:
            matrix.pdbs.pop(next(iter(matrix.pdbs)))
        scope = scope_of(pdb.namespace, pdb.selector)
        per_kind = PerClass(matrix.kinds, lambda pod: int(pdb.matches(pod.namespace, pod.labels)), scope)
        entry = per_kind, pdb
    matrix.pdbs[key] = entry
    return entry[0].values()


def _importance_order(node: Rows, priority: Ints, start: Ints, place: Rows, *, in_order: bool) -> Rows:
    """Return the indices that sort Pods by node, then by `importance`. All arrays: [Pod]."""
    last = start[start != NOW].max(initial=0) + 1
    keys = *importance(priority, np.minimum(start, last), place, now=last, in_order=in_order)[::-1], node
    return np.lexsort([key for key in keys if not isinstance(key, int)])  # a number is equal for all Pods


def _rank(group: Rows) -> Rows:
    """Return the index of each element within its run of equal neighbours: 0, 1, 2, … for each run."""
    index = np.arange(len(group))
    first = np.concatenate(([True], group[1:] != group[:-1])) if len(group) else np.zeros(0, np.bool_)
    return index - np.maximum.accumulate(np.where(first, index, 0))


def _violations(
    matrix: PodMatrix, pdbs: Mapping[str, Sequence[PodDisruptionBudget]], node: Rows, kind: NDArray[np.int32]
) -> tuple[Mask, Mask]:
    """Return two bool arrays [Pod]: whether the eviction of the Pod violates a PDB, and whether this is undecided.

    Pods are sorted by node and importance. A Pod and a matching PDB are a pair; of the pairs with the same node and
    PDB, in order, those beyond the allowed disruptions violate the PDB. `node`, `kind`: [Pod], node and equivalence
    class.
    """
    violates = np.zeros(len(kind), np.bool_)
    if not pdbs:
        return violates, violates
    present = np.zeros(len(matrix.kinds), np.bool_)
    present[kind] = True
    here = np.flatnonzero(present)
    matching = matrix.matching_pdbs
    lengths, numbers = matching.matches_of_kinds(here, pdbs)
    if not len(numbers):
        return violates, violates
    place = np.zeros(len(matrix.kinds), np.intp)
    place[here] = np.arange(len(here))
    of_kind = place[kind]
    of_pod = lengths[of_kind]
    pod = np.repeat(np.arange(len(kind)), of_pod)
    # shift[p]: what to add to the index of a pair of Pod p to get the index of the pair's PDB in `numbers`.
    shift = (np.cumsum(lengths) - lengths)[of_kind] - (np.cumsum(of_pod) - of_pod)
    pdb = numbers[np.arange(len(pod)) + shift[pod]]
    undecided = violates.copy()
    undecided[pod[matching.names_pods[pdb]]] = True
    if matrix.semantics.pdb_count_ends_at_first_violation:
        undecided |= of_pod > 1
    order = np.lexsort((pod, pdb, node[pod]))
    pod, pdb = pod[order], pdb[order]
    used = _rank(node[pod] * len(matching.allowed) + pdb) + 1
    violates[pod[used > matching.allowed[pdb]]] = True
    return violates, undecided


CACHE_SIZE: Final = 6
"""Maximum number of priorities with cached tables: about 5 MB each at 5,000 nodes."""
BLOCK: Final = 512
"""Number of nodes that are processed at a time: some milliseconds."""
_NODE: Final = 40
"""Units of work for a node, and three more for each of its Pods."""
_SORTING: Final = 40
"""Operations for each entry of a table to sort it."""
_PUTTING: Final = 8
"""Operations for each entry of a table to copy it unsorted."""
MAX_LEVELS: Final = 48


class Amounts(NamedTuple):
    """The amounts of one resource that lower-priority Pods use.

    `by_rank`: [rank, node]. `total`: [node], the sum. `violating`: [node], the sum of Pods whose eviction violates a
    PDB.
    """

    by_rank: Ints
    total: Ints
    violating: Ints

    def on(self, nodes: Rows, ranks: int) -> Ints:
        """Return [rank, node]: the amounts of the first `ranks` ranks on these nodes."""
        return self.by_rank[:ranks] if len(nodes) == len(self.total) else self.by_rank[:ranks, nodes]


class AmountsOfFew(NamedTuple):
    """The amounts of lower-priority Pods, evaluated only for some nodes; all other nodes count as 0.

    A table of all nodes would need memory pages that the operating system clears first, which takes longer than the
    search. `per_kind`: [class]. `kind`: [rank, node]. `counts`: [node], bool: whether the node is evaluated. `total`,
    `violating`: as in Amounts.
    """

    per_kind: Ints
    kind: NDArray[np.int32]
    counts: Mask
    total: Ints
    violating: Ints

    def on(self, nodes: Rows, ranks: int) -> Ints:
        """Return [rank, node]: the amounts of the first `ranks` ranks on these nodes."""
        return self.per_kind[self.kind[:ranks, nodes]] * self.counts[nodes]


class Bounds(NamedTuple):
    """Limits of the amounts of one resource that lower-priority Pods use.

    `largest`: [node], the largest amount of a Pod. `above`: [level, node], the sum of Pods with a higher priority than
    this level of `LowerPriorityPods.levels`, without Pods whose eviction violates a PDB.
    """

    largest: Ints
    above: Ints


class LowerPriorityPods:
    """Tables of [rank, node] for the Pods with lower priority than `priority`: class, start time, and whether a PDB is
    violated.

    The Pod of rank 0 is reprieved first.
    """

    def __init__(self, priority: int, matrix: PodMatrix) -> None:
        nodes = len(matrix.serials)
        self.priority = priority
        self.serials: Ints = np.full(nodes, -1, np.int64)
        self.stale: Mask = np.zeros(nodes, np.bool_)
        """[node], bool: the Pods are not sorted, or their order may be outdated because PDBs changed.

        Then only `count` and the totals of amounts are valid. Relevant nodes are sorted first (`settle`).
        """
        self.kind: NDArray[np.int32] = np.zeros((0, nodes), np.int32)
        self.start: Ints = np.zeros((0, nodes), np.int64)
        self.place: NDArray[np.int16] = np.zeros((0, nodes), np.int16)
        self.violates: Mask = np.zeros((0, nodes), np.bool_)
        self.count: Ints = np.zeros(nodes, np.int64)
        self.violating: Ints = np.zeros(nodes, np.int64)
        self.levels: Ints = np.zeros(0, np.int64)
        """The priorities of the Pods, lowest first; empty if there are too many."""
        self._known_kinds = 1
        self._totals: dict[str, Ints] = {}
        self._amounts: dict[str, Amounts] = {}
        self._bounds: dict[str, Bounds] = {}
        self._pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]] = {}
        self._left: Rows | None = None
        """Indices in the tables of the nodes that still exist; None: all."""

    def sync(self, matrix: PodMatrix) -> None:
        """Update the tables to these nodes. The Pods of changed nodes are stale: unsorted until `settle`.

        Raises CutShort; the next call continues.
        """
        if self._left is not None:
            self._keep_only(self._left)
        self._learn_levels(matrix)
        others = np.flatnonzero(self.serials != matrix.serials)
        for start in range(0, len(others), BLOCK):
            self._put(others[start : start + BLOCK], matrix)

    def keep_only(self, rows: Rows) -> None:
        """Keep only the nodes at these indices. The tables shrink at the next `sync`."""
        self._left = rows if self._left is None else self._left[rows]

    def _keep_only(self, rows: Rows) -> None:
        for name in ("serials", "stale", "count", "violating"):
            setattr(self, name, getattr(self, name)[rows])
        for name in ("kind", "start", "place", "violates"):
            setattr(self, name, np.take(getattr(self, name), rows, axis=1))
        self._totals = {resource: total[rows] for resource, total in self._totals.items()}
        self._amounts = {
            resource: Amounts(np.take(amounts.by_rank, rows, axis=1), self._totals[resource], amounts.violating[rows])
            for resource, amounts in self._amounts.items()
        }
        self._bounds = {
            resource: Bounds(bounds.largest[rows], np.take(bounds.above, rows, axis=1))
            for resource, bounds in self._bounds.items()
        }
        self._left = None

    def _put(self, some: Rows, matrix: PodMatrix) -> None:
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

    def settle(self, nodes: Rows, matrix: PodMatrix, snapshot: Snapshot) -> None:
        """Sort the Pods of these nodes if they are stale, or if the PDBs that count for them have changed since.

        Raises CutShort; the next call continues.
        """
        if snapshot.pdbs is not self._pdbs:
            if len(self.kind):
                self.stale |= affected(matrix, self.kind, list(changed_pdbs(self._pdbs, snapshot.pdbs)))
            self._pdbs = snapshot.pdbs
        stale = nodes[self.stale[nodes]]
        for start in range(0, len(stale), BLOCK):
            some = stale[start : start + BLOCK]
            self._order(matrix, snapshot, some)
            self._amount_to(matrix, some)
            self.stale[some] = False

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

    def _order(self, matrix: PodMatrix, snapshot: Snapshot, some: Rows) -> None:
        """Sort the Pods of some nodes into the order in which preemption reprieves them: first Pods that violate a PDB,
        each group by importance. Source: upstream `SelectVictimsOnNode`.
        """
        charge(20 + _SORTING * len(matrix.kind) * len(some) // VECTOR)
        priorities = matrix.kinds.priority.values()
        kinds, starts = matrix.kind[:, some], matrix.start[:, some]
        place, node = np.nonzero((kinds > 0) & (priorities[kinds] < self.priority))
        kind, start = kinds[place, node], starts[place, node]
        in_order = matrix.semantics.unstarted_victims_in_order
        order = _importance_order(node, priorities[kind], start, place, in_order=in_order)
        node, kind, start, place = node[order], kind[order], start[order], place[order]
        violates, undecided = _violations(matrix, self._pdbs, node, kind)
        if violates.any():
            order = np.argsort(2 * node + ~violates, kind="stable")
            node, kind, start, place, violates = node[order], kind[order], start[order], place[order], violates[order]
            undecided = undecided[order]
        rank = _rank(node)
        ranks = int(rank.max(initial=-1)) + 1
        if ranks > len(self.kind):
            self._grow(ranks)
        for table in (self.kind, self.start, self.place, self.violates):
            table[:, some] = 0
        rows = some[node]
        self.kind[rank, rows], self.start[rank, rows] = kind, start
        self.place[rank, rows], self.violates[rank, rows] = place, violates
        self.count[some] = np.bincount(node, minlength=len(some))
        self.violating[some] = np.bincount(node[violates], minlength=len(some))
        for row in some[np.flatnonzero(np.bincount(node[undecided]))].tolist():
            charge(_NODE + 3 * len(snapshot.node_infos[row].pods))
            self._set(row, snapshot.node_infos[row], matrix)

    def _amount_to(self, matrix: PodMatrix, some: Rows) -> None:
        """Recompute the cached amounts and bounds of some nodes after their Pods were sorted. `some`: node indices."""
        kind, violates = self.kind[:, some], self.violates[:, some]
        higher = self._higher(matrix, kind, violates) if self._bounds else None
        for resource, amounts in self._amounts.items():
            charge(20 + kind.size // VECTOR)
            by_rank = matrix.kinds.amounts(resource)[kind]
            amounts.by_rank[:, some], amounts.total[some] = by_rank, by_rank.sum(axis=0)
            amounts.violating[some] = by_rank.sum(axis=0, where=violates)
            if higher is not None and resource in self._bounds:
                bounds = self._bounds[resource]
                bounds.largest[some] = by_rank.max(axis=0, initial=0)
                bounds.above[:, some] = _sums_above(by_rank, higher)

    def _set(self, row: int, info: NodeInfo, matrix: PodMatrix) -> None:
        """Sort the Pods of a node one by one: a PDB names some of them, or several PDBs match one."""
        lower = [pod for pod in info.pods if pod.effective_priority < self.priority]
        semantics = matrix.semantics
        first_ends, of, pdbs = semantics.pdb_count_ends_at_first_violation, matrix.matching_pdbs.matching, self._pdbs
        matched = ((pod, of(pod, pdbs.get(pod.namespace, ()))) for pod in sort_by_importance(lower, semantics))
        pods = list(violations(matched, first_ends_the_count=first_ends))
        violating, others = ([pod for pod, pdbs in pods if bool(pdbs) is violates] for violates in (True, False))
        ordered, count = [*violating, *others], len(lower)
        places = {id(pod): place for place, pod in enumerate(info.pods)}
        self.kind[:count, row] = [matrix.kinds.number(pod) for pod in ordered]
        self.start[:count, row] = [pod.start for pod in ordered]
        self.place[:count, row] = [places[id(pod)] for pod in ordered]
        self.violates[:, row] = np.arange(len(self.violates)) < len(violating)
        self.violating[row] = len(violating)

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

    def total(self, resource: str, matrix: PodMatrix) -> Ints:
        """Return [node]: the sum of a resource over the lower-priority Pods of the node, also for stale nodes."""
        if resource not in self._totals:
            charge(self.kind.size // VECTOR)
            self._totals[resource] = matrix.kinds.amounts(resource)[self.kind].sum(axis=0)
        return self._totals[resource]

    def amounts_of(self, per_kind: Ints) -> Amounts:
        """Return the amounts of the lower-priority Pods by `per_kind`: [class], amount of a Pod of the class."""
        by_rank = per_kind[self.kind]
        return Amounts(by_rank, by_rank.sum(axis=0), by_rank.sum(axis=0, where=self.violates))

    def amounts_at(self, per_kind: Ints, nodes: Rows) -> AmountsOfFew:
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
        """Return the Bounds of a resource, which narrow the selection of victims; cached. `levels`: not empty."""
        if resource not in self._bounds:
            by_rank, nodes = self.amounts(resource, matrix).by_rank, len(self.count)
            above = np.zeros((len(self.levels), nodes), np.int64)
            for start in range(0, nodes, BLOCK):
                some = slice(start, start + BLOCK)
                higher = self._higher(matrix, self.kind[:, some], self.violates[:, some])
                above[:, some] = _sums_above(by_rank[:, some], higher)
            self._bounds[resource] = Bounds(by_rank.max(axis=0, initial=0), above)
        return self._bounds[resource]

    def _higher(self, matrix: PodMatrix, kind: NDArray[np.int32], violates: Mask) -> Mask:
        """Return [level, rank, node], bool: whether the Pod has a higher priority, and violates no PDB."""
        return ~violates & (matrix.kinds.priority.values()[kind] > self.levels[:, None, None])

    def occupancy(self, constraint: CapacityConstraint, matrix: PodMatrix) -> Occupancy:
        """Return the amounts of a resource on each node: those in use, the limit, and those of the Pods."""
        amounts = self.amounts(constraint.resource, matrix)
        bounds = self.bounds(constraint.resource, matrix) if len(self.levels) else None
        return Occupancy(amounts, constraint.present, constraint.limit, bounds)


def _sums_above(by_rank: Ints, higher: Mask) -> Ints:
    """Return `Bounds.above` ([level, node]) of amounts. `by_rank`: [rank, node]. `higher`: see `_higher`."""
    above: Ints = np.einsum("rn,lrn->ln", by_rank, higher)
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
    lower_priority_pods.sync(matrix)
    return lower_priority_pods


_IS_BOUNDED: Final = (VIOLATIONS, HIGHEST, TOTAL) == (0, 1, 2)
"""Whether the first criteria are those for which `cheapest` knows bounds."""


_FEW_NODES: Final = 128
"""Maximum number of nodes for which the first search includes nodes that may need one more victim than the best."""


class Occupancy(NamedTuple):
    """The amount of one constraint that Pods use on each node. Arrays are [node].

    `present`: with all Pods. `limit`: the maximum for other Pods so that the new Pod fits. `amounts`: the part of
    lower-priority Pods.
    """

    amounts: Amounts | AmountsOfFew
    present: Ints
    limit: Ints
    bounds: Bounds | None = None

    @property
    def base(self) -> Ints:
        """[node]: the amount in use if all lower-priority Pods were removed."""
        return self.present - self.amounts.total


class Found(NamedTuple):
    """The nodes with the lowest preemption cost, in order (row numbers).

    `victims`: [rank, node], bool. `costs`: [criterion, node], see `costs_of`.
    """

    nodes: Rows
    victims: Mask
    costs: Ints


def cheapest(rows: Sequence[Occupancy], nodes: Rows, lower: LowerPriorityPods, priorities: Ints) -> Found:
    """Return the best of these nodes for preemption. `nodes`: row numbers; the Pod fits on them only without
    lower-priority Pods.

    `rows`: the constraints. `priorities`: [class].
    """
    rows = [row for row in rows if (row.present[nodes] > row.limit[nodes]).any()]
    harmless = _without_violations(rows, nodes, lower) if _IS_BOUNDED else nodes[:0]
    if len(harmless) and len(lower.levels):
        return _narrowed(rows, harmless, lower, priorities)
    nodes = harmless if len(harmless) else nodes
    return _best(nodes, victims_on(rows, nodes, lower), lower, priorities)


def _narrowed(rows: Sequence[Occupancy], nodes: Rows, lower: LowerPriorityPods, priorities: Ints) -> Found:
    """Return the best of nodes without PDB violations. Selects victims only on nodes that can be the best.

    Limits of the resources show which nodes can be the best: by the highest priority of a victim, and by a lower bound
    of the number of victims.
    """
    level, top = _lowest_level(rows, nodes, lower)
    # [index in `level`]: a lower bound of victims, as if each were the largest Pod of its node.
    least = np.ones(len(level), np.int64)
    for row in rows:
        if row.bounds is not None:
            lacking = row.present[level] - row.limit[level]
            largest = np.maximum(row.bounds.largest[level], 1)
            np.maximum(least, -(-lacking // largest), out=least)
    bound = int(least.min())
    if np.count_nonzero(least <= bound + 1) <= _FEW_NODES:
        bound += 1
    near = level[least <= bound]
    nearest = _best(near, victims_on(rows, near, lower), lower, priorities)
    highest, total = nearest.costs[[HIGHEST, TOTAL], 0].tolist()
    if highest > top:  # a constraint other than a resource requires a victim of higher priority
        return _best(nodes, victims_on(rows, nodes, lower), lower, priorities)
    cheapest_victim = int(lower.levels[0]) + 2**31
    rest = level[(least > bound) & (least * cheapest_victim <= total)]
    if not len(rest):
        return nearest
    near = np.sort(np.concatenate((nearest.nodes, rest)))
    return _best(near, victims_on(rows, near, lower), lower, priorities)


def _lowest_level(rows: Sequence[Occupancy], nodes: Rows, lower: LowerPriorityPods) -> tuple[Rows, int]:
    """Return (the nodes with the lowest priority level above which they need no victim, that level)."""
    free_amounts = [
        (row.limit[nodes] - row.base[nodes] - row.amounts.violating[nodes], row.bounds.above)
        for row in rows
        if row.bounds is not None
    ]
    for index, level in enumerate(lower.levels.tolist()):
        fits = np.ones(len(nodes), np.bool_)
        for free, above in free_amounts:
            fits &= above[index, nodes] <= free
        if fits.any():
            return nodes[fits], level
    raise AssertionError("with every pod of lower priority gone there was room")


def _without_violations(rows: Sequence[Occupancy], nodes: Rows, lower: LowerPriorityPods) -> Rows:
    """Return the nodes where all Pods that violate PDBs can stay. Exact, because these Pods are reprieved first."""
    if not lower.violating[nodes].any():
        return nodes
    harmless = np.ones(len(nodes), np.bool_)
    for row in rows:
        harmless &= row.base[nodes] + row.amounts.violating[nodes] <= row.limit[nodes]
    return nodes[harmless]


def victims_on(rows: Sequence[Occupancy], nodes: Rows, lower: LowerPriorityPods) -> Mask:
    """Return [rank, node], bool: whether the Pod is a victim. As in upstream, a Pod is reprieved if the new Pod still
    fits.

    `rows`: the constraints that are exceeded with all Pods.
    """
    ranks = int(lower.count[nodes].max())
    shape = len(rows), ranks, len(nodes)
    amounts = np.array([row.amounts.on(nodes, ranks) for row in rows], np.int64).reshape(shape)
    free = np.array([row.limit[nodes] - row.base[nodes] for row in rows], np.int64).reshape(len(rows), len(nodes))
    victims = np.zeros((ranks, len(nodes)), np.bool_)
    # The most important Pods usually stay on all nodes. Cumulative sums show how many ranks these are.
    charge(2 * amounts.size // VECTOR)
    over = amounts.cumsum(axis=1) > free[:, None]
    by_rank = np.logical_or.reduce(over, axis=(0, 2))
    together = int(np.argmax(by_rank)) if len(by_rank) else 0
    free -= amounts[:, :together].sum(axis=1)
    for rank in range(together, ranks):
        charge(free.size // VECTOR)
        amount = amounts[:, rank]
        np.logical_or.reduce(amount > free, axis=0, out=victims[rank])
        free -= amount * ~victims[rank]
    # A rank without a Pod has no victim, even if a limit is exceeded.
    return victims & (lower.kind[:ranks, nodes] > 0)


def _best(nodes: Rows, victims: Mask, lower: LowerPriorityPods, priorities: Ints) -> Found:
    """Return the nodes with the lowest cost."""
    costs = costs_on(nodes, victims, lower, priorities)
    best = least(costs, np.arange(len(nodes)))
    return Found(nodes[best], victims[:, best], costs[:, best])


def costs_on(nodes: Rows, victims: Mask, lower: LowerPriorityPods, priorities: Ints) -> Ints:
    """Return [criterion, node]: the preemption cost of each of `nodes` (row numbers); see `costs_of`."""
    ranks = len(victims)
    of_victims = priorities[lower.kind[:ranks, nodes]]
    violates = lower.violating[nodes].any()
    violations = (victims & lower.violates[:ranks, nodes]).sum(axis=0) if violates else np.zeros(len(nodes), np.int64)
    return costs_of(victims, violations, of_victims, lower.start[:ranks, nodes])
