"""One scale-up: which node groups get how many nodes. Source: core/scaleup/orchestrator/orchestrator.go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from forewarn.policies.autoscaling.cluster_autoscaler.estimator import MAX_NODES, EquivalenceGroup, Estimate
from forewarn.policies.autoscaling.cluster_autoscaler.expanders import (
    DEFAULT,
    Option,
    Priorities,
    best_options,
    option_of,
)
from forewarn.policies.autoscaling.cluster_autoscaler.flags import Interval, Number, Share, Switch, flags_of
from forewarn.policies.autoscaling.cluster_autoscaler.scale_down import ScaleDownSettings
from forewarn.policies.metering import charge
from forewarn.policies.objects.node import HOSTNAME
from forewarn.policies.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ResourceList
from forewarn.policies.quantity import NANO
from forewarn.policies.scheduling.framework import PluginFault

if TYPE_CHECKING:
    from forewarn.policies.autoscaling.cluster_autoscaler.node_group import NodeGroup
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot


SCAN_INTERVAL: Final = 10.0
"""Default of --scan-interval, in seconds."""
BASIC_IGNORED_LABELS: Final = frozenset(
    {
        HOSTNAME,
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    }
)
PROVIDER_LABELS: Final = {
    "aws": frozenset(
        {
            "alpha.eksctl.io/instance-id",
            "alpha.eksctl.io/nodegroup-name",
            "eks.amazonaws.com/nodegroup",
            "k8s.amazonaws.com/eniConfig",
            "lifecycle",
            "topology.ebs.csi.aws.com/zone",
            "topology.k8s.aws/zone-id",
        }
    ),
    "azure": frozenset(
        {
            "agentpool",
            "aksEngineVersion",
            "creationSource",
            "kubernetes.azure.com/agentpool",
            "kubernetes.azure.com/consolidated-additional-properties",
            "kubernetes.azure.com/node-image-version",
            "poolName",
            "resourceNameSuffix",
            "topology.disk.csi.azure.com/zone",
        }
    ),
    "gce": frozenset({"topology.gke.io/zone"}),
}
"""--cloud-provider -> further ignored labels. Sources: {aws,azure,gce}_nodegroups.go."""
_MEMORY_RATIO: Final = 0.015
_RATIO: Final = 0.05
"""Tolerated differences of memory capacity, and of allocatable and free resources."""


class Similarity:
    """Finds node groups that are similar to another one. Source: `IsCloudProviderNodeInfoSimilar`."""

    def __init__(
        self, groups: Iterable[NodeGroup], templates: Mapping[str, NodeInfo], ignored_labels: frozenset[str]
    ) -> None:
        ignored = BASIC_IGNORED_LABELS | ignored_labels
        self._free = {name: _free(info) for name, info in templates.items()}
        self._labels: dict[str, frozenset[tuple[str, str]]] = {}
        self._by_labels: dict[frozenset[tuple[str, str]], list[NodeGroup]] = {}
        for group in groups:
            labels = frozenset((key, value) for key, value in group.node.labels.items() if key not in ignored)
            self._labels[group.name] = labels
            self._by_labels.setdefault(labels, []).append(group)

    def of(self, group: NodeGroup) -> list[NodeGroup]:
        """Return the other groups that are similar to this one."""
        others = self._by_labels[self._labels[group.name]]
        charge(len(others))
        return [other for other in others if other.name != group.name and self._are_similar(group, other)]

    def _are_similar(self, one: NodeGroup, other: NodeGroup) -> bool:
        return (
            one.capacity.keys() == other.capacity.keys()
            and all(
                _within(amount, other.capacity[name], _MEMORY_RATIO)
                if name == MEMORY
                else amount == other.capacity[name]
                for name, amount in one.capacity.items()
            )
            and _all_within(one.allocatable, other.allocatable)
            and _all_within(
                *(
                    {name: group.allocatable.get(name, 0) - amount for name, amount in self._free[group.name].items()}
                    for group in (one, other)
                )
            )
        )


def _free(info: NodeInfo) -> ResourceList:
    """Return the requests on a template, in billionths."""
    basic = {CPU: info.milli_cpu * NANO // 1000, MEMORY: info.memory * NANO, PODS: 0}
    scalars = {name: amount * NANO for name, amount in info.scalars.items()}
    return {**basic, EPHEMERAL_STORAGE: info.ephemeral_storage * NANO, **scalars}


def _all_within(one: ResourceList, other: ResourceList) -> bool:
    return one.keys() == other.keys() and all(_within(one[name], other[name], _RATIO) for name in one)


def _within(one: int, other: int, ratio: float) -> bool:
    larger, smaller = (-(-amount * 1000 // NANO) for amount in (max(one, other), min(one, other)))
    return larger - smaller <= larger * ratio


def balanced(groups: Sequence[NodeGroup], new_nodes: int) -> list[tuple[NodeGroup, int]]:
    """Return the number of new nodes for each group, smallest groups first. Source: `BalanceScaleUpBetweenGroups`.

    `groups`: the chosen group first. `new_nodes`: at most MAX_NODES.
    """
    growing = sorted((group for group in groups if group.max_size != group.size), key=lambda group: group.size)
    rooms = [new_nodes if group.max_added is None else min(group.max_added, new_nodes) for group in growing]
    sizes = [group.size for group in growing]
    order = list(range(len(growing)))
    start = current = 0
    left = min(new_nodes, sum(rooms))
    while left > 0:
        index = order[current]
        if sizes[index] - growing[index].size < rooms[index]:
            sizes[index] += 1
            left -= 1
        else:
            order[start], order[current] = order[current], order[start]
            start += 1
        if current < len(order) - 1 and sizes[order[current]] > sizes[order[current + 1]]:
            current += 1
        else:
            current = start
    added = ((group, size - group.size) for group, size in zip(growing, sizes, strict=True))
    return [(group, number) for group, number in added if number]


LIMITS_NOT_MODELLED: Final = "the limits --cores-total and --memory-total are not modelled"
MAX_SIZE_REACHED: Final = "max node group size reached"
BACK_OFF: Final = "in backoff after failed scale-up"
NOT_READY: Final = "not ready for scale-up"
"""Upstream's reasons for groups that do not grow. Source: orchestrator/skippedreasons.go."""


