"""The scheduling queue, its Pods and PodGroups (entities), and the heaps that order them.

Source: kubernetes `pkg/scheduler/backend/queue/scheduling_queue.go`, `active_queue.go`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import chain, count
from math import floor, sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from forewarn.policies.base.copies import replace
from forewarn.policies.kubernetes.releases.semantics import DEFAULT_BACKOFF, DEFAULT_SCHEDULER
from forewarn.policies.kubernetes.scheduling.framework import Code, PreEnqueuePlugin, run_pre_enqueue_plugins
from forewarn.policies.kubernetes.scheduling.plugins.other_points import queue_order
from forewarn.policies.kubernetes.scheduling.queue.registrations import (
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
    pod_scheduling_properties_change,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.scheduling.queue.registrations import QueueingHints


Key = tuple[str, str]
G = TypeVar("G")
N = TypeVar("N")
V = TypeVar("V")


@dataclass(slots=True, eq=False, kw_only=True)
class QueueingParams:
    """The queue's state of a Pod or PodGroup (entity). Times in seconds. Source: upstream `QueueingParams`.

    `timestamp`: when the entity was added, or returned from its last attempt. `backoff_expiration` None: not computed
    yet. `gating_plugin`: the PreEnqueue plugin that gates the entity, or "".
    """

    timestamp: float
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_expiration: float | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    gating_plugin: str = ""
    gating_events: tuple[ClusterEvent, ...] = ()
    flushed: float = float("-inf")
    """Time of the last flush of unschedulable Pods that included this entity, in seconds."""

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin gates this Pod or PodGroup."""
        return bool(self.gating_plugin)

    @property
    def is_rejected(self) -> bool:
        """Whether plugins rejected this Pod. Always False for a PodGroup, because plugins reject only its Pods."""
        return bool(self.unschedulable_plugins or self.pending_plugins)


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedPodInfo(QueueingParams):
    """A Pod in the scheduling queue, with the state of its attempts. Source: upstream `QueuedPodInfo`."""

    pod: Pod

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


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedPodGroupInfo(QueueingParams):
    """A PodGroup in the queue, with its queued Pods in the order of its cycle. Source: `QueuedPodGroupInfo`."""

    group: PodGroup
    members: list[QueuedPodInfo] = field(default_factory=list)

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


class BackoffQueue:
    """The back-off queue: two heaps, for Pods that plugins rejected, and for Pods whose attempt had an error.

    An idle scheduler pops rejected Pods before their back-off expires.
    """

    def __init__(self, now: Callable[[], float], initial: float, limit: float) -> None:
        """Start empty. `now`: seconds. `initial`, `limit`: podInitialBackoffSeconds, podMaxBackoffSeconds."""
        self._now, self._initial, self._limit = now, initial, limit
        self._rejected = PodHeap(lambda info: (self.expiration(info), queue_order(info.priority, info.timestamp)))
        self._failed = PodHeap(self.expiration)
        self._heaps = self._rejected, self._failed

    def __iter__(self) -> Iterator[Entity]:
        return chain(*self._heaps)

    def is_pod_backing_off(self, info: Entity) -> bool:
        """Report whether the back-off of a Pod or PodGroup has not expired, compared in whole seconds."""
        return self.expiration(info) >= floor(self._now())

    def expiration(self, info: Entity) -> float:
        """Return the whole second in which the back-off of a Pod or PodGroup ends; -inf without failed attempts."""
        count = info.consecutive_errors or info.unschedulable_count
        if not count or not self._limit:
            return float("-inf")
        if info.backoff_expiration is None:
            info.backoff_expiration = floor(info.timestamp + self._duration(count, len(info.members)))
        return info.backoff_expiration

    def _duration(self, count: int, pods: int) -> float:
        """Return the back-off in seconds, doubled by each attempt. Source: upstream `calculateBackoffDuration`."""
        return min(self._initial * float(2 ** min(count - 1, 64)), self._limit * sqrt(pods))

    def add(self, info: Entity) -> None:
        """Add a Pod or PodGroup to the heap for rejections or for errors."""
        self.delete(info.key)
        (self._rejected if info.is_rejected else self._failed).put(info)

    def update(self, key: Key) -> Entity | None:
        """Sort a changed Pod or PodGroup again and return it; None if the queue does not contain `key`."""
        for heap in self._heaps:
            if (info := heap.take(key)) is not None:
                heap.put(info)
                return info
        return None

    def get(self, key: Key) -> Entity | None:
        return self._rejected.get(key) or self._failed.get(key)

    def delete(self, key: Key) -> Entity | None:
        """Remove the Pod or PodGroup with this key and return it; None if the queue does not contain the key."""
        return self._rejected.take(key) or self._failed.take(key)

    @property
    def has_next(self) -> bool:
        return bool(self._rejected)

    def first_completed(self) -> float | None:
        """Return the time in seconds at which the first back-off ends; None if the queue is empty."""
        tops = (heap.peek() for heap in self._heaps)
        return min((self.expiration(info) for info in tops if info is not None), default=None)

    def pop(self) -> Entity | None:
        """Remove and return the first rejected Pod or PodGroup, even if its back-off has not expired; or None."""
        return self._rejected.pop()

    def pop_all_completed(self) -> list[Entity]:
        """Remove and return all Pods and PodGroups whose back-off has expired."""
        return [info for heap in self._heaps for info in self._completed(heap)]

    def _completed(self, heap: PodHeap) -> Iterator[Entity]:
        while (info := heap.peek()) is not None and not self.is_pod_backing_off(info):
            heap.take(info.key)
            yield info


