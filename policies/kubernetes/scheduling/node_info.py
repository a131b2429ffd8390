"""The data of a scheduling Snapshot: NodeInfo, a node with its Pods and their resources; frozen tables of the views
that plugins read; the types of arrays. A docstring gives the meaning of their axes: [node], [resource, node].

Source: kubernetes `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.cow_table import FrozenTable
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from forewarn.policies.kubernetes.objects import devices, storage
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod, PodResource, Service
    from forewarn.policies.kubernetes.objects.pod_group import GroupTemplates, PodGroup
    from forewarn.policies.kubernetes.objects.workload import Workload

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Rows = NDArray[np.intp]
    """Row numbers of nodes, or other indices."""
else:  # importing numpy takes longer than running a command without predictions
    Ints = Mask = Rows = object


_SERIALS: Final = count(1)


class NodeInfo:
    """A node with its Pods. NodeInfos of a Snapshot never change: use a `clone` to add or remove Pods.

    `serial`: unique, so that a cached value belongs to one state of a node. Requests: `milli_cpu` in thousandths,
    others in units. `non_zero_cpu`, `non_zero_memory`: requests with defaults, for scores. `used_ports`: a set as in
    upstream: if two Pods use one port, the removal of one of them frees the port.
    """

    __slots__ = (
        "ephemeral_storage",
        "memory",
        "milli_cpu",
        "node",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "pods_with_required_anti_affinity",
        "scalars",
        "semantics",
        "serial",
        "used_ports",
    )

    def __init__(self, node: Node, pods: Iterable[Pod] = (), semantics: Semantics = DEFAULT) -> None:
        self.node = node
        self.semantics = semantics
        self.serial = next(_SERIALS)
        self.pods: list[Pod] = []
        self.pods_with_required_anti_affinity: list[Pod] = []
        self.milli_cpu = self.memory = self.ephemeral_storage = 0
        self.non_zero_cpu = self.non_zero_memory = 0
        self.scalars: dict[str, int] = {}
        self.used_ports: set[HostPort] = set()
        for pod in pods:
            self.add_pod(pod)

    @property
    def name(self) -> str:
        return self.node.name

    def clone(self) -> NodeInfo:
        """Return a copy that may be changed (upstream `Snapshot`)."""
        copy = NodeInfo.__new__(NodeInfo)
        copy.node, copy.semantics = self.node, self.semantics
        copy.serial = next(_SERIALS)
        copy.pods = self.pods.copy()
        copy.pods_with_required_anti_affinity = self.pods_with_required_anti_affinity.copy()
        copy.milli_cpu, copy.memory, copy.ephemeral_storage = self.milli_cpu, self.memory, self.ephemeral_storage
        copy.non_zero_cpu, copy.non_zero_memory = self.non_zero_cpu, self.non_zero_memory
        copy.scalars = self.scalars.copy()
        copy.used_ports = self.used_ports.copy()
        return copy

    def with_pods(self, pods: Sequence[Pod]) -> NodeInfo:
        """Return a copy with these Pods in this order. Adjusts the resources only by the added and removed Pods."""
        removed = {id(pod): pod for pod in self.pods}
        added = [pod for pod in pods if removed.pop(id(pod), None) is None]
        copy = self.clone()
        copy.pods = list(pods)
        if self.pods_with_required_anti_affinity or any(map(_keeps_others_away, added)):
            copy.pods_with_required_anti_affinity = [*filter(_keeps_others_away, pods)]
        if self.used_ports or any(pod.spec.host_ports for pod in added):
            copy.used_ports = {port for pod in pods for port in pod.spec.host_ports}
        for pod in added:
            copy.count(pod, 1)
        for pod in removed.values():
            copy.count(pod, -1)
        return copy

    def add_pod(self, pod: Pod) -> None:
        """Add a Pod and its resources (upstream `AddPodInfo`)."""
        self.pods.append(pod)
        if _keeps_others_away(pod):
            self.pods_with_required_anti_affinity.append(pod)
        self.count(pod, 1)
        if pod.spec.host_ports:
            self.used_ports.update(pod.spec.host_ports)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a Pod and its resources (upstream `RemovePod`). Raises KeyError if this Pod object is not on the node.

        The last Pod takes the position of the removed one.
        """
        _swap_out(self.pods, pod)
        if _keeps_others_away(pod):
            _swap_out(self.pods_with_required_anti_affinity, pod)
        self.count(pod, -1)
        if pod.spec.host_ports:
            self.used_ports.difference_update(pod.spec.host_ports)

    def end_pods(self, pods: Sequence[Pod]) -> None:
        """Replace Pods of this node with terminating copies at the end of its Pods. Resources do not change."""
        apart = [*filter(_keeps_others_away, pods)]
        ending = {id(pod): pod.as_terminating() for pod in pods}
        for present, those in ((self.pods, pods), (self.pods_with_required_anti_affinity, apart)):
            for pod in those:
                _swap_out(present, pod)
            present += [ending[id(pod)] for pod in those]

    def count(self, pod: Pod, sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) the resources of a Pod."""
        occupies = footprint(pod, self.semantics)
        resource = occupies.resource
        self.milli_cpu += sign * resource.milli_cpu
        self.memory += sign * resource.memory
        self.ephemeral_storage += sign * resource.ephemeral_storage
        self.non_zero_cpu += sign * occupies.non_zero_cpu
        self.non_zero_memory += sign * occupies.non_zero_memory
        for name, amount in resource.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) + sign * amount


def footprint(pod: Pod, semantics: Semantics) -> PodResource:
    return pod.occupies.counted(semantics.counting) if pod.occupies.elsewhere else pod.occupies


_keeps_others_away: Final = attrgetter("spec.pod_affinity.has_required_anti_affinity")


def _swap_out(pods: list[Pod], pod: Pod) -> None:
    for index, present in enumerate(pods):
        if present is pod:
            pods[index] = pods[-1]
            pods.pop()
            return
    raise KeyError(f"{pod.key} is not on the node")


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
