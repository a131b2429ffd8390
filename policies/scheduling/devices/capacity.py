"""Consumable capacity: the amounts that a request consumes of a device that several claims may share.

Source: dynamic-resource-allocation `structured/internal/incubating/consumable_capacity.go`. Amounts are in billionths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.quantity import NANO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.objects.devices import Device, RequestPolicy

_MILLI: Final = NANO // 1000
LARGEST: Final = 2**63 - 1
"""The largest number of upstream's int64 arithmetic."""


class NotRepresentable(Exception):
    """The error for an amount that upstream cannot round to the step of a RequestPolicy.

    Since 1.37, the scheduling cycle then fails.
    """


def shares_of(device: Device, wanted: Mapping[str, int], *, fractional: bool) -> dict[str, int]:
    """Return capacity name -> amount in billionths that a request (`wanted`) consumes of a device. Raises
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
    if unit == _MILLI and not _in_milli(wanted):
        raise NotRepresentable("request is not a representable milli value")
    requested, first, step = (-(-amount // unit) for amount in (wanted, least, policy.step))
    rounded = first + -((first - requested) // step) * step
    if max(requested, rounded) > LARGEST:
        raise NotRepresentable("rounding the request up to the next step passes the largest number")
    return rounded * unit


def _violates(share: int, policy: RequestPolicy, fractional: bool) -> bool:
    if share == policy.default:
        return False
    if policy.maximum is not None and share > policy.maximum:
        return True
    if policy.step is not None and policy.least is not None:
        unit = _unit(policy, fractional)
        amounts = (share, policy.least, policy.step)
        rounded, first, step = (-(-amount // unit) for amount in amounts)
        return (unit == _MILLI and not _in_milli(share)) or (rounded - first) % step != 0
    ranged = not (policy.least is policy.maximum is policy.step is None)
    return not ranged and bool(policy.values) and share not in policy.values


def _unit(policy: RequestPolicy, fractional: bool) -> int:
    """Return the unit of the policy's steps: one, or a thousandth. Source: upstream `useMilli`."""
    bounds = [bound for bound in (policy.least, policy.maximum, policy.step) if bound is not None]
    return _MILLI if fractional and all(map(_in_milli, bounds)) else NANO


def _in_milli(amount: int) -> bool:
    return amount % _MILLI == 0 and amount // _MILLI <= LARGEST
