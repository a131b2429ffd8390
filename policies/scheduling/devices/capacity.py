"""Consumable capacity: what a request takes of a device that several claims may have.

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
"""The largest number that upstream counts with."""


class NotRepresentable(Exception):
    """Upstream cannot count the amount in steps: since 1.37 the scheduling cycle ends with an error."""


def shares_of(device: Device, wanted: Mapping[str, int], *, fractional: bool) -> dict[str, int]:
    """What a request takes of each capacity of a device. Raises NotRepresentable."""
    return {
        name: _taken(wanted.get(name), value, device.policies.get(name), fractional)
        for name, value in device.capacity.items()
    }


def has_room(
    device: Device, wanted: Mapping[str, int], taken: Sequence[Mapping[str, int]], *, fractional: bool
) -> bool:
    """Whether a request fits into what others have left of a device. Raises NotRepresentable."""
    if not wanted.keys() <= device.capacity.keys():
        return False
    for name, share in shares_of(device, wanted, fractional=fractional).items():
        policy = device.policies.get(name)
        if policy is not None and _violates(share, policy, fractional):
            return False
        if share + sum(other.get(name, 0) for other in taken) > device.capacity[name]:
            return False
    return True


def _taken(wanted: int | None, capacity: int, policy: RequestPolicy | None, fractional: bool) -> int:
    """Upstream `calculateConsumedCapacity`: without a request all, or the default; else rounded up by the policy."""
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
    asked, first, step = (-(-amount // unit) for amount in (wanted, least, policy.step))
    found = first + -((first - asked) // step) * step
    if max(asked, found) > LARGEST:
        raise NotRepresentable("rounding the request up to the next step passes the largest number")
    return found * unit


def _violates(share: int, policy: RequestPolicy, fractional: bool) -> bool:
    if share == policy.default:
        return False
    if policy.most is not None and share > policy.most:
        return True
    if policy.step is not None and policy.least is not None:
        unit = _unit(policy, fractional)
        amounts = (share, policy.least, policy.step)
        rounded, first, step = (-(-amount // unit) for amount in amounts)
        return (unit == _MILLI and not _in_milli(share)) or (rounded - first) % step != 0
    ranged = not (policy.least is policy.most is policy.step is None)
    return not ranged and bool(policy.values) and share not in policy.values


def _unit(policy: RequestPolicy, fractional: bool) -> int:
    """Whole numbers, or thousandths. Source: upstream `useMilli`."""
    bounds = [bound for bound in (policy.least, policy.most, policy.step) if bound is not None]
    return _MILLI if fractional and all(map(_in_milli, bounds)) else NANO


def _in_milli(amount: int) -> bool:
    return amount % _MILLI == 0 and amount // _MILLI <= LARGEST
