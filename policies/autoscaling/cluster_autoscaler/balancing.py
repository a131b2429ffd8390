"""Distribute a scale-up between similar node groups. Source: processors/nodegroupset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.autoscaling.cluster_autoscaler.node_group import HOSTNAME
from forewarn.policies.metering import charge
from forewarn.policies.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from forewarn.policies.quantity import NANO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.autoscaling.cluster_autoscaler.node_group import NodeGroup
    from forewarn.policies.objects.resources import ResourceList
    from forewarn.policies.scheduling.node_info import NodeInfo

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
