"""NodePorts: ports of the host. Source: upstream `plugins/nodeports/node_ports.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from policies.metering import each
from policies.scheduling.framework import SKIP, CycleState, Plugin, PreFilterResult, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.pod import Pod
    from policies.objects.pod_spec import HostPort
    from policies.scheduling.node_info import NodeInfo

REASON: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")
ALL_ADDRESSES: Final = "0.0.0.0"


class NodePorts(Plugin):
    """Rejects nodes where a port of the host that the pod wants is taken."""

    name: ClassVar[str] = "NodePorts"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Upstream `PreFilter`."""
        return PreFilterResult(status=None if pod.spec.host_ports else SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        used = node_info.used_ports
        return REASON if used and any(conflicts(port, used) for port in each(pod.spec.host_ports, 1)) else None


def conflicts(wanted: HostPort, used: set[HostPort]) -> bool:
    """Whether a wanted port is taken. Source: kube-scheduler `HostPortInfo.CheckConflict`."""
    if wanted.ip != ALL_ADDRESSES:
        return wanted in used or wanted._replace(ip=ALL_ADDRESSES) in used
    return any(port.port == wanted.port and port.protocol == wanted.protocol for port in used)
