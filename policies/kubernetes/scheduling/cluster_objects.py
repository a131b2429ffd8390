"""The objects of a scheduling Snapshot: frozen tables of the views that plugins read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarn.policies.base.cow_table import FrozenTable
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects import devices, storage
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod, Service
    from forewarn.policies.kubernetes.objects.pod_group import GroupTemplates, PodGroup
    from forewarn.policies.kubernetes.objects.workload import Workload

Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped kinds."""


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """Tables of API objects by (namespace, name). `pods_by_node`, `nominated`: by node name; Pods in order of arrival.

    `semantics`: behaviour of the cluster's release. `devices_known`: whether the tables contain all DRA objects; None:
    yes if any of these tables has objects. `grouped_pods`: Pods of PodGroups that have not terminated. `unlisted`:
    `group/Kind`s of tables that are empty because the objects were not listed. `pods_on_unknown_nodes`: node name ->
    number of Pods on a node that was not listed. `omitted`: the number of namespaced objects that are too large for
    memory. `counted_quotas`: the number of ResourceQuotas without complete status, which have the usage of the stored
    Pods. `counted_pdbs`: the number of PDBs without status, which allow as many disruptions as the stored Pods permit.
    """

    nodes: Mapping[Key, Node] = field(default_factory=FrozenTable)
    pods_by_node: Mapping[str, tuple[Pod, ...]] = field(default_factory=FrozenTable)
    nominated: Mapping[str, tuple[Pod, ...]] = field(default_factory=FrozenTable)
    namespaces: Mapping[Key, Namespace] = field(default_factory=FrozenTable)
    pdbs: Mapping[Key, PodDisruptionBudget] = field(default_factory=FrozenTable)
    claims: Mapping[Key, storage.PersistentVolumeClaim] = field(default_factory=FrozenTable)
    volumes: Mapping[Key, storage.PersistentVolume] = field(default_factory=FrozenTable)
    storage_classes: Mapping[Key, storage.StorageClass] = field(default_factory=FrozenTable)
    csi_nodes: Mapping[Key, storage.CSINode] = field(default_factory=FrozenTable)
    csi_drivers: Mapping[Key, storage.CSIDriver] = field(default_factory=FrozenTable)
    storage_capacities: Mapping[Key, storage.CSIStorageCapacity] = field(default_factory=FrozenTable)
    attachments: Mapping[Key, storage.VolumeAttachment] = field(default_factory=FrozenTable)
    services: Mapping[Key, Service] = field(default_factory=FrozenTable)
    workloads: Mapping[tuple[str, str, str], Workload] = field(default_factory=FrozenTable)
    resource_claims: Mapping[Key, devices.ResourceClaim] = field(default_factory=FrozenTable)
    claim_templates: Mapping[Key, devices.ResourceClaimTemplate] = field(default_factory=FrozenTable)
    device_classes: Mapping[Key, devices.DeviceClass] = field(default_factory=FrozenTable)
    resource_slices: Mapping[Key, devices.ResourceSlice] = field(default_factory=FrozenTable)
    device_taint_rules: Mapping[Key, devices.DeviceTaintRule] = field(default_factory=FrozenTable)
    pod_groups: Mapping[Key, PodGroup] = field(default_factory=FrozenTable)
    group_templates: Mapping[Key, GroupTemplates] = field(default_factory=FrozenTable)
    grouped_pods: Mapping[Key, Pod] = field(default_factory=FrozenTable)
    unlisted: frozenset[str] = frozenset()
    pods_on_unknown_nodes: Mapping[str, int] = field(default_factory=dict)
    omitted: int = 0
    counted_quotas: int = 0
    counted_pdbs: int = 0
    semantics: Semantics = DEFAULT
    devices_known: bool | None = None

    @property
    def has_pod_groups(self) -> bool:
        """Whether PodGroups are scheduled as units: by the feature gate, else if PodGroups or their Pods exist."""
        given = self.semantics.pods_are_grouped
        return bool(self.pod_groups or self.grouped_pods) if given is None else given
