"""DefaultPreemption: pods of lower priority make room. Source: upstream `plugins/defaultpreemption`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.scheduling.framework import CycleState, NodeToStatus, Plugin
from policies.scheduling.preemption import Preemption, pod_eligible_to_preempt_others, preempt

if TYPE_CHECKING:
    from policies.objects.pod import Pod


class DefaultPreemption(Plugin):
    """Finds the nodes where evicting pods of lower priority would help, and the best of them."""

    name: ClassVar[str] = "DefaultPreemption"

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Preemption:
        """Upstream `PostFilter`, without doing it."""
        reason = pod_eligible_to_preempt_others(pod, statuses, self.snapshot)
        if reason:
            return Preemption(eligible=False, ineligible_reason=reason)
        return preempt(self.handle, state, pod, statuses)
