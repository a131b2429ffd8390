"""The nodes that Karpenter removes next: empty, drifted and underutilized nodes.

Sources, of sigs.k8s.io/karpenter v1.14.0: controllers/disruption (types.go, helpers.go, emptiness.go, drift.go,
consolidation.go, multinodeconsolidation.go, singlenodeconsolidation.go). What Karpenter keeps only in memory counts as
empty: nodes that it nominated for Pods and its queue of commands. A command is not validated again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.karpenter import requirements as label
from forewarn.policies.autoscaling.karpenter.instance_types import NO_PRICE, limited, unsatisfied_min_values
from forewarn.policies.autoscaling.karpenter.node_pools import MAX_NODE_POOLS, NodePool, read_node_pools
from forewarn.policies.autoscaling.karpenter.requirements import Requirement, Requirements
from forewarn.policies.autoscaling.karpenter.scheduler import NewNodeClaim, Options, Scheduler
from forewarn.policies.autoscaling.karpenter.state import DO_NOT_DISRUPT, condition, holds, is_reschedulable, unbound
from forewarn.policies.autoscaling.karpenter.topology import Choices
from forewarn.policies.controllers.cron_job import InvalidSchedule, parse_schedule
from forewarn.policies.controllers.replica_set import POD_DELETION_COST, deletion_cost
from forewarn.policies.findings import duration, listed
from forewarn.policies.metering import charge
from forewarn.policies.objects.fields import at, int32, items, mapping, namespace_of, string_map, strings, text
from forewarn.policies.objects.fields import timestamp as time_at
from forewarn.policies.scheduling.configuration import seconds

if TYPE_CHECKING:
    from forewarn.policies.autoscaling.karpenter.instance_types import InstanceType
    from forewarn.policies.autoscaling.karpenter.pods import KarpenterPod
    from forewarn.policies.autoscaling.karpenter.state import ClusterState, Eviction, StateNode
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod

    Compute = Callable[["Sequence[Candidate]", dict[str, int]], "Command | None"]
    """A method of disruption: candidates and budgets in, command out."""

EMPTY: Final = "Empty"
DRIFTED: Final = "Drifted"
UNDERUTILIZED: Final = "Underutilized"
CHEAPER_TYPES: Final = 15
"""Instance types that must be cheaper to replace a spot node by a spot node."""
_BATCH: Final = 100
"""Maximum nodes that Karpenter removes together if they are underutilized."""
_BASE: Final = 1.0
"""Cost of the disruption of a node without Pods."""
_MOST_COST: Final = 10.0
_COST_UNIT, _PRIORITY_UNIT = 2.0**27, 2.0**25
_MAX_BUDGETS: Final = 50
"""Maximum disruption budgets of a NodePool, as in Karpenter's CustomResourceDefinition."""
_NO_LIMIT: Final = 2**31 - 1
_HASH: Final = f"{label.GROUP}/nodepool-hash"
_SPOT: Final = "spot"
_DEFAULTS: Final = Options()
_UNITS_OF_A_NODE, _UNITS_OF_A_POD = 30, 2
"""Units of work to set up a simulation."""
NO_NODE_POOLS: Final = "it has no NodePool that may add nodes"


