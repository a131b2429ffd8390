"""InterPodAffinity: Pod affinity and anti-affinity. Source: upstream `plugins/interpodaffinity`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.base.metering import VECTOR, charge, charging, meter
from forewarn.policies.kubernetes.objects.pod import AffinityTerm, Pod, merge_namespaces
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    SKIP,
    CycleState,
    FilterInColumns,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.equivalence_classes import Scope, scope_of
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import Constraint, RequiredAffinity, rejected
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodCounts, PodMatrix, cache_size
from forewarn.policies.kubernetes.scheduling.vectorized.scores import ScorePluginInColumns

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.scheduling.arguments import InterPodAffinityArgs
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import (
        CapacityConstraint,
        NodeFit,
        Present,
        Rejections,
    )


CACHE_SIZE: Final = 64
"""The number of label sets that can at least be cached for `Against`; see `cache_size`."""
_MAX_HITS: Final = 100
"""Maximum number of counted terms of one Pod: one is enough to reject a node."""
_MAX_NAMESPACES: Final = 2048
"""Maximum number of namespaces that the terms of one Pod name or select, in total."""
NO_LABELS: Final[Mapping[str, str]] = {}
_INT64: Final = np.iinfo(np.int64)


def required_affinity(problem: NodeFit) -> RequiredAffinity | None:
    """Return the Pod's required affinity, evaluated for all nodes; None without terms.

    Raises NotValid for terms that cannot be parsed or select too many namespaces.
    """
    pod, matrix, snapshot = problem.pod, problem.matrix, problem.snapshot
    if pod.spec.pod_affinity.errors:
        raise NotValid
    terms = tuple(merge_namespaces(t, snapshot.objects.namespaces) for t in pod.spec.pod_affinity.required_affinity)
    if not terms:
        return None
    _check_namespaces(terms)
    matches = partial(matches_all, terms, pod)
    none = np.zeros(len(matrix.serials), np.int64)
    if not matrix.nodes.keys.issuperset(t.topology_key for t in terms):
        no_nodes = none > 0  # no node is in all of such topologies
        per_kind = np.zeros(len(matrix.kinds), np.int64)
        return RequiredAffinity(
            no_nodes, no_nodes, len(problem.demands), no_nodes, per_kind, none, none, 0, matches_itself=False
        )
    selects = any(t.namespace_selector is not None for t in terms)
    keep = pod.spec, snapshot.objects.namespaces if selects else None
    about = "affinity", pod.namespace, *map(id, keep)
    only = _scope_of(terms, pod.namespace)
    counts = matrix.counts(about, keep, matches, only)
    per_kind = matrix.cached(about, keep, matches, only)
    topologies = [matrix.nodes.topology(key) for key in dict.fromkeys(t.topology_key for t in terms)]
    charge((3 + 2 * len(topologies)) * problem.row)
    labelled = np.logical_and.reduce([topology.present for topology in topologies])
    sums = [topology.sums_by_value(counts.here)[topology.values] for topology in topologies]
    least = sums[0] if len(sums) == 1 else np.minimum.reduce(sums)
    somewhere = labelled if len(sums) == 1 else np.logical_or.reduce([topology.present for topology in topologies])
    total = int(counts.here[somewhere].sum())
    itself = matches(pod)
    now = labelled if itself and not total else labelled & (least > 0)
    with_nominated = now | (labelled & (problem.nominated_sums(per_kind) > 0))
    return RequiredAffinity(
        now, with_nominated, len(problem.demands), labelled, per_kind, counts.here, least, total, itself
    )


def _are_few_namespaces(terms: Iterable[AffinityTerm]) -> bool:
    """Report whether the terms select so few namespaces that tables for them may be cached."""
    return sum(len(term.namespaces or ()) for term in terms) <= _MAX_NAMESPACES


def _check_namespaces(terms: Iterable[AffinityTerm]) -> None:
    if not _are_few_namespaces(terms):
        raise NotValid("as affinity selects many namespaces")


def _scope_of(terms: Sequence[AffinityTerm], own: str) -> Scope | None:
    """Return the scope of Pods that match every term; None for several namespaces. `own`: the owner's namespace."""
    for term in terms:
        if term.namespace_selector is not None and term.namespace_selector.matches(NO_LABELS):
            continue
        names = frozenset({own}) if term.namespaces is None else term.namespaces
        if len(names) == 1:
            return scope_of(next(iter(names)), term.selector)
    return None


