"""The nodes on which preemption helps, with their costs, computed by numpy. Victims are collected on access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.preemption import VIOLATIONS, Candidate, least
from forewarn.policies.scheduling.vectorized.victim_selection import costs_on, victims_on
from forewarn.policies.scheduling.victim import by_importance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.lower_priority_pods import LowerPriorityPods
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.victim_selection import Occupancy


class Candidates(Sequence[Candidate]):
    """The nodes on which preemption helps, in the order of the Snapshot. Each Candidate is created on access.

    `costs`: [criterion, candidate]; smaller is better.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: NDArray[np.intp],
        ends: list[int],
        places: list[int],
        harmed: list[int],
        costs: NDArray[np.int64],
    ) -> None:
        """`nodes`: [candidate], row number of the node.

        `places`: indices of the victims in the Pods of their node, in reprieve order, for all candidates one after the
        other. `ends`: [candidate], end of the candidate's part of `places`. `harmed`: [candidate], number of Pods whose
        eviction violates a PDB; 0 if this applies to all Pods.
        """
        self._snapshot, self._nodes = snapshot, nodes.tolist()
        self._ends, self._places, self._harmed, self.costs = ends, places, harmed, costs

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...

    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return [self._made(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._made(index % len(self))

    def __iter__(self) -> Iterator[Candidate]:
        return map(self._made, range(len(self)))

    @property
    def names(self) -> list[str]:
        """[candidate]: names of the nodes."""
        infos = self._snapshot.node_infos
        return [infos[row].node.name for row in self._nodes]

    def _made(self, number: int) -> Candidate:
        info: NodeInfo = self._snapshot.node_infos[self._nodes[number]]
        begin = self._ends[number - 1] if number else 0
        pods = info.pods
        victims = [pods[place] for place in self._places[begin : self._ends[number]]]
        if self._harmed[number]:  # upstream orders them anew where there were others too
            victims = by_importance(victims, self._snapshot.semantics)
        return Candidate(info.node.name, tuple(victims), int(self.costs[VIOLATIONS, number]))

    def best(self) -> tuple[Candidate, ...]:
        """Return the candidates with the lowest cost, sorted by node name.

        Source: upstream `pickOneNodeForPreemption`.
        """
        left = least(self.costs, np.arange(len(self)))
        return tuple(sorted((self._made(number) for number in left.tolist()), key=lambda item: item.node_name))


def candidates_on(
    snapshot: Snapshot, matrix: PodMatrix, rows: Iterable[Occupancy], lower: LowerPriorityPods, nodes: NDArray[np.intp]
) -> Candidates:
    """Return the candidates for these nodes. `nodes`: row numbers; preemption must help on each of them.

    `rows`: the constraints. Call `lower.settle` for the nodes first.
    """
    rows = [row for row in rows if (row.present[nodes] > row.limit[nodes]).any()]
    is_victim = victims_on(rows, nodes, lower)
    charge(len(nodes))
    costs = costs_on(nodes, is_victim, lower, matrix.kinds.priority.values())
    return candidates_with(snapshot, lower, nodes, is_victim, costs)


def candidates_with(
    snapshot: Snapshot,
    lower: LowerPriorityPods,
    nodes: NDArray[np.intp],
    is_victim: NDArray[np.bool_],
    costs: NDArray[np.int64],
) -> Candidates:
    """Return these nodes (row numbers) as candidates. `is_victim`: [rank, node]. `costs`: [criterion, node]."""
    columns, ranks = np.nonzero(is_victim.T)
    places = lower.place[ranks, nodes[columns]].tolist()
    ends = is_victim.sum(axis=0).cumsum().tolist()
    violating = lower.violating[nodes]
    harmed = np.where(violating < lower.count[nodes], violating, 0).tolist()
    return Candidates(snapshot, nodes, ends, places, harmed, costs)
