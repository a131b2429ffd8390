"""InterPodAffinity: Pod affinity and anti-affinity. Source: upstream `plugins/interpodaffinity`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.metering import charge, each, meter
from forewarn.policies.objects.pod_affinity import merge_namespaces
from forewarn.policies.scheduling.framework import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from forewarn.policies.scheduling.plugin import FilterInColumns
from forewarn.policies.scheduling.plugins.inter_pod_affinity_columns import (
    NO_LABELS,
    affinity_scores,
    anti_affinity,
    anti_affinity_of_its_own,
    required_affinity,
)
from forewarn.policies.scheduling.reasons import Reason
from forewarn.policies.scheduling.status import NOT_FOUND
from forewarn.policies.scheduling.vectorized.rejections import rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_affinity import AffinityTerm, WeightedAffinityTerm
    from forewarn.policies.scheduling.arguments import InterPodAffinityArgs
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.node_fit import NodeFit
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix
    from forewarn.policies.scheduling.vectorized.rejections import Present, Rejections

AFFINITY: Final = unresolvable(
    Reason("node(s) didn't match pod affinity rules", "no Pod there matches its Pod affinity", "change podAffinity")
)
ANTI_AFFINITY: Final = unschedulable(
    Reason(
        "node(s) didn't match pod anti-affinity rules",
        "violates its Pod anti-affinity",
        "change podAntiAffinity",
    )
)
EXISTING_ANTI_AFFINITY: Final = unschedulable(
    Reason("node(s) didn't satisfy existing pods anti-affinity rules", "violates the anti-affinity of a running Pod")
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

    existing_anti_affinity: Counts
    affinity: Counts
    anti_affinity: Counts
    affinity_terms: tuple[AffinityTerm, ...]
    anti_affinity_terms: tuple[AffinityTerm, ...]
    pod: Pod
    namespace_labels: Mapping[str, str]

    def clone(self) -> _FilterState:
        charge((len(self.existing_anti_affinity) + len(self.affinity) + len(self.anti_affinity)) // 32)
        return replace(
            self,
            existing_anti_affinity=dict(self.existing_anti_affinity),
            affinity=dict(self.affinity),
            anti_affinity=dict(self.anti_affinity),
        )

    def update_with_pod(self, other: Pod, labels: Mapping[str, str], delta: int) -> None:
        """Add another Pod (`delta` 1) on a node with these labels to the counts, or remove the Pod (-1).

        Source: upstream `updateWithPod`.
        """
        pod = self.pod
        for term in each(other.spec.pod_affinity.required_anti_affinity, 1):
            if term.matches(other.namespace, pod.namespace, pod.labels, self.namespace_labels):
                _update(self.existing_anti_affinity, term.topology_key, labels, delta)
        if self.affinity_terms and matches_all(self.affinity_terms, pod, other):
            for term in each(self.affinity_terms):
                _update(self.affinity, term.topology_key, labels, delta)
        for term in each(self.anti_affinity_terms, 1):
            if term.matches(pod.namespace, other.namespace, other.labels, NO_LABELS):
                _update(self.anti_affinity, term.topology_key, labels, delta)


@dataclass(frozen=True, slots=True)
class _ScoreState:
    """The scores of topologies for a Pod. `scores`: topology key -> value -> score."""

    scores: dict[str, dict[str, int]]


class InterPodAffinity(Plugin, FilterInColumns):
    """Rejects nodes by required affinity and anti-affinity, of the Pod and of the Pods on nodes; scores preferred
    terms.
    """

    name: ClassVar[str] = "InterPodAffinity"
    needs_pre_filter: ClassVar[str] = f'error reading "PreFilterInterPodAffinity" from cycleState: {NOT_FOUND}'
    needs_pre_score: ClassVar[str] = f'failed to read "PreScoreInterPodAffinity" from cycleState: {NOT_FOUND}'
    args: InterPodAffinityArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Count the matching terms on all nodes. Upstream `PreFilter`."""
        affinity = pod.spec.pod_affinity
        if affinity.errors:
            return PreFilterResult(status=unresolvable(f"parsing pod: {'; '.join(affinity.errors)}"))
        filter_state = _FilterState(
            existing_anti_affinity={},
            affinity={},
            anti_affinity={},
            affinity_terms=tuple(
                merge_namespaces(t, self.snapshot.objects.namespaces) for t in affinity.required_affinity
            ),
            anti_affinity_terms=tuple(
                merge_namespaces(t, self.snapshot.objects.namespaces) for t in affinity.required_anti_affinity
            ),
            pod=pod,
            namespace_labels=self.snapshot.namespace_labels(pod.namespace),
        )
        own = bool(filter_state.affinity_terms or filter_state.anti_affinity_terms)
        work = meter()
        for node_info in nodes if own else self.snapshot.have_pods_with_required_anti_affinity:
            work.charge(1 + len(node_info.pods))
            for other in node_info.pods if own else node_info.pods_with_required_anti_affinity:
                filter_state.update_with_pod(other, node_info.node.labels, 1)
        if not own and not filter_state.existing_anti_affinity:
            return PreFilterResult(status=SKIP)
        state.data[self.name] = filter_state
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:  # noqa: ARG002
        """Add a Pod to the counts. Upstream `AddPod`."""
        state.data[self.name].update_with_pod(added, node_info.node.labels, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:  # noqa: ARG002
        """Remove a Pod from the counts. Upstream `RemovePod`."""
        state.data[self.name].update_with_pod(removed, node_info.node.labels, -1)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node that violates a required term. Upstream `Filter`."""
        filter_state: _FilterState = state.data[self.name]
        labels = node_info.node.labels
        if not _satisfies_affinity(filter_state, labels):
            return AFFINITY
        for term in each(filter_state.anti_affinity_terms):
            value = labels.get(term.topology_key)
            if value is not None and filter_state.anti_affinity.get((term.topology_key, value), 0) > 0:
                return ANTI_AFFINITY
        existing = filter_state.existing_anti_affinity
        if existing and any(existing.get(pair, 0) > 0 for pair in labels.items()):
            return EXISTING_ANTI_AFFINITY
        return None

    def in_columns(self, problem: NodeFit) -> None:
        """Add required affinity, and a constraint for each topology key of anti-affinity, to `problem`.

        Raises NotValid if the numpy implementation does not support a term.
        """
        problem.affinity = required_affinity(problem)
        for constraint in anti_affinity(problem):
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

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        """Sum scores by topology: preferred terms of the Pod, and all terms of Pods on nodes except required
        anti-affinity.

        Upstream `PreScore`.
        """
        affinity = pod.spec.pod_affinity
        preferred = [_merged(t, self.snapshot) for t in affinity.preferred_affinity]
        repelled = [_merged(t, self.snapshot) for t in affinity.preferred_anti_affinity]
        namespace_labels = self.snapshot.namespace_labels(pod.namespace)
        every = affinity.has_preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not every:
            return SKIP
        scores: dict[str, dict[str, int]] = {}
        hard_weight = self.args.hard_pod_affinity_weight
        work = meter()
        for node_info in self.snapshot.node_infos if every else self.snapshot.have_pods_with_affinity:
            work.charge(1 + len(node_info.pods))
            labels = node_info.node.labels
            for other in node_info.pods if every else node_info.pods_with_affinity:
                _score_terms(scores, preferred, pod, other, NO_LABELS, labels, 1)
                _score_terms(scores, repelled, pod, other, NO_LABELS, labels, -1)
                theirs = other.spec.pod_affinity
                if theirs.present:
                    for term in each(theirs.required_affinity if hard_weight else (), 1):
                        if term.matches(other.namespace, pod.namespace, pod.labels, namespace_labels):
                            _add_score(scores, term, labels, hard_weight)
                    _score_terms(scores, theirs.preferred_affinity, other, pod, namespace_labels, labels, 1)
                    _score_terms(scores, theirs.preferred_anti_affinity, other, pod, namespace_labels, labels, -1)
        if not scores:
            return SKIP
        state.data[self.name] = _ScoreState(scores)
        return None

    def scores_in_columns(self, pod: Pod, rows: NDArray[np.intp], matrix: PodMatrix) -> NDArray[np.int64] | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        if self.args.ignore_preferred_terms_of_existing_pods and not pod.spec.pod_affinity.has_preferred:
            return 0
        return affinity_scores(pod, rows, matrix, self.snapshot, self.args.hard_pod_affinity_weight)

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Return the sum of the scores of the node's topologies, before normalization. Upstream `Score`."""
        labels = node_info.node.labels
        return sum(values.get(labels[key], 0) for key, values in state.data[self.name].scores.items() if key in labels)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:  # noqa: ARG002
        """Scale the scores: the lowest becomes 0, the highest 100. Upstream `NormalizeScore`."""
        least, most = min(scores.values(), default=0), max(scores.values(), default=0)
        for name, score in scores.items():
            scores[name] = (
                int(float(MAX_NODE_SCORE) * (float(score - least) / float(most - least))) if most > least else 0
            )


def matches_all(terms: tuple[AffinityTerm, ...], owner: Pod, pod: Pod) -> bool:
    """Report whether a Pod matches all terms of the Pod `owner`. Source: upstream `podMatchesAllAffinityTerms`."""
    return bool(terms) and all(t.matches(owner.namespace, pod.namespace, pod.labels, NO_LABELS) for t in each(terms, 1))


def _merged(term: WeightedAffinityTerm, snapshot: Snapshot) -> WeightedAffinityTerm:
    return replace(term, term=merge_namespaces(term.term, snapshot.objects.namespaces))


def _update(counts: Counts, key: str, labels: Mapping[str, str], delta: int) -> None:
    value = labels.get(key)
    if value is None:
        return
    count = counts.get((key, value), 0) + delta
    if count:
        counts[key, value] = count
    else:
        # Upstream drops the pair: an empty map means that no pod at all matches.
        counts.pop((key, value), None)


def _satisfies_affinity(state: _FilterState, labels: Mapping[str, str]) -> bool:
    """Report whether labels of a node satisfy the required affinity. Source: upstream `satisfyPodAffinity`.

    If no Pod matches yet, a Pod that matches its own terms fits on each node with the topology labels.
    """
    exist = True
    for term in each(state.affinity_terms):
        value = labels.get(term.topology_key)
        if value is None:
            return False
        exist = exist and state.affinity.get((term.topology_key, value), 0) > 0
    return exist or (not state.affinity and matches_all(state.affinity_terms, state.pod, state.pod))


def _score_terms(
    scores: dict[str, dict[str, int]],
    terms: Sequence[WeightedAffinityTerm],
    owner: Pod,
    pod: Pod,
    namespace_labels: Mapping[str, str],
    labels: Mapping[str, str],
    sign: int,
) -> None:
    for weighted in each(terms, 1):
        if weighted.term.matches(owner.namespace, pod.namespace, pod.labels, namespace_labels):
            _add_score(scores, weighted.term, labels, sign * weighted.weight)


def _add_score(scores: dict[str, dict[str, int]], term: AffinityTerm, labels: Mapping[str, str], amount: int) -> None:
    value = labels.get(term.topology_key)
    if value is not None:
        by_value = scores.setdefault(term.topology_key, {})
        by_value[value] = by_value.get(value, 0) + amount
