"""Topology spread constraints of Pods, and Services, from which default constraints take their selectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.objects.fields import at, int32, items, string_map, strings, text
from forewarn.policies.objects.node import untolerated_taint
from forewarn.policies.selectors import InvalidSelector, LabelSelector, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.releases.semantics import Semantics


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """A topology spread constraint.

    `selector`: None (missing) matches no Pod. `error`: why the constraint is invalid, or "".
    """

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    selector: LabelSelector | None = None
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
    error: str = ""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.matches(labels)

    def includes(self, node: Node, spec: PodSpec) -> bool:
        """Whether the constraint of a Pod with this spec counts the Pods on a node (`matchNodeInclusionPolicies`)."""
        if self.node_affinity_policy == "Honor" and not spec.node_affinity.matches(node.labels, node.name):
            return False
        return self.node_taints_policy != "Honor" or untolerated_taint(node.taints, spec.tolerations) is None

    def counts_pods(self, semantics: Semantics) -> bool:
        """Whether kube-scheduler counts Pods for the constraint. Up to 1.37, an empty selector counts no Pods."""
        return self.selector is not None and (semantics.empty_selectors_count or not self.selector.empty)


def read_topology_spread(pod: ApiObject) -> tuple[TopologySpreadConstraint, ...]:
    """Parse a Pod's `spec.topologySpreadConstraints`. Raises InvalidObject."""
    return tuple(_constraint(c) for c in items(pod, "spec", "topologySpreadConstraints"))


def _constraint(constraint: ApiObject) -> TopologySpreadConstraint:
    selector, error = None, ""
    try:
        selector = parse_label_selector(constraint.get("labelSelector"))
    except InvalidSelector as problem:
        error = str(problem)
    min_domains = int32(constraint, "minDomains")
    return TopologySpreadConstraint(
        max_skew=int32(constraint, "maxSkew") or 0,
        topology_key=text(constraint, "topologyKey"),
        when_unsatisfiable=text(constraint, "whenUnsatisfiable"),
        selector=selector,
        min_domains=1 if min_domains is None else min_domains,
        node_affinity_policy=text(constraint, "nodeAffinityPolicy", default="Honor"),
        node_taints_policy=text(constraint, "nodeTaintsPolicy", default="Ignore"),
        match_label_keys=strings(constraint, "matchLabelKeys"),
        error=error,
    )


@dataclass(frozen=True, slots=True)
class Service:
    """A stored Service. `selector`: None (missing) matches no Pod, an empty selector every Pod."""

    namespace: str
    name: str
    selector: Mapping[str, str] | None

    @classmethod
    def from_api(cls, obj: ApiObject) -> Service:
        """Read an API object. Raises InvalidObject."""
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            selector=None if at(obj, "spec", "selector") is None else string_map(obj, "spec", "selector"),
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and all(labels.get(key) == value for key, value in self.selector.items())
