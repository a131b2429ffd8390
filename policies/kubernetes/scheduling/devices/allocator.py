"""Allocate ResourceClaims on a node as upstream's allocator does: depth first, devices and alternatives in order.

Source: dynamic-resource-allocation `structured/internal/incubating/allocator_incubating.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import meter
from forewarn.policies.kubernetes.objects.devices import ALL, AllocatedDevice, Allocation, DeviceId, Readiness
from forewarn.policies.kubernetes.objects.node import FieldRequirement, NodeSelector, NodeSelectorTerm
from forewarn.policies.kubernetes.scheduling.devices.claims import (
    Counters,
    InUse,
    NotRepresentable,
    Pool,
    has_capacity,
    shares_of,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.devices import (
        Attribute,
        Device,
        DeviceClass,
        DeviceConstraint,
        DeviceRequest,
        DeviceTaintRule,
        ResourceClaim,
        ResourceSlice,
    )
    from forewarn.policies.kubernetes.releases.semantics import Semantics


class Constraint:
    """A constraint during one allocation attempt, with the devices that were added to it.

    `matchAttribute`: all devices have the same value of an attribute; `distinctAttribute`: different ones. Until 1.36,
    distinctAttribute has upstream's defect: only the last device of each request counts, until any removal. Upstream
    `matchAttributeConstraint`, `distinctAttributeConstraint`.
    """

    def __init__(self, constraint: DeviceConstraint, semantics: Semantics) -> None:
        self._of, self._only_last = constraint, constraint.distinct and semantics.distinct_values_by_request
        self._values: list[tuple[str, Attribute]] = []

    def add(self, outer: str, name: str, device: Device, identity: DeviceId) -> bool:
        """Add a device if the device satisfies the constraint, and return whether the device does.

        `outer`: name of the request. `name`: name with the alternative (`request/alternative`).
        """
        if not self._applies_to(outer, name):
            return True
        value = attribute_of(device, identity.driver, self._of.attribute)
        if value is None or any(_same(earlier, value) == self._of.distinct for _, earlier in self._values):
            return False
        if self._only_last:
            self._forget(outer)
        self._values.append((outer, value))
        return True

    def remove(self, outer: str, name: str) -> None:
        """Remove the device that was added last for a request."""
        if not self._applies_to(outer, name):
            return
        if self._only_last:
            self._forget(outer)
        else:
            self._values.pop()

    def _forget(self, request: str) -> None:
        self._values = [(outer, value) for outer, value in self._values if outer != request]

    def _applies_to(self, outer: str, name: str) -> bool:
        return not self._of.requests or outer in self._of.requests or name in self._of.requests


def attribute_of(device: Device, driver: str, name: str) -> Attribute | None:
    """Return the attribute `domain/name`, or None. `driver`: the default domain. Source: upstream `lookupAttribute`."""
    if name in device.attributes:
        return device.attributes[name]
    domain, slash, own = name.partition("/")
    return device.attributes.get(own) if slash and domain == driver else None


def _same(one: Attribute, other: Attribute) -> bool:
    return type(one) is type(other) and one == other


class ConsumedCounters:
    """The counters that the devices of one attempt consume, by (driver, pool).

    `remaining`: the amounts that devices in use leave of a pool; a cache that `take` fills.
    """

    def __init__(self, remaining: dict[tuple[str, str], dict[tuple[str, str], int]], in_use: InUse) -> None:
        self._remaining, self._in_use, self._work = remaining, in_use, meter()
        self._consumed: dict[tuple[str, str], dict[tuple[str, str], int]] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Consume a device's counters; False, without changes, if too few. Source: `checkAvailableCounters`."""
        if pool.counters is None:
            return False
        key = pool.driver, pool.name
        if key not in self._remaining:
            self._work.charge(sum(len(part.devices) for part in pool.counters.slices))
            self._remaining[key] = _remaining(pool, pool.counters, self._in_use)
        left = self._remaining[key]
        self._work.charge(len(left) // 4)
        self._add(key, device, 1)
        consumed = self._consumed[key]
        if all(consumed.get(counter, 0) <= amount for counter, amount in left.items()):
            return True
        self.give_back(key, device)
        return False

    def give_back(self, pool: tuple[str, str], device: Device) -> None:
        """Undo `take` for a device of the pool (driver, name)."""
        self._add(pool, device, -1)

    def _add(self, pool: tuple[str, str], device: Device, sign: int) -> None:
        consumed = self._consumed.setdefault(pool, {})
        for taken in device.consumes:
            for name, amount in taken.counters.items():
                consumed[taken.name, name] = consumed.get((taken.name, name), 0) + sign * amount


def _remaining(pool: Pool, counters: Counters, in_use: InUse) -> dict[tuple[str, str], int]:
    """Return (counter set, counter) -> amount that the devices in use leave of a pool; may be negative."""
    left = dict(counters.values)
    for part in counters.slices:
        for device in part.devices:
            if device.consumes and in_use.has(DeviceId(pool.driver, pool.name, device.name)):
                for taken in device.consumes:
                    for name, amount in taken.counters.items():
                        left[taken.name, name] -= amount
    return left


MAX_RESULTS: Final = 32
"""Maximum number of devices of one claim (upstream `AllocationResultsMaxSize`)."""
MAX_STEPS: Final = 20_000
"""Maximum number of devices to try on one node. Upstream tries for 10 s; beyond this number, nothing is predicted."""
NO_SCHEDULE: Final = ("NoSchedule", "NoExecute")

Found = tuple["ResourceSlice", "Device", DeviceId]


class AllocationError(Exception):
    """The error of an allocation for which kube-scheduler ends the scheduling cycle of the Pod with an error."""


class NodeFailure(Exception):
    """The error of an allocation that makes one node unusable for the Pod, while other nodes may be usable."""


class NotWorkedOut(Exception):
    """The error of an allocation that forewarn cannot predict; the message is the reason."""


class _TooMany(Exception):
    """The error if a claim would get more than MAX_RESULTS devices."""


@dataclass(frozen=True, slots=True)
class World:
    """The input of allocations besides the claims. `matches(selectors, driver, device)`: whether all CEL selectors
    match the device.

    `taint_rules`: add taints to the devices' own. `counters`: (driver, pool) -> counter -> remaining amount; the
    Allocator fills this cache.
    """

    classes: Mapping[tuple[str, str], DeviceClass]
    in_use: InUse
    matches: Callable[[tuple[str, ...], str, Device], bool]
    semantics: Semantics
    taint_rules: Sequence[DeviceTaintRule] = ()
    counters: dict[tuple[str, str], dict[tuple[str, str], int]] = field(default_factory=dict)


class Node(NamedTuple):
    """The node of the allocation, and the device pools that it can use."""

    name: str
    labels: Mapping[str, str]
    pools: Sequence[Pool]


class _Result(NamedTuple):
    """A device that is allocated to a claim."""

    allocated: AllocatedDevice
    part: ResourceSlice
    device: Device


class Allocator:
    """One attempt to allocate claims on one node."""

    def __init__(self, world: World, node: Node, claims: Sequence[ResourceClaim]) -> None:
        self._world, self._node, self._claims = world, node, claims
        self._work, self._steps = meter(), MAX_STEPS
        semantics = world.semantics
        self._taints = semantics.enabled("DRADeviceTaints")
        self._binding_conditions = semantics.device_binding_conditions_are_awaited
        self._shares, self._fractional = semantics.devices_are_shared, semantics.capacity_ranges_may_be_fractional
        self._pools = {(pool.driver, pool.name): pool for pool in node.pools}
        usable = (pool for pool in node.pools if not (pool.incomplete or pool.invalid))
        self._tried = [device for pool in usable for device in pool.devices()]
        self._constraints = [[Constraint(item, semantics) for item in claim.constraints] for claim in claims]
        self._allocated: list[tuple[int, DeviceId]] = []
        self._shared: dict[DeviceId, list[Mapping[str, int]]] = {}
        self._counters = ConsumedCounters(world.counters, world.in_use)
        self._results: list[list[_Result]] = [[] for _ in claims]
        self._all: dict[tuple[int, int, int], list[Found]] = {}
        self._selectable: dict[tuple[int, int, int, DeviceId], bool] = {}

    def allocate(self) -> list[Allocation] | None:
        """Return each claim's allocation; None if not all fit. Raises AllocationError, NodeFailure and NotWorkedOut."""
        for claim_index, claim in enumerate(self._claims):
            self._prepare(claim_index, claim)
        if not self._claim(0):
            if any(pool.invalid for pool in self._node.pools):
                raise NodeFailure("invalid resource pools were encountered")
            return None
        return [
            Allocation(tuple(result.allocated for result in results), nodes_of(results, self._node.name))
            for results in self._results
        ]

    def _prepare(self, claim_index: int, claim: ResourceClaim) -> None:
        """Find the devices for allocationMode All. Raises AllocationError. Source: `validateDeviceRequest`."""
        least = 0
        for index, request in enumerate(claim.requests):
            counts = []
            for sub, alternative in enumerate(request.alternatives or (request,)):
                if not self._world.classes.get(("", alternative.device_class)):
                    where = f"claim {claim.key}, request {alternative.name}"
                    raise AllocationError(f"{where}: could not retrieve device class {alternative.device_class}")
                if alternative.mode != ALL:
                    counts.append(alternative.count)
                    continue
                key = claim_index, index, sub
                passed_over = self._world.semantics.full_devices_are_passed_over
                self._all[key] = [
                    count
                    for count in self._every(claim, alternative)
                    if self._fits(key, alternative, count)
                    and self._has_capacity(claim, alternative, count, anew=not passed_over)
                ]
                counts.append(len(self._all[key]))
            least += min(counts)
        if least > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {least} exceeds the claim limit of 32"
            )

    def _every(self, claim: ResourceClaim, request: DeviceRequest) -> list[Found]:
        for pool in self._node.pools:
            if pool.incomplete or pool.invalid:
                what = "is currently being updated" if pool.incomplete else "is currently invalid"
                where = f"claim {claim.key}, request {request.name}"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.driver}/{pool.name} {what}"
                )
        return [device for pool in self._node.pools for device in pool.devices()]

    def _claim(self, claim_index: int) -> bool:
        if claim_index >= len(self._claims):
            return True
        try:
            return self._request(claim_index, 0)
        except _TooMany:
            return False

    def _request(self, claim_index: int, index: int) -> bool:
        """Allocate a request of a claim and all requests after it; return whether all succeed."""
        requests = self._claims[claim_index].requests
        if index >= len(requests):
            return self._claim(claim_index + 1)
        request = requests[index]
        if not request.alternatives:
            return self._devices((claim_index, index, 0), request, 0, 0)
        too_many = True
        for sub, alternative in enumerate(request.alternatives):
            try:
                if self._devices((claim_index, index, sub), alternative, 0, 0):
                    return True
            except _TooMany:
                continue
            too_many = False
        if too_many:
            raise _TooMany
        return False

    def _devices(self, key: tuple[int, int, int], request: DeviceRequest, have: int, start: int) -> bool:
        """Allocate the missing devices of a request and all requests after it; return whether that succeeds.

        `have`: number of devices so far. `start`: index of the first device to try.
        """
        every = self._all.get(key)
        if every is not None and not every:
            return False
        wanted = request.count if every is None else len(every)
        if have >= wanted:
            return self._request(key[0], key[1] + 1)
        if len(self._results[key[0]]) + wanted - have > MAX_RESULTS:
            raise _TooMany
        if every is not None:
            return self._try_device(key, request, every[have], partial(self._devices, key, request, have + 1, 0))
        for place, index in enumerate(self._tried[start:], start):
            self._work.charge(2)
            self._steps -= 1
            if self._steps < 0:
                raise NotWorkedOut(f"tries more than {MAX_STEPS} devices on one node")
            if self._is_in_use(index[2], key[0], request) or not self._fits(key, request, index):
                continue
            if not self._has_capacity(self._claims[key[0]], request, index):
                continue
            if self._try_device(key, request, index, partial(self._devices, key, request, have + 1, place + 1)):
                return True
        return False

    def _is_in_use(self, device: DeviceId, claim_index: int, request: DeviceRequest) -> bool:
        """Report whether a device is in use. Admin access allows devices in use, but no device twice for a claim."""
        if request.admin_access:
            return (claim_index, device) in self._allocated
        return device in self._world.in_use.dedicated or any(taken == device for _, taken in self._allocated)

    def _fits(self, key: tuple[int, int, int], request: DeviceRequest, candidate: Found) -> bool:
        """Report whether the selectors and the node allow a device; cached. Source: upstream `isSelectable`."""
        part, device, identity = candidate
        if device.binding_conditions and not self._binding_conditions:
            return False
        place = (*key, identity)
        if place not in self._selectable:
            self._work.charge(2)
            selectors = self._world.classes["", request.device_class].selectors
            matches = self._world.matches
            fits = matches(selectors, part.driver, device) and matches(request.selectors, part.driver, device)
            if fits and part.per_device:
                fits = device.place.reaches(self._node.labels, self._node.name)
            self._selectable[place] = fits
        return self._selectable[place]

    def _has_capacity(
        self, claim: ResourceClaim, request: DeviceRequest, candidate: Found, *, anew: bool = False
    ) -> bool:
        """Report whether a device has the requested capacity. Source: upstream `CmpRequestOverCapacity`.

        `anew`: count capacity in use as free. Raises AllocationError and NotWorkedOut.
        """
        _, device, identity = candidate
        if not self._shares or not device.capacity:
            return not request.capacity
        in_use = self._world.in_use.shared.get(identity)
        taken = [] if anew else [*([in_use] if in_use else ()), *self._shared.get(identity, ())]
        self._work.charge(len(device.capacity) * (1 + len(taken)))
        try:
            return has_capacity(device, request.capacity, taken, fractional=self._fractional)
        except NotRepresentable as error:
            if self._world.semantics.large_amounts_of_devices_go_wrong:
                raise NotWorkedOut("is asked for more capacity than it can count") from None
            where = f"claim {claim.key}, request {request.name}"
            raise AllocationError(f"{where}: checking capacity for device {device.name}: {error}") from None

    def _try_device(
        self, key: tuple[int, int, int], request: DeviceRequest, candidate: Found, rest: Callable[[], bool]
    ) -> bool:
        """Allocate a device and call `rest`; undo if `rest` fails. Return its result. Source: `allocateDevice`."""
        claim_index, index, _ = key
        outer = self._claims[claim_index].requests[index]
        name = f"{outer.name}/{request.name}" if outer.alternatives else outer.name
        counted = self._takes_counters(candidate)
        if self._is_in_use(candidate[2], claim_index, request):
            return False
        if counted and not self._counters.take(self._pools[candidate[2][:2]], candidate[1]):
            return False
        if not self._passes(key, request, candidate, outer.name, name):
            if counted:
                self._counters.give_back(candidate[2][:2], candidate[1])
            return False
        self._take(claim_index, request, candidate, name)
        try:
            done = rest()
        except _TooMany:
            self._give_back(claim_index, outer.name, counted=counted)
            raise
        if not done:
            self._give_back(claim_index, outer.name, counted=counted)
        return done

    def _passes(
        self, key: tuple[int, int, int], request: DeviceRequest, candidate: Found, outer: str, name: str
    ) -> bool:
        """Report whether taints, constraints and capacity allow a device. If they do, add the device to the
        constraints.

        `outer`: name of the request. `name`: name with the alternative (`request/alternative`).
        """
        _, device, identity = candidate
        claim = self._claims[key[0]]
        if self._tainted(device, identity, request):
            return False
        constraints = self._constraints[key[0]]
        added = 0
        for item in constraints:
            if not item.add(outer, name, device, identity):
                break
            added += 1
        agrees = added == len(constraints)
        if agrees and self._has_capacity(claim, request, candidate):
            return True
        for item in reversed(constraints[:added]):
            item.remove(outer, name)
        if not agrees and key in self._all:
            what = f"cannot add device {'/'.join(identity)} because a claim constraint would not be satisfied"
            raise AllocationError(f"claim {claim.key}, request {request.name}: {what}")
        return False

    def _take(self, claim_index: int, request: DeviceRequest, candidate: Found, name: str) -> None:
        part, device, identity = candidate
        share = None
        if self._shares and device.shared:
            share = shares_of(device, request.capacity, fractional=self._fractional)
            self._shared.setdefault(identity, []).append(share)
        else:
            self._allocated.append((claim_index, identity))
        readiness = Readiness.AWAITED if device.binding_conditions else Readiness.READY
        allocated = AllocatedDevice(name, identity, request.admin_access, share, readiness, request.tolerations)
        self._results[claim_index].append(_Result(allocated, part, device))

    def _give_back(self, claim_index: int, outer: str, *, counted: bool) -> None:
        allocated, _, device = self._results[claim_index].pop()
        identity = allocated.id
        if allocated.share is None:
            self._allocated.pop()
        else:
            self._shared[identity].pop()
        for item in reversed(self._constraints[claim_index]):
            item.remove(outer, allocated.request)
        if counted:
            self._counters.give_back(identity[:2], device)

    def _takes_counters(self, candidate: Found) -> bool:
        """Report whether an allocation consumes the pool's counters: only the first share of a shared device does."""
        _, device, identity = candidate
        if not device.consumes:
            return False
        if not (self._shares and device.shared):
            return True
        in_use = self._world.in_use.shared.get(identity)
        enough = bool(in_use) if self._world.semantics.shares_need_capacity else in_use is not None
        return not (enough or self._shared.get(identity))

    def _tainted(self, device: Device, identity: DeviceId, request: DeviceRequest) -> bool:
        if not self._taints:
            return False
        self._work.charge(len(self._world.taint_rules) // 4)
        of_rules = (rule.taint for rule in self._world.taint_rules if rule.taints(identity))
        return any(
            taint.effect in NO_SCHEDULE and not any(t.tolerates(taint) for t in request.tolerations)
            for taint in (*device.taints, *of_rules)
        )


def nodes_of(results: Sequence[_Result], node: str) -> NodeSelector | None:
    """Return the selector of the nodes that can use all devices of a claim; None for all nodes.

    Raises AllocationError. Source: upstream `createNodeSelector`.
    """
    whole = NodeSelectorTerm()
    for _, part, device in results:
        place = device.place if part.per_device else part.place
        if place.node_name or device.binds_to_node:
            field_requirement = FieldRequirement("metadata.name", "In", node)
            return NodeSelector((NodeSelectorTerm(fields=(field_requirement,), names=frozenset({node})),))
        terms = place.selector.terms if place.selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            expressions = (*whole.expressions, *(e for e in term.expressions if e not in whole.expressions))
            fields = (*whole.fields, *(f for f in term.fields if f not in whole.fields))
            whole = NodeSelectorTerm(expressions, fields, whole.error or term.error)
    return NodeSelector((whole,)) if whole.expressions or whole.fields or whole.error else None
