"""Filters by volumes: VolumeRestrictions (disks and claims that Pods cannot share), NodeVolumeLimits (the number of
volumes that a CSI driver can attach) and VolumeZone (the zones of bound volumes).

Source: upstream `plugins/volumerestrictions`, `plugins/nodevolumelimits/csi.go`, `plugins/volumezone/volume_zone.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from forewarn.policies.base.metering import charging, meter
from forewarn.policies.kubernetes.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from forewarn.policies.kubernetes.objects.volumes import PORTWORX, Volume, driver_of_provisioner
from forewarn.policies.kubernetes.scheduling.framework import (
    SKIP,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    Status,
    failed,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason, not_found
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized import pod_matrix
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
    PASSES,
    Constraint,
    NodeFit,
    Present,
    Rejections,
    rejected,
)
from forewarn.policies.kubernetes.selectors import Requirement

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo


ADD_NODES: Final = "add nodes where its volume is available"
ZONE_CONFLICT: Final = unresolvable(
    Reason("node(s) had no available volume zone", "its volume is in another zone", ADD_NODES, of_volumes=True)
)
GA_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Label for a zone or region -> its current name."""


class _Topology(NamedTuple):
    key: str
    values: frozenset[str]


class VolumeZone(Plugin, FilterInColumns):
    """Rejects nodes outside the zones and regions in the labels of the Pod's bound volumes."""

    name: ClassVar[str] = "VolumeZone"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Find the zones and regions of the Pod's volumes. Upstream `PreFilter`."""
        topologies, problem = self._pod_topologies(pod)
        if problem:
            return PreFilterResult(status=unresolvable(problem))
        if not topologies:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = topologies
        return PreFilterResult()

    def in_columns(self, problem: NodeFit) -> None:
        """Add the rejected nodes. Raises NotValid if a claim rejects the Pod before any node is evaluated."""
        topologies, fault = self._pod_topologies(problem.pod)
        if fault:
            raise NotValid("whose PreFilter rejects the pod")
        if not topologies:
            return
        nodes = problem.matrix.nodes
        passing = np.ones(len(problem.possible), np.bool_)
        for key, values in topologies:
            today = GA_LABELS[key]
            in_zone = pod_matrix.with_label(nodes, Requirement(key, "In", values))
            if today != key:
                in_zone |= ~_labelled(nodes, key) & pod_matrix.with_label(nodes, Requirement(today, "In", values))
            passing &= in_zone
        anywhere = np.logical_or.reduce([_labelled(nodes, key) for key in GA_LABELS])
        problem.narrow(self.name, rejected(anywhere & ~passing, ZONE_CONFLICT))

    def _pod_topologies(self, pod: Pod) -> tuple[tuple[_Topology, ...], str]:
        """Return (the zones and regions of the volumes, why they are unknown or ""). Source: upstream `getPVbyPod`."""
        topologies: list[_Topology] = []
        for volume in pod.spec.volumes:
            if volume.claim_name is None:
                continue
            claim = self.snapshot.objects.claims.get((pod.namespace, volume.claim_name))
            problem = self._problem(claim, volume.claim_name)
            if problem:
                return (), problem
            bound = self.snapshot.objects.volumes.get(("", claim.volume_name)) if claim else None
            if bound:
                topologies += _topologies(bound)
        return tuple(topologies), ""

    def _problem(self, claim: PersistentVolumeClaim | None, name: str) -> str | None:
        """Return why the zone of a claim is unknown; None if the zone is known or not needed."""
        if claim is None:
            return not_found("persistentvolumeclaim", name) if name else "PersistentVolumeClaim had no name"
        if claim.volume_name:
            exists = ("", claim.volume_name) in self.snapshot.objects.volumes
            return None if exists else not_found("persistentvolume", claim.volume_name)
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self.snapshot.objects.storage_classes.get(("", claim.storage_class))
        if storage_class is None:
            return not_found("storageclass.storage.k8s.io", claim.storage_class)
        return None if storage_class.delays_binding else "PersistentVolume had no name"

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Reject a node in another zone or region; a node without such labels passes. Upstream `Filter`."""
        if not pod.spec.volumes:
            return None
        topologies = state.data.get(self.name)
        if topologies is None:
            topologies, problem = self._pod_topologies(pod)
            if problem:
                return unresolvable(problem)
        labels = node_info.node.labels
        if not any(label in labels for label in GA_LABELS):
            return None
        is_there = all(labels.get(key, labels.get(GA_LABELS[key])) in values for key, values in topologies)
        return None if is_there else ZONE_CONFLICT


def _labelled(nodes: pod_matrix.NodeTables, key: str) -> Mask:
    return pod_matrix.with_label(nodes, Requirement(key, "Exists"))


def _topologies(volume: PersistentVolume) -> Iterator[_Topology]:
    """Yield the zones and regions of a volume; skips a label with an empty zone. Source: upstream `getPVTopologies`."""
    for key in GA_LABELS:
        if key in volume.labels:
            zones = [zone.strip() for zone in volume.labels[key].split("__")]
            if all(zones):
                yield _Topology(key, frozenset(zones))


DISK_CONFLICT: Final = unschedulable(
    Reason("node(s) had no available disk", "its disk is in use there", of_volumes=True, of_pods=True)
)
CLAIM_CONFLICT: Final = unschedulable(
    Reason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod",
        "its ReadWriteOncePod claim is in use",
        of_volumes=True,
        of_pods=True,
    )
)


@dataclass(slots=True)
class _State:
    """The names of the Pod's ReadWriteOncePod claims, and the number of their uses by Pods on nodes."""

    claims: frozenset[str]
    conflicts: int

    def clone(self) -> _State:
        return _State(self.claims, self.conflicts)

    def update(self, pod: Pod, sign: int) -> None:
        """Add (`sign` 1) or remove (-1) the uses of a Pod."""
        self.conflicts += sign * sum(volume.claim_name in self.claims for volume in pod.spec.volumes)


