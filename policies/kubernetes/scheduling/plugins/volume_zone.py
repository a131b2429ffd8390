"""VolumeZone: the zones of bound volumes. Source: upstream `plugins/volumezone/volume_zone.go`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from forewarn.policies.kubernetes.scheduling.framework import (
    SKIP,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    Status,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason, not_found
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import NodeFit, rejected
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import NodeTables, with_label
from forewarn.policies.kubernetes.selectors import Requirement

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.kubernetes.scheduling.arrays import Mask
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

ADD_NODES: Final = "add nodes where its volume is available"
REASON: Final = unresolvable(
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
        topologies, problem = self._of_pod(pod)
        if problem:
            return PreFilterResult(status=unresolvable(problem))
        if not topologies:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = topologies
        return PreFilterResult()

    def in_columns(self, problem: NodeFit) -> None:
        """Add the rejected nodes. Raises NotValid if a claim rejects the Pod before any node is evaluated."""
        topologies, fault = self._of_pod(problem.pod)
        if fault:
            raise NotValid("whose PreFilter rejects the pod")
        if not topologies:
            return
        nodes = problem.matrix.nodes
        passing = np.ones(len(problem.possible), np.bool_)
        for key, values in topologies:
            today = GA_LABELS[key]
            in_zone = with_label(nodes, Requirement(key, "In", values))
            if today != key:
                in_zone |= ~_labelled(nodes, key) & with_label(nodes, Requirement(today, "In", values))
            passing &= in_zone
        anywhere = np.logical_or.reduce([_labelled(nodes, key) for key in GA_LABELS])
        problem.narrow(self.name, rejected(anywhere & ~passing, REASON))

    def _of_pod(self, pod: Pod) -> tuple[tuple[_Topology, ...], str]:
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
            topologies, problem = self._of_pod(pod)
            if problem:
                return unresolvable(problem)
        labels = node_info.node.labels
        if not any(label in labels for label in GA_LABELS):
            return None
        is_there = all(labels.get(key, labels.get(GA_LABELS[key])) in values for key, values in topologies)
        return None if is_there else REASON


def _labelled(nodes: NodeTables, key: str) -> Mask:
    return with_label(nodes, Requirement(key, "Exists"))


def _topologies(volume: PersistentVolume) -> Iterator[_Topology]:
    """Yield the zones and regions of a volume; skips a label with an empty zone. Source: upstream `getPVTopologies`."""
    for key in GA_LABELS:
        if key in volume.labels:
            zones = [zone.strip() for zone in volume.labels[key].split("__")]
            if all(zones):
                yield _Topology(key, frozenset(zones))
