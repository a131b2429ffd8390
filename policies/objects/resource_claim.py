"""ResourceClaims (DRA) and their templates. Source: api `resource/v1/types.go`.

Fields that forewarn does not model are reported in `unmodelled`, so that no prediction ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.objects.devices import DeviceId, amounts, integer, selectors
from forewarn.policies.objects.fields import ApiObject, at, boolean, mapping, string_map, text
from forewarn.policies.objects.items import items, strings, within
from forewarn.policies.objects.node_selector import NodeSelector, read_node_selector
from forewarn.policies.objects.pod import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.devices import DeviceTaint

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
ALL: Final = "All"


class DeviceToleration(NamedTuple):
    """A toleration of a device request; "" as key or effect matches all. `seconds`: tolerated time, None: unlimited."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None = None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Report whether the toleration tolerates the taint. Source: upstream `resourceclaim.ToleratesTaint`."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


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
    tolerations: tuple[DeviceToleration, ...] = ()
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
    tolerations: tuple[DeviceToleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The allocation of a claim. `nodes`: None if all nodes can access the devices.

    `timed`: whether the time of the allocation is known; kube-scheduler waits only for a limited time until devices are
    ready.
    """

    devices: tuple[AllocatedDevice, ...] = ()
    nodes: NodeSelector | None = None
    timed: bool = False
    unmodelled: str = ""

    @property
    def readiness(self) -> Readiness:
        """The combined readiness of all devices. Source: upstream `isClaimReadyForBinding`."""
        states = (device.readiness for device in self.devices)
        return next((state for state in states if state is not Readiness.READY), Readiness.READY)


@dataclass(frozen=True, slots=True)
class ResourceClaim:
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

    @property
    def key(self) -> str:
        """The ResourceClaim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


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
    statuses = items(obj, "status", "devices") if any(result.get("bindingConditions") for result in results) else ()
    conditions: dict[DeviceId, Mapping[str, bool]] = {}
    for status in statuses:
        conditions.setdefault(_device_id(status), _conditions(status))
    devices = tuple(
        AllocatedDevice(
            text(result, "request"),
            _device_id(result),
            boolean(result, "adminAccess"),
            None if at(result, "shareID") is None else amounts(mapping(result, "consumedCapacity")),
            _readiness(result, conditions.get(_device_id(result))),
            _tolerations(result),
        )
        for result in results
    )
    selects = at(obj, "status", "allocation", "nodeSelector") is not None
    skips = any(result.get("skipNodeOperations") for result in results)
    return Allocation(
        devices,
        read_node_selector(obj, "status", "allocation", "nodeSelector") if selects else None,
        timed=at(obj, "status", "allocation", "allocationTimestamp") is not None,
        unmodelled="skipNodeOperations (DRAOptionalNodeOperations)" if skips else "",
    )


def _device_id(result: ApiObject) -> DeviceId:
    return DeviceId(text(result, "driver"), text(result, "pool"), text(result, "device"))


def _conditions(status: ApiObject) -> dict[str, bool]:
    """Return type -> whether the status of the condition is True. The first condition of each type counts."""
    found: dict[str, bool] = {}
    for condition in items(status, "conditions"):
        found.setdefault(text(condition, "type"), text(condition, "status") == "True")
    return found


def _readiness(result: ApiObject, conditions: Mapping[str, bool] | None) -> Readiness:
    wanted = strings(result, "bindingConditions")
    if not wanted:
        return Readiness.READY
    if conditions is None:
        return Readiness.AWAITED
    if any(conditions.get(failure) for failure in strings(result, "bindingFailureConditions")):
        return Readiness.FAILED
    return Readiness.READY if all(conditions.get(each) for each in wanted) else Readiness.AWAITED


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
        tolerations=_tolerations(request),
        unmodelled="derived attributes (DRADerivedAttributes)" if request.get("derivedAttributes") else "",
        capacity=amounts(mapping(request, "capacity", "requests")),
    )


def _tolerations(holder: ApiObject) -> tuple[DeviceToleration, ...]:
    return tuple(
        DeviceToleration(
            text(toleration, "key"),
            text(toleration, "operator"),
            text(toleration, "value"),
            text(toleration, "effect"),
            None if toleration.get("tolerationSeconds") is None else integer(toleration, "tolerationSeconds"),
        )
        for toleration in items(holder, "tolerations")
    )