class Nominator:
    """The nominations in kube-scheduler's memory, by Pod and by node."""

    def __init__(
        self, lister: Callable[[str, str], Pod | None], nominate: Callable[[Pod | None, Pod | None], None]
    ) -> None:
        """Start without nominations. `lister`: (namespace, name) -> the Pod in the API server, or None.

        `nominate`: called for each change with the Pod before and after the change; None means no nomination.
        """
        self._lister, self._nominate = lister, nominate
        self._by_pod: dict[str, Pod] = {}
        """Identity -> Pod with its nomination, or with an empty one that is cleared but not stored yet."""
        self._by_node: dict[str, dict[str, Pod]] = {}

    def add(self, pod: Pod, node: str | None = None) -> None:
        """Nominate a Pod to a node; None: to the node in the Pod's status, if any.

        A Pod that is bound or deleted in the API server loses its nomination.
        """
        if node is None:
            node = pod.nominated_node_name or None
        stored = None if node is None else self._lister(pod.namespace, pod.name)
        if node is None or stored is None or stored.node_name:
            self.delete(pod)
            return
        new = pod if pod.nominated_node_name == node else replace(pod, nominated_node_name=node)
        nomination = self._by_pod.get(pod.identity)
        if nomination is new or nomination == new:
            # An unchanged nomination moves to the end of its node's nominations, without a call of `nominate`.
            pods = self._by_node.get(new.nominated_node_name)
            if pods is not None:
                pods[new.identity] = pods.pop(new.identity)
            return
        self.delete(pod)
        self._by_pod[new.identity] = new
        if new.nominated_node_name:
            self._by_node.setdefault(new.nominated_node_name, {})[new.identity] = new
            self._nominate(None, new)

    def update(self, old: Pod, new: Pod) -> None:
        """Update the nomination of a changed Pod. A nomination that the API server has not stored yet remains."""
        node = None
        if not old.nominated_node_name and not new.nominated_node_name and old.identity in self._by_pod:
            node = self._by_pod[old.identity].nominated_node_name
        if old.identity != new.identity:
            self.delete(old)
        self.add(new, node)

    def delete(self, pod: Pod) -> None:
        """Remove the nomination of a Pod, if any."""
        nomination = self._by_pod.pop(pod.identity, None)
        if nomination is None or not nomination.nominated_node_name:
            return
        discard(self._by_node, nomination.nominated_node_name, nomination.identity)
        self._nominate(nomination, None)

    def pods_for_node(self, node: str) -> list[Pod]:
        return list(self._by_node.get(node, {}).values())


