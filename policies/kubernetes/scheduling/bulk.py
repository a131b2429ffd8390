"""Many Pods or many nodes at once: how many equal Pods fit, the outcome of one Pod for each node, and prepared values.

Each function documents its assumption, and a test in `tests/policies/scheduling/test_many_pods.py` checks it:

- *order* (`capacity_for`): equal Pods do not reduce each other's capacity elsewhere, so the order does not matter;
  `test_as_many_fit_as_find_a_place_one_after_the_other_in_whatever_order`.
- *domains* (`capacity_in_domains`): domains with limits of their own; the same test, and
  `test_the_smallest_zone_says_how_many_fit_in_the_others`.
- *preempting* (`without_lower`): as many fit as without lower-priority Pods;
  `test_as_many_preempt_as_fit_without_those_that_they_may_push_out`.
- *ahead* (`_one_by_one`): evictions on one node only change the PDBs for other nodes;
  `test_candidates_that_are_worked_out_ahead_are_those_of_one_node_after_the_other`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import compress, islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.base.metering import VECTOR, charge
from forewarn.policies.kubernetes.objects.pod import TOPOLOGY_LABELS, Pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import Framework, foreign_at
from forewarn.policies.kubernetes.scheduling.not_predicted import extender_decisions, not_predicted
from forewarn.policies.kubernetes.scheduling.snapshot import (
    BASE_RESOURCES,
    NotValid,
    Snapshot,
    charged_pdbs,
    may_be_violated,
)
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import CACHE_SIZE, lower_priority_pods_of
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix, node_constraints_of, pod_matrix_of
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask
    from forewarn.policies.kubernetes.scheduling.preemption import Candidate
    from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import CapacityConstraint, NodeFit, Skew
    from forewarn.policies.kubernetes.selectors import LabelSelector

_MAX_BOUNDS: Final = 16
_MAX_ROUNDS: Final = 1000
"""The maximum number of Pods on each node if both zones and nodes are spread."""


class Capacity:
    """The number of equal Pods that fit one after the other, regardless of which feasible node each of them gets.

    `by_node`: node name -> number of Pods in the end; None if this depends on the order. `total`: the sum.
    """

    __slots__ = ("_added", "_names", "by_node", "total")

    def __init__(self, names: Sequence[str], added: Ints, tiers: Sequence[_Tier], total: int) -> None:
        """`added`: [domain of the last tier, or node if there are no tiers], number of Pods. `names`: [node].

        `tiers`: from nodes to larger domains.
        """
        self._names, self._added, self.total = names, (added, tiers), total
        self.by_node: dict[str, int] | None = None if tiers else self.example_order()

    def example_order(self) -> dict[str, int]:
        """Return node name -> number of Pods in one possible order: spread evenly over the parts of each domain."""
        added, tiers = self._added
        for tier in reversed(tiers):
            added = tier.dealt(added)
        return {self._names[row]: int(added[row]) for row in np.flatnonzero(added).tolist()}


class Spread(NamedTuple):
    """A topology spread constraint. `concerned`: [node], bool: whether the constraint counts the node.

    `present`: [node], number of matching Pods in the node's domain.
    """

    concerned: Mask
    present: Ints
    skew: Skew


class _Tier(NamedTuple):
    """Domains of one size, which consist of parts: nodes, or domains of the tier below.

    `parent`: [part], the domain of the part. `capacity`: [part], the number of Pods that fit.
    """

    parent: Ints
    capacity: Ints

    def sums(self, size: int) -> Ints:
        """Return [domain]: the sum of the capacities of the domain's parts. `size`: the number of domains."""
        return np.bincount(self.parent, self.capacity, size).astype(np.int64)

    def dealt(self, added: Ints) -> Ints:
        """Return [part]: the number of Pods for each part, if each domain gets `added` ([domain]) Pods."""
        counts = np.zeros(len(self.capacity), np.int64)
        order = np.argsort(self.parent, kind="stable")
        ends = np.searchsorted(self.parent[order], np.arange(len(added) + 1))
        for domain in np.flatnonzero(added).tolist():
            charge(1)
            parts = order[ends[domain] : ends[domain + 1]]
            counts[parts] = _evenly(int(added[domain]), self.capacity[parts])
        return counts


