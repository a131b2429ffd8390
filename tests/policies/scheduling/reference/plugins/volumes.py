"""VolumeRestrictions, NodeVolumeLimits (CSI) and VolumeZone."""

from typing import Any

from tests.policies.scheduling.reference.framework import Plugin
from tests.policies.scheduling.reference.node_info import NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import (
    SKIP,
    SUCCESS,
    Obj,
    Status,
    annotations,
    controller_of,
    labels,
    name,
    namespace,
    spec,
    uid,
    unresolvable,
    unschedulable,
    volumes,
)
from tests.policies.scheduling.reference.plugins.migration import MIGRATED_DRIVERS, InvalidVolume, as_csi, is_migratable

RWOP_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


def claim_name(volume: Obj) -> str | None:
    """The claim of a persistentVolumeClaim volume; None for others."""
    source = volume.get("persistentVolumeClaim")
    return None if source is None else str(source.get("claimName", ""))


def storage_class_of(claim: Obj) -> str:
    """GetPersistentVolumeClaimClass: the beta annotation comes first."""
    beta = annotations(claim).get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else str(spec(claim).get("storageClassName") or "")


def is_for_pod(pod: Obj, claim: Obj) -> bool:
    """ephemeral.VolumeIsForPod."""
    owner = controller_of(claim)
    return namespace(claim) == namespace(pod) and owner is not None and owner.get("uid", "") == uid(pod)


def is_volume_conflict(volume: Obj, pod: Obj) -> bool:
    """isVolumeConflict."""
    for other in volumes(pod):
        for kind in DISKS:
            mine, theirs = volume.get(kind), other.get(kind)
            if mine is None or theirs is None:
                continue
            both_read = bool(mine.get("readOnly") and theirs.get("readOnly"))
            if kind == "gcePersistentDisk" and mine.get("pdName") == theirs.get("pdName") and not both_read:
                return True
            if kind == "awsElasticBlockStore" and mine.get("volumeID") == theirs.get("volumeID"):
                return True
            if kind == "iscsi" and mine.get("iqn") == theirs.get("iqn") and not both_read:
                return True
            if kind == "rbd" and _same_rbd(mine, theirs) and not both_read:
                return True
    return False


def _same_rbd(mine: Obj, theirs: Obj) -> bool:
    shared = set(mine.get("monitors") or []) & set(theirs.get("monitors") or [])
    pools = mine.get("pool", ""), theirs.get("pool", "")
    return bool(shared) and pools[0] == pools[1] and mine.get("image") == theirs.get("image")


class RestrictionState:
    """preFilterState: the pod's ReadWriteOncePod claims and how often scheduled pods refer to them."""

    def __init__(self, claims: set[str], conflicts: int):
        self.claims = claims
        self.conflicts = conflicts


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        claims = set()
        for volume in volumes(pod.pod):
            wanted = claim_name(volume)
            if wanted is None:
                continue
            claim = self.cluster.claims.get(f"{namespace(pod.pod)}/{wanted}")
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{wanted}" not found'), None
            if "ReadWriteOncePod" in (spec(claim).get("accessModes") or []):
                claims.add(wanted)
        conflicts = sum(f"{namespace(pod.pod)}/{claim}" in self.cluster.used_claims for claim in claims)
        disks = any(v.get(kind) is not None for v in volumes(pod.pod) for kind in DISKS)
        if not disks and conflicts == 0:
            return SKIP, None
        return SUCCESS, RestrictionState(claims, conflicts)

    def update_state(self, state: Any, other: PodInfo, node: Obj, sign: int) -> None:
        # By the name of the claim alone: a claim of another namespace counts as well.
        state.conflicts += sign * sum(claim_name(v) in state.claims for v in volumes(other.pod))

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        if any(is_volume_conflict(v, other.pod) for v in volumes(pod.pod) for other in node.pods):
            return unschedulable("node(s) had no available disk")
        return unschedulable(RWOP_IN_USE) if state.conflicts > 0 else SUCCESS


