"""Devices (DRA): ResourceSlices, DeviceClasses and DeviceTaintRules. Source: api `resource/v1/types.go`.

Fields that forewarn does not model are reported in `unmodelled`, so that no prediction ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.objects.fields import ApiObject, at, boolean, int32, mapping, text, timestamp
from forewarn.policies.objects.items import items, within
from forewarn.policies.objects.node_selector import NodeSelector, read_node_selector
from forewarn.policies.quantity import InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Attribute = str | int | bool | tuple[str, str]
"""The value of an attribute; a version is ("version", text)."""
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
_LISTS: Final = frozenset({"ints", "bools", "strings", "versions"})


class DeviceId(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str


class CounterSet(NamedTuple):
    """A set of counters by name. In a pool: the available amounts. In a device: the consumed amounts. In billionths."""

    name: str
    counters: Mapping[str, int]


class DeviceTaint(NamedTuple):
    """A taint of a device. `added`: the time of addition in seconds since 1970."""

    key: str
    value: str
    effect: str
    added: int | None = None


class DeviceTaintRule(NamedTuple):
    """A DeviceTaintRule: a taint for all devices with this driver, pool and name (None matches any).

    `selects`: whether the rule has a selector; without one, it matches no device.
    """

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
        """Report whether the rule taints the device.

        Source: upstream `applyPatches` of dynamic-resource-allocation `resourceslice/tracker`.
        """
        selected = self.driver, self.pool, self.device
        return self.selects and all(want in (None, have) for want, have in zip(selected, device, strict=True))


class RequestPolicy(NamedTuple):
    """The amounts of a shared capacity that a request may consume, in billionths.

    `values`: the valid amounts, if listed. `least`, `maximum`, `step`: the valid range; `least` None without a range.
    """

    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    maximum: int | None = None
    step: int | None = None


class NodePlace(NamedTuple):
    """The nodes that can access devices: one node, all nodes, or the nodes that a selector matches."""

    node_name: str = ""
    all_nodes: bool = False
    selector: NodeSelector | None = None

    def reaches(self, labels: Mapping[str, str], name: str) -> bool:
        """Report whether the node can access the devices. Source: upstream `NodeMatches`."""
        if self.node_name:
            return self.node_name == name
        return self.all_nodes or (self.selector is not None and self.selector.matches(labels, name))


NOWHERE: Final = NodePlace()


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a ResourceSlice. `capacity`: in billionths. `shared`: whether several claims may use the device.

    `consumes`: the amounts of counters that the device uses, by counter set (partitionable devices).
    `binding_conditions`: whether the device must be prepared before the Pod is bound.
    """

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    place: NodePlace = NOWHERE
    binding_conditions: bool = False
    unmodelled: str = ""
    shared: bool = False
    policies: Mapping[str, RequestPolicy] = field(default_factory=dict)
    consumes: tuple[CounterSet, ...] = ()
    binds_to_node: bool = False


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one pool of one driver, or the counters of the pool. `slices`: number of slices in the pool.

    `place`: the nodes with access; with `per_device`, each device has its own. `divided`: whether some devices are
    shared, consume counters, or have request policies.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    place: NodePlace
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    unmodelled: str = ""
    counter_sets: tuple[CounterSet, ...] = ()
    divided: bool = False

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceSlice:
        """Read an API object. Raises InvalidObject."""
        with within(obj, "spec", "devices"):
            devices = tuple(_device(device) for device in items(obj, "spec", "devices"))
        operations = "skipNodeOperations (DRAOptionalNodeOperations)" if at(obj, "spec", "skipNodeOperations") else ""
        return cls(
            name=text(obj, "metadata", "name"),
            driver=text(obj, "spec", "driver"),
            pool=text(obj, "spec", "pool", "name"),
            generation=integer(obj, "spec", "pool", "generation"),
            slices=integer(obj, "spec", "pool", "resourceSliceCount"),
            place=_place(mapping(obj, "spec")),
            per_device=boolean(obj, "spec", "perDeviceNodeSelection"),
            devices=devices,
            unmodelled=operations or next((device.unmodelled for device in devices if device.unmodelled), ""),
            counter_sets=tuple(_counter_set(each, "name") for each in items(obj, "spec", "sharedCounters")),
            divided=any(device.shared or device.consumes or device.policies for device in devices),
        )


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class of devices: those that match all CEL `selectors`. `created`: seconds since 1970.

    `extended_resource`: the extended resource that the class provides, or "".
    """

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: int = 0

    @classmethod
    def from_api(cls, obj: ApiObject) -> DeviceClass:
        """Read an API object. Raises InvalidObject."""
        return cls(
            name=text(obj, "metadata", "name"),
            selectors=selectors(mapping(obj, "spec")),
            extended_resource=text(obj, "spec", "extendedResourceName"),
            created=timestamp(obj, "metadata", "creationTimestamp") or 0,
        )


def _device(device: ApiObject) -> Device:
    device = {**device, **mapping(device, "basic")}  # of v1beta1
    return Device(
        name=text(device, "name"),
        attributes=dict(_attributes(device)),
        capacity=amounts(mapping(device, "capacity"), "value"),
        taints=tuple(map(_taint, items(device, "taints"))),
        place=_place(device),
        binding_conditions=bool(device.get("bindingConditions")),
        unmodelled=_unmodelled(device),
        shared=boolean(device, "allowMultipleAllocations"),
        policies=dict(_policies(device)),
        consumes=tuple(_counter_set(each, "counterSet") for each in items(device, "consumesCounters")),
        binds_to_node=boolean(device, "bindsToNode"),
    )


def _unmodelled(device: ApiObject) -> str:
    """Return the first field of a device that forewarn does not model; "" if there is none.

    kube-apiserver drops these fields unless an alpha gate is on.
    """
    if device.get("nodeAllocatableResources") or device.get("nodeAllocatableResourceMappings"):
        return "node allocatable resources of a device (DRANodeAllocatableResources)"
    if any(isinstance(value, dict) and _LISTS & value.keys() for value in mapping(device, "attributes").values()):
        return "attributes with lists (DRAListTypeAttributes)"
    if any(each.get("compatibilityGroups") for each in items(device, "consumesCounters")):
        return "compatibility groups of devices (DRADeviceCompatibilityGroups)"
    return ""


def _counter_set(holder: ApiObject, name: str) -> CounterSet:
    return CounterSet(text(holder, name), amounts(mapping(holder, "counters"), "value"))


def _policies(device: ApiObject) -> Iterator[tuple[str, RequestPolicy]]:
    for name, value in mapping(device, "capacity").items():
        policy = value.get("requestPolicy") if isinstance(value, dict) else None
        if isinstance(policy, dict):
            ranged = amounts(mapping(policy, "validRange"))
            values = policy.get("validValues")
            found = tuple(map(_amount, values)) if isinstance(values, list) else ()
            yield (
                name,
                RequestPolicy(
                    _amount(policy.get("default")),
                    tuple(amount for amount in found if amount is not None),
                    *(ranged.get(bound) for bound in ("min", "max", "step")),
                ),
            )


def _taint(taint: ApiObject) -> DeviceTaint:
    added = timestamp(taint, "timeAdded")
    return DeviceTaint(text(taint, "key"), text(taint, "value"), text(taint, "effect"), added)


def _attributes(device: ApiObject) -> Iterator[tuple[str, Attribute]]:
    for name, value in mapping(device, "attributes").items():
        for kind in ("int", "bool", "string"):
            if isinstance(value, dict) and value.get(kind) is not None:
                yield name, value[kind]
        if isinstance(value, dict) and value.get("version") is not None:
            yield name, ("version", str(value["version"]))


def amounts(holder: Mapping[str, Any], *path: str) -> dict[str, int]:
    """Return the valid quantities at `path` in each value of a map, in billionths."""
    found = {name: _amount(at({"": value}, "", *path)) for name, value in holder.items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _amount(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return parse_quantity(value).nano
    except InvalidQuantity:
        return None


def selectors(holder: ApiObject) -> tuple[str, ...]:
    """Return the CEL expressions of an object with `selectors`."""
    return tuple(text(selector, "cel", "expression") for selector in items(holder, "selectors"))


def _place(holder: ApiObject) -> NodePlace:
    selects = holder.get("nodeSelector") is not None
    selector = read_node_selector(holder, "nodeSelector") if selects else None
    return NodePlace(text(holder, "nodeName"), boolean(holder, "allNodes"), selector)


def integer(obj: ApiObject, *path: str) -> int:
    """Return an integer of any size, 0 if there is none. Raises InvalidObject."""
    value = at(obj, *path)
    return value if isinstance(value, int) else int32(obj, *path) or 0
