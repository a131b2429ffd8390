"""Devices (DRA): the slices that offer them, their classes, and the claims on them. Source: api `resource/v1/types.go`.

Of what is not modelled a view says that it is there (`unmodelled`), so that nobody predicts past it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.objects.fields import ApiObject, at, boolean, int32, mapping, string_map, text, timestamp
from policies.objects.items import items, strings, within
from policies.objects.node_selector import NodeSelector, read_node_selector
from policies.objects.pod import Owner
from policies.quantity import InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Attribute = str | int | bool | tuple[str, str]
"""A value; of a version ("version", text)."""
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
ALL: Final = "All"


class DeviceId(NamedTuple):
    """What tells a device from all others of a cluster."""

    driver: str
    pool: str
    device: str


class DeviceTaint(NamedTuple):
    """A taint of a device."""

    key: str
    value: str
    effect: str


class DeviceTaintRule(NamedTuple):
    """A taint of all devices of a driver, a pool and a name; None: of any. `selects`: without a selector, of none."""

    taint: DeviceTaint
    selects: bool
    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    @classmethod
    def from_api(cls, obj: ApiObject) -> DeviceTaintRule:
        """Read an API object. Raises InvalidObject."""
        path = ("spec", "deviceSelector")
        driver, pool, device = (text(obj, *path, key) or None for key in ("driver", "pool", "device"))
        return cls(_taint(mapping(obj, "spec", "taint")), at(obj, *path) is not None, driver, pool, device)

    def taints(self, device: DeviceId) -> bool:
        """Upstream `applyPatches` of dynamic-resource-allocation `resourceslice/tracker`."""
        asked = self.driver, self.pool, self.device
        return self.selects and all(want in (None, have) for want, have in zip(asked, device, strict=True))


class DeviceToleration(NamedTuple):
    """A toleration of a request; an empty key or effect stands for all of them."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Upstream `resourceclaim.ToleratesTaint`."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


class NodePlace(NamedTuple):
    """From which nodes devices can be reached: one, all, or those that a selector matches."""

    node_name: str = ""
    all_nodes: bool = False
    selector: NodeSelector | None = None

    def reaches(self, labels: Mapping[str, str], name: str) -> bool:
        """Upstream `NodeMatches`."""
        if self.node_name:
            return self.node_name == name
        return self.all_nodes or (self.selector is not None and self.selector.matches(labels, name))


