"""Which nodes a change of disruption budgets concerns: on the others the same pods break the same budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from policies.metering import VECTOR, charge, each
from policies.scheduling.vectorized.equivalence_classes import EquivalenceClasses, PerClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from policies.objects.disruption_budget import PodDisruptionBudget
    from policies.objects.pod import Pod
    from policies.scheduling.vectorized.pod_matrix import PodMatrix

_FEW: Final = 32
"""Of so many changed budgets each is counted by itself: numpy goes over all pods for each of them."""
_KEPT: Final = 256
"""Budgets of which it is kept which kinds of pods they match."""


class MatchingBudgets:
    """Which budgets of its namespace a kind of pods matches, by their places there; kept while their selectors stay."""

    def __init__(self, kinds: EquivalenceClasses) -> None:
        self._kinds = kinds
        self._known: dict[str, tuple[Sequence[PodDisruptionBudget], dict[int, tuple[int, ...]]]] = {}

    def of(self, pod: Pod, budgets: Sequence[PodDisruptionBudget]) -> Iterable[PodDisruptionBudget]:
        """The budgets that match a pod; `budgets`: those of its namespace."""
        if not budgets:
            return ()
        seen, places = self._known.get(pod.namespace, ((), {}))
        if seen is not budgets:
            places = places if _same_selectors(seen, budgets) else {}
            self._known[pod.namespace] = budgets, places
        kind = self._kinds.number(pod)
        found = places.get(kind)
        if found is None:
            here = enumerate(each(budgets, 1.5))
            matching = (place for place, b in here if b.matches(pod.namespace, pod.labels))
            found = places[kind] = tuple(matching)
        return [budgets[place] for place in found]


def _same_selectors(one: Sequence[PodDisruptionBudget], other: Sequence[PodDisruptionBudget]) -> bool:
    return len(one) == len(other) and all(a.selector is b.selector for a, b in zip(one, other, strict=True))


def concerned(
    matrix: PodMatrix,
    kind: NDArray[np.int32],
    old: Mapping[str, tuple[PodDisruptionBudget, ...]],
    new: Mapping[str, tuple[PodDisruptionBudget, ...]],
) -> NDArray[np.bool_]:
    """Per node whether pods in the table `kind` ([rank, node]) break other budgets than before; maybe not all do.

    A budget that allows more than it has pods on a node, before and after, is not broken there.
    """
    changed = list(_changed(old, new))
    if len(changed) > _FEW:
        by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for _, budget in changed:
            by_namespace.setdefault(budget.namespace, []).append(budget)
        touched = np.array(
            [pod is not None and _any(by_namespace.get(pod.namespace, ()), pod) for pod in each(matrix.kinds.members)]
        )
        return np.asarray(touched[kind].any(axis=0))
    found = np.zeros(kind.shape[1], np.bool_)
    for allowed, budget in changed:
        charge(kind.size // VECTOR)
        found |= matching_kinds(matrix, budget)[kind].sum(axis=0) > allowed
    return found


def _changed(
    old: Mapping[str, tuple[PodDisruptionBudget, ...]], new: Mapping[str, tuple[PodDisruptionBudget, ...]]
) -> Iterator[tuple[int, PodDisruptionBudget]]:
    """(up to how many of its pods on a node are none of its concern, budget) of those that came, changed or went."""
    for namespace in old.keys() | new.keys():
        before, after = old.get(namespace, ()), new.get(namespace, ())
        if before is after:
            continue
        was, now = {b.name: b for b in before}, {b.name: b for b in after}
        for name in was.keys() | now.keys():
            one, other = was.get(name), now.get(name)
            if one is other:
                continue
            if one and other and (one.selector, one.disrupted_pods) == (other.selector, other.disrupted_pods):
                if one.disruptions_allowed != other.disruptions_allowed:
                    yield min(one.disruptions_allowed, other.disruptions_allowed), other
            else:
                yield from ((0, budget) for budget in (one, other) if budget)


def matching_kinds(matrix: PodMatrix, budget: PodDisruptionBudget) -> NDArray[np.int64]:
    """1 for every kind of pods that a budget counts."""
    key = budget.namespace, id(budget.selector)
    found = matrix.budgets.pop(key, None)
    if found is None:
        if len(matrix.budgets) >= _KEPT:
            matrix.budgets.pop(next(iter(matrix.budgets)))
        found = PerClass(matrix.kinds, lambda pod: int(budget.matches(pod.namespace, pod.labels))), budget
    matrix.budgets[key] = found
    return found[0].values()


def _any(budgets: Sequence[PodDisruptionBudget], pod: Pod) -> bool:
    return any(budget.matches(pod.namespace, pod.labels) for budget in each(budgets, 1.5))
