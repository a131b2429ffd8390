"""Copy-on-write tables: the mutable Cache updates a table; freezing a table for a snapshot costs little."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from copy import copy
from itertools import chain
from typing import Any, Final, Generic, Self, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
G = TypeVar("G", bound=tuple[str, ...])

_SHARDS: Final = 256
_SHARDS_OF_A_GROUP: Final = 16


class _Shard(dict[K, V]):
    """One of the dicts that make up a table.

    `derived`: function -> value that the function computed from the frozen shard. A frozen shard never changes; the
    copy that a later write makes has no such values.
    """

    __slots__ = ("derived",)

    def __init__(self, entries: Mapping[K, V] | tuple[()] = ()) -> None:
        super().__init__(entries)
        self.derived: dict[object, Any] | None = None


class FrozenTable(Mapping[K, V], Generic[K, V]):
    """An immutable mapping that shares its shards with the Table it was frozen from."""

    __slots__ = ("_length", "_shards")

    def __init__(self, shards: tuple[_Shard[K, V], ...] | None = None, length: int = 0) -> None:
        self._shards, self._length = shards or (_Shard(),), length

    def derived(self, make: Callable[[Mapping[K, V]], T]) -> list[T]:
        """Return `make(shard)` for each shard. Each result is cached in its shard, which snapshots may share."""
        return [_derived(shard, make) for shard in self._shards]

    def __getitem__(self, key: K) -> V:
        return self._shards[hash(key) % len(self._shards)][key]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...

    def get(self, key: K, /, default: V | T | None = None) -> V | T | None:
        """Return the value of a key, or `default`. Faster than Mapping's method, which raises and catches KeyError."""
        return self._shards[hash(key) % len(self._shards)].get(key, default)

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            yield from shard

    def __len__(self) -> int:
        return self._length

    @property
    def shards(self) -> tuple[Mapping[K, V], ...]:
        """The shards of the table. A shard that is the same object as in an older table has not changed."""
        return self._shards

    def items(self) -> ItemsView[K, V]:
        """Return the items view, whose iteration looks up no keys."""
        return _Items(self, self._shards)

    def values(self) -> ValuesView[V]:
        """Return the values view, whose iteration looks up no keys."""
        return _Values(self, self._shards)


def derived(table: Mapping[K, V], make: Callable[[Mapping[K, V]], T]) -> list[T]:
    """Return `make(shard)` for each shard of a frozen table (cached), or `make(table)` of others (not cached)."""
    return table.derived(make) if isinstance(table, FrozenTable | FrozenGroups) else [make(table)]


def replaced(old: Mapping[K, V], new: Mapping[K, V]) -> dict[K, V] | None:
    """Return the entries of a frozen table that differ from those of an older one; None if keys were added or removed,
    or for other mappings.
    """
    if not isinstance(old, FrozenTable) or not isinstance(new, FrozenTable) or len(old.shards) != len(new.shards):
        return None
    changed: dict[K, V] = {}
    for before, after in zip(old.shards, new.shards, strict=True):
        if before is not after:
            if before.keys() != after.keys():
                return None
            changed |= {key: value for key, value in after.items() if before[key] is not value}
    return changed


def _derived(shard: _Shard[K, V], make: Callable[[Mapping[K, V]], T]) -> T:
    earlier = shard.derived
    if earlier is None or make not in earlier:
        earlier = shard.derived = {**(earlier or {}), make: make(shard)}  # new, because others may read the old one
    result: T = earlier[make]
    return result


class _Items(ItemsView[K, V]):
    """An items view that iterates over the shards without looking up keys."""

    __slots__ = ("_shards",)

    def __init__(self, table: Mapping[K, V], shards: tuple[Mapping[K, V], ...]) -> None:
        super().__init__(table)
        self._shards = shards

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(shard.items() for shard in filter(None, self._shards))


class _Values(ValuesView[V]):
    """A values view that iterates over the shards without looking up keys."""

    __slots__ = ("_shards",)

    def __init__(self, table: Mapping[K, V], shards: tuple[Mapping[K, V], ...]) -> None:
        super().__init__(table)
        self._shards = shards

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in filter(None, self._shards))


class Table(Generic[K, V]):
    """A mutable mapping with one owner. The first write to a shard after `freeze` copies only that shard.

    Empty shards are the same object, because most tables of a small cluster stay empty.
    """

    def __init__(self, shards: int = _SHARDS) -> None:
        self._shards: list[_Shard[K, V]] = [_Shard()] * shards
        self._shared = bytearray(b"\1" * shards)
        self._length = 0
        self._frozen: FrozenTable[K, V] | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            yield from shard

    def get(self, key: K) -> V | None:
        return self._shards[hash(key) % len(self._shards)].get(key)

    def put(self, key: K, value: V) -> bool:
        """Set the value of a key, replacing an old value. Return whether the key is new."""
        shard = self._own(key)
        is_new = key not in shard
        self._length += is_new
        shard[key] = value
        return is_new

    def pop(self, key: K) -> V | None:
        """Remove a key and return its value, or None if the key is missing."""
        if self.get(key) is None:
            return None
        self._length -= 1
        return self._own(key).pop(key)

    def freeze(self) -> FrozenTable[K, V]:
        """Return an immutable mapping with the current entries. O(1) if nothing changed, else O(shards)."""
        if self._frozen is None:
            self._shared = bytearray(b"\1" * len(self._shards))
            self._frozen = FrozenTable(tuple(self._shards), self._length)
        return self._frozen

    def copy(self) -> Self:
        """Return a table with the same entries; later changes of one do not affect the other."""
        self.freeze()
        table = copy(self)
        vars(table).update(_shards=[*self._shards], _shared=bytearray(self._shared))
        return table

    def _own(self, key: K) -> dict[K, V]:
        """Return the shard of a key for writing; copy the shard first if a frozen table shares it."""
        index = hash(key) % len(self._shards)
        self._frozen = None
        if self._shared[index]:
            self._shards[index] = _Shard(self._shards[index])
            self._shared[index] = 0
        return self._shards[index]


