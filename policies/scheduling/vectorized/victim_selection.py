"""Select victims on all nodes at once, and the nodes with the lowest cost: upstream's loop, one rank of Pods at a
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.preemption import CRITERIA, HIGHEST, TOTAL, costs_of, least, sums_of_priorities
from forewarn.policies.scheduling.vectorized.lower_priority_pods import LOWEST, Amounts, AmountsOfFew, Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix


_FEW = 8
"""Number of nodes up to which numpy computes all criteria faster than one by one."""


class Occupancy(NamedTuple):
    """The amount of one constraint that Pods use on each node. Arrays are [node].

    `present`: with all Pods. `limit`: the maximum for other Pods so that the new Pod fits. `amounts`: the part of
    lower-priority Pods.
    """

    amounts: Amounts | AmountsOfFew
    present: NDArray[np.int64]
    limit: NDArray[np.int64]
    bounds: Bounds | None = None

    @property
    def base(self) -> NDArray[np.int64]:
        """[node]: the amount in use if all lower-priority Pods were removed."""
        return self.present - self.amounts.total


class Found(NamedTuple):
    """The nodes with the lowest preemption cost, in order (row numbers).

    `victims`: [rank, node], bool. `costs`: [criterion, node], see `costs_of`.
    """

    nodes: NDArray[np.intp]
    victims: NDArray[np.bool_]
    costs: NDArray[np.int64]


def cheapest(
    rows: Sequence[Occupancy], nodes: NDArray[np.intp], lower: LowerPriorityPods, priorities: NDArray[np.int64]
) -> Found:
    """Return the best of these nodes for preemption. `nodes`: row numbers; the Pod fits on them only without
    lower-priority Pods.

    `rows`: the constraints. `priorities`: [class].
    """
    rows = [row for row in rows if (row.present[nodes] > row.limit[nodes]).any()]
    harmless = _without_violations(rows, nodes, lower)
    if len(harmless) and len(lower.levels):
        return _narrowed(rows, harmless, lower, priorities)
    nodes = harmless if len(harmless) else nodes
    return _best(nodes, victims_on(rows, nodes, lower), lower, priorities)


def _narrowed(
    rows: Sequence[Occupancy], nodes: NDArray[np.intp], lower: LowerPriorityPods, priorities: NDArray[np.int64]
) -> Found:
    """Return the best of nodes without PDB violations. Selects victims only on nodes that can be the best.

    Limits of the resources show which nodes can be the best: by the highest priority of a victim, and by a lower bound
    of the number of victims.
    """
    level, top = _lowest_level(rows, nodes, lower)
    least = _least_victims(rows, level)
    near = level[least == least.min()]
    nearest = _best(near, victims_on(rows, near, lower), lower, priorities)
    highest, total = nearest.costs[[HIGHEST, TOTAL], 0].tolist()
    if highest > top:  # a constraint that is no resource takes a pod of higher priority
        return _best(nodes, victims_on(rows, nodes, lower), lower, priorities)
    cheapest_victim = int(lower.levels[0]) + 2**31
    rest = level[(least > least.min()) & (least * cheapest_victim <= total)]
    if not len(rest):
        return nearest
    near = np.sort(np.concatenate((nearest.nodes, rest)))
    return _best(near, victims_on(rows, near, lower), lower, priorities)


def _lowest_level(
    rows: Sequence[Occupancy], nodes: NDArray[np.intp], lower: LowerPriorityPods
) -> tuple[NDArray[np.intp], int]:
    """Return (the nodes that need no victim above a priority level, that level): the lowest level for which such
    nodes exist.
    """
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


def _least_victims(rows: Sequence[Occupancy], nodes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return [index in `nodes`]: a lower bound of the number of victims, as if each victim were the largest Pod
    of its node.
    """
    least = np.ones(len(nodes), np.int64)
    for row in rows:
        if row.bounds is not None:
            lacking = row.present[nodes] - row.limit[nodes]
            largest = np.maximum(row.bounds.largest[nodes], 1)
            np.maximum(least, -(-lacking // largest), out=least)
    return least


def _without_violations(
    rows: Sequence[Occupancy], nodes: NDArray[np.intp], lower: LowerPriorityPods
) -> NDArray[np.intp]:
    """Return the nodes where all Pods that violate PDBs can stay. Exact, because these Pods are reprieved first."""
    if not lower.violating[nodes].any():
        return nodes
    harmless = np.ones(len(nodes), np.bool_)
    for row in rows:
        harmless &= row.base[nodes] + row.amounts.violating[nodes] <= row.limit[nodes]
    return nodes[harmless]


def victims_on(rows: Sequence[Occupancy], nodes: NDArray[np.intp], lower: LowerPriorityPods) -> NDArray[np.bool_]:
    """Return [rank, node], bool: whether the Pod is a victim. As in upstream, a Pod is reprieved if the new Pod still
    fits.

    `rows`: the constraints that are exceeded with all Pods.
    """
    ranks = int(lower.count[nodes].max())
    shape = len(rows), ranks, len(nodes)
    amounts = np.array([row.amounts.on(nodes, ranks) for row in rows], np.int64).reshape(shape)
    used = np.array([row.base[nodes] for row in rows], np.int64).reshape(len(rows), len(nodes))
    limits = np.array([row.limit[nodes] for row in rows], np.int64).reshape(used.shape)
    victims = np.zeros((ranks, len(nodes)), np.bool_)
    # The most important pods mostly stay on all nodes: as far as that goes their sums tell.
    together = _reprieved_everywhere(used, amounts, limits)
    used += amounts[:, :together].sum(axis=1)
    for rank in range(together, ranks):
        charge(used.size // VECTOR)
        tried = used + amounts[:, rank]
        np.any(tried > limits, axis=0, out=victims[rank])
        used = np.where(victims[rank], used, tried)
    # Ranks without a pod change nothing, and where a limit was broken before, no pod was to blame.
    return victims & (lower.kind[:ranks, nodes] > 0)


def _reprieved_everywhere(used: NDArray[np.int64], amounts: NDArray[np.int64], limits: NDArray[np.int64]) -> int:
    """Return how many of the first ranks are reprieved on all nodes."""
    charge(2 * amounts.size // VECTOR)
    over = amounts.cumsum(axis=1) > (limits - used)[:, None]
    by_rank = np.logical_or.reduce(over, axis=(0, 2))
    return int(np.argmax(by_rank)) if len(by_rank) else 0


def _best(
    nodes: NDArray[np.intp], victims: NDArray[np.bool_], lower: LowerPriorityPods, priorities: NDArray[np.int64]
) -> Found:
    """Return the nodes with the lowest cost. Compares criteria that exclude most nodes first."""
    if lower.violating[nodes].any():
        few = _least(_violations(nodes, victims, lower))
        nodes, victims = nodes[few], victims[:, few]
    if len(nodes) > _FEW:
        priority = _priority(nodes, victims, lower, priorities)
        few = _least(priority.max(axis=0))
        few = few[_least(sums_of_priorities(victims[:, few], priority[:, few]))]
        nodes, victims = nodes[few], victims[:, few]
    costs = costs_on(nodes, victims, lower, priorities)
    best = least(costs, np.arange(len(nodes)))
    return Found(nodes[best], victims[:, best], costs[:, best])


def costs_on(
    nodes: NDArray[np.intp], victims: NDArray[np.bool_], lower: LowerPriorityPods, priorities: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return [criterion, node]: the preemption cost of each of `nodes` (row numbers); see `costs_of`."""
    ranks = len(victims)
    of_victims = priorities[lower.kind[:ranks, nodes]]
    return costs_of(victims, _violations(nodes, victims, lower), of_victims, lower.start[:ranks, nodes])


def _violations(nodes: NDArray[np.intp], victims: NDArray[np.bool_], lower: LowerPriorityPods) -> NDArray[np.int64]:
    """Return [index in `nodes`]: the number of PDB violations."""
    violations: NDArray[np.int64] = (victims & lower.violates[: len(victims), nodes]).sum(axis=0)
    return violations


def _priority(
    nodes: NDArray[np.intp], victims: NDArray[np.bool_], lower: LowerPriorityPods, priorities: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return [rank, index in `nodes`]: the priority of the victim, LOWEST for Pods that are reprieved."""
    priority: NDArray[np.int64] = priorities[lower.kind[: len(victims), nodes]]
    priority[~victims] = LOWEST
    return priority


def _least(cost: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the indices of the lowest costs."""
    return np.flatnonzero(cost == cost.min())


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
        self.costs: NDArray[np.int64] = np.zeros((len(CRITERIA), nodes), np.int64)
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
