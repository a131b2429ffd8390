"""Arguments of plugins, with their defaults. Source: kubernetes `pkg/scheduler/apis/config/types_pluginargs.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import NodeSelector, PreferredSchedulingTerm
    from forewarn.policies.kubernetes.objects.pod import TopologySpreadConstraint

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
STRATEGIES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
MAX_CUSTOM_PRIORITY_SCORE: Final = 10
SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"


class ResourceWeight(NamedTuple):
    """A resource that is scored, and its weight relative to the other resources."""

    name: str
    weight: int = 1


class ShapePoint(NamedTuple):
    """A point of a scoring function: utilization in percent, score from 0 to 10."""

    utilization: int
    score: int


CPU_AND_MEMORY: Final = (ResourceWeight("cpu"), ResourceWeight("memory"))


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """Arguments of DefaultPreemption: the search for candidate nodes stops at this percentage of the nodes, but
    not below the minimum.
    """

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def num_candidates(self, potential_nodes: int) -> int:
        """Return the number of candidates after which the search stops. Source: upstream `calculateNumCandidates`."""
        share = potential_nodes * self.min_candidate_nodes_percentage // 100
        return min(potential_nodes, max(share, self.min_candidate_nodes_absolute))


@dataclass(frozen=True, slots=True)
class InterPodAffinityArgs:
    """Arguments of InterPodAffinity.

    `hard_pod_affinity_weight`: the weight in scores of required affinity terms of Pods that already run on nodes.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


@dataclass(frozen=True, slots=True)
class NodeAffinityArgs:
    """The node affinity that the scheduler configuration adds to every Pod: required terms (None: none) and
    preferred terms.
    """

    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """The resources whose utilization the plugin balances."""

    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """Arguments of NodeResourcesFit: extended resources that the filter ignores (by name, or by the part before the
    slash), and the scoring strategy.

    `shape`: the scoring function of the strategy RequestedToCapacityRatio.
    """

    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    strategy: str = LEAST_ALLOCATED
    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTopologySpreadArgs:
    """The default topology spread constraints of Pods without constraints: those of the system, or a list
    (without selectors).
    """

    defaulting_type: str = SYSTEM_DEFAULTING
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeBindingArgs:
    """Arguments of VolumeBinding: the timeout in seconds, and the function that scores nodes by free storage."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """The timeouts of the allocation search for one node and of binding, in seconds; None: no limit."""

    filter_timeout_seconds: float | None = 10.0
    binding_timeout_seconds: float | None = 600.0
