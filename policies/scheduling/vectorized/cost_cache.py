"""The preemption cost on each node for Pods with equal requests, cached between predictions.

A node's victims depend on its Pods, its nominations, and the PDBs without allowed disruptions. Between two cycles,
these change on few nodes: only the victims on these nodes are selected again. Source: kubernetes
`pkg/scheduler/framework/preemption/preemption.go` (`pickOneNodeForPreemption`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.preemption import cost_of
from forewarn.policies.scheduling.vectorized.victim_selection import costs_of, least, victims_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.victim_selection import Occupancy

_FEW: Final = 12
"""The number of nodes below which Python is faster than numpy."""
_NODE: Final = 20
"""Units of work for each of these nodes."""
_CRITERIA: Final = 5


class CostCache:
    """The preemption cost on each node for one request at one priority.

    `lower`: the Pods with lower priority; versions in `lower` show which nodes have changed.
    """

    def __init__(self, lower: LowerPriorityPods, demands: int) -> None:
        nodes = len(lower.count)
        self.lower = lower
        self._versions: NDArray[np.int64] = np.full(nodes, -1, np.int64)
        """[node]: version of the order from which the cost was computed; -1 before."""
        self._present: NDArray[np.int64] = np.zeros((demands, nodes), np.int64)
        self._limit: NDArray[np.int64] = np.zeros((demands, nodes), np.int64)
        self.costs: NDArray[np.int64] = np.zeros((_CRITERIA, nodes), np.int64)
        """[criterion, node]: the cost, smaller is better; see `costs_of`."""

    def best(self, rows: Sequence[Occupancy], nodes: NDArray[np.intp], matrix: PodMatrix) -> NDArray[np.intp]:
        """Return the best of these nodes, in order; resources are sufficient only without lower-priority Pods.

        Call `lower.settle` for the nodes first. `rows`: the requested resources. `nodes`: row numbers.
        """
        charge(10 * len(nodes) // VECTOR)
        # Of all nodes: numpy compares them sooner than it picks some out.
        changed = self._versions != self.lower.version
        for number, row in enumerate(rows):
            changed |= self._present[number] != row.present
            changed |= self._limit[number] != row.limit
        new = nodes[changed[nodes]]
        if len(new):
            self._work_out(rows, new, matrix)
        return least(self.costs, nodes)

    def _work_out(self, rows: Sequence[Occupancy], nodes: NDArray[np.intp], matrix: PodMatrix) -> None:
        priorities = matrix.kinds.priority.values()
        if len(nodes) <= _FEW:
            charge(_NODE * len(nodes))
            for node in nodes.tolist():
                self.costs[:, node] = _cost(rows, node, self.lower, priorities)
        else:
            short = [row for row in rows if (row.present[nodes] > row.limit[nodes]).any()]
            self.costs[:, nodes] = costs_of(nodes, victims_on(short, nodes, self.lower), self.lower, priorities)
        self._versions[nodes] = self.lower.version[nodes]
        for number, row in enumerate(rows):
            self._present[number, nodes], self._limit[number, nodes] = row.present[nodes], row.limit[nodes]


def victim_ranks(rows: Sequence[Occupancy], node: int, lower: LowerPriorityPods) -> list[int]:
    """Return the ranks of the victims on one node, by upstream's loop. `node`: row number.

    A resource that is sufficient with all Pods is not checked. Rank: index in the reprieve order of the lower-priority
    Pods.
    """
    count = int(lower.count[node])
    room, tables = [], []
    for row in rows:
        if row.present[node] > row.limit[node]:
            room.append(int(row.limit[node]) - int(row.base_at(node)))
            tables.append(row.amounts.on_one(node, count))
    ranks = []
    if len(tables) == 1:
        (free,), (table,) = room, tables
        for rank, amount in enumerate(table):
            if amount > free:
                ranks.append(rank)
            else:
                free -= amount
        return ranks
    for rank in range(count):
        for free, table in zip(room, tables, strict=True):
            if table[rank] > free:
                ranks.append(rank)
                break
        else:
            for number, table in enumerate(tables):
                room[number] -= table[rank]
    return ranks


def _cost(
    rows: Sequence[Occupancy], node: int, lower: LowerPriorityPods, priorities: NDArray[np.int64]
) -> tuple[int, int, int, int, int]:
    """Return the preemption cost on one node, equal to `costs_of` for this node. `node`: row number."""
    ranks = victim_ranks(rows, node, lower)
    theirs = [int(priorities[kind]) for kind in lower.kind[ranks, node].tolist()]
    return cost_of(lower.violations(node, ranks), max(theirs), theirs, lower.start[ranks, node].tolist())
