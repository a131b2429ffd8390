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
    """Return the PDBs that allow fewer disruptions after these evictions, by (namespace, name).

    `pdbs`: namespace -> PDBs. `earlier`: PDBs that earlier evictions reduced, included in the result. A deleted Pod
    counts as unhealthy at once; a Pod that was already unhealthy changes nothing. The number of desired healthy Pods
    does not change, because controllers recreate the Pods. Source: kubernetes
    `pkg/controller/disruption/disruption.go`, `countHealthyPods` and `updatePdbStatus`.
    """
    earlier = earlier or {}
    left: dict[Key, tuple[PodDisruptionBudget, int]] = {}
    for pod in evicted:
        for pdb in each(pdbs.get(pod.namespace, ()), 1) if pod.healthy else ():
            if pdb.disruptions_allowed <= 0 or not pdb.counts(pod):
                continue
            key = pdb.namespace, pdb.name
            before, allowed = left.get(key) or _allowance(earlier.get(key, pdb))
            if allowed > 0:
                left[key] = before, allowed - 1
    # A preemption takes many pods of one budget: it is copied once.
    charged = {key: replace(pdb, disruptions_allowed=allowed) for key, (pdb, allowed) in left.items()}
    return {**earlier, **charged}


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


def without_nominations(
    nominated: Mapping[str, Sequence[Pod]],
    places: Mapping[str, str],
    cycles: Iterable[tuple[Pod, str, Sequence[Pod]]],
) -> dict[str, tuple[Pod, ...]]:
    """Return node -> the Pods that are still nominated to the node after cycles, given as (Pod, node, victims); only
    nodes where nominations change.

    The Pods of the cycles are no longer nominated. A preemptor clears the nominations of Pods with lower priority to
    its node, if a victim is not terminating yet. `places`: Pod identity -> its nominated node. Source: upstream
    `prepareCandidateAsync`, and the API server's binding.
    """
    least: dict[str, int] = {}
    tried = set[str]()
    for pod, node, victims in cycles:
        if pod.identity in places:
            tried.add(pod.identity)
        if node in nominated and any(not victim.terminating for victim in victims):
            least[node] = max(pod.effective_priority, least.get(node, pod.effective_priority))
    changed: dict[str, tuple[Pod, ...]] = {}
    for node in least.keys() | {places[identity] for identity in tried}:
        floor, pods = least.get(node), nominated[node]
        left = [p for p in pods if p.identity not in tried and (floor is None or p.effective_priority >= floor)]
        if len(left) < len(pods):
            changed[node] = tuple(left)
    return changed


def _allowance(pdb: PodDisruptionBudget) -> tuple[PodDisruptionBudget, int]:
    return pdb, pdb.disruptions_allowed
