"""Many equal Pods at once: how many more fit, and the outcome of one Pod for each node.

Each function documents its assumption, and a test in `tests/policies/scheduling/test_many_pods.py` checks it:

- *order* (`capacity_for`): equal Pods do not reduce each other's capacity elsewhere, so the order does not matter;
  `test_as_many_fit_as_find_a_place_one_after_the_other_in_whatever_order`.
- *domains* (`vectorized/domains.py`): domains with limits of their own; the same test, and
  `test_the_smallest_zone_says_how_many_fit_in_the_others`.
- *preempting* (`without_lower`): as many fit as without lower-priority Pods;
  `test_as_many_preempt_as_fit_without_those_that_they_may_push_out`.
- *ahead* (`_one_by_one`): evictions on one node only change the PDBs for other nodes;
  `test_candidates_that_are_worked_out_ahead_are_those_of_one_node_after_the_other`.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.objects.pod import TOPOLOGY_LABELS
from forewarn.policies.scheduling.evictions import charged_pdbs, may_be_violated
from forewarn.policies.scheduling.vectorized.constraints import NotValid, Unsupported, attempt
from forewarn.policies.scheduling.vectorized.domains import Spread, are_nodes, capacity_in_domains
from forewarn.policies.scheduling.vectorized.lower_priority_pods import lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.node_fit import NodeFit
from forewarn.policies.scheduling.vectorized.pod_matrix import pod_matrix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.constraints import CapacityConstraint
    from forewarn.policies.scheduling.vectorized.domains import Capacity
    from forewarn.policies.selectors import LabelSelector

_PLENTY: Final = 2**31
_AHEAD: Final = 32
"""Number of nodes whose candidates are computed together at first; then twice as many each time."""


class OnNode(NamedTuple):
    """The preemption on one node, for a Pod that may run only on this node. `candidate` None: the Pod stays Pending."""

    node: str
    candidate: Candidate | None


class OnEachNode(NamedTuple):
    """The outcome of a Pod for each of several nodes, if the Pod may run only on this node.

    `fits`: nodes on which the Pod fits without preemption. `others`: the other nodes in the given order.
    """

    fits: frozenset[str]
    others: Iterator[OnNode]


def capacity_for(framework: Framework, pod: Pod, *, preempting: bool = False) -> Capacity | None:
    """Return how many more Pods like this one fit; None if the conditions of this function are not met.

    Condition: each Pod only uses capacity of its node or domain, so the order of Pods does not matter. A scheduled Pod
    never adds capacity, because required affinity counts only if it refers to existing Pods. `preempting`: the Pods
    preempt lower-priority Pods as needed, so as many fit as if these had never existed. This is valid if lower-priority
    Pods affect only their own node.
    """
    snapshot = framework.snapshot
    if framework.without_columns or pod.spec.has_storage or pod.spec.claims_devices:
        return None  # the next Pod finds what the first one binds, attaches or allocates
    with snapshot.derived.locked():
        capacity = attempt(_capacity_for, framework, pod, preempting=preempting)
    return None if isinstance(capacity, Unsupported) else capacity


def _capacity_for(framework: Framework, pod: Pod, *, preempting: bool) -> Capacity | None:
    matrix = pod_matrix_of(framework.snapshot)
    own = matrix.kinds.number(pod)
    node_fit = NodeFit(framework.snapshot, pod, matrix, framework)
    if pod.nominated_node_name or _changes_when_bound(pod):
        return None
    if node_fit.affinity is not None and preempting:
        return None  # it may want to be near one that goes
    demands = without_lower(node_fit) if preempting and framework.plan.preempts else node_fit.demands
    return _capacity(node_fit, demands, own)


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
    """Return the capacity within the constraints `demands`.

    `own`: number of the Pod's equivalence class. Raises NotValid.
    """
    by_node, spread = np.where(node_fit.open, _PLENTY, 0), []
    if node_fit.affinity is not None:
        if not node_fit.affinity.settled:
            raise NotValid
        by_node[~node_fit.affinity.now] = 0
    apart: list[NDArray[np.int64]] = []
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
                raise NotValid  # nominated pods count on their node alone
            spread.append(Spread(constraint.concerned, constraint.present, constraint.skew))
        elif constraint.domains is None:
            raise NotValid
        elif are_nodes(constraint.domains):
            by_node = np.where(constraint.domains >= 0, np.minimum(by_node, 1), by_node)
        else:
            apart.append(constraint.domains)
    return capacity_in_domains([*node_fit.snapshot.rows], by_node, apart, spread)


def _fitting(demand: CapacityConstraint, node_fit: NodeFit, own: int) -> NDArray[np.int64]:
    """Return [node]: how many Pods fit within the limit of one constraint.

    `own`: number of the Pod's equivalence class.
    """
    free = demand.limit - demand.present
    if demand.constraint is not None:
        return np.where(free >= 0, _PLENTY, 0)
    each = int(node_fit.matrix.kinds.amounts(demand.resource)[own])
    if not each:
        return np.where(free >= 0, _PLENTY, 0)
    fitting: NDArray[np.int64] = np.clip(free // each + 1, 0, _PLENTY)
    return fitting


def _changes_when_bound(pod: Pod) -> bool:
    """Report whether the Pod's own constraints select Pods by labels that the Pod gets from its node."""
    selectors: list[LabelSelector | None] = [c.selector for c in pod.spec.topology_spread]
    affinity = pod.spec.pod_affinity
    selectors += [term.selector for term in (*affinity.required_affinity, *affinity.required_anti_affinity)]
    return any(r.key in TOPOLOGY_LABELS for selector in selectors if selector for r in selector.requirements)


