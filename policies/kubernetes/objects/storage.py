"""PersistentVolumes, claims, StorageClasses and objects of CSI drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    at,
    int32,
    items,
    mapping,
    string_map,
    strings,
    text,
    within,
)
from forewarn.policies.kubernetes.objects.node import NodeSelector, read_node_selector
from forewarn.policies.kubernetes.objects.pod import Owner
from forewarn.policies.kubernetes.objects.resources import read_resource_list
from forewarn.policies.kubernetes.objects.view import CREATED, NAME, NAMESPACE, View, by
from forewarn.policies.kubernetes.objects.volumes import MigratedVolume, migrated_volume, translated_topology
from forewarn.policies.kubernetes.selectors import LabelSelector, selector_or_error

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Annotations of the default StorageClass."""
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
VOLUME_MODE: Final = by(text, "spec", "volumeMode", default="Filesystem")
DELETING: Final = by(lambda obj: at(obj, "metadata", "deletionTimestamp") is not None)
_SELECTOR: Final = ("spec", "selector")
_Topology = tuple[tuple[str, frozenset[str]], ...]


def _reference(obj: ApiObject) -> tuple[str, str, str] | None:
    if at(obj, "spec", "claimRef") is None:
        return None
    namespace, name, uid = (text(obj, "spec", "claimRef", key) for key in ("namespace", "name", "uid"))
    return namespace, name, uid


def _csi(obj: ApiObject) -> tuple[str, str] | None:
    if at(obj, "spec", "csi") is None:
        return None
    return text(obj, "spec", "csi", "driver"), text(obj, "spec", "csi", "volumeHandle")


def _annotation(obj: ApiObject, name: str) -> str | None:
    return string_map(obj, "metadata", "annotations").get(name)


def _storage_class(obj: ApiObject) -> str:
    of_beta, own = _annotation(obj, BETA_STORAGE_CLASS), text(obj, "spec", "storageClassName")
    return own if of_beta is None else of_beta


def _size(obj: ApiObject, *path: str) -> int | None:
    return read_resource_list(obj, *path).get("storage")


def _has_any(obj: ApiObject, *fields: str) -> bool:
    return any(at(obj, "spec", field) is not None for field in fields)


def _affinity(obj: ApiObject, *path: str) -> NodeSelector | None:
    with within(obj, *path):
        return None if at(obj, *path) is None else read_node_selector(obj, *path)


def _migrated(obj: ApiObject) -> MigratedVolume | None:
    return migrated_volume(mapping(obj, "spec"), string_map(obj, "metadata", "labels"))


def _topologies(obj: ApiObject) -> tuple[_Topology, ...]:
    with within(obj, "allowedTopologies"):
        return tuple(
            tuple((text(e, "key"), frozenset(strings(e, "values"))) for e in items(term, "matchLabelExpressions"))
            for term in items(obj, "allowedTopologies")
        )


def _is_default(obj: ApiObject) -> bool:
    return any(_annotation(obj, name) == "true" for name in DEFAULT_CLASS)


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim(View):
    """A stored PersistentVolumeClaim. `request`: size in billionths of a byte; None if absent.

    `selected_node`: None until kube-scheduler has selected a node. `attributes_class`: its VolumeAttributesClass.
    """

    namespace: str = field(metadata=NAMESPACE)
    name: str = field(metadata=NAME)
    uid: str = field(default="", metadata=by(text, "metadata", "uid"))
    volume_name: str = field(default="", metadata=by(text, "spec", "volumeName"))
    storage_class: str = field(default="", metadata=by(_storage_class))
    access_modes: tuple[str, ...] = field(default=(), metadata=by(strings, "spec", "accessModes"))
    request: int | None = field(default=None, metadata=by(_size, "spec", "resources", "requests"))
    phase: str = field(default="", metadata=by(text, "status", "phase"))
    bind_completed: bool = field(default=False, metadata=by(lambda obj: _annotation(obj, BIND_COMPLETED) is not None))
    selected_node: str | None = field(default=None, metadata=by(lambda obj: _annotation(obj, SELECTED_NODE)))
    deleting: bool = field(default=False, metadata=DELETING)
    selector: LabelSelector | None = field(
        default=None, metadata=by(lambda obj: selector_or_error(at(obj, *_SELECTOR))[0])
    )
    selector_error: str = field(default="", metadata=by(lambda obj: selector_or_error(at(obj, *_SELECTOR))[1]))
    volume_mode: str = field(default="Filesystem", metadata=VOLUME_MODE)
    attributes_class: str = field(default="", metadata=by(text, "spec", "volumeAttributesClassName"))
    owner: Owner | None = field(default=None, metadata=by(Owner.from_api))
    """The controller of the claim: the Pod of an ephemeral volume, or the deleter according to a retention policy."""
    has_data_source: bool = field(default=False, metadata=by(_has_any, "dataSource", "dataSourceRef"))

    @property
    def key(self) -> tuple[str, str]:
        """The (namespace, name) of the claim."""
        return self.namespace, self.name

    @property
    def owner_uid(self) -> str:
        """The UID of the claim's controller; "" without one."""
        return "" if self.owner is None else self.owner.uid

    @property
    def fully_bound(self) -> bool:
        """Whether the claim is completely bound. Source: upstream `isPVCFullyBound`."""
        return bool(self.volume_name) and self.bind_completed

    @property
    def is_exclusive(self) -> bool:
        """Whether only one Pod may use the claim."""
        return "ReadWriteOncePod" in self.access_modes


