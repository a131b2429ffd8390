"""The nominated pods as columns: what they will take up beside the pods on their nodes.

Kept up node by node: from cycle to cycle few nominations come and go. Source: kubernetes
`pkg/scheduler/framework/runtime/framework.go` (`addGENominatedPods`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.cow_table import FrozenTable
from forewarn.policies.metering import charge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_KEPT_CHANGES: Final = 4096
_KEPT: Final = 64
"""Sums kept at most: resources times priorities that ask."""


class Nominated(NamedTuple):
    """A nominated pod that counts. `row`: of its node in the columns."""

    row: int
    kind: int
    priority: int


class Nominations:
    """The nominated pods of one table of them after the other, of one set of nodes."""

    def __init__(self, matrix: PodMatrix) -> None:
        self._kinds = matrix.kinds
        self._count = len(matrix.serials)
        self._table: object = None
        self._nodes: object = None
        self._shards: list[Mapping[str, tuple[Pod, ...]]] = []
        self._pods: dict[str, tuple[Pod, ...]] = {}
        """Node -> its nominated pods, as the table has them."""
        self._by_node: dict[str, list[tuple[str, Nominated]]] = {}
        self._by_pod: dict[str, Nominated] = {}
        """By identity. A pod is nominated once."""
        self._sums: dict[tuple[int, str], NDArray[np.int64]] = {}
        self._columns: NDArray[np.int64] | None = None
        self._largest: dict[str, tuple[int, int]] = {}
        """Resource -> (how many kinds there were, the largest amount of any)."""
        self.version = 0
        """Another one whenever they change."""
        self._changed: list[int] = []
        """The rows of the columns in which each of the last versions differs from the previous version."""

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def is_of(self, snapshot: Snapshot) -> bool:
        """Whether these are the nominated Pods of this snapshot."""
        return snapshot.objects.nominated is self._table and snapshot.rows is self._nodes

    def sync(self, snapshot: Snapshot) -> None:
        """Become the nominated pods of this snapshot. Raises CutShort: the parts up to there are done."""
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
        self._changed = []
        self._pods, self._by_node, self._by_pod, self._sums, self._columns = {}, {}, {}, {}, None

    def _change(
        self, snapshot: Snapshot, old: Mapping[str, tuple[Pod, ...]], new: Mapping[str, tuple[Pod, ...]]
    ) -> None:
        """One part of the table is another. Pods may have gone from one node to another: first they go.

        Raises CutShort, before anything is done.
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
        for identity, nominated in self._by_node.pop(name, ()):
            if self._by_pod.get(identity) is nominated:
                del self._by_pod[identity]
            self._add(nominated, -1)

    def _put(self, snapshot: Snapshot, name: str, pods: tuple[Pod, ...]) -> None:
        self._pods[name] = pods
        row = snapshot.rows.get(name)
        if row is None:
            return
        here: list[tuple[str, Nominated]] = []
        for pod in snapshot.nominated_pods(name):
            nominated = Nominated(row, self._kinds.number(pod), pod.effective_priority)
            self._by_pod[pod.identity] = nominated
            here.append((pod.identity, nominated))
            self._add(nominated, 1)
        if here:
            self._by_node[name] = here

    def _add(self, nominated: Nominated, sign: int) -> None:
        self._columns, amounts = None, dict[str, int]()
        self.version += 1
        if len(self._changed) >= _KEPT_CHANGES:
            self._changed = []
        self._changed.append(nominated.row)
        for (priority, resource), total in self._sums.items():
            if nominated.priority >= priority:
                if resource not in amounts:
                    amounts[resource] = sign * int(self._kinds.amounts(resource)[nominated.kind])
                total[nominated.row] += amounts[resource]

    def changed_since(self, version: int) -> list[int] | None:
        """The rows that differ from a version; None where that is too long ago."""
        count = self.version - version
        return self._changed[len(self._changed) - count :] if count <= len(self._changed) else None

    def of(self, pod: Pod) -> Nominated | None:
        """The pod itself, where it is nominated and of those that count."""
        return self._by_pod.get(pod.identity)

    def amounts(self, resource: str, priority: int) -> NDArray[np.int64]:
        """[node]: what those of this priority and above will take up of a resource. Not to be changed."""
        found = self._sums.get((priority, resource))
        if found is None:
            if len(self._sums) >= _KEPT:
                self._sums.clear()
            rows, kinds = self.columns(priority)
            amounts, found = self._kinds.amounts(resource), np.zeros(self._count, np.int64)
            np.add.at(found, rows, amounts[kinds])
            self._sums[priority, resource] = found
        return found

    def may_reach(self, resource: str, amount: int) -> bool:
        """Report whether nominated Pods on one node may use this much of a resource: all, each as large as any."""
        known = self._largest.get(resource)
        if known is None or known[0] != len(self._kinds):
            amounts = self._kinds.amounts(resource)
            known = self._largest[resource] = len(self._kinds), int(amounts.max(initial=0))
        return len(self._by_pod) * known[1] >= amount

    def columns(self, priority: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(row, kind) of those of this priority and above."""
        if self._columns is None:
            charge(len(self._by_pod) // 4)
            every = [each for here in self._by_node.values() for _, each in here]
            self._columns = np.array([[getattr(each, name) for each in every] for name in Nominated._fields], np.int64)
        rows, kinds, priorities = self._columns
        count = priorities >= priority
        return rows[count], kinds[count]


def nominations_of(snapshot: Snapshot, matrix: PodMatrix) -> Nominations:
    """The nominated pods of a snapshot.

    There are two tables: that of the cluster has many parts, one after a preemption that is only thought of has one.
    """
    table = snapshot.objects.nominated
    known: Nominations
    for known in matrix.nominations.values():
        if known.is_of(snapshot):
            return known
    parts = len(table.shards) if isinstance(table, FrozenTable) else 1
    found = matrix.nominations.get(parts)
    if found is None:
        found = matrix.nominations[parts] = Nominations(matrix)
    found.sync(snapshot)
    return found
