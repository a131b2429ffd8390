"""GangScheduling: pods that are bound together or not at all. Source: upstream `plugins/gangscheduling`.

Off by default. Pods without a scheduling group, and these alone are predicted, pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.scheduling.framework import CycleState, PermitResult, Plugin, Status

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod


class GangScheduling(Plugin):
    """Present for its place in profiles that name it."""

    name: ClassVar[str] = "GangScheduling"

    def pre_enqueue(self, pod: Pod) -> Status | None:  # noqa: ARG002
        """Upstream `PreEnqueue` of a pod without a group."""
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:  # noqa: ARG002
        """Upstream `Permit` of a pod without a group."""
        return PermitResult()


class TopologyPlacement(Plugin):
    """Placements of a PodGroup: none for a single Pod."""

    name: ClassVar[str] = "TopologyPlacementGenerator"


class PodGroupPodsCount(Plugin):
    """The score of a placement of a PodGroup: none for a single Pod."""

    name: ClassVar[str] = "PodGroupPodsCount"
