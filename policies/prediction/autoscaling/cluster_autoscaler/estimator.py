"""Estimate how many new nodes of one group Pending Pods need, like cluster-autoscaler's binpacking estimator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.node import HOSTNAME
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import FILTERS, CycleState, PluginFault, Status, unresolvable
from forewarn.policies.kubernetes.scheduling.not_predicted import not_predicted
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import NOT_MATCHED

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup


MAX_NODES: Final = 1_000
"""Maximum number of nodes of one scale-up. Source: --max-nodes-per-scaleup."""
NOT_TRIED: Final = "estimate limit reached"
_FILTERED_OUT: Final = unresolvable("PreFilter filtered the Node out")
_NEW_NODE: Final = 20
"""Units of work to add a node."""


class Estimate:
    """Estimates how many new nodes of one group Pods need. Source: upstream `BinpackingNodeEstimator`.

    `placed`: the Pods that fit, each with the name of its node.
    """

    def __init__(self, base: Snapshot, group: NodeGroup, template: NodeInfo, limit: int) -> None:
        """Prepare an estimate without any added node.

        `base`: the cluster. `template`: a new node with its DaemonSet Pods. `limit`: maximum number of nodes to add.
        """
        self.group = group
        self.placed: list[tuple[Pod, str]] = []
        self._base, self.most = base, limit
        self._infos: list[NodeInfo] = []
        self._used_names: set[str] = set()
        self._snapshot: Snapshot | None = None
        self._repels_pods = False
        self._last = 0
        self._template = template
        charge(len(base.node_infos) // 4)
        self._with_template = base.with_nodes([self._template])

    def on(self, base: Snapshot, limit: int) -> Estimate:
        """Return an estimate for the same group in another cluster, with at most `limit` nodes."""
        return Estimate(base, self.group, self._template, limit)

    @property
    def nodes(self) -> int:
        return len(self._used_names)

    def why_not(self, equivalence_group: EquivalenceGroup) -> str | None:
        """Return why the Pods do not fit on a new, empty node of the group; None if they fit.

        Source: upstream `SchedulablePodGroups`.
        """
        pod = equivalence_group.pods[0]
        if why := not_predicted(pod, self._base):
            return why
        try:
            rejected = Prepared(self._with_template, pod).rejection(pod, self._template)
        except PluginFault as fault:
            return str(fault)
        return None if rejected is None else ", ".join(rejected.reasons)

    def on_one_node(self, pod: Pod, limit: int) -> int | None:
        """Return how many Pods equal to `pod` fit on a new node, at most `limit`. Raises PluginFault.

        None if the number depends on other nodes.
        """
        prepared, info = Prepared(self._with_template, pod), self._template.clone()
        if not prepared.holds:
            return None
        for number in range(limit):
            if prepared.rejection(pod, info) is not None:
                return number
            info.add_pod(pod.bound_to(info.name, {}))
        return limit

    def with_all(self) -> Snapshot:
        """Return the cluster with the maximum number of added nodes, without the Pods of the estimate."""
        charge(_NEW_NODE * self.most + len(self._base.node_infos) // 4)
        for _ in range(self.most):
            self._add_node()
        return self._base.with_nodes([info.clone() for info in self._infos])

    def run(self, equivalence_groups: Iterable[EquivalenceGroup]) -> None:
        """Place Pods on new nodes, the largest Pods first. Source: upstream `Estimate`."""
        more = True
        for largest in sorted(equivalence_groups, key=lambda equal: -self._score(equal.pods[0])):
            rest = self._on_added(largest.pods)
            if more:
                more = self._on_new(rest)

    def _score(self, pod: Pod) -> float:
        """Return the sort score: the Pod's shares of a node's cpu and memory. Source: `calculatePodScore`."""
        requests, allocatable = pod.occupies.resource, self.group.node.allocatable
        score = requests.milli_cpu / allocatable.milli_cpu if allocatable.milli_cpu > 0 else 0.0
        return score + (requests.memory / allocatable.memory if allocatable.memory > 0 else 0.0)

    def _on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Place equal Pods on nodes that were added already, up to the first Pod that does not fit. Return the
        remaining Pods.

        Each search starts after the node of the last Pod. Source: upstream `tryToScheduleOnExistingNodes`.
        """
        prepared: Prepared | None = None
        for index, pod in enumerate(pods):
            prepared = self._prepared(pod, prepared)
            number = next((n for n in self._node_order() if prepared.rejection(pod, self._infos[n]) is None), None)
            if number is None:
                return pods[index:]
            self._last = len(self._base.node_infos) + number
            self._place(pod, self._infos[number])
        return ()

    def _node_order(self) -> Iterator[int]:
        """Yield the indices of the added nodes in upstream's order. Source: `NewLastIndexOrderMapping(1)`."""
        before, count = len(self._base.node_infos), len(self._infos)
        first = max((self._last + 1) % (before + count) - before, 0) if count else 0
        yield from range(first, count)
        yield from range(first)

    def _on_new(self, pods: Sequence[Pod]) -> bool:
        """Fill the last added node, then add nodes; false if no more are allowed. Source: `tryToScheduleOnNewNodes`."""
        prepared: Prepared | None = None
        for pod in pods:
            if self._infos:
                prepared, last = self._prepared(pod, prepared), self._infos[-1]
                rejected = prepared.rejection(pod, last)
                if rejected is None:
                    self._place(pod, last)
                    continue
                if self._on_any_other(prepared, pod, rejected):
                    continue
                if last.name not in self._used_names:
                    return True
            if len(self._infos) >= self.most:
                return False
            self._add_node()
            prepared = self._prepared(pod, prepared)
            if prepared.rejection(pod, self._infos[-1]) is not None:
                break
            self._place(pod, self._infos[-1])
        return True

    def _on_any_other(self, prepared: Prepared, pod: Pod, rejected: Status) -> bool:
        """Return whether a Pod with a topology spread constraint on hostnames fits on any other node, which upstream
        also tries.

        If so, places the Pod on that node. `rejected`: why the last added node does not accept the Pod.
        """
        if rejected.reasons != NOT_MATCHED.reasons or all(c.topology_key != HOSTNAME for c in pod.spec.topology_spread):
            return False
        for info in [*self._base.node_infos, *self._infos[:-1]]:
            if info.node.unschedulable or prepared.rejection(pod, info) is not None:
                continue
            if info.name in self._base.rows:
                self._base = self._base.with_pods([pod.bound_to(info.name, {})], ())
                self._placed(pod, info.name)
            else:
                self._place(pod, info)
            return True
        return False

    def _add_node(self) -> None:
        info = self._template.clone()
        info.node = self.group.new_node(len(self._infos))
        self._infos.append(info)
        self._snapshot = None

    def _place(self, pod: Pod, info: NodeInfo) -> None:
        info.add_pod(pod.bound_to(info.name, {}))
        self._placed(pod, info.name)

    def _placed(self, pod: Pod, name: str) -> None:
        self._repels_pods = self._repels_pods or pod.spec.pod_affinity.has_required_anti_affinity
        self._used_names.add(name)
        self.placed.append((pod, name))
        self._snapshot = None

    def _prepared(self, pod: Pod, before: Prepared | None) -> Prepared:
        """Return the results of PreFilter plugins. `before`: those of an equal Pod, returned if still valid."""
        if before is not None and (before.holds or self._snapshot is not None):
            return before
        if before is None and not self._repels_pods:
            of_node_alone = Prepared(self._with_template, pod)
            if of_node_alone.holds:
                return of_node_alone
        if self._snapshot is None:
            charge((len(self._base.node_infos) + 8 * len(self._infos)) // 4)
            self._snapshot = self._base.with_nodes([info.clone() for info in self._infos])
        return Prepared(self._snapshot, pod)


class Prepared:
    """The result of a Pod's PreFilter plugins.

    `holds`: whether the result stays valid for all equal Pods, whatever nodes and Pods are added.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod) -> None:
        self._framework, self._state = framework_of(snapshot, pod), CycleState()
        result, _ = self._framework.run_pre_filter_plugins(self._state, pod)
        self._rejected, self._names = result.status, result.names
        filters = {name for name, _ in self._framework.filters if name not in self._state.skip_filter}
        self.holds = result.status is None and result.names is None and filters <= self._framework.reads_one_node

    def rejection(self, pod: Pod, info: NodeInfo) -> Status | None:
        """Return why a node's filters reject a Pod; None if not. Raises PluginFault. Source: `RunFiltersOnNode`."""
        charge(FILTERS)
        if self._rejected is not None:
            return self._rejected
        if self._names is not None and info.name not in self._names:
            return _FILTERED_OUT
        return self._framework.run_filter_plugins(self._state, pod, info)


_MAX_PER_CONTROLLER: Final = 10
"""Maximum number of groups of equal Pods per controller. Source: maxEquivalenceGroupsByController."""


class EquivalenceGroup:
    """Pods that are equal for scheduling. `reasons`: why no Pod fits, by node group. Source: equivalence `PodGroup`."""

    def __init__(self, pods: list[Pod]) -> None:
        self.pods = pods
        self.reasons: dict[str, str] = {}


def group_by_scheduling_properties(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """Group equal Pods by controller, labels and spec. Source: upstream `groupPodsBySchedulingProperties`."""
    equivalence_groups: list[EquivalenceGroup] = []
    of_controller: dict[tuple[str, ...], list[EquivalenceGroup]] = {}
    for pod in pods:
        groups_of_owner: list[EquivalenceGroup] = []
        if pod.owner is not None:
            kind, name, uid, _ = pod.owner
            groups_of_owner = of_controller.setdefault((pod.namespace, kind, name, uid), [])
            charge(1 + len(groups_of_owner))
        same = next((equal for equal in groups_of_owner if _properties(equal.pods[0]) == _properties(pod)), None)
        if same is not None:
            same.pods.append(pod)
            continue
        equivalence_groups.append(EquivalenceGroup([pod]))
        if pod.owner is not None and len(groups_of_owner) < _MAX_PER_CONTROLLER:
            groups_of_owner.append(equivalence_groups[-1])
    return equivalence_groups


_properties: Final = attrgetter("labels", "spec", "device_claims", "effective_priority")
"""The properties that are equal for all Pods of a group."""
