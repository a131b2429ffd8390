"""PodDisruptionBudget, with the fields that preemption and the disruption controller read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarn.policies.kubernetes.objects.fields import ApiObject, at, int32, mapping, text
from forewarn.policies.kubernetes.selectors import LabelSelector, selector_or_error

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod


def evicts_unhealthy(pdb: ApiObject, healthy: int, desired: int) -> bool:
    """Report whether a Pod that is not ready can be evicted even if the PDB allows no disruption.

    `healthy`, `desired`: the numbers of Pods in the PDB's status. Source: pkg/registry/core/pod/storage/eviction.go.
    """
    return at(pdb, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A stored PodDisruptionBudget. `selector`: None if missing or invalid; the PDB then selects no Pod.

    `surplus`: number of healthy Pods beyond the desired ones; negative if healthy Pods are missing. `stale`: whether
    the status describes an older generation. `has_status`: whether the object has a status. `honours_empty`: whether,
    in the cluster's release, preemption counts PDBs with an empty selector, and Pods without labels.
    `evicts_unhealthy`: as in `evicts_unhealthy`. `spec`: as stored, for the rules of an audit.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    surplus: int = 0
    disrupted_pods: frozenset[str] = frozenset()
    stale: bool = False
    has_status: bool = True
    honours_empty: bool = False
    evicts_unhealthy: bool = False
    spec: ApiObject = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_api(cls, obj: ApiObject) -> PodDisruptionBudget:
        """Read an API object. Raises InvalidObject."""
        has_selector = at(obj, "spec", "selector") is not None
        selector, _ = selector_or_error(mapping(obj, "spec", "selector") if has_selector else None)
        allowed, healthy, desired = (
            int32(obj, "status", field) or 0 for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy")
        )
        observed, generation = at(obj, "status", "observedGeneration"), at(obj, "metadata", "generation")
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            selector=selector,
            surplus=allowed if allowed > 0 else min(healthy - desired, 0),
            disrupted_pods=frozenset(mapping(obj, "status", "disruptedPods")),
            stale=isinstance(generation, int) and (observed if isinstance(observed, int) else 0) < generation,
            has_status=bool(mapping(obj, "status")),
            evicts_unhealthy=evicts_unhealthy(obj, healthy, desired),
            spec=mapping(obj, "spec"),
        )

    def to_api(self) -> ApiObject:
        """Return the API object without status."""
        metadata = {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": self.spec}

    @property
    def disruptions_allowed(self) -> int:
        """Number of Pods that may be disrupted now. Source: `updatePdbStatus`."""
        return max(self.surplus, 0)

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Report whether preemption counts the PDB for a Pod with these labels.

        Up to 1.37, empty selectors and Pods without labels never match.
        """
        if namespace != self.namespace or self.selector is None:
            return False
        if not self.honours_empty and (self.selector.empty or not labels):
            return False
        return self.selector.matches(labels)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Report whether the disruption controller counts a Pod of the PDB's namespace. An empty selector matches all
        Pods.
        """
        return self.selector is not None and self.selector.matches(labels)

    def counts(self, pod: Pod) -> bool:
        """Report whether the disruption controller counts a Pod of the PDB's namespace while the Pod is healthy.

        A Pod that the status names as disrupted counts as unhealthy already. Source: `countHealthyPods`.
        """
        return self.selects(pod.labels) and pod.name not in self.disrupted_pods
