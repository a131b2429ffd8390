"""The pools of devices that a node reaches. Source: dynamic-resource-allocation `structured/internal/*/pools_*.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.metering import each
from policies.objects.devices import Device, DeviceId, ResourceSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Pool:
    """The slices of a pool that target a node. `incomplete`: not all of its slices are there; `invalid`: no use."""

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...] = ()
    incomplete: bool = False
    invalid: bool = False

    @property
    def binding_conditions(self) -> bool:
        """Whether a device of it must be made ready once it is chosen: such pools are asked last."""
        return any(device.binding_conditions for part in self.slices for device in part.devices)

    def devices(self) -> Iterator[tuple[ResourceSlice, Device, DeviceId]]:
        """Its devices, in the order in which they are tried."""
        for part in self.slices:
            for device in part.devices:
                yield part, device, DeviceId(self.driver, self.name, device.name)


class Pools:
    """All slices of a cluster, by what they are asked for."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._by_node: dict[str, list[ResourceSlice]] = {}
        self._shared: list[ResourceSlice] = []
        self._of_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
        for part in slices:
            (self._by_node.setdefault(part.place.node_name, []) if part.place.node_name else self._shared).append(part)
            self._of_pool.setdefault((part.driver, part.pool), []).append(part)

    def of_node(self, labels: Mapping[str, str], name: str) -> list[Pool]:
        """The pools with slices for a node. Source: upstream `GatherPools`."""
        found: dict[tuple[str, str], list[ResourceSlice]] = {}
        for part in each((*self._by_node.get(name, ()), *self._shared), 1):
            if _relevant(part, labels, name):
                _add(found, part)
        pools = [pool for pool in (self._pool(key, parts) for key, parts in sorted(found.items())) if pool is not None]
        return [p for p in pools if not p.binding_conditions] + [p for p in pools if p.binding_conditions]

    def reached_from(self, labels: Mapping[str, str], name: str) -> Iterator[tuple[ResourceSlice, Device]]:
        """All devices that a node reaches, of whatever generation and pool."""
        for part in each((*self._by_node.get(name, ()), *self._shared), 1):
            if not _relevant(part, labels, name):
                continue
            for device in each(part.devices, 1):
                if not part.per_device or device.place.reaches(labels, name):
                    yield part, device

    def _pool(self, key: tuple[str, str], parts: Sequence[ResourceSlice]) -> Pool | None:
        """None where there are newer slices than those for this node."""
        generation, wanted = parts[0].generation, parts[0].slices
        if len(parts) != wanted:
            every = self._of_pool[key]
            if any(part.generation > generation for part in every):
                return None
            if sum(part.generation == generation for part in every) != wanted:
                return Pool(*key, incomplete=True)
        names = [device.name for part in parts for device in part.devices]
        if len(names) != len(set(names)):
            return Pool(*key, invalid=True)
        return Pool(*key, slices=tuple(sorted(parts, key=lambda part: part.name)))


def _relevant(part: ResourceSlice, labels: Mapping[str, str], name: str) -> bool:
    place = part.place
    if place.node_name or place.all_nodes or place.selector is not None:
        return place.reaches(labels, name)
    return part.per_device and any(device.place.reaches(labels, name) for device in part.devices)


def _add(pools: dict[tuple[str, str], list[ResourceSlice]], part: ResourceSlice) -> None:
    """Slices of an older generation do not count."""
    key = part.driver, part.pool
    present = pools.get(key)
    if present is None or part.generation > present[0].generation:
        pools[key] = [part]
    elif part.generation == present[0].generation:
        present.append(part)
