"""The stored parts of a large object: parts within the limit, and placeholders for the other parts.

A placeholder can be copied and compared. Reading a placeholder raises TooLargeToKeep, which names the object: no
prediction or rule uses missing parts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from forewarn.policies.footprint import memory_of
from forewarn.policies.kinds.registry import BY_GROUP_KIND, POD
from forewarn.policies.metering import TooLarge
from forewarn.policies.objects.fields import InvalidObject, group_kind, ref_of

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_KEPT: Final = 64 * 1024
"""Bytes of memory that are kept of a workload, and of a Pod, as it is stored."""
_MOST_IN_A_NAMESPACE: Final = 256 * 1024
_MOST_OF_THE_CLUSTER: Final = 4 * 1024 * 1024
"""The limit for other objects: a ResourceSlice may have 128 devices."""
_MOST_PARTS: Final = 64
"""Fields or items of one part that are kept one by one; of more, all are left out."""
_LEAST: Final = 384
"""Bytes of memory for each part of an object; smaller limits replace the whole part, because a placeholder needs almost
as much.
"""


class TooLargeToKeep(TooLarge, InvalidObject):
    """Something of a stored object is needed that was too large to keep. To commands it is an object like any other
    that cannot be read, to rules a bound that stopped them."""

    def __init__(self, what: str, most: int = MOST_KEPT) -> None:
        super().__init__(f"{what} exceeds what forewarn keeps ({most // 1024} KiB)", "make it smaller")


class _LeftOut:
    """A part that is not kept. Equal to what has the same JSON text."""

    def __init__(self, what: str, digest: bytes, most: int = MOST_KEPT) -> None:
        """`what`: the object that it is a part of; `most`: how much is kept of that."""
        super().__init__()
        self.what, self.digest, self.most = what, digest, most

    def _fail(self, *_: object) -> NoReturn:
        raise TooLargeToKeep(self.what, self.most)

    __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = __repr__ = __or__ = __ror__ = __add__ = _fail
    __setitem__ = __delitem__ = keys = values = items = get = copy = _fail

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, _LeftOut):
            return self.digest == other.digest
        return isinstance(other, list | dict) and _digest(other) == self.digest

    __hash__ = None  # type: ignore[assignment]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.digest, self.most)

    def __deepcopy__(self, _: object) -> _LeftOut:
        return self


class LeftOutList(_LeftOut, list[Any]):
    """A list that is not kept."""


class LeftOutObject(_LeftOut, dict[str, Any]):
    """An object, or a map, that is not kept."""


def _digest(value: object) -> bytes:
    from hashlib import sha256  # only for objects that are too large

    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).digest()


def is_left_out(value: object) -> bool:
    """Report whether a part of an object is a placeholder."""
    return isinstance(value, _LeftOut)


def most_kept(kind: str) -> int:
    """Bytes of memory that are kept of an object of a `group/Kind`."""
    spec = BY_GROUP_KIND.get(kind)
    if spec is None or spec.template or kind == POD:
        return MOST_KEPT
    return _MOST_IN_A_NAMESPACE if spec.namespaced else _MOST_OF_THE_CLUSTER


def as_kept(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the object without the parts that exceed the limit of its kind."""
    return bounded(obj, most_kept(group_kind(obj)))


def bounded(obj: dict[str, Any], most: int = MOST_KEPT) -> dict[str, Any]:
    """The object, or what of it takes at most so many bytes of memory."""
    if memory_of(obj, most) <= most:
        return obj
    ref = ref_of(obj)
    what = f"{ref.kind} {ref.namespace}/{ref.name}" if ref.namespace else f"{ref.kind} {ref.name}"

    def left_out(value: Any) -> Any:
        return (LeftOutObject if isinstance(value, dict) else LeftOutList)(what, _digest(value), most)

    kept: dict[str, Any] = _bounded(obj, most, left_out)
    return kept


def _bounded(value: Any, most: int, left_out: Callable[[Any], Any]) -> Any:
    """Return the part within so many bytes: its smallest children completely, the others as far as the limit allows."""
    parts = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if len(value) <= _MOST_PARTS else []
    )
    if not 0 < len(parts) <= _MOST_PARTS or most < _LEAST * len(parts):
        return left_out(value)
    sizes = sorted(((memory_of(part, most), place) for place, (_, part) in enumerate(parts)))
    kept: dict[int, Any] = {}
    room = most - memory_of(dict.fromkeys(value) if isinstance(value, dict) else [None] * len(parts), most)
    for left, (size, place) in zip(range(len(parts), 0, -1), sizes, strict=True):
        part, share = parts[place][1], max(room, 0) // left
        if size > share and not isinstance(part, dict | list):
            return left_out(value)
        kept[place] = part if size <= share else _bounded(part, share, left_out)
        room -= min(size, share)
    if isinstance(value, dict):
        return {key: kept[place] for place, (key, _) in enumerate(parts)}
    return [kept[place] for place in range(len(parts))]
