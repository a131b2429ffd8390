"""Pods and PodGroups in the queue, and the heaps that order them."""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.scheduling.queue.events import ClusterEvent

Key = tuple[str, str]


class QueueingParams:
    """The queue's state of a Pod or PodGroup. Source: upstream `QueueingParams`.

    `timestamp`: when it was added, or returned from its last attempt; times in seconds. `backoff_expiration` None: not
    computed yet. `gating_plugin`: the PreEnqueue plugin that gates it.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "flushed",
        "gating_events",
        "gating_plugin",
        "pending_plugins",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
    )

    def __init__(self, timestamp: float) -> None:
        self.timestamp = timestamp
        self.attempts = self.unschedulable_count = self.consecutive_errors = 0
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        self.gating_plugin = ""
        self.gating_events: tuple[ClusterEvent, ...] = ()
        self.flushed = float("-inf")
        """The time of the queue's last flush of the entity."""

    @property
    def waits_since(self) -> float:
        """The time of its last attempt, or of the queue's last flush of the entity."""
        return max(self.timestamp, self.flushed)

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin gates it."""
        return bool(self.gating_plugin)

    @property
    def is_rejected(self) -> bool:
        """Whether there are rejectors. A PodGroup never has any: its Pods do."""
        return bool(self.unschedulable_plugins or self.pending_plugins)


class QueuedPodInfo(QueueingParams):
    """A Pod in the queue. Source: upstream `QueuedPodInfo`."""

    __slots__ = ("pod",)

    def __init__(self, pod: Pod, timestamp: float) -> None:
        super().__init__(timestamp)
        self.pod = pod

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.pod.namespace, self.pod.name

    @property
    def priority(self) -> int:
        """By which activeQ orders."""
        return self.pod.effective_priority

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        """The Pods: itself."""
        return (self,)

    @property
    def rejectors(self) -> set[str]:
        """The plugins that rejected it, or wait for something; none after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    def rejected_by_others_than(self, plugins: AbstractSet[str]) -> bool:
        """Report whether it was rejected by none of these plugins: their events do not retry it."""
        rejected, pending = self.unschedulable_plugins, self.pending_plugins
        return bool(rejected or pending) and rejected.isdisjoint(plugins) and pending.isdisjoint(plugins)


class QueuedPodGroupInfo(QueueingParams):
    """A PodGroup in the queue, with its queued Pods in the order of its cycle.

    Source: upstream `QueuedPodGroupInfo`.
    """

    __slots__ = ("group", "members")

    def __init__(self, group: PodGroup, timestamp: float) -> None:
        super().__init__(timestamp)
        self.group = group
        self.members: list[QueuedPodInfo] = []

    @property
    def key(self) -> Key:
        """No key of a Pod."""
        return group_key(self.group.namespace, self.group.name)

    @property
    def priority(self) -> int:
        """By which activeQ orders: the PodGroup's own."""
        return self.group.priority

    @property
    def rejectors(self) -> set[str]:
        """Of all its Pods; empty text for Pods without any."""
        return {name for member in self.members for name in member.rejectors or ("",)}

    def rejected_by_others_than(self, plugins: AbstractSet[str]) -> bool:
        """Report whether every Pod was rejected by plugins, none of them in `plugins`; their events do not retry the
        group.
        """
        return all(member.rejected_by_others_than(plugins) for member in self.members)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a Pod in its place. Source: upstream `PodGroupMemberPodsOrderingFunc`."""
        insort(self.members, info, key=_order_of_members)

    def find(self, key: Key) -> QueuedPodInfo | None:
        """The Pod of this name."""
        return next((member for member in self.members if member.key == key), None)


Entity = QueuedPodInfo | QueuedPodGroupInfo
"""An entity that the queue returns for one scheduling cycle."""


def group_key(namespace: str, name: str) -> Key:
    """The key of a PodGroup in the queue; `/` is in no namespace."""
    return f"PodGroup/{namespace}", name


def _order_of_members(info: QueuedPodInfo) -> tuple[int, int, float, str]:
    return -info.priority, -info.attempts, info.timestamp, info.pod.name


class UnschedulablePods(dict[Key, Entity]):
    """Rejected pods that wait for something to happen; how many each plugin has rejected is kept count of."""

    def __init__(self) -> None:
        super().__init__()
        self._rejected: dict[str, int] = {}
        """Of how many pods each plugin has rejected; only those that have rejected any."""
        self._by: dict[Key, set[str]] = {}

    def __setitem__(self, key: Key, info: Entity) -> None:
        self._discount(key)
        self._by[key] = rejectors = info.rejectors
        for name in rejectors or ("",):
            self._rejected[name] = self._rejected.get(name, 0) + 1
        super().__setitem__(key, info)

    def take(self, key: Key) -> Entity | None:
        """Take the pod of this name out; None where it was not in."""
        self._discount(key)
        return self.pop(key, None)

    def may_be_woken_by(self, plugins: AbstractSet[str]) -> bool:
        """Report whether one of these plugins rejected one of the Pods, or one had an error."""
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

    def __init__(self, key: Callable[[Entity], Any]) -> None:
        self._key = key
        self._entries: dict[Key, tuple[int, Entity]] = {}
        self._heap: list[tuple[Any, int, Key]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entity]:
        return (info for _, info in self._entries.values())

    def put(self, info: Entity) -> None:
        """Put a pod in, or into its new place."""
        number = next(self._numbers)
        self._entries[info.key] = number, info
        heappush(self._heap, (self._key(info), number, info.key))

    def get(self, key: Key) -> Entity | None:
        """The pod of this name."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def take(self, key: Key) -> Entity | None:
        """Take the pod of this name out; None where it was not in."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[1]

    def peek(self) -> Entity | None:
        """The first pod, None where there is none."""
        while self._heap:
            _, number, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry[0] == number:
                return entry[1]
            heappop(self._heap)
        return None

    def pop(self) -> Entity | None:
        """Take the first pod out, None where there is none."""
        info = self.peek()
        return None if info is None else self.take(info.key)
