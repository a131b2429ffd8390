"""DeferredPodScheduling: Pods with a deferred resize. Source: upstream `plugins/deferredpodscheduling`.

Off by default. The plugin lets all other Pods pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.kubernetes.scheduling.framework import (
    SKIP,
    CycleState,
    PermitResult,
    Plugin,
    PreFilterResult,
    StaticFilterPlugin,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo


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