@dataclass(frozen=True, slots=True)
class PersistentVolume(View):
    """A stored PersistentVolume. `capacity`: in billionths of a byte. `csi`: (driver, handle), or None.

    `claim`: (namespace, name, uid) of the claim for which the volume is reserved, or None.
    """

    name: str = field(metadata=NAME)
    labels: Mapping[str, str] = field(default_factory=dict, metadata=by(string_map, "metadata", "labels"))
    capacity: int = field(default=0, metadata=by(lambda obj: _size(obj, "spec", "capacity") or 0))
    access_modes: tuple[str, ...] = field(default=(), metadata=by(strings, "spec", "accessModes"))
    claim: tuple[str, str, str] | None = field(default=None, metadata=by(_reference))
    storage_class: str = field(default="", metadata=by(_storage_class))
    node_affinity: NodeSelector | None = field(default=None, metadata=by(_affinity, "spec", "nodeAffinity", "required"))
    phase: str = field(default="", metadata=by(text, "status", "phase"))
    volume_mode: str = field(default="Filesystem", metadata=VOLUME_MODE)
    attributes_class: str = field(default="", metadata=by(text, "spec", "volumeAttributesClassName"))
    deleting: bool = field(default=False, metadata=DELETING)
    csi: tuple[str, str] | None = field(default=None, metadata=by(_csi))
    migrated: MigratedVolume | None = field(default=None, metadata=by(_migrated))
    local: bool = field(default=False, metadata=by(_has_any, "local", "hostPath"))
    """Whether the source is local or hostPath, so that the volume exists only on one node."""

    def bound_to(self, claim: PersistentVolumeClaim) -> bool:
        """Report whether the volume is reserved for this claim. Source: component-helpers `IsVolumeBoundToClaim`."""
        if self.claim is None or self.claim[:2] != (claim.namespace, claim.name):
            return False
        return not self.claim[2] or self.claim[2] == claim.uid

    def reachable_from(self, labels: Mapping[str, str], migrated_plugins: frozenset[str] = frozenset()) -> bool:
        """Report whether a node with these labels can mount the volume. Source: component-helpers `CheckNodeAffinity`.

        `migrated_plugins`: in-tree plugins whose volumes the CSI driver handles on this node.
        """
        affinity = self.node_affinity
        if self.migrated and self.migrated.plugin in migrated_plugins:
            affinity = translated_topology(affinity, self.labels, self.migrated)
        return affinity is None or affinity.matches(labels, "")


