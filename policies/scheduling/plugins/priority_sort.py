"""PrioritySort: the order of the queue. Source: upstream `plugins/queuesort/priority_sort.go`."""

from __future__ import annotations

from typing import Any, ClassVar

from forewarn.policies.scheduling.framework import Plugin


class PrioritySort(Plugin):
    """Sorts the queue: higher priorities first, then the earlier timestamp."""

    name: ClassVar[str] = "PrioritySort"

    def less(self, first: Any, second: Any) -> bool:
        """Return True if `first` is popped before `second`. Upstream `Less`."""
        mine, other = first.pod.effective_priority, second.pod.effective_priority
        return bool(mine > other or (mine == other and first.timestamp < second.timestamp))
