"""The plugins that kube-scheduler is built of. Source: kubernetes `pkg/scheduler/framework/plugins/registry.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.scheduling.plugins.default_binder import DefaultBinder
from policies.scheduling.plugins.default_preemption import DefaultPreemption
from policies.scheduling.plugins.dynamic_resources import DynamicResources
from policies.scheduling.plugins.gang_scheduling import GangScheduling, PodGroupPodsCount, TopologyPlacement
from policies.scheduling.plugins.image_locality import ImageLocality
from policies.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from policies.scheduling.plugins.node_affinity import NodeAffinity
from policies.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from policies.scheduling.plugins.node_name import NodeName
from policies.scheduling.plugins.node_ports import NodePorts
from policies.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from policies.scheduling.plugins.node_resources_fit import NodeResourcesFit
from policies.scheduling.plugins.node_unschedulable import NodeUnschedulable
from policies.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from policies.scheduling.plugins.pod_topology_spread import PodTopologySpread
from policies.scheduling.plugins.priority_sort import PrioritySort
from policies.scheduling.plugins.scheduling_gates import SchedulingGates
from policies.scheduling.plugins.taint_toleration import TaintToleration
from policies.scheduling.plugins.volume_binding import VolumeBinding
from policies.scheduling.plugins.volume_restrictions import VolumeRestrictions
from policies.scheduling.plugins.volume_zone import VolumeZone

if TYPE_CHECKING:
    from policies.scheduling.framework import Plugin

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
"""Name -> class, of every plugin that can be named without anything being added to the scheduler."""
