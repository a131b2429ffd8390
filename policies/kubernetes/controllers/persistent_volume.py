"""The binding of claims to volumes. Source: pkg/controller/volume/persistentvolume (pv_controller.go, index.go)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.controllers.templates import claim_of_template
from forewarn.policies.kubernetes.objects import storage
from forewarn.policies.kubernetes.objects.fields import items, mapping, text
from forewarn.policies.kubernetes.objects.pod import Owner
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import available_for, could_hold

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import PodState, View


def sync_unbound_claim(
    claim: storage.PersistentVolumeClaim,
    storage_class: storage.StorageClass | None,
    volume_of: Callable[[str], storage.PersistentVolume | None],
    volumes: Sequence[storage.PersistentVolume],
) -> storage.PersistentVolume | storage.StorageClass | None:
    """Return the volume to which a sync binds an unbound claim, the StorageClass whose provisioner creates one, or None
    if the claim stays Pending.

    `volume_of`: returns a volume by name, or None. `volumes`: the volumes of the claim's class. Source: upstream
    `syncUnboundClaim`.
    """
    if claim.volume_name:
        volume = volume_of(claim.volume_name)
        if volume is None or (volume.claim is None and not _satisfies(volume, claim)):
            return None
        return volume if volume.claim is None or volume.bound_to(claim) else None
    waits = storage_class is not None and storage_class.delays_binding
    best = _find_best_match(claim, volumes, waits=waits)
    if best is not None:
        return best
    if storage_class is None or storage_class.provisioner in ("", storage.NO_PROVISIONER):
        return None
    return None if waits and claim.selected_node is None else storage_class


def _satisfies(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Report whether a claim may name this unbound volume. Source: upstream `checkVolumeSatisfyClaim`."""
    return (
        could_hold(volume, claim)
        and volume.storage_class == claim.storage_class
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def _find_best_match(
    claim: storage.PersistentVolumeClaim, volumes: Sequence[storage.PersistentVolume], *, waits: bool
) -> storage.PersistentVolume | None:
    """Return a volume with the fewest access modes that include those of the claim: one that is reserved for the claim,
    otherwise the smallest that fits; or None.

    `waits`: kube-scheduler selects among the unbound volumes, so only a reserved volume counts. Source: upstream
    `findByClaim`, `FindMatchingVolume`.
    """
    fitting = [
        volume
        for volume in charging(volumes, 0.5)
        if could_hold(volume, claim)
        and set(claim.access_modes) <= set(volume.access_modes)
        and (volume.bound_to(claim) or (not waits and available_for(volume, claim)))
    ]
    return min(
        fitting,
        key=lambda volume: (len(volume.access_modes), not volume.bound_to(claim), volume.capacity, volume.name),
        default=None,
    )


def missing_claims(view: View, state: PodState) -> list[storage.PersistentVolumeClaim]:
    """Return the claims to create for the ephemeral volumes of a Pod. The Pod owns these claims. Raises InvalidObject.

    An existing claim with the same name is not replaced; the Pod stays Pending if the claim belongs to another Pod.
    """
    pod = state.pod
    if state.terminating or state.template is None:
        return []
    ephemeral = {volume.name: volume.claim_of(pod.name) for volume in pod.spec.volumes if volume.ephemeral}
    templates = {
        text(volume, "name"): mapping(volume, "ephemeral", "volumeClaimTemplate")
        for volume in (items(state.template, "spec", "volumes") if ephemeral else ())
    }
    owner = Owner("Pod", pod.name, pod.uid, "v1")
    return [
        claim_of_template(view, pod.namespace, claim, templates[name], owner)
        for name, claim in ephemeral.items()
        if claim and name in templates and view.claim(pod.namespace, claim) is None
    ]