class Settings(NamedTuple):
    """Flags of cluster-autoscaler. `expanders`: --expander. `max_nodes_total`: 0 for no limit.

    `limits`: maximum cpu (cores) and memory (bytes) of all nodes. `priorities`: for the expander priority.
    `scan_interval`: in seconds. `frequent_scans`: whether a scan follows a scale-up at once. `unready`: the nodes that
    are not ready; cluster-autoscaler halts with more than `ok_unready` and more than `max_unready` percent of them.
    `unmodelled`: names of flags that have no effect here.
    """

    expanders: Sequence[str] = (DEFAULT,)
    balance_similar: Annotated[Switch, "balance-similar-node-groups"] = False
    ignored_labels: frozenset[str] = frozenset()
    max_nodes_total: Annotated[Number, "max-nodes-total"] = 0
    limits: Mapping[str, int] = {}
    force_daemon_sets: Annotated[Switch, "force-ds"] = False
    priorities: Priorities | None = None
    scale_down: ScaleDownSettings = ScaleDownSettings()
    scan_interval: Annotated[Interval, "scan-interval"] = SCAN_INTERVAL
    frequent_scans: Annotated[Switch, "frequent-loops-enabled"] = True
    unready: frozenset[str] = frozenset()
    ok_unready: Annotated[Number, "ok-total-unready-count"] = 3
    max_unready: Annotated[Share, "max-total-unready-percentage"] = 45.0
    unmodelled: Sequence[str] = ()

    @property
    def next_scan(self) -> float:
        """The maximum seconds from a scan that scales up to the next one. Source: loop/trigger.go."""
        return min(self.scan_interval, SCAN_INTERVAL) if self.frequent_scans else self.scan_interval

    def why_halted(self, nodes: Collection[str]) -> str:
        """Return why cluster-autoscaler neither adds nor removes nodes, or "". Source: `IsClusterHealthy`."""
        unready = sum(name in nodes for name in self.unready)
        if unready <= self.ok_unready or unready <= self.max_unready / 100 * len(nodes):
            return ""
        return f"cluster-autoscaler halts while {unready} of {len(nodes)} nodes are not ready"


SCALE_UP_FLAGS: Final = flags_of(Settings)


class Decision(NamedTuple):
    """The result of one scale-up. `added`: names of groups with their numbers of nodes; empty if no group helps.

    `options`: what each group offers. `best`: the options from which upstream chooses randomly; forewarn chooses the
    first one, `chosen`. `similar`: similar groups, by group.
    """

    added: Sequence[tuple[str, int]] = ()
    options: Sequence[Option] = ()
    best: Sequence[Option] = ()
    chosen: Estimate | None = None
    similar: Mapping[str, Sequence[str]] = {}


