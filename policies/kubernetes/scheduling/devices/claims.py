"""The ResourceClaims of a Pod: named claims, claims from templates, and requests for extended resources.

Source: dynamic-resource-allocation `resourceclaim`, kubernetes `plugins/dynamicresources/extendeddynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.objects.devices import (
    DEVICE_CLASS_PREFIX,
    Device,
    DeviceId,
    DeviceRequest,
    Readiness,
    ResourceSlice,
)
from forewarn.policies.kubernetes.objects.resources import add_to
from forewarn.policies.kubernetes.quantity import NANO, ZERO
from forewarn.policies.kubernetes.scheduling.devices.selectors import NotModelled, SelectorError, selectors_of
from forewarn.policies.kubernetes.scheduling.reasons import CREATE_IT, RECREATE_IT, Reason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.devices import Allocation, DeviceClass, RequestPolicy, ResourceClaim
    from forewarn.policies.kubernetes.objects.pod import Pod, PodClaim
    from forewarn.policies.kubernetes.objects.pod_resources import Container
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects

_SHARED: Final = "shares of a device (DRAConsumableCapacity)"
_PARTITIONED: Final = "counters of devices (DRAPartitionableDevices)"
_LARGE: Final = 2**43 * NANO
"""8Ti: upstream stores larger amounts by reference."""
_TOO_LARGE: Final = "amounts of devices of this size"


def first_not_modelled(claims: Iterable[ResourceClaim], slices: Iterable[ResourceSlice], semantics: Semantics) -> str:
    """Return the first part of claims or slices that is not modelled, as a sentence; or ""."""
    of_claims = (what for claim in claims for what in _claim_lines(claim, semantics))
    offered = (what for part in slices for what in _slice_lines(part, semantics))
    reason = next(filter(None, chain(of_claims, offered)), "")
    return reason and f"{reason} are not modelled"


def _claim_lines(claim: ResourceClaim, semantics: Semantics) -> Iterator[str]:
    yield claim.unmodelled
    for request in claim.requests:
        for alternative in request.alternatives or (request,):
            if alternative.capacity and not semantics.devices_are_shared:
                yield "capacity of a request (DRAConsumableCapacity)"
            yield from _amount_lines(alternative.capacity.values(), semantics)
    if not semantics.devices_are_shared and any(constraint.distinct for constraint in claim.constraints):
        yield "constraints with distinctAttribute (DRAConsumableCapacity)"


def _slice_lines(part: ResourceSlice, semantics: Semantics) -> Iterator[str]:
    yield part.unmodelled
    if not semantics.devices_are_partitioned and (part.counter_sets or part.per_device):
        yield _PARTITIONED
    for counter_set in part.counter_sets:
        yield from _amount_lines(counter_set.counters.values(), semantics)
    for device in charging(part.devices, 1) if part.divided else ():
        yield from _device_lines(device, semantics)


def _device_lines(device: Device, semantics: Semantics) -> Iterator[str]:
    if device.shared and not semantics.devices_are_shared:
        yield _SHARED
    if device.consumes and not semantics.devices_are_partitioned:
        yield _PARTITIONED
    for taken in device.consumes:
        yield from _amount_lines(taken.counters.values(), semantics)
    for policy in device.policies.values():
        bounds = [bound for bound in (policy.least, policy.maximum, policy.step) if bound is not None]
        stepped = policy.step is None or (policy.step > 0 and policy.least is not None)
        if not stepped or not all(0 <= bound <= MAX_SIZE * NANO for bound in bounds):
            yield "request policies without usable steps"


def _amount_lines(amounts: Iterable[int], semantics: Semantics) -> Iterator[str]:
    most = _LARGE if semantics.large_amounts_of_devices_go_wrong else MAX_SIZE * NANO
    if not all(0 <= amount < most for amount in amounts):
        yield _TOO_LARGE


_TOO_MANY: Final = "the Pod claims too many devices (DRA)"
_MAX_CLAIMS: Final = 64
_MAX_DEVICES: Final = 128


class ClaimProblem(Exception):
    """The error for a claim because of which the Pod is unschedulable on all nodes."""


def claims_of(pod: Pod, objects: ClusterObjects) -> tuple[ResourceClaim, ...]:
    """Return the claims of a Pod, also those not yet created from templates. Raises ClaimProblem."""
    return tuple(claim for claim in (_claim(pod, wanted, objects) for wanted in pod.device_claims) if claim is not None)


def _claim(pod: Pod, wanted: PodClaim, objects: ClusterObjects) -> ResourceClaim | None:
    if wanted.claim is None:
        if wanted.resolved:
            return None  # no claim was needed
        template = objects.claim_templates.get((pod.namespace, wanted.template))
        if template is None:
            raise ClaimProblem(f'pod "{pod.key}": pod claim {wanted.name}: resource claim not created yet')
        return replace(template.claim, name=f"{pod.name}-{wanted.name}", uid=f"{pod.identity}/{wanted.name}")
    claim = objects.resource_claims.get((pod.namespace, wanted.claim))
    if claim is None:
        name = f'ResourceClaim "{pod.namespace}/{wanted.claim}"'
        raise ClaimProblem(Reason(f"could not find {name}", f"{name} not found", CREATE_IT))
    if claim.deleting:
        text = f'"{claim.name}" is being deleted'
        raise ClaimProblem(Reason(f"resourceclaim {text}", f"ResourceClaim {text}", RECREATE_IT))
    if wanted.template and claim.owner_uid != pod.uid:
        raise ClaimProblem(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
    return claim


def classes_of_resources(classes: Mapping[tuple[str, str], DeviceClass]) -> dict[str, DeviceClass]:
    """Return extended resource -> the DeviceClass that provides it: if several do, the oldest, then the first by name.

    Every DeviceClass also provides the resource `deviceclass.resource.kubernetes.io/NAME`.
    """
    newest_first = sorted(classes.values(), key=lambda c: (c.created, c.name), reverse=True)
    result = {c.extended_resource: c for c in newest_first if c.extended_resource}
    return result | {DEVICE_CLASS_PREFIX + c.name: c for c in newest_first}


def claim_of_an_earlier_cycle(pod: Pod, objects: ClusterObjects) -> ResourceClaim | None:
    """Return the claim of an earlier cycle for extended resources, or None. Source: `findExtendedResourceClaim`."""
    if not pod.uid:
        return None
    charge(len(objects.resource_claims) // 16)
    claims = (c for c in objects.resource_claims.values() if c.for_extended_resources and c.owner_uid == pod.uid)
    return next((claim for claim in claims if claim.requests), None)


def extended_resources_of(pod: Pod, provided: Mapping[str, DeviceClass]) -> dict[str, int]:
    """Return the amounts of extended resources that the Pod requests and that DeviceClasses (`provided`) provide."""
    return {name: amount for name, amount in pod.spec.request.scalars.items() if amount and name in provided}


def requests_of(
    pod: Pod, extended: Mapping[str, int], allocatable: Mapping[str, int], provided: Mapping[str, DeviceClass]
) -> list[DeviceRequest]:
    """Return the device requests for those extended resources that no device plugin of the node provides.

    `allocatable`: resources of the node. `provided`: resource -> DeviceClass. Source: `createRequestsAndMappings`.
    """
    requests: list[DeviceRequest] = []
    for name in sorted(extended):
        if allocatable.get(name, 0) == 0:
            requests += _requests(pod, name, provided[name].name)
    return sorted(requests, key=lambda request: request.name)


def _requests(pod: Pod, resource: str, device_class: str) -> list[DeviceRequest]:
    """Return the device requests for one extended resource.

    Containers that run at the same time each have a request; init containers have one, for the largest additional need.
    """
    spec = pod.spec.resources
    containers = [*spec.init_containers, *spec.containers]
    inits = len(spec.init_containers)
    long_lived = [
        None if container.runs_to_end else _container_request(index, container, resource, device_class, ())
        for index, container in enumerate(containers)
    ]
    largest: DeviceRequest | None = None
    for index, container in enumerate(containers[:inits]):
        if not container.runs_to_end:
            continue
        device_request = _container_request(index, container, resource, device_class, long_lived[index:])
        if device_request is not None and (largest is None or largest.count < device_request.count):
            largest = device_request
    return [request for request in (largest, *long_lived) if request is not None]


def _container_request(
    index: int, container: Container, resource: str, device_class: str, reusable: Sequence[DeviceRequest | None]
) -> DeviceRequest | None:
    count = container.requests.get(resource, ZERO).nano // NANO
    for request in reusable:
        if request is not None:
            count -= request.count
            if count <= 0:
                return None
    if count <= 0:
        return None
    place = sorted(container.requests).index(resource)
    return DeviceRequest(f"container-{index}-request-{place}", device_class, count=count)


def not_modelled(pod: Pod, objects: ClusterObjects, provided: Mapping[str, DeviceClass]) -> str:
    """Return why forewarn does not predict a Pod with devices; "" if forewarn does."""
    extended = extended_resources_of(pod, provided)
    uses_devices = bool(objects.device_classes or objects.resource_claims or objects.resource_slices)
    if not pod.device_claims and not extended:
        return ""
    if not (uses_devices if objects.devices_known is None else objects.devices_known):
        return "the Pod claims devices (DRA), and the state of the cluster contains none"
    return next(_problems(pod, objects, extended, provided), "")


def _problems(
    pod: Pod, objects: ClusterObjects, extended: Mapping[str, int], provided: Mapping[str, DeviceClass]
) -> Iterator[str]:
    if len(pod.device_claims) > _MAX_CLAIMS:
        yield _TOO_MANY
    try:
        claims = claims_of(pod, objects)
    except ClaimProblem:
        return
    unallocated = [claim for claim in claims if claim.allocation is None]
    of_allocations = (why for claim in claims for why in _allocation_lines(claim, objects.semantics))
    reason = next(of_allocations, "") or first_not_modelled(
        unallocated, objects.resource_slices.values(), objects.semantics
    )
    if reason:
        yield f"the Pod claims devices (DRA): {reason}"
    requests = [a for claim in unallocated for request in claim.requests for a in (request.alternatives or (request,))]
    if sum(request.count for request in requests) + sum(extended.values()) > _MAX_DEVICES:
        yield _TOO_MANY
    classes = {request.device_class for request in requests} | {provided[name].name for name in extended}
    yield from _unreadable(requests, classes, objects)


def _unreadable(requests: Sequence[DeviceRequest], classes: Iterable[str], objects: ClusterObjects) -> Iterator[str]:
    """Yield the unsupported parts of CEL selectors. Caches the matches for the allocation."""
    selectors = selectors_of(objects.resource_slices)
    stored = (objects.device_classes.get(("", name)) for name in sorted(classes))
    of_classes = [device_class.selectors for device_class in stored if device_class is not None]
    for part in objects.resource_slices.values():
        for device in part.devices:
            for expressions in (*of_classes, *(request.selectors for request in requests)):
                try:
                    selectors.match(expressions, part.driver, device)
                except NotModelled as unknown:
                    yield f"the Pod claims devices (DRA): {unknown}"
                except SelectorError:
                    continue  # the selector is not evaluated for devices that the class excludes


def _allocation_lines(claim: ResourceClaim, semantics: Semantics) -> Iterator[str]:
    allocation = claim.allocation
    if allocation is not None and allocation.unmodelled:
        yield f"{allocation.unmodelled} are not modelled"
    awaited = allocation is not None and allocation.readiness is Readiness.AWAITED and allocation.timed
    if awaited and semantics.device_binding_conditions_are_awaited:
        yield "its devices are not ready (binding conditions), and kube-scheduler may have stopped waiting for them"


@dataclass(frozen=True, slots=True)
class Counters:
    """A pool's shared counters: (counter set, counter) -> billionths, and the slices that consume them."""

    values: Mapping[tuple[str, str], int]
    slices: tuple[ResourceSlice, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """A DRA pool with its ResourceSlices for one node.

    `incomplete`: slices of its generation are missing. `invalid`: duplicate device names or inconsistent counters.
    """

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...] = ()
    incomplete: bool = False
    invalid: bool = False
    counters: Counters | None = None

    @property
    def binding_conditions(self) -> bool:
        """Whether a device of the pool must be prepared after its allocation (binding conditions)."""
        return any(device.binding_conditions for part in self.slices for device in part.devices)

    def devices(self) -> Iterator[tuple[ResourceSlice, Device, DeviceId]]:
        """Yield (slice, device, id) for each device, in the order in which the allocator tries the devices."""
        for part in self.slices:
            for device in part.devices:
                yield part, device, DeviceId(self.driver, self.name, device.name)


