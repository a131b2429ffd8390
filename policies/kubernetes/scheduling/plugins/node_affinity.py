"""NodeAffinity: node selectors and node affinity. Source: upstream `plugins/nodeaffinity/node_affinity.go`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.scheduling.framework import (
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    StaticFilter,
    StaticFilterPlugin,
    Status,
    default_normalize_score,
    default_normalized,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import NodeTables, PodMatrix, allowed, matching

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node, NodeSelector, PreferredSchedulingTerm
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.arguments import NodeAffinityArgs
    from forewarn.policies.kubernetes.scheduling.arrays import Ints, Mask, Rows
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

CHANGE: Final = "change nodeSelector or nodeAffinity"
REASON: Final = unresolvable(
    Reason(
        "node(s) didn't match Pod's node affinity/selector",
        "node selector or node affinity does not match",
        CHANGE,
    )
)
ENFORCED: Final = unresolvable(
    Reason("node(s) didn't match scheduler-enforced node affinity", "node affinity of the profile does not match")
)
CONFLICT: Final = unresolvable("pod affinity terms conflict")


class NodeAffinity(Plugin, StaticFilterPlugin):
    """Rejects nodes that do not match the Pod's nodeSelector and required affinity; scores preferred terms.

    The profile's addedAffinity counts too, for every Pod.
    """

    name: ClassVar[str] = "NodeAffinity"
    args: NodeAffinityArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Return the nodes that the terms name, if all terms name nodes. Upstream `PreFilter`."""
        affinity = pod.spec.node_affinity
        if affinity.required is None and affinity.node_selector is None and self.args.required is None:
            return PreFilterResult(status=SKIP)
        names = named_nodes(affinity.required)
        if names is not None and not names:
            return PreFilterResult(status=CONFLICT)
        return PreFilterResult(names)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node that does not match. Upstream `Filter`."""
        added = self.args.required
        if added is not None and not added.matches(node_info.node.labels, node_info.name):
            return ENFORCED
        return None if pod.spec.node_affinity.matches(node_info.node.labels, node_info.name) else REASON

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        return SKIP if pod.spec.node_affinity.preferred is None and self.args.preferred is None else None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        return preference(self._preferred(pod), node_info.node)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:  # noqa: ARG002
        default_normalize_score(scores, reverse=False)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        preferred = self._preferred(pod)
        if not preferred:
            return 0
        about = "preferred", self.args.preferred
        weights = matrix.nodes.values(about, pod.spec, partial(preference, preferred), int)
        return default_normalized(weights[rows], reverse=False)

    def _preferred(self, pod: Pod) -> Sequence[PreferredSchedulingTerm]:
        return *(self.args.preferred or ()), *(pod.spec.node_affinity.preferred or ())

    def static_filter(self, pod: Pod) -> Callable[[Node], bool] | None:
        """Return a function: node -> whether the node passes, with any Pods on it; None if all nodes pass."""
        own, added = pod.spec.node_affinity, self.args.required
        if own.required is None and own.node_selector is None:
            return None if added is None else lambda node: added.matches(node.labels, node.name)
        if added is None:
            return lambda node: own.matches(node.labels, node.name)
        return lambda node: added.matches(node.labels, node.name) and own.matches(node.labels, node.name)

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter | None:
        """Return `static_filter` for all nodes at once."""
        passes = self.static_filter(pod)
        return None if passes is None else StaticFilter(passes, in_columns=partial(self._passing, pod))

    def _passing(self, pod: Pod, nodes: NodeTables) -> Mask:
        mask, added = allowed(nodes, pod.spec.node_affinity), self.args.required
        return mask if added is None else mask & matching(nodes, added, with_fields=True)


def preference(preferred: Sequence[PreferredSchedulingTerm], node: Node) -> int:
    return sum(p.weight for p in charging(preferred, 1) if p.term.matches(node.labels, node.name))


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the nodes that required terms name; None without terms, or if a term names no node."""
    if required is None or not required.terms:
        return None
    if any(term.names is None for term in charging(required.terms)):
        return None
    return frozenset(name for term in charging(required.terms, 2) for name in term.names or ())
