"""Plugins that compare a Pod with one field of a node: NodeName, NodeUnschedulable and NodeDeclaredFeatures.

Source: upstream `plugins/nodename`, `plugins/nodeunschedulable`, `plugins/nodedeclaredfeatures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.kubernetes.objects.node import UNSCHEDULABLE_TAINT, Node, tolerations_tolerate_taint
from forewarn.policies.kubernetes.scheduling.framework import (
    NOT_FOUND,
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    StaticFilter,
    StaticFilterPlugin,
    Status,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import UNCORDON, Reason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo


NAME_REASON: Final = unresolvable(
    Reason("node(s) didn't match the requested node name", "not the node that the Pod names")
)


class NodeName(Plugin, StaticFilterPlugin):
    """Rejects every node except the one in `spec.nodeName`."""

    name: ClassVar[str] = "NodeName"
    pre_filters_deferred_resizes: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        return None if fits(pod, node_info) else NAME_REASON

    def static_filter(self, pod: Pod) -> None:
        """Return None: all nodes pass, because the numpy implementation only gets Pods without `spec.nodeName`."""


def fits(pod: Pod, node_info: NodeInfo) -> bool:
    """Report whether the Pod names the node or no node. Source: upstream `Fits`, which the kubelet also calls."""
    return not pod.node_name or pod.node_name == node_info.name


FEATURES_REASON: Final = unresolvable(
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
        return None if required <= node_info.node.declared_features else FEATURES_REASON

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, with any Pods on it; None if all nodes pass."""
        needed = self._needed(pod)
        return (lambda node: needed <= node.declared_features) if needed else None

    def _needed(self, pod: Pod) -> frozenset[str]:
        if not self.semantics.declared_features_are_checked:
            return frozenset()
        return pod.spec.required_features & self.semantics.schedulable_features


_IS_UNSCHEDULABLE: Final = attrgetter("unschedulable")
UNSCHEDULABLE_REASON: Final = unresolvable(Reason("node(s) were unschedulable", "cordoned", UNCORDON))


class NodeUnschedulable(Plugin, StaticFilterPlugin):
    """Rejects nodes with `spec.unschedulable`, unless the Pod tolerates the corresponding taint."""

    name: ClassVar[str] = "NodeUnschedulable"
    pre_filters_deferred_resizes: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a cordoned node. Upstream `Filter`."""
        if not node_info.node.unschedulable or tolerations_tolerate_taint(pod.spec.tolerations, UNSCHEDULABLE_TAINT):
            return None
        return UNSCHEDULABLE_REASON

    def static_filter(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the node passes, with any Pods on it."""
        tolerations = pod.spec.tolerations
        return lambda node: not node.unschedulable or tolerations_tolerate_taint(tolerations, UNSCHEDULABLE_TAINT)

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter:
        return StaticFilter(self.static_filter(pod), _IS_UNSCHEDULABLE)
