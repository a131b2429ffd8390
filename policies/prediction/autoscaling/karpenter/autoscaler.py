"""Karpenter in a simulation: the cluster as Karpenter sees it, one round of its provisioner, and the nodes that it
launches.

Sources: pkg/controllers/state/cluster.go, statenode.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, mapping, string_map, text
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT, Taint, read_taints
from forewarn.policies.kubernetes.objects.pod import HostPort, Pod
from forewarn.policies.kubernetes.objects.resources import ExactAmounts, read_resource_list
from forewarn.policies.kubernetes.quantity import NANO, Quantity
from forewarn.policies.prediction.autoscaling import Arrival, NotPredicted
from forewarn.policies.prediction.autoscaling.karpenter import requirements as label
from forewarn.policies.prediction.autoscaling.karpenter.instance_types import NODES, NodePool, read_node_pools
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    KarpenterPod,
    Requirements,
    exact,
    is_provisionable,
    ports_of,
    requests_of,
    shuns_karpenter,
    sum_of,
    texts,
)
from forewarn.policies.prediction.autoscaling.karpenter.scheduler import NewNodeClaim, Options, Scheduler
from forewarn.policies.prediction.autoscaling.karpenter.topology import Choices, Rejected, Storage

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import InstanceType


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
    capacity: ExactAmounts
    allocatable: ExactAmounts
    deleting: bool

    @classmethod
    def from_api(cls, obj: ApiObject) -> RunningNode:
        """Read a Node or a NodeClaim. Raises InvalidObject."""
        name, labels = text(obj, "metadata", "name"), string_map(obj, "metadata", "labels")
        capacity, allocatable = (read_resource_list(obj, "status", key) for key in ("capacity", "allocatable"))
        deleting = at(obj, "metadata", "deletionTimestamp") is not None
        return cls(name, labels, read_taints(obj, "spec", "taints"), capacity, allocatable, deleting)


@dataclass
class StateNode:
    """A Node, its NodeClaim, or both; its Pods do not change once they are read.

    `startup_taints`: those of the NodeClaim. `limits`: CSI driver -> maximum number of volumes.
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
        """Whether the node is initialized; true for all nodes that Karpenter does not manage."""
        return self._has(label.INITIALIZED)

    @property
    def _source(self) -> RunningNode:
        """The object with the name and labels of the node: the NodeClaim until the Node is registered."""
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
        """The labels as requirements, which callers must not change."""
        return Requirements.from_labels(self.labels)

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

    def _amounts(self, which: str) -> ExactAmounts:
        """Return the capacity or allocatable resources; those of the NodeClaim until the Node reports them."""
        own: ExactAmounts = getattr(self.node, which) if self.node else {}
        if self.claim is None or self.initialized:
            return own
        claimed: ExactAmounts = getattr(self.claim, which)
        return {**own, **{name: amount for name, amount in claimed.items() if not own.get(name)}}

    def capacity(self) -> ExactAmounts:
        return {**self._amounts("capacity"), NODES: NANO}

    @cached_property
    def available(self) -> ExactAmounts:
        """The allocatable resources that the node's Pods do not request; callers must not change them."""
        used = sum_of(requests_of(pod) for pod in self.pods)
        return {name: amount - used.get(name, 0) for name, amount in self._amounts("allocatable").items()}

    @cached_property
    def daemon_requests(self) -> ExactAmounts:
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


def usage_by_pool(nodes: Sequence[StateNode]) -> dict[str, ExactAmounts]:
    """Return NodePool -> the capacity of its nodes that are not being deleted."""
    pools = {node.labels.get(label.NODE_POOL, "") for node in nodes} - {""}
    live = [node for node in nodes if not node.deleting]
    return {pool: sum_of(n.capacity() for n in live if n.labels.get(label.NODE_POOL) == pool) for pool in pools}


class Decision(NamedTuple):
    """What one round decides. `existing`: node -> Pods. `errors`: Pod -> upstream's message."""

    new: Sequence[NewNodeClaim] = ()
    existing: Sequence[tuple[str, Sequence[KarpenterPod]]] = ()
    errors: Mapping[str, str] = MappingProxyType({})


def rejection(pod: Pod, storage: Storage) -> str | None:
    """Return why Karpenter ignores a Pending Pod; None if it takes the Pod. Source: `Validate`."""
    candidate = KarpenterPod.from_pod(pod)
    problems = list(_label_problems(candidate))
    if shuns_karpenter(candidate.requirements(preferences=True)):
        requirement = f"{label.NODE_POOL} DoesNotExist"
        problems.insert(0, f"configured to not run on a Karpenter provisioned node (requirement={requirement})")
    try:
        storage.validate(pod)
    except Rejected as problem:
        problems.append(str(problem))
    return "; ".join(problems) or None


