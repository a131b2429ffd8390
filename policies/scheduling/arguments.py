"""Arguments of plugins, with their defaults. Source: kubernetes `pkg/scheduler/apis/config/types_pluginargs.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from policies.objects.node_selector import NodeSelector, PreferredSchedulingTerm
    from policies.objects.topology_spread import TopologySpreadConstraint

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
STRATEGIES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
MAX_CUSTOM_PRIORITY_SCORE: Final = 10
SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"


class ResourceWeight(NamedTuple):
    """A resource that is scored, and how much it counts among the others."""

    name: str
    weight: int = 1


class ShapePoint(NamedTuple):
    """A point of a scoring function: utilization in percent, score from 0 to 10."""

    utilization: int
    score: int


CPU_AND_MEMORY: Final = (ResourceWeight("cpu"), ResourceWeight("memory"))


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """How many candidates the search stops at: the larger of a share of the nodes, in percent, and a number."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def num_candidates(self, potential_nodes: int) -> int:
        """After so many candidates the search ends. Source: upstream `calculateNumCandidates`."""
        share = potential_nodes * self.min_candidate_nodes_percentage // 100
        return min(potential_nodes, max(share, self.min_candidate_nodes_absolute))


@dataclass(frozen=True, slots=True)
class InterPodAffinityArgs:
    """`hard_pod_affinity_weight`: what required affinity of pods on nodes counts in a score."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


@dataclass(frozen=True, slots=True)
class NodeAffinityArgs:
    """What the scheduler asks of nodes beside what pods ask: required (None: nothing), and preferred."""

    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """The resources whose use shall be even."""

    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """Which extended resources the filter leaves out, by name or by what stands before the slash; how nodes are scored.

    `shape`: of RequestedToCapacityRatio.
    """

    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    strategy: str = LEAST_ALLOCATED
    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTopologySpreadArgs:
    """What spreads pods that say nothing themselves: the system's constraints, or a list (without selectors)."""

    defaulting_type: str = SYSTEM_DEFAULTING
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeBindingArgs:
    """How long a pod waits for its volumes, in seconds; how nodes are scored by the storage that is left."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """How long devices of one node are searched, and waited for, in seconds; None: not limited."""

    filter_timeout_seconds: float | None = 10.0
    binding_timeout_seconds: float | None = 600.0
