"""The default profile: which plugins, in which order, and what their scores weigh.

Source: kubernetes `pkg/scheduler/apis/config/v1/default_plugins.go`.
"""

from __future__ import annotations

from typing import Final

from policies.scheduling.framework import Registered
from policies.scheduling.plugins.default_preemption import DefaultPreemption
from policies.scheduling.plugins.dynamic_resources import DynamicResources
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
from policies.scheduling.plugins.taint_toleration import TaintToleration
from policies.scheduling.plugins.volume_binding import VolumeBinding
from policies.scheduling.plugins.volume_restrictions import VolumeRestrictions
from policies.scheduling.plugins.volume_zone import VolumeZone

DEFAULT_PROFILE: Final = (
    Registered(NodeUnschedulable),
    Registered(NodeName),
    Registered(TaintToleration, weight=3),
    Registered(NodeAffinity, weight=2),
    Registered(NodePorts),
    Registered(NodeResourcesFit, weight=1),
    Registered(VolumeRestrictions),
    Registered(NodeVolumeLimits),
    Registered(VolumeBinding),
    Registered(VolumeZone),
    Registered(PodTopologySpread, weight=2),
    Registered(InterPodAffinity, weight=2),
    Registered(DynamicResources, weight=2),
    Registered(DefaultPreemption),
    Registered(NodeResourcesBalancedAllocation, weight=1),
    Registered(ImageLocality, weight=1),
    Registered(NodeDeclaredFeatures),
)
