"""NodeAffinity: node selectors and node affinity. Source: upstream `plugins/nodeaffinity/node_affinity.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from policies.metering import each
from policies.scheduling.framework import (
    SKIP,
    CycleState,
    Plugin,
    PreFilterResult,
    Status,
    default_normalize_score,
    unresolvable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.node_selector import NodeSelector
    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo

REASON: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
CONFLICT: Final = unresolvable("pod affinity terms conflict")


class NodeAffinity(Plugin):
    """Rejects nodes that the pod's nodeSelector and required affinity do not match; scores preferred terms."""

    name: ClassVar[str] = "NodeAffinity"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Upstream `PreFilter`: terms that all name their nodes leave only these."""
        affinity = pod.spec.node_affinity
        if affinity.required is None and affinity.node_selector is None:
            return PreFilterResult(status=SKIP)
        names = named_nodes(affinity.required)
        if names is not None and not names:
            return PreFilterResult(status=CONFLICT)
        return PreFilterResult(names)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`."""
        return None if pod.spec.node_affinity.matches(node_info.node.labels, node_info.name) else REASON

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        """Upstream `PreScore`."""
        return SKIP if pod.spec.node_affinity.preferred is None else None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """The weights of the preferred terms that match."""
        preferred = pod.spec.node_affinity.preferred or ()
        return sum(p.weight for p in each(preferred, 1) if p.term.matches(node_info.node.labels, node_info.name))

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:  # noqa: ARG002
        """The more the better."""
        default_normalize_score(scores, reverse=False)


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """The nodes that the terms name, None where one of them does not (or there are none)."""
    if required is None or not required.terms:
        return None
    if any(term.names is None for term in each(required.terms)):
        return None
    return frozenset(name for term in each(required.terms, 2) for name in term.names or ())
