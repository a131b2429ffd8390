"""Devices (DRA): ResourceSlices, DeviceClasses, DeviceTaintRules, ResourceClaims. Source: api `resource/v1/types.go`.

Fields that forewarn does not model are reported in `unmodelled`, so that no prediction ignores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from forewarn.policies.kubernetes.objects import node
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    at,
    boolean,
    integer,
    items,
    list_at,
    mapping,
    string_map,
    strings,
    text,
    timestamp,
    within,
)
from forewarn.policies.kubernetes.objects.pod import Owner
from forewarn.policies.kubernetes.objects.view import CREATED, NAME, Namespaced, View, by
from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity

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


class DeviceTaintRule(NamedTuple):
    """A DeviceTaintRule: a taint for all devices with this driver, pool and name (None matches any).

    `selects`: whether the rule has a selector; without one, it matches no device.
    """

    taint: node.Taint
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
        """Report whether the rule taints the device. Source: upstream `applyPatches` of resourceslice/tracker."""
        selected = self.driver, self.pool, self.device
        return self.selects and all(want in (None, have) for want, have in zip(selected, device, strict=True))


class RequestPolicy(NamedTuple):
    """The amounts of a shared capacity that a request may consume, in billionths.

    `values`: the valid amounts, if listed. `least`, `maximum`, `step`: the valid range; without a range, `least` is
    None.
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
    selector: node.NodeSelector | None = None

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
    taints: tuple[node.Taint, ...] = ()
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
            generation=integer(obj, "spec", "pool", "generation") or 0,
            slices=integer(obj, "spec", "pool", "resourceSliceCount") or 0,
            place=_place(mapping(obj, "spec")),
            per_device=boolean(obj, "spec", "perDeviceNodeSelection"),
            devices=devices,
            unmodelled=operations or next((device.unmodelled for device in devices if device.unmodelled), ""),
            counter_sets=tuple(_counter_set(counters, "name") for counters in items(obj, "spec", "sharedCounters")),
            divided=any(device.shared or device.consumes or device.policies for device in devices),
        )


@dataclass(frozen=True, slots=True)
class DeviceClass(View):
    """A class of devices: those that match all CEL `selectors`. `created`: seconds since 1970.

    `extended_resource`: the extended resource that the class provides, or "".
    """

    name: str = field(metadata=NAME)
    selectors: tuple[str, ...] = field(default=(), metadata=by(lambda obj: selectors(mapping(obj, "spec"))))
    extended_resource: str = field(default="", metadata=by(text, "spec", "extendedResourceName"))
    created: int = field(default=0, metadata=CREATED)


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
        consumes=tuple(_counter_set(counters, "counterSet") for counters in items(device, "consumesCounters")),
        binds_to_node=boolean(device, "bindsToNode"),
    )


def _unmodelled(device: ApiObject) -> str:
    """Return a device's first field that is not modelled, or ""; only alpha gates keep these fields."""
    if device.get("nodeAllocatableResources") or device.get("nodeAllocatableResourceMappings"):
        return "node allocatable resources of a device (DRANodeAllocatableResources)"
    if any(isinstance(value, dict) and _LISTS & value.keys() for value in mapping(device, "attributes").values()):
        return "attributes with lists (DRAListTypeAttributes)"
    if any(counters.get("compatibilityGroups") for counters in items(device, "consumesCounters")):
        return "compatibility groups of devices (DRADeviceCompatibilityGroups)"
    return ""


def _counter_set(holder: ApiObject, name: str) -> CounterSet:
    return CounterSet(text(holder, name), amounts(mapping(holder, "counters"), "value"))


def _policies(device: ApiObject) -> Iterator[tuple[str, RequestPolicy]]:
    for name, value in mapping(device, "capacity").items():
        policy = value.get("requestPolicy") if isinstance(value, dict) else None
        if isinstance(policy, dict):
            ranged = amounts(mapping(policy, "validRange"))
            valid = tuple(map(_amount, list_at(policy, "validValues")))
            yield (
                name,
                RequestPolicy(
                    _amount(policy.get("default")),
                    tuple(amount for amount in valid if amount is not None),
                    *(ranged.get(bound) for bound in ("min", "max", "step")),
                ),
            )


