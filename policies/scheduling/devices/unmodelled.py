"""Find parts of claims and slices that forewarn does not model: parts behind disabled gates, and too large amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.metering import each
from forewarn.policies.quantity import NANO
from forewarn.policies.scheduling.devices.capacity import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forewarn.policies.objects.devices import Device, DeviceRequest, RequestPolicy, ResourceClaim, ResourceSlice
    from forewarn.policies.releases.semantics import Semantics

_SHARED: Final = "shares of a device (DRAConsumableCapacity)"
_PARTITIONED: Final = "counters of devices (DRAPartitionableDevices)"
_LARGE: Final = 2**43 * NANO
"""8Ti: upstream stores larger amounts by reference."""
_TOO_LARGE: Final = "amounts of devices of this size"


def first_not_modelled(claims: Iterable[ResourceClaim], slices: Iterable[ResourceSlice], semantics: Semantics) -> str:
    """Return the first part of claims or slices that forewarn does not model, as a sentence; "" if all parts are
    modelled.
    """
    of_claims = (what for claim in claims for what in _of_claim(claim, semantics))
    offered = (what for part in slices for what in _of_slice(part, semantics))
    found = next(filter(None, of_claims), "") or next(filter(None, offered), "")
    return found and f"{found} are not modelled"


def _of_claim(claim: ResourceClaim, semantics: Semantics) -> Iterator[str]:
    yield claim.unmodelled
    for request in claim.requests:
        for alternative in request.alternatives or (request,):
            yield _of_request(alternative, semantics)
    if not semantics.devices_are_shared and any(constraint.distinct for constraint in claim.constraints):
        yield "constraints with distinctAttribute (DRAConsumableCapacity)"


def _of_request(request: DeviceRequest, semantics: Semantics) -> str:
    if request.capacity and not semantics.devices_are_shared:
        return "capacity of a request (DRAConsumableCapacity)"
    return _of_amounts(request.capacity.values(), semantics)


def _of_slice(part: ResourceSlice, semantics: Semantics) -> Iterator[str]:
    yield part.unmodelled
    if not semantics.devices_are_partitioned and (part.counter_sets or part.per_device):
        yield _PARTITIONED
    for counter_set in part.counter_sets:
        yield _of_amounts(counter_set.counters.values(), semantics)
    for device in each(part.devices, 1) if part.divided else ():
        yield from _of_device(device, semantics)


def _of_device(device: Device, semantics: Semantics) -> Iterator[str]:
    if device.shared and not semantics.devices_are_shared:
        yield _SHARED
    if device.consumes and not semantics.devices_are_partitioned:
        yield _PARTITIONED
    for taken in device.consumes:
        yield _of_amounts(taken.counters.values(), semantics)
    yield from map(_of_policy, device.policies.values())


def _of_policy(policy: RequestPolicy) -> str:
    bounds = [bound for bound in (policy.least, policy.maximum, policy.step) if bound is not None]
    stepped = policy.step is None or (policy.step > 0 and policy.least is not None)
    counted = stepped and all(0 <= bound <= LARGEST * NANO for bound in bounds)
    return "" if counted else "request policies without usable steps"


def _of_amounts(amounts: Iterable[int], semantics: Semantics) -> str:
    most = _LARGE if semantics.large_amounts_of_devices_go_wrong else LARGEST * NANO
    return "" if all(0 <= amount < most for amount in amounts) else _TOO_LARGE
