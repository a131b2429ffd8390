"""NodeName: the node in `spec.nodeName`. Source: upstream `plugins/nodename/node_name.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.kubernetes.scheduling.framework import (
    CycleState,
    Plugin,
    StaticFilterPlugin,
    Status,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

REASON: Final = unresolvable(Reason("node(s) didn't match the requested node name", "not the node that the Pod names"))


class NodeName(Plugin, StaticFilterPlugin):
    """Rejects every node except the one in `spec.nodeName`."""

    name: ClassVar[str] = "NodeName"
    pre_filters_deferred_resizes: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        return None if fits(pod, node_info) else REASON

    def static_filter(self, pod: Pod) -> None:
        """Return None: all nodes pass, because the numpy implementation only gets Pods without `spec.nodeName`."""


def fits(pod: Pod, node_info: NodeInfo) -> bool:
    """Report whether the Pod names the node or no node. Source: upstream `Fits`, which the kubelet also calls."""
    return not pod.node_name or pod.node_name == node_info.name
