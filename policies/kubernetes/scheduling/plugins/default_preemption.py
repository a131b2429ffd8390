"""DefaultPreemption: evicts Pods of lower priority for a Pod that fits on no node. Source: upstream
`plugins/defaultpreemption`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.kubernetes.scheduling.framework import (
    CycleState,
    NodeToStatus,
    Plugin,
    PostFilterResult,
    Status,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.preemption import Preemption, pod_eligible_to_preempt_others, preempt

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.arguments import DefaultPreemptionArgs


class DefaultPreemption(Plugin):
    """Finds the nodes where evicting Pods of lower priority helps, and the best of them."""

    name: ClassVar[str] = "DefaultPreemption"
    frees_capacity_in_columns: ClassVar[bool | None] = True
    args: DefaultPreemptionArgs

    def pre_enqueue(self, pod: Pod) -> Status | None:  # noqa: ARG002
        """Return None. Upstream `PreEnqueue` holds a Pod while its own preemption is in progress."""
        return None

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Return the node and victims without evicting; `details` is a Preemption. Upstream `PostFilter`."""
        reason = pod_eligible_to_preempt_others(pod, self.snapshot, statuses.is_unresolvable)
        if reason:
            return PostFilterResult(unschedulable(reason), details=Preemption(eligible=False, ineligible_reason=reason))
        result = preempt(self.handle, state, pod, statuses)
        result = replace(result, num_candidates=self.args.num_candidates(result.potential_nodes))
        if not result.best_candidates:
            return PostFilterResult(unschedulable("preemption is not helpful"), details=result)
        return PostFilterResult(None, result.best_candidates[0].node_name, result)
