"""The volumes of a Pod, with the fields that restrict its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forewarn.policies.objects.csi_migration import MigratedVolume, migrated_volume
from forewarn.policies.objects.fields import at, boolean, text
from forewarn.policies.objects.items import items, strings

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject

DISK_IDS: Final = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
}
"""Volume source -> fields that identify a disk (rbd: also a common monitor)."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk in a Pod's spec that two Pods on one node can use only under conditions. `monitors`: of rbd."""

    kind: str
    id: tuple[str, ...]
    read_only: bool = False
    monitors: frozenset[str] = frozenset()

    def conflicts(self, other: Disk) -> bool:
        """True if two Pods with these disks conflict on one node. Source: upstream `isVolumeConflict`."""
        if self.kind != other.kind or self.id != other.id:
            return False
        if self.kind == "rbd" and not self.monitors & other.monitors:
            return False
        return self.kind == "awsElasticBlockStore" or not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a Pod. `claim_name`: of a PersistentVolumeClaim, or None. `image`: of an image volume, or "".

    An ephemeral volume's claim has the names of the Pod and the volume.
    """

    name: str = ""
    claim_name: str | None = None
    ephemeral: bool = False
    disk: Disk | None = None
    migrated: MigratedVolume | None = None
    image: str = ""

    def claim_of(self, pod_name: str) -> str | None:
        """Return the name of the volume's PersistentVolumeClaim; None if the volume has none."""
        return f"{pod_name}-{self.name}" if self.ephemeral else self.claim_name


def read_volumes(pod: ApiObject) -> tuple[Volume, ...]:
    """Read the volumes in `spec.volumes` that affect scheduling. Raises InvalidObject."""
    return tuple(v for v in map(_volume, items(pod, "spec", "volumes")) if v != Volume(v.name))


def _volume(volume: ApiObject) -> Volume:
    name = text(volume, "name")
    if volume.get("persistentVolumeClaim") is not None:
        return Volume(name, claim_name=text(volume, "persistentVolumeClaim", "claimName"))
    if volume.get("ephemeral") is not None:
        return Volume(name, ephemeral=True)
    image = text(volume, "image", "reference")
    return Volume(name, disk=_disk(volume), migrated=migrated_volume(volume, {}), image=image)


def _disk(volume: ApiObject) -> Disk | None:
    for kind, fields in DISK_IDS.items():
        source = at(volume, kind)
        if source is not None:
            ids = tuple(text(volume, kind, field, default="rbd" if field == "pool" else "") for field in fields)
            monitors = frozenset(strings(volume, kind, "monitors")) if kind == "rbd" else frozenset()
            return Disk(kind, ids, boolean(volume, kind, "readOnly"), monitors)
    return None