class Overlay(Generic[K, V]):
    """A mutable mapping that stores changes on top of a base mapping, which may be large and is not modified."""

    __slots__ = ("_base", "_changed", "_frozen")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base, self._changed = base, dict[K, V]()
        self._frozen: Mapping[K, V] | None = base

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        value = self._changed.get(key)
        return self._base.get(key) if value is None else value

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, replacing an old value."""
        self._changed[key] = value
        self._frozen = None

    def pop(self, key: K) -> None:
        """Remove a key. Copies the base mapping if the key is in it."""
        self._changed.pop(key, None)
        if key in self._base:
            self._base = {other: value for other, value in self._base.items() if other != key}
        self._frozen = None

    def freeze(self) -> Mapping[K, V]:
        """Return a mapping with the current entries, which later changes do not affect."""
        if self._frozen is None:
            self._frozen = ChainMap({**self._changed}, cast("MutableMapping[K, V]", self._base))
        return self._frozen


class FrozenGroups(Mapping[G, V], Generic[G, V]):
    """An immutable mapping with tuple keys, which can return all entries of one group without a search.

    `place`: the index of the group's name in a key.
    """

    __slots__ = ("_groups", "_length", "_place")

    def __init__(self, groups: FrozenTable[str, FrozenTable[G, V]], length: int, place: int) -> None:
        self._groups, self._length, self._place = groups, length, place

    def group(self, name: str) -> Mapping[G, V]:
        """Return the entries of one group; empty for an unknown group."""
        return self._groups.get(name) or FrozenTable()

    def derived(self, make: Callable[[Mapping[G, V]], T]) -> list[T]:
        """Return `make(shard)` for each shard of each group, cached as in FrozenTable."""
        return [value for group in self._groups.values() for value in group.derived(make)]

    def __getitem__(self, key: G) -> V:
        return self.group(key[self._place])[key]

    @overload
    def get(self, key: G, /) -> V | None: ...

    @overload
    def get(self, key: G, /, default: V | T) -> V | T: ...

    def get(self, key: G, /, default: V | T | None = None) -> V | T | None:
        """Return the value of a key, or `default`."""
        return self.group(key[self._place]).get(key, default)

    def __iter__(self) -> Iterator[G]:
        return chain.from_iterable(self._groups.values())

    def __len__(self) -> int:
        return self._length

    def items(self) -> ItemsView[G, V]:
        """Return the items view, whose iteration looks up no keys."""
        return _Items(self, self._parts())

    def values(self) -> ValuesView[V]:
        """Return the values view, whose iteration looks up no keys."""
        return _Values(self, self._parts())

    def _parts(self) -> tuple[Mapping[G, V], ...]:
        return tuple(self._groups.values())


class GroupedTable(Generic[G, V]):
    """A mutable mapping with tuple keys, as one Table for each group. `place`: the index of the group in a key."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._groups: dict[str, Table[G, V]] = {}
        self._frozen_groups: Table[str, FrozenTable[G, V]] = Table()
        self._changed: set[str] = set()
        self._length = 0
        self._frozen: FrozenGroups[G, V] | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[G]:
        return chain.from_iterable(self._groups.values())

    def get(self, key: G) -> V | None:
        """Return the value of a key, or None."""
        group = self._groups.get(key[self._place])
        return None if group is None else group.get(key)

    def put(self, key: G, value: V) -> None:
        """Set the value of a key, replacing an old value."""
        self._length += self._changing(key).put(key, value)

    def pop(self, key: G) -> V | None:
        """Remove a key and return its value, or None if the key is missing."""
        if self.get(key) is None:
            return None
        self._length -= 1
        return self._changing(key).pop(key)

    def freeze(self) -> FrozenGroups[G, V]:
        """Return an immutable mapping with the current entries. O(1) if nothing changed."""
        for name in self._changed:
            group = self._groups[name]
            if len(group):
                self._frozen_groups.put(name, group.freeze())
            else:
                del self._groups[name]
                self._frozen_groups.pop(name)
        self._changed.clear()
        if self._frozen is None:
            self._frozen = FrozenGroups(self._frozen_groups.freeze(), self._length, self._place)
        return self._frozen

    def copy(self) -> Self:
        """Return a table with the same entries; later changes of one do not affect the other."""
        self.freeze()
        table = copy(self)
        groups = {name: group.copy() for name, group in self._groups.items()}
        vars(table).update(_groups=groups, _frozen_groups=self._frozen_groups.copy(), _changed=set())
        return table

    def _changing(self, key: G) -> Table[G, V]:
        """Return the table of a key's group for writing, and mark the group as changed. Creates a missing table."""
        name: str = key[self._place]
        self._frozen = None
        self._changed.add(name)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Table(_SHARDS_OF_A_GROUP)
        return group
