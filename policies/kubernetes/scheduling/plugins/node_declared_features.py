"""NodeDeclaredFeatures: features that the kubelet must support for a Pod. Source: upstream
`plugins/nodedeclaredfeatures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.kubernetes.scheduling.framework import (
    NOT_FOUND,
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    StaticFilterPlugin,
    Status,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

REASON: Final = unresolvable(
    Reason("node(s) didn't match Pod's required features", "no feature there that the Pod requires")
)


class NodeDeclaredFeatures(Plugin, StaticFilterPlugin):
    """Rejects nodes without the features that the Pod needs in `status.declaredFeatures`."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    since: ClassVar[int] = 35
    needs_pre_filter: ClassVar[str] = f'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: {NOT_FOUND}'

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Find the features that the Pod needs. Upstream `PreFilter`."""
        state.data[self.name] = required = self._needed(pod)
        return PreFilterResult(status=None if required else SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node with missing features. Upstream `Filter`."""
        required: frozenset[str] = state.data[self.name]
        return None if required <= node_info.node.declared_features else REASON

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, with any Pods on it; None if all nodes pass."""
        needed = self._needed(pod)
        return (lambda node: needed <= node.declared_features) if needed else None

    def _needed(self, pod: Pod) -> frozenset[str]:
        if not self.semantics.declared_features_are_checked:
            return frozenset()
        return pod.spec.required_features & self.semantics.schedulable_features
