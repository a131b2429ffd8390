"""The cluster as Karpenter sees it: nodes, and NodeClaims that are on their way.

Sources: pkg/controllers/state/cluster.go, statenode.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    at,
    string_map,
    text,
)
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, NO_SCHEDULE, Taint, read_taints
from forewarn.policies.kubernetes.objects.resources import ResourceList, read_resource_list
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.prediction.autoscaling.karpenter import requirements as label
from forewarn.policies.prediction.autoscaling.karpenter.node_pools import NODES
from forewarn.policies.prediction.autoscaling.karpenter.pods import ports_of, requests_of, sum_of
from forewarn.policies.prediction.autoscaling.karpenter.requirements import Requirements

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.objects.pod import HostPort, Pod
    from forewarn.policies.prediction.autoscaling.karpenter.topology import Storage

_EPHEMERAL: Final = frozenset(
    {
        ("node.kubernetes.io/not-ready", NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", NO_EXECUTE),
        ("node.kubernetes.io/unreachable", NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
        (f"{label.GROUP}/unregistered", NO_EXECUTE),
    }
)
DISRUPTED: Final = Taint(f"{label.GROUP}/disrupted", "", NO_SCHEDULE)
"""The taint of a node that Karpenter removes."""


class RunningNode(NamedTuple):
    """A Node or a NodeClaim."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: ResourceList
    allocatable: ResourceList
    deleting: bool

    @classmethod
    def from_api(cls, obj: ApiObject) -> RunningNode:
        """Read a Node or a NodeClaim. Raises InvalidObject."""
        name, labels = text(obj, "metadata", "name"), string_map(obj, "metadata", "labels")
        capacity, allocatable = (read_resource_list(obj, ("status", key), obj) for key in ("capacity", "allocatable"))
        deleting = at(obj, "metadata", "deletionTimestamp") is not None
        return cls(name, labels, read_taints(obj), capacity, allocatable, deleting)


@dataclass
class StateNode:
    """A Node, its NodeClaim, or both; its Pods do not change once they are read.

    `startup_taints`: of the NodeClaim. `limits`: CSI driver -> most volumes.
    """

    node: RunningNode | None
    claim: RunningNode | None
    startup_taints: frozenset[tuple[str, str]] = frozenset()
    pods: list[Pod] = field(default_factory=list)
    limits: Mapping[str, int] = field(default_factory=dict)

    def _has(self, key: str) -> bool:
        return self.claim is None or (self.node is not None and self.node.labels.get(key) == "true")

    @property
    def initialized(self) -> bool:
        """Whether the node is initialized; nodes that Karpenter does not manage are."""
        return self._has(label.INITIALIZED)

    @property
    def _source(self) -> RunningNode:
        """What names the node: its NodeClaim until it is registered."""
        is_registered = self.node is not None and self._has(label.REGISTERED)
        source = self.node if self.claim is None or is_registered else self.claim
        assert source is not None
        return source

    @property
    def name(self) -> str:
        """The name of the Node, or of the NodeClaim until the Node is registered."""
        return self._source.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self._source.labels

    @cached_property
    def requirements(self) -> Requirements:
        """The labels as requirements, which callers do not change."""
        return Requirements.of_labels(self.labels)

    @property
    def hostname(self) -> str:
        return self.labels.get(label.HOSTNAME) or self.name

    @property
    def deleting(self) -> bool:
        """Whether the node is being deleted, so that its Pods need other nodes."""
        source = self.claim or self.node
        disrupted = self.claim is not None and self.node is not None and DISRUPTED in self.node.taints
        return source is not None and (source.deleting or disrupted)

    def taints(self) -> tuple[Taint, ...]:
        """Return the taints that remain when the node is initialized."""
        taints = self._source.taints
        if self.initialized:
            return taints
        return tuple(
            taint
            for taint in taints
            if (taint.key, taint.effect) not in _EPHEMERAL | self.startup_taints
            and not taint.key.startswith("readiness.k8s.io/")
        )

    def _amounts(self, which: str) -> ResourceList:
        """Return the capacity or allocatable resources; of the NodeClaim where the Node does not report them yet."""
        own: ResourceList = getattr(self.node, which) if self.node else {}
        if self.claim is None or self.initialized:
            return own
        claimed: ResourceList = getattr(self.claim, which)
        return {**own, **{name: amount for name, amount in claimed.items() if not own.get(name)}}

    def capacity(self) -> ResourceList:
        return {**self._amounts("capacity"), NODES: NANO}

    @cached_property
    def available(self) -> ResourceList:
        """What is allocatable and not requested by the node's Pods; callers do not change it."""
        used = sum_of(requests_of(pod) for pod in self.pods)
        return {name: amount - used.get(name, 0) for name, amount in self._amounts("allocatable").items()}

    @cached_property
    def daemon_requests(self) -> ResourceList:
        return sum_of(requests_of(pod) for pod in self.pods if pod.owner_kind == "apps/DaemonSet")

    def ports(self) -> list[tuple[str, tuple[HostPort, ...]]]:
        return [(pod.key, ports_of(pod)) for pod in self.pods if pod.spec.host_ports]


@dataclass
class ClusterState:
    """All that Karpenter reads. `pods`: those on nodes. `daemons`: one Pod of each DaemonSet."""

    nodes: Sequence[StateNode]
    pods: Sequence[Pod]
    daemons: Sequence[Pod]
    namespaces: Sequence[Namespace]
    storage: Storage
    api_nodes: Mapping[str, RunningNode]

    @cached_property
    def active(self) -> Sequence[StateNode]:
        return [node for node in self.nodes if not node.deleting]

    def pods_on_nodes(self) -> Iterator[tuple[Pod, Mapping[str, str]]]:
        """Yield the Pods on nodes with the labels of their nodes."""
        for node in self.nodes:
            if node.node is not None:
                for pod in node.pods:
                    yield pod, node.node.labels

    @cached_property
    def counted(self) -> Sequence[tuple[Pod, RunningNode]]:
        """The Pods that count for topologies, with their nodes. Source: `IgnoredForTopology`."""
        return [
            (pod, self.api_nodes[pod.node_name])
            for pod in self.pods
            if not pod.terminal and not pod.terminating and pod.node_name in self.api_nodes
        ]


def usage_by_pool(nodes: Sequence[StateNode]) -> dict[str, ResourceList]:
    """Return NodePool -> the capacity of its nodes that are not being deleted."""
    pools = {node.labels.get(label.NODE_POOL, "") for node in nodes} - {""}
    live = [node for node in nodes if not node.deleting]
    return {pool: sum_of(n.capacity() for n in live if n.labels.get(label.NODE_POOL) == pool) for pool in pools}
