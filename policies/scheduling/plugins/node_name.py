"""NodeName: pods that name their node. Source: upstream `plugins/nodename/node_name.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.scheduling.framework import CycleState, Plugin, Status, unresolvable

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.node_info import NodeInfo

REASON: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    """Rejects every node but the one in `spec.nodeName`."""

    name: ClassVar[str] = "NodeName"

    @classmethod
    def also_at(cls, semantics: Semantics) -> frozenset[str]:
        """Since 1.37 it has a PreFilter, for pods on nodes that wait to be resized."""
        return frozenset({"preFilter"}) if semantics.deferred_resizes_have_pre_filters else frozenset()

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        return None if not pod.node_name or pod.node_name == node_info.name else REASON

    def static_filter(self, pod: Pod) -> None:
        """Every node passes: a pod that names its node is none for columns."""
