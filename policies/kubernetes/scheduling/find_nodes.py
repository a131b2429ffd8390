"""Find the profile of a Pod, and the nodes that pass the filters of its plugins.

Source: kubernetes `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import meter
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.framework import (
    FILTERS,
    Code,
    CycleState,
    Framework,
    NodeToStatus,
    StaticFilterPlugin,
    Status,
    foreign_at,
    implements,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.plugins.one_node import NodeAffinity
from forewarn.policies.kubernetes.scheduling.reasons import Reason
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import read_by_filters

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

MIN_FEASIBLE_NODES: Final = 100
NOT_SCORED: Final = -1
"""Stands for percentageOfNodesToScore if nothing scores nodes."""
_MIN_PERCENT: Final = 5
"""Minimum percentage of nodes that kube-scheduler searches. Source: `numFeasibleNodesToFind`."""


class Rejection(NamedTuple):
    """The reason why no node fits. Source: kube-scheduler `Diagnosis`.

    `plugins`: the plugins that rejected the Pod; empty for an error. `statuses`: the status of each node, or the status
    of PreFilter if PreFilter rejected the Pod. `error`: the error that ended the cycle, or "".
    """

    plugins: frozenset[str] = frozenset()
    statuses: tuple[Status, ...] = ()
    error: str = ""


class Filtered(NamedTuple):
    """The result of the filters: feasible nodes, the statuses of other nodes, and the status with which PreFilter
    rejected the Pod (`rejected`).

    `restricting`: the plugins whose PreFilter excluded nodes.
    """

    nodes: Sequence[NodeInfo]
    statuses: NodeToStatus
    rejected: Status | None = None
    restricting: Sequence[str] = ()

    @property
    def error(self) -> str:
        """The error that ends the cycle, or ""."""
        statuses = (self.rejected, *self.statuses.by_node.values())
        return next(("; ".join(status.reasons) for status in statuses if status and status.code is Code.ERROR), "")


def find_nodes_that_fit_pod(framework: Framework, state: CycleState, pod: Pod) -> Filtered:
    """Run PreFilter and Filter on all nodes; upstream stops after enough. Source: `findNodesThatFitPod`."""
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
    """Return the number of feasible nodes after which the search stops. Source: upstream `numFeasibleNodesToFind`."""
    if percentage == NOT_SCORED:
        return 1
    percentage = percentage or max(50 - nodes // 125, _MIN_PERCENT)
    return nodes if nodes < MIN_FEASIBLE_NODES else min(nodes, max(nodes * percentage // 100, MIN_FEASIBLE_NODES))


def framework_of(snapshot: Snapshot, pod: Pod) -> Framework:
    """Return the framework with the Pod's scheduler profile. The profile must exist."""
    profile = configuration_of(snapshot.semantics).profile(pod.spec.scheduler_name)
    assert profile is not None
    return Framework(snapshot, profile)


def framework_in_columns(snapshot: Snapshot, pod: Pod) -> Framework:
    """Return the framework of the Pod's profile. Raises NotValid without the profile, or if there are extenders."""
    configuration = configuration_of(snapshot.semantics)
    profile = configuration.profile(pod.spec.scheduler_name)
    if profile is None or configuration.extenders:
        raise NotValid
    return Framework(snapshot, profile)


@dataclass(frozen=True, eq=False)
class _OwnFilters:
    framework: Framework
    plugins: Sequence[StaticFilterPlugin]
    reads_whole_pod: bool


class NodeFilters:
    """The filters of kube-scheduler's plugins that read only the node, as functions; cached.

    Plugins of third parties are ignored. A Pod of another scheduler is evaluated by the first profile.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._configuration = snapshot, configuration_of(snapshot.semantics)
        self._own: dict[str, _OwnFilters] = {}
        self._known: dict[Hashable, Callable[[Node], bool]] = {}

    def filter_for(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the filters of the Pod's profile allow it, regardless of its Pods."""
        own = self._own.get(pod.spec.scheduler_name) or self._read(pod.spec.scheduler_name)
        read, constraints = read_by_filters(pod, whole=own.reads_whole_pod)
        key = own, read, id(pod.spec) if constraints is None else constraints
        if key not in self._known:
            filters = [passes for plugin in own.plugins if (passes := plugin.static_filter(pod)) is not None]
            self._known[key] = lambda node: all(passes(node) for passes in filters)
        return self._known[key]

    def _read(self, scheduler: str) -> _OwnFilters:
        profiles = self._configuration.profiles
        profile = self._configuration.profile(scheduler) or next(iter(profiles.values()))
        framework, foreign = Framework(self._snapshot, profile), foreign_at(profile, "filter")
        own = [name for name in profile.plugins_at("filter") if name not in foreign]
        static = [framework.plugin(name) for name in own if implements(profile.plugins[name], StaticFilterPlugin)]
        whole = any(plugin.reads_whole_pod for plugin in static)
        return self._own.setdefault(scheduler, _OwnFilters(framework, static, whole))
