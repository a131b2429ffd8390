"""Counts the Pods that preemption evicts beyond the allowed disruptions of their PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.scheduling.pdb_violations import matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot


class ViolatedPdbs:
    """Counts the violations of a simulation.

    A cycle may choose victims that an earlier cycle chose, because they are still terminating: each counts once.
    Several cycles may evict Pods of a PDB before its status changes: all of them count against this status.
    """

    def __init__(self) -> None:
        """Start without evictions."""
        self.counts: dict[str, int] = {}
        """`namespace/name` of a PDB -> number of evicted Pods beyond its allowed disruptions."""
        self._evicted: set[tuple[str, str]] = set()
        """(`namespace/name`, uid) of all victims."""
        self._since: dict[str, tuple[PodDisruptionBudget, int]] = {}
        """`namespace/name` of a PDB -> (its last state, number of victims that this state does not include)."""

    def add(self, snapshot: Snapshot, victims: Sequence[Pod]) -> None:
        """Count the violations by the eviction of these victims. `snapshot`: before the eviction."""
        for victim in victims:
            identity = victim.key, victim.uid
            if victim.terminating or identity in self._evicted:
                continue
            self._evicted.add(identity)
            for pdb in matching(victim, snapshot.pdbs.get(victim.namespace, ())):
                if victim.name not in pdb.disrupted_pods:
                    self._count(pdb)

    def _count(self, pdb: PodDisruptionBudget) -> None:
        name = f"{pdb.namespace}/{pdb.name}"
        state, evicted = self._since.get(name, (pdb, 0))
        if state is not pdb:
            # The new status may lack the last evictions: it includes as many as it allows fewer than before.
            fewer = state.disruptions_allowed - pdb.disruptions_allowed
            evicted = max(evicted - fewer, 0) if fewer > 0 else 0
        evicted += 1
        self._since[name] = pdb, evicted
        if evicted > pdb.disruptions_allowed:
            self.counts[name] = self.counts.get(name, 0) + 1
