"""The PodDisruptionBudgets that block the drain of nodes at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.controllers.disruption import PdbStatus
from forewarn.policies.simulation.drain import forbidden_by, is_skipped
from forewarn.policies.simulation.workload_index import PDB

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.simulation.simulation import Simulation


class Blocker(NamedTuple):
    """A PDB (`budget`: `namespace/name`) that blocks the eviction of `pods` on `nodes`.

    `healthy`, `desired`, `expected`: numbers of Pods in its status. If `never` is false, drains continue when enough
    Pods are healthy.
    """

    budget: str
    pods: Sequence[str]
    nodes: Sequence[str]
    healthy: int
    desired: int
    expected: int

    @property
    def never(self) -> bool:
        """Whether the PDB requires all Pods, so that it never allows a disruption."""
        return self.desired >= self.expected


def blockers_of(simulation: Simulation, nodes: Iterable[str]) -> list[Blocker]:
    """Return the PDBs that block evictions from these nodes now: first those with `never`, then those that affect
    most nodes.
    """
    api, pods_by_pdb = simulation.api, dict[str, list[tuple[str, str]]]()
    for node in nodes:
        for state in api.by_node.get(node, {}).values():
            if not is_skipped(state):
                for pdb in forbidden_by(api, state):
                    pods_by_pdb.setdefault(pdb, []).append((state.pod.key, node))
    blockers = [_blocker(simulation, pdb, pods) for pdb, pods in pods_by_pdb.items()]
    return sorted(blockers, key=lambda item: (not item.never, -len(item.nodes), -len(item.pods), item.budget))


def _blocker(simulation: Simulation, pdb: str, pods: Sequence[tuple[str, str]]) -> Blocker:
    namespace, _, name = pdb.partition("/")
    status = simulation.api.workloads[PDB, namespace, name].status
    counts = status if isinstance(status, PdbStatus) else PdbStatus()
    nodes = sorted({node for _, node in pods})
    healthy, desired, expected = counts.current_healthy, counts.desired_healthy, counts.expected_pods
    return Blocker(pdb, [pod for pod, _ in pods], nodes, healthy, desired, expected)


def as_dict(blocker: Blocker) -> dict[str, Any]:
    """Return the blocker as a JSON object."""
    return blocker._asdict() | {"never": blocker.never}