class Pools:
    """All ResourceSlices of a cluster, indexed by node and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice], semantics: Semantics) -> None:
        self._everywhere = semantics.counters_reach_every_node
        self._by_node: dict[str, list[ResourceSlice]] = {}
        self._shared: list[ResourceSlice] = []
        self._of_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
        self._counters: dict[tuple[str, str, int], Counters | None] = {}
        for part in slices:
            local = part.place.node_name and not (part.counter_sets and self._everywhere)
            (self._by_node.setdefault(part.place.node_name, []) if local else self._shared).append(part)
            self._of_pool.setdefault((part.driver, part.pool), []).append(part)

    @property
    def only_nodes(self) -> Collection[str] | None:
        """The names of the nodes with pools; None if a ResourceSlice may be for several nodes."""
        return None if self._shared else self._by_node

    def node_pools(self, labels: Mapping[str, str], name: str) -> list[Pool]:
        """Return a node's pools by (driver, name), those with binding conditions last. Source: `GatherPools`."""
        slices: dict[tuple[str, str], list[ResourceSlice]] = {}
        for part in charging((*self._by_node.get(name, ()), *self._shared), 1):
            if (part.counter_sets and self._everywhere) or _relevant(part, labels, name):
                _add(slices, part)
        pools = [pool for pool in (self._pool(key, parts) for key, parts in sorted(slices.items())) if pool is not None]
        return [p for p in pools if not p.binding_conditions] + [p for p in pools if p.binding_conditions]

    def reached_from(self, labels: Mapping[str, str], name: str) -> Iterator[tuple[ResourceSlice, Device]]:
        """Yield (slice, device) for all devices that a node can use, of any generation and pool."""
        for part in charging((*self._by_node.get(name, ()), *self._shared), 1):
            if not _relevant(part, labels, name):
                continue
            for device in charging(part.devices, 1):
                if not part.per_device or device.place.reaches(labels, name):
                    yield part, device

    def _pool(self, key: tuple[str, str], parts: Sequence[ResourceSlice]) -> Pool | None:
        """Return the pool of a node's slices; None if slices of a newer generation exist. `key`: (driver, pool)."""
        generation, wanted = parts[0].generation, parts[0].slices
        every = parts
        if len(parts) != wanted:
            of_pool = self._of_pool[key]
            if any(part.generation > generation for part in of_pool):
                return None
            every = [part for part in of_pool if part.generation == generation]
            if len(every) != wanted:
                return Pool(*key, incomplete=True)
        targeting = [part for part in parts if not part.counter_sets]
        names = [device.name for part in targeting for device in part.devices]
        counters = self._counters_of(key, every)
        if counters is None or len(names) != len(set(names)):
            return Pool(*key, invalid=True)
        return Pool(*key, slices=tuple(sorted(targeting, key=lambda part: part.name)), counters=counters)

    def _counters_of(self, key: tuple[str, str], parts: Sequence[ResourceSlice]) -> Counters | None:
        """Return a pool's counters, cached for complete pools; None if counter sets are duplicate or unknown."""
        generation = parts[0].generation
        if len(parts) != sum(part.generation == generation for part in self._of_pool[key]):
            return _read_counters(parts)
        place = (*key, generation)
        if place not in self._counters:
            self._counters[place] = _read_counters(parts)
        return self._counters[place]


