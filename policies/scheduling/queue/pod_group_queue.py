"""Pods of PodGroups in the queue: each Pod is queued in its PodGroup, which is scheduled as a whole.

Source: kubernetes `pkg/scheduler/backend/queue/scheduling_queue.go`, `pod_group_member_pods.go`, `workload_forest.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from forewarn.policies.scheduling.queue.events import UNSCHEDULED_POD_ADD
from forewarn.policies.scheduling.queue.pod_info import QueuedPodGroupInfo, QueuedPodInfo, group_key
from forewarn.policies.scheduling.queue.strategy import Strategy
from forewarn.policies.scheduling.status import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.scheduling.queue.events import ClusterEvent
    from forewarn.policies.scheduling.queue.pod_info import Entity, Key


class Entities(Protocol):
    """The part of PriorityQueue that PodGroupQueue uses. An entity is a queued Pod or PodGroup."""

    @property
    def now(self) -> Callable[[], float]:
        """The function that returns the time in seconds."""

    def take(self, key: Key) -> tuple[Entity | None, Strategy]:
        """Remove the entity with this key: return (the entity or None, the strategy of the queue that contained
        the entity).
        """

    def entity(self, key: Key) -> Entity | None:
        """Return the entity with this key, or None."""

    def requeue(self, info: Entity, strategy: Strategy, event: ClusterEvent | None) -> bool:
        """Put an entity into the queue of the strategy, unless a plugin gates the entity.

        Return whether the entity is active.
        """

    def to_active(self, info: Entity) -> bool:
        """Put an entity into activeQ, unless a plugin gates the entity. Return whether the entity is active."""


class PodGroupQueue:
    """The PodGroups of the queue, and the Pods that cannot be queued in a PodGroup yet.

    A Pod is incomplete while its PodGroup object is missing, and pending during a scheduling cycle of its PodGroup.
    """

    def __init__(self, queue: Entities) -> None:
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
        found, strategy = self._queue.take(key)
        if isinstance(found, QueuedPodGroupInfo):
            found.add(info)
            self._queue.requeue(found, strategy, UNSCHEDULED_POD_ADD)
        elif self._popped == key:
            self._pending.setdefault(key, {})[info.key] = info
        else:
            group = QueuedPodGroupInfo(self._groups[key], info.timestamp)
            group.add(info)
            self._queue.to_active(group)

    def find(self, pod: Pod) -> QueuedPodInfo | None:
        """Return the queued Pod with the name of `pod`; None if it is not queued or is in its scheduling cycle."""
        key, name = key_of(pod), (pod.namespace, pod.name)
        group = self._queue.entity(key)
        found = group.find(name) if isinstance(group, QueuedPodGroupInfo) else None
        return found or self._pending.get(key, {}).get(name) or self._incomplete.get(key, {}).get(name)

    def delete(self, pod: Pod) -> None:
        """Remove a Pod that was deleted or bound. Source: upstream `deletePodGroupMember`."""
        key, name = key_of(pod), (pod.namespace, pod.name)
        if key not in self._groups:
            _discard(self._incomplete, key, name)
            return
        found, strategy = self._queue.take(key)
        if not isinstance(found, QueuedPodGroupInfo):
            _discard(self._pending, key, name)
            return
        found.members[:] = [member for member in found.members if member.key != name]
        if found.members:
            self._queue.requeue(found, strategy, UNSCHEDULED_POD_ADD)

    # PodGroups

    def add_group(self, group: PodGroup) -> None:
        """Add a PodGroup, and queue its incomplete Pods. Source: upstream `AddPodGroup`."""
        key = group_key(group.namespace, group.name)
        self._groups[key] = group
        for info in sorted(self._incomplete.pop(key, {}).values(), key=lambda info: (info.timestamp, info.key)):
            self.add(info)

    def update_group(self, group: PodGroup) -> None:
        """Replace the object of a PodGroup.

        The position of the PodGroup in the queue does not change. Source: upstream `UpdatePodGroup`.
        """
        key = group_key(group.namespace, group.name)
        self._groups[key] = group
        entity = self._queue.entity(key)
        if isinstance(entity, QueuedPodGroupInfo):
            entity.group = group

    def delete_group(self, group: PodGroup) -> None:
        """Delete a PodGroup; its Pods become incomplete. Source: upstream `DeletePodGroup`."""
        key = group_key(group.namespace, group.name)
        self._groups.pop(key, None)
        found, _ = self._queue.take(key)
        if isinstance(found, QueuedPodGroupInfo):
            self._incomplete.setdefault(key, {}).update({info.key: info for info in found.members})
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
        info = QueuedPodGroupInfo(self._groups[key], tried.timestamp)
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
    """Return the key of the Pod's PodGroup in the queue."""
    return group_key(pod.namespace, pod.spec.pod_group)


def _discard(aside: dict[Key, dict[Key, QueuedPodInfo]], key: Key, name: Key) -> None:
    pods = aside.get(key)
    if pods is not None:
        pods.pop(name, None)
        if not pods:
            del aside[key]