def on_each_node(framework: Framework, pod: Pod, nodes: Sequence[str]) -> OnEachNode | None:
    """Return the outcome of one Pod for each of these nodes, one after the other; None if the conditions are not met.

    Condition: only resources and ports of the node itself matter. Evictions on one node reduce the allowed disruptions
    of PDBs for the next node.
    """
    snapshot = framework.snapshot
    if framework.without_columns or pod.spec.has_storage or pod.spec.claims_devices:
        return None
    with snapshot.derived.locked():
        node_fit = attempt(NodeFit, snapshot, pod, pod_matrix_of(snapshot), framework)
        if isinstance(node_fit, Unsupported):
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


def _one_by_one(framework: Framework, pod: Pod, nodes: Sequence[str]) -> Iterator[OnNode]:
    """Yield the preemption on each node. Candidates are computed in blocks of nodes.

    A new block starts early if the evictions so far may cause a PDB violation on the next node.
    """
    snapshot = framework.snapshot
    known: dict[str, Candidate] = {}
    charged: dict[tuple[str, str], PodDisruptionBudget] = {}
    end, ahead = 0, _AHEAD
    for place, node in enumerate(nodes):
        stale = bool(charged) and node in known and _may_be_violated(charged, snapshot, pod, node)
        if stale or place >= end:
            snapshot, charged, ahead = snapshot.with_pdbs(charged), {}, _AHEAD if stale else ahead
            end, ahead = place + ahead, 2 * ahead
            known = _candidates(framework.over(snapshot), pod, nodes[place:end])
        candidate = known.get(node)
        if candidate is not None:
            charged = charged_pdbs(snapshot.pdbs, candidate.victims, charged)
        yield OnNode(node, candidate)


def _may_be_violated(
    charged: Mapping[tuple[str, str], PodDisruptionBudget], snapshot: Snapshot, pod: Pod, node: str
) -> bool:
    charged = {key: pdb for key, pdb in charged.items() if snapshot.objects.pdbs[key].disruptions_allowed}
    pods = snapshot.node_infos[snapshot.rows[node]].pods
    charge(len(pods))
    return may_be_violated(charged, (other for other in pods if other.effective_priority < pod.effective_priority))


def _candidates(framework: Framework, pod: Pod, nodes: Sequence[str]) -> dict[str, Candidate]:
    """Return node name -> candidate, for the given nodes on which preemption helps."""
    snapshot = framework.snapshot
    with snapshot.derived.locked():
        node_fit = NodeFit(snapshot, pod, pod_matrix_of(snapshot), framework)
        some = np.zeros(len(node_fit.open), np.bool_)
        some[[snapshot.rows[node] for node in nodes if node in snapshot.rows]] = True
        found = node_fit.candidates(np.flatnonzero(node_fit.open & ~node_fit.feasible & some))
        return {candidate.node_name: candidate for candidate in found}
