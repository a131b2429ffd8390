"""The ResourceClaims (DRA) of a simulation: kube-scheduler allocates them, and kube-controller-manager releases them.

Claims from templates exist from the Pod's first cycle on, and until the Pod is removed. Source: kubernetes
`plugins/dynamicresources`, `pkg/controller/resourceclaim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.copies import replace
from forewarn.policies.scheduling.columns import Columns
from forewarn.policies.scheduling.devices.claims import (
    claim_of_an_earlier_cycle,
    extended_resources_of,
    not_modelled,
)
from forewarn.policies.scheduling.plugins.dynamic_resources import DynamicResources, claims_on
from forewarn.policies.scheduling.responsible import framework_of
from forewarn.policies.scheduling.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forewarn.policies.objects.devices import ResourceClaim
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.simulation.scheduler_cache import SchedulerCache


class ClaimUpdate(NamedTuple):
    """A changed ResourceClaim. `old`, `new`: the claim before and after the change."""

    old: ResourceClaim
    new: ResourceClaim


def devices_on(snapshot: Snapshot, pod: Pod, node: str) -> list[ResourceClaim]:
    """Return the Pod's claims with their allocations on a node, which Filter accepted."""
    info = snapshot.get(node)
    if info is None or not (pod.device_claims or extended_resources_of(pod, snapshot.extended_resources)):
        return []
    framework = framework_of(snapshot, pod)
    if DynamicResources.name not in framework.profile.plugins:
        return []
    plugin: DynamicResources = framework.plugin(DynamicResources.name)
    return claims_on(plugin.allocate_on(pod, (info,)), node)


def unmodelled_pending(pods: Iterable[Pod], objects: ClusterObjects) -> dict[str, str]:
    """Return identity -> reason, of the Pending Pods with claims that forewarn does not model."""
    snapshot = Snapshot(objects, (), Columns.build(()))
    pending = (pod for pod in pods if pod.device_claims and not pod.node_name and not pod.terminal)
    provided, selectors = snapshot.extended_resources, snapshot.device_selectors
    reasons = ((pod.identity, not_modelled(pod, objects, provided, selectors)) for pod in pending)
    return {identity: reason for identity, reason in reasons if reason}


class DeviceClaims:
    """The allocations and reservations of claims in the scheduler's cache."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._generated: dict[str, list[tuple[str, str]]] = {}
        """uid of a Pod -> keys of the claims that exist only for the Pod."""

    def reserve(self, pod: Pod, claims: Iterable[ResourceClaim]) -> list[ClaimUpdate]:
        return [*self._reserve(pod, claims)]

    def _reserve(self, pod: Pod, claims: Iterable[ResourceClaim]) -> Iterator[ClaimUpdate]:
        for claim in claims:
            stored = self._cache.resource_claim((claim.namespace, claim.name))
            users = (*(uid for uid in claim.reserved_for if uid != pod.uid), pod.uid)
            new = replace(claim, reserved_for=users)
            if stored is None or stored.uid != claim.uid:
                new = replace(new, name=f"{claim.name}-{pod.uid}", owner_uid=pod.uid)
                self._generated.setdefault(pod.uid, []).append((new.namespace, new.name))
                stored = claim
            self._cache.put_resource_claim(new)
            yield ClaimUpdate(stored, new)

    def has(self, pod: Pod) -> bool:
        """Report whether claims may be reserved for a Pod."""
        provided = self._cache.base.device_classes and pod.spec.request.scalars
        return bool(pod.device_claims or pod.uid in self._generated or provided)

    def release(self, pod: Pod) -> list[ClaimUpdate]:
        """End the reservations of a Pod, and deallocate claims without other users. Source: upstream `syncClaim`."""
        return [*self._release(pod)]

    def _release(self, pod: Pod) -> Iterator[ClaimUpdate]:
        for key in self._keys_of(pod):
            old = self._cache.resource_claim(key)
            if old is None or pod.uid not in old.reserved_for:
                continue
            users = tuple(uid for uid in old.reserved_for if uid != pod.uid)
            new = replace(old, reserved_for=users, allocation=old.allocation if users else None)
            if users or old.owner_uid != pod.uid:
                self._cache.put_resource_claim(new)
            else:
                self._cache.remove_resource_claim(key)
            yield ClaimUpdate(old, new)

    def _keys_of(self, pod: Pod) -> Iterator[tuple[str, str]]:
        yield from self._generated.pop(pod.uid, ())
        yield from ((pod.namespace, wanted.claim) for wanted in pod.device_claims if wanted.claim is not None)
        objects = self._cache.base
        special = claim_of_an_earlier_cycle(pod, objects) if objects.device_classes else None
        if special is not None:
            yield special.namespace, special.name

    def deallocate_unavailable(self, snapshot: Snapshot, pod: Pod) -> list[ClaimUpdate]:
        """Deallocate one idle claim of a rejected Pod whose devices some nodes cannot use. Source: upstream
        `PostFilter`.
        """
        labels = [(info.node.labels, info.name) for info in snapshot.node_infos]
        for wanted in pod.device_claims:
            claim = None if wanted.claim is None else self._cache.resource_claim((pod.namespace, wanted.claim))
            allocation = None if claim is None else claim.allocation
            if claim is None or allocation is None or allocation.nodes is None:
                continue
            if {*claim.reserved_for} <= {pod.uid} and not all(allocation.nodes.matches(*node) for node in labels):
                new = replace(claim, allocation=None, reserved_for=())
                self._cache.put_resource_claim(new)
                return [ClaimUpdate(claim, new)]
        return []
