"""Allocates claims on a node as upstream's allocator does: depth first, devices in order, alternatives in order.

Source: dynamic-resource-allocation `structured/internal/incubating/allocator_incubating.go`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.metering import meter
from policies.objects.devices import ALL, AllocatedDevice, Allocation, Attribute, DeviceId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.objects.devices import (
        Device,
        DeviceClass,
        DeviceConstraint,
        DeviceRequest,
        DeviceTaintRule,
        ResourceClaim,
        ResourceSlice,
    )
    from policies.scheduling.devices.pools import Pool

MOST_RESULTS: Final = 32
"""Devices of one claim at most (upstream `AllocationResultsMaxSize`)."""
MOST_STEPS: Final = 20_000
"""Devices that are tried on one node at most: upstream gives up after ten seconds."""
NO_SCHEDULE: Final = ("NoSchedule", "NoExecute")

Found = tuple["ResourceSlice", "Device", DeviceId]


class AllocationError(Exception):
    """Upstream ends the scheduling cycle with this error."""


class NodeFailure(Exception):
    """The node cannot be used; others may."""


class _TooMany(Exception):
    """A claim would get more devices than one may have."""


class World(NamedTuple):
    """What allocation goes by beside the claims. `matches`: whether all CEL selectors match a device of a driver.
    `taint_rules`: taints that devices have beside those of their slices."""

    classes: Mapping[tuple[str, str], DeviceClass]
    in_use: frozenset[DeviceId]
    matches: Callable[[tuple[str, ...], str, Device], bool]
    taints: bool
    binding_conditions: bool
    taint_rules: Sequence[DeviceTaintRule] = ()


class Node(NamedTuple):
    """The node that is asked for."""

    name: str
    labels: Mapping[str, str]
    pools: Sequence[Pool]


class Allocator:
    """One try to allocate claims on one node."""

    def __init__(self, world: World, node: Node, claims: Sequence[ResourceClaim]) -> None:
        self._world, self._node, self._claims = world, node, claims
        self._work, self._steps = meter(), MOST_STEPS
        usable = (pool for pool in node.pools if not (pool.incomplete or pool.invalid))
        self._tried = [found for pool in usable for found in pool.devices()]
        self._taken: list[tuple[int, DeviceId]] = []
        self._results: list[list[tuple[AllocatedDevice, Device]]] = [[] for _ in claims]
        self._all: dict[tuple[int, int, int], list[Found]] = {}
        self._selectable: dict[tuple[int, int, int, DeviceId], bool] = {}

    def allocate(self) -> list[Allocation] | None:
        """What each claim gets, None where not all get what they ask for. Raises AllocationError and NodeFailure."""
        for claim_index, claim in enumerate(self._claims):
            self._prepare(claim_index, claim)
        if not self._claim(0):
            if any(pool.invalid for pool in self._node.pools):
                raise NodeFailure("invalid resource pools were encountered")
            return None
        return [Allocation(tuple(allocated for allocated, _ in results)) for results in self._results]

    def _prepare(self, claim_index: int, claim: ResourceClaim) -> None:
        """Find the devices of requests for all there are. Source: `validateDeviceRequest`."""
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
                self._all[key] = [
                    found for found in self._every(claim, alternative) if self._fits(key, alternative, found)
                ]
                counts.append(len(self._all[key]))
            least += min(counts)
        if least > MOST_RESULTS:
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
        return [found for pool in self._node.pools for found in pool.devices()]

    def _claim(self, claim_index: int) -> bool:
        if claim_index >= len(self._claims):
            return True
        try:
            return self._request(claim_index, 0)
        except _TooMany:
            return False

    def _request(self, claim_index: int, index: int) -> bool:
        """Allocate this request and all after it."""
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
        """Allocate what a request still lacks, from this place in the devices, and all requests after it."""
        every = self._all.get(key)
        if every is not None and not every:
            return False
        wanted = request.count if every is None else len(every)
        if have >= wanted:
            return self._request(key[0], key[1] + 1)
        if len(self._results[key[0]]) + wanted - have > MOST_RESULTS:
            raise _TooMany
        if every is not None:
            return self._with(key, request, every[have], partial(self._devices, key, request, have + 1, 0))
        for place, found in enumerate(self._tried[start:], start):
            self._step()
            if self._in_use(found[2], key[0], request) or not self._fits(key, request, found):
                continue
            if self._with(key, request, found, partial(self._devices, key, request, have + 1, place + 1)):
                return True
        return False

    def _step(self) -> None:
        self._work.charge(2)
        self._steps -= 1
        if self._steps < 0:
            raise AllocationError(f"node {self._node.name}: timed out trying to allocate devices")

    def _in_use(self, device: DeviceId, claim_index: int, request: DeviceRequest) -> bool:
        """A request with admin access may have what others have, but nothing twice."""
        if request.admin_access:
            return (claim_index, device) in self._taken
        return device in self._world.in_use or any(taken == device for _, taken in self._taken)

    def _fits(self, key: tuple[int, int, int], request: DeviceRequest, found: Found) -> bool:
        """Source: upstream `isSelectable`."""
        part, device, identity = found
        if device.binding_conditions and not self._world.binding_conditions:
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

    def _with(self, key: tuple[int, int, int], request: DeviceRequest, found: Found, rest: Callable[[], bool]) -> bool:
        """Take a device and go on; give it back where that comes to nothing. Source: upstream `allocateDevice`."""
        _, device, identity = found
        claim_index, index, _ = key
        if self._in_use(identity, claim_index, request) or self._tainted(device, identity, request):
            return False
        claim = self._claims[claim_index]
        outer = claim.requests[index]
        name = f"{outer.name}/{request.name}" if outer.alternatives else outer.name
        if not all(self._agrees(c, claim_index, outer.name, name, device, identity) for c in claim.constraints):
            if key in self._all:
                told = "/".join(identity)
                what = f"cannot add device {told} because a claim constraint would not be satisfied"
                raise AllocationError(f"claim {claim.key}, request {request.name}: {what}")
            return False
        self._taken.append((claim_index, identity))
        self._results[claim_index].append((AllocatedDevice(name, identity, request.admin_access), device))
        try:
            done = rest()
        except _TooMany:
            self._give_back(claim_index)
            raise
        if not done:
            self._give_back(claim_index)
        return done

    def _give_back(self, claim_index: int) -> None:
        self._taken.pop()
        self._results[claim_index].pop()

    def _tainted(self, device: Device, identity: DeviceId, request: DeviceRequest) -> bool:
        if not self._world.taints:
            return False
        self._work.charge(len(self._world.taint_rules) // 4)
        of_rules = (rule.taint for rule in self._world.taint_rules if rule.taints(identity))
        return any(
            taint.effect in NO_SCHEDULE and not any(t.tolerates(taint) for t in request.tolerations)
            for taint in (*device.taints, *of_rules)
        )

    def _agrees(
        self, constraint: DeviceConstraint, claim_index: int, outer: str, name: str, device: Device, identity: DeviceId
    ) -> bool:
        """Whether a device has the value that those before it have. Source: `matchAttributeConstraint`."""
        if not _concerns(constraint, outer, name):
            return True
        value = attribute_of(device, identity.driver, constraint.attribute)
        if value is None:
            return False
        for allocated, other in self._results[claim_index]:
            if _concerns(constraint, allocated.request.partition("/")[0], allocated.request):
                known = attribute_of(other, allocated.id.driver, constraint.attribute)
                return type(known) is type(value) and known == value
        return True


def _concerns(constraint: DeviceConstraint, outer: str, name: str) -> bool:
    return not constraint.requests or outer in constraint.requests or name in constraint.requests


def attribute_of(device: Device, driver: str, name: str) -> Attribute | None:
    """An attribute by its full name; a driver's own may stand without its domain. Source: `lookupAttribute`."""
    if name in device.attributes:
        return device.attributes[name]
    domain, slash, own = name.partition("/")
    return device.attributes.get(own) if slash and domain == driver else None
