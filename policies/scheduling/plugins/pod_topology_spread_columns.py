"""Topology spread constraints, evaluated with numpy for all nodes. Source: upstream `podtopologyspread`."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.metering import VECTOR, charge
from forewarn.policies.scheduling.plugin import MAX_NODE_SCORE
from forewarn.policies.scheduling.vectorized.constraints import Constraint, NotValid, Skew
from forewarn.policies.scheduling.vectorized.equivalence_classes import scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.topology_spread import TopologySpreadConstraint
    from forewarn.policies.scheduling.vectorized.node_fit import NodeFit
    from forewarn.policies.scheduling.vectorized.nodes import Topology
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodCounts, PodMatrix

HOSTNAME: Final = "kubernetes.io/hostname"
_MAX_INT32: Final = 2**31 - 1


def spread(problem: NodeFit, constraints: Sequence[TopologySpreadConstraint]) -> Iterator[Constraint]:
    """Yield the DoNotSchedule `constraints`, evaluated for all nodes. Raises NotValid for an invalid maxSkew."""
    pod, matrix = problem.pod, problem.matrix
    possible = None
    for number, constraint in enumerate(constraints):
        if constraint.max_skew < 1:
            raise NotValid
        if possible is None:
            possible = np.logical_and.reduce([matrix.nodes.topology(c.topology_key).present for c in constraints])
        yield _spread_constraint(pod, matrix, number, constraint, possible)


def _spread_constraint(
    pod: Pod, matrix: PodMatrix, number: int, constraint: TopologySpreadConstraint, possible: NDArray[np.bool_]
) -> Constraint:
    """Return one topology spread constraint, evaluated for all nodes. `possible`: [node], nodes with all topology keys.

    Upstream's initial count skips terminating Pods, and up to 1.37 empty selectors; AddPod and RemovePod do not.
    """
    counts_pods = constraint.counts_pods(matrix.semantics)

    def changes(other: Pod) -> int:
        return other.namespace == pod.namespace and constraint.matches(other.labels)

    def counted(other: Pod) -> int:
        return counts_pods and not other.terminating and changes(other)

    of_default = () if pod.spec.topology_spread else (constraint,)
    about = pod.namespace, id(pod.labels), id(pod.spec), number, *of_default
    keep = pod.labels, pod.spec
    scope = scope_of(pod.namespace, constraint.selector)
    per_kind = matrix.cached(("spread", *about), keep, changes, scope)
    included = possible & included_nodes(constraint, pod, matrix)
    changing = matrix.counts(("spread", *about), keep, changes, scope).here
    of_counted = matrix.counts(("counted", *about), keep, counted, scope)
    topology = matrix.nodes.topology(constraint.topology_key)
    present = topology.sums(np.where(included, of_counted.here, 0))
    others, domains = _least_elsewhere(topology.values, included, present, len(topology))
    least = others if domains >= constraint.min_domains else np.zeros(len(present), np.int64)
    limit = least + (constraint.max_skew - constraint.matches(pod.labels))
    # Pods that match a selector which is not counted still move a count that is there.
    skew = None if not counts_pods else Skew(constraint.max_skew, domains < constraint.min_domains, topology.values)
    counts = np.flatnonzero(included & (changing > 0))
    return Constraint(per_kind, included, counts, present, limit, possible, skew=skew)


def pods_that_match(pod: Pod, constraint: TopologySpreadConstraint, matrix: PodMatrix) -> PodCounts:
    """Return the number of Pods on each node that count for a constraint in Score."""
    namespace, counts_pods = pod.namespace, constraint.counts_pods(matrix.semantics)

    def counted(other: Pod) -> int:
        return (
            counts_pods and other.namespace == namespace and not other.terminating and constraint.matches(other.labels)
        )

    selector = constraint.selector
    return matrix.counts(("matching", namespace, selector), selector, counted, scope_of(namespace, selector))


def spread_scores(
    pod: Pod, constraints: Sequence[TopologySpreadConstraint], rows: NDArray[np.intp], matrix: PodMatrix, *, own: bool
) -> NDArray[np.int64] | int:
    """Return [index in `rows`]: scores 0 to 100 by ScheduleAnyway constraints. `rows`: row numbers of nodes.

    `own`: a node without one of the topology keys scores 0; otherwise only missing keys do not count. Source: upstream
    PodTopologySpread `PreScore`, `Score`, `NormalizeScore`.
    """
    if own and not matrix.nodes.keys.issuperset(c.topology_key for c in constraints):
        return 0
    topologies = [matrix.nodes.topology(constraint.topology_key) for constraint in constraints]
    possible: NDArray[np.bool_] | None = None
    scored: NDArray[np.bool_] | slice = slice(None)
    number = len(rows)
    if own:
        charge(4 * len(constraints) * (len(rows) + len(matrix.serials)) // VECTOR)
        possible = np.logical_and.reduce([topology.present for topology in topologies])
        scored = possible[rows]
        number = int(np.count_nonzero(scored))
        if not number:
            return 0
    total = np.zeros(len(rows), np.float64)
    for constraint, topology in zip(constraints, topologies, strict=True):
        domains, matching = topology.values[rows], pods_that_match(pod, constraint, matrix)
        if constraint.topology_key == HOSTNAME:
            worth = _scores(matching.here[rows], number, constraint)
        else:
            size = int(np.count_nonzero(np.bincount(domains[scored] + 1)))
            worth = _scores(_by_domain(pod, constraint, topology, matching, possible, matrix), size, constraint)[
                domains
            ]
        total += worth if possible is not None or domains.min() >= 0 else np.where(domains >= 0, worth, 0.0)
    scores = np.floor(total + 0.5).astype(np.int64)
    least, most = int(scores[scored].min()), int(scores[scored].max())
    shares = MAX_NODE_SCORE * (most + least - scores) // most if most else MAX_NODE_SCORE
    return shares if possible is None else np.where(possible[rows], shares, 0)


def _scores(counts: NDArray[np.int64], domains: int, constraint: TopologySpreadConstraint) -> NDArray[np.float64]:
    """Return the weighted counts, with the shape of `counts`.

    Source: upstream `scoreForCount`, `topologyNormalizingWeight`.
    """
    return counts.astype(np.float64) * log(domains + 2) + float(constraint.max_skew - 1)


def _by_domain(
    pod: Pod,
    constraint: TopologySpreadConstraint,
    topology: Topology,
    matching: PodCounts,
    possible: NDArray[np.bool_] | None,
    matrix: PodMatrix,
) -> NDArray[np.int64]:
    """Return [domain]: the number of matching Pods. `possible`: [node], the nodes that count; None for all."""
    if possible is None and includes_all_nodes(constraint, pod):
        return matching.by_domain(topology)
    included = included_nodes(constraint, pod, matrix)
    if possible is not None:
        included = included & possible
    return matching.by_domain(topology) if included.all() else topology.by_value(np.where(included, matching.here, 0))


def includes_all_nodes(constraint: TopologySpreadConstraint, pod: Pod) -> bool:
    """Report whether a constraint counts all nodes, because the Pod's node affinity and the nodes' taints do not
    matter.
    """
    affinity = pod.spec.node_affinity
    return affinity.node_selector is None and affinity.required is None and constraint.node_taints_policy != "Honor"


def included_nodes(constraint: TopologySpreadConstraint, pod: Pod, matrix: PodMatrix) -> NDArray[np.bool_]:
    """Return [node], bool: whether a constraint counts the node."""
    spec = pod.spec
    if includes_all_nodes(constraint, pod):
        return np.ones(len(matrix.serials), np.bool_)
    policies = f"{constraint.node_affinity_policy} {constraint.node_taints_policy}"
    return matrix.nodes.mask(policies, spec, lambda node: constraint.includes(node, spec))


def _least_elsewhere(
    domain: NDArray[np.int64], included: NDArray[np.bool_], present: NDArray[np.int64], values: int
) -> tuple[NDArray[np.int64], int]:
    """Return ([node]: the minimum count of the domains other than the node's; the number of domains).

    `domain`, `included`, `present`: [node], number of the domain, whether the node counts, and count of its domain.
    `values`: number of values.
    """
    by_value = np.full(values + 1, _MAX_INT32, np.int64)
    by_value[domain[included]] = present[included]
    domains = int(np.count_nonzero(by_value != _MAX_INT32))
    if not domains:
        return np.full(len(domain), _MAX_INT32, np.int64), 0
    first, next_one = np.argpartition(by_value, 1)[:2]
    if by_value[next_one] < by_value[first]:
        first, next_one = next_one, first
    second = by_value[next_one]
    return np.where(domain == first, second, by_value[first]), domains
