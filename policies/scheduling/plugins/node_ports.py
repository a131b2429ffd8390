"""NodePorts: ports of the host. Source: upstream `plugins/nodeports/node_ports.go`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from policies.metering import charge
from policies.scheduling.framework import SKIP, CycleState, Plugin, PreFilterResult, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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
        if not pod.spec.host_ports:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = WantedPorts(pod.spec.host_ports)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        wanted: WantedPorts = state.data[self.name]
        return REASON if wanted.conflicts(node_info.used_ports) else None


class WantedPorts:
    """Ports that a pod wants of its node. Source: kube-scheduler `HostPortInfo.CheckConflict`.

    They are counted by what used ports are compared by, so that a look costs as much as there are used ports, whatever
    the pod wants.
    """

    def __init__(self, ports: Iterable[HostPort]) -> None:
        wanted = list(ports)
        self._ports = Counter(wanted)
        self._on_any_address = Counter((port.protocol, port.port) for port in wanted)

    def conflicts(self, used: Collection[HostPort]) -> int:
        """How many pairs of a wanted port and one of these different used ports cannot be on one node."""
        charge(len(used) // 4)
        return sum(self._with(port) for port in used)

    def _with(self, used: HostPort) -> int:
        at_all = self._on_any_address.get((used.protocol, used.port), 0)
        if not at_all or used.ip == ALL_ADDRESSES:
            return at_all
        return self._ports[used] + self._ports[used._replace(ip=ALL_ADDRESSES)]
