"""The cluster as Karpenter sees it: nodes, NodeClaims that are on their way, and Pods that it may evict.

Sources: pkg/controllers/state/cluster.go, statenode.go, pkg/utils/pdb, pkg/utils/pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from forewarn.policies.autoscaling.karpenter import requirements as label
from forewarn.policies.autoscaling.karpenter.node_pools import NODES
from forewarn.policies.autoscaling.karpenter.pods import ports_of, requests_of, sum_of, untolerated
from forewarn.policies.autoscaling.karpenter.requirements import Requirements
from forewarn.policies.autoscaling.karpenter.topology import Storage
from forewarn.policies.findings import grouped
from forewarn.policies.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.metering import charge
from forewarn.policies.objects.fields import (
    NOTHING,
    REQUIRED,
    ApiObject,
    at,
    group_kind,
    int32,
    items,
    mapping,
    namespace_of,
    string_map,
    text,
    timestamp,
)
from forewarn.policies.objects.namespace import Namespace
from forewarn.policies.objects.node import NO_EXECUTE, NO_SCHEDULE, Taint, read_taints
from forewarn.policies.objects.pod import HostPort, Pod
from forewarn.policies.objects.resources import ResourceList, read_resource_list
from forewarn.policies.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from forewarn.policies.quantity import NANO
from forewarn.policies.scheduling.configuration import seconds
from forewarn.policies.selectors import InvalidSelector, LabelSelector, parse_label_selector

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
    """A Node or a NodeClaim. `obj`: the API object, if it was read from one."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: ResourceList
    allocatable: ResourceList
    provider_id: str
    deleting: bool
    obj: ApiObject = NOTHING

    @classmethod
    def of_node(cls, obj: ApiObject) -> RunningNode:
        """Read a Node. Raises InvalidObject."""
        return cls._read(obj, text(obj, "spec", "providerID"))

    @classmethod
    def of_claim(cls, obj: ApiObject) -> RunningNode:
        """Read a NodeClaim. Raises InvalidObject."""
        return cls._read(obj, text(obj, "status", "providerID"), terminating=holds(obj, "InstanceTerminating"))

    @classmethod
    def _read(cls, obj: ApiObject, provider_id: str, *, terminating: bool = False) -> RunningNode:
        name, labels = text(obj, "metadata", "name"), string_map(obj, "metadata", "labels")
        capacity, allocatable = (read_resource_list(obj, ("status", key), obj) for key in ("capacity", "allocatable"))
        deleting = terminating or _is_terminating(obj)
        return cls(name, labels, read_taints(obj), capacity, allocatable, provider_id, deleting, obj)


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
    """All that Karpenter reads. `pods`: those on nodes. `moving`: Pods on nodes that are being deleted, which need
    another node. `daemons`: one Pod of each DaemonSet.

    `unsynced`: whether Karpenter waits for a NodeClaim or Node. `leaving`: names of nodes of which Karpenter checks the
    removal. `closed`: names of nodes that take no Pods of them (`avoiding`, by identity).
    """

    nodes: Sequence[StateNode]
    pods: Sequence[Pod]
    moving: Sequence[Pod]
    daemons: Sequence[Pod]
    namespaces: Sequence[Namespace]
    storage: Storage
    api_nodes: Mapping[str, RunningNode]
    unsynced: bool = False
    leaving: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    avoiding: frozenset[str] = frozenset()

    @cached_property
    def active(self) -> Sequence[StateNode]:
        return [node for node in self.nodes if not node.deleting and node.name not in self.leaving]

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


DO_NOT_DISRUPT: Final = f"{label.GROUP}/do-not-disrupt"
NODE_CLAIM: Final = f"{label.GROUP}/NodeClaim"
NODE_POOLS: Final = f"{label.GROUP}/NodePool"
_NAMESPACE: Final = "/Namespace"
KINDS: Final = (
    "/Node", NODE_CLAIM, "/Pod", "apps/DaemonSet", NODE_POOLS, _NAMESPACE, DISRUPTION_BUDGET, "/PersistentVolumeClaim",
    "/PersistentVolume", "storage.k8s.io/StorageClass", "storage.k8s.io/CSINode",
)  # fmt: skip


