"""Queued Pods and PodGroups (entities of the queue), and the heaps that order them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.scheduling.queue.registrations import ClusterEvent

Key = tuple[str, str]


class QueueingParams:
    """The queue's state of a Pod or PodGroup (entity). Times in seconds. Source: upstream `QueueingParams`.

    `timestamp`: when the entity was added, or returned from its last attempt. `backoff_expiration` None: not computed
    yet. `gating_plugin`: the PreEnqueue plugin that gates the entity, or "".
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
        """Time of the last flush of unschedulable Pods that included this entity, in seconds."""

    @property
    def unschedulable_since(self) -> float:
        """Time of the last attempt or flush, in seconds."""
        return max(self.timestamp, self.flushed)

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin gates this Pod or PodGroup."""
        return bool(self.gating_plugin)

    @property
    def is_rejected(self) -> bool:
        """Whether plugins rejected this Pod. Always False for a PodGroup, because plugins reject only its Pods."""
        return bool(self.unschedulable_plugins or self.pending_plugins)


class QueuedPodInfo(QueueingParams):
    """A Pod in the scheduling queue, with the state of its attempts. Source: upstream `QueuedPodInfo`."""

    __slots__ = ("pod",)

    def __init__(self, pod: Pod, timestamp: float) -> None:
        super().__init__(timestamp)
        self.pod = pod

    @property
    def key(self) -> Key:
        """(namespace, name) of the Pod."""
        return self.pod.namespace, self.pod.name

    @property
    def priority(self) -> int:
        return self.pod.effective_priority

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        return (self,)

    @property
    def rejectors(self) -> set[str]:
        """The plugins that rejected the Pod or made it wait at Permit; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    def rejected_by_others_than(self, plugins: AbstractSet[str]) -> bool:
        """Report whether plugins rejected the Pod, but none of `plugins` did."""
        rejected, pending = self.unschedulable_plugins, self.pending_plugins
        return bool(rejected or pending) and rejected.isdisjoint(plugins) and pending.isdisjoint(plugins)


class QueuedPodGroupInfo(QueueingParams):
    """A PodGroup in the queue, with its queued Pods in the order of its cycle. Source: `QueuedPodGroupInfo`."""

    __slots__ = ("group", "members")

    def __init__(self, group: PodGroup, timestamp: float) -> None:
        super().__init__(timestamp)
        self.group = group
        self.members: list[QueuedPodInfo] = []

    @property
    def key(self) -> Key:
        return group_key(self.group.namespace, self.group.name)

    @property
    def priority(self) -> int:
        return self.group.priority

    @property
    def rejectors(self) -> set[str]:
        """The plugins that rejected any of the Pods, and "" if no plugin rejected one of the Pods."""
        return {name for member in self.members for name in member.rejectors or ("",)}

    def rejected_by_others_than(self, plugins: AbstractSet[str]) -> bool:
        """Report whether plugins rejected every Pod, but none of `plugins` did."""
        return all(member.rejected_by_others_than(plugins) for member in self.members)

    def add(self, info: QueuedPodInfo) -> None:
        insort(self.members, info, key=lambda member: order_of_member(member.pod, member.timestamp, member.attempts))

    def find(self, key: Key) -> QueuedPodInfo | None:
        return next((member for member in self.members if member.key == key), None)


Entity = QueuedPodInfo | QueuedPodGroupInfo
"""The unit of the queue and of a scheduling cycle: a Pod or a PodGroup."""


def group_key(namespace: str, name: str) -> Key:
    """Return the key of a PodGroup in the queue. No namespace contains `/`, so no Pod has this key."""
    return f"PodGroup/{namespace}", name


def order_of_member(pod: Pod, timestamp: float, attempts: int = 0) -> tuple[int, int, float, str]:
    """Return the sort key of a Pod in the cycle of its PodGroup. Source: upstream `PodGroupMemberPodsOrderingFunc`."""
    return -pod.effective_priority, -attempts, timestamp, pod.name


class UnschedulablePods(dict[Key, Entity]):
    """Key -> rejected Pod or PodGroup that waits for an event. Counts how many of them each plugin rejected."""

    def __init__(self) -> None:
        super().__init__()
        self._rejected: dict[str, int] = {}
        """Plugin -> number of entities that it rejected, if not zero; "" for errors."""
        self._by: dict[Key, set[str]] = {}

    def __setitem__(self, key: Key, info: Entity) -> None:
        self._discount(key)
        self._by[key] = rejectors = info.rejectors
        for name in rejectors or ("",):
            self._rejected[name] = self._rejected.get(name, 0) + 1
        super().__setitem__(key, info)

    def take(self, key: Key) -> Entity | None:
        """Remove the Pod or PodGroup with this key and return it, or None."""
        self._discount(key)
        return self.pop(key, None)

    def may_be_woken_by(self, plugins: AbstractSet[str]) -> bool:
        """Report whether one of these plugins rejected a Pod, or an attempt for a Pod had an error."""
        return bool(self._rejected) and ("" in self._rejected or not self._rejected.keys().isdisjoint(plugins))

    def _discount(self, key: Key) -> None:
        rejectors = self._by.pop(key, None)
        if rejectors is not None:
            for name in rejectors or ("",):
                self._rejected[name] -= 1
                if not self._rejected[name]:
                    del self._rejected[name]


class PodHeap:
    """A heap of Pods and PodGroups. The sort key of an entry is computed when `put` adds the entry."""

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
        """Add a Pod or PodGroup, or sort it again."""
        number = next(self._numbers)
        self._entries[info.key] = number, info
        heappush(self._heap, (self._key(info), number, info.key))

    def get(self, key: Key) -> Entity | None:
        """Return the Pod or PodGroup with this key, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def take(self, key: Key) -> Entity | None:
        """Remove the Pod or PodGroup with this key and return it, or None."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[1]

    def peek(self) -> Entity | None:
        """Return the first Pod or PodGroup, or None."""
        while self._heap:
            _, number, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry[0] == number:
                return entry[1]
            heappop(self._heap)
        return None

    def pop(self) -> Entity | None:
        """Remove and return the first Pod or PodGroup, or None."""
        info = self.peek()
        return None if info is None else self.take(info.key)