def _label_problems(pod: KarpenterPod) -> Iterator[str]:
    """Yield problems of nodeSelector and required node affinity."""
    selector = pod.pod.spec.node_affinity.node_selector or {}
    for key, value in sorted(selector.items()):
        yield from _problems(key, "In", (value,))
    for term in pod.required:
        if term.error:
            yield term.error
        if term.fields:
            yield "node selector term with matchFields is not supported"
        for expression in term.expressions:
            yield from _problems(expression.key, expression.operator, sorted(expression.values))


def _problems(key: str, operator: str, values: Sequence[str]) -> Iterator[str]:
    """Yield why a requirement is invalid. Source: `ValidateRequirement`."""
    key = label.NORMALIZED.get(key, key)
    if problem := label.restricted(key):
        yield problem
    if key == label.CAPACITY_TYPE and operator == "In" and not set(values) & set(label.CAPACITY_TYPES):
        listed, allowed = (
            f"[{' '.join(values)}]",
            " ".join(f"{capacity_type}:{{}}" for capacity_type in label.CAPACITY_TYPES),
        )
        yield f"no valid values found in {listed} for {key}, expected one of: map[{allowed}], got: {listed}"


def exceeded_limit(pool: NodePool, usage: Mapping[str, ExactAmounts]) -> str | None:
    """Return why Karpenter creates no NodeClaim if the nodes of the NodePool already exceed its limits; otherwise None.

    `usage`: NodePool -> the capacity of its nodes. Source: `ExceededBy`.
    """
    limits = pool.limits or {}
    for name, used in sorted(usage.get(pool.name, {}).items()):
        if name in limits and used > limits[name]:
            amounts = f"limit={Quantity(limits[name])}, resource-name={name}, usage={Quantity(used)}"
            return f"resource usage exceeds limit ({amounts})"
    return None


def provision(
    state: ClusterState,
    pools: Mapping[NodePool, list[InstanceType]],
    pending: Sequence[Pod],
    options: Options,
    choices: Choices,
) -> Decision:
    """Return what one round decides for Pods without a node.

    `pools`: NodePools with their instance types, the preferred one first. Raises NotPredicted.
    """
    if not pending or not pools:
        return Decision()
    try:
        with metered(lambda: False):
            scheduler = Scheduler(state, pools, pending, options, choices)
            scheduler.solve()
    except CutShort as reason:
        raise NotPredicted(str(reason)) from None
    existing = [(node.state.name, node.pods) for node in scheduler.existing if node.pods]
    return Decision(scheduler.new, existing, {key: problem() for key, problem in scheduler.errors.items()})


_DEFAULTS: Final = Options()
_FIRST: Final = Choices()


_NOT_MODELLED: Final = {"batch-idle-duration": "1s", "batch-max-duration": "10s", "ignore-dra-requests": "true"}
_GATES: Final = {
    "ReservedCapacity": "true",
    "NodeOverlay": "false",
    "StaticCapacity": "false",
    "CapacityBuffer": "false",
}
"""Flags and feature gates that forewarn does not model and that may change an answer -> their defaults.

Source: operator/options/options.go.
"""


def options_of(flags: Mapping[str, str]) -> Options:
    """Return the settings that Karpenter's flags specify."""
    return Options(
        preferences=flags.get("preference-policy") != "Ignore",
        best_effort=flags.get("min-values-policy") == "BestEffort",
    )


def unmodelled_in(flags: Mapping[str, str], node_pools: Sequence[ApiObject]) -> list[str]:
    """Return what forewarn does not model and may change an answer: flags, feature gates and static NodePools."""
    gates = dict(gate.strip().partition("=")[::2] for gate in flags.get("feature-gates", "").split(","))
    return [
        *(f"--{flag}" for flag, default in _NOT_MODELLED.items() if flags.get(flag, default) != default),
        *(f"feature gate {gate}" for gate, default in _GATES.items() if gates.get(gate, default).lower() != default),
        *["static NodePools"] * any(at(node_pool, "spec", "replicas") is not None for node_pool in node_pools),
    ]


