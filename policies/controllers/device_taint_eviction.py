"""The time at which NoExecute taints of devices evict a Pod. Source: pkg/controller/devicetainteviction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.objects.devices import DeviceId
from forewarn.policies.objects.taints import NO_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.objects.devices import (
        AllocatedDevice,
        DeviceTaint,
        DeviceTaintRule,
        ResourceClaim,
        ResourceSlice,
    )
    from forewarn.policies.objects.pod import Pod


def taints_of_devices(slices: Iterable[ResourceSlice]) -> dict[DeviceId, tuple[DeviceTaint, ...]]:
    """Return device -> taints, from the newest generation of each pool."""
    newest: dict[tuple[str, str], int] = {}
    parts = tuple(slices)
    for part in parts:
        key = part.driver, part.pool
        newest[key] = max(part.generation, newest.get(key, part.generation))
    return {
        DeviceId(part.driver, part.pool, device.name): device.taints
        for part in parts
        if part.generation == newest[part.driver, part.pool]
        for device in part.devices
        if device.taints
    }


def eviction_time(
    pod: Pod,
    claims: Mapping[tuple[str, str], ResourceClaim],
    taints: Mapping[DeviceId, Sequence[DeviceTaint]],
    rules: Iterable[DeviceTaintRule],
) -> int | None:
    """Return the time at which taints of devices evict the Pod, in seconds since 1970; None if they do not.

    `claims`: by (namespace, name). Source: upstream `podEvictionTime`, `claimEvictionTime`.
    """
    evicting = [rule for rule in rules if rule.taint.effect == NO_EXECUTE]
    due: list[int] = []
    for wanted in pod.device_claims:
        claim = claims.get((pod.namespace, wanted.claim or ""))
        if claim is None or claim.allocation is None or pod.uid not in claim.reserved_for:
            continue
        if wanted.template and claim.owner_uid != pod.uid:
            continue
        for device in claim.allocation.devices:
            due += _times(device, taints.get(device.id, ()), evicting)
    return min(due, default=None)


def _times(device: AllocatedDevice, taints: Sequence[DeviceTaint], rules: Sequence[DeviceTaintRule]) -> Iterator[int]:
    of_rules = (rule.taint for rule in rules if rule.taints(device.id))
    for taint in (*taints, *of_rules):
        if taint.effect != NO_EXECUTE:
            continue
        used = [t for t in device.tolerations if t.effect == NO_EXECUTE and t.tolerates(taint)]
        seconds = [max(t.seconds, 0) for t in used if t.seconds is not None]
        if len(seconds) == len(used):
            yield (taint.added or 0) + min(seconds, default=0)
