"""The registry of kube-scheduler's plugins. Source: kubernetes `pkg/scheduler/framework/plugins/registry.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.scheduling.plugins.default_binder import DefaultBinder
from forewarn.policies.scheduling.plugins.default_preemption import DefaultPreemption
from forewarn.policies.scheduling.plugins.dynamic_resources import DynamicResources
from forewarn.policies.scheduling.plugins.gang_scheduling import GangScheduling, PodGroupPodsCount, TopologyPlacement
from forewarn.policies.scheduling.plugins.image_locality import ImageLocality
from forewarn.policies.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from forewarn.policies.scheduling.plugins.node_affinity import NodeAffinity
from forewarn.policies.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from forewarn.policies.scheduling.plugins.node_name import NodeName
from forewarn.policies.scheduling.plugins.node_ports import NodePorts
from forewarn.policies.scheduling.plugins.node_resources_fit import NodeResourcesBalancedAllocation, NodeResourcesFit
from forewarn.policies.scheduling.plugins.node_unschedulable import NodeUnschedulable
from forewarn.policies.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from forewarn.policies.scheduling.plugins.pod_topology_spread import PodTopologySpread
from forewarn.policies.scheduling.plugins.priority_sort import PrioritySort
from forewarn.policies.scheduling.plugins.scheduling_gates import SchedulingGates
from forewarn.policies.scheduling.plugins.taint_toleration import TaintToleration
from forewarn.policies.scheduling.plugins.volume_binding import VolumeBinding
from forewarn.policies.scheduling.plugins.volume_restrictions import VolumeRestrictions
from forewarn.policies.scheduling.plugins.volume_zone import VolumeZone

if TYPE_CHECKING:
    from forewarn.policies.scheduling.framework import Plugin

_PLUGINS: Final[tuple[type[Plugin], ...]] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacement,
    PodGroupPodsCount,
)
IN_TREE: Final = {plugin.name: plugin for plugin in _PLUGINS}
"""Name -> class of each plugin of kube-scheduler."""
