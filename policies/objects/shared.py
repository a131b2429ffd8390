"""A cache in which equal keys share one value, for decoded parts of Pods."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")

_MAX_RECENT: Final = 8 * 1024
_ALL_RECENT: Final = 1024 * 1024
"""Maximum characters of all recently used keys. Decoded values need ten times as much memory."""


class Shared(Generic[K, V]):
    """A cache of values by key, in which equal keys share one value.

    A value without references is dropped, except for the most recent ones, because predictions repeatedly read the same
    new specs.
    """

    def __init__(self, recent: int = 1024) -> None:
        self._values: WeakValueDictionary[K, V] = WeakValueDictionary()
        self._recent: deque[tuple[V, int]] = deque()
        self._most, self._size, self._lock = recent, 0, Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, make: Callable[[], V], size: int = 0) -> V:
        """Return the cached value of a key; call `make` if there is none.

        `size`: characters of the key; values larger than `_MAX_RECENT` are dropped when nothing references them.
        """
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if size <= _MAX_RECENT:
                self._keep(value, size)
        return value

    def _keep(self, value: V, size: int) -> None:
        if not self._lock.acquire(blocking=False):
            return  # another thread has it; in a forked process, one that does not exist there
        try:
            self._recent.append((value, size))
            self._size += size
            while len(self._recent) > self._most or self._size > _ALL_RECENT:
                self._size -= self._recent.popleft()[1]
        finally:
            self._lock.release()