NOWHERE: Final = NodePlace()


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a slice. `capacity`: in billionths."""

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    place: NodePlace = NOWHERE
    binding_conditions: bool = False
    unmodelled: str = ""


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one pool of one driver. `slices`: of how many the pool is made."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    place: NodePlace
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    unmodelled: str = ""

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceSlice:
        """Read an API object. Raises InvalidObject."""
        with within(obj, "spec", "devices"):
            devices = tuple(_device(device) for device in items(obj, "spec", "devices"))
        counters = "shared counters (DRAPartitionableDevices)" if at(obj, "spec", "sharedCounters") else ""
        return cls(
            name=text(obj, "metadata", "name"),
            driver=text(obj, "spec", "driver"),
            pool=text(obj, "spec", "pool", "name"),
            generation=_whole(obj, "spec", "pool", "generation"),
            slices=_whole(obj, "spec", "pool", "resourceSliceCount"),
            place=_place(mapping(obj, "spec")),
            per_device=boolean(obj, "spec", "perDeviceNodeSelection"),
            devices=devices,
            unmodelled=counters or next((device.unmodelled for device in devices if device.unmodelled), ""),
        )


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """What a request names: devices that all `selectors` (CEL) match. `created`: seconds since 1970."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: int = 0

    @classmethod
    def from_api(cls, obj: ApiObject) -> DeviceClass:
        """Read an API object. Raises InvalidObject."""
        return cls(
            name=text(obj, "metadata", "name"),
            selectors=_selectors(mapping(obj, "spec")),
            extended_resource=text(obj, "spec", "extendedResourceName"),
            created=timestamp(obj, "metadata", "creationTimestamp") or 0,
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a claim asks for: `count` devices of a class, or all; or the first of its alternatives that can be had."""

    name: str
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    alternatives: tuple[DeviceRequest, ...] = ()
    unmodelled: str = ""


class DeviceConstraint(NamedTuple):
    """The devices of these requests (none named: of all) have one value of an attribute."""

    requests: frozenset[str]
    attribute: str


class AllocatedDevice(NamedTuple):
    """A device that a claim has. `request`: `name`, or `name/alternative`."""

    request: str
    id: DeviceId
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim has been given. `nodes` None: it can be reached from everywhere."""

    devices: tuple[AllocatedDevice, ...] = ()
    nodes: NodeSelector | None = None


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim on devices. `allocation` None: none yet."""

    namespace: str
    name: str
    uid: str = ""
    owner_uid: str = ""
    deleting: bool = False
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    allocation: Allocation | None = None
    for_extended_resources: bool = False
    unmodelled: str = ""

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceClaim:
        """Read an API object. Raises InvalidObject."""
        return _claim(obj, mapping(obj, "spec"))

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """What claims of pods are made of."""

    namespace: str
    name: str
    claim: ResourceClaim

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceClaimTemplate:
        """Read an API object. Raises InvalidObject."""
        claim = _claim({"metadata": obj.get("metadata")}, mapping(obj, "spec", "spec"))
        return cls(claim.namespace, claim.name, claim)


def _claim(obj: ApiObject, spec: ApiObject) -> ResourceClaim:
    with within(obj, "spec", "devices", "requests"):
        requests = tuple(_request(request) for request in items(spec, "devices", "requests"))
    constraints = tuple(items(spec, "devices", "constraints"))
    unmodelled = next((request.unmodelled for request in requests if request.unmodelled), "")
    if any(not text(constraint, "matchAttribute") for constraint in constraints):
        unmodelled = "constraints other than matchAttribute"
    owner = Owner.from_api(obj)
    return ResourceClaim(
        namespace=text(obj, "metadata", "namespace", default="default"),
        name=text(obj, "metadata", "name"),
        uid=text(obj, "metadata", "uid"),
        owner_uid=owner.uid if owner else "",
        deleting=at(obj, "metadata", "deletionTimestamp") is not None,
        requests=requests,
        constraints=tuple(
            DeviceConstraint(frozenset(strings(c, "requests")), text(c, "matchAttribute")) for c in constraints
        ),
        allocation=_allocation(obj),
        for_extended_resources=string_map(obj, "metadata", "annotations").get(EXTENDED_RESOURCE_CLAIM) == "true",
        unmodelled=unmodelled,
    )


def _allocation(obj: ApiObject) -> Allocation | None:
    if at(obj, "status", "allocation") is None:
        return None
    path = ("status", "allocation", "devices", "results")
    devices = tuple(
        AllocatedDevice(
            text(result, "request"),
            DeviceId(text(result, "driver"), text(result, "pool"), text(result, "device")),
            boolean(result, "adminAccess"),
        )
        for result in items(obj, *path)
    )
    selects = at(obj, "status", "allocation", "nodeSelector") is not None
    return Allocation(devices, read_node_selector(obj, "status", "allocation", "nodeSelector") if selects else None)


def _request(request: ApiObject) -> DeviceRequest:
    alternatives = tuple(
        _exact(text(alternative, "name"), alternative) for alternative in items(request, "firstAvailable")
    )
    if alternatives:
        unmodelled = next((a.unmodelled for a in alternatives if a.unmodelled), "")
        return DeviceRequest(text(request, "name"), alternatives=alternatives, unmodelled=unmodelled)
    return _exact(text(request, "name"), mapping(request, "exactly"))


def _exact(name: str, request: ApiObject) -> DeviceRequest:
    mode = text(request, "allocationMode") or "ExactCount"
    count = request.get("count")
    tolerations = tuple(
        DeviceToleration(text(t, "key"), text(t, "operator"), text(t, "value"), text(t, "effect"))
        for t in items(request, "tolerations")
    )
    return DeviceRequest(
        name=name,
        device_class=text(request, "deviceClassName"),
        selectors=_selectors(request),
        mode=mode,
        count=count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1,
        admin_access=boolean(request, "adminAccess"),
        tolerations=tolerations,
        unmodelled="capacity of a request (DRAConsumableCapacity)" if request.get("capacity") else "",
    )


def _device(device: ApiObject) -> Device:
    unmodelled = ""
    if device.get("consumesCounters"):
        unmodelled = "counters of a device (DRAPartitionableDevices)"
    elif boolean(device, "allowMultipleAllocations"):
        unmodelled = "devices that several claims share (DRAConsumableCapacity)"
    return Device(
        name=text(device, "name"),
        attributes=dict(_attributes(device)),
        capacity=dict(_capacities(device)),
        taints=tuple(map(_taint, items(device, "taints"))),
        place=_place(device),
        binding_conditions=bool(device.get("bindingConditions")),
        unmodelled=unmodelled,
    )


def _taint(taint: ApiObject) -> DeviceTaint:
    return DeviceTaint(text(taint, "key"), text(taint, "value"), text(taint, "effect"))


def _attributes(device: ApiObject) -> Iterator[tuple[str, Attribute]]:
    for name, value in mapping(device, "attributes").items():
        for kind in ("int", "bool", "string"):
            if isinstance(value, dict) and value.get(kind) is not None:
                yield name, value[kind]
        if isinstance(value, dict) and value.get("version") is not None:
            yield name, ("version", str(value["version"]))


def _capacities(device: ApiObject) -> Iterator[tuple[str, int]]:
    for name, value in mapping(device, "capacity").items():
        try:
            yield name, parse_quantity(at({"value": value}, "value", "value")).nano
        except InvalidQuantity:
            continue  # the API server would not have stored it


def _selectors(holder: ApiObject) -> tuple[str, ...]:
    return tuple(text(selector, "cel", "expression") for selector in items(holder, "selectors"))


def _place(holder: ApiObject) -> NodePlace:
    selects = holder.get("nodeSelector") is not None
    selector = read_node_selector(holder, "nodeSelector") if selects else None
    return NodePlace(text(holder, "nodeName"), boolean(holder, "allNodes"), selector)


def _whole(obj: ApiObject, *path: str) -> int:
    value = at(obj, *path)
    return value if isinstance(value, int) else int32(obj, *path) or 0
