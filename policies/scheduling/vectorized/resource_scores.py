"""The scores of nodes by resources for Pods with equal requests of cpu and memory, cached between Pods.

A score depends only on the node and the requests of its Pods: only changed nodes are scored again. Source: kubernetes
`pkg/scheduler/framework/plugins/noderesources` (`leastResourceScorer`, `balancedResourceScorer`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.plugin import MAX_NODE_SCORE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.scheduling.snapshot import Snapshot

_HALF: Final = MAX_NODE_SCORE // 2

Amounts = tuple[int, int]
"""(cpu in millicores, memory in bytes)."""
Weights = tuple[int, int]
"""(weight of NodeResourcesFit, weight of NodeResourcesBalancedAllocation)."""


class ResourceScores:
    """The scores of all nodes for Pods with equal requests.

    `least`: requests with defaults for missing ones. `balance`: requests without defaults; None if there are none.
    `scores_the_change`: whether NodeResourcesBalancedAllocation compares the balance with and without the Pod.
    """

    def __init__(
        self,
        least: Amounts,
        balance: Amounts | None,
        nodes: int,
        weights: Weights = (1, 1),
        *,
        scores_the_change: bool = True,
    ) -> None:
        self._least, self._weights, self._scores_the_change = least, weights, scores_the_change
        self._wanted = None if balance is None else np.array([[amount] for amount in balance])
        self._values: NDArray[np.int64] = np.zeros(nodes, np.int64)
        self._serials: NDArray[np.int64] = np.full(nodes, -1, np.int64)

    def of(self, rows: NDArray[np.intp], snapshot: Snapshot) -> NDArray[np.int64]:
        """Return [index in `rows`]: the weighted sum of both scores of the node."""
        serials = snapshot.columns.serials
        changed = rows[self._serials[rows] != serials[rows]]
        if len(changed):
            charge(len(changed) // 8)
            self._serials[changed] = serials[changed]
            least, balance = self.parts_of(changed, snapshot)
            self._values[changed] = self._weights[0] * least + self._weights[1] * balance
        return self._values[rows]

    def parts_of(self, rows: NDArray[np.intp], snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return ([index in `rows`]: score of NodeResourcesFit; the same of NodeResourcesBalancedAllocation),
        without weights.
        """
        columns = snapshot.columns
        least = np.zeros(len(rows), np.int64)
        counted = np.zeros(len(rows), np.int64)
        for index, amount in enumerate(self._least):
            has = columns.allocatable[index, rows]
            used = columns.non_zero[index, rows] + amount
            share = np.where(used > has, 0, (has - used) * MAX_NODE_SCORE // np.maximum(has, 1))
            least += np.where(has > 0, share, 0)
            counted += has > 0
        scores: NDArray[np.int64] = least // np.maximum(counted, 1)
        if self._wanted is None:
            return scores, np.zeros(len(rows), np.int64)
        has, used = columns.allocatable[:2, rows], columns.requested[:2, rows]
        after = _evenness(used + self._wanted, has)
        if not self._scores_the_change:
            return scores, after
        difference = after - _evenness(used, has)
        return scores, _HALF + np.trunc((_HALF + difference) / 2).astype(np.int64)


def _evenness(used: NDArray[np.int64], has: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [node]: 100 minus the deviation of the used fractions in percent. `used`, `has`: [resource, node].

    Source: upstream `balancedResourceScore`.
    """
    fractions = np.minimum(used / np.maximum(has, 1), 1.0)
    both = (has > 0).all(axis=0)
    deviation = np.where(both, np.abs((fractions[0] - fractions[1]) / 2), 0.0)
    even: NDArray[np.int64] = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return even
