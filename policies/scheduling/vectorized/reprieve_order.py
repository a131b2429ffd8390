"""The order in which pods come back, for many nodes at once: what `Cutoff` does node by node, when much is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policies.metering import meter
from policies.scheduling.preemption import NOW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from policies.objects.disruption_budget import PodDisruptionBudget
    from policies.scheduling.vectorized.pod_matrix import PodMatrix


class ReprieveOrder(NamedTuple):
    """Tables of [rank, node]; `undecided`: nodes where it depends on names of pods, which are not looked at here.

    Nodes are numbered from the first that was asked for.
    """

    kind: NDArray[np.int32]
    start: NDArray[np.int64]
    place: NDArray[np.int16]
    violates: NDArray[np.bool_]
    undecided: list[int]


def reprieve_order(
    matrix: PodMatrix, priority: int, budgets: Mapping[str, Sequence[PodDisruptionBudget]], nodes: NDArray[np.intp]
) -> ReprieveOrder:
    """Violating pods first, each group by importance. Source: upstream `SelectVictimsOnNode`."""
    priorities = matrix.kinds.priority.values()
    kinds, starts = matrix.kind[:, nodes], matrix.start[:, nodes]
    place, node = np.nonzero((kinds > 0) & (priorities[kinds] < priority))
    kind, start = kinds[place, node], starts[place, node]
    order = _by_importance(node, priorities[kind], start, place, in_order=matrix.semantics.unstarted_victims_in_order)
    node, kind, start, place = node[order], kind[order], start[order], place[order]
    violates, named = _violations(matrix, budgets, node, kind)
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
    """By node, highest priority, earliest start; those that have not started by place, or from the last."""
    unstarted = start == NOW
    last = start[~unstarted].max(initial=0) + 1
    levels = np.unique(priority)
    tie = place if in_order else np.where(unstarted, -place, place)
    return _lexsort(tie, np.where(unstarted, last, start), -np.searchsorted(levels, priority), node)


def _lexsort(*keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """As np.lexsort (the last key counts most), in one sort where the keys fit into one number."""
    packed, room = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        least, most = (int(key.min()), int(key.max())) if len(key) else (0, 0)
        packed += (key - least) * room if room < 2**62 else 0
        room *= most - least + 1
    return np.lexsort(keys) if room >= 2**62 else np.argsort(packed, kind="stable")


def _rank(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """The place of each element among the equal ones beside it."""
    index = np.arange(len(group))
    first = np.concatenate(([True], group[1:] != group[:-1])) if len(group) else np.zeros(0, np.bool_)
    return index - np.maximum.accumulate(np.where(first, index, 0))


def _violations(
    matrix: PodMatrix,
    budgets: Mapping[str, Sequence[PodDisruptionBudget]],
    node: NDArray[np.intp],
    kind: NDArray[np.int32],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Per pod whether it breaks a budget, and whether it is not told so. Pods by node and importance."""
    violates = np.zeros(len(kind), np.bool_)
    if not budgets:
        return violates, violates
    present = np.zeros(len(matrix.kinds), np.bool_)
    present[kind] = True
    here = np.flatnonzero(present)
    every = [budget for found in budgets.values() for budget in found]
    layers, names_pods = _budgets_of_kinds(matrix, budgets, every, here)
    of_kind = np.searchsorted(here, kind)
    found = layers[:, of_kind]
    _, pod = np.nonzero(found >= 0)
    budget = found[found >= 0]
    order = _lexsort(pod, budget, node[pod])
    pod, budget = pod[order], budget[order]
    used = _rank(node[pod] * len(every) + budget) + 1
    allowed = np.array([b.disruptions_allowed for b in every], np.int64)
    violates[pod[used > allowed[budget]]] = True
    return violates, names_pods[of_kind]


def _budgets_of_kinds(
    matrix: PodMatrix,
    budgets: Mapping[str, Sequence[PodDisruptionBudget]],
    every: Sequence[PodDisruptionBudget],
    kinds: NDArray[np.intp],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(layer, place of a kind) -> a budget that matches, -1 for none; and per kind whether one of them names pods."""
    number = {(budget.namespace, budget.name): place for place, budget in enumerate(every)}
    matching, work = [], meter()
    for kind in kinds.tolist():
        pod = matrix.kinds.members[kind]
        assert pod is not None
        found = [number[b.namespace, b.name] for b in matrix.matching_budgets.of(pod, budgets.get(pod.namespace, ()))]
        work.charge(1 + len(found) // 2)
        matching.append(found)
    layers = np.full((max(map(len, matching), default=0), len(matching)), -1, np.int64)
    for layer in range(len(layers)):
        work.charge(1 + len(matching) // 8)
        layers[layer] = [found[layer] if layer < len(found) else -1 for found in matching]
    named = np.array([any(every[place].disrupted_pods for place in found) for found in matching], np.bool_)
    if matrix.semantics.first_violated_budget_ends_the_count:
        named |= np.count_nonzero(layers >= 0, axis=0) > 1
    return layers, named
