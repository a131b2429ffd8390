"""The preemption cost on each node for Pods with equal requests, cached between predictions.

A node's victims depend on its Pods, its nominations, and the PDBs without allowed disruptions. Between two cycles,
these change on few nodes: only the victims on these nodes are selected again. Source: kubernetes
`pkg/scheduler/framework/preemption/preemption.go` (`pickOneNodeForPreemption`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.preemption import least
from forewarn.policies.scheduling.vectorized.victim_selection import costs_on, victims_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.victim_selection import Occupancy

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
        """[criterion, node]: the cost, smaller is better; see `costs_on`."""

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
        short = [row for row in rows if (row.present[nodes] > row.limit[nodes]).any()]
        self.costs[:, nodes] = costs_on(nodes, victims_on(short, nodes, self.lower), self.lower, priorities)
        self._versions[nodes] = self.lower.version[nodes]
        for number, row in enumerate(rows):
            self._present[number, nodes], self._limit[number, nodes] = row.present[nodes], row.limit[nodes]
