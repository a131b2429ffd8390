"""Counters of pools with partitionable devices: what an allocation may still consume, and consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.metering import meter
from forewarn.policies.objects.devices import DeviceId

if TYPE_CHECKING:
    from forewarn.policies.objects.devices import Device
    from forewarn.policies.scheduling.devices.in_use import InUse
    from forewarn.policies.scheduling.devices.pools import Counters, Pool


class ConsumedCounters:
    """The counters that the devices of one attempt consume, by (driver, pool).

    `remaining`: the amounts that devices in use leave of a pool; a cache that `take` fills.
    """

    def __init__(self, remaining: dict[tuple[str, str], dict[tuple[str, str], int]], in_use: InUse) -> None:
        self._remaining, self._in_use, self._work = remaining, in_use, meter()
        self._consumed: dict[tuple[str, str], dict[tuple[str, str], int]] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Consume the counters of a device and return True; return False without changes if the pool has too few.

        Source: upstream `checkAvailableCounters`.
        """
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
