"""PreEnqueue plugins of the simulated scheduler's queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.simulation.pod_group_scheduling import GANG_SCHEDULING

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.simulation.scheduler_cache import SchedulerCache


class SchedulingGates:
    """The PreEnqueue of the plugin SchedulingGates: Pods with scheduling gates stay out of the queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> bool:
        """Return True if the Pod has no scheduling gates."""
        return not pod.spec.gated


class GangScheduling:
    """The PreEnqueue of the plugin GangScheduling: Pods wait while their PodGroup is missing or has fewer than
    minCount Pods.
    """

    name = GANG_SCHEDULING

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache

    def pre_enqueue(self, pod: Pod) -> bool:
        """Return True unless the Pod's PodGroup is missing or has fewer than minCount Pods."""
        if not pod.spec.pod_group:
            return True
        group = self._cache.group_of(pod)
        return group is not None and self._cache.group_states.count((group.namespace, group.name)) >= group.min_count