class PodGroupQueue:
    """The PodGroups of the queue, and the Pods that cannot be queued in a PodGroup yet.

    A Pod is incomplete while its PodGroup object is missing, and pending during a scheduling cycle of its PodGroup.
    """

    def __init__(self, queue: PriorityQueue) -> None:
        self._queue = queue
        self._groups: dict[Key, PodGroup] = {}
        self._incomplete: dict[Key, dict[Key, QueuedPodInfo]] = {}
        self._pending: dict[Key, dict[Key, QueuedPodInfo]] = {}
        self._popped: Key | None = None
        """Key of the entity that was popped last, until its PodGroup returns."""

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for aside in (self._pending, self._incomplete):
            for pods in aside.values():
                yield from pods.values()

    def popped(self, key: Key) -> None:
        """Record that the Pod or PodGroup with this key is in its scheduling cycle."""
        self._popped = key

    # Pods

    def add(self, info: QueuedPodInfo) -> None:
        """Add a new Pod, or a Pod after a failed attempt. Source: upstream `addPodGroupMember`."""
        key = key_of(info.pod)
        if key not in self._groups:
            self._incomplete.setdefault(key, {})[info.key] = info
            return
        entity, strategy = self._queue.take(key)
        if isinstance(entity, QueuedPodGroupInfo):
            entity.add(info)
            self._queue.requeue(entity, strategy, UNSCHEDULED_POD_ADD)
        elif self._popped == key:
            self._pending.setdefault(key, {})[info.key] = info
        else:
            group = QueuedPodGroupInfo(group=self._groups[key], timestamp=info.timestamp)
            group.add(info)
            self._queue.to_active(group)

    def find(self, pod: Pod) -> QueuedPodInfo | None:
        """Return the queued Pod with the name of `pod`; None if it is not queued or is in its scheduling cycle."""
        key, name = key_of(pod), (pod.namespace, pod.name)
        group = self._queue.entity(key)
        member = group.find(name) if isinstance(group, QueuedPodGroupInfo) else None
        return member or self._pending.get(key, {}).get(name) or self._incomplete.get(key, {}).get(name)

    def delete(self, pod: Pod) -> None:
        """Remove a Pod that was deleted or bound. Source: upstream `deletePodGroupMember`."""
        key, name = key_of(pod), (pod.namespace, pod.name)
        if key not in self._groups:
            discard(self._incomplete, key, name)
            return
        entity, strategy = self._queue.take(key)
        if not isinstance(entity, QueuedPodGroupInfo):
            discard(self._pending, key, name)
            return
        entity.members[:] = [member for member in entity.members if member.key != name]
        if entity.members:
            self._queue.requeue(entity, strategy, UNSCHEDULED_POD_ADD)

    # PodGroups

    def add_group(self, group: PodGroup) -> None:
        """Add a PodGroup, and queue its incomplete Pods. Source: upstream `AddPodGroup`."""
        key = group_key(group.namespace, group.name)
        self._groups[key] = group
        for info in sorted(self._incomplete.pop(key, {}).values(), key=lambda info: (info.timestamp, info.key)):
            self.add(info)

    def update_group(self, group: PodGroup) -> None:
        """Replace a PodGroup's object; its position does not change. Source: upstream `UpdatePodGroup`."""
        key = group_key(group.namespace, group.name)
        self._groups[key] = group
        entity = self._queue.entity(key)
        if isinstance(entity, QueuedPodGroupInfo):
            entity.group = group

    def delete_group(self, group: PodGroup) -> None:
        """Delete a PodGroup; its Pods become incomplete. Source: upstream `DeletePodGroup`."""
        key = group_key(group.namespace, group.name)
        self._groups.pop(key, None)
        entity, _ = self._queue.take(key)
        if isinstance(entity, QueuedPodGroupInfo):
            self._incomplete.setdefault(key, {}).update({info.key: info for info in entity.members})
        elif self._popped == key and key in self._pending:
            self._incomplete.setdefault(key, {}).update(self._pending.pop(key))

    def add_attempted(self, tried: QueuedPodGroupInfo, code: Code | None) -> None:
        """Requeue the Pods of a PodGroup that are not bound after its scheduling cycle. `code`: of the cycle, None for
        success.

        Pods that were not bound, and Pods that were added during the cycle, are retried: at once after a success,
        otherwise after the back-off, regardless of events. Source: upstream `AddAttemptedPodGroupIfNeeded`.
        """
        key = tried.key
        self._popped = None
        pending = self._pending.pop(key, {})
        if not pending:
            return
        if key not in self._groups:
            self._incomplete.setdefault(key, {}).update(pending)
            return
        tried_before = {member.pod.identity for member in tried.members}
        info = QueuedPodGroupInfo(group=self._groups[key], timestamp=tried.timestamp)
        info.attempts, info.backoff_expiration = tried.attempts, tried.backoff_expiration
        info.unschedulable_count, info.consecutive_errors = tried.unschedulable_count, tried.consecutive_errors
        for member in pending.values():
            info.add(member)
        if code is None:
            info.unschedulable_count = info.consecutive_errors = 0
        elif code is Code.ERROR:
            info.consecutive_errors += 1
            info.backoff_expiration = None
        else:
            info.unschedulable_count, info.consecutive_errors = info.unschedulable_count + 1, 0
            info.backoff_expiration = None
        if code is not None or tried_before.isdisjoint(member.pod.identity for member in info.members):
            info.timestamp = self._queue.now()
        self._queue.requeue(info, Strategy.IMMEDIATELY if code is None else Strategy.AFTER_BACKOFF, None)


