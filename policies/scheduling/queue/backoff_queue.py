"""Pods that were rejected lately and wait a while. Source: upstream `backend/queue/backoff_queue.go`."""

from __future__ import annotations

from math import floor, sqrt
from typing import TYPE_CHECKING, Any

from forewarn.policies.scheduling.queue.pod_info import Entity, Key, PodHeap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.releases.semantics import Semantics


class BackoffQueue:
    """Two heaps in one: pods that a plugin rejected, which an idle scheduler takes at once, and pods after an error."""

    def __init__(
        self, now: Callable[[], float], less: Callable[[Entity], Any], initial: float = 1, most: float = 10
    ) -> None:
        """`less`: the key that activeQ orders by. `initial`, `most`: seconds (podInitialBackoffSeconds, podMax…)."""
        self._now, self._initial, self._most = now, initial, most
        self._rejected = PodHeap(lambda info: (self.expiration(info), less(info)))
        self._failed = PodHeap(self.expiration)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[Entity]:
        yield from self._rejected
        yield from self._failed

    def is_pod_backing_off(self, info: Entity) -> bool:
        """Report whether its back-off has not expired, within the current second."""
        return self.expiration(info) >= floor(self._now())

    def expiration(self, info: Entity) -> float:
        """The whole second in which its back-off ends; the beginning of time where it was never tried."""
        count = info.consecutive_errors or info.unschedulable_count
        if not count or not self._most:
            return float("-inf")
        if info.backoff_expiration is None:
            info.backoff_expiration = floor(info.timestamp + self._duration(count, len(info.members)))
        return info.backoff_expiration

    def _duration(self, count: int, pods: int) -> float:
        """Twice as long each time; a PodGroup of many Pods has a longer maximum.

        Source: upstream `calculateBackoffDuration`.
        """
        return min(self._initial * float(2 ** min(count - 1, 64)), self._most * sqrt(pods))

    def add(self, info: Entity) -> None:
        """Take a pod in; one that no plugin rejected had an error."""
        self.delete(info.key)
        (self._rejected if info.is_rejected else self._failed).put(info)

    def update(self, key: Key) -> Entity | None:
        """The pod of this name, which has changed, put into its place again."""
        for heap in (self._rejected, self._failed):
            info = heap.take(key)
            if info is not None:
                heap.put(info)
                return info
        return None

    def get(self, key: Key) -> Entity | None:
        """The pod of this name."""
        return self._rejected.get(key) or self._failed.get(key)

    def delete(self, key: Key) -> Entity | None:
        """Take the pod of this name out; None where it was not in."""
        return self._rejected.take(key) or self._failed.take(key)

    @property
    def has_next(self) -> bool:
        """Whether `pop` returns a Pod."""
        return bool(self._rejected)

    def first_completed(self) -> float | None:
        """When the first back-off ends; None where there is none. Both heaps have that pod on top."""
        tops = (heap.peek() for heap in (self._rejected, self._failed) if heap)
        return min((self.expiration(info) for info in tops if info is not None), default=None)

    def pop(self) -> Entity | None:
        """The first of the rejected ones, its time over or not."""
        return self._rejected.pop()

    def pop_all_completed(self) -> list[Entity]:
        """Take out all pods whose time is over."""
        return [info for heap in (self._rejected, self._failed) for info in self._completed(heap)]

    def _completed(self, heap: PodHeap) -> Iterator[Entity]:
        while (info := heap.peek()) is not None and not self.is_pod_backing_off(info):
            heap.take(info.key)
            yield info


def seconds_of_backoff(semantics: Semantics) -> tuple[float, float]:
    """(podInitialBackoffSeconds, podMaxBackoffSeconds)."""
    configured = semantics.scheduler
    if configured is None:
        return 1, 10
    return configured.pod_initial_backoff_seconds, configured.pod_max_backoff_seconds