class Budget(NamedTuple):
    """A disruption budget. `nodes`: a number or a percentage. `active`: None if the schedule is invalid."""

    nodes: str
    reasons: Sequence[str] | None
    active: bool | None

    @classmethod
    def of(cls, entry: ApiObject, now: float) -> Budget:
        reasons = None if entry.get("reasons") is None else strings(entry, "reasons")
        return cls(text(entry, "nodes"), reasons, _is_active(entry, now))

    def allowed(self, nodes: int) -> int | None:
        """Return how many of some nodes may be disrupted; None if the budget is invalid."""
        if not self.active:
            return None if self.active is None else _NO_LIMIT
        number = self.nodes.removesuffix("%")
        if not (number.isascii() and number.isdigit() and len(number) <= len(str(_NO_LIMIT))):
            return None
        return int(number) if number == self.nodes else -(-int(number) * nodes // 100)


def _is_active(entry: ApiObject, now: float) -> bool | None:
    """Report whether a budget counts at this time; None if its schedule is invalid. Source: `Budget.IsActive`."""
    if entry.get("schedule") is None and entry.get("duration") is None:
        return True
    try:
        schedule = parse_schedule(text(entry, "schedule"))
    except InvalidSchedule:
        return None
    due = schedule.next(now - (seconds(text(entry, "duration")) or 0))
    return due is None or due <= now


@dataclass(frozen=True)
class Pool:
    """What a NodePool says about disruption. `consolidate_after`: None for Never. `static`: with a number of nodes.

    `nodes`: initialized nodes. `unavailable`: nodes that are not ready or that are being removed.
    """

    name: str
    policy: str
    consolidate_after: float | None
    budgets: Sequence[Budget]
    static: bool
    nodes: int
    unavailable: int

    def limit(self, reason: str) -> int | None:
        """Return how many nodes may be removed for a reason; None for any number."""
        amount = self.allowed(reason)
        return None if amount >= _NO_LIMIT - self.unavailable else amount

    def allowed(self, reason: str) -> int:
        """Return how many nodes may be removed for a reason. Source: `BuildDisruptionBudgetMapping`."""
        amounts = [(budget, budget.allowed(self.nodes)) for budget in self.budgets]
        if any(amount is None for _, amount in amounts):
            return 0
        counted = [amount for b, amount in amounts if amount is not None and (b.reasons is None or reason in b.reasons)]
        return max(min([_NO_LIMIT, *counted]) - self.unavailable, 0)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A node that may be removed. `pods`: those that are created again elsewhere. `cost`: of the disruption.

    `blocked`: why Pods prevent a removal that waits for them; only drifted nodes are removed nevertheless.
    """

    state: StateNode
    pool: Pool
    instance_type: InstanceType | None
    pods: Sequence[ApiObject]
    cost: float
    price: float
    blocked: str

    @property
    def name(self) -> str:
        return self.state.name

    def pod_names(self) -> list[str]:
        """Return the Pods that are created again elsewhere, as namespace/name."""
        return [_name(pod) for pod in self.pods]

    @property
    def is_empty(self) -> bool:
        return self.cost <= _BASE

    @property
    def capacity_type(self) -> str:
        return self.state.labels.get(label.CAPACITY_TYPE, "")

    @property
    def claim(self) -> ApiObject:
        assert self.state.claim is not None
        return self.state.claim.obj

    def drifted_since(self) -> float:
        return time_at(condition(self.claim, DRIFTED), "lastTransitionTime") or 0


class Command(NamedTuple):
    """Nodes that Karpenter removes together. `new`: NodeClaims that it creates first. `existing`: node -> Pods."""

    reason: str
    candidates: Sequence[Candidate]
    new: Sequence[NewNodeClaim] = ()
    existing: Sequence[tuple[str, Sequence[KarpenterPod]]] = ()


@dataclass
class Round:
    """One round of Karpenter's disruption controller. `command`: None if no node is removed. `kept`: node -> why it
    stays. `error`: why Karpenter ends the round. `not_predicted`: why forewarn does.
    """

    command: Command | None = None
    kept: dict[str, str] = field(default_factory=dict)
    error: str = ""
    not_predicted: str = ""


class _NoNodePools(Exception):
    """There is no NodePool that may add nodes, so that Karpenter cannot check where Pods go."""


class _Result(NamedTuple):
    """Where the Pods of removed nodes go. `problems`: Pod -> why it finds no node."""

    new: Sequence[NewNodeClaim]
    existing: Sequence[tuple[str, Sequence[KarpenterPod]]]
    problems: Mapping[str, Callable[[], str]]


def eviction_cost(pod: ApiObject) -> float:
    """Return the cost of the eviction of a Pod. Source: `EvictionCost`."""
    annotation = string_map(pod, "metadata", "annotations").get(POD_DELETION_COST)
    cost = 1.0 + deletion_cost(annotation) / _COST_UNIT
    cost += (int32(pod, "spec", "priority") or 0) / _PRIORITY_UNIT
    return max(min(cost, _MOST_COST), -_MOST_COST)


class Disruption:
    """Karpenter's disruption controller at one time.

    `state`: the cluster. `pods`: node -> its Pods. `node_pools`: API objects. `pending`: Pods that Karpenter considers.
    `instance_types`: None if they are not known; then only empty nodes are predicted. `spot_to_spot`: the feature gate
    SpotToSpotConsolidation. `now`: seconds since 1970.
    """

    def __init__(
        self,
        state: ClusterState,
        pods: Mapping[str, Sequence[ApiObject]],
        node_pools: Sequence[ApiObject],
        instance_types: Sequence[InstanceType] | None,
        pending: Sequence[Pod],
        eviction: Eviction,
        now: float,
        options: Options = _DEFAULTS,
        choices: Choices | None = None,
        *,
        spot_to_spot: bool = False,
    ) -> None:
        self._state, self._pods, self._node_pools, self._types = state, pods, node_pools, instance_types
        self._pending, self._eviction, self._now = pending, eviction, now
        self._options, self._choices = options._replace(waits_for_reservations=False), choices or Choices()
        self._spot_to_spot = spot_to_spot
        limited(node_pools, MAX_NODE_POOLS, "NodePools")
        self.pools = {pool.name: pool for pool in map(self._pool, node_pools)}
        self._offered = {pool: {t.name: t for t in instance_types or () if t.is_of(pool)} for pool in self.pools}
        self._closed = frozenset(node.name for node in state.nodes if self._is_settling(node))
        self.round = Round()

    def _pool(self, obj: ApiObject) -> Pool:
        name, disruption = text(obj, "metadata", "name"), mapping(obj, "spec", "disruption")
        entries = limited(list(items(disruption, "budgets")), _MAX_BUDGETS, f"budgets of NodePool {name}")
        own = [node for node in self._state.nodes if node.labels.get(label.NODE_POOL) == name and _counts(node)]
        return Pool(
            name=name,
            policy=text(disruption, "consolidationPolicy", default="WhenEmptyOrUnderutilized"),
            consolidate_after=seconds(text(disruption, "consolidateAfter")),
            budgets=[Budget.of(entry, self._now) for entry in entries],
            static=at(obj, "spec", "replicas") is not None,
            nodes=len(own),
            unavailable=sum(node.deleting or node.node is None or not holds(node.node.obj, "Ready") for node in own),
        )

    def _is_settling(self, node: StateNode) -> bool:
        """Report whether a node takes no Pods of removed nodes. Source: `IsUnderConsolidateAfter`."""
        pool = self.pools.get(node.labels.get(label.NODE_POOL, ""))
        return pool is not None and node.claim is not None and self._settled_at(node.claim.obj, pool) > self._now

    def _settled_at(self, claim: ApiObject, pool: Pool) -> float:
        """Return the time after which a node may be consolidated."""
        if not pool.consolidate_after or not holds(claim, "Initialized"):
            return 0
        started = time_at(claim, "status", "lastPodEventTime")
        if started is None:
            started = time_at(condition(claim, "Initialized"), "lastTransitionTime") or 0
        return started + pool.consolidate_after

    def drifting(self) -> list[str]:
        """Return the nodes of older NodePool versions not marked as drifted. Source: `areStaticFieldsDrifted`."""
        hashes = {text(pool, "metadata", "name"): _hashes(pool) for pool in self._node_pools}
        claims = [(node.name, node.claim.obj) for node in self._state.nodes if node.claim is not None]
        return [
            name
            for name, claim in claims
            if not holds(claim, DRIFTED) and _is_older(_hashes(claim), hashes.get(_pool_of(claim), ("", "")))
        ]

    def run(self) -> Round:
        """Return the first command of a round, and why other nodes stay."""
        try:
            self.round.command = self._first()
        except _NoNodePools:
            self.round.error = NO_NODE_POOLS
        except NotPredicted as reason:
            self.round.not_predicted = str(reason)
        return self.round

    def _first(self) -> Command | None:
        candidates = [candidate for node in self._state.nodes if (candidate := self._candidate(node))]
        graceful = [candidate for candidate in candidates if not candidate.blocked]
        empty = [candidate for candidate in graceful if self._is_removable(candidate, empty=True)]
        if command := self._method(EMPTY, empty, self._emptiness):
            return command
        drifted = [candidate for candidate in candidates if holds(candidate.claim, DRIFTED)]
        if any(candidate.pool.static for candidate in drifted):
            raise NotPredicted("drift of nodes of a static NodePool")
        if self._types is None:
            raise NotPredicted("drifted and underutilized nodes (only with --instance-types)")
        if command := self._method(DRIFTED, drifted, self._drift):
            return command
        underutilized = [candidate for candidate in graceful if self._is_removable(candidate, empty=False)]
        if any(candidate.pool.policy == "Balanced" for candidate in underutilized):
            raise NotPredicted("consolidationPolicy Balanced")
        if command := self._method(UNDERUTILIZED, underutilized, self._several):
            return command
        return self._method(UNDERUTILIZED, underutilized, self._single)

    def _method(self, reason: str, candidates: Sequence[Candidate], compute: Compute) -> Command | None:
        return compute(candidates, self.budgets(reason)) if candidates else None

    def budgets(self, reason: str) -> dict[str, int]:
        """Return how many nodes may be removed for a reason, by NodePool."""
        return {name: pool.allowed(reason) for name, pool in self.pools.items()}

    def _keep(self, name: str, why: str) -> None:
        """Record why a node stays; the last method that considers it has the last word."""
        self.round.kept[name] = why

    def _candidate(self, node: StateNode) -> Candidate | None:
        """Return a node as a candidate, or None. Source: `NewCandidate`."""
        name, pool = node.name, self.pools.get(node.labels.get(label.NODE_POOL, ""))
        if problem := _never(node):
            if node.claim is not None:
                self._keep(name, problem)
            return None
        if pool is None or (self._types is not None and not self._offered[pool.name]):
            self._keep(name, f"NodePool {node.labels[label.NODE_POOL]} not found, or without instance types")
            return None
        pods, claim = self._pods.get(node.node.name, ()) if node.node else (), node.claim
        blocked, waits = self._blocked(pods), claim is None or at(claim.obj, "spec", "terminationGracePeriod") is None
        if blocked:
            self._keep(name, blocked)
            if waits:
                return None
        moving = [pod for pod in pods if is_reschedulable(pod)]
        instance_type = self._offered[pool.name].get(node.labels.get(label.INSTANCE_TYPE, ""))
        where = node.labels.get(label.ZONE, ""), node.labels.get(label.CAPACITY_TYPE, "")
        cost = _BASE + sum(max(0.0, eviction_cost(pod)) for pod in moving)
        price = instance_type.price_of(*where) if instance_type else 0.0
        return Candidate(node, pool, instance_type, moving, cost, 0.0 if math.isnan(price) else price, blocked)

    def _blocked(self, pods: Sequence[ApiObject]) -> str:
        """Return which Pods or PDBs prevent the removal of their node now; or "". Source: `ValidatePodsDisruptable`."""
        protected = [_name(pod) for pod in pods if self._eviction.is_protected(pod)]
        if protected:
            return f"annotation {DO_NOT_DISRUPT} of Pod {listed(protected, 3)}"
        blocking = [(_name(pod), pdbs) for pod in pods if (pdbs := self._eviction.blocking(pod))]
        for pod, pdbs in blocking:
            if len(pdbs) > 1:
                return f"Pod {pod} has several PDBs ({listed(pdbs, 3)})"
        names = dict.fromkeys(f"{pod.partition('/')[0]}/{pdbs[0]}" for pod, pdbs in blocking)
        return f"PDB {listed([*names], 3)} allows no disruptions" if names else ""

    def _is_removable(self, candidate: Candidate, *, empty: bool) -> bool:
        """Report whether consolidation considers a node. Sources: `ShouldDisrupt` of emptiness and consolidation."""
        if candidate.is_empty != empty:
            return False
        if problem := self._unconsolidatable(candidate, empty=empty):
            self._keep(candidate.name, problem)
        return not problem

    def _unconsolidatable(self, candidate: Candidate, *, empty: bool) -> str:
        pool, labels = candidate.pool, candidate.state.labels
        if pool.static:
            return f"NodePool {pool.name} is static"
        if not empty and candidate.instance_type is None and self._types is not None:
            return f"instance type {labels.get(label.INSTANCE_TYPE, '')} not found"
        for key in () if empty else (label.CAPACITY_TYPE, label.ZONE):
            if key not in labels:
                return f"no label {key}"
        if pool.consolidate_after is None:
            return f"consolidateAfter of NodePool {pool.name} is Never"
        if not empty and pool.policy == "WhenEmpty":
            return f"consolidationPolicy of NodePool {pool.name} is WhenEmpty, and the node is not empty"
        if not holds(candidate.claim, "Consolidatable"):
            left = self._settled_at(candidate.claim, pool) - self._now
            why = f"consolidateAfter of NodePool {pool.name} ends in {duration(left)}"
            return why if left > 0 else "not consolidatable"
        return ""

    def _by_savings(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return the nodes with the highest price per disruption first; equal ones in any order."""
        ordered = self._choices.order(sorted(candidates, key=lambda candidate: candidate.name))
        self._mark_ties(candidate.price / candidate.cost for candidate in ordered)
        return sorted(ordered, key=lambda candidate: -candidate.price / candidate.cost)

    def _mark_ties(self, keys: Iterable[float]) -> None:
        self._choices.arbitrary |= max(Counter(keys).values(), default=0) > 1

    def _within(self, candidates: Iterable[Candidate], budgets: dict[str, int]) -> Iterator[Candidate]:
        """Yield the nodes that may be removed together."""
        for candidate in self._allowed(candidates, budgets):
            budgets[candidate.pool.name] -= 1
            yield candidate

    def _allowed(self, candidates: Iterable[Candidate], budgets: Mapping[str, int]) -> Iterator[Candidate]:
        """Yield the nodes that the budgets of their NodePools let Karpenter remove; they keep the others."""
        for candidate in candidates:
            if budgets[candidate.pool.name]:
                yield candidate
            else:
                self._keep(candidate.name, f"disruption budget of NodePool {candidate.pool.name}")

    def _emptiness(self, candidates: Sequence[Candidate], budgets: dict[str, int]) -> Command | None:
        chosen = list(self._within(self._by_savings(candidates), budgets))
        return Command(EMPTY, chosen) if chosen else None

    def _drift(self, candidates: Sequence[Candidate], budgets: dict[str, int]) -> Command | None:
        ordered = self._choices.order(sorted(candidates, key=lambda candidate: candidate.name))
        self._mark_ties(candidate.drifted_since() for candidate in ordered)
        ordered.sort(key=lambda candidate: (bool(candidate.pods), candidate.drifted_since()))
        for candidate in self._allowed(ordered, budgets):
            result = self._simulated([candidate], consolidation=False)
            if not result.problems:
                return Command(DRIFTED, [candidate], result.new, result.existing)
            self._keep(candidate.name, _no_place(result))
        return None

    def _several(self, candidates: Sequence[Candidate], budgets: dict[str, int]) -> Command | None:
        """Return the removal of several nodes. Source: `firstNConsolidationOption`."""
        chosen = list(self._within(self._by_savings(candidates), budgets))
        if len(chosen) < 2:
            return None
        least, most, found = 1, min(len(chosen) - 1, _BATCH), None
        while least <= most:
            middle = (least + most) // 2
            command = self._consolidated(chosen[: middle + 1])
            if command and (not command.new or _without_same_types(command)):
                found, least = command, middle + 1
            else:
                most = middle - 1
        return found

    def _single(self, candidates: Sequence[Candidate], budgets: dict[str, int]) -> Command | None:
        """Return the removal of one node; the NodePools take turns. Source: `shuffleCandidates`."""
        by_pool: dict[str, list[Candidate]] = {}
        for candidate in self._by_savings(candidates):
            self.round.kept.pop(candidate.name, None)  # a budget limits only how many nodes are removed together
            by_pool.setdefault(candidate.pool.name, []).append(candidate)
        pools = self._choices.order(sorted(by_pool))
        self._choices.arbitrary |= len(pools) > 1
        turns = range(max(map(len, by_pool.values())))
        in_turn = [by_pool[pool][i] for i in turns for pool in pools if i < len(by_pool[pool])]
        for candidate in self._allowed(in_turn, budgets):
            try:
                command = self._consolidated([candidate])
            except _NoNodePools:
                continue
            if command:
                return command
        return None

    def _consolidated(self, candidates: Sequence[Candidate]) -> Command | None:
        """Return the removal of nodes whose Pods fit elsewhere or on a cheaper node. Source: `computeConsolidation`."""
        result = self._simulated(candidates, consolidation=True)
        problem, new = _no_place(result) if result.problems else "", result.new
        if not problem and len(new) > 1:
            problem = f"its Pods need {len(new)} new nodes"
        elif not problem and new:
            problem = self._cheaper(candidates, new[0])
        if problem:
            if len(candidates) == 1:
                self._keep(candidates[0].name, problem)
            return None
        return Command(UNDERUTILIZED, candidates, new, result.existing)

    def _cheaper(self, candidates: Sequence[Candidate], claim: NewNodeClaim) -> str:
        """Keep only cheaper instance types of the new node; returns why this is not possible, or ""."""
        price, single = sum(candidate.price for candidate in candidates), len(candidates) == 1
        capacity_type = claim.requirements.of(label.CAPACITY_TYPE)
        if capacity_type.has(_SPOT) and all(candidate.capacity_type == _SPOT for candidate in candidates):
            if not self._spot_to_spot:
                return "Karpenter replaces no spot node with a spot node (feature gate SpotToSpotConsolidation is off)"
            _require_spot(claim)
            claim.instance_types = [t for t in claim.instance_types if t.price(claim.requirements) < NO_PRICE]
            if problem := _cheaper_than(claim, price):
                return problem
            return _flexible(claim) if single else ""
        if problem := _cheaper_than(claim, price):
            return problem
        if all(capacity_type.has(kind) for kind in ("spot", "on-demand")):
            _require_spot(claim)
            claim.instance_types.sort(key=lambda item: (item.price(claim.requirements), item.name))
        return ""

    def _simulated(self, candidates: Sequence[Candidate], *, consolidation: bool) -> _Result:
        """Return where the Pods of nodes go if they are removed together. Source: `SimulateScheduling`."""
        usable = read_node_pools(self._node_pools)
        if not usable:
            raise _NoNodePools
        moved = [unbound(pod) for c in candidates for pod in c.pods if self._eviction.moves(pod)]
        state = replace(self._state, leaving=frozenset(candidate.name for candidate in candidates))
        if consolidation:
            names = {pool.name for pool in usable}
            pools = {node.name: node.labels.get(label.NODE_POOL, "") for node in state.nodes}
            state.closed = frozenset(name for name in self._closed if pools[name] in names)
            state.avoiding = frozenset(pod.identity for pod in moved if pod.phase != "Pending")
        charge(_UNITS_OF_A_NODE * len(state.nodes) + _UNITS_OF_A_POD * len(state.pods))
        offered: dict[NodePool, list[InstanceType]] = {pool: list(self._offered[pool.name].values()) for pool in usable}
        scheduler = Scheduler(state, offered, [*self._pending, *moved, *state.moving], self._options, self._choices)
        scheduler.solve()
        existing = [(node.state.name, node.pods) for node in scheduler.existing if node.pods]
        return _Result(scheduler.new, existing, self._problems(scheduler))

    def _problems(self, scheduler: Scheduler) -> dict[str, Callable[[], str]]:
        """Return why Pods that are not Pending find no node; nodes that are not initialized do not count."""
        pending, deleting = ({pod.key for pod in group} for group in (self._pending, self._state.moving))
        problems = {key: problem for key, problem in scheduler.errors.items() if key not in pending}
        for node in scheduler.existing:
            if not node.state.initialized:
                waiting = {pod.pod.key for pod in node.pods} - deleting - pending
                problems |= dict.fromkeys(waiting, _uninitialized(node.state.name))
        return problems


def _counts(node: StateNode) -> bool:
    """Report whether a node counts for budgets."""
    return node.claim is not None and node.initialized and not holds(node.claim.obj, "InstanceTerminating")


def _pool_of(claim: ApiObject) -> str:
    return string_map(claim, "metadata", "labels").get(label.NODE_POOL, "")


def _hashes(obj: ApiObject) -> tuple[str, str]:
    """Return the hash of the NodePool's template and the version of the hash; "" if they are not known."""
    annotations = string_map(obj, "metadata", "annotations")
    return annotations.get(_HASH, ""), annotations.get(f"{_HASH}-version", "")


def _is_older(own: tuple[str, str], of_pool: tuple[str, str]) -> bool:
    return all((*own, *of_pool)) and own[1] == of_pool[1] and own[0] != of_pool[0]


def _never(node: StateNode) -> str:
    """Return why Karpenter removes a node for no reason, or "". Source: `ValidateNodeDisruptable`."""
    if node.claim is None:
        return "not a node of Karpenter"
    if node.node is None or not node.initialized:
        return "not initialized"
    if node.deleting:
        return "being removed"
    if string_map(node.node.obj, "metadata", "annotations").get(DO_NOT_DISRUPT) == "true":
        return f"annotation {DO_NOT_DISRUPT} of the node"
    return "" if label.NODE_POOL in node.labels else f"no label {label.NODE_POOL}"


def _name(pod: ApiObject) -> str:
    return f"{namespace_of(pod)}/{text(pod, 'metadata', 'name')}"


def _no_place(result: _Result) -> str:
    pod, problem = min(result.problems.items())
    return f"Pod {pod} fits on no other node: {problem()}"


def _uninitialized(node: str) -> Callable[[], str]:
    return lambda: f"would schedule against uninitialized node {node}"


def _require_spot(claim: NewNodeClaim) -> None:
    claim.requirements.add((Requirement.of(label.CAPACITY_TYPE, "In", (_SPOT,)),))


def _cheaper_than(claim: NewNodeClaim, price: float) -> str:
    """Keep the instance types below a price. Source: `RemoveInstanceTypeOptionsByPriceAndMinValues`."""
    claim.instance_types = [t for t in claim.instance_types if t.worst_price(claim.requirements) < price]
    if missing := unsatisfied_min_values(claim.instance_types, claim.requirements):
        return f"too few cheaper instance types for minValues of {listed(sorted(missing))}"
    return "" if claim.instance_types else "no cheaper node is possible"


def _flexible(claim: NewNodeClaim) -> str:
    """Keep the cheapest instance types of a spot node that replaces a spot node."""
    types = claim.instance_types
    if len(types) < CHEAPER_TYPES:
        return f"SpotToSpotConsolidation needs {CHEAPER_TYPES} cheaper instance types, found {len(types)}"
    count = CHEAPER_TYPES
    if claim.requirements.has_min_values:
        while count < len(types) and unsatisfied_min_values(types[:count], claim.requirements):
            count += 1
    claim.instance_types = types[:count]
    return ""


def _without_same_types(command: Command) -> bool:
    """Keep the instance types that are cheaper than a removed node of a possible type; returns whether there are any.
    Source: `filterOutSameInstanceType`.
    """
    claim, prices = command.new[0], dict[str, float]()
    for candidate in command.candidates:
        assert candidate.instance_type is not None
        own, labels = candidate.instance_type, Requirements.of_labels(candidate.state.labels)
        offered = [o.price for o in own.listed if labels.compatible(o.requirements, label.WELL_KNOWN) is None]
        prices[own.name] = min([prices.get(own.name, NO_PRICE), *offered])
    # Upstream counts a type without a suitable offering as free.
    known = [prices[t.name] for t in claim.instance_types if t.name in prices]
    limit = min((0.0 if price == NO_PRICE else price for price in known), default=NO_PRICE)
    return not _cheaper_than(claim, limit)
