"""VolumeRestrictions: disks and claims that Pods cannot share. Source: upstream `plugins/volumerestrictions`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.base.metering import charging
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
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
    Constraint,
    NodeFit,
    Present,
    Rejections,
    rejected,
)
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import storage_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

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
        users = storage_of(matrix, problem.snapshot).users(matrix)
        conflicts = users.in_use(matrix, pod.namespace, exclusive)
        if not conflicts and not disks:
            return
        everywhere, none = np.ones(len(problem.possible), np.bool_), np.zeros(len(problem.possible), np.int64)
        with_disks, with_claims = users.with_disks(matrix, disks), users.of_claims(matrix, exclusive)
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