def key_of(pod: Pod) -> Key:
    return group_key(pod.namespace, pod.spec.pod_group)


def discard(groups: dict[G, dict[N, V]], key: G, name: N) -> None:
    """Remove an entry of a group, and the group if it is empty then."""
    pods = groups.get(key)
    if pods is not None:
        pods.pop(name, None)
        if not pods:
            del groups[key]


class Strategy(IntEnum):
    """Where to put a rejected Pod or PodGroup after an event: unschedulable (SKIP), backoffQ, or activeQ (IMMEDIATELY).

    Source: upstream `queueingStrategy`.
    """

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


MAX_IN_UNSCHEDULABLE_PODS: Final = 300
"""Seconds since the last attempt after which a rejected Pod is retried without an event."""
MAX_ATTEMPTS: Final = 5
"""Number of failed attempts after which the back-off no longer grows by default: 1, 2, 4, 8 and 10 seconds."""
FLUSH_PERIOD: Final = 30
"""Seconds between two flushes of unschedulable Pods."""


class InFlightEvent(NamedTuple):
    """An event during the scheduling cycle of a Pod, and the changed object before and after the event."""

    event: ClusterEvent
    old: Any
    new: Any


class PriorityQueue:
    """The scheduling queue: Pods and PodGroups that are active, in back-off, or unschedulable until an event."""

    def __init__(
        self,
        now: Callable[[], float],
        nominator: Nominator,
        hints: QueueingHints,
        gates: Mapping[str, Sequence[PreEnqueuePlugin]] = MappingProxyType({}),
        backoff: tuple[float, float] = DEFAULT_BACKOFF,
        *,
        has_pod_groups: bool = False,
    ) -> None:
        """Start empty.

        `now`: returns seconds. `gates`: profile -> its PreEnqueue plugins. `backoff`: first and longest back-off in
        seconds. `has_pod_groups`: whether Pods are queued in their PodGroups.
        """
        self.groups = PodGroupQueue(self) if has_pod_groups else None
        self.now, self.nominator, self._hints, self._gates = now, nominator, hints, gates
        self.active = PodHeap(lambda info: queue_order(info.priority, info.timestamp))
        self.backoff = BackoffQueue(now, *backoff)
        self.unschedulable: dict[Key, Entity] = {}
        """Key -> rejected Pod or PodGroup that waits for an event."""
        self._in_flight: dict[str, list[InFlightEvent]] = {}

    # The scheduling loop

    def pop(self) -> Entity | None:
        """Remove and return the next entity of activeQ, or of backoffQ if it is empty; None if both are."""
        info = self.active.pop() or self.backoff.pop()
        if info is not None:
            if isinstance(info, QueuedPodGroupInfo):
                info.attempts += 1
            for member in info.members:
                member.attempts += 1
                self._in_flight[member.pod.identity] = []
            if self.groups is not None:
                self.groups.popped(info.key)
        return info

    @property
    def has_next(self) -> bool:
        return bool(self.active) or self.backoff.has_next

    def done(self, pod: Pod) -> None:
        """Record the end of a Pod's attempt: events from now on are not attributed to the attempt."""
        self._in_flight.pop(pod.identity, None)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> None:
        """Requeue a Pod after a failed attempt, taking into account the events during the attempt."""
        key = info.key
        try:
            if key in self.unschedulable or self.active.get(key) or self.backoff.get(key):
                return
            if info.is_rejected:
                info.unschedulable_count += 1
                info.consecutive_errors = 0
            else:
                info.consecutive_errors += 1
            info.timestamp, info.backoff_expiration = self.now(), None
            if self.groups is not None and info.pod.spec.pod_group:
                self.done(info.pod)
                self.groups.add(info)
            else:
                self.requeue(info, self._requeue_strategy(info), None)
        finally:
            self.done(info.pod)

    def _requeue_strategy(self, info: QueuedPodInfo) -> Strategy:
        """Return where to requeue, by the events meanwhile. Source: `determineSchedulingHintForInFlightPod`."""
        events = self._in_flight.get(info.pod.identity)
        if events is None or not info.is_rejected:
            return Strategy.AFTER_BACKOFF
        if not events:
            return Strategy.SKIP
        return max(self._is_pod_worth_requeuing(info, *event) for event in events)

    def draw_attempts(self, draw: Callable[[int], int], now: float, created: Sequence[float]) -> None:
        """Set, for active Pods, random numbers of failed attempts before the simulation, which determine their
        back-off.

        Cluster snapshots do not contain these numbers. `draw`: returns a random integer from 0 to its argument - 1.
        `now`: seconds since 1970. `created`: the times at which Pods were created, in order. A Pod is tried at its
        creation, after each flush of the queue (`flushUnschedulablePodsLeftover`), and after events; each Pod created
        later stands for one event. After MAX_ATTEMPTS failed attempts, the back-off no longer grows.
        """
        for info in self.active:
            pods = info.members if isinstance(info, QueuedPodGroupInfo) else (info,)
            since = min((each.pod.created or 0 for each in pods), default=now)
            events = len(created) - bisect_right(created, since)
            flushes = int(max(now - since, 0) / MAX_IN_UNSCHEDULABLE_PODS)
            info.unschedulable_count = draw(min(1 + flushes + events, MAX_ATTEMPTS))

    # Events of the API server

    def add(self, pod: Pod, event: ClusterEvent = UNSCHEDULED_POD_ADD) -> None:
        info = QueuedPodInfo(pod=pod, timestamp=self.now())
        if self.groups is not None and pod.spec.pod_group:
            self.nominator.add(pod)
            self.groups.add(info)
        else:
            self.to_active(info, event)

    def update(self, old: Pod, new: Pod) -> None:
        """Handle the update of a Pod that is queued or in its scheduling cycle."""
        events = pod_scheduling_properties_change(new, old)
        in_flight = self._in_flight.get(new.identity)
        if in_flight is not None:
            in_flight.extend(InFlightEvent(event, old, new) for event in events)
            return
        member, info = self.get(old), self.entity(self._key_of(old))
        if member is None:
            self.add(new, UNSCHEDULED_POD_UPDATE)
            return
        member.pod = new
        self.nominator.update(old, new)
        if info is None or self._is_queued(info):
            return
        for event in events:
            if self.requeue(info, self._is_worth_requeuing(info, event, old, new), event):
                break

    def _is_queued(self, info: Entity) -> bool:
        """Report whether a Pod or PodGroup is in the active or back-off queue; if it is, sort it again."""
        if self.active.get(info.key) is not None:
            self.active.put(info)
            return True
        return self.backoff.update(info.key) is not None

    def _key_of(self, pod: Pod) -> Key:
        return key_of(pod) if self.groups is not None and pod.spec.pod_group else (pod.namespace, pod.name)

    def delete(self, pod: Pod) -> None:
        """Remove a Pod that was deleted or bound, and its nomination."""
        self.nominator.delete(pod)
        if self.groups is not None and pod.spec.pod_group:
            self.groups.delete(pod)
        else:
            self.take((pod.namespace, pod.name))

    def take(self, key: Key) -> tuple[Entity | None, Strategy]:
        """Remove an entity: return (it or None, the strategy of its queue). Source: upstream `deleteFromAnyQueue`."""
        if (entity := self.active.take(key)) is not None:
            return entity, Strategy.IMMEDIATELY
        if (entity := self.backoff.delete(key)) is not None:
            return entity, Strategy.AFTER_BACKOFF
        return self.unschedulable.pop(key, None), Strategy.SKIP

    def entity(self, key: Key) -> Entity | None:
        """Return the Pod or PodGroup with this key; None if it is not queued or is in its scheduling cycle."""
        return self.active.get(key) or self.unschedulable.get(key) or self.backoff.get(key)

    def get(self, pod: Pod) -> QueuedPodInfo | None:
        """Return the queued Pod with the name of `pod`; None if it is not queued or is in its scheduling cycle."""
        if self.groups is not None and pod.spec.pod_group:
            return self.groups.find(pod)
        entity = self.entity((pod.namespace, pod.name))
        return entity if isinstance(entity, QueuedPodInfo) else None

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, check: Callable[[Pod], bool] | None = None
    ) -> None:
        """Retry the unschedulable Pods that an event may help. `old`, `new`: the changed object.

        `check`: consider only Pods for which the function returns True; None: all.
        """
        if not event.is_wild_card and not self._hints.hints_for(event):
            return
        waiting = [
            info
            for info in self.unschedulable.values()
            if check is None or any(check(member.pod) for member in info.members)
        ]
        self._move(waiting, event, old, new)

    def _move(self, infos: Iterable[Entity], event: ClusterEvent, old: Any, new: Any) -> None:
        """Retry those of `infos` that an event may help. Source: upstream `movePodsToActiveOrBackoffQueue`.

        Also records the event for Pods in their scheduling cycle.
        """
        interested = None if event.is_wild_card else self._hints.hints_for(event).keys()
        for info in infos:
            if interested is not None and info.rejected_by_others_than(interested):
                continue
            if info.gated and not self._may_open_gate(info, event):
                continue
            strategy = self._is_worth_requeuing(info, event, old, new)
            if strategy is not Strategy.SKIP:
                self.unschedulable.pop(info.key, None)
                self.requeue(info, strategy, event)
        for events in self._in_flight.values():
            events.append(InFlightEvent(event, old, new))

    def _may_open_gate(self, info: Entity, event: ClusterEvent) -> bool:
        """Report whether the plugin that gates a Pod or PodGroup registered for the event."""
        if event.is_wild_card and self.groups is not None:
            return True
        return any(registered.covers(event) for registered in info.gating_events)

    # Flushes

    def flush_backoff_completed(self) -> None:
        """Activate Pods and PodGroups whose back-off has expired. Upstream does this at every whole second."""
        for info in self.backoff.pop_all_completed():
            self.to_active(info, None, from_backoff=True)

    def flush_unschedulable_leftover(self) -> None:
        """Retry Pods after MAX_IN_UNSCHEDULABLE_PODS. Upstream does this every FLUSH_PERIOD."""
        now = self.now()
        due = [i for i in self.unschedulable.values() if now - max(i.timestamp, i.flushed) > MAX_IN_UNSCHEDULABLE_PODS]
        if due:
            for info in due if self.groups is not None else ():
                info.flushed = now
            self._move(due, UNSCHEDULABLE_TIMEOUT, None, None)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate over all Pods except those being tried."""
        for entities in (self.active, self.backoff, self.unschedulable.values()):
            for info in entities:
                yield from info.members
        if self.groups is not None:
            yield from self.groups

    # Internal queues

    def requeue(self, info: Entity, strategy: Strategy, event: ClusterEvent | None) -> bool:
        """Put a Pod or PodGroup into the queue of the strategy, and return whether it is active.

        `event`: the reason, None after an attempt. Source: upstream `requeuePodWithQueueingStrategy`.
        """
        if strategy is Strategy.SKIP:
            self.unschedulable[info.key] = info
            return False
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_pod_backing_off(info):
            # Source: `moveToBackoffQ`.
            if not self._pass_gates(info):
                self.unschedulable[info.key] = info
                return False
            self.unschedulable.pop(info.key, None)
            self.backoff.add(info)
            return True
        return self.to_active(info, event)

    def to_active(self, info: Entity, event: ClusterEvent | None = None, *, from_backoff: bool = False) -> bool:
        """Put a Pod or PodGroup into activeQ, unless a plugin gates it; return whether it is active.

        `from_backoff`: do not run the PreEnqueue plugins again. Source: upstream `moveToActiveQ`.
        """
        key = info.key
        if not from_backoff and not self._pass_gates(info):
            if self.active.get(key) is None and self.backoff.get(key) is None:
                self.unschedulable[key] = info
            return False
        self.unschedulable.pop(key, None)
        self.backoff.delete(key)
        self.active.put(info)
        if event in (UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE) and isinstance(info, QueuedPodInfo):
            self.nominator.add(info.pod)
        return True

    def _pass_gates(self, info: Entity) -> bool:
        """Report whether no plugin gates `info`. One gated Pod gates its PodGroup. Source: `runPreEnqueuePlugins`."""
        if isinstance(info, QueuedPodInfo):
            return self._passes_gates(info)
        kept_out = [member for member in info.members if not self._passes_gates(member)]
        info.gating_plugin = kept_out[-1].gating_plugin if kept_out else ""
        info.gating_events = kept_out[-1].gating_events if kept_out else ()
        return not kept_out

    def _passes_gates(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue plugins, first the one that gated last. Source: upstream `runPreEnqueuePluginsForPod`."""
        gates = self._gates.get(info.pod.spec.scheduler_name or DEFAULT_SCHEDULER, ())
        first = sorted(gates, key=lambda gate: gate.name != info.gating_plugin)
        status = run_pre_enqueue_plugins(first, info.pod)
        info.gating_plugin = "" if status is None else status.plugin
        if status is not None:
            info.unschedulable_plugins.add(status.plugin)
            info.gating_events = self._hints.events_of(status.plugin)
        return status is None

    def _is_worth_requeuing(self, info: Entity, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Return where to requeue a Pod or PodGroup after an event. Source: upstream `isEntityWorthRequeuing`."""
        if isinstance(info, QueuedPodInfo):
            return self._is_pod_worth_requeuing(info, event, old, new)
        return max(self._is_pod_worth_requeuing(member, event, old, new) for member in info.members)

    def _is_pod_worth_requeuing(self, info: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Return the strategy for a Pod after an event. Source: upstream `isPodWorthRequeuing`."""
        rejected, pending = info.unschedulable_plugins, info.pending_plugins
        if event.is_wild_card or not info.is_rejected:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for plugin, hints in self._hints.hints_for(event).items():
            if (plugin in rejected or plugin in pending) and any(hint(info.pod, old, new) for hint in hints):
                if plugin in pending:
                    return Strategy.IMMEDIATELY
                if not pending:
                    return Strategy.AFTER_BACKOFF
                strategy = Strategy.AFTER_BACKOFF
        return strategy


def le_priority_pre_check(pod: Pod) -> Callable[[Pod], bool]:
    """Return whether a Pod has at most the priority of `pod`, as a function. Source: `getLEPriorityPreCheck`."""
    return lambda other: other.effective_priority <= pod.effective_priority
