"""NodeUnschedulable: cordoned nodes. Source: upstream `plugins/nodeunschedulable/node_unschedulable.go`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.kubernetes.objects.node import UNSCHEDULABLE_TAINT, Node, tolerations_tolerate_taint
from forewarn.policies.kubernetes.scheduling.framework import (
    CycleState,
    Plugin,
    StaticFilter,
    StaticFilterPlugin,
    Status,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import UNCORDON, Reason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

_IS_UNSCHEDULABLE: Final = attrgetter("unschedulable")
REASON: Final = unresolvable(Reason("node(s) were unschedulable", "cordoned", UNCORDON))


class NodeUnschedulable(Plugin, StaticFilterPlugin):
    """Rejects nodes with `spec.unschedulable`, unless the Pod tolerates the corresponding taint."""

    name: ClassVar[str] = "NodeUnschedulable"
    pre_filters_deferred_resizes: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a cordoned node. Upstream `Filter`."""
        if not node_info.node.unschedulable or tolerations_tolerate_taint(pod.spec.tolerations, UNSCHEDULABLE_TAINT):
            return None
        return REASON

    def static_filter(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the node passes, with any Pods on it."""
        tolerations = pod.spec.tolerations
        return lambda node: not node.unschedulable or tolerations_tolerate_taint(tolerations, UNSCHEDULABLE_TAINT)

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter:
        return StaticFilter(self.static_filter(pod), _IS_UNSCHEDULABLE)
