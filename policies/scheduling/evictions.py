"""PodDisruptionBudgets and nominations after evictions, before controllers create replacement Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.copies import replace
from forewarn.policies.metering import each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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


def emptied_nominations(
    nominated: Mapping[str, Sequence[Pod]], places: Mapping[str, str], bound: Sequence[Pod], evicted: Iterable[Pod]
) -> dict[str, tuple[Pod, ...]]:
    """Return node -> the Pods that are still nominated to the node after bindings and evictions, for nodes where
    nominations change.

    A bound Pod is no longer nominated. A preemptor clears the nominations of Pods with lower priority to its node, if a
    victim is not terminating yet. `places`: Pod identity -> its nominated node. Source: upstream
    `prepareCandidateAsync`, and the API server's binding.
    """
    emptied = {pod.node_name for pod in evicted if not pod.terminating and pod.node_name in nominated}
    preemptors: dict[str, int] = {}
    for pod in bound:
        if pod.node_name in emptied:
            preemptors[pod.node_name] = max(
                pod.effective_priority, preemptors.get(pod.node_name, pod.effective_priority)
            )
    here = {pod.identity for pod in bound if pod.identity in places}
    return dict(_changed(nominated, preemptors, here, emptied | {places[identity] for identity in here}))


def without_nominations(
    nominated: Mapping[str, tuple[Pod, ...]], cycles: Iterable[tuple[Pod, str, Sequence[Pod]]]
) -> dict[str, tuple[Pod, ...]]:
    """Return node -> the Pods that are still nominated to the node after preemptions, given as (preemptor, node,
    victims).
    """
    least: dict[str, int] = {}
    preemptors, names = set[str](), set[str]()
    for pod, node, victims in cycles:
        preemptors.add(pod.identity)
        names.add(pod.name)
        if any(not victim.terminating for victim in victims):
            least[node] = max(pod.effective_priority, least.get(node, pod.effective_priority))
    stay: dict[str, tuple[Pod, ...]] = {}
    for node, pods in nominated.items():
        if node not in least and names.isdisjoint([pod.name for pod in pods]):
            stay[node] = pods  # the same tuple: what is known of it goes on being known
            continue
        floor = least.get(node)
        left = tuple(
            pod for pod in pods if pod.identity not in preemptors and (floor is None or pod.effective_priority >= floor)
        )
        if left:
            stay[node] = left
    return stay


def _allowance(pdb: PodDisruptionBudget) -> tuple[PodDisruptionBudget, int]:
    return pdb, pdb.disruptions_allowed


def _changed(
    nominated: Mapping[str, Sequence[Pod]], preemptors: Mapping[str, int], here: set[str], nodes: Iterable[str]
) -> Iterator[tuple[str, tuple[Pod, ...]]]:
    for node in nodes:
        least = preemptors.get(node)
        stay = [p for p in nominated[node] if p.identity not in here]
        yield node, tuple(p for p in stay if least is None or p.effective_priority >= least)