class Objects:
    """The API objects of a cluster that Karpenter reads, by `group/Kind`."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[tuple[str, str], ApiObject]] = {kind: {} for kind in KINDS}

    def collect(self, obj: ApiObject, kind: str = "") -> None:
        """Add or replace an object (see `Cache`). `kind`: that of an object that does not name it."""
        objects = self._by_kind.get(kind or group_kind(obj))
        if objects is not None:
            objects[text(obj, "metadata", "namespace"), text(obj, "metadata", "name")] = obj

    def of(self, kind: str) -> list[ApiObject]:
        return list(self._by_kind[kind].values())


class Eviction:
    """Which Pods Karpenter may evict. `now`: seconds since 1970."""

    def __init__(self, pdbs: Iterable[ApiObject], now: float) -> None:
        self.now = now
        self._pdbs = grouped((namespace_of(pdb), (pdb, selector)) for pdb in pdbs if (selector := _selector(pdb)))

    def is_protected(self, obj: ApiObject) -> bool:
        """Report whether the annotation do-not-disrupt protects a Pod. Source: `IsDoNotDisruptActive`."""
        value = string_map(obj, "metadata", "annotations").get(DO_NOT_DISRUPT, "")
        if value == "true" or not value or not _is_active(obj):
            return bool(value) and _is_active(obj)
        duration, start = seconds(value), timestamp(obj, "status", "startTime")
        return duration is not None and duration > 0 and (start is None or self.now - start < duration)

    def blocking(self, obj: ApiObject, *, for_ever: bool = False) -> list[str]:
        """Return the names of the PDBs that prevent the eviction of a Pod: now, or with any number of healthy Pods
        (`for_ever`). Source: `isEvictable`.
        """
        own = self._pdbs.get(namespace_of(obj), ())
        if not own or not _is_active(obj) or _owner(obj, "Node", "v1") or self.is_protected(obj):
            return []
        pod = Pod.from_api(obj)
        if untolerated((DISRUPTED,), pod.spec.tolerations) is None:
            return []
        charge(len(own))
        matching = [pdb for pdb, selector in own if selector.matches(pod.labels)]
        if len(matching) == 1 and not self._blocks(matching[0], obj, for_ever=for_ever):
            return []
        return [text(pdb, "metadata", "name") for pdb in matching]

    @staticmethod
    def _blocks(pdb: ApiObject, pod: ApiObject, *, for_ever: bool) -> bool:
        spec = mapping(pdb, "spec")
        if condition(pod, "Ready").get("status") == "False" and spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return False
        if not for_ever:
            return not int32(pdb, "status", "disruptionsAllowed")
        zero = spec.get("maxUnavailable")
        return (zero in (0, "0%") and zero is not False) or spec.get("minAvailable") == "100%"

    def moves(self, obj: ApiObject) -> bool:
        """Report whether a Pod gets a place elsewhere if its node is removed. Source: `IsCurrentlyReschedulable`."""
        return is_reschedulable(obj) and not self.is_protected(obj) and not self.blocking(obj, for_ever=True)


def condition(obj: ApiObject, kind: str) -> ApiObject:
    """Return the first condition of this type in the status of an object; empty without one."""
    return next((c for c in items(obj, "status", "conditions") if c.get("type") == kind), NOTHING)


def holds(obj: ApiObject, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def _selector(pdb: ApiObject) -> LabelSelector | None:
    try:
        return parse_label_selector(at(pdb, "spec", "selector"))
    except InvalidSelector:
        return None


def _is_active(obj: ApiObject) -> bool:
    return at(obj, "status", "phase") not in ("Failed", "Succeeded") and not _is_terminating(obj)


def _is_terminating(obj: ApiObject) -> bool:
    return at(obj, "metadata", "deletionTimestamp") is not None


def _owner(obj: ApiObject, kind: str, version: str = "apps/v1") -> bool:
    references = items(obj, "metadata", "ownerReferences")
    return any((o.get("apiVersion"), o.get("kind")) == (version, kind) for o in references)


def is_reschedulable(obj: ApiObject) -> bool:
    """Report whether a Pod of a removed node is created again elsewhere. Source: `IsReschedulable`."""
    if _owner(obj, "DaemonSet") or _owner(obj, "Node", "v1"):
        return False
    return _is_active(obj) or (_is_terminating(obj) and _owner(obj, "StatefulSet"))


def is_unschedulable(obj: ApiObject) -> bool:
    """Report whether Karpenter considers a Pending Pod. Source: `IsProvisionable`."""
    marked = condition(obj, "PodScheduled").get("reason") == "Unschedulable"
    bound = at(obj, "spec", "nodeName") or at(obj, "status", "nominatedNodeName")
    return marked and not bound and not _owner(obj, "DaemonSet") and not _owner(obj, "Node", "v1")


def pods_by_node(objects: Objects) -> dict[str, list[ApiObject]]:
    """Return the Pods on each node, also those that have terminated."""
    names = ((text(obj, "spec", "nodeName"), obj) for obj in objects.of("/Pod"))
    return grouped((name, obj) for name, obj in names if name)


def read_state(objects: Objects, eviction: Eviction) -> ClusterState:
    """Return the state of a cluster. Raises InvalidObject."""
    raw = [pod for pods in pods_by_node(objects).values() for pod in pods]
    pods = [Pod.from_api(pod) for pod in raw]
    limits = {node.name: node.limits for node in map(CSINode.from_api, objects.of("storage.k8s.io/CSINode"))}
    nodes, unsynced = _state_nodes(objects.of("/Node"), objects.of(NODE_CLAIM), pods, limits)
    storage = _storage(objects)
    leaving = {node.node.name for node in nodes if node.deleting and node.node}
    return ClusterState(
        nodes=nodes,
        pods=pods,
        moving=[unbound(pod) for pod in raw if at(pod, "spec", "nodeName") in leaving and eviction.moves(pod)],
        daemons=[_daemon(daemon_set, raw) for daemon_set in objects.of("apps/DaemonSet")],
        namespaces=_namespaces(objects),
        storage=storage,
        api_nodes={node.name: node for node in map(RunningNode.of_node, objects.of("/Node"))},
        unsynced=unsynced or any(storage.misses_volume(pod) for node in nodes for pod in node.pods),
    )


def _storage(objects: Objects) -> Storage:
    return Storage(
        {claim.key: claim for claim in map(PersistentVolumeClaim.from_api, objects.of("/PersistentVolumeClaim"))},
        {volume.name: volume for volume in map(PersistentVolume.from_api, objects.of("/PersistentVolume"))},
        {one.name: one for one in map(StorageClass.from_api, objects.of("storage.k8s.io/StorageClass"))},
    )


def _namespaces(objects: Objects) -> list[Namespace]:
    namespaces = {text(obj, "metadata", "name"): obj for obj in objects.of(_NAMESPACE)}
    namespaces.setdefault("default", {"metadata": {"name": "default"}})
    return [Namespace.from_api(obj) for obj in namespaces.values()]


def _state_nodes(
    nodes: Sequence[ApiObject],
    claims: Sequence[ApiObject],
    pods: Sequence[Pod],
    limits: Mapping[str, Mapping[str, int]],
) -> tuple[list[StateNode], bool]:
    """Return the nodes that Karpenter tracks, and whether it waits until it can track all. Raises InvalidObject.

    `limits`: node name -> CSI driver -> most volumes.
    """
    tracked: dict[str, StateNode] = {}
    waits = False
    for obj in claims:
        claim = RunningNode.of_claim(obj)
        startup = frozenset((text(t, "key"), text(t, "effect")) for t in items(obj, "spec", "startupTaints"))
        waits = waits or not claim.provider_id
        if claim.provider_id:
            tracked[claim.provider_id] = StateNode(None, claim, startup)
    bound = grouped((pod.node_name, pod) for pod in pods if not pod.terminal)
    for obj in nodes:
        node = RunningNode.of_node(obj)
        managed = bool(node.labels.get(label.NODE_POOL))
        typed = node.labels.get(label.INSTANCE_TYPE) or node.labels.get(label.INITIALIZED)
        if managed and not (node.provider_id and typed):
            waits = True
            continue
        state = tracked.setdefault(node.provider_id or node.name, StateNode(None, None))
        state.node, state.pods, state.limits = node, bound.get(node.name, []), limits.get(node.name, {})
    return list(tracked.values()), waits


def unbound(pod: ApiObject) -> Pod:
    """Return a Pod without its node."""
    return Pod.from_api({**pod, "spec": {**mapping(pod, "spec"), "nodeName": ""}})


def _daemon(daemon_set: ApiObject, pods: Iterable[ApiObject]) -> Pod:
    """Return a Pod of a DaemonSet: its newest one, otherwise one of its template. Source: `getDaemonSetPods`."""
    template, uid = mapping(daemon_set, "spec", "template"), at(daemon_set, "metadata", "uid")
    own = [
        pod
        for pod in pods
        if namespace_of(pod) == namespace_of(daemon_set)
        and any(o.get("uid") == uid and o.get("controller") for o in items(pod, "metadata", "ownerReferences"))
    ]
    newest = max(own, key=lambda pod: timestamp(pod, "metadata", "creationTimestamp") or 0, default=None)
    spec = dict(mapping(template if newest is None else newest, "spec"))
    required = at(template, "spec", "affinity", "nodeAffinity", REQUIRED)
    if required is not None:
        affinity = dict(mapping(spec, "affinity"))
        spec["affinity"] = {**affinity, "nodeAffinity": {**mapping(affinity, "nodeAffinity"), REQUIRED: required}}
    return unbound({"metadata": mapping(newest or daemon_set, "metadata"), "spec": spec})
