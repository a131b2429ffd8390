"""NodeDeclaredFeatures: what a pod needs a kubelet to know. Source: upstream `plugins/nodedeclaredfeatures`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from policies.scheduling.framework import SKIP, CycleState, Plugin, PreFilterResult, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo

REASON: Final = unresolvable("node(s) didn't match Pod's required features")


class NodeDeclaredFeatures(Plugin):
    """Rejects nodes whose `status.declaredFeatures` lack what the pod needs."""

    name: ClassVar[str] = "NodeDeclaredFeatures"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Upstream `PreFilter`."""
        return PreFilterResult(status=None if pod.spec.required_features else SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        return None if pod.spec.required_features <= node_info.node.declared_features else REASON
