"""Pods as a table: a column for each node, a row for each position in `NodeInfo.pods`. Updated by NodeInfo serials.

Updates count as work of the prediction that triggers them, although every prediction benefits: the first prediction
after many changes must not miss its deadline. An interrupted update continues node by node.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forewarn.policies.metering import VECTOR, CutShort, charge, meter, unmetered
from forewarn.policies.scheduling.preemption import start_time
from forewarn.policies.scheduling.vectorized.equivalence_classes import (
    EquivalenceClasses,
    KindsWithTerms,
    PerClass,
    Scope,
    scopes_of,
)
from forewarn.policies.scheduling.vectorized.lower_priority_pods import MatchingPdbs
from forewarn.policies.scheduling.vectorized.nodes import NodeTables

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_affinity import AffinityTerm
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.columns import Columns
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.nodes import Topology

CACHE_SIZE: Final = 64
"""Minimum for the maximum number of cached arrays by class; `_CACHED_NUMBERS` may allow more (`cache_size`)."""
_CACHED_NUMBERS: Final = 2**22
_MAX_CACHED: Final = 4096
MAX_NEW_KINDS: Final = 1024
"""Number of new equivalence classes, beyond twice the initial number, above which those without Pods are removed."""
_OF_NODES: Final = ("kind", "start", "serials", "_columns", "_pods", "nodes", "_scores")
"""Tables of the nodes and their Pods. All others contain results by equivalence class, or ids of specs of classes."""
_CACHED_SUMS: Final = 256
"""Minimum for the maximum number of cached sums by node: 80 kB each at 5,000 nodes; see `cache_size`."""
_MAX_TOPOLOGIES: Final = 8
"""Maximum number of topologies with cached counts."""
_FEW_KINDS: Final = 32
"""Maximum number of equivalence classes that are counted one by one."""
_NODE: Final = 14
"""Units of work for a node, and two more for each of its Pods."""


class PodCounts:
    """The number of Pods on each node that match a condition, and on each domain of the requested topologies.

    `here`: [node]. `of`: the number for one Pod, usually 1 or 0. `keep`: objects that must stay alive for `of`.
    """

    __slots__ = ("_domains", "here", "keep", "of")

    def __init__(self, here: NDArray[np.int64], of: Callable[[Pod], int], keep: object) -> None:
        self.here, self.of, self.keep = here, of, keep
        self._domains: dict[Topology, NDArray[np.int64]] = {}

    def add(self, row: int, amount: int) -> None:
        """Add `amount` to the count of a node and its domains; negative for a removed Pod."""
        if not self.here.flags.writeable:
            self.here = self.here.copy()
        self.here[row] += amount
        for topology, counts in self._domains.items():
            number = topology.values[row]
            if number >= 0:
                counts[number] += amount

    def by_domain(self, topology: Topology) -> NDArray[np.int64]:
        """Return [number of a domain]: the sum over the domain's nodes.

        The last entry is 0, for nodes without the label.
        """
        counts = self._domains.get(topology)
        if counts is None:
            if len(self._domains) >= _MAX_TOPOLOGIES:
                self._domains.clear()
            counts = self._domains[topology] = topology.by_value(self.here)
        return counts

    def forget_domains(self) -> None:
        """Clear the counts by domain, because a node may have changed its domain."""
        self._domains.clear()


class PodMatrix:
    """The tables of the nodes of a Snapshot: Pods, labels, and the order of victims for each priority."""

    def __init__(self, nodes: int, semantics: Semantics) -> None:
        self.semantics = semantics
        self.kinds = EquivalenceClasses(semantics)
        self.max_kinds = 0
        """Number of classes above which those without Pods are removed; 0 before the first snapshot."""
        self.kind: NDArray[np.int32] = np.zeros((8, nodes), np.int32)
        self.start: NDArray[np.int64] = np.zeros((8, nodes), np.int64)
        self.serials: NDArray[np.int64] = np.zeros(nodes, np.int64)
        self._columns: Columns | None = None
        """The columns of the snapshot that the tables show; None during an update."""
        self._pods: list[Sequence[Pod]] = [()] * nodes
        """[node]: its Pods, as they are in the tables."""
        self.nodes = NodeTables(nodes)
        self.lower_priority: dict[int, LowerPriorityPods] = {}
        self.matches: dict[Hashable, tuple[PerClass, object]] = {}
        """Key of a constraint -> (a number for each class, the objects that the key identifies by id and that must stay
        alive).
        """
        self.against: dict[Hashable, tuple[Any, object]] = {}
        """Key of a Pod -> (the anti-affinity of Pods on nodes against it, objects that must stay alive)."""
        self._zeros = _read_only_zeros(nodes)
        """[node]: the counts of all conditions that no Pod matches, such as the selectors of new workloads."""
        self._counts: dict[Hashable, PodCounts] = {}
        self._counts_of: dict[Scope | None, list[PodCounts]] = {}
        """Scope -> its counts; None -> the counts of all Pods."""
        self._counting: dict[int, list[tuple[PodCounts, int]]] = {}
        """Equivalence class -> the counts that include it, with its amount."""
        self._nodes_of: dict[int, dict[int, int]] = {}
        """Equivalence class -> row number of a node -> number of Pods, for classes that `present` has counted."""
        self.pdbs: dict[Hashable, tuple[PerClass, object]] = {}
        """(namespace, id of a selector) -> the equivalence classes that a PDB matches, and the PDB, which keeps the
        selector alive.
        """
        self.matching_pdbs = MatchingPdbs(self.kinds)
        self.nominations: dict[int, Any] = {}
        """Number of shards of a table -> its nominated Pods (nominations.py).

        The table of the cluster has many shards, the table after a hypothetical preemption has one.
        """
        self.static_rejections: dict[Hashable, tuple[object, object, Any]] = {}
        """Static fields of specs -> (a spec, the table of nodes, the static rejections)."""
        self.static_statuses: dict[Hashable, Any] = {}
        """Static fields of specs -> the reasons of the static rejections (rejections.py)."""
        self.repelling = KindsWithTerms(self.kinds, lambda pod: pod.spec.pod_affinity.required_anti_affinity)
        """Classes whose required anti-affinity affects other Pods."""
        self.attractive = KindsWithTerms(self.kinds, attracting_terms)
        """Classes whose Pod affinity affects the scores of other Pods."""
        self._scores: dict[Hashable, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """Key of `scores` -> ([node], the scores; [node], the serials of the scored states, -1 for none)."""
        self.storage: Any = None
        """The claims, volumes and drivers (storage.py)."""

    def sync(self, snapshot: Snapshot) -> None:
        """Update the tables to this Snapshot. Raises CutShort; the next call continues."""
        if self.kinds.weight > self.max_kinds > 0:
            self._remove_unused_kinds()
        if self._columns is snapshot.columns:
            return
        self._columns = None
        serials, work = snapshot.columns.serials, meter()
        for row in (self.serials != serials).nonzero()[0].tolist():
            info = snapshot.node_infos[row]
            work.charge(_NODE + 2 * len(info.pods) + self.nodes.cost(row, info.node))
            self.serials[row] = 0  # of no state, until all of this one is there
            matched = self._set(row, info)
            self.serials[row] = serials[row]
            work.charge(matched)
        self._columns = snapshot.columns
        self.max_kinds = self.max_kinds or 2 * self.kinds.weight + MAX_NEW_KINDS

    def _remove_unused_kinds(self) -> None:
        """Remove the equivalence classes without Pods, and all results by class; retain the tables of the nodes."""
        retained = {name: getattr(self, name) for name in _OF_NODES}
        members = [*self.kinds.members]
        self.kinds.forget()
        self.__init__(len(self.serials), self.semantics)  # type: ignore[misc]
        self.__dict__.update(retained)
        numbers = np.zeros(len(members), np.int32)
        for number in np.flatnonzero(np.bincount(self.kind.ravel())).tolist():
            pod = members[number]
            numbers[number] = 0 if pod is None else self.kinds.number(pod)
        self.kind = numbers[self.kind]
        self.max_kinds = 2 * self.kinds.weight + MAX_NEW_KINDS

    def _set(self, row: int, info: NodeInfo) -> int:
        """Set the Pods of a node. Return the number of selectors that new classes were matched with."""
        pods, number = info.pods, self.kinds.number
        count = len(pods)
        if count > len(self.kind):
            more = ((0, count + 4 - len(self.kind)), (0, 0))
            self.kind, self.start = np.pad(self.kind, more), np.pad(self.start, more)
        before = self._pods[row]
        new = [place for place, (old, pod) in enumerate(zip(before, pods, strict=False)) if old is not pod]
        new += range(len(before), count)
        places = new if len(before) <= count else [*new, *range(count, len(before))]
        old_kinds, kinds = self.kind[places, row].tolist(), [number(pods[place]) for place in new]
        if self.nodes.nodes[row] is not info.node:
            with unmetered():  # it has been paid for, and half of it would be of no state
                self.nodes.set(row, info.node)
            for counts in self._counts.values():
                counts.forget_domains()
        self._pods[row] = pods
        if len(before) > count:
            self.kind[count:, row] = 0
        self.kind[new, row] = kinds
        self.start[new, row] = [start_time(pods[place]) for place in new]
        if not (self._counts or self._nodes_of) or old_kinds == kinds:
            return 0
        gained = Counter(kinds)  # minus the old ones: the Pods after a removed Pod only change their position
        gained.subtract(old_kinds)
        try:
            return sum(self._count(row, kind, pods_more) for kind, pods_more in gained.items() if kind and pods_more)
        except CutShort:  # by a long selector: the pods are in their places, and some of them are counted
            self._forget_counts()
            raise

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Remove the nodes at these indices. Values of the other nodes do not change."""
        self.kind, self.start = np.delete(self.kind, rows, axis=1), np.delete(self.start, rows, axis=1)
        self.serials, self._columns = np.delete(self.serials, rows), None
        removed = set(rows.tolist())
        self._pods = [pods for row, pods in enumerate(self._pods) if row not in removed]
        self.nodes.remove(rows)
        for lower in self.lower_priority.values():
            lower.remove(rows)
        self._forget_results()

    def insert(self, places: NDArray[np.intp]) -> None:
        """Make room for nodes before these indices. The next `sync` sets their values; the others do not change."""
        self.kind, self.start = np.insert(self.kind, places, 0, axis=1), np.insert(self.start, places, 0, axis=1)
        self.serials, self._columns = np.insert(self.serials, places, 0), None
        for place in places[::-1].tolist():
            self._pods.insert(place, ())
        self.nodes.insert(places)
        self.lower_priority.clear()
        self._forget_results()

    def _forget_results(self) -> None:
        """Clear what depends on the set of nodes."""
        self.nominations.clear()
        self._forget_counts()
        self._zeros = _read_only_zeros(len(self.serials))
        self.static_rejections.clear()
        self.static_statuses.clear()
        self.storage = None
        self._scores.clear()

    def cached(
        self, key: Hashable, keep: object, of: Callable[[Pod], int], scope: Scope | None = None
    ) -> NDArray[np.int64]:
        """Return [class]: the result of `of`, which depends only on `key` and the class; cached.

        `keep`: the objects that the key identifies by id, which must stay alive. `scope`: classes outside have 0; None:
        no restriction.
        """
        value = self.matches.get(key)
        if value is None:
            if len(self.matches) >= cache_size(CACHE_SIZE, len(self.kinds)):
                self.matches.clear()
            value = self.matches[key] = (PerClass(self.kinds, of, scope), keep)
        return value[0].values()

    def counts(self, key: Hashable, keep: object, of: Callable[[Pod], int], scope: Scope | None) -> PodCounts:
        """Return the sums of `of` by node for the Pods of a scope (None: all); cached, and updated when Pods change.

        `of` depends only on `key` and the Pod's class. `keep`: as in `cached`.
        """
        totals = self._counts.get(key)
        if totals is None:
            if len(self._counts) >= cache_size(_CACHED_SUMS, len(self.serials)):
                self._forget_counts()
            was_known = key in self.matches
            per_kind = self.cached(key, keep, of, scope)
            charge(self.kind.size // VECTOR)
            here = self._summed(self.kind, per_kind)
            if not was_known:
                del self.matches[key]  # only the sums are read again
            if not here.any():
                here = self._zeros
            totals = self._counts[key] = PodCounts(here, of, keep)
            self._counts_of.setdefault(scope, []).append(totals)
            self._counting.clear()
        return totals

    def counted(self, key: Hashable) -> PodCounts | None:
        """Return the numbers of Pods on each node that are cached under this key, or None."""
        return self._counts.get(key)

    def _forget_counts(self) -> None:
        for table in (self._counts, self._counts_of, self._counting, self._nodes_of):
            table.clear()

    def _count(self, row: int, kind: int, number: int) -> int:
        """Add Pods of a class on a node; a negative `number` removes them. Return the number of matched selectors."""
        counting, matched = self._counting.get(kind), 0
        if counting is None:
            pod = self.kinds.members[kind]
            scopes = (None, *scopes_of(pod)) if pod is not None else ()
            every = [counts for scope in scopes for counts in self._counts_of.get(scope, ())]
            amounts = [] if pod is None else [(counts, counts.of(pod)) for counts in every]
            counting = self._counting[kind] = [(counts, amount) for counts, amount in amounts if amount]
            matched = len(every)
        for counts, amount in counting:
            counts.add(row, number * amount)
        nodes = self._nodes_of.get(kind)
        if nodes is not None:
            nodes[row] = nodes.get(row, 0) + number
        return matched

    @staticmethod
    def _summed(kind: NDArray[np.int32], per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [node]: the sum of `per_kind` ([class]) over the Pods of the node.

        `kind`: [position, node], class of each Pod.
        """
        totals: NDArray[np.int64]
        counted = np.flatnonzero(per_kind)
        if len(counted) == 1:  # as of the pods of one workload: twenty times as fast as looking up each pod's number
            number = int(counted[0])
            narrow = np.int8 if len(kind) <= np.iinfo(np.int8).max else np.int64
            totals = (kind == number).sum(axis=0, dtype=narrow).astype(np.int64) * per_kind[number]
        else:
            totals = per_kind[kind].sum(axis=0)
        return totals

    def scores(
        self, key: Hashable, rows: NDArray[np.intp], score: Callable[[NDArray[np.intp]], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return [index in `rows`]: the scores of nodes, given as row numbers; cached, and updated when nodes change.

        `score`: row numbers -> scores, which depend only on `key`, the node and its Pods.
        """
        totals = self._scores.get(key)
        if totals is None:
            if len(self._scores) >= cache_size(_CACHED_SUMS, len(self.serials)):
                self._scores.clear()
            totals = self._scores[key] = np.zeros_like(self.serials), np.full_like(self.serials, -1)
        scores, serials = totals
        changed = rows[serials.take(rows) != self.serials.take(rows)]
        if len(changed):
            charge(len(changed) // 8)
            scores[changed] = score(changed)
            serials[changed] = self.serials[changed]
        return scores.take(rows)

    def present(self, per_kind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [node]: the sum of `per_kind` ([class], small numbers) over the Pods of the node."""
        counted = np.flatnonzero(per_kind).tolist()
        if len(counted) > _FEW_KINDS:
            charge(self.kind.size // VECTOR)
            every: NDArray[np.int64] = per_kind.astype(np.int16)[self.kind].sum(axis=0, dtype=np.int64)
            return every
        total = np.zeros(self.kind.shape[1], np.int64)
        for number in counted:
            nodes = self._nodes_with(number)
            rows = np.fromiter(nodes, np.intp, len(nodes))
            total[rows] += per_kind[number] * np.fromiter(nodes.values(), np.int64, len(nodes))
        return total

    def _nodes_with(self, kind: int) -> dict[int, int]:
        """Return row number -> number of Pods of a class, perhaps 0, for the nodes with such Pods."""
        mask = self._nodes_of.get(kind)
        charge(len(mask) // 8 if mask is not None else self.kind.size // VECTOR)
        if mask is None:
            rows, numbers = np.unique((self.kind == kind).nonzero()[1], return_counts=True)
            mask = self._nodes_of[kind] = dict(zip(rows.tolist(), numbers.tolist(), strict=True))
        return mask


def _read_only_zeros(count: int) -> NDArray[np.int64]:
    zeros = np.zeros(count, np.int64)
    zeros.flags.writeable = False
    return zeros


def attracting_terms(pod: Pod) -> list[AffinityTerm]:
    """Return the terms of a Pod on a node that affect the score of other Pods."""
    affinity = pod.spec.pod_affinity
    weighted = *affinity.preferred_affinity, *affinity.preferred_anti_affinity
    return [*affinity.required_affinity, *(item.term for item in weighted)]


def cache_size(least: int, size: int) -> int:
    """Return the maximum number of cached tables with `size` entries each; at least `least`."""
    return min(max(least, _CACHED_NUMBERS // max(size, 1)), _MAX_CACHED)


def pod_matrix_of(snapshot: Snapshot) -> PodMatrix:
    """Return the tables of a Snapshot, up to date. Raises CutShort.

    Hold `snapshot.derived.locked()` during the call and while you use the result.
    """
    derived = snapshot.derived
    if derived.matrix is None:
        derived.matrix = PodMatrix(len(snapshot.node_infos), snapshot.semantics)
    matrix: PodMatrix = derived.matrix
    matrix.sync(snapshot)
    return matrix