def _read_counters(parts: Sequence[ResourceSlice]) -> Counters | None:
    """Return the counters of slices; None if counter sets are duplicate or unknown.

    Source: upstream `getAndValidateCounterSets`, `validateDeviceCounterConsumption`.
    """
    sets = [counter_set for part in parts for counter_set in part.counter_sets]
    by_name = {counter_set.name: counter_set.counters for counter_set in sets}
    if len(by_name) != len(sets):
        return None
    slices = tuple(part for part in parts if not part.counter_sets)
    for part in slices:
        for device in part.devices:
            charge(1 + len(device.consumes))
            for taken in device.consumes:
                if taken.name not in by_name or not taken.counters.keys() <= by_name[taken.name].keys():
                    return None
    values = {(name, counter): value for name, counters in by_name.items() for counter, value in counters.items()}
    return Counters(values, slices)


def _relevant(part: ResourceSlice, labels: Mapping[str, str], name: str) -> bool:
    place = part.place
    if place.node_name or place.all_nodes or place.selector is not None:
        return place.reaches(labels, name)
    return part.per_device and any(device.place.reaches(labels, name) for device in part.devices)


def _add(pools: dict[tuple[str, str], list[ResourceSlice]], part: ResourceSlice) -> None:
    """Add a slice to its pool, replacing slices of an older generation; an older slice is ignored."""
    key = part.driver, part.pool
    present = pools.get(key)
    if present is None or part.generation > present[0].generation:
        pools[key] = [part]
    elif part.generation == present[0].generation:
        present.append(part)