def node_amounts(capacity: ResourceList) -> dict[str, int]:
    """Return the cores and bytes that count for limits. Source: `GetNodeCoresAndMemory`."""
    return {name: max(-(-capacity.get(name, 0) // NANO), 0) for name in (CPU, MEMORY)}


class Orchestrator:
    """Decides on one scale-up of node groups for Pods that do not fit on the nodes of a Snapshot.

    `left`: amount of each limited resource that may still be added. `tried`: number of nodes that earlier estimates
    tried, by node group, for the names of new nodes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[NodeGroup],
        templates: Mapping[str, NodeInfo],
        settings: Settings,
        left: Mapping[str, int],
        tried: Mapping[str, int],
    ) -> None:
        self._snapshot, self._groups, self._templates = snapshot, groups, templates
        self._settings, self._left, self._tried = settings, dict(left), tried

    def decide(self, equivalence_groups: Sequence[EquivalenceGroup]) -> Decision:
        """Return the scale-up; record why Pods do not fit. Raises NotPredicted for an unknown expander."""
        estimates = self._estimates(equivalence_groups)
        options = [option_of(estimate) for estimate in estimates if estimate.placed]
        similar = {name: [group.name for group in groups] for name, groups in self._similar.items()}
        if not options:
            return Decision(similar=similar)
        ids = {group.name: group.id for group in self._groups}
        best = best_options(options, self._settings.expanders, self._settings.priorities, ids)
        chosen = next(estimate for estimate in estimates if estimate.group.name == best[0].group)
        new_nodes = self._allowed(chosen.group, min(chosen.nodes, self._most_in_cluster))
        growing = (group for group in self._similar[chosen.group.name] if not self._exceeded(group, 1))
        added = balanced([chosen.group, *growing], new_nodes)
        return Decision(list(self._capped(added)), options, best, chosen, similar)

    @property
    def _most_in_cluster(self) -> int:
        most = self._settings.max_nodes_total
        return max(most - len(self._snapshot.node_infos), 0) if most > 0 else MAX_NODES

    def _estimates(self, equivalence_groups: Sequence[EquivalenceGroup]) -> list[Estimate]:
        """Return an estimate for each group that may grow. Source: `prepareScaleUp`."""
        estimates: list[tuple[Estimate, list[EquivalenceGroup]]] = []
        for group in self._groups:
            if why := self._why_skipped(group):
                for equivalence_group in equivalence_groups:
                    equivalence_group.reasons[group.name] = why
                continue
            template = self._templates[group.name]
            estimate = Estimate(self._snapshot, group, template, MAX_NODES, self._tried.get(group.name, 0))
            estimates.append((estimate, list(_fitting(estimate, equivalence_groups))))
        self._similar = self._similar_groups({estimate.group.name: fitting for estimate, fitting in estimates})
        for estimate, fitting in estimates:
            rooms = [group.max_added for group in (estimate.group, *self._similar[estimate.group.name])]
            limits = [room for room in rooms if room is not None]
            room = sum(limits) if len(limits) == len(rooms) else MAX_NODES
            estimate.most = min(MAX_NODES, room, self._most_in_cluster)
            try:
                estimate.run(fitting)
            except PluginFault as fault:
                for equivalence_group in fitting:
                    equivalence_group.reasons[estimate.group.name] = str(fault)
                estimate.placed.clear()
        return [estimate for estimate, _ in estimates]

    def _why_skipped(self, group: NodeGroup) -> str:
        """Return why a group does not grow, or "". Source: `filterValidScaleUpNodeGroups`."""
        if group.blocked:
            return group.blocked
        if group.max_added == 0:
            return MAX_SIZE_REACHED
        if exceeded := self._exceeded(group, 1):
            return f'exceeded quota: "cluster-wide", resources: {", ".join(exceeded)}'
        return ""

    def _similar_groups(self, fitting: Mapping[str, Sequence[EquivalenceGroup]]) -> dict[str, list[NodeGroup]]:
        """Return the similar groups that fit the same Pods, by group. Source: `ComputeSimilarNodeGroups`."""
        if not self._settings.balance_similar:
            return {name: [] for name in fitting}
        pods = {name: frozenset(map(id, some)) for name, some in fitting.items()}
        growing = [group for group in self._groups if pods.get(group.name)]
        similarity = Similarity(growing, self._templates, self._settings.ignored_labels)
        similar = {
            group.name: [other for other in similarity.of(group) if pods[group.name] <= pods[other.name]]
            for group in growing
        }
        return {name: similar.get(name, []) for name in fitting}

    def _exceeded(self, group: NodeGroup, nodes: int) -> list[str]:
        """Return the limited resources of which too little is left for these nodes."""
        amounts = node_amounts(group.capacity)
        return [name for name, left in self._left.items() if amounts[name] > 0 and left < amounts[name] * nodes]

    def _allowed(self, group: NodeGroup, nodes: int) -> int:
        """Return how many of these nodes the limits allow. Source: resourcequotas `checkQuota`."""
        amounts = node_amounts(group.capacity)
        return min([nodes, *(self._left[name] // amounts[name] for name in self._exceeded(group, nodes))])

    def _capped(self, added: Iterable[tuple[NodeGroup, int]]) -> Iterable[tuple[str, int]]:
        """Yield the names of groups with the numbers that the limits allow together. Source: `capScaleUpsByQuota`."""
        for group, wanted in added:
            nodes = self._allowed(group, wanted)
            for name, amount in node_amounts(group.capacity).items():
                if name in self._left:
                    self._left[name] -= amount * nodes
            if nodes:
                yield group.name, nodes


def _fitting(estimate: Estimate, equivalence_groups: Iterable[EquivalenceGroup]) -> Iterable[EquivalenceGroup]:
    """Yield the Pods that fit on a new node; record why others do not. Source: `SchedulablePodGroups`."""
    for equivalence_group in equivalence_groups:
        if why := estimate.why_not(equivalence_group):
            equivalence_group.reasons[estimate.group.name] = why
        else:
            yield equivalence_group
