"""The device pools that a node can use. Source: dynamic-resource-allocation `structured/internal/*/pools_*.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.metering import charge, each
from forewarn.policies.objects.devices import Device, DeviceId, ResourceSlice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.objects.devices import Allocation
    from forewarn.policies.releases.semantics import Semantics


@dataclass(frozen=True, slots=True)
class Counters:
    """The shared counters of a pool: (counter set, counter) -> billionths, and the slices whose devices consume
    them.
    """

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

    def of_node(self, labels: Mapping[str, str], name: str) -> list[Pool]:
        """Return the pools with slices for a node, by (driver, name); pools with binding conditions last.

        Source: upstream `GatherPools`.
        """
        slices: dict[tuple[str, str], list[ResourceSlice]] = {}
        for part in each((*self._by_node.get(name, ()), *self._shared), 1):
            if (part.counter_sets and self._everywhere) or _relevant(part, labels, name):
                _add(slices, part)
        pools = [pool for pool in (self._pool(key, parts) for key, parts in sorted(slices.items())) if pool is not None]
        return [p for p in pools if not p.binding_conditions] + [p for p in pools if p.binding_conditions]

    def reached_from(self, labels: Mapping[str, str], name: str) -> Iterator[tuple[ResourceSlice, Device]]:
        """Yield (slice, device) for all devices that a node can use, of any generation and pool."""
        for part in each((*self._by_node.get(name, ()), *self._shared), 1):
            if not _relevant(part, labels, name):
                continue
            for device in each(part.devices, 1):
                if not part.per_device or device.place.reaches(labels, name):
                    yield part, device

    def _pool(self, key: tuple[str, str], parts: Sequence[ResourceSlice]) -> Pool | None:
        """Return the pool that consists of a node's slices `parts`; None if the cluster has slices of a newer
        generation of the pool.

        `key`: (driver, pool).
        """
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
        """Return the counters of a pool's slices, cached for complete pools; None if counter sets are duplicate
        or unknown.
        """
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
