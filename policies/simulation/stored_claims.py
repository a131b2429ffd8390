"""PersistentVolumeClaims and PersistentVolumes in the simulated API server, and the Pods that use them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from forewarn.policies.copies import replace
from forewarn.policies.cow_table import Overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.controllers.view import PodState
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects

Key = tuple[str, str]


class StoredClaims:
    """All claims and volumes. `notify`: called for each change with the kind, and the object before and after."""

    def __init__(
        self, base: ClusterObjects, pods: Mapping[Key, PodState], notify: Callable[[str, Any, Any], None]
    ) -> None:
        """`base`: contains the claims and volumes at time 0. `pods`: all stored Pods."""
        self._pods, self._notify = pods, notify
        self._claims: Overlay[Key, PersistentVolumeClaim] = Overlay(base.claims)
        self._volumes: Overlay[Key, PersistentVolume] = Overlay(base.volumes)
        self.pods_of_claim: dict[Key, dict[Key, None]] = {}
        """Key of a claim -> the keys of the Pods that use it."""
        self._created = count(1)
        self.unlisted: frozenset[Key] = frozenset()
        """Claims that Pods on nodes use but whose volumes are unknown: new Pods are created without these claims."""

    def pod_changed(self, state: PodState | None) -> None:
        """Update the claims in use after a Pod was created or removed."""
        if state is None:
            return
        for claim in claims_of(state.pod):
            key, users = (state.pod.namespace, state.pod.name), self.pods_of_claim.setdefault(claim, {})
            if key in self._pods:
                users[key] = None
            else:
                users.pop(key, None)

    def claim(self, key: Key) -> PersistentVolumeClaim | None:
        """Return the claim with this (namespace, name), or None."""
        return self._claims.get(key)

    def claims(self) -> Mapping[Key, PersistentVolumeClaim]:
        """Return all current claims."""
        return self._claims.freeze()

    def note_unlisted(self) -> None:
        """Set `unlisted`: running Pods must have claims and volumes, so missing ones are not in the cluster
        snapshot.
        """
        used = (
            key
            for key, pods in self.pods_of_claim.items()
            if any(self._pods[pod].pod.node_name and self._pods[pod].active for pod in pods)
        )
        self.unlisted = frozenset(key for key in used if not self._is_listed(key))

    def _is_listed(self, key: Key) -> bool:
        claim = self.claim(key)
        return claim is not None and (not claim.fully_bound or self.volume(claim.volume_name) is not None)

    def without_unlisted_claims(self, pod: Pod) -> Pod:
        """Return the Pod without volumes whose claims are unlisted."""
        unlisted = self.unlisted.intersection(claims_of(pod)) if self.unlisted else ()
        if not unlisted:
            return pod
        names = {name for _, name in unlisted}
        volumes = tuple(volume for volume in pod.spec.volumes if volume.claim_of(pod.name) not in names)
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    def volume(self, name: str) -> PersistentVolume | None:
        """Return the volume with this name, or None."""
        return self._volumes.get(("", name))

    def volumes(self) -> Mapping[Key, PersistentVolume]:
        """Return all current volumes."""
        return self._volumes.freeze()

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        """Create or change a claim, and notify. A new claim gets a uid."""
        old = self._claims.get(claim.key)
        new = claim if claim.uid else replace(claim, uid=f"claim-{next(self._created)}")
        self._claims.put(claim.key, new)
        self._notify("Claim", old, new)

    def delete_claim(self, key: Key) -> None:
        """Delete a claim. A claim of a Pod on a node is only marked as deleting until the Pod is removed.

        Source: plugin StorageObjectInUseProtection, kubernetes `pkg/controller/volume/pvcprotection`.
        """
        old = self._claims.get(key)
        if old is None:
            return
        users = (self._pods.get(pod) for pod in self.pods_of_claim.get(key, ()))
        if any(state is not None and state.pod.node_name and not state.pod.terminal for state in users):
            if not old.deleting:
                self.put_claim(replace(old, deleting=True))
            return
        self._claims.pop(key)
        self._notify("Claim", old, None)

    def put_volume(self, volume: PersistentVolume) -> None:
        """Create or change a volume."""
        old = self._volumes.get(("", volume.name))
        self._volumes.put(("", volume.name), volume)
        self._notify("Volume", old, volume)


def claims_of(pod: Pod) -> list[Key]:
    """Return the keys of the claims that a Pod uses, existing or not."""
    names = (volume.claim_of(pod.name) for volume in pod.spec.volumes)
    return [(pod.namespace, name) for name in names if name]
