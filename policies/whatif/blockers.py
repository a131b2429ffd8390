"""The PodDisruptionBudgets that block the drain of nodes at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.controllers.disruption import PdbStatus
from forewarn.policies.documents import in_json
from forewarn.policies.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.simulation.simulation import Simulation, forbidden_by, is_skipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class DrainBlocker(NamedTuple):
    """A PodDisruptionBudget that blocks evictions before the upgrade.

    `pods`: the protected Pods on `nodes`. `healthy`, `desired`, `expected`: numbers of Pods in the status. `overlaps`:
    another PDB selects one of these Pods, which the eviction API does not support. `never`: this, or all Pods are
    required; otherwise, drains wait until enough Pods are healthy.
    """

    budget: str
    pods: Sequence[str]
    nodes: Sequence[str]
    healthy: int
    desired: int
    expected: int
    overlaps: bool

    @in_json
    def never(self) -> bool:
        return self.overlaps or self.desired >= self.expected


def blockers_of(simulation: Simulation, nodes: Iterable[str]) -> list[DrainBlocker]:
    """Return the PDBs that block evictions from these nodes now: first those with `never`, then those that affect
    most nodes.
    """
    api, pods_by_pdb, overlapping = simulation.api, dict[str, list[tuple[str, str]]](), set[str]()
    for node in nodes:
        for state in api.by_node.get(node, {}).values():
            if not is_skipped(state):
                pdbs = forbidden_by(api, state)
                overlapping.update(pdbs[1:] and pdbs)
                for pdb in pdbs:
                    pods_by_pdb.setdefault(pdb, []).append((state.pod.key, node))
    blockers = [_blocker(simulation, pdb, pods, overlaps=pdb in overlapping) for pdb, pods in pods_by_pdb.items()]
    return sorted(blockers, key=lambda item: (not item.never, -len(item.nodes), -len(item.pods), item.budget))


def _blocker(simulation: Simulation, pdb: str, pods: Sequence[tuple[str, str]], *, overlaps: bool) -> DrainBlocker:
    namespace, _, name = pdb.partition("/")
    status = simulation.api.workloads[DISRUPTION_BUDGET, namespace, name].status
    counts = status if isinstance(status, PdbStatus) else PdbStatus()
    nodes = sorted({node for _, node in pods})
    healthy, desired, expected = counts.current_healthy, counts.desired_healthy, counts.expected_pods
    return DrainBlocker(pdb, [pod for pod, _ in pods], nodes, healthy, desired, expected, overlaps)