class VolumeRestrictions(Plugin, FilterInColumns):
    """Rejects nodes where another Pod uses a disk of the Pod, and all nodes while a ReadWriteOncePod claim of the
    Pod is in use.
    """

    name: ClassVar[str] = "VolumeRestrictions"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Find the Pod's ReadWriteOncePod claims and their uses. Upstream `PreFilter`."""
        exclusive, missing = self._exclusive(pod)
        if missing is not None:
            return PreFilterResult(status=unresolvable(not_found("persistentvolumeclaim", missing)))
        conflicts = sum((pod.namespace, name) in self.snapshot.used_claims for name in exclusive)
        if not conflicts and not any(volume.disk for volume in pod.spec.volumes):
            return PreFilterResult(status=SKIP)
        state.data[self.name] = _State(frozenset(exclusive), conflicts)
        return PreFilterResult()

    def _exclusive(self, pod: Pod) -> tuple[set[str], str | None]:
        """Return (names of the Pod's ReadWriteOncePod claims, the name of the first missing claim or None)."""
        exclusive = set()
        for volume in pod.spec.volumes:
            if volume.claim_name is None:
                continue
            claim = self.snapshot.objects.claims.get((pod.namespace, volume.claim_name))
            if claim is None:
                return set(), volume.claim_name
            if claim.is_exclusive:
                exclusive.add(claim.name)
        return exclusive, None

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:  # noqa: ARG002
        state.data[self.name].update(added, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:  # noqa: ARG002
        state.data[self.name].update(removed, -1)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Reject a node with a used disk, or any while a ReadWriteOncePod claim is used. Upstream `Filter`."""
        disks = [volume.disk for volume in charging(pod.spec.volumes, 0.2) if volume.disk]
        if disks:
            for other in node_info.pods:
                for volume in charging(other.spec.volumes, len(disks)):
                    if volume.disk and any(disk.conflicts(volume.disk) for disk in disks):
                        return DISK_CONFLICT
        state_data: _State | None = state.data.get(self.name)
        if state_data is None:
            return failed('cannot read "PreFilterVolumeRestrictions" from cycleState')
        return CLAIM_CONFLICT if state_data.conflicts > 0 else None

    def in_columns(self, problem: NodeFit) -> None:
        """Add constraints for disks and ReadWriteOncePod claims to `problem`.

        Raises NotValid if a claim is missing, which rejects the Pod before any node is evaluated.
        """
        pod, matrix = problem.pod, problem.matrix
        exclusive, missing = self._exclusive(pod)
        if missing is not None:
            raise NotValid("whose PreFilter rejects the pod")
        disks = [volume.disk for volume in pod.spec.volumes if volume.disk]
        if not exclusive and not disks:
            return
        users = pod_matrix.storage_of(matrix, problem.snapshot).users(matrix)
        conflicts = users.used_claims(matrix, pod.namespace, exclusive)
        if not conflicts and not disks:
            return
        everywhere, none = np.ones(len(problem.possible), np.bool_), np.zeros(len(problem.possible), np.int64)
        with_disks, with_claims = users.with_disks(matrix, disks), users.claim_counts(matrix, exclusive)
        if not with_disks.any() and not with_claims.any():
            return
        present = matrix.present(with_disks)
        problem.add(Constraint(with_disks, everywhere, np.flatnonzero(present), present, none))
        # The Pods that use the claims in the cluster, without those on the node.
        counts = np.flatnonzero(matrix.present(with_claims))
        problem.add(Constraint(with_claims, everywhere, counts, none + conflicts, none))

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield the nodes rejected for disks, then those rejected for claims."""
        for demand, status in zip(problem.added[self.name], (DISK_CONFLICT, CLAIM_CONFLICT), strict=False):
            yield rejected(amounts.exceeded(demand), status)


REASON: Final = unschedulable(
    Reason("node(s) exceed max volume count", "volume limit reached", of_volumes=True, of_pods=True)
)

Attached = dict[tuple[str, str], str]
"""(driver, volume handle) -> driver."""


class _Rejected(Exception):
    """The error for a Pod whose own volumes cause a rejection or an error (`status`)."""

    def __init__(self, status: Status) -> None:
        self.status = status


class NodeVolumeLimits(Plugin, FilterInColumns):
    """Rejects nodes on which the Pod's volumes exceed the limit of a CSI driver.

    VolumeAttachments count, too, also those of terminating Pods. So preemption usually cannot help.
    """

    name: ClassVar[str] = "NodeVolumeLimits"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Skip Pods without claims, ephemeral volumes and volumes of migrated in-tree plugins. Upstream `PreFilter`."""
        counted = any(v.claim_name is not None or v.ephemeral or v.migrated for v in pod.spec.volumes)
        return PreFilterResult(status=None if counted else SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node without a required driver, or with too many volumes. Upstream `Filter`."""
        csi_node = self.snapshot.objects.csi_nodes.get(("", node_info.name))
        try:
            new = self._attachable(pod, csi_node, new_pod=True)
            if self.semantics.missing_drivers_reject:
                self._check_drivers(new, csi_node)
            limits = csi_node.limits if csi_node else {}
            if not new or not limits:
                return None
            attached = self._attached(node_info.pods, csi_node)
        except _Rejected as rejected:
            return rejected.status
        return REASON if _full(limits, new, attached, self._attachments(node_info.name)) else None

    def in_columns(self, problem: NodeFit) -> None:
        """Add the rejected nodes to `problem`.

        For nodes near their limit, the plugin runs on the node, with and without lower-priority Pods. Raises NotValid
        for unknown volumes, or if upstream may return an error.
        """
        if not any(v.claim_name is not None or v.ephemeral or v.migrated for v in problem.pod.spec.volumes):
            return
        storage = pod_matrix.storage_of(problem.matrix, problem.snapshot)
        with_csi, without = self._new_on_any_node(problem.pod)
        codes, statuses = self._without_driver(storage, with_csi, without)
        if with_csi and storage.limited.any():
            self._check_others(problem, storage)
            codes[self._full_for_good(problem, storage, with_csi) & (codes < 0)] = 0
        problem.narrow(self.name, Rejections(codes, statuses))

    def volume_room(self, pod: Pod, storage: pod_matrix.StorageColumns) -> Ints:
        """Return [node]: how many volumes other Pods may use while the plugin certainly does not reject the Pod; -1 if
        it rejects the Pod anyway. Raises NotValid for unknown volumes.
        """
        with_csi, without = self._new_on_any_node(pod)
        codes, _ = self._without_driver(storage, with_csi, without)
        return np.where(codes == PASSES, self._room(storage, with_csi), -1)

    def _without_driver(self, storage: pod_matrix.StorageColumns, with_csi: Attached, without: Attached) -> Rejections:
        """Return the rejections of nodes where a required CSI driver is missing. The first status is REASON, without
        nodes. `with_csi`, `without`: see `_new_on_any_node`.
        """
        has_csi_node = storage.has_csi_node
        codes = np.full(len(has_csi_node), PASSES, np.int64)
        statuses = [REASON]
        if self.semantics.missing_drivers_reject:
            for new, here in (with_csi, has_csi_node), (without, ~has_csi_node):
                for driver in filter(self._needs_driver, dict.fromkeys(new.values())):
                    codes[here & ~storage.installed(driver) & (codes < 0)] = len(statuses)
                    statuses.append(_missing(driver))
        return Rejections(codes, statuses)

    def _room(self, storage: pod_matrix.StorageColumns, new: Attached) -> Ints:
        """Return [node]: how many volumes Pods on the node may use before the new volumes may exceed a limit."""
        room = np.full(len(storage.limited), pod_matrix.NO_LIMIT)
        for driver, count in Counter(new.values()).items():
            np.minimum(room, storage.limit(driver) - storage.attached(self.snapshot, driver) - count, out=room)
        return room

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield the rejected nodes. Raises NotValid if lower-priority Pods decide whether a limit is exceeded."""
        if problem.undecided.any():
            raise NotValid
        yield from super().rejections_in_columns(problem, amounts)

    def _new_on_any_node(self, pod: Pod) -> tuple[Attached, Attached]:
        """Return the attachments that the Pod needs on a node with a CSINode, and those on a node without one.

        Raises NotValid if the attachments depend on annotations of the CSINode, or if a volume is unknown.
        """
        try:
            without = self._attachable(pod, None, new_pod=True)
            plain, annotated = (
                self._attachable(pod, CSINode("", {}, frozenset(plugins)), new_pod=True)
                for plugins in ((), (PORTWORX,))
            )
        except _Rejected:
            raise NotValid("as a volume of the pod is not known") from None
        if plain != annotated:
            raise NotValid("as Portworx volumes are a CSI driver's on some nodes only")
        return plain, without

    def _check_others(self, problem: NodeFit, storage: pod_matrix.StorageColumns) -> None:
        """Raise NotValid if upstream may return an error for the volumes of a Pod on a node or of a nominated Pod."""
        matrix = problem.matrix
        users = storage.users(matrix)
        suspects = [*users.faulty, *users.ephemeral]
        if not suspects:
            return
        per_kind = np.zeros(len(matrix.kinds), np.int64)
        per_kind[suspects] = 1
        if (problem.nominated_sums(per_kind) > 0).any():
            raise NotValid("as a nominated pod has a volume of its own")
        per_kind[users.faulty] = pod_matrix.MANY
        counted = matrix.present(per_kind)
        if (counted[storage.limited] >= pod_matrix.MANY).any():
            raise NotValid("as a volume of another pod is not known")
        work = meter()
        for row in np.flatnonzero(storage.limited & (counted > 0)).tolist():
            for other in problem.snapshot.node_infos[row].pods:
                work.charge(1 + len(other.spec.volumes))
                for volume in other.spec.volumes:
                    claim = volume.ephemeral and self._claim(other, volume)
                    if claim and claim.owner_uid != other.uid:
                        raise NotValid("as a claim was made for another pod")

    def _claim(self, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
        return self.snapshot.objects.claims.get((pod.namespace, volume.claim_of(pod.name) or ""))

    def _full_for_good(self, problem: NodeFit, storage: pod_matrix.StorageColumns, new: Attached) -> Mask:
        """Return [node], bool: whether the node has too many volumes even without lower-priority Pods.

        Adds to `problem` a constraint for nodes that have too many volumes only because of lower-priority Pods, and
        marks nodes as undecided where only some of these Pods matter. Raises NotValid.
        """
        matrix, infos = problem.matrix, problem.snapshot.node_infos
        nominated = problem.nominated_sums(pod_matrix.volumes_of_kinds(matrix))
        used = storage.used(matrix) + nominated
        near = used > self._room(storage, new)
        for_good, full = np.zeros(len(used), np.bool_), np.zeros(len(used), np.int64)
        near &= problem.open & storage.limited
        undecided, work = problem.undecided.copy(), meter()
        for row in np.flatnonzero(near).tolist():
            work.charge(30 + 3 * len(infos[row].pods))
            csi_node = storage.csi_nodes[row]
            if nominated[row] or csi_node is None:
                raise NotValid("as volumes of nominated pods count on a node that is near its limit")
            now, emptied, upset = self._with_and_without_lower(problem.pod, new, infos[row], csi_node)
            for_good[row] = now and emptied
            full[row] = now and not emptied
            undecided[row] = upset or full[row]
        problem.undecided = undecided
        if full.any():
            nobody, everywhere = np.zeros(0, np.intp), np.ones(len(used), np.bool_)
            per_kind, none = np.zeros(len(matrix.kinds), np.int64), np.zeros(len(used), np.int64)
            problem.add(Constraint(per_kind, everywhere, nobody, full, none))
        return for_good

    def _with_and_without_lower(
        self, pod: Pod, new: Attached, node_info: NodeInfo, csi_node: CSINode
    ) -> tuple[bool, bool, bool]:
        """Return whether the limit of a node is exceeded: (with all Pods, without lower-priority Pods, maybe without
        some of these Pods).

        The third is True if a lower-priority Pod uses a volume of the new Pod. Raises NotValid for unknown volumes.
        """
        limits, attachments = csi_node.limits, self._attachments(node_info.name)
        staying = [other for other in node_info.pods if other.effective_priority >= pod.effective_priority]
        try:
            every, rest = (self._attached(pods, csi_node) for pods in (node_info.pods, staying))
        except _Rejected:
            raise NotValid("as a volume of another pod is not known") from None
        now, emptied = (_full(limits, new, attached, attachments) for attached in (every, rest))
        most = _exceeded(limits, Counter((every | attachments).values()), Counter(new.values()))
        return now, emptied, not now and most and any(volume in every and volume not in rest for volume in new)

    def _attached(self, pods: Iterable[Pod], csi_node: CSINode | None) -> Attached:
        attached: Attached = {}
        for other in pods:
            if other.spec.volumes:
                attached.update(self._attachable(other, csi_node, new_pod=False))
        return attached

    def _needs_driver(self, name: str) -> bool:
        """Report whether the plugin rejects nodes on which the CSI driver `name` is missing."""
        driver = self.snapshot.objects.csi_drivers.get(("", name))
        return driver is not None and (driver.prevents_scheduling_if_missing or not self.semantics.drivers_opt_in)

    def _check_drivers(self, new: Attached, csi_node: CSINode | None) -> None:
        """Raise _Rejected for the first missing CSI driver; upstream reports any. Source: `checkCSIDriverOnNode`."""
        for name in dict.fromkeys(new.values()):
            if self._needs_driver(name) and (csi_node is None or name not in csi_node.drivers):
                raise _Rejected(_missing(name))

    def _attachable(self, pod: Pod, csi_node: CSINode | None, *, new_pod: bool) -> Attached:
        """Return the volumes of a Pod that need an attachment. Raises _Rejected. Upstream `filterAttachableVolumes`.

        `new_pod`: whether this is the Pod to schedule, for which a missing claim is an error.
        """
        attached: Attached = {}
        for volume in charging(pod.spec.volumes, 2):
            name = volume.claim_of(pod.name)
            if name is None:
                # An inline volume of a kind that was migrated to a CSI driver.
                if volume.migrated and self._migration_on(volume.migrated.plugin, csi_node):
                    if not volume.migrated.handle:
                        raise _Rejected(failed(f"converting volume({volume.name}) from inline to csi"))
                    attached[volume.migrated.driver, volume.migrated.handle] = volume.migrated.driver
                continue
            if not name:
                raise _Rejected(failed("PersistentVolumeClaim had no name"))
            claim = self.snapshot.objects.claims.get((pod.namespace, name))
            if claim is None:
                if new_pod:
                    context = f"looking up PVC {pod.namespace}/{name}: "
                    raise _Rejected(unresolvable(not_found("persistentvolumeclaim", name, context)))
                continue
            if volume.ephemeral and claim.owner_uid != pod.uid:
                raise _Rejected(failed(not_created_for(claim, pod)))
            volume_id = self._csi_volume(claim, csi_node)
            if volume_id and all(volume_id):
                attached[volume_id] = volume_id[0]
        return attached

    def _csi_volume(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> tuple[str, str] | None:
        """Return (CSI driver, volume handle) of a claim; None if the volume needs no CSI driver.

        Source: upstream `getCSIDriverInfo`, `getCSIDriverInfoFromSC`.
        """
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
        """Report whether an in-tree plugin is migrated to CSI on a node. Upstream `isCSIMigrationOn`."""
        if csi_node is None:
            return False
        asks = plugin == PORTWORX and self.semantics.portworx_needs_the_annotation
        return not asks or plugin in csi_node.migrated_plugins

    def _attachments(self, node_name: str) -> Attached:
        """Return the volumes that are attached to a node. Upstream `getNodeVolumeAttachmentInfo`."""
        attached: Attached = {}
        for attachment in self.snapshot.attachments.get(node_name, ()):
            volume = self.snapshot.objects.volumes.get(("", attachment.volume_name))
            if attachment.attacher and volume is not None and volume.csi is not None:
                attached[attachment.attacher, volume.csi[1]] = attachment.attacher
        return attached


def not_created_for(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return the error for the claim of another Pod's ephemeral volume. Source: component-helpers `VolumeIsForPod`."""
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.key} (pod is not owner)"


def _missing(driver: str) -> Status:
    return unschedulable(f"{driver} CSI driver is not installed on the node")


def _full(limits: Mapping[str, int], new: Attached, attached: Attached, attachments: Attached) -> bool:
    """Report whether the new volumes exceed a limit. `limits`: driver -> maximum number of volumes.

    `attached`: volumes that Pods of the node use; new volumes among these are not counted again. `attachments`: volumes
    that are attached to the node; new volumes among these are counted again, as in upstream.
    """
    wanted = Counter(driver for volume, driver in new.items() if volume not in attached)
    return _exceeded(limits, Counter((attached | attachments).values()), wanted)


def _exceeded(limits: Mapping[str, int], current: Counter[str], wanted: Counter[str]) -> bool:
    return any(driver in limits and current[driver] + count > limits[driver] for driver, count in wanted.items())
