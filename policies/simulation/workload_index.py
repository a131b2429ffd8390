"""The keys of the workloads in the simulated API server: by kind, by controller, and of the PDBs that select a Pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.objects.disruption_budget import PodDisruptionBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.controllers.view import Key, WorkloadState

PDB: Final = "policy/PodDisruptionBudget"


class WorkloadIndex:
    """The keys of stored workloads and PDBs, in the order of creation."""

    def __init__(self) -> None:
        self._owned: dict[Key, dict[Key, None]] = {}
        self._by_kind: dict[str, dict[Key, None]] = {}
        self._pdbs: dict[str, dict[Key, PodDisruptionBudget]] = {}
        self._pdbs_of: dict[tuple[str, int], tuple[Mapping[str, str], list[Key]]] = {}
        """(namespace, id of labels) -> (the labels, which keeps their id unique; the keys of matching PDBs)."""

    def of_kind(self, kind: str) -> list[Key]:
        return list(self._by_kind.get(kind, ()))

    def owned(self, key: Key) -> list[Key]:
        return list(self._owned.get(key, ()))

    def pdbs_of(self, namespace: str, labels: Mapping[str, str]) -> list[Key]:
        """Return the keys of the PDBs of a namespace that select Pods with these labels."""
        pdbs = self._pdbs.get(namespace)
        if not pdbs:
            return []
        cached = self._pdbs_of.get((namespace, id(labels)))
        if cached is None:
            keys = [key for key, pdb in pdbs.items() if pdb.selects(labels)]
            cached = self._pdbs_of[namespace, id(labels)] = labels, keys
        return cached[1]

    def put(self, old: WorkloadState | None, new: WorkloadState) -> None:
        """Add a workload or PDB, or change it from `old`. Raises InvalidObject for an invalid PDB."""
        key = new.key
        if old is not None and old.controller is not None and old.controller != new.controller:
            self._owned[old.controller].pop(key, None)
        if new.controller is not None:
            self._owned.setdefault(new.controller, {})[key] = None
        self._by_kind.setdefault(key[0], {})[key] = None
        if key[0] == PDB:
            self._pdbs.setdefault(key[1], {})[key] = PodDisruptionBudget.from_api(new.object)
            self._pdbs_of.clear()

    def remove(self, old: WorkloadState) -> None:
        """Remove a workload or PDB."""
        key = old.key
        self._by_kind[key[0]].pop(key, None)
        if old.controller is not None:
            self._owned[old.controller].pop(key, None)
        if key[0] == PDB:
            self._pdbs.get(key[1], {}).pop(key, None)
            self._pdbs_of.clear()
