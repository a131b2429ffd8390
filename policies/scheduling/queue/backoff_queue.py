"""Pods and PodGroups in back-off after a failed attempt. Source: upstream `backend/queue/backoff_queue.go`."""

from __future__ import annotations

from math import floor, sqrt
from typing import TYPE_CHECKING, Any

from forewarn.policies.scheduling.queue.pod_info import Entity, Key, PodHeap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.releases.semantics import Semantics


class BackoffQueue:
    """The back-off queue: two heaps, for Pods that plugins rejected, and for Pods whose attempt had an error.

    An idle scheduler pops rejected Pods before their back-off expires.
    """

    def __init__(
        self, now: Callable[[], float], less: Callable[[Entity], Any], initial: float = 1, most: float = 10
    ) -> None:
        """Start empty. `now`: returns seconds. `less`: the sort key of activeQ.

        `initial`, `most`: podInitialBackoffSeconds and podMaxBackoffSeconds.
        """
        self._now, self._initial, self._most = now, initial, most
        self._rejected = PodHeap(lambda info: (self.expiration(info), less(info)))
        self._failed = PodHeap(self.expiration)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[Entity]:
        yield from self._rejected
        yield from self._failed

    def is_pod_backing_off(self, info: Entity) -> bool:
        """Report whether the back-off of a Pod or PodGroup has not expired, compared in whole seconds."""
        return self.expiration(info) >= floor(self._now())

    def expiration(self, info: Entity) -> float:
        """Return the whole second in which the back-off of a Pod or PodGroup ends; -inf without failed attempts."""
        count = info.consecutive_errors or info.unschedulable_count
        if not count or not self._most:
            return float("-inf")
        if info.backoff_expiration is None:
            info.backoff_expiration = floor(info.timestamp + self._duration(count, len(info.members)))
        return info.backoff_expiration

    def _duration(self, count: int, pods: int) -> float:
        """Return the back-off in seconds after the failed attempt `count`. The back-off doubles with each attempt.
        Source: upstream `calculateBackoffDuration`.
        """
        return min(self._initial * float(2 ** min(count - 1, 64)), self._most * sqrt(pods))

    def add(self, info: Entity) -> None:
        """Add a Pod or PodGroup to the heap for rejections or for errors."""
        self.delete(info.key)
        (self._rejected if info.is_rejected else self._failed).put(info)

    def update(self, key: Key) -> Entity | None:
        """Sort a changed Pod or PodGroup again and return it; None if the queue does not contain `key`."""
        for heap in (self._rejected, self._failed):
            info = heap.take(key)
            if info is not None:
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
        tops = (heap.peek() for heap in (self._rejected, self._failed) if heap)
        return min((self.expiration(info) for info in tops if info is not None), default=None)

    def pop(self) -> Entity | None:
        """Remove and return the first rejected Pod or PodGroup, even if its back-off has not expired; or None."""
        return self._rejected.pop()

    def pop_all_completed(self) -> list[Entity]:
        """Remove and return all Pods and PodGroups whose back-off has expired."""
        return [info for heap in (self._rejected, self._failed) for info in self._completed(heap)]

    def _completed(self, heap: PodHeap) -> Iterator[Entity]:
        while (info := heap.peek()) is not None and not self.is_pod_backing_off(info):
            heap.take(info.key)
            yield info


def seconds_of_backoff(semantics: Semantics) -> tuple[float, float]:
    """Return (podInitialBackoffSeconds, podMaxBackoffSeconds) of the scheduler."""
    configured = semantics.scheduler
    if configured is None:
        return 1, 10
    return configured.pod_initial_backoff_seconds, configured.pod_max_backoff_seconds
