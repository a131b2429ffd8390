"""GangScheduling: Pods that are bound together or not at all. Source: upstream `plugins/gangscheduling`.

Off by default. The plugin lets Pods without a scheduling group pass; Pods with one have their own cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.kubernetes.scheduling.framework import CycleState, PermitResult, Plugin, Status

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod


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
