"""PrioritySort: the order of the queue. Source: upstream `plugins/queuesort/priority_sort.go`."""

from __future__ import annotations

from typing import Any, ClassVar

from forewarn.policies.kubernetes.scheduling.framework import Plugin


def queue_order(priority: int, timestamp: float) -> tuple[int, float]:
    """Return the sort key of a queued Pod or PodGroup: the highest priority first, then the earliest timestamp."""
    return -priority, timestamp


class PrioritySort(Plugin):
    """Sorts the queue: higher priorities first, then the earlier timestamp."""

    name: ClassVar[str] = "PrioritySort"

    def less(self, first: Any, second: Any) -> bool:
        return queue_order(first.priority, first.timestamp) < queue_order(second.priority, second.timestamp)
