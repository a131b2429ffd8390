"""Tables that are cheap to freeze: what a snapshot needs of a cache that goes on changing."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, overload

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
G = TypeVar("G", bound=tuple[str, ...])

_SHARDS: Final = 256
_SHARDS_OF_A_GROUP: Final = 16


class _Shard(dict[K, V]):
    """A part of a table. `derived`: what was made of it; one that is frozen changes no more, and its copy has none."""

    __slots__ = ("derived",)

    def __init__(self, entries: Mapping[K, V] | tuple[()] = ()) -> None:
        super().__init__(entries)
        self.derived: dict[object, Any] | None = None


class FrozenTable(Mapping[K, V], Generic[K, V]):
    """An immutable mapping over shards that it shares with the table it was frozen from."""

    __slots__ = ("_length", "_shards")

    def __init__(self, shards: tuple[_Shard[K, V], ...] | None = None, length: int = 0) -> None:
        self._shards, self._length = shards or (_Shard(),), length

    def derived(self, make: Callable[[Mapping[K, V]], T]) -> list[T]:
        """What a function makes of each part of the table: of those alone that it was not asked about before."""
        return [_derived(shard, make) for shard in self._shards]

    def __getitem__(self, key: K) -> V:
        return self._shards[hash(key) % len(self._shards)][key]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...

    def get(self, key: K, /, default: V | T | None = None) -> V | T | None:
        """The value of a key. The inherited one raises and catches a KeyError for every key that is not there."""
        return self._shards[hash(key) % len(self._shards)].get(key, default)

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            yield from shard

    def __len__(self) -> int:
        return self._length

    @property
    def shards(self) -> tuple[Mapping[K, V], ...]:
        """The entries by parts; one that is the very part of an older table has not changed since."""
        return self._shards

    def items(self) -> ItemsView[K, V]:
        """See Mapping; without looking up every key."""
        return _Items(self, self._shards)

    def values(self) -> ValuesView[V]:
        """See Mapping; likewise."""
        return _Values(self, self._shards)


def derived(table: Mapping[K, V], make: Callable[[Mapping[K, V]], T]) -> list[T]:
    """The same of any mapping; one that is no frozen table is one part, and looked through each time."""
    return table.derived(make) if isinstance(table, FrozenTable | FrozenGroups) else [make(table)]


def _derived(shard: _Shard[K, V], make: Callable[[Mapping[K, V]], T]) -> T:
    known = shard.derived
    if known is None or make not in known:
        known = shard.derived = {**(known or {}), make: make(shard)}  # never changed: any thread may be reading it
    found: T = known[make]
    return found


class _Items(ItemsView[K, V]):
    """The entries, without looking each key up."""

    __slots__ = ("_shards",)

    def __init__(self, table: Mapping[K, V], shards: tuple[Mapping[K, V], ...]) -> None:
        super().__init__(table)
        self._shards = shards

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(shard.items() for shard in self._shards)


class _Values(ValuesView[V]):
    """The values, without looking each key up."""

    __slots__ = ("_shards",)

    def __init__(self, table: Mapping[K, V], shards: tuple[Mapping[K, V], ...]) -> None:
        super().__init__(table)
        self._shards = shards

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in self._shards)


class Table(Generic[K, V]):
    """A mutable mapping with one owner. A change after `freeze` copies one shard, not the table.

    Shards that nothing was put into are one and the same: most tables of a small cluster stay empty.
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
        """The value of a key, None where there is none."""
        return self._shards[hash(key) % len(self._shards)].get(key)

    def put(self, key: K, value: V) -> None:
        """Set a value, replacing what the key had."""
        shard = self._own(key)
        self._length += key not in shard
        shard[key] = value

    def pop(self, key: K) -> V | None:
        """Take a key out; None where it was not there."""
        if self.get(key) is None:
            return None
        self._length -= 1
        return self._own(key).pop(key)

    def freeze(self) -> FrozenTable[K, V]:
        """What the table holds now, for good. O(1) when nothing changed, else O(shards)."""
        if self._frozen is None:
            self._shared = bytearray(b"\1" * len(self._shards))
            self._frozen = FrozenTable(tuple(self._shards), self._length)
        return self._frozen

    def _own(self, key: K) -> dict[K, V]:
        """The shard of a key, fit to be written to."""
        index = hash(key) % len(self._shards)
        self._frozen = None
        if self._shared[index]:
            self._shards[index] = _Shard(self._shards[index])
            self._shared[index] = 0
        return self._shards[index]


