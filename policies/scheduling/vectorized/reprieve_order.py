"""The order in which preemption reprieves Pods, computed with numpy for many nodes; used by `LowerPriorityPods`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from forewarn.policies.scheduling.victim import NOW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix


class ReprieveOrder(NamedTuple):
    """Tables of [rank, node] with the lower-priority Pods of each node in reprieve order.

    `kind`: equivalence class. `start`: start time. `place`: index in the Pods of the node. `violates`: whether the
    eviction violates a PDB. `undecided`: nodes whose order depends on names of Pods, which the tables do not contain.
    Nodes are numbered by their index in the argument `nodes`.
    """

    kind: NDArray[np.int32]
    start: NDArray[np.int64]
    place: NDArray[np.int16]
    violates: NDArray[np.bool_]
    undecided: list[int]


def reprieve_order(
    matrix: PodMatrix, priority: int, pdbs: Mapping[str, Sequence[PodDisruptionBudget]], nodes: NDArray[np.intp]
) -> ReprieveOrder:
    """Return the Pods with lower priority than `priority` on these nodes: first Pods that violate a PDB, each group by
    importance.

    `pdbs`: namespace -> PDBs. `nodes`: row numbers. Source: upstream `SelectVictimsOnNode`.
    """
    priorities = matrix.kinds.priority.values()
    kinds, starts = matrix.kind[:, nodes], matrix.start[:, nodes]
    place, node = np.nonzero((kinds > 0) & (priorities[kinds] < priority))
    kind, start = kinds[place, node], starts[place, node]
    order = _by_importance(node, priorities[kind], start, place, in_order=matrix.semantics.unstarted_victims_in_order)
    node, kind, start, place = node[order], kind[order], start[order], place[order]
    violates, named = _violations(matrix, pdbs, node, kind)
    if violates.any():
        order = np.argsort(2 * node + ~violates, kind="stable")
        node, kind, start, place, violates = node[order], kind[order], start[order], place[order], violates[order]
        named = named[order]
    rank = _rank(node)
    shape = (int(rank.max()) + 1 if len(rank) else 0), len(nodes)
    found = ReprieveOrder(
        np.zeros(shape, np.int32),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int16),
        np.zeros(shape, np.bool_),
        sorted(set(node[named].tolist())),
    )
    found.kind[rank, node], found.start[rank, node] = kind, start
    found.place[rank, node], found.violates[rank, node] = place, violates
    return found


def _by_importance(
    node: NDArray[np.intp],
    priority: NDArray[np.int64],
    start: NDArray[np.int64],
    place: NDArray[np.intp],
    *,
    in_order: bool,
) -> NDArray[np.intp]:
    """Return the indices that sort Pods by node, then by highest priority, then by earliest start. All arrays: [Pod].

    Pods that have not started are last, by `place` if `in_order`, otherwise in reverse order.
    """
    unstarted = start == NOW
    last = start[~unstarted].max(initial=0) + 1
    levels = np.unique(priority)
    tie = place if in_order else np.where(unstarted, -place, place)
    return _lexsort(tie, np.where(unstarted, last, start), -np.searchsorted(levels, priority), node)


def _lexsort(*keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return np.lexsort(keys), where the last key counts most; as one sort if the keys fit into one number."""
    packed, room = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        least, most = (int(key.min()), int(key.max())) if len(key) else (0, 0)
        packed += (key - least) * room if room < 2**62 else 0
        room *= most - least + 1
    return np.lexsort(keys) if room >= 2**62 else np.argsort(packed, kind="stable")


def _rank(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the index of each element within its run of equal neighbours: 0, 1, 2, … for each run."""
    index = np.arange(len(group))
    first = np.concatenate(([True], group[1:] != group[:-1])) if len(group) else np.zeros(0, np.bool_)
    return index - np.maximum.accumulate(np.where(first, index, 0))


def _violations(
    matrix: PodMatrix,
    pdbs: Mapping[str, Sequence[PodDisruptionBudget]],
    node: NDArray[np.intp],
    kind: NDArray[np.int32],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
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
    known = matrix.matching_pdbs
    lengths, numbers = known.of_kinds(here, pdbs)
    if not len(numbers):
        return violates, violates
    place = np.zeros(len(matrix.kinds), np.intp)
    place[here] = np.arange(len(here))
    of_kind = place[kind]
    of_pod = lengths[of_kind]
    pod = np.repeat(np.arange(len(kind)), of_pod)
    # The first pair of a pod, less the number of pairs before it: the k-th of all pairs is that far from its budget.
    shift = (np.cumsum(lengths) - lengths)[of_kind] - (np.cumsum(of_pod) - of_pod)
    pdb = numbers[np.arange(len(pod)) + shift[pod]]
    undecided = violates.copy()
    undecided[pod[known.names_pods[pdb]]] = True
    if matrix.semantics.pdb_count_ends_at_first_violation:
        undecided |= of_pod > 1
    order = _lexsort(pod, pdb, node[pod])
    pod, pdb = pod[order], pdb[order]
    used = _rank(node[pod] * len(known.allowed) + pdb) + 1
    violates[pod[used > known.allowed[pdb]]] = True
    return violates, undecided
