"""PrioritySort: pending pods by priority. Source: upstream `plugins/queuesort/priority_sort.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.scheduling.framework import Plugin

if TYPE_CHECKING:
    from policies.objects.pod import Pod


class PrioritySort(Plugin):
    """The higher priority first; among equals the one that came first, which is for the caller to keep (stable)."""

    name: ClassVar[str] = "PrioritySort"

    def less(self, first: Pod, second: Pod) -> bool:
        """Whether `first` is tried before `second`."""
        return first.effective_priority > second.effective_priority