@dataclass(frozen=True, slots=True)
class InUse:
    """The used devices. `dedicated`: devices that one claim uses alone. `shared`: device -> capacity -> used amount in
    billionths.

    Allocations with admin access do not count.
    """

    dedicated: frozenset[DeviceId]
    shared: Mapping[DeviceId, Mapping[str, int]]

    @classmethod
    def from_allocations(cls, allocations: Iterable[Allocation | None]) -> InUse:
        """Return the devices that these allocations use in total. None: a claim without allocation."""
        dedicated: set[DeviceId] = set()
        shared: dict[DeviceId, dict[str, int]] = {}
        for device in (device for a in allocations if a is not None for device in a.devices):
            if device.admin_access:
                continue
            if device.share is None:
                dedicated.add(device.id)
                continue
            add_to(shared.setdefault(device.id, {}), device.share)
        return cls(frozenset(dedicated), shared)

    def has(self, device: DeviceId) -> bool:
        """Report whether a claim uses the device. Source: upstream `IsDeviceAllocated`."""
        return device in self.dedicated or device in self.shared


_MILLI: Final = NANO // 1000
MAX_SIZE: Final = 2**63 - 1
"""The largest int64, the type in which upstream calculates."""


class NotRepresentable(Exception):
    """The error for an amount that upstream cannot round to the step of a RequestPolicy.

    Since 1.37, the scheduling cycle then fails.
    """