@dataclass(frozen=True, slots=True)
class StorageClass(View):
    """A stored StorageClass. `allowed_topologies`: terms of (label, values); empty: all nodes.

    `created`: in seconds since 1970.
    """

    name: str = field(metadata=NAME)
    provisioner: str = field(default="", metadata=by(text, "provisioner"))
    binding_mode: str | None = field(default=None, metadata=by(text, "volumeBindingMode", default="Immediate"))
    allowed_topologies: tuple[_Topology, ...] = field(default=(), metadata=by(_topologies))
    is_default: bool = field(default=False, metadata=by(_is_default))
    created: int = field(default=0, metadata=CREATED)

    @property
    def delays_binding(self) -> bool:
        """Whether claims wait until kube-scheduler selects a node. Source: component-helpers `IsDelayBindingMode`."""
        return self.binding_mode == "WaitForFirstConsumer"

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Report whether a node with these labels is in the allowed topologies (upstream
        `MatchTopologySelectorTerms`).
        """
        if not self.allowed_topologies:
            return True
        return any(term and all(labels.get(key) in values for key, values in term) for term in self.allowed_topologies)


@dataclass(frozen=True, slots=True)
class CSINode:
    """The CSI drivers on a node. `limits`: driver -> maximum number of attached volumes, if the driver reports a
    maximum.

    `topology_keys`: driver -> the node labels on which the topology of its volumes depends.
    """

    name: str
    limits: Mapping[str, int]
    migrated_plugins: frozenset[str] = frozenset()
    drivers: frozenset[str] = frozenset()
    topology_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_api(cls, obj: ApiObject) -> CSINode:
        """Read an API object. Raises InvalidObject."""
        limits, drivers, topology_keys = {}, set(), {}
        with within(obj, "spec", "drivers"):
            for driver in items(obj, "spec", "drivers"):
                drivers.add(text(driver, "name"))
                if keys := strings(driver, "topologyKeys"):
                    topology_keys[text(driver, "name")] = keys
                count = int32(driver, "allocatable", "count")
                if count is not None:
                    limits[text(driver, "name")] = count
        migrated = string_map(obj, "metadata", "annotations").get(MIGRATED_PLUGINS, "")
        plugins = frozenset(migrated.split(",")) - {""}
        return cls(text(obj, "metadata", "name"), limits, plugins, frozenset(drivers), topology_keys)


@dataclass(frozen=True, slots=True)
class CSIDriver:
    """A stored CSIDriver. `storage_capacity`: whether the driver reports its storage capacity.

    `prevents_scheduling_if_missing`: whether kube-scheduler rejects nodes without the driver.
    """

    name: str
    storage_capacity: bool = False
    prevents_scheduling_if_missing: bool = False

    @classmethod
    def from_api(cls, obj: ApiObject) -> CSIDriver:
        """Read an API object. Raises InvalidObject."""
        capacity, prevents = (at(obj, "spec", key) for key in ("storageCapacity", "preventPodSchedulingIfMissing"))
        return cls(text(obj, "metadata", "name"), capacity is True, prevents is True)


@dataclass(frozen=True, slots=True)
class CSIStorageCapacity:
    """The storage capacity of a StorageClass for the nodes that `nodes` selects, in billionths of a byte.

    `limit`: the size of the largest possible volume. `capacity`: the remaining capacity.
    """

    storage_class: str
    limit: int | None
    nodes: LabelSelector | None
    capacity: int | None = None

    @classmethod
    def from_api(cls, obj: ApiObject) -> CSIStorageCapacity:
        """Read an API object. Raises InvalidObject."""
        sizes = read_resource_list(
            {**obj, "sizes": {k: obj[k] for k in ("capacity", "maximumVolumeSize") if obj.get(k)}}, "sizes"
        )
        nodes, _ = selector_or_error(obj.get("nodeTopology"))
        capacity = sizes.get("capacity")
        return cls(text(obj, "storageClassName"), sizes.get("maximumVolumeSize", capacity), nodes, capacity)


@dataclass(frozen=True, slots=True)
class VolumeAttachment(View):
    """A stored VolumeAttachment: a volume that is or will be attached to a node. `attacher`: the CSI driver."""

    node_name: str = field(metadata=by(text, "spec", "nodeName"))
    attacher: str = field(metadata=by(text, "spec", "attacher"))
    volume_name: str = field(metadata=by(text, "spec", "source", "persistentVolumeName"))


def default_storage_class(classes: Iterable[StorageClass]) -> str:
    """Return the newest default StorageClass, or "". Source: pkg/volume/util `GetDefaultClass`."""
    defaults = (storage_class for storage_class in classes if storage_class.is_default)
    newest = min(defaults, key=lambda storage_class: (-storage_class.created, storage_class.name), default=None)
    return "" if newest is None else newest.name
