"""PersistentVolumes, claims, StorageClasses and objects of CSI drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from forewarn.policies.objects.fields import (
    ApiObject,
    at,
    int32,
    items,
    mapping,
    string_map,
    strings,
    text,
    timestamp,
    within,
)
from forewarn.policies.objects.node_selector import NodeSelector, read_node_selector
from forewarn.policies.objects.pod import Owner
from forewarn.policies.objects.resources import read_resource_list
from forewarn.policies.objects.volumes import MigratedVolume, migrated_volume, translated_topology
from forewarn.policies.selectors import InvalidSelector, LabelSelector, parse_label_selector

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


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A stored PersistentVolumeClaim. `request`: size in billionths of a byte; None if absent.

    `selected_node`: None until kube-scheduler has selected a node. `attributes_class`: its VolumeAttributesClass.
    """

    namespace: str
    name: str
    uid: str = ""
    volume_name: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    request: int | None = None
    phase: str = ""
    bind_completed: bool = False
    selected_node: str | None = None
    deleting: bool = False
    selector: LabelSelector | None = None
    selector_error: str = ""
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    owner: Owner | None = None
    """The controller of the claim: the Pod of an ephemeral volume, or the deleter according to a retention policy."""
    has_data_source: bool = False

    @classmethod
    def from_api(cls, obj: ApiObject) -> PersistentVolumeClaim:
        """Read an API object. Raises InvalidObject."""
        annotations = string_map(obj, "metadata", "annotations")
        selector, error = _selector(at(obj, "spec", "selector"))
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            uid=text(obj, "metadata", "uid"),
            volume_name=text(obj, "spec", "volumeName"),
            storage_class=annotations.get(BETA_STORAGE_CLASS, text(obj, "spec", "storageClassName")),
            access_modes=strings(obj, "spec", "accessModes"),
            request=read_resource_list(obj, ("spec", "resources", "requests"), obj).get("storage"),
            phase=text(obj, "status", "phase"),
            bind_completed=BIND_COMPLETED in annotations,
            selected_node=annotations.get(SELECTED_NODE),
            deleting=at(obj, "metadata", "deletionTimestamp") is not None,
            selector=selector,
            selector_error=error,
            volume_mode=text(obj, "spec", "volumeMode", default="Filesystem"),
            attributes_class=text(obj, "spec", "volumeAttributesClassName"),
            owner=Owner.from_api(obj),
            has_data_source=any(at(obj, "spec", key) is not None for key in ("dataSource", "dataSourceRef")),
        )

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


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A stored PersistentVolume. `capacity`: in billionths of a byte. `csi`: (driver, handle), or None.

    `claim`: (namespace, name, uid) of the claim for which the volume is reserved, or None.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    claim: tuple[str, str, str] | None = None
    storage_class: str = ""
    node_affinity: NodeSelector | None = None
    phase: str = ""
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    deleting: bool = False
    csi: tuple[str, str] | None = None
    migrated: MigratedVolume | None = None
    local: bool = False
    """Whether the source is local or hostPath, so that the volume exists only on one node."""

    @classmethod
    def from_api(cls, obj: ApiObject) -> PersistentVolume:
        """Read an API object. Raises InvalidObject."""
        annotations = string_map(obj, "metadata", "annotations")
        claim = at(obj, "spec", "claimRef")
        affinity = at(obj, "spec", "nodeAffinity", "required")
        with within(obj, "spec", "nodeAffinity", "required"):
            node_affinity = None if affinity is None else read_node_selector(obj, "spec", "nodeAffinity", "required")
        return cls(
            name=text(obj, "metadata", "name"),
            labels=string_map(obj, "metadata", "labels"),
            capacity=read_resource_list(obj, ("spec", "capacity"), obj).get("storage", 0),
            access_modes=strings(obj, "spec", "accessModes"),
            claim=None if claim is None else _reference(obj),
            storage_class=annotations.get(BETA_STORAGE_CLASS, text(obj, "spec", "storageClassName")),
            node_affinity=node_affinity,
            phase=text(obj, "status", "phase"),
            volume_mode=text(obj, "spec", "volumeMode", default="Filesystem"),
            attributes_class=text(obj, "spec", "volumeAttributesClassName"),
            deleting=at(obj, "metadata", "deletionTimestamp") is not None,
            csi=_csi(obj),
            migrated=migrated_volume(mapping(obj, "spec"), string_map(obj, "metadata", "labels")),
            local=any(at(obj, "spec", source) is not None for source in ("local", "hostPath")),
        )

    def bound_to(self, claim: PersistentVolumeClaim) -> bool:
        """True if the volume is reserved for this claim. Source: component-helpers `IsVolumeBoundToClaim`."""
        if self.claim is None or self.claim[:2] != (claim.namespace, claim.name):
            return False
        return not self.claim[2] or self.claim[2] == claim.uid

    def reachable_from(self, labels: Mapping[str, str], migrated_plugins: frozenset[str] = frozenset()) -> bool:
        """True if a node with these labels can mount the volume. Source: component-helpers `CheckNodeAffinity`.

        `migrated_plugins`: in-tree plugins whose volumes the CSI driver handles on this node.
        """
        affinity = self.node_affinity
        if self.migrated and self.migrated.plugin in migrated_plugins:
            affinity = translated_topology(affinity, self.labels, self.migrated)
        return affinity is None or affinity.matches(labels, "")


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A stored StorageClass. `allowed_topologies`: terms of (label, values); empty: all nodes.

    `created`: in seconds since 1970.
    """

    name: str
    provisioner: str = ""
    binding_mode: str | None = None
    allowed_topologies: tuple[tuple[tuple[str, frozenset[str]], ...], ...] = ()
    is_default: bool = False
    created: int = 0

    @classmethod
    def from_api(cls, obj: ApiObject) -> StorageClass:
        """Read an API object; the API server's default binding mode is Immediate. Raises InvalidObject."""
        with within(obj, "allowedTopologies"):
            topologies = tuple(
                tuple((text(e, "key"), frozenset(strings(e, "values"))) for e in items(term, "matchLabelExpressions"))
                for term in items(obj, "allowedTopologies")
            )
        annotations = string_map(obj, "metadata", "annotations")
        return cls(
            name=text(obj, "metadata", "name"),
            provisioner=text(obj, "provisioner"),
            binding_mode=text(obj, "volumeBindingMode", default="Immediate"),
            allowed_topologies=topologies,
            is_default=any(annotations.get(name) == "true" for name in DEFAULT_CLASS),
            created=timestamp(obj, "metadata", "creationTimestamp") or 0,
        )

    @property
    def delays_binding(self) -> bool:
        """Whether claims wait until kube-scheduler selects a node. Source: component-helpers `IsDelayBindingMode`."""
        return self.binding_mode == "WaitForFirstConsumer"

    def allows(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels is in the allowed topologies (upstream `MatchTopologySelectorTerms`)."""
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
            {"sizes": {k: obj[k] for k in ("capacity", "maximumVolumeSize") if obj.get(k)}}, ("sizes",), obj
        )
        nodes, _ = _selector(obj.get("nodeTopology"))
        capacity = sizes.get("capacity")
        return cls(text(obj, "storageClassName"), sizes.get("maximumVolumeSize", capacity), nodes, capacity)


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """A stored VolumeAttachment: a volume that is or will be attached to a node. `attacher`: the CSI driver."""

    node_name: str
    attacher: str
    volume_name: str

    @classmethod
    def from_api(cls, obj: ApiObject) -> VolumeAttachment:
        """Read an API object. Raises InvalidObject."""
        return cls(
            node_name=text(obj, "spec", "nodeName"),
            attacher=text(obj, "spec", "attacher"),
            volume_name=text(obj, "spec", "source", "persistentVolumeName"),
        )


def _selector(selector: ApiObject | None) -> tuple[LabelSelector | None, str]:
    try:
        return parse_label_selector(selector), ""
    except InvalidSelector as error:
        return None, str(error)


def _reference(obj: ApiObject) -> tuple[str, str, str]:
    namespace, name, uid = (text(obj, "spec", "claimRef", key) for key in ("namespace", "name", "uid"))
    return namespace, name, uid


def _csi(obj: ApiObject) -> tuple[str, str] | None:
    if at(obj, "spec", "csi") is None:
        return None
    return text(obj, "spec", "csi", "driver"), text(obj, "spec", "csi", "volumeHandle")


def default_storage_class(classes: Iterable[StorageClass]) -> str:
    """Return the newest default StorageClass, or "". Source: pkg/volume/util `GetDefaultClass`."""
    defaults = (storage_class for storage_class in classes if storage_class.is_default)
    newest = min(defaults, key=lambda storage_class: (-storage_class.created, storage_class.name), default=None)
    return "" if newest is None else newest.name
