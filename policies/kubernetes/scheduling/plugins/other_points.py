"""Plugins of extension points other than Filter and Score: of the queue, preemption, Permit and Bind, and of PodGroups.

Source: upstream `plugins/queuesort`, `plugins/schedulinggates`, `plugins/defaultpreemption`, `plugins/defaultbinder`,
`plugins/gangscheduling`, `plugins/deferredpodscheduling`. The last two are off by default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from forewarn.policies.kubernetes.scheduling.event_handlers import SCHEDULING_GATES
from forewarn.policies.kubernetes.scheduling.framework import (
    SKIP,
    CycleState,
    NodeToStatus,
    PermitResult,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    StaticFilterPlugin,
    Status,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.preemption import Preemption, pod_eligible_to_preempt_others, preempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo


def queue_order(priority: int, timestamp: float) -> tuple[int, float]:
    """Return the sort key of a queued Pod or PodGroup: the highest priority first, then the earliest timestamp."""
    return -priority, timestamp


class PrioritySort(Plugin):
    """Sorts the queue: higher priorities first, then the earlier timestamp."""

    name: ClassVar[str] = "PrioritySort"

    def less(self, first: Any, second: Any) -> bool:
        return queue_order(first.priority, first.timestamp) < queue_order(second.priority, second.timestamp)


class SchedulingGates(Plugin):
    """Keeps Pods with scheduling gates out of the queue."""

    name: ClassVar[str] = SCHEDULING_GATES

    @staticmethod
    def pre_enqueue(pod: Pod) -> Status | None:
        """Reject a gated Pod. Upstream `PreEnqueue`, whose message names the gates."""
        return unresolvable("waiting for scheduling gates") if pod.spec.gated else None


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


class DefaultBinder(Plugin):
    """Binds every Pod."""

    name: ClassVar[str] = "DefaultBinder"

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Return None (success): forewarn does not know the response of the API server. Upstream `Bind`."""
        return None


class DeferredPodScheduling(Plugin, StaticFilterPlugin):
    """A plugin without effect on Pods without a node, for profiles that name it."""

    name: ClassVar[str] = "DeferredPodScheduling"
    since: ClassVar[int] = 37

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Skip the Pod."""
        return PreFilterResult(status=SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Let the Pod pass."""
        return None

    def static_filter(self, pod: Pod) -> None:
        """Return None: all nodes pass."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:  # noqa: ARG002
        """Allow the binding."""
        return PermitResult()


class GangScheduling(Plugin):
    """A plugin without effect on single Pods, for profiles that name it."""

    name: ClassVar[str] = "GangScheduling"
    since: ClassVar[int] = 35

    def pre_enqueue(self, pod: Pod) -> Status | None:  # noqa: ARG002
        """Return None: the Pod enters the queue, as a Pod without a group does in upstream `PreEnqueue`."""
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:  # noqa: ARG002
        """Return the result for an allowed binding, as upstream `Permit` does for a Pod without a group."""
        return PermitResult()


class TopologyPlacement(Plugin):
    """A plugin without extension points for single Pods: upstream generates placements of a PodGroup."""

    name: ClassVar[str] = "TopologyPlacementGenerator"
    since: ClassVar[int] = 36


class PodGroupPodsCount(Plugin):
    """A plugin without extension points for single Pods: upstream scores placements of a PodGroup."""

    name: ClassVar[str] = "PodGroupPodsCount"
    since: ClassVar[int] = 36