class _Domains:
    """The topology domains of one limit. `of`: [node], the domain of each node, -1 for none."""

    def __init__(self, domains: Ints) -> None:
        self.of = domains
        self.size = int(domains.max(initial=-1)) + 2  # the last entry is for nodes without a domain

    def free(self, by_node: Ints) -> Ints:
        """Return [domain]: the sum of `by_node`, the capacities of the domain's nodes."""
        inside = self.of >= 0
        return np.bincount(self.of[inside], by_node[inside], self.size).astype(np.int64)


class _Moving(_Domains):
    """The domains of a topology spread constraint. `count`: [domain], number of Pods; -1: no such domain."""

    def __init__(self, spread: Spread, by_node: Ints) -> None:
        domains = spread.skew.domains
        inside = spread.concerned & (domains >= 0)
        if by_node[~inside].any():
            raise NotValid  # the constraint does not count Pods on excluded nodes
        super().__init__(np.where(inside, domains, -1))
        self.few, self.max_skew = spread.skew.few, spread.skew.max_skew
        self.count = np.full(self.size, -1, np.int64)
        self.count[self.of[inside]] = spread.present[inside]
        self.exists = self.count >= 0
        self.least = 0 if self.few or not self.exists.any() else int(self.count[self.exists].min())

    def is_constant(self, free: Ints) -> bool:
        """Report whether the minimum count of all domains cannot grow. `free`: [domain], capacity."""
        return self.few or not self.exists.any() or bool((free[self.exists & (self.count == self.least)] == 0).any())

    def added(self, free: Ints) -> Ints:
        """Return how many Pods fit, by domain: [domain]. `free`: [domain], capacity without the constraint."""
        full = self.count + free
        least = 0 if self.few or not self.exists.any() else int(full[self.exists].min())
        return np.where(self.exists, np.minimum(full, np.maximum(self.count, least + self.max_skew)) - self.count, 0)


class _Fixed(NamedTuple):
    """A limit on the Pods of each domain that does not grow. `capacity`: [domain], the maximum number of Pods."""

    domains: _Domains
    capacity: Ints


