"""A pod in the queue, and the heaps that order such pods."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from policies.objects.pod import Pod
    from policies.scheduling.queue.events import ClusterEvent

Key = tuple[str, str]


class QueuedPodInfo:
    """A pod with what the queue remembers of it. Source: upstream `QueuedPodInfo`.

    `timestamp`: when it came, or came back from its last attempt; times in seconds. `backoff_expiration` None: not
    worked out yet. `gating_plugin`: the PreEnqueue plugin that keeps it out.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "gating_events",
        "gating_plugin",
        "pending_plugins",
        "pod",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
    )

    def __init__(self, pod: Pod, timestamp: float) -> None:
        self.pod = pod
        self.timestamp = timestamp
        self.attempts = self.unschedulable_count = self.consecutive_errors = 0
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        self.gating_plugin = ""
        self.gating_events: tuple[ClusterEvent, ...] = ()

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.pod.namespace, self.pod.name

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin keeps it out."""
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> set[str]:
        """The plugins that rejected it, or wait for something; none after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def is_rejected(self) -> bool:
        """Whether there are rejectors."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    def rejected_by_others_than(self, plugins: AbstractSet[str]) -> bool:
        """Whether it was rejected, and by none of these plugins: what they wait for does not wake it."""
        rejected, pending = self.unschedulable_plugins, self.pending_plugins
        return bool(rejected or pending) and rejected.isdisjoint(plugins) and pending.isdisjoint(plugins)


class UnschedulablePods(dict[Key, QueuedPodInfo]):
    """Rejected pods that wait for something to happen; how many each plugin has rejected is kept count of."""

    def __init__(self) -> None:
        super().__init__()
        self._rejected: dict[str, int] = {}
        """Of how many pods each plugin has rejected; only those that have rejected any."""
        self._by: dict[Key, set[str]] = {}

    def __setitem__(self, key: Key, info: QueuedPodInfo) -> None:
        self._discount(key)
        self._by[key] = rejectors = info.rejectors
        for name in rejectors or ("",):
            self._rejected[name] = self._rejected.get(name, 0) + 1
        super().__setitem__(key, info)

    def take(self, key: Key) -> QueuedPodInfo | None:
        """Take the pod of this name out; None where it was not in."""
        self._discount(key)
        return self.pop(key, None)

    def may_be_woken_by(self, plugins: AbstractSet[str]) -> bool:
        """Whether one of these plugins has rejected one of them, or one came back with an error."""
        return bool(self._rejected) and ("" in self._rejected or not self._rejected.keys().isdisjoint(plugins))

    def _discount(self, key: Key) -> None:
        rejectors = self._by.pop(key, None)
        if rejectors is not None:
            for name in rejectors or ("",):
                self._rejected[name] -= 1
                if not self._rejected[name]:
                    del self._rejected[name]


class PodHeap:
    """Pods by (namespace, name) in the order of a key, which is taken when a pod is put in."""

    def __init__(self, key: Callable[[QueuedPodInfo], Any]) -> None:
        self._key = key
        self._entries: dict[Key, tuple[int, QueuedPodInfo]] = {}
        self._heap: list[tuple[Any, int, Key]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (info for _, info in self._entries.values())

    def put(self, info: QueuedPodInfo) -> None:
        """Put a pod in, or into its new place."""
        number = next(self._numbers)
        self._entries[info.key] = number, info
        heappush(self._heap, (self._key(info), number, info.key))

    def get(self, key: Key) -> QueuedPodInfo | None:
        """The pod of this name."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def take(self, key: Key) -> QueuedPodInfo | None:
        """Take the pod of this name out; None where it was not in."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[1]

    def peek(self) -> QueuedPodInfo | None:
        """The first pod, None where there is none."""
        while self._heap:
            _, number, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry[0] == number:
                return entry[1]
            heappop(self._heap)
        return None

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod out, None where there is none."""
        info = self.peek()
        return None if info is None else self.take(info.key)