def shares_of(device: Device, wanted: Mapping[str, int], *, fractional: bool) -> dict[str, int]:
    """Return capacity name -> the amount in billionths that a request (`wanted`) consumes of a device. Raises
    NotRepresentable.

    `fractional`: whether steps may be thousandths.
    """
    return {
        name: _consumed(wanted.get(name), value, device.policies.get(name), fractional)
        for name, value in device.capacity.items()
    }


def has_capacity(
    device: Device, wanted: Mapping[str, int], taken: Sequence[Mapping[str, int]], *, fractional: bool
) -> bool:
    """Report whether a request (`wanted`) fits into the free capacity of a device. Raises NotRepresentable.

    `taken`: the amounts of the other shares of the device. `fractional`: whether steps may be thousandths.
    """
    if not wanted.keys() <= device.capacity.keys():
        return False
    for name, share in shares_of(device, wanted, fractional=fractional).items():
        policy = device.policies.get(name)
        if policy is not None and _violates(share, policy, fractional):
            return False
        if share + sum(other.get(name, 0) for other in taken) > device.capacity[name]:
            return False
    return True


def _consumed(wanted: int | None, capacity: int, policy: RequestPolicy | None, fractional: bool) -> int:
    """Return the amount of one capacity that a request consumes. Source: upstream `calculateConsumedCapacity`.

    `wanted` None (no request): the default of the policy, or the whole capacity. Otherwise `wanted`, rounded up as the
    policy requires.
    """
    if wanted is None:
        return capacity if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.least is not None:
        return _stepped(wanted, policy, policy.least, fractional)
    return next((value for value in policy.values if wanted <= value), wanted)


def _stepped(wanted: int, policy: RequestPolicy, least: int, fractional: bool) -> int:
    if wanted < least:
        return least
    if policy.step is None:
        return wanted
    unit = _unit(policy, fractional)
    if unit == _MILLI and not _is_milli(wanted):
        raise NotRepresentable("request is not a representable milli value")
    requested, first, step = (-(-amount // unit) for amount in (wanted, least, policy.step))
    rounded = first + -((first - requested) // step) * step
    if max(requested, rounded) > MAX_SIZE:
        raise NotRepresentable("rounding the request up to the next step passes the largest number")
    return rounded * unit


def _violates(share: int, policy: RequestPolicy, fractional: bool) -> bool:
    if share == policy.default:
        return False
    if policy.maximum is not None and share > policy.maximum:
        return True
    if policy.step is not None and policy.least is not None:
        unit = _unit(policy, fractional)
        rounded, first, step = (-(-amount // unit) for amount in (share, policy.least, policy.step))
        return (unit == _MILLI and not _is_milli(share)) or (rounded - first) % step != 0
    ranged = not (policy.least is policy.maximum is policy.step is None)
    return not ranged and bool(policy.values) and share not in policy.values


def _unit(policy: RequestPolicy, fractional: bool) -> int:
    """Return the unit of the policy's steps: one, or a thousandth. Source: upstream `useMilli`."""
    bounds = [bound for bound in (policy.least, policy.maximum, policy.step) if bound is not None]
    return _MILLI if fractional and all(map(_is_milli, bounds)) else NANO


def _is_milli(amount: int) -> bool:
    return amount % _MILLI == 0 and amount // _MILLI <= MAX_SIZE