def anti_affinity(problem: NodeFit) -> Iterator[Constraint]:
    """Yield one constraint for each topology key of required anti-affinity, of the Pod and of Pods on nodes against the
    Pod.

    Raises NotValid if the terms select too many namespaces.
    """
    pod, matrix, snapshot = problem.pod, problem.matrix, problem.snapshot
    own = tuple(merge_namespaces(t, snapshot.objects.namespaces) for t in pod.spec.pod_affinity.required_anti_affinity)
    theirs = terms_against(pod, matrix, snapshot)
    if not own and not matrix.repelling.numbers():
        return
    _check_namespaces(own)
    about = pod.namespace, id(pod.labels), id(pod.spec), id(snapshot.objects.namespaces)
    keep = pod.labels, pod.spec, snapshot.objects.namespaces
    merged = []
    for key in dict.fromkeys([*(t.topology_key for t in own), *theirs]):
        if key not in matrix.nodes.keys:
            continue  # no node is in such a topology
        charge(1 + len(own) // 8)
        terms = [t for t in own if t.topology_key == key]

        def hits(other: Pod, terms: list[AffinityTerm] = terms) -> int:
            return sum(t.matches(pod.namespace, other.namespace, other.labels, NO_LABELS) for t in charging(terms, 1))

        per_kind = np.zeros(len(matrix.kinds), np.int64)
        own_kinds = None
        if terms:
            matching = matrix.cached(("anti-affinity", *about, key), keep, hits, _scope_of_any(terms, pod.namespace))
            own_kinds = np.minimum(matching[: len(per_kind)], _MAX_HITS)
            per_kind += own_kinds
        for kind, count in theirs.get(key, {}).items():
            per_kind[kind] += count
        np.minimum(per_kind, _MAX_HITS, out=per_kind)
        if per_kind.any():
            topology = matrix.nodes.topology(key)
            here = matrix.present(per_kind)
            present, none = topology.sums(here), np.zeros(len(here), np.int64)
            counts = np.flatnonzero(topology.present & (here > 0))
            constraint = Constraint(per_kind, topology.present, counts, present, none, domains=topology.values)
            merged.append(constraint._replace(own=own_kinds) if own_kinds is not None else constraint)
    # If neither its own terms nor those of other Pods apply, upstream skips the plugin, also for nominated Pods.
    if own or problem.affinity is not None or any(constraint.present.any() for constraint in merged):
        yield from merged


def anti_affinity_of_its_own(problem: NodeFit, demands: Sequence[CapacityConstraint], amounts: Present) -> Mask:
    """Return [node], bool: whether the Pod's own anti-affinity rejects the node. `demands`: from `anti_affinity`."""
    counts = np.zeros(len(problem.possible), np.bool_)
    for demand in demands:
        constraint = demand.constraint
        if constraint is None or constraint.own is None or constraint.domains is None:
            continue
        here, inside = problem.matrix.present(constraint.own), constraint.domains >= 0
        sums = np.bincount(constraint.domains[inside], here[inside], 1).astype(np.int64)
        present = np.where(inside, sums[constraint.domains], 0)
        part = constraint._replace(per_kind=constraint.own, present=present)
        counts |= amounts.exceeded(problem.counted(part))
    return counts


class Against:
    """The required anti-affinity terms of other Pods that match one Pod: topology key -> equivalence class -> number of
    terms.

    Each class is evaluated once, term by term: a Pod with a thousand terms must not multiply the cost of other Pods.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        self.keys, self.by_key = keys, dict[str, dict[int, int]]()
        self._known = 0

    def learn(self, pod: Pod, matrix: PodMatrix, namespace_labels: Mapping[str, str]) -> None:
        """Evaluate classes that were added since the last call. `namespace_labels`: of the Pod's namespace."""
        for number in matrix.repelling.near(pod.labels, self._known):
            other = matrix.kinds.members[number]
            assert other is not None
            hits: dict[str, int] = {}
            for term in charging(other.spec.pod_affinity.required_anti_affinity, 0.7):
                if term.topology_key in self.keys and term.matches(
                    other.namespace, pod.namespace, pod.labels, namespace_labels
                ):
                    hits[term.topology_key] = hits.get(term.topology_key, 0) + 1
            charge(1)
            for key, count in hits.items():
                self.by_key.setdefault(key, {})[number] = count
            self._known = number
        self._known = matrix.repelling.last


def _attracting_keys(pod: Pod, matrix: PodMatrix, namespace_labels: Mapping[str, str]) -> tuple[set[str], bool]:
    """Return (topology keys of other Pods' terms that affect the score of a Pod, whether other namespaces have such
    Pods).

    `namespace_labels`: of the Pod's namespace.
    """
    keys, elsewhere = set[str](), False
    for number in matrix.attractive.near(pod.labels, 0):
        other = matrix.kinds.members[number]
        assert other is not None
        charge(1)
        is_elsewhere = other.namespace != pod.namespace
        for term in charging(other.spec.pod_affinity.attracting, 1):
            here = term.topology_key in matrix.nodes.keys
            is_new = here and (term.topology_key not in keys or (is_elsewhere and not elsewhere))
            if is_new and term.matches(other.namespace, pod.namespace, pod.labels, namespace_labels):
                keys.add(term.topology_key)
                elsewhere = elsewhere or is_elsewhere
    return keys, elsewhere


def _attracting(pod: Pod, hard_weight: int) -> list[tuple[int, AffinityTerm]]:
    """Return (score, term) of a Pod's terms that affect others' scores. `hard_weight`: the score of required terms."""
    required = pod.spec.pod_affinity.required_affinity if hard_weight else ()
    return [*((hard_weight, term) for term in required), *_preferred(pod)]


def _preferred(pod: Pod) -> list[tuple[int, AffinityTerm]]:
    """Return (weight, term) of a Pod's preferred terms; the weight of anti-affinity is negative."""
    affinity = pod.spec.pod_affinity
    repelling = [(-weighted.weight, weighted.term) for weighted in affinity.preferred_anti_affinity]
    return [*((weighted.weight, weighted.term) for weighted in affinity.preferred_affinity), *repelling]


def affinity_scores(pod: Pod, rows: Rows, matrix: PodMatrix, snapshot: Snapshot, hard_weight: int) -> Ints | int:
    """Return [index in `rows`]: scores 0 to 100 by affinity to Pods; 0 if no term applies. `rows`: row numbers of
    nodes.

    The score counts the Pod's preferred terms, and all terms of Pods on nodes except required anti-affinity.
    `hard_weight`: the weight of required affinity terms. Source: upstream InterPodAffinity `PreScore`, `Score`,
    `NormalizeScore`.
    """
    sums: Ints | None = None
    for counts, key in (*_own_scores(pod, matrix, snapshot), *_others_scores(pod, matrix, snapshot, hard_weight)):
        topology = matrix.nodes.topology(key)
        charge(2 * len(rows) // VECTOR)
        amounts = topology.sums_by_value(counts.here)[topology.values[rows]]
        sums = amounts if sums is None else sums + amounts
    return 0 if sums is None else _normalized(sums)


def _normalized(sums: Ints) -> Ints:
    """Return scaled scores: the lowest becomes 0, the highest 100. Upstream `NormalizeScore`."""
    least, most = int(sums.min(initial=_INT64.max)), int(sums.max(initial=_INT64.min))
    shares = (sums - least).astype(np.float64) / float(max(most - least, 1))
    return (float(MAX_NODE_SCORE) * shares).astype(np.int64)


def _own_scores(pod: Pod, matrix: PodMatrix, snapshot: Snapshot) -> Iterator[tuple[PodCounts, str]]:
    """Yield (score of the Pods on each node by the Pod's preferred terms, topology key)."""
    weighted = [(weight, term) for weight, term in _preferred(pod) if term.topology_key in matrix.nodes.keys]
    selects = any(term.namespace_selector is not None for _, term in weighted)
    keep = pod.spec, snapshot.objects.namespaces if selects else None
    for key in dict.fromkeys(term.topology_key for _, term in weighted):
        about = "preferred", pod.namespace, *map(id, keep), key
        counts = matrix.counted(about)
        if counts is None:
            own = [(weight, term) for weight, term in weighted if term.topology_key == key]
            terms = [(weight, merge_namespaces(term, snapshot.objects.namespaces)) for weight, term in own]
            scope = _scope_of_any([term for _, term in terms], pod.namespace)
            arguments = partial(_score, terms, pod, NO_LABELS), scope
            is_small = _are_few_namespaces(term for _, term in terms)
            counts = matrix.counts(about, keep, *arguments) if is_small else matrix.counts_once(keep, *arguments)
        yield counts, key


def _score(terms: Sequence[tuple[int, AffinityTerm]], owner: Pod, namespace_labels: Mapping[str, str], pod: Pod) -> int:
    """Return the sum of the weights of the terms of the Pod `owner` that match another Pod."""
    matched = (
        weight
        for weight, term in charging(terms, 1)
        if term.matches(owner.namespace, pod.namespace, pod.labels, namespace_labels)
    )
    return sum(matched)


def _scope_of_any(terms: Sequence[AffinityTerm], own: str) -> Scope | None:
    """Return the scope of Pods that match any term; None for several namespaces. `own`: the owner's namespace."""
    every = {_scope_of((term,), own) for term in terms}
    if len(every) == 1:
        return every.pop()
    namespaces = {scope and scope[:1] for scope in every}
    return namespaces.pop() if len(namespaces) == 1 else None


def _others_scores(
    pod: Pod, matrix: PodMatrix, snapshot: Snapshot, hard_weight: int
) -> Iterator[tuple[PodCounts, str]]:
    """Yield (score of the Pods on each node by the terms of those Pods, topology key)."""
    if not matrix.attractive.numbers():
        return
    namespaces = snapshot.objects.namespaces
    about = "attracting", hard_weight, pod.namespace, id(pod.labels), id(namespaces)
    labels = snapshot.namespace_labels(pod.namespace)
    keys, elsewhere = _attracting_keys(pod, matrix, labels)
    only = None if elsewhere else (pod.namespace,)
    for key in keys:

        def score(other: Pod, key: str = key) -> int:
            if not other.spec.pod_affinity.present or only not in (None, (other.namespace,)):
                return 0
            terms = [item for item in charging(_attracting(other, hard_weight), 0.1) if item[1].topology_key == key]
            return _score(terms, other, labels, pod)

        yield matrix.counts((*about, key, only), (pod.labels, namespaces), score, only), key


def terms_against(pod: Pod, matrix: PodMatrix, snapshot: Snapshot) -> Mapping[str, Mapping[int, int]]:
    """Count the required anti-affinity terms of other Pods that match `pod`: topology key -> equivalence class ->
    number of terms.

    Includes classes whose Pods are no longer on a node.
    """
    numbers = matrix.repelling.numbers()
    if not numbers:
        return {}
    key = pod.namespace, id(pod.labels), id(snapshot.objects.namespaces)
    terms, _ = matrix.against.get(key, (None, None))
    if terms is None or terms.keys is not matrix.nodes.keys:
        if len(matrix.against) >= cache_size(CACHE_SIZE, len(numbers)):
            matrix.against.clear()
        terms = Against(matrix.nodes.keys)
        matrix.against[key] = terms, (pod.labels, snapshot.objects.namespaces)
    against: Against = terms
    against.learn(pod, matrix, snapshot.namespace_labels(pod.namespace))
    return against.by_key


CHANGE: Final = "change podAffinity"
CHANGE_ANTI: Final = "change podAntiAffinity"
AFFINITY: Final = unresolvable(
    Reason("node(s) didn't match pod affinity rules", "no Pod there matches its Pod affinity", CHANGE)
)
ANTI_AFFINITY: Final = unschedulable(
    Reason(
        "node(s) didn't match pod anti-affinity rules",
        "violates its Pod anti-affinity",
        CHANGE_ANTI,
        of_pods=True,
    )
)
EXISTING_ANTI_AFFINITY: Final = unschedulable(
    Reason(
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "violates the anti-affinity of a running Pod",
        of_pods=True,
    )
)

Counts = dict[tuple[str, str], int]
"""(topology key, value) -> number of matching terms."""


@dataclass(slots=True)
class _FilterState:
    """Numbers of matching terms by (topology key, value), before Filter.

    `affinity_terms`, `anti_affinity_terms`: the terms of the new Pod, with namespace selectors replaced by namespaces.
    `existing_anti_affinity`: terms of Pods on nodes that match the new Pod. `affinity`, `anti_affinity`: terms of the
    new Pod that match Pods on nodes.
    """

    pod: Pod
    namespace_labels: Mapping[str, str]
    affinity_terms: tuple[AffinityTerm, ...]
    anti_affinity_terms: tuple[AffinityTerm, ...]
    existing_anti_affinity: Counts = field(default_factory=dict)
    affinity: Counts = field(default_factory=dict)
    anti_affinity: Counts = field(default_factory=dict)

    def clone(self) -> _FilterState:
        existing, affinity, anti_affinity = map(dict, (self.existing_anti_affinity, self.affinity, self.anti_affinity))
        charge((len(existing) + len(affinity) + len(anti_affinity)) // 32)
        return replace(self, existing_anti_affinity=existing, affinity=affinity, anti_affinity=anti_affinity)

    def count_existing(self, nodes: Iterable[NodeInfo]) -> None:
        """Count required anti-affinity terms of the Pods on these nodes. Upstream `getExistingAntiAffinityCounts`."""
        known: dict[tuple[int, str], list[str]] = {}  # equal Pods share a spec
        work = meter()
        for node_info in nodes:
            pods, labels = node_info.pods_with_required_anti_affinity, node_info.node.labels
            work.charge(1 + len(pods))
            for other in pods:
                kind = id(other.spec), other.namespace
                keys = known.get(kind)
                if keys is None:
                    keys = known[kind] = list(self._repelling_keys(other))
                if len(keys) > 1:
                    work.charge(len(keys))
                for key in keys:
                    _update(self.existing_anti_affinity, key, labels, 1)

    def count_own(self, nodes: Iterable[NodeInfo]) -> None:
        """Count the Pods that match the new Pod's terms. Source: upstream `getIncomingAffinityAntiAffinityCounts`."""
        terms = *self.affinity_terms, *self.anti_affinity_terms
        anywhere = any(term.namespace_selector is not None for term in terms)
        names = {name for term in terms for name in term.namespaces or (self.pod.namespace,)}
        work = meter()
        for node_info in nodes:
            work.charge(1 + len(node_info.pods))
            for other in node_info.pods:
                if anywhere or other.namespace in names:
                    self._update_own(other, node_info.node.labels, 1)

    def _repelling_keys(self, other: Pod) -> Iterator[str]:
        pod = self.pod
        for term in charging(other.spec.pod_affinity.required_anti_affinity, 1):
            if term.matches(other.namespace, pod.namespace, pod.labels, self.namespace_labels):
                yield term.topology_key

    def update_with_pod(self, other: Pod, labels: Mapping[str, str], delta: int) -> None:
        """Add (`delta` 1) or remove (-1) a Pod on a node with these labels. Source: upstream `updateWithPod`."""
        for key in self._repelling_keys(other):
            _update(self.existing_anti_affinity, key, labels, delta)
        self._update_own(other, labels, delta)

    def _update_own(self, other: Pod, labels: Mapping[str, str], delta: int) -> None:
        pod = self.pod
        if self.affinity_terms and matches_all(self.affinity_terms, pod, other):
            for term in charging(self.affinity_terms):
                _update(self.affinity, term.topology_key, labels, delta)
        for term in charging(self.anti_affinity_terms, 1):
            if term.matches(pod.namespace, other.namespace, other.labels, NO_LABELS):
                _update(self.anti_affinity, term.topology_key, labels, delta)


class InterPodAffinity(ScorePluginInColumns, FilterInColumns):
    """Rejects nodes by required affinity and anti-affinity, of the Pod and of others; scores preferred terms."""

    name: ClassVar[str] = "InterPodAffinity"
    needs_pre_filter: ClassVar[str] = f'error reading "PreFilterInterPodAffinity" from cycleState: {NOT_FOUND}'
    needs_pre_score: ClassVar[str] = f'failed to read "PreScoreInterPodAffinity" from cycleState: {NOT_FOUND}'
    args: InterPodAffinityArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Count the matching terms on all nodes. Upstream `PreFilter`."""
        affinity = pod.spec.pod_affinity
        if affinity.errors:
            return PreFilterResult(status=unresolvable(f"parsing pod: {'; '.join(affinity.errors)}"))
        terms, anti_terms = (
            tuple(merge_namespaces(term, self.snapshot.objects.namespaces) for term in required)
            for required in (affinity.required_affinity, affinity.required_anti_affinity)
        )
        filter_state = _FilterState(pod, self.snapshot.namespace_labels(pod.namespace), terms, anti_terms)
        own = bool(filter_state.affinity_terms or filter_state.anti_affinity_terms)
        filter_state.count_existing(self.snapshot.have_pods_with_required_anti_affinity)
        if own:
            filter_state.count_own(nodes)
        elif not filter_state.existing_anti_affinity:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = filter_state
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:  # noqa: ARG002
        state.data[self.name].update_with_pod(added, node_info.node.labels, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:  # noqa: ARG002
        state.data[self.name].update_with_pod(removed, node_info.node.labels, -1)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node that violates a required term. Upstream `Filter`."""
        filter_state: _FilterState = state.data[self.name]
        labels = node_info.node.labels
        if not _satisfies_affinity(filter_state, labels):
            return AFFINITY
        for term in charging(filter_state.anti_affinity_terms):
            value = labels.get(term.topology_key)
            if value is not None and filter_state.anti_affinity.get((term.topology_key, value), 0) > 0:
                return ANTI_AFFINITY
        existing = filter_state.existing_anti_affinity
        if existing and any(existing.get(pair, 0) > 0 for pair in labels.items()):
            return EXISTING_ANTI_AFFINITY
        return None

    def in_columns(self, problem: NodeFit) -> None:
        """Add required affinity, and a constraint for each topology key of anti-affinity. Raises NotValid."""
        problem.affinity = required_affinity(problem)
        for constraint in anti_affinity(problem) if problem.possible.any() else ():
            problem.add(constraint)

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield the nodes rejected by the Pod's own terms, then by terms of Pods on nodes. Raises NotValid."""
        demands, affinity = problem.added[self.name], problem.affinity
        if affinity is not None:
            yield rejected(~amounts.affinity_met_with_nominated(problem, affinity), AFFINITY)
        if demands:
            yield rejected(anti_affinity_of_its_own(problem, demands, amounts), ANTI_AFFINITY)
        for demand in demands:
            yield rejected(amounts.exceeded(demand), EXISTING_ANTI_AFFINITY)

    def rejections_without_nominated(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
        """Yield the nodes that do not satisfy the Pod's required affinity if nominated Pods do not count."""
        if problem.affinity is not None:
            yield rejected(~amounts.affinity_met(problem.affinity), AFFINITY)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        if self.args.ignore_preferred_terms_of_existing_pods and not pod.spec.pod_affinity.has_preferred:
            return 0
        return affinity_scores(pod, rows, matrix, self.snapshot, self.args.hard_pod_affinity_weight)


def matches_all(terms: tuple[AffinityTerm, ...], owner: Pod, pod: Pod) -> bool:
    """Report whether a Pod matches all terms of the Pod `owner`. Source: upstream `podMatchesAllAffinityTerms`."""
    return bool(terms) and all(
        t.matches(owner.namespace, pod.namespace, pod.labels, NO_LABELS) for t in charging(terms, 1)
    )


def _update(counts: Counts, key: str, labels: Mapping[str, str], delta: int) -> None:
    value = labels.get(key)
    if value is None:
        return
    count = counts.get((key, value), 0) + delta
    if count:
        counts[key, value] = count
    else:
        # Upstream removes the pair: an empty map means that no Pod matches.
        counts.pop((key, value), None)


def _satisfies_affinity(state: _FilterState, labels: Mapping[str, str]) -> bool:
    """Report whether labels of a node satisfy the required affinity. Source: upstream `satisfyPodAffinity`.

    If no Pod matches yet, a Pod that matches its own terms fits on each node with the topology labels.
    """
    exist = True
    for term in charging(state.affinity_terms):
        value = labels.get(term.topology_key)
        if value is None:
            return False
        exist = exist and state.affinity.get((term.topology_key, value), 0) > 0
    return exist or (not state.affinity and matches_all(state.affinity_terms, state.pod, state.pod))