class NodeVolumeLimits(Plugin):
    name = "NodeVolumeLimits"

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        for volume in volumes(pod.pod):
            if claim_name(volume) is not None or volume.get("ephemeral") is not None or is_migratable(volume):
                return SUCCESS, None
        return SKIP, None

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        csi_node = self.cluster.csi_nodes.get(node.name)
        new: dict[str, str] = {}
        missing = self._add_attachable(pod.pod, csi_node, new, new_pod=True)
        if missing is not None:
            return missing
        limits = {}
        for driver in spec(csi_node or {}).get("drivers") or []:
            count = (driver.get("allocatable") or {}).get("count")
            if count is not None:
                limits[driver["name"]] = count
        if not new or not limits:
            return SUCCESS
        attached: dict[str, str] = {}
        for other in node.pods:
            failed = self._add_attachable(other.pod, csi_node, attached, new_pod=False)
            if failed is not None:
                return failed
        held = {**attached, **{k: v for k, v in self._attachments(node.name).items() if k not in attached}}
        wanted = [driver for volume, driver in new.items() if volume not in attached]
        for driver in set(wanted):
            in_use = sum(found == driver for found in held.values())
            if driver in limits and in_use + wanted.count(driver) > limits[driver]:
                return unschedulable("node(s) exceed max volume count")
        return SUCCESS

    def _attachments(self, node_name: str) -> dict[str, str]:
        """getNodeVolumeAttachmentInfo: what VolumeAttachments hold, whether or not their pods are still there."""
        found = {}
        for attachment in self.cluster.volume_attachments:
            attacher = spec(attachment).get("attacher")
            source = (spec(attachment).get("source") or {}).get("persistentVolumeName")
            volume = self.cluster.volumes.get(source or "")
            if spec(attachment).get("nodeName") != node_name or not attacher or volume is None:
                continue
            csi = spec(volume).get("csi")
            if csi is not None:
                found[f"{attacher}/{csi.get('volumeHandle', '')}"] = attacher
        return found

    def _add_attachable(
        self, pod: Obj, csi_node: Obj | None, result: dict[str, str], *, new_pod: bool
    ) -> Status | None:
        """filterAttachableVolumes: by volume, its driver. A status where the pod's own claim is missing."""
        for volume in volumes(pod):
            wanted = claim_name(volume)
            ephemeral = wanted is None and volume.get("ephemeral") is not None
            if ephemeral:
                wanted = f"{name(pod)}-{volume.get('name', '')}"
            if wanted is None:
                try:
                    inline = as_csi(volume, {}) if csi_node is not None else None
                except InvalidVolume as e:
                    return Status("Error", (str(e),))
                if inline is not None:
                    result["/".join(inline)] = inline[0]
                continue
            if not wanted:
                return Status("Error", ("PersistentVolumeClaim had no name",))
            claim = self.cluster.claims.get(f"{namespace(pod)}/{wanted}")
            if claim is None:
                if new_pod:
                    text = f'looking up PVC {namespace(pod)}/{wanted}: persistentvolumeclaim "{wanted}" not found'
                    return unresolvable(text)
                continue
            if ephemeral and not is_for_pod(pod, claim):
                return Status("Error", ("pod is not owner",))
            driver, handle = self._driver_of(csi_node, claim)
            if driver and handle:
                result[f"{driver}/{handle}"] = driver
        return None

    def _driver_of(self, csi_node: Obj | None, claim: Obj) -> tuple[str, str]:
        """getCSIDriverInfo."""
        volume = self.cluster.volumes.get(spec(claim).get("volumeName") or "")
        if volume is None:
            return self._driver_of_class(csi_node, claim)
        csi = spec(volume).get("csi")
        if csi is not None:
            return csi.get("driver", ""), csi.get("volumeHandle", "")
        try:
            migrated = as_csi(spec(volume), labels(volume)) if csi_node is not None else None
        except InvalidVolume:
            return "", ""
        return migrated or ("", "")

    def _driver_of_class(self, csi_node: Obj | None, claim: Obj) -> tuple[str, str]:
        """getCSIDriverInfoFromSC: a volume that is not there yet counts under a name of its own."""
        found = self.cluster.storage_classes.get(storage_class_of(claim))
        if not storage_class_of(claim) or found is None:
            return "", ""
        provisioner = found.get("provisioner", "")
        handle = f"random-{namespace(claim)}/{name(claim)}"
        if provisioner in MIGRATED_DRIVERS:
            return (MIGRATED_DRIVERS[provisioner], handle) if csi_node is not None else ("", "")
        if provisioner in ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"):
            return "", ""
        return provisioner, handle


ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)


class VolumeZone(Plugin):
    name = "VolumeZone"

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        topologies: list[tuple[str, set[str]]] = []
        for volume in volumes(pod.pod):
            wanted = claim_name(volume)
            if wanted is None:
                continue
            failed, bound = self._bound_volume(namespace(pod.pod), wanted)
            if failed is not None:
                return failed, None
            if bound is not None:
                topologies += _topologies(bound)
        return (SUCCESS, topologies) if topologies else (SKIP, None)

    def _bound_volume(self, in_namespace: str, wanted: str) -> tuple[Status | None, Obj | None]:
        """The claim's volume, nothing where it waits for its first consumer, or why the pod cannot be scheduled."""
        if not wanted:
            return unresolvable("PersistentVolumeClaim had no name"), None
        claim = self.cluster.claims.get(f"{in_namespace}/{wanted}")
        if claim is None:
            return unresolvable(f'persistentvolumeclaim "{wanted}" not found'), None
        volume_name = spec(claim).get("volumeName") or ""
        if volume_name:
            volume = self.cluster.volumes.get(volume_name)
            if volume is None:
                return unresolvable(f'persistentvolume "{volume_name}" not found'), None
            return None, volume
        class_name = storage_class_of(claim)
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name"), None
        found = self.cluster.storage_classes.get(class_name)
        if found is None:
            return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found'), None
        mode = found.get("volumeBindingMode")
        if mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"'), None
        if mode == "WaitForFirstConsumer":
            return None, None
        return unresolvable("PersistentVolume had no name"), None

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        found = labels(node.node)
        if not any(label in found for label in ZONE_LABELS):
            return SUCCESS
        for label, values in state:
            newer = label.replace("failure-domain.beta.kubernetes.io", "topology.kubernetes.io")
            if found.get(label, found.get(newer)) not in values:
                return unresolvable("node(s) had no available volume zone")
        return SUCCESS


def _topologies(volume: Obj) -> list[tuple[str, set[str]]]:
    """getPVTopologies: several values are joined by two underscores; one that is empty spoils the label."""
    result = []
    for label in ZONE_LABELS:
        value = labels(volume).get(label)
        if value is not None:
            zones = [zone.strip() for zone in value.split("__")]
            if all(zones):
                result.append((label, set(zones)))
    return result
