"""Find the potential victims whose eviction violates a PodDisruptionBudget. Source: upstream
`filterPodsWithPDBViolation`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from forewarn.policies.metering import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.victim import Victim


def matching(pod: Pod, pdbs: Sequence[PodDisruptionBudget]) -> Iterator[PodDisruptionBudget]:
    """Yield the PDBs that select the Pod. `pdbs`: those of the Pod's namespace."""
    return (pdb for pdb in each(pdbs, 1.5) if pdb.matches(pod.namespace, pod.labels))


def filter_pods_with_pdb_violation(
    pods: Iterable[Pod],
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    matching: Callable[[Pod, Sequence[PodDisruptionBudget]], Iterable[PodDisruptionBudget]] = matching,
    *,
    first_ends_the_count: bool = False,
) -> tuple[list[Pod], list[Pod]]:
    """Return (Pods whose eviction violates a PDB, other Pods), each in the given order. `pdbs`: namespace -> PDBs.

    `matching`: returns the PDBs of a namespace that select a Pod. Every Pod reduces the allowed disruptions of all its
    PDBs, even if the Pod is reprieved later. `first_ends_the_count`: PDBs after the first violated one are not reduced.
    Upstream has no order of PDBs, so its result may vary for a Pod with several PDBs. Here PDBs are sorted by name.
    """
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod, violated in violations(pods, pdbs, matching, first_ends_the_count=first_ends_the_count):
        (violating if violated else others).append(pod)
    return violating, others


def filter_victims_with_pdb_violation(
    victims: Iterable[Victim],
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    *,
    first_ends_the_count: bool = False,
) -> tuple[list[tuple[Victim, int]], list[Victim]]:
    """Return ((victim, number of its Pods whose eviction violates a PDB) for violating victims, other victims), in the
    given order.

    `pdbs`: namespace -> PDBs. `first_ends_the_count`: PDBs after the first violated one are not reduced. Source:
    upstream `FilterVictimsWithPDBViolation`.
    """
    victims = list(victims)
    numbers = violations(
        (pod for victim in victims for pod in victim.pods), pdbs, first_ends_the_count=first_ends_the_count
    )
    counts = [sum(bool(violated) for _, violated in islice(numbers, len(victim.pods))) for victim in victims]
    violating = [(victim, count) for victim, count in zip(victims, counts, strict=True) if count]
    return violating, [victim for victim, count in zip(victims, counts, strict=True) if not count]


def violations(
    pods: Iterable[Pod],
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    matching: Callable[[Pod, Sequence[PodDisruptionBudget]], Iterable[PodDisruptionBudget]] = matching,
    *,
    first_ends_the_count: bool = False,
) -> Iterator[tuple[Pod, Sequence[PodDisruptionBudget]]]:
    """Yield (Pod, the PDBs that the eviction of the Pod violates after the evictions of the Pods before).

    Arguments as for `filter_pods_with_pdb_violation`. A terminating Pod reduces allowed disruptions like any other Pod.
    A Pod in `status.disruptedPods` does not: the API server has already accepted its eviction.
    """
    allowed: dict[tuple[str, str], int] = {}
    for pod in pods:
        violated: Sequence[PodDisruptionBudget] = ()
        for pdb in matching(pod, pdbs.get(pod.namespace, ())):
            if pod.name not in pdb.disrupted_pods:
                key = pdb.namespace, pdb.name
                left = allowed[key] = allowed.get(key, pdb.disruptions_allowed) - 1
                if left < 0:
                    violated = (*violated, pdb)
                if violated and first_ends_the_count:
                    break
        yield pod, violated
