"""The Workloads that wait in a ClusterQueue. Source: kueue pkg/cache/queue/cluster_queue.go."""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING

from forewarn.policies.base.metering import charge

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.objects.kueue import ClusterQueue
    from forewarn.policies.prediction.kueue.workload import Info


class RequeueReason(StrEnum):
    """Why a head is queued again."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PENDING_PREEMPTION = "PendingPreemption"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


_IMMEDIATE = (RequeueReason.FAILED_AFTER_NOMINATION, RequeueReason.PENDING_PREEMPTION)
_RANK = attrgetter("rank")
_BULK_MOVED = (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES)


class PendingQueue:
    """The Workloads that wait in a ClusterQueue: in the heap, and inadmissible ones, which no cycle tries until quota
    is freed.
    """

    def __init__(self, spec: ClusterQueue) -> None:
        self._spec = spec
        self.heap: dict[str, Info] = {}
        self.inadmissible: dict[str, Info] = {}
        self._sticky: str | None = None
        self._bulk_moved: set[str] = set()

    def in_order(self) -> list[Info]:
        """Return all waiting Workloads in the order of the heap: the sticky one, then by rank."""
        waiting = (*self.heap.values(), *self.inadmissible.values())
        return sorted(waiting, key=lambda info: (info.key != self._sticky, info.rank))

    def pop(self) -> Info | None:
        """Remove and return the head; None if the heap is empty."""
        charge(1 + len(self.heap) // 4)
        if self._sticky in self.heap:
            return self.heap.pop(self._sticky)
        head = min(self.heap.values(), key=_RANK, default=None)
        return None if head is None else self.heap.pop(head.key)

    def push_or_update(self, info: Info, now: float) -> None:
        """Add a new or evicted Workload, or replace it after an update of its status. Source: `PushOrUpdate`."""
        key = info.key
        waits = key in self.inadmissible or _is_backing_off(info, now) or self._is_bulk_moved(info)
        queue = self.inadmissible if waits and key not in self.heap else self.heap
        queue[key] = info

    def _is_bulk_moved(self, info: Info) -> bool:
        return bool(self._bulk_moved) and info.scheduling_hash in self._bulk_moved

    def delete(self, key: str) -> None:
        """Forget an admitted Workload."""
        self.heap.pop(key, None)
        self.inadmissible.pop(key, None)
        if self._sticky == key:
            self._sticky = None

    def requeue(self, info: Info, reason: RequeueReason, now: float) -> None:
        """Queue a head again that a cycle has not admitted. Source: `RequeueIfNotPresent`."""
        is_best_effort = not self._spec.is_strict_fifo
        if reason is RequeueReason.PENDING_PREEMPTION and is_best_effort:
            self._sticky = info.key
        is_immediate = reason in _IMMEDIATE if is_best_effort else reason is not RequeueReason.NAMESPACE_MISMATCH
        has_pending_flavors = info.last_assignment is not None and info.last_assignment.has_pending_flavors
        if (is_immediate or has_pending_flavors) and not _is_backing_off(info, now):
            self.heap[info.key] = info
            return
        self.inadmissible[info.key] = info
        if reason in _BULK_MOVED and is_best_effort:
            self._move_equivalent(info.scheduling_hash)

    def _move_equivalent(self, scheduling_hash: str) -> None:
        """Make equivalent Workloads inadmissible: they would fail too. Source: `handleInadmissibleHash`."""
        self._bulk_moved.add(scheduling_hash)
        for key, info in list(self.heap.items()):
            charge(2)
            if info.scheduling_hash == scheduling_hash:
                self.inadmissible[key] = self.heap.pop(key)

    def queue_inadmissible(self, matches_namespace: Callable[[Info], bool], now: float) -> None:
        """Move inadmissible Workloads to the heap, because quota was freed. Source: `queueInadmissibleWorkloads`."""
        self._bulk_moved.clear()
        for key, info in list(self.inadmissible.items()):
            if matches_namespace(info) and not _is_backing_off(info, now):
                self.heap.setdefault(key, self.inadmissible.pop(key))


def _is_backing_off(info: Info, now: float) -> bool:
    return info.obj.requeue_at is not None and now < info.obj.requeue_at
