"""Which nodes Karpenter removes next, and why it keeps the others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.karpenter import requirements as label
from forewarn.policies.autoscaling.karpenter.autoscaler import rejection
from forewarn.policies.autoscaling.karpenter.disruption import DRIFTED, EMPTY, UNDERUTILIZED, Disruption
from forewarn.policies.autoscaling.karpenter.instance_types import NO_PRICE, InstanceType
from forewarn.policies.autoscaling.karpenter.node_pools import with_defaults
from forewarn.policies.autoscaling.karpenter.state import (
    NODE_CLAIM,
    NODE_POOLS,
    Eviction,
    Objects,
    is_unschedulable,
    pods_by_node,
    read_state,
)
from forewarn.policies.autoscaling.karpenter.topology import Choices
from forewarn.policies.cluster.cache import TIME, AnswerHead, Cache, Result, head_of
from forewarn.policies.findings import cut, one_line
from forewarn.policies.metering import CutShort, metered
from forewarn.policies.objects.fields import ApiObject, InvalidInput
from forewarn.policies.objects.pod import Pod
from forewarn.policies.sources.cluster import objects_of
from forewarn.policies.sources.files import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.policies.autoscaling.karpenter.disruption import Candidate, Command
    from forewarn.policies.autoscaling.karpenter.scheduler import NewNodeClaim
    from forewarn.policies.autoscaling.karpenter.state import ClusterState, StateNode

    Collect = Callable[[ApiObject], bool | None]
    _Predicted = tuple[Disruption, Sequence[Sequence[str]], bool, str, str]
    """A round, alternatives to its nodes, whether there may be others, `waits` and `not_predicted`."""

_LONGEST: Final = 300
"""Maximum characters of the reason for which a node stays."""
_RUNS: Final = 9
"""Further runs with another order of equal nodes."""
_MAX_NODES_OF_RUNS: Final = 100
_WAITS: Final = "Karpenter waits until it knows all nodes and their NodeClaims"
_ASSUMES: Final = (
    "no Pods for which Karpenter has just nominated nodes, and no removals under way",
    "default settings of Karpenter",
    "no expiration of nodes (not predicted)",
)
_NOT_CHECKED: Final = "not checked, because Karpenter removes other nodes first"


class RemovedNode(NamedTuple):
    """A node that Karpenter removes. `pods`: Pods that move. `price`: per hour; 0 if it is not known."""

    node: str
    node_pool: str
    instance_type: str
    price: float
    pods: int


class AddedNode(NamedTuple):
    """A node that Karpenter launches first. `instance_type`: the cheapest of `instance_types` possible ones.

    `fails`: whether no offering is left, because Karpenter requires spot if the NodePool allows both capacity types.
    """

    node_pool: str
    instance_type: str
    instance_types: int
    price: float
    pods: Sequence[str]
    fails: bool


class Move(NamedTuple):
    """A Pod of a removed node. `to_node`: a node that exists, or "" for a new one."""

    pod: str
    from_node: str
    to_node: str


class KeptNode(NamedTuple):
    """A node of Karpenter that stays."""

    node: str
    node_pool: str
    reason: str


class AllowedDisruptions(NamedTuple):
    """How many nodes of a NodePool Karpenter may remove at this time, by reason; None for any number."""

    node_pool: str
    nodes: int
    empty: int | None
    drifted: int | None
    underutilized: int | None


@dataclass(frozen=True, repr=False)
class Consolidation(Result):
    """The next nodes that Karpenter removes. `reason`: Empty, Drifted or Underutilized; "" if it removes none.

    `alternatives`: nodes that Karpenter may remove instead, because it considers equal nodes, and NodePools, in a
    random order. `arbitrary`: whether there may be others. `drifting`: nodes of an older version of their NodePool,
    which Karpenter marks as drifted within minutes. `waits`: why Karpenter does nothing now, or "". `not_predicted`:
    what forewarn does not predict, or "".
    """

    reason: str
    removed: Sequence[RemovedNode]
    added: Sequence[AddedNode]
    moves: Sequence[Move]
    kept: Sequence[KeptNode]
    budgets: Sequence[AllowedDisruptions]
    alternatives: Sequence[Sequence[str]]
    arbitrary: bool
    drifting: Sequence[str]
    waits: str
    not_predicted: str


def collected(sources: Sequence[str], load: Callable[[Collect], Cache]) -> tuple[Cache, Objects]:
    """Return a cluster with the objects that Karpenter reads. `load`: loads its sources. Raises SourceError."""
    objects = Objects()
    cache = load(objects.collect)
    for source in sources:
        for obj in (*objects_of(source, "node_groups"), *objects_of(source, "node_claims")):
            objects.collect(obj)
    return cache, objects


def consolidate(
    cache: Cache, objects: Objects, instance_types: Sequence[InstanceType] | None, *, spot_to_spot: bool = False
) -> Consolidation:
    """Return the nodes that Karpenter removes next. `objects`: what the load of `cache` collected.

    `instance_types`: None if they are not known; then only empty nodes are predicted. `spot_to_spot`: the feature gate
    SpotToSpotConsolidation. Raises SourceError, InvalidObject and InvalidInput.
    """
    if not objects.of(NODE_CLAIM):
        fix = "add the output of kubectl get nodepools,nodeclaims -o yaml with --cluster FILE"
        raise SourceError("", f"no NodeClaims of Karpenter in the cluster state. Fix: {fix}, or take a new snapshot")
    snapshot = cache.snapshot()
    if not snapshot.origin.time:
        raise InvalidInput("the time of the cluster state is not known. Fix: take a snapshot with forewarn snapshot")
    now = datetime.strptime(snapshot.origin.time, TIME).replace(tzinfo=UTC).timestamp()
    eviction = Eviction(objects.of("policy/PodDisruptionBudget"), now)
    state = read_state(objects, eviction)
    pods = [Pod.from_api(obj) for obj in objects.of("/Pod") if is_unschedulable(obj)]
    pending = [pod for pod in pods if not rejection(pod, state.storage)]
    pools, on_nodes = [with_defaults(pool) for pool in objects.of(NODE_POOLS)], pods_by_node(objects)

    def disruption_of(choices: Choices) -> Disruption:
        return Disruption(
            state, on_nodes, pools, instance_types, pending, eviction, now, choices=choices, spot_to_spot=spot_to_spot
        )

    try:
        predicted = _predicted(state, disruption_of)
    except NotPredicted as reason:
        raise InvalidInput(f"not predicted: {reason}") from None
    return _answer(head_of(snapshot, _ASSUMES), state, predicted)


def _predicted(state: ClusterState, disruption_of: Callable[[Choices], Disruption]) -> _Predicted:
    """Return one round of Karpenter, and others with another order of equal nodes."""
    choices, cut_short, alternatives = Choices(), "", set[tuple[str, ...]]()
    disruption = disruption_of(choices)
    round_ = disruption.round
    if state.unsynced:
        return disruption, (), False, _WAITS, ""
    try:
        with metered(lambda: False):
            disruption.run()
            if choices.arbitrary and len(state.nodes) <= _MAX_NODES_OF_RUNS:
                others = [disruption_of(Choices(Random(number))).run() for number in range(_RUNS)]
                alternatives = {_names(other.command) for other in others} - {_names(round_.command)}
                choices.arbitrary = bool(alternatives)
    except CutShort as reason:
        cut_short = "" if round_.command else str(reason)
    return disruption, sorted(alternatives), choices.arbitrary, round_.error, round_.not_predicted or cut_short


def _answer(head: AnswerHead, state: ClusterState, predicted: _Predicted) -> Consolidation:
    disruption, alternatives, arbitrary, waits, not_predicted = predicted
    command, removed = disruption.round.command, _names(disruption.round.command)
    unknown = _NOT_CHECKED if command else waits or "not predicted"
    return Consolidation(
        head,
        reason=command.reason if command else "",
        removed=[_removed(candidate) for candidate in command.candidates] if command else [],
        added=[_added(claim) for claim in command.new] if command else [],
        moves=sorted(_moves(command)) if command else [],
        kept=sorted(
            KeptNode(node.name, _pool(node), cut(one_line(disruption.round.kept.get(node.name, unknown)), _LONGEST))
            for node in state.nodes
            if node.claim is not None and node.name not in removed
        ),
        budgets=[
            AllowedDisruptions(pool.name, pool.nodes, *map(pool.limit, (EMPTY, DRIFTED, UNDERUTILIZED)))
            for _, pool in sorted(disruption.pools.items())
        ],
        alternatives=alternatives,
        arbitrary=arbitrary,
        drifting=sorted(disruption.drifting()),
        waits=waits,
        not_predicted=not_predicted,
    )


def _names(command: Command | None) -> tuple[str, ...]:
    return tuple(sorted(candidate.name for candidate in command.candidates)) if command else ()


def _pool(node: StateNode) -> str:
    return node.labels.get(label.NODE_POOL, "")


def _removed(candidate: Candidate) -> RemovedNode:
    kind = candidate.state.labels.get(label.INSTANCE_TYPE, "")
    return RemovedNode(candidate.name, candidate.pool.name, kind, candidate.price, len(candidate.pods))


def _added(claim: NewNodeClaim) -> AddedNode:
    cheapest, pods = claim.instance_types[0], sorted(pod.pod.key for pod in claim.pods)
    price, types = cheapest.price(claim.requirements), len(claim.instance_types)
    fails = price == NO_PRICE
    return AddedNode(claim.pool.name, cheapest.name, types, 0.0 if fails else price, pods, fails)


def _moves(command: Command) -> Iterator[Move]:
    """Yield where the Pods of removed nodes go."""
    origins = {key: candidate.name for candidate in command.candidates for key in candidate.pod_names()}
    for node, pods in command.existing:
        for pod in pods:
            if pod.pod.key in origins:
                yield Move(pod.pod.key, origins[pod.pod.key], node)
    for claim in command.new:
        yield from (Move(pod.pod.key, origins[pod.pod.key], "") for pod in claim.pods if pod.pod.key in origins)
