"""PodDisruptionBudgets and nominations after evictions, before controllers create replacement Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.copies import replace
from forewarn.policies.metering import each

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.pod import Pod

Key = tuple[str, str]


def charged_pdbs(
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    evicted: Iterable[Pod],
    earlier: Mapping[Key, PodDisruptionBudget] | None = None,
) -> dict[Key, PodDisruptionBudget]:
    """Return the PDBs that allow fewer disruptions after these evictions; see `changed_pdbs`."""
    return changed_pdbs(pdbs, ((pod, -int(pod.healthy)) for pod in evicted), earlier)


def changed_pdbs(
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    changes: Iterable[tuple[Pod, int]],
    earlier: Mapping[Key, PodDisruptionBudget] | None = None,
) -> dict[Key, PodDisruptionBudget]:
    """Return the PDBs that change if Pods become healthy (Pod, 1), become unhealthy (Pod, -1), or neither (Pod, 0), by
    (namespace, name).

    `pdbs`: namespace -> PDBs. `earlier`: PDBs that earlier changes replaced, included in the result. The number of
    desired healthy Pods does not change, because controllers recreate the Pods. Source: kubernetes
    `pkg/controller/disruption/disruption.go`, `countHealthyPods` and `updatePdbStatus`.
    """
    by_namespace: dict[Key, tuple[PodDisruptionBudget, int]] = {}
    for pod, change in changes:
        for pdb in each(pdbs.get(pod.namespace, ()), 1) if change else ():
            if pdb.counts(pod):
                key = pdb.namespace, pdb.name
                by_namespace[key] = pdb, by_namespace.get(key, (pdb, 0))[1] + change
    changed = dict(earlier or {})
    for key, (pdb, change) in by_namespace.items():  # a preemption takes many Pods of one PDB: the PDB is copied once
        if change:
            before = changed.get(key, pdb)
            changed[key] = replace(before, surplus=before.surplus + change)
    return changed


def may_be_violated(charged: Mapping[Key, PodDisruptionBudget], pods: Iterable[Pod]) -> bool:
    """Report whether the eviction of all these Pods would violate one of the PDBs."""
    left = {key: pdb.disruptions_allowed for key, pdb in charged.items()}
    by_namespace: dict[str, list[PodDisruptionBudget]] = {}
    for pdb in charged.values():
        by_namespace.setdefault(pdb.namespace, []).append(pdb)
    for pod in pods:
        for pdb in each(by_namespace.get(pod.namespace, ()), 1):
            if pdb.matches(pod.namespace, pod.labels):
                left[pdb.namespace, pdb.name] -= 1
    return any(count < 0 for count in left.values())


def victims_to_evict(victims: Iterable[Pod]) -> list[Pod]:
    """Return the victims that a preemptor evicts: those that are not terminating yet. Source: upstream
    `prepareCandidateAsync`.
    """
    return [victim for victim in victims if not victim.terminating]


def loses_nomination(pod: Pod, priority: int) -> bool:
    """Report whether a preemptor with this priority clears the nomination of a Pod to the same node.

    Source: upstream `getLowerPriorityNominatedPods`.
    """
    return pod.effective_priority < priority


def without_nominations(
    nominated: Mapping[str, Sequence[Pod]],
    places: Mapping[str, str],
    cycles: Iterable[tuple[Pod, str, Sequence[Pod]]],
) -> dict[str, tuple[Pod, ...]]:
    """Return node -> the Pods that are still nominated to the node after cycles, given as (Pod, node, victims); only
    nodes where nominations change.

    The Pods of the cycles are no longer nominated; see also `loses_nomination`. `places`: Pod identity -> its nominated
    node. Source: upstream `prepareCandidateAsync`, and the API server's binding.
    """
    highest: dict[str, int] = {}
    tried = set[str]()
    for pod, node, victims in cycles:
        if pod.identity in places:
            tried.add(pod.identity)
        if node in nominated and victims_to_evict(victims):
            highest[node] = max(pod.effective_priority, highest.get(node, pod.effective_priority))
    changed: dict[str, tuple[Pod, ...]] = {}
    for node in highest.keys() | {places[identity] for identity in tried}:
        priority, pods = highest.get(node), nominated[node]
        kept = [p for p in pods if p.identity not in tried and (priority is None or not loses_nomination(p, priority))]
        if len(kept) < len(pods):
            changed[node] = tuple(kept)
    return changed