def _taint(taint: ApiObject) -> node.Taint:
    return node.Taint(text(taint, "key"), text(taint, "value"), text(taint, "effect"), timestamp(taint, "timeAdded"))


def _attributes(device: ApiObject) -> Iterator[tuple[str, Attribute]]:
    for name, value in mapping(device, "attributes").items():
        for kind in ("int", "bool", "string"):
            if isinstance(value, dict) and value.get(kind) is not None:
                yield name, value[kind]
        if isinstance(value, dict) and value.get("version") is not None:
            yield name, ("version", str(value["version"]))


def amounts(holder: Mapping[str, Any], *path: str) -> dict[str, int]:
    """Return the valid quantities at `path` in each value of a map, in billionths."""
    amounts_by_name = {name: _amount(at({"": value}, "", *path)) for name, value in holder.items()}
    return {name: amount for name, amount in amounts_by_name.items() if amount is not None}


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
    selector = node.read_node_selector(holder, "nodeSelector") if selects else None
    return NodePlace(text(holder, "nodeName"), boolean(holder, "allNodes"), selector)


EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
ALL: Final = "All"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim: `count` devices of a class, all devices (`mode` ALL), or the first of `alternatives` that
    is available.

    `capacity`: required amounts of each device, in billionths.
    """

    name: str
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[node.Toleration, ...] = ()
    alternatives: tuple[DeviceRequest, ...] = ()
    unmodelled: str = ""
    capacity: Mapping[str, int] = field(default_factory=dict)


class DeviceConstraint(NamedTuple):
    """A constraint that all devices of these requests (empty: all requests) have the same value of an attribute.

    `distinct`: the devices must have different values instead.
    """

    requests: frozenset[str]
    attribute: str
    distinct: bool = False


class Readiness(Enum):
    """The state of a device according to its driver (binding conditions)."""

    READY = "ready"
    AWAITED = "awaited"
    FAILED = "failed"


class AllocatedDevice(NamedTuple):
    """A device that is allocated to a claim. `request`: name of the request, or `name/alternative`.

    `share`: the consumed capacity of a shared device, in billionths; None for a device that one claim uses alone.
    """

    request: str
    id: DeviceId
    admin_access: bool = False
    share: Mapping[str, int] | None = None
    readiness: Readiness = Readiness.READY
    tolerations: tuple[node.Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The allocation of a claim. `nodes`: None if all nodes can access the devices.

    `timed`: whether the time of the allocation is known; kube-scheduler waits only for a limited time until devices are
    ready.
    """

    devices: tuple[AllocatedDevice, ...] = ()
    nodes: node.NodeSelector | None = None
    timed: bool = False
    unmodelled: str = ""

    @property
    def readiness(self) -> Readiness:
        """The combined readiness of all devices. Source: upstream `isClaimReadyForBinding`."""
        states = (device.readiness for device in self.devices)
        return next((state for state in states if state is not Readiness.READY), Readiness.READY)


@dataclass(frozen=True, slots=True)
class ResourceClaim(Namespaced):
    """A claim for devices. `allocation`: None if not allocated. `reserved_for`: UIDs of the Pods that may use the
    claim.

    `for_extended_resources`: whether kube-scheduler created the claim for extended resources.
    """

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
    reserved_for: tuple[str, ...] = ()

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceClaim:
        """Read an API object. Raises InvalidObject."""
        return _claim(obj, mapping(obj, "spec"))


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """A ResourceClaimTemplate. `claim`: a claim from the template, with the namespace and name of the template."""

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
    constraints = tuple(map(_constraint, items(spec, "devices", "constraints")))
    unmodelled = next((request.unmodelled for request in requests if request.unmodelled), "")
    if not all(constraint.attribute for constraint in constraints):
        unmodelled = "constraints other than matchAttribute and distinctAttribute"
    owner = Owner.from_api(obj)
    return ResourceClaim(
        namespace=text(obj, "metadata", "namespace", default="default"),
        name=text(obj, "metadata", "name"),
        uid=text(obj, "metadata", "uid"),
        owner_uid=owner.uid if owner else "",
        deleting=at(obj, "metadata", "deletionTimestamp") is not None,
        requests=requests,
        constraints=constraints,
        allocation=_allocation(obj),
        for_extended_resources=string_map(obj, "metadata", "annotations").get(EXTENDED_RESOURCE_CLAIM) == "true",
        unmodelled=unmodelled,
        reserved_for=tuple(text(pod, "uid") for pod in items(obj, "status", "reservedFor")),
    )


