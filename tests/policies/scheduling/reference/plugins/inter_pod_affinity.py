"""InterPodAffinity: filtering.go and scoring.go."""

from typing import Any, TypeAlias

from tests.policies.scheduling.reference.framework import Plugin
from tests.policies.scheduling.reference.node_info import AffinityTerm, NodeInfo, PodInfo, affinity_terms
from tests.policies.scheduling.reference.objects import (
    SKIP,
    SUCCESS,
    Obj,
    Status,
    affinity,
    labels,
    name,
    namespace,
    unresolvable,
    unschedulable,
)

# How many terms matched, by topology key and value.
Counts: TypeAlias = dict[tuple[str, str], int]


def update(counts: Counts, node: Obj, topology_key: str, value: int) -> None:
    """topologyToMatchedTermCount.update: an entry that comes down to zero is deleted."""
    if topology_key in labels(node):
        pair = (topology_key, labels(node)[topology_key])
        counts[pair] = counts.get(pair, 0) + value
        if counts[pair] == 0:
            del counts[pair]


def matches_all(terms: list[AffinityTerm], pod: Obj) -> bool:
    """podMatchesAllAffinityTerms."""
    return bool(terms) and all(term.matches(pod, None) for term in terms)


class AffinityState:
    """preFilterState."""

    def __init__(self, required: list[AffinityTerm], anti: list[AffinityTerm], namespace_labels: dict[str, str] | None):
        self.required = required
        self.anti = anti
        self.namespace_labels = namespace_labels
        self.affinity_counts: Counts = {}
        self.anti_affinity_counts: Counts = {}
        self.existing_anti_affinity_counts: Counts = {}

    def __copy__(self) -> "AffinityState":
        made = AffinityState(self.required, self.anti, self.namespace_labels)
        made.affinity_counts = dict(self.affinity_counts)
        made.anti_affinity_counts = dict(self.anti_affinity_counts)
        made.existing_anti_affinity_counts = dict(self.existing_anti_affinity_counts)
        return made

    def update_with_pod(self, preemptor: Obj, other: PodInfo, node: Obj, sign: int) -> None:
        for term in other.required_anti_affinity:
            if term.matches(preemptor, self.namespace_labels):
                update(self.existing_anti_affinity_counts, node, term.topology_key, sign)
        if matches_all(self.required, other.pod):
            for term in self.required:
                update(self.affinity_counts, node, term.topology_key, sign)
        for term in self.anti:
            if term.matches(other.pod, None):
                update(self.anti_affinity_counts, node, term.topology_key, sign)


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
    weight = 2

    def _merged(self, terms: list[AffinityTerm]) -> list[AffinityTerm]:
        """mergeAffinityTermNamespacesIfNotEmpty: the names are added, but the namespace selector stays.

        Upstream means to replace it and changes a copy, so a selector that matches no labels at all (NotIn,
        DoesNotExist) goes on to match pods of every namespace.
        """
        for term in terms:
            if not term.namespace_selector.empty:
                for found in self.cluster.namespaces.values():
                    if term.namespace_selector.matches(labels(found)):
                        term.namespaces.add(name(found))
        return terms

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        if pod.parse_error:
            return unresolvable("parsing pod"), None
        required = self._merged(affinity_terms(pod.pod, "podAffinity", "required"))
        anti = self._merged(affinity_terms(pod.pod, "podAntiAffinity", "required"))
        state = AffinityState(required, anti, self.cluster.namespace_labels(namespace(pod.pod)))
        for node in self.cluster.nodes:
            for other in node.pods:
                state.update_with_pod(pod.pod, other, node.node, 1)
        if not state.existing_anti_affinity_counts and not required and not anti:
            return SKIP, None
        self._preemptor = pod.pod
        return SUCCESS, state

    def update_state(self, state: Any, other: PodInfo, node: Obj, sign: int) -> None:
        state.update_with_pod(self._preemptor, other, node, sign)

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        found = labels(node.node)
        if not _satisfies_affinity(state, pod, found):
            return unresolvable("node(s) didn't match pod affinity rules")
        for term in state.anti:
            pair = (term.topology_key, found.get(term.topology_key, ""))
            if term.topology_key in found and state.anti_affinity_counts.get(pair, 0) > 0:
                return unschedulable("node(s) didn't match pod anti-affinity rules")
        if any(state.existing_anti_affinity_counts.get(pair, 0) > 0 for pair in found.items()):
            return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return SUCCESS

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        wanted = self._merged(affinity_terms(pod.pod, "podAffinity", "preferred"))
        unwanted = self._merged(affinity_terms(pod.pod, "podAntiAffinity", "preferred"))
        has_constraints = any(affinity(pod.pod, kind, "preferred") for kind in ("podAffinity", "podAntiAffinity"))
        own = self.cluster.namespace_labels(namespace(pod.pod))
        scores: dict[tuple[str, str], int] = {}
        for node in self.cluster.nodes:
            for other in node.pods:
                if not has_constraints and not other.has_affinity:
                    continue
                _process(scores, node.node, wanted, other.pod, None, 1)
                _process(scores, node.node, unwanted, other.pod, None, -1)
                _process(scores, node.node, other.required_affinity, pod.pod, own, 1)
                _process(scores, node.node, other.preferred_affinity, pod.pod, own, 1)
                _process(scores, node.node, other.preferred_anti_affinity, pod.pod, own, -1)
        return (SUCCESS, scores) if scores else (SKIP, None)

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        return sum(state.get(pair, 0) for pair in labels(node.node).items())

    def normalize(self, state: Any, scores: dict[str, int]) -> dict[str, int]:
        lowest, highest = min(scores.values()), max(scores.values())
        if highest == lowest:
            return dict.fromkeys(scores, 0)
        return {node: int(100.0 * (float(s - lowest) / float(highest - lowest))) for node, s in scores.items()}


def _satisfies_affinity(state: AffinityState, pod: PodInfo, found: dict[str, str]) -> bool:
    """satisfyPodAffinity, with the exception for the first pod of a group."""
    pods_exist = True
    for term in state.required:
        if term.topology_key not in found:
            return False
        if state.affinity_counts.get((term.topology_key, found[term.topology_key]), 0) <= 0:
            pods_exist = False
    return pods_exist or (not state.affinity_counts and matches_all(state.required, pod.pod))


def _process(
    scores: dict[tuple[str, str], int],
    node: Obj,
    terms: list[AffinityTerm],
    pod: Obj,
    namespace_labels: dict[str, str] | None,
    sign: int,
) -> None:
    """processTerms."""
    for term in terms:
        if term.topology_key in labels(node) and term.matches(pod, namespace_labels):
            pair = (term.topology_key, labels(node)[term.topology_key])
            scores[pair] = scores.get(pair, 0) + sign * term.weight
