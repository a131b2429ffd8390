"""NodeVolumeLimits: how many volumes a CSI driver can attach. Source: upstream `plugins/nodevolumelimits/csi.go`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from policies.metering import each
from policies.objects.csi_migration import PORTWORX, driver_of_provisioner
from policies.scheduling.framework import (
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    Status,
    failed,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.objects.pod import Pod
    from policies.objects.pod_spec import PodSpec
    from policies.objects.storage import CSINode, PersistentVolumeClaim
    from policies.scheduling.node_info import NodeInfo

REASON: Final = unschedulable("node(s) exceed max volume count")

Attached = dict[tuple[str, str], str]
"""(driver, handle) -> driver."""


class _Rejected(Exception):
    """The pod's own volumes say no."""

    def __init__(self, status: Status) -> None:
        self.status = status


class NodeVolumeLimits(Plugin):
    """Rejects nodes whose drivers cannot attach the pod's volumes as well.

    VolumeAttachments count too: that of a pod that goes stays counted, so that preemption mostly cannot help.
    """

    name: ClassVar[str] = "NodeVolumeLimits"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Upstream `PreFilter`."""
        counted = any(v.claim_name is not None or v.ephemeral or v.migrated for v in pod.spec.volumes)
        return PreFilterResult(status=None if counted else SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        csi_node = self.snapshot.objects.csi_nodes.get(("", node_info.name))
        try:
            new = self._attachable(pod, csi_node, new_pod=True)
            if self.semantics.missing_drivers_reject:
                self._check_drivers(new, csi_node)
            limits = csi_node.limits if csi_node else {}
            if not new or not limits:
                return None
            attached: Attached = {}
            for other in node_info.pods:
                if other.spec.volumes:
                    attached.update(self._attachable(other, csi_node, new_pod=False))
        except _Rejected as rejected:
            return rejected.status
        current = Counter((attached | self._attachments(node_info.name)).values())
        wanted = Counter(driver for volume, driver in new.items() if volume not in attached)
        return REASON if _exceeded(limits, current, wanted) else None

    @staticmethod
    def beyond_columns(spec: PodSpec) -> bool:
        """Columns are for pods without volumes that are attached."""
        return any(v.claim_name is not None or v.ephemeral or v.migrated for v in spec.volumes)

    def _check_drivers(self, new: Attached, csi_node: CSINode | None) -> None:
        """Upstream `checkCSIDriverOnNode`; of several missing ones upstream names any."""
        for name in dict.fromkeys(new.values()):
            driver = self.snapshot.objects.csi_drivers.get(("", name))
            installed = csi_node is not None and name in csi_node.drivers
            asks = driver is not None and (driver.prevents_scheduling_if_missing or not self.semantics.drivers_opt_in)
            if asks and not installed:
                raise _Rejected(unschedulable(f"{name} CSI driver is not installed on the node"))

    def _attachable(self, pod: Pod, csi_node: CSINode | None, *, new_pod: bool) -> Attached:
        """Upstream `filterAttachableVolumes`."""
        found: Attached = {}
        for volume in each(pod.spec.volumes, 2):
            name = volume.claim_of(pod.name)
            if name is None:
                # An inline volume of a kind that has become a CSI driver's.
                if volume.migrated and self._migration_on(volume.migrated.plugin, csi_node):
                    if not volume.migrated.handle:
                        raise _Rejected(failed(f"converting volume({volume.name}) from inline to csi"))
                    found[volume.migrated.driver, volume.migrated.handle] = volume.migrated.driver
                continue
            if not name:
                raise _Rejected(failed("PersistentVolumeClaim had no name"))
            claim = self.snapshot.objects.claims.get((pod.namespace, name))
            if claim is None:
                if new_pod:
                    text = f'looking up PVC {pod.namespace}/{name}: persistentvolumeclaim "{name}" not found'
                    raise _Rejected(unresolvable(text))
                continue
            if volume.ephemeral and claim.owner_uid != pod.uid:
                raise _Rejected(failed(not_created_for(claim, pod)))
            volume_id = self._csi_volume(claim, csi_node)
            if volume_id and all(volume_id):
                found[volume_id] = volume_id[0]
        return found

    def _csi_volume(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> tuple[str, str] | None:
        """(driver, handle) of a claim. Source: upstream `getCSIDriverInfo`, `getCSIDriverInfoFromSC`."""
        volume = self.snapshot.objects.volumes.get(("", claim.volume_name))
        if volume is not None:
            if volume.csi is None and volume.migrated and self._migration_on(volume.migrated.plugin, csi_node):
                return volume.migrated.driver, volume.migrated.handle
            return volume.csi
        storage_class = self.snapshot.objects.storage_classes.get(("", claim.storage_class))
        if storage_class is None:
            return None
        driver = driver_of_provisioner(storage_class.provisioner)
        if driver is None:
            driver = storage_class.provisioner
        elif not self._migration_on(storage_class.provisioner, csi_node):
            return None
        return driver, f"unbound/{claim.namespace}/{claim.name}"

    def _migration_on(self, plugin: str, csi_node: CSINode | None) -> bool:
        """Upstream `isCSIMigrationOn`."""
        if csi_node is None:
            return False
        asks = plugin == PORTWORX and self.semantics.portworx_needs_the_annotation
        return not asks or plugin in csi_node.migrated_plugins

    def _attachments(self, node_name: str) -> Attached:
        """Upstream `getNodeVolumeAttachmentInfo`."""
        found: Attached = {}
        for attachment in self.snapshot.attachments.get(node_name, ()):
            volume = self.snapshot.objects.volumes.get(("", attachment.volume_name))
            if attachment.attacher and volume is not None and volume.csi is not None:
                found[attachment.attacher, volume.csi[1]] = attachment.attacher
        return found


def not_created_for(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Source: component-helpers `VolumeIsForPod`."""
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.key} (pod is not owner)"


def _exceeded(limits: Mapping[str, int], current: Counter[str], wanted: Counter[str]) -> bool:
    return any(driver in limits and current[driver] + count > limits[driver] for driver, count in wanted.items())
