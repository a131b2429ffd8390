"""Find the Pods that PDBs match, and the nodes on which a change of PDBs may change the violations."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from forewarn.policies.metering import VECTOR, charge, each, meter
from forewarn.policies.scheduling.vectorized.equivalence_classes import EquivalenceClasses, PerClass, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_FEW: Final = 32
"""Up to this number, changed PDBs are counted one by one: numpy reads all Pods for each of them."""
_MAX_NUMBERS: Final = 4096
"""Number of PDB numbers above which all PDBs are numbered again, if there are more than twice as many numbers as
PDBs.
"""
_CACHE_SIZE: Final = 256
"""Maximum number of PDBs with cached results for all equivalence classes."""


class _Numbered(NamedTuple):
    """The PDBs of a namespace, possibly none, with consecutive numbers.

    `first`: number of the first PDB. `kinds`: the equivalence classes matched so far.
    """

    pdbs: Sequence[PodDisruptionBudget]
    first: int
    kinds: list[int]


class MatchingPdbs:
    """The PDBs that match each equivalence class, cached while the selectors of the PDBs do not change.

    PDBs have numbers, consecutive within a namespace. A PDB that only allows more or fewer disruptions has the same
    number as before, so after a preemption, no selector is evaluated again. Numbers of deleted PDBs are not reused.
    """

    def __init__(self, kinds: EquivalenceClasses) -> None:
        self._kinds = kinds
        self._forget()

    def _forget(self) -> None:
        self._namespaces: dict[str, _Numbered] = {}
        self._all: Mapping[str, Sequence[PodDisruptionBudget]] | None = None
        self._of_kind: dict[int, tuple[int, ...]] = {}
        """Equivalence class -> the numbers of the PDBs that match it."""
        self._allowed: NDArray[np.int64] = np.zeros(64, np.int64)
        self._names_pods: NDArray[np.bool_] = np.zeros(64, np.bool_)
        self._count = 0

    def of(self, pod: Pod, pdbs: Sequence[PodDisruptionBudget]) -> Iterable[PodDisruptionBudget]:
        """Return the PDBs that match a Pod. `pdbs`: the PDBs of the Pod's namespace."""
        if not pdbs:
            return ()
        numbered = self._numbered(pod.namespace, pdbs)
        return [pdbs[number - numbered.first] for number in self._matching(self._kinds.number(pod), pod)]

    def of_kinds(
        self, kinds: NDArray[np.intp], pdbs: Mapping[str, Sequence[PodDisruptionBudget]]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return ([index in `kinds`]: number of matching PDBs; the numbers of these PDBs, one class after the other).

        `pdbs`: namespace -> PDBs. Raises CutShort.
        """
        self._learn(pdbs)
        work = meter()
        found = list(map(self._of_kind.get, kinds.tolist()))
        work.charge(len(found) // 16)
        if None in found:
            for place, known in enumerate(found):
                if known is None:
                    work.charge(1)
                    pod = self._kinds.members[int(kinds[place])]
                    assert pod is not None
                    found[place] = self._matching(int(kinds[place]), pod)
        matched = cast("list[tuple[int, ...]]", found)
        lengths = np.array(list(map(len, matched)), np.intp)
        numbers = list(chain.from_iterable(matched))
        work.charge(len(numbers) // 8)
        return lengths, np.array(numbers, np.int64)

    @property
    def allowed(self) -> NDArray[np.int64]:
        """[PDB number]: allowed disruptions at the last `of_kinds`. Do not modify."""
        return self._allowed[: self._count]

    @property
    def names_pods(self) -> NDArray[np.bool_]:
        """[PDB number], bool: whether the PDB lists disrupted Pods in its status."""
        return self._names_pods[: self._count]

    def _learn(self, pdbs: Mapping[str, Sequence[PodDisruptionBudget]]) -> None:
        if pdbs is self._all:
            return
        if self._count > _MAX_NUMBERS and self._count > 2 * sum(map(len, pdbs.values())):
            self._forget()
        charge((len(pdbs) + len(self._namespaces)) // 16)
        for namespace in [name for name, known in self._namespaces.items() if known.pdbs and name not in pdbs]:
            self._drop(namespace)
        for namespace, found in pdbs.items():
            self._numbered(namespace, found)
        self._all = pdbs

    def _numbered(self, namespace: str, pdbs: Sequence[PodDisruptionBudget]) -> _Numbered:
        known = self._namespaces.get(namespace)
        if known is not None and known.pdbs is pdbs:
            return known
        self._all = None
        if known is not None and _same_selectors(known.pdbs, pdbs):
            known = known._replace(pdbs=pdbs)
        else:
            self._drop(namespace)
            known = _Numbered(pdbs, self._count, [])
            self._count += len(pdbs)
            if self._count > len(self._allowed):
                more = 0, self._count
                self._allowed, self._names_pods = np.pad(self._allowed, more), np.pad(self._names_pods, more)
        charge(len(pdbs) // 8)
        here = slice(known.first, known.first + len(pdbs))
        self._allowed[here] = [pdb.disruptions_allowed for pdb in pdbs]
        self._names_pods[here] = [bool(pdb.disrupted_pods) for pdb in pdbs]
        self._namespaces[namespace] = known
        return known

    def _drop(self, namespace: str) -> None:
        known = self._namespaces.pop(namespace, None)
        for kind in known.kinds if known is not None else ():
            self._of_kind.pop(kind, None)

    def _matching(self, kind: int, pod: Pod) -> tuple[int, ...]:
        """Return the numbers of the PDBs that match an equivalence class; cached.

        Call `_numbered` for the namespace first.
        """
        found = self._of_kind.get(kind)
        if found is None:
            pdbs, first, kinds = self._namespaces.setdefault(pod.namespace, _Numbered((), 0, []))
            here = enumerate(each(pdbs, 1.5), first)
            found = tuple(number for number, pdb in here if pdb.matches(pod.namespace, pod.labels))
            self._of_kind[kind] = found
            kinds.append(kind)
        return found


def _same_selectors(one: Sequence[PodDisruptionBudget], other: Sequence[PodDisruptionBudget]) -> bool:
    return len(one) == len(other) and all(a.selector is b.selector for a, b in zip(one, other, strict=True))


def affected(
    matrix: PodMatrix, kind: NDArray[np.int32], changed: Sequence[tuple[int, PodDisruptionBudget]]
) -> NDArray[np.bool_]:
    """Return [node], bool: whether other evictions may violate PDBs than before the changes. `kind`: [rank, node],
    Pods.

    `changed`: see `changed_pdbs`. A PDB that allows at least as many disruptions as it has Pods on a node, before and
    after, cannot be violated on the node.
    """
    if len(changed) > _FEW:
        touched = np.zeros(len(matrix.kinds), np.bool_)
        for _, pdb in changed:
            for number in each(matrix.kinds.within(scope_of(pdb.namespace, pdb.selector)), 1.5):
                pod = matrix.kinds.members[number]
                touched[number] |= pod is not None and pdb.matches(pod.namespace, pod.labels)
        return np.asarray(touched[kind].any(axis=0))
    charge((2 + len(changed)) * kind.size // VECTOR)
    counted = [matching_kinds(matrix, pdb)[: len(matrix.kinds)] > 0 for _, pdb in changed]
    found = np.zeros(kind.shape[1], np.bool_)
    # Few pods match any of them: these are picked out once, and counted for each.
    place = np.flatnonzero(np.logical_or.reduce(counted).take(kind)) if counted else np.zeros(0, np.intp)
    kinds, nodes = kind.ravel()[place], place % kind.shape[1]
    for (allowed, _), counts in zip(changed, counted, strict=True):
        found |= np.bincount(nodes[counts[kinds]], minlength=len(found)) > allowed
    return found


def changed_pdbs(
    old: Mapping[str, tuple[PodDisruptionBudget, ...]], new: Mapping[str, tuple[PodDisruptionBudget, ...]]
) -> Iterator[tuple[int, PodDisruptionBudget]]:
    """Yield (n, PDB) for added, changed and deleted PDBs: nodes with at most n Pods of the PDB are not affected."""
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
                yield from ((0, pdb) for pdb in (one, other) if pdb)


def matching_kinds(matrix: PodMatrix, pdb: PodDisruptionBudget) -> NDArray[np.int64]:
    """Return [class]: 1 if the PDB matches the Pods of the equivalence class."""
    key = pdb.namespace, id(pdb.selector)
    found = matrix.pdbs.pop(key, None)
    if found is None:
        if len(matrix.pdbs) >= _CACHE_SIZE:
            matrix.pdbs.pop(next(iter(matrix.pdbs)))
        scope = scope_of(pdb.namespace, pdb.selector)
        per_kind = PerClass(matrix.kinds, lambda pod: int(pdb.matches(pod.namespace, pod.labels)), scope)
        found = per_kind, pdb
    matrix.pdbs[key] = found
    return found[0].values()
