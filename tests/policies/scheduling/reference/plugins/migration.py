"""csi-translation-lib: in-tree volumes as the volumes of the CSI driver that took them over."""

import copy
import re
from typing import Any

from tests.policies.scheduling.reference.framework import CannotAnswer
from tests.policies.scheduling.reference.objects import Obj, annotations, labels, spec

# The field of a source, its plugin, its driver, its handle's field, and what the driver calls a zone.
SOURCES = (
    ("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID", "topology.ebs.csi.aws.com/zone"),
    ("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI", ""),
    (
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "volumeID",
        "topology.cinder.csi.openstack.org/zone",
    ),
    ("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName", "topology.gke.io/zone"),
    ("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID", ""),
)
MIGRATED_DRIVERS = {plugin: driver for _, plugin, driver, _, _ in SOURCES}
# These have a translation too, but nodes never count as migrated for them.
NEVER_ON = ("azureFile", "vsphereVolume")
GA_ZONE, GA_REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


class InvalidVolume(Exception):
    """What the library cannot translate."""


def is_migratable(source: Obj) -> bool:
    """IsPVMigratable and IsInlineMigratable."""
    return any(source.get(kind) is not None for kind in (*(kind for kind, *_ in SOURCES), *NEVER_ON))


def as_csi(source: Obj, of_volume: dict[str, str]) -> tuple[str, str] | None:
    """Driver and handle of an in-tree source, given its PersistentVolume's labels.

    None: it is not counted. InvalidVolume: it cannot be translated.
    """
    for kind, _, driver, field, _ in SOURCES:
        if source.get(kind) is None:
            continue
        handle = str(source[kind].get(field, ""))
        if kind == "awsElasticBlockStore" and handle.startswith("aws://"):
            handle = handle.removeprefix("aws://").partition("/")[2].strip("/")
            if not re.fullmatch("vol-[^/]*", handle):
                raise InvalidVolume(f"invalid format for AWS volume {handle}")
        if kind == "gcePersistentDisk":
            zones = (of_volume.get(BETA_ZONE) or of_volume.get(GA_ZONE) or "UNSPECIFIED").split("__")
            place = f"zones/{zones[0]}" if len(zones) == 1 else f"regions/{_region(zones)}"
            handle = f"projects/UNSPECIFIED/{place}/disks/{handle}"
        return driver, handle
    return None


def _region(zones: list[str]) -> str:
    """gceGetRegionFromZones: zones are LOCALE-REGION-ZONE."""
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(regions) != 1 or any(len(zone.split("-")) != 3 for zone in zones):
        raise InvalidVolume(f"no single region in zones {zones}")
    return regions.pop()


def translated(volume: Obj, csi_node: Obj | None) -> Obj:
    """tryTranslatePVToCSI: the volume with its topology in the driver's words, where the node says it has migrated."""
    migrated = annotations(csi_node or {}).get("storage.alpha.kubernetes.io/migrated-plugins", "").split(",")
    for kind, plugin, _, _, zone_key in SOURCES:
        if spec(volume).get(kind) is not None and plugin in migrated:
            try:
                as_csi(spec(volume), labels(volume))
            except InvalidVolume as e:
                raise CannotAnswer(f"could not translate pv: {e}") from e
            return _with_topology(volume, zone_key) if zone_key else volume
    return volume


def _with_topology(volume: Obj, zone_key: str) -> Obj:
    """translateTopologyFromInTreeToCSI."""
    made = copy.deepcopy(volume)
    required = (spec(made).get("nodeAffinity") or {}).get("required") or {}
    terms: list[Obj] = required.get("nodeSelectorTerms") or []
    expressions: list[Any] = [e for term in terms for e in term.get("matchExpressions") or []]
    keys = [e["key"] for e in expressions]
    places = [found for found in (GA_ZONE, BETA_ZONE) if found in keys] or [
        found for found in (GA_ZONE, BETA_ZONE) if found in labels(volume)
    ]
    zone_label = places[0] if places else GA_ZONE
    if any(e["key"] == zone_label and e.get("values") for e in expressions):
        for e in expressions:
            e["key"] = zone_key if e["key"] == zone_label else e["key"]
    elif zone_label in labels(volume):
        zones = sorted({zone.strip() for zone in labels(volume)[zone_label].split("__")} - {""})
        terms = terms or [{}]
        for term in terms if zones else []:
            wanted = {"key": zone_key, "operator": "In", "values": zones}
            term["matchExpressions"] = [*(term.get("matchExpressions") or []), wanted]
        made["spec"]["nodeAffinity"] = (
            {"required": {"nodeSelectorTerms": terms}} if zones else spec(made).get("nodeAffinity")
        )
    if zone_label == BETA_ZONE:
        for e in expressions:
            e["key"] = GA_REGION if e["key"] == BETA_REGION and e.get("values") else e["key"]
    return made