def _constraint(constraint: ApiObject) -> DeviceConstraint:
    alike, distinct = text(constraint, "matchAttribute"), text(constraint, "distinctAttribute")
    return DeviceConstraint(frozenset(strings(constraint, "requests")), alike or distinct, distinct=not alike)


def _allocation(obj: ApiObject) -> Allocation | None:
    if at(obj, "status", "allocation") is None:
        return None
    results = tuple(items(obj, "status", "allocation", "devices", "results"))
    statuses = [*items(obj, "status", "devices")] if any(result.get("bindingConditions") for result in results) else []
    conditions = {_device_id(status): _conditions(status) for status in reversed(statuses)}  # the first counts
    devices = tuple(
        AllocatedDevice(
            text(result, "request"),
            _device_id(result),
            boolean(result, "adminAccess"),
            None if at(result, "shareID") is None else amounts(mapping(result, "consumedCapacity")),
            _readiness(result, conditions.get(_device_id(result))),
            node.read_tolerations(result, "tolerations"),
        )
        for result in results
    )
    selects = at(obj, "status", "allocation", "nodeSelector") is not None
    skips = any(result.get("skipNodeOperations") for result in results)
    return Allocation(
        devices,
        node.read_node_selector(obj, "status", "allocation", "nodeSelector") if selects else None,
        timed=at(obj, "status", "allocation", "allocationTimestamp") is not None,
        unmodelled="skipNodeOperations (DRAOptionalNodeOperations)" if skips else "",
    )


def _device_id(result: ApiObject) -> DeviceId:
    return DeviceId(text(result, "driver"), text(result, "pool"), text(result, "device"))


def _conditions(status: ApiObject) -> dict[str, bool]:
    """Return condition type -> whether the status of the condition is True. The first condition of each type counts."""
    conditions = reversed([*items(status, "conditions")])
    return {text(condition, "type"): text(condition, "status") == "True" for condition in conditions}


def _readiness(result: ApiObject, conditions: Mapping[str, bool] | None) -> Readiness:
    wanted = strings(result, "bindingConditions")
    if not wanted:
        return Readiness.READY
    if conditions is None:
        return Readiness.AWAITED
    if any(conditions.get(failure) for failure in strings(result, "bindingFailureConditions")):
        return Readiness.FAILED
    return Readiness.READY if all(conditions.get(condition) for condition in wanted) else Readiness.AWAITED


def _request(request: ApiObject) -> DeviceRequest:
    alternatives = tuple(
        _exact(text(alternative, "name"), alternative) for alternative in items(request, "firstAvailable")
    )
    if alternatives:
        unmodelled = next((a.unmodelled for a in alternatives if a.unmodelled), "")
        return DeviceRequest(text(request, "name"), alternatives=alternatives, unmodelled=unmodelled)
    return _exact(text(request, "name"), mapping(request, "exactly") or request)  # v1beta1 has no `exactly`


def _exact(name: str, request: ApiObject) -> DeviceRequest:
    mode = text(request, "allocationMode") or "ExactCount"
    count = request.get("count")
    return DeviceRequest(
        name=name,
        device_class=text(request, "deviceClassName"),
        selectors=selectors(request),
        mode=mode,
        count=count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1,
        admin_access=boolean(request, "adminAccess"),
        tolerations=node.read_tolerations(request, "tolerations"),
        unmodelled="derived attributes (DRADerivedAttributes)" if request.get("derivedAttributes") else "",
        capacity=amounts(mapping(request, "capacity", "requests")),
    )
