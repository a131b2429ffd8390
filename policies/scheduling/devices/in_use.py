"""Devices and capacities that ResourceClaims use. Source: kubernetes `plugins/dynamicresources/allocateddevices.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn.policies.objects.devices import Allocation, DeviceId


@dataclass(frozen=True, slots=True)
class InUse:
    """The used devices. `dedicated`: devices of which one claim uses everything. `shared`: device -> capacity -> used
    amount in billionths.

    Allocations with admin access do not count.
    """

    dedicated: frozenset[DeviceId]
    shared: Mapping[DeviceId, Mapping[str, int]]

    @classmethod
    def of(cls, allocations: Iterable[Allocation | None]) -> InUse:
        """Return the devices that these allocations use in total. None: a claim without allocation."""
        dedicated: set[DeviceId] = set()
        shared: dict[DeviceId, dict[str, int]] = {}
        for device in (device for a in allocations if a is not None for device in a.devices):
            if device.admin_access:
                continue
            if device.share is None:
                dedicated.add(device.id)
                continue
            sums = shared.setdefault(device.id, {})
            for name, amount in device.share.items():
                sums[name] = sums.get(name, 0) + amount
        return cls(frozenset(dedicated), shared)

    def has(self, device: DeviceId) -> bool:
        """Report whether a claim uses the device. Source: upstream `IsDeviceAllocated`."""
        return device in self.dedicated or device in self.shared