def capacity_in_domains(
    names: Sequence[str], by_node: Ints, apart: Sequence[Ints], spread: Sequence[Spread]
) -> Capacity:
    """Return how many equal Pods fit on nodes if domains have limits, too.

    `names`: [node]. `by_node`: [node], number of Pods that fit on each node alone. `apart`: for each anti-affinity
    constraint, [node], the node's domain (-1: none); a domain holds one Pod. `spread`: topology spread constraints.
    Raises NotValid if the result may depend on the order, or for too many limits.
    """
    if len(apart) + len(spread) > _MAX_BOUNDS:
        raise NotValid
    moving = [_Moving(item, by_node) for item in spread]
    fixed = []
    for of in apart:
        alone = np.cumsum(of < 0) + int(of.max(initial=-1))  # a node without the label is a domain of its own
        domains = _Domains(np.where(of < 0, alone, of))
        fixed.append(
            _Fixed(domains, np.where(np.arange(domains.size) <= of.max(initial=-1), 1, np.iinfo(np.int64).max))
        )
    is_narrower = True
    while is_narrower:
        is_narrower = False
        for domains in moving:
            charge(8 * len(by_node) // VECTOR)
            if domains.is_constant(domains.free(by_node)):
                capacity = np.where(domains.exists, np.maximum(domains.least + domains.max_skew - domains.count, 0), 0)
                by_node = np.where(domains.of >= 0, np.minimum(by_node, capacity[domains.of]), 0)
                moving, is_narrower = [item for item in moving if item is not domains], True
                if not are_nodes(domains.of):
                    fixed.append(_Fixed(domains, capacity))
                break
    tiers, capacity = _nested(by_node, fixed)
    if not moving:
        return Capacity(names, capacity, tiers, int(capacity.sum()))
    first, *others = sorted(moving, key=lambda item: item.size)
    if not others:
        tiers, free = _add_domains(tiers, capacity, by_node, first)
        added = first.added(free)
    elif len(others) == 1 and others[0].max_skew == 1 and not tiers:
        tiers, added = _fill_in_rounds(by_node, first, others[0])
    else:
        raise NotValid
    if len(tiers) == 1 and are_nodes(first.of):
        return Capacity(names, tiers[0].dealt(added), (), int(added.sum()))
    return Capacity(names, added, tiers, int(added.sum()))


def are_nodes(domains: Ints) -> bool:
    """Report whether each domain has only one node. `domains`: [node], -1: none."""
    return bool(np.bincount(domains[domains >= 0], minlength=1).max() <= 1)


def _nested(by_node: Ints, fixed: Sequence[_Fixed]) -> tuple[list[_Tier], Ints]:
    """Return (the tiers of limits that do not grow, [domain of the last tier, or node]: capacity)."""
    tiers: list[_Tier] = []
    capacity = by_node
    for bound in sorted(fixed, key=lambda bound: -bound.domains.size):
        tiers, free = _add_domains(tiers, capacity, by_node, bound.domains)
        capacity = np.minimum(free, bound.capacity)
    return tiers, capacity


def _add_domains(tiers: list[_Tier], capacity: Ints, by_node: Ints, domains: _Domains) -> tuple[list[_Tier], Ints]:
    """Return (`tiers` with a tier for `domains` added, [domain]: the sum of the capacities of its parts).

    `capacity`: [part of the new tier]. Raises NotValid if a part of a tier lies in two of the domains.
    """
    charge(8 * len(by_node) // VECTOR)
    some = np.flatnonzero(by_node)
    part = some
    for tier in tiers:
        part = tier.parent[part]
    parent = np.zeros(len(capacity), np.int64)
    parent[part] = domains.of[some]
    if (parent[part] != domains.of[some]).any():
        raise NotValid
    tier = _Tier(parent, capacity)
    return [*tiers, tier], tier.sums(domains.size)


def _fill_in_rounds(by_node: Ints, zones: _Moving, nodes: _Moving) -> tuple[list[_Tier], Ints]:
    """Return (tiers, [zone]: the number of Pods that fit), if the minimum counts of both zones and nodes grow.

    No node may have two Pods more than another node. In a round, each node with the minimum count gets one Pod, if the
    limit of its zone allows one. After all nodes have got their Pod, the next round starts.
    """
    tiers, _ = _add_domains([], by_node, by_node, nodes)
    free = nodes.free(by_node)
    (_, above), _ = _add_domains(tiers, free, by_node, zones)
    placed, more = np.zeros(zones.size, np.int64), np.zeros(nodes.size, np.int64)
    count = zones.count.copy()
    for _ in range(_MAX_ROUNDS):
        charge(8 * len(by_node) // VECTOR)
        at_least = nodes.exists & (nodes.count + more == (nodes.count + more)[nodes.exists].min())
        places = np.where(at_least & (free > more), 1, 0)
        wanted = _Tier(above.parent, places).sums(zones.size)
        zones.count = count + np.where(zones.exists, placed, 0)
        added = zones.added(wanted)
        placed += added
        if (added < wanted).any() or not places[at_least].all():
            last = _Tier(above.parent, places).dealt(added)
            return [tiers[0], _Tier(above.parent, more + last)], placed
        more += places
    raise NotValid


def _evenly(total: int, capacity: Ints) -> Ints:
    """Return [part]: `total` Pods spread as evenly as possible over parts with these capacities.

    The capacity must be enough for all Pods. No part gets two Pods more than another part with free capacity.
    """
    sizes = np.sort(capacity)
    others = len(sizes) - np.arange(len(sizes))
    before = np.cumsum(sizes) - sizes
    filled = int(np.searchsorted(before + sizes * others, total, side="right"))
    if filled == len(sizes):
        return capacity
    level, rest = divmod(total - int(before[filled]), int(others[filled]))
    count = np.minimum(capacity, level)
    count[np.flatnonzero(capacity > level)[:rest]] += 1
    return count


_PLENTY: Final = 2**31
_AHEAD: Final = 32
"""Number of nodes whose candidates are computed together at first; then twice as many each time."""


class OnEachNode(NamedTuple):
    """The outcome of a Pod for each of several nodes, if the Pod may run only on this node.

    `fits`: nodes on which the Pod fits without preemption. `others`: the other nodes in the given order, each with the
    preemption candidate; None: the Pod stays Pending.
    """

    fits: frozenset[str]
    others: Iterator[tuple[str, Candidate | None]]


def capacity_for(snapshot: Snapshot, pod: Pod, *, preempting: bool = False) -> Capacity | None:
    """Return how many Pods equal to `pod` fit; None if the conditions of this function are not met.

    Condition: each Pod only uses capacity of its node or domain, so the order of Pods does not matter. A scheduled Pod
    never adds capacity, because required affinity counts only if it refers to existing Pods. `preempting`: the Pods
    preempt lower-priority Pods as needed, so as many fit as if these had never existed. This is valid if lower-priority
    Pods affect only their own node.
    """
    with snapshot.derived.locked(), suppress(NotValid):
        framework = _framework(snapshot, pod)
        own = pod_matrix_of(framework.snapshot).kinds.number(pod)
        node_fit = Cycle(framework.snapshot, pod, framework).node_fit
        if pod.nominated_node_name or _changes_when_bound(pod) or node_fit.matrix.kinds.number(pod) != own:
            return None  # or the cycle has numbered the equivalence classes anew
        if node_fit.affinity is not None and preempting:
            return None  # its affinity may refer to a victim
        demands = without_lower(node_fit) if preempting and framework.plan.preempts else node_fit.demands
        return _capacity(node_fit, demands, own)
    return None


def _framework(snapshot: Snapshot, pod: Pod) -> Framework:
    """Return the framework of the Pod's profile. Raises NotValid if more than the filters of kube-scheduler decides."""
    if not_predicted(pod, snapshot) or extender_decisions(pod, snapshot, fits=True, preempts=True):
        raise NotValid
    framework = framework_of(snapshot, pod)
    if framework.without_columns or pod.spec.has_storage or pod.spec.claims_devices:
        raise NotValid  # what the first Pod binds, attaches or allocates affects the next one
    if foreign_at(framework.profile, "preEnqueue"):
        raise NotValid
    return framework


def without_lower(node_fit: NodeFit) -> list[CapacityConstraint]:
    """Return the constraints with the amounts in use if all lower-priority Pods were removed.

    Raises NotValid if a lower-priority Pod affects other nodes, too.
    """
    matrix, snapshot, priority = node_fit.matrix, node_fit.snapshot, node_fit.pod.effective_priority
    lower = lower_priority_pods_of(matrix, snapshot, priority)
    kinds = len(matrix.kinds)
    is_lower = matrix.kinds.priority.values()[:kinds] < priority
    left = []
    for demand in node_fit.demands:
        charge(2 * node_fit.row)
        constraint = demand.constraint
        if constraint is None:
            left.append(demand._replace(present=demand.present - lower.total(demand.resource, matrix)))
            continue
        of_lower = np.where(is_lower, constraint.per_kind[:kinds], 0)
        removed = np.where(constraint.concerned, matrix.present(of_lower), 0)
        if removed.any():
            if constraint.domains is None or not are_nodes(constraint.domains):
                raise NotValid
            demand = demand._replace(present=demand.present - removed)
        left.append(demand)
    return left


def _capacity(node_fit: NodeFit, demands: Sequence[CapacityConstraint], own: int) -> Capacity:
    """Return the capacity within `demands`. `own`: number of the Pod's equivalence class. Raises NotValid."""
    by_node, spread = np.where(node_fit.open, _PLENTY, 0), []
    if node_fit.affinity is not None:
        if not node_fit.affinity.settled:
            raise NotValid
        by_node[~node_fit.affinity.now] = 0
    apart: list[Ints] = []
    for demand in demands:
        charge(4 * len(by_node) // VECTOR)
        constraint = demand.constraint
        counts = constraint is not None and bool(constraint.per_kind[own])
        if constraint is None or not counts or constraint.skew is None:
            by_node = np.minimum(by_node, _fitting(demand, node_fit, own))
        if constraint is None or not counts:
            continue
        if constraint.skew is not None:
            if (demand.present != constraint.present).any():
                raise NotValid  # nominated Pods count only on their node
            spread.append(Spread(constraint.concerned, constraint.present, constraint.skew))
        elif constraint.domains is None:
            raise NotValid
        elif are_nodes(constraint.domains):
            by_node = np.where(constraint.domains >= 0, np.minimum(by_node, 1), by_node)
        else:
            apart.append(constraint.domains)
    return capacity_in_domains([*node_fit.snapshot.rows], by_node, apart, spread)


def _fitting(demand: CapacityConstraint, node_fit: NodeFit, own: int) -> Ints:
    """Return [node]: how many Pods fit within one constraint. `own`: number of the Pod's equivalence class."""
    free = demand.limit - demand.present
    if demand.constraint is not None:
        return np.where(free >= 0, _PLENTY, 0)
    item = int(node_fit.matrix.kinds.amounts(demand.resource)[own])
    if not item:
        return np.where(free >= 0, _PLENTY, 0)
    fitting: Ints = np.clip(free // item + 1, 0, _PLENTY)
    return fitting


def _changes_when_bound(pod: Pod) -> bool:
    """Report whether the Pod's own constraints select Pods by labels that the Pod gets from its node."""
    selectors: list[LabelSelector | None] = [c.selector for c in pod.spec.topology_spread]
    affinity = pod.spec.pod_affinity
    selectors += [term.selector for term in (*affinity.required_affinity, *affinity.required_anti_affinity)]
    return any(r.key in TOPOLOGY_LABELS for selector in selectors if selector for r in selector.requirements)


def on_each_node(snapshot: Snapshot, pod: Pod, nodes: Sequence[str]) -> OnEachNode | None:
    """Return the outcome of one Pod for each of these nodes, one after the other; None if the conditions are not met.

    Condition: only resources and ports of the node itself matter. Evictions on one node reduce the allowed disruptions
    of PDBs for the next node.
    """
    if snapshot.may_preempt_groups(pod.effective_priority):
        return None
    with snapshot.derived.locked():
        try:
            framework = _framework(snapshot, pod)
            node_fit = Cycle(snapshot, pod, framework).node_fit
        except NotValid:
            return None
        constraints = [d.constraint for d in node_fit.demands if d.constraint is not None]
        keeps_apart = bool(pod.spec.pod_affinity.required_anti_affinity)
        if len(constraints) > bool(pod.spec.host_ports) or keeps_apart or pod.nominated_node_name:
            return None
        if node_fit.affinity is not None:
            return None
        fits = frozenset(compress(snapshot.rows, node_fit.feasible.tolist()))
    charge(len(nodes) // 8)
    return OnEachNode(fits, _one_by_one(framework, pod, [node for node in nodes if node not in fits]))


def _one_by_one(framework: Framework, pod: Pod, nodes: Sequence[str]) -> Iterator[tuple[str, Candidate | None]]:
    """Yield the preemption on each node. Candidates are computed in blocks of nodes.

    A new block starts early if the evictions so far may cause a PDB violation on the next node.
    """
    snapshot = framework.snapshot
    candidates: dict[str, Candidate] = {}
    charged: dict[tuple[str, str], PodDisruptionBudget] = {}
    end, ahead = 0, _AHEAD
    for place, node in enumerate(nodes):
        stale = bool(charged) and node in candidates and _may_be_violated(charged, snapshot, pod, node)
        if stale or place >= end:
            snapshot, charged, ahead = snapshot.with_pdbs(charged), {}, _AHEAD if stale else ahead
            end, ahead = place + ahead, 2 * ahead
            candidates = _candidates(Framework(snapshot, framework.profile), pod, nodes[place:end])
        candidate = candidates.get(node)
        if candidate is not None:
            charged = charged_pdbs(snapshot.pdbs, candidate.victims, charged)
        yield node, candidate


def _may_be_violated(
    charged: Mapping[tuple[str, str], PodDisruptionBudget], snapshot: Snapshot, pod: Pod, node: str
) -> bool:
    charged = {key: pdb for key, pdb in charged.items() if snapshot.objects.pdbs[key].disruptions_allowed}
    pods = snapshot.node_infos[snapshot.rows[node]].pods
    charge(len(pods))
    return may_be_violated(charged, (other for other in pods if other.effective_priority < pod.effective_priority))


def _candidates(framework: Framework, pod: Pod, nodes: Sequence[str]) -> dict[str, Candidate]:
    """Return node name -> candidate for those of `nodes` on which preemption helps."""
    snapshot = framework.snapshot
    with snapshot.derived.locked():
        cycle = Cycle(snapshot, pod, framework)
        is_open, some = cycle.node_fit.open, np.zeros(len(snapshot.rows), np.bool_)
        some[[snapshot.rows[node] for node in nodes if node in snapshot.rows]] = True
        candidates = cycle.candidates(np.flatnonzero(is_open & ~cycle.feasible & some))
        return {candidate.node_name: candidate for candidate in candidates}


_MAX_TRIED: Final = 16


def prepare(snapshot: Snapshot) -> None:
    """Compute the values of the first prediction. Raises CutShort beyond the limit; the next call continues."""
    with snapshot.derived.locked():
        kinds = pod_matrix_of(snapshot).kinds
        kinds.priority.values()
        for resource in BASE_RESOURCES:
            kinds.amounts(resource)


def prepare_for_all(snapshot: Snapshot) -> None:
    """Compute values for Pods similar to those on nodes, including preemption by frequent priorities."""
    prepare(snapshot)
    with snapshot.derived.locked():
        matrix = pod_matrix_of(snapshot)
        for pod in islice(_with_distinct_node_constraints(matrix), _MAX_TRIED):
            with suppress(NotValid):
                Cycle(snapshot, pod).scores(np.arange(len(matrix.serials)))
        priorities, pods = np.unique(matrix.kinds.priority.values()[matrix.kind[matrix.kind > 0]], return_counts=True)
        for _, priority in sorted(zip(pods.tolist(), priorities.tolist(), strict=True))[-CACHE_SIZE:]:
            if snapshot.may_preempt_groups(priority):
                continue
            lower = lower_priority_pods_of(matrix, snapshot, priority)
            lower.settle(np.arange(len(matrix.serials)), matrix, snapshot)
            for resource in BASE_RESOURCES:
                if (snapshot.columns.requested[snapshot.columns.resources.index(resource)] > 0).any():
                    lower.amounts(resource, matrix)


def _with_distinct_node_constraints(matrix: PodMatrix) -> Iterator[Pod]:
    """Yield a Pod without its node for each distinct selector, affinity and tolerations of the Pods on nodes."""
    keys: set[Hashable] = set()
    for pod in matrix.kinds.members:
        constraints = None if pod is None else node_constraints_of(pod.spec)
        if pod is not None and constraints is not None and constraints not in keys:
            keys.add(constraints)
            yield replace(pod, node_name="")
