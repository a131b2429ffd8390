"""DynamicResources: devices. Pods that claim some are not predicted; for others nothing happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.scheduling.framework import SKIP, CycleState, Plugin, PreFilterResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo


class DynamicResources(Plugin):
    """Present for its place in the profile and its score of 0."""

    name: ClassVar[str] = "DynamicResources"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Upstream `PreFilter` of a pod without claims."""
        return PreFilterResult(status=SKIP)

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Upstream `Score` of a pod without claims."""
        return 0