class Overlay(Generic[K, V]):
    """A mapping with changes, over one that stays as it is and may be large."""

    __slots__ = ("_base", "_changed", "_frozen")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base, self._changed = base, dict[K, V]()
        self._frozen: Mapping[K, V] | None = base

    def get(self, key: K) -> V | None:
        """The value of a key, None where there is none."""
        found = self._changed.get(key)
        return self._base.get(key) if found is None else found

    def put(self, key: K, value: V) -> None:
        """Set a value, replacing what the key had."""
        self._changed[key] = value
        self._frozen = None

    def pop(self, key: K) -> None:
        """Take a key out. Costs a copy where it was there from the beginning."""
        self._changed.pop(key, None)
        if key in self._base:
            self._base = {other: value for other, value in self._base.items() if other != key}
        self._frozen = None

    def freeze(self) -> Mapping[K, V]:
        """What there is now, for good."""
        if self._frozen is None:
            self._frozen = ChainMap({**self._changed}, cast("MutableMapping[K, V]", self._base))
        return self._frozen


class FrozenGroups(Mapping[G, V], Generic[G, V]):
    """An immutable mapping that has the entries of one group at hand. `place`: where in a key its group is named."""

    __slots__ = ("_groups", "_length", "_place")

    def __init__(self, groups: FrozenTable[str, FrozenTable[G, V]], length: int, place: int) -> None:
        self._groups, self._length, self._place = groups, length, place

    def group(self, name: str) -> Mapping[G, V]:
        """The entries of one group."""
        return self._groups.get(name) or FrozenTable()

    def derived(self, make: Callable[[Mapping[G, V]], T]) -> list[T]:
        """See FrozenTable: of each part of each group."""
        return [made for group in self._groups.values() for made in group.derived(make)]

    def __getitem__(self, key: G) -> V:
        return self.group(key[self._place])[key]

    @overload
    def get(self, key: G, /) -> V | None: ...

    @overload
    def get(self, key: G, /, default: V | T) -> V | T: ...

    def get(self, key: G, /, default: V | T | None = None) -> V | T | None:
        """The value of a key."""
        return self.group(key[self._place]).get(key, default)

    def __iter__(self) -> Iterator[G]:
        return chain.from_iterable(self._groups.values())

    def __len__(self) -> int:
        return self._length

    def items(self) -> ItemsView[G, V]:
        """See Mapping; without looking up every key."""
        return _Items(self, self._parts())

    def values(self) -> ValuesView[V]:
        """See Mapping; without looking up every key."""
        return _Values(self, self._parts())

    def _parts(self) -> tuple[Mapping[G, V], ...]:
        return tuple(self._groups.values())


class GroupedTable(Generic[G, V]):
    """A Table of tables, for keys that name their group. `place`: where in the key that is."""

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
        """The value of a key, None where there is none."""
        group = self._groups.get(key[self._place])
        return None if group is None else group.get(key)

    def put(self, key: G, value: V) -> None:
        """Set a value, replacing what the key had."""
        group = self._changing(key)
        self._length -= len(group)
        group.put(key, value)
        self._length += len(group)

    def pop(self, key: G) -> V | None:
        """Take a key out; None where it was not there."""
        if self.get(key) is None:
            return None
        self._length -= 1
        return self._changing(key).pop(key)

    def freeze(self) -> FrozenGroups[G, V]:
        """What the table holds now, for good. O(1) when nothing changed."""
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

    def _changing(self, key: G) -> Table[G, V]:
        """The group of a key, which is about to change."""
        name: str = key[self._place]
        self._frozen = None
        self._changed.add(name)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Table(_SHARDS_OF_A_GROUP)
        return group
