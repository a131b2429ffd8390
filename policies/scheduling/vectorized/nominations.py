"""The nominated Pods as arrays: the amounts that they will use in addition to the Pods on their nodes.

Updated node by node, because few nominations change from cycle to cycle. Source: kubernetes
`pkg/scheduler/framework/runtime/framework.go` (`addGENominatedPods`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.cow_table import FrozenTable
from forewarn.policies.metering import VECTOR, charge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_CACHE_SIZE: Final = 64
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
            if len(self._sums) >= _CACHE_SIZE:
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