class Karpenter:
    """Karpenter with its NodePools (API objects) and the instance types of the cloud provider.

    A launched node has the cheapest instance type and offering. If upstream depends on the order of a Go map, forewarn
    takes the first choice in alphabetical order.
    """

    def __init__(
        self, node_pools: Sequence[ApiObject], instance_types: Sequence[InstanceType], options: Options = _DEFAULTS
    ) -> None:
        self._node_pools, self._instance_types, self._options = node_pools, instance_types, options
        self._by_name = {instance_type.name: instance_type for instance_type in instance_types}

    def without_offerings(self, lost: Mapping[str, str]) -> Karpenter:
        """Return Karpenter without the offerings of a zone or capacity type; unchanged for other labels."""
        if not lost or not lost.keys() <= {label.ZONE, label.CAPACITY_TYPE}:
            return self
        return Karpenter(
            self._node_pools, [instance_type.without(lost) for instance_type in self._instance_types], self._options
        )

    def decide(
        self, pending: Sequence[Pod], snapshot: Snapshot, upcoming: Sequence[Arrival] = (), choices: Choices = _FIRST
    ) -> tuple[list[Arrival], dict[str, str]]:
        """Return the nodes that one round adds, and for each Pod without a node the reason. Raises NotPredicted.

        `upcoming`: arrivals of earlier rounds.
        """
        state = self._state(snapshot, upcoming)
        provisionable = [pod for pod in pending if is_provisionable(pod)]
        rejected = {pod.key: rejection(pod, state.storage) for pod in provisionable}
        taken = [pod for pod in provisionable if not rejected[pod.key]]
        node_pools = read_node_pools(self._node_pools)
        pools = {pool: [type_ for type_ in self._instance_types if type_.is_of(pool.name)] for pool in node_pools}
        if not pools:
            return [], {pod.key: "no dynamic nodepools found" for pod in taken}
        usage = usage_by_pool(state.nodes)
        decision = provision(state, pools, taken, self._options, choices)
        errors = {**{key: problem for key, problem in rejected.items() if problem}, **decision.errors}
        over_limit = [(claim, problem) for claim in decision.new if (problem := exceeded_limit(claim.pool, usage))]
        errors |= {pod.pod.key: problem for claim, problem in over_limit for pod in claim.pods}
        return [_arrival(claim) for claim in decision.new if not exceeded_limit(claim.pool, usage)], errors

    def _state(self, snapshot: Snapshot, upcoming: Sequence[Arrival]) -> ClusterState:
        objects = snapshot.objects
        limits = {node.name: node.limits for node in objects.csi_nodes.values()}
        nodes = [self._node(info, limits.get(info.name, {})) for info in snapshot.node_infos]
        return ClusterState(
            nodes=[*nodes, *_on_their_way(upcoming)],
            pods=[pod for info in snapshot.node_infos for pod in info.pods],
            daemons=list(_daemons(snapshot)),
            namespaces=list(objects.namespaces.values()),
            storage=Storage(
                objects.claims,
                {volume.name: volume for volume in objects.volumes.values()},
                {storage_class.name: storage_class for storage_class in objects.storage_classes.values()},
            ),
            api_nodes={node.name: node.node for node in nodes if node.node},
        )

    def _node(self, info: NodeInfo, limits: Mapping[str, int]) -> StateNode:
        node, instance_type = info.node, self._by_name.get(info.node.labels.get(label.INSTANCE_TYPE, ""))
        is_untainted = node.unschedulable and UNSCHEDULABLE_TAINT not in node.taints
        taints = (*node.taints, UNSCHEDULABLE_TAINT) if is_untainted else node.taints
        allocatable = exact(node.allocatable)
        capacity = instance_type.capacity if instance_type else allocatable
        running = RunningNode(node.name, node.labels, taints, capacity, allocatable, deleting=False)
        claim = running if label.NODE_POOL in node.labels else None
        return StateNode(running, claim, pods=list(info.pods), limits=limits)


def _on_their_way(upcoming: Sequence[Arrival]) -> Iterator[StateNode]:
    for number, arrival in enumerate(upcoming):
        node = RunningNode.from_api(arrival.node)
        labels = {key: value for key, value in node.labels.items() if key not in (*label.SIMULATED, label.HOSTNAME)}
        yield StateNode(None, node._replace(name=f"{arrival.group}-{number:04}", labels=labels))


def _daemons(snapshot: Snapshot) -> Iterator[Pod]:
    """Yield a Pod of each DaemonSet, from its template."""
    for workload in snapshot.objects.workloads.values():
        if group_kind(workload.object) == "apps/DaemonSet":
            spec = mapping(workload.object, "spec", "template", "spec")
            yield Pod.from_api({"metadata": mapping(workload.object, "metadata"), "spec": spec})


def _arrival(claim: NewNodeClaim) -> Arrival:
    instance_type, requirements = claim.instance_types[0], claim.requirements
    suitable = [offering for offering in instance_type.offerings if offering.suits(requirements)]
    offering = min(suitable, key=lambda o: (o.price, o.zone, o.capacity_type))
    own = {
        key: min(r.values)
        for key, r in requirements.items()
        if key not in label.WELL_KNOWN and not r.complement and r.values
    }
    of_type = {key: min(r.values) for key, r in instance_type.requirements.items() if len(r.values) == 1}
    where = {label.NODE_POOL: claim.pool.name, label.ZONE: offering.zone, label.CAPACITY_TYPE: offering.capacity_type}
    status = {"capacity": texts(instance_type.capacity), "allocatable": texts(instance_type.allocatable)}
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in claim.pool.taints]
    node = {"metadata": {"labels": own | of_type | where}, "spec": {"taints": taints}, "status": status}
    return Arrival(claim.pool.name, node, tuple(pod.pod.key for pod in claim.pods))
