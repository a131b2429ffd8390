"""NodeName: pods that name their node. Source: upstream `plugins/nodename/node_name.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from policies.scheduling.framework import CycleState, Plugin, Status, unresolvable

if TYPE_CHECKING:
    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo

REASON: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    """Rejects every node but the one in `spec.nodeName`."""

    name: ClassVar[str] = "NodeName"

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        return None if not pod.node_name or pod.node_name == node_info.name else REASON

    def static_filter(self, pod: Pod) -> None:
        """Every node passes: a pod that names its node is none for columns."""
