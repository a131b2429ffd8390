"""Find the nodes that can run a Pod: run each plugin on each node.

Source: kubernetes `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.metering import meter
from forewarn.policies.scheduling.framework import (
    FILTERS,
    Code,
    CycleState,
    Framework,
    NodeToStatus,
    Status,
    unresolvable,
)
from forewarn.policies.scheduling.plugins.node_affinity import NodeAffinity
from forewarn.policies.scheduling.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.node_info import NodeInfo

MIN_FEASIBLE_NODES: Final = 100
NOT_SCORED: Final = -1
"""In place of a percentageOfNodesToScore, if nothing scores nodes."""
SCHEDULER_ERROR: Final = "SchedulerError"
"""The reason of a Pod's condition PodScheduled after a cycle that ended in an error."""
_LEAST_PERCENT: Final = 5
"""Minimum percentage of nodes that kube-scheduler searches. Source: `numFeasibleNodesToFind`."""


class Rejection(NamedTuple):
    """The reason why no node fits. Source: kube-scheduler `Diagnosis`.

    `plugins`: the plugins that rejected the Pod; empty for an error. `statuses`: the status of each node, or the status
    of PreFilter if PreFilter rejected the Pod. `error`: the error that ended the cycle, or "".
    """

    plugins: frozenset[str] = frozenset()
    statuses: tuple[Status, ...] = ()
    error: str = ""


class Filtered:
    """The result of the filters: feasible nodes, the statuses of other nodes, and the status with which PreFilter
    rejected the Pod (`rejected`).

    `restricting`: the plugins whose PreFilter excluded nodes.
    """

    def __init__(
        self,
        nodes: Sequence[NodeInfo],
        statuses: NodeToStatus,
        rejected: Status | None = None,
        restricting: Sequence[str] = (),
    ) -> None:
        self.nodes, self.statuses, self.rejected, self.restricting = nodes, statuses, rejected, restricting

    @property
    def error(self) -> str:
        """The error that ends the cycle, or ""."""
        statuses = (self.rejected, *self.statuses.by_node.values())
        return next(("; ".join(status.reasons) for status in statuses if status and status.code is Code.ERROR), "")


def find_nodes_that_fit_pod(framework: Framework, state: CycleState, pod: Pod) -> Filtered:
    """Run PreFilter, then Filter on every remaining node.

    Source: upstream `findNodesThatFitPod`, which stops after enough feasible nodes.
    """
    node_infos = framework.snapshot.node_infos
    result, plugins = framework.run_pre_filter_plugins(state, pod)
    if result.status is not None:
        return Filtered((), NodeToStatus(result.status), result.status, plugins)
    statuses = NodeToStatus()
    if result.names is not None:
        statuses.absent = unresolvable(excluded_reason(plugins))
        rows, names = framework.snapshot.rows, result.names
        node_infos = [node_infos[row] for row in sorted(rows[name] for name in names if name in rows)]
    feasible, work = [], meter()
    for node_info in node_infos:
        work.charge(FILTERS)
        status = framework.run_filter_plugins_with_nominated_pods(state, pod, node_info)
        if status is None:
            feasible.append(node_info)
        else:
            statuses.by_node[node_info.name] = status
    if any(status.code is Code.ERROR for status in statuses.by_node.values()):
        feasible = []
    return Filtered(feasible, statuses, restricting=plugins)


def excluded_reason(restricting: Sequence[str]) -> Reason:
    """Return the reason of nodes that PreFilter plugins (`restricting`) exclude. Source: upstream `schedulePod`."""
    short = f"excluded by {' and '.join(sorted(restricting))}"
    if tuple(restricting) == (NodeAffinity.name,):
        short = "not one of the nodes that the Pod names"
    return Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(restricting))}]", short)


def num_feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """Return the number of feasible nodes after which kube-scheduler stops searching. Source: upstream
    `numFeasibleNodesToFind`.
    """
    if percentage == NOT_SCORED:
        return 1
    percentage = percentage or max(50 - nodes // 125, _LEAST_PERCENT)
    return nodes if nodes < MIN_FEASIBLE_NODES else min(nodes, max(nodes * percentage // 100, MIN_FEASIBLE_NODES))
