"""The PreEnqueue plugin GangScheduling of the simulated scheduler's queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.scheduling.status import unresolvable
from forewarn.policies.simulation.pod_group_scheduling import GANG_SCHEDULING

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.status import Status
    from forewarn.policies.simulation.scheduler_cache import SchedulerCache


class GangScheduling:
    """The PreEnqueue of the plugin GangScheduling: Pods wait while their PodGroup is missing or has fewer than
    minCount Pods.
    """

    name: ClassVar[str] = GANG_SCHEDULING

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a Pod if its PodGroup is missing or has fewer than minCount Pods."""
        if not pod.spec.pod_group:
            return None
        group = self._cache.group_of(pod)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{pod.spec.pod_group}" to appear in scheduling queue')
        if self._cache.group_states.count((group.namespace, group.name)) < group.min_count:
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None
