"""NodePorts: host ports. Source: upstream `plugins/nodeports/node_ports.go`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.scheduling.framework import (
    NOT_FOUND,
    SKIP,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    Status,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
    Constraint,
    NodeFit,
    Present,
    Rejections,
    rejected,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

REASON: Final = unschedulable(
    Reason("node(s) didn't have free ports for the requested pod ports", "host port in use", of_pods=True)
)
ALL_ADDRESSES: Final = "0.0.0.0"


class NodePorts(Plugin, FilterInColumns):
    """Rejects nodes where a host port of the Pod is in use."""

    name: ClassVar[str] = "NodePorts"
    reads_one_node: ClassVar[bool] = True
    needs_pre_filter: ClassVar[str] = f'reading "PreFilterNodePorts" from cycleState: {NOT_FOUND}'

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Read the host ports of the Pod. Upstream `PreFilter`."""
        if not pod.spec.host_ports:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = WantedPorts(pod.spec.host_ports)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node with a port conflict. Upstream `Filter`."""
        wanted: WantedPorts = state.data[self.name]
        return REASON if wanted.conflicts(node_info.used_ports) else None

    def in_columns(self, problem: NodeFit) -> None:
        """Add a constraint for the host ports to `problem`.

        Raises NotValid if two Pods of a node use one port: upstream frees the port when the first of the two Pods is
        removed.
        """
        spec = problem.pod.spec
        if not spec.host_ports:
            return
        wanted = WantedPorts(spec.host_ports)
        matrix = problem.matrix
        per_kind = matrix.cached(("ports", id(spec)), spec, lambda other: wanted.conflicts(set(other.spec.host_ports)))
        present = matrix.present(per_kind)
        for row in np.flatnonzero(present > 1).tolist():
            if wanted.conflicts(problem.snapshot.node_infos[row].used_ports) != present[row]:
                raise NotValid
        everywhere, none = np.ones(len(present), np.bool_), np.zeros(len(present), np.int64)
        here = np.arange(len(present))
        problem.add(Constraint(per_kind, everywhere, np.flatnonzero(present), present, none, domains=here))

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield the nodes on which a port is in use."""
        for demand in problem.added[self.name]:
            yield rejected(amounts.exceeded(demand), REASON)


def fits(pod: Pod, node_info: NodeInfo) -> bool:
    """Report whether the host ports of the Pod are free on the node. Source: upstream `Fits`, for the kubelet."""
    return not WantedPorts(pod.spec.host_ports).conflicts(node_info.used_ports)


class WantedPorts:
    """The host ports of a Pod, indexed for comparison. Source: kube-scheduler `HostPortInfo.CheckConflict`.

    The cost of a comparison grows with the ports in use on the node, not with the ports of the Pod.
    """

    def __init__(self, ports: Iterable[HostPort]) -> None:
        wanted = list(ports)
        self._ports = Counter(wanted)
        self._on_any_address = Counter((port.protocol, port.port) for port in wanted)

    def conflicts(self, used: Collection[HostPort]) -> int:
        """Return the number of conflicts: pairs of a requested port and one of the distinct used ports of a node."""
        charge(len(used) // 4)
        return sum(self._with(port) for port in used)

    def _with(self, used: HostPort) -> int:
        at_all = self._on_any_address.get((used.protocol, used.port), 0)
        if not at_all or used.ip == ALL_ADDRESSES:
            return at_all
        return self._ports[used] + self._ports[used._replace(ip=ALL_ADDRESSES)]
