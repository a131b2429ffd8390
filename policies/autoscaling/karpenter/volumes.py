"""Volumes of Pods: which claims Karpenter accepts, where their volumes are, and the limits of nodes.

Sources: provisioning/scheduling/volumetopology.go, pkg/scheduling/volumeusage.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.karpenter.pods import requirements_of
from forewarn.policies.autoscaling.karpenter.requirements import HOSTNAME, Requirement, Requirements
from forewarn.policies.metering import charge
from forewarn.policies.objects.volumes import driver_of_provisioner

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

_EBS: Final = "ebs.csi.aws.com"
MAX_ALTERNATIVES: Final = 10_000
"""Maximum combinations of the places of a Pod's volumes."""


class Rejected(Exception):
    """Karpenter ignores the Pod; the text is upstream's message."""


class Storage(NamedTuple):
    """The storage objects of a cluster, by name; claims by namespace and name.

    `locates_volumes`: false in recordings. Upstream looks up a volume in the Pod's namespace; a real client ignores the
    namespace, but the fake client of the recordings finds no volume.
    """

    claims: Mapping[tuple[str, str], PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    locates_volumes: bool = True

    def _claims_of(self, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        for volume in pod.spec.volumes:
            name = volume.claim_of(pod.name)
            if name is not None:
                yield name, self.claims.get((pod.namespace, name))

    def misses_volume(self, pod: Pod) -> bool:
        """Report whether a claim names a volume that is gone. Karpenter then does not track the Pod's node."""
        claims = (claim for _, claim in self._claims_of(pod) if claim is not None)
        return any(claim.volume_name and claim.volume_name not in self.volumes for claim in claims)

    def validate(self, pod: Pod) -> None:
        """Raise Rejected for a Pod whose claims can never be bound. Source: `ValidatePersistentVolumeClaims`."""
        for name, claim in self._claims_of(pod):
            if claim is None:
                what = f'persistentvolumeclaims "{name}" not found'
                raise Rejected(f"getting persistent volume claim, {what} (PersistentVolumeClaim={name})")
            key = f"{claim.namespace}/{name}"
            if claim.deleting:
                raise Rejected(f"persistentvolumeclaim is being deleted (PersistentVolumeClaim={key})")
            volume = f"PersistentVolumeClaim={key}, PersistentVolume={claim.volume_name}"
            if claim.phase == "Lost":
                raise Rejected(f"persistentvolumeclaim bound to non-existent persistentvolume ({volume})")
            problem = self._bound_problem(claim) if claim.volume_name else self._class_problem(claim)
            if problem.startswith("pvc is considered unbound"):
                short = f"PersistentVolume={claim.volume_name}, PersistentVolumeClaim={name}"
                raise Rejected(f"{problem} ({short}, annotation=pv.kubernetes.io/bind-completed)")
            if problem:
                source = f", PersistentVolume={claim.volume_name}" if claim.volume_name else ""
                what = f"PersistentVolumeClaim={key}, StorageClass={claim.storage_class}"
                raise Rejected(f"{problem} ({source[2:] + ', ' if source else ''}{what})")

    def _bound_problem(self, claim: PersistentVolumeClaim) -> str:
        volume = self.volumes.get(claim.volume_name)
        if volume is None:
            return f'failed to validate pvc, persistentvolumes "{claim.volume_name}" not found'
        if volume.deleting:
            return "failed to validate pvc, persistentvolume is being deleted"
        return "" if claim.bind_completed else "pvc is considered unbound because it does not contain annotation"

    def _class_problem(self, claim: PersistentVolumeClaim) -> str:
        if not claim.storage_class:
            return "unbound pvc must define a storage class"
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None:
            what = f'storageclasses.storage.k8s.io "{claim.storage_class}" not found'
            return f"failed to validate pvc, failed to get storage class, {what}"
        if storage_class.binding_mode == "Immediate":
            return "failed to validate pvc, pvc with immediate volume binding mode must be bound"
        return ""

    def alternatives(self, pod: Pod) -> list[Requirements] | None:
        """Return the places where a Pod's volumes are or can be, as alternatives; empty for any place.

        None if a claim, volume or class is missing. Source: `GetRequirements`.
        """
        merged: list[Requirements] = []
        for _, claim in self._claims_of(pod):
            places = None if claim is None else self._places(claim)
            if places is None:
                return None
            if places and merged:
                if len(places) * len(merged) > MAX_ALTERNATIVES:
                    raise NotPredicted(f"Pod {pod.key}: more than {MAX_ALTERNATIVES} combinations of volumes")
                charge(10 * len(places) * len(merged))
                pairs = [(one, other) for one in merged for other in places]
                fitting = [(one, other) for one, other in pairs if one.conflict(other) is None]
                merged = [Requirements((*one.values(), *other.values())) for one, other in fitting or pairs]
            else:
                merged = places or merged
        return merged

    def _places(self, claim: PersistentVolumeClaim) -> list[Requirements] | None:
        if claim.volume_name:
            volume = self.volumes.get(claim.volume_name)
            return None if volume is None or not self.locates_volumes else self._places_of_volume(volume)
        if not claim.storage_class:
            return []
        class_ = self.classes.get(claim.storage_class)
        if class_ is None:
            return None
        terms = (term for term in class_.allowed_topologies if term)
        return [Requirements(Requirement.of(key, "In", values) for key, values in term) for term in terms]

    def _places_of_volume(self, volume: PersistentVolume) -> list[Requirements]:
        """Return the places of a volume; the hostname of a local volume does not count, as its Pod moves."""
        places = []
        for term in volume.node_affinity.terms if volume.node_affinity else ():
            requirements = Requirements(requirements_of(term))
            if volume.local:
                requirements.pop(HOSTNAME, None)
            if term.expressions:
                places.append(requirements)
        return places

    def used_by(self, pod: Pod) -> dict[str, set[str]]:
        """Return CSI driver -> claims of a Pod, for the limits of nodes. Source: `GetVolumes`."""
        used: dict[str, set[str]] = {}
        for _, claim in self._claims_of(pod):
            driver = "" if claim is None else self._driver(claim)
            if driver and claim is not None:
                used.setdefault(driver, set()).add(f"{claim.namespace}/{claim.name}")
        return used

    def _driver(self, claim: PersistentVolumeClaim) -> str:
        if claim.volume_name:
            volume = self.volumes.get(claim.volume_name)
            if volume is None:
                return ""
            if volume.csi:
                return volume.csi[0]
            return _EBS if volume.migrated and volume.migrated.driver == _EBS else ""
        class_ = self.classes.get(claim.storage_class)
        provisioner = class_.provisioner if class_ else ""
        return driver_of_provisioner(provisioner) or provisioner
