"""The volumes of a Pod, with the fields that restrict its nodes; in-tree volumes as the CSI drivers of their migration.

Source of the migration: csi-translation-lib `plugins/*.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from forewarn.policies.kubernetes.objects.fields import ApiObject, at, boolean, items, strings, text
from forewarn.policies.kubernetes.objects.node import REGION, ZONE, NodeSelector, NodeSelectorTerm
from forewarn.policies.kubernetes.selectors import Requirement

BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
PORTWORX: Final = "kubernetes.io/portworx-volume"
_EBS_ID: Final = re.compile(r"vol-[^/]*")
_UNSPECIFIED: Final = "UNSPECIFIED"


@dataclass(frozen=True, slots=True)
class MigratedVolume:
    """An in-tree volume as its CSI driver names it. `handle`: "" if upstream cannot translate the volume."""

    plugin: str
    driver: str
    handle: str
    topology_key: str


class _Translation(NamedTuple):
    plugin: str
    driver: str
    topology_key: str
    id_field: str
    handle: Callable[[str, Mapping[str, str]], str]


def migrated_volume(source: ApiObject, labels: Mapping[str, str]) -> MigratedVolume | None:
    """Return the migrated volume in a volume source (of a Pod or PersistentVolume); None for other volumes.

    `labels`: the labels of the PersistentVolume.
    """
    for kind, translation in _TRANSLATIONS.items():
        if source.get(kind) is not None:
            handle = translation.handle(text(source, kind, translation.id_field), labels)
            if kind == "azureDisk" and text(source, kind, "kind", default="Managed").lower() != "managed":
                handle = ""
            return MigratedVolume(translation.plugin, translation.driver, handle, translation.topology_key)
    return None


def driver_of_provisioner(provisioner: str) -> str | None:
    """Return the CSI driver for an in-tree provisioner; "" if forewarn does not translate it, None for other
    provisioners.
    """
    if provisioner in ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"):
        return ""
    return next(
        (translation.driver for translation in _TRANSLATIONS.values() if translation.plugin == provisioner), None
    )


def translated_topology(
    affinity: NodeSelector | None, labels: Mapping[str, str], volume: MigratedVolume
) -> NodeSelector | None:
    """Return a PersistentVolume's node affinity with the topology keys of the CSI driver. `labels`: of the
    PersistentVolume.

    Source: `translateTopologyFromInTreeToCSI`.
    """
    if not volume.topology_key:
        return affinity
    terms = affinity.terms if affinity else ()
    zone, region = _topology_labels(terms, labels)
    if any(e.key == zone and e.values for term in terms for e in term.expressions):
        terms = _renamed(terms, zone, volume.topology_key)
    elif zone in labels:
        zones = frozenset(name.strip() for name in labels[zone].split("__")) - {""}
        if zones:
            needed = Requirement(volume.topology_key, "In", zones)
            terms = tuple(
                replace(term, expressions=(*term.expressions, needed)) for term in terms or (NodeSelectorTerm(),)
            )
    if region == BETA_REGION:
        terms = _renamed(terms, region, REGION)
    return NodeSelector(terms) if affinity or terms else None


def _topology_labels(terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the keys of zone and region in `terms`, otherwise in `labels`. Source: `getTopologyLabel`."""
    for present in ({e.key for term in terms for e in term.expressions}, labels):
        for zone, region in ((ZONE, REGION), (BETA_ZONE, BETA_REGION)):
            if zone in present:
                return zone, region
    return ZONE, REGION


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(term, expressions=tuple(e._replace(key=new) if e.key == old else e for e in term.expressions))
        for term in terms
    )


def _as_it_is(volume_id: str, labels: Mapping[str, str]) -> str:  # noqa: ARG001  (the table's signature)
    return volume_id


def _ebs_volume(volume_id: str, labels: Mapping[str, str]) -> str:  # noqa: ARG001
    """Return the CSI handle of an EBS volume; "" if the id is invalid. Source: `KubernetesVolumeIDToEBSVolumeID`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    name = urlsplit(volume_id).path.strip("/")
    return name if _EBS_ID.fullmatch(name) else ""


def _gce_disk(name: str, labels: Mapping[str, str]) -> str:
    """Return the CSI handle of a GCE disk; "" if its zones are invalid. Source: gce_pd.go `TranslateInTreePVToCSI`."""
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split("__")
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"
    regions = {zone.rpartition("-")[0] if zone.count("-") == 2 else "" for zone in zones}
    if len(regions) != 1 or "" in regions:
        return ""
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"


_TRANSLATIONS: Final = {
    "gcePersistentDisk": _Translation(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", "pdName", _gce_disk
    ),
    "awsElasticBlockStore": _Translation(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", "volumeID", _ebs_volume
    ),
    "azureDisk": _Translation("kubernetes.io/azure-disk", "disk.csi.azure.com", "", "diskURI", _as_it_is),
    "cinder": _Translation(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
        "volumeID",
        _as_it_is,
    ),
    "portworxVolume": _Translation(PORTWORX, "pxd.portworx.com", "", "volumeID", _as_it_is),
}


DISK_IDS: Final = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
}
"""Volume source -> fields that identify a disk (rbd: also a common monitor)."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk in a Pod's spec that two Pods on one node can share only under conditions. `monitors`: only for rbd."""

    kind: str
    id: tuple[str, ...]
    read_only: bool = False
    monitors: frozenset[str] = frozenset()

    def conflicts(self, other: Disk) -> bool:
        """Report whether two Pods with these disks conflict on one node. Source: upstream `isVolumeConflict`."""
        if self.kind != other.kind or self.id != other.id:
            return False
        if self.kind == "rbd" and not self.monitors & other.monitors:
            return False
        return self.kind == "awsElasticBlockStore" or not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a Pod. `claim_name`: its PersistentVolumeClaim, or None. `image`: the image of an image volume, or
    "".

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
        if at(volume, kind) is not None:
            ids = tuple(text(volume, kind, field, default="rbd" if field == "pool" else "") for field in fields)
            monitors = frozenset(strings(volume, kind, "monitors")) if kind == "rbd" else frozenset()
            return Disk(kind, ids, boolean(volume, kind, "readOnly"), monitors)
    return None
