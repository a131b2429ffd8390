"""What a Kubernetes release, its feature gates and its scheduler's profiles change, asked of one frozen value.

A `Semantics` belongs to a cluster: it travels with `ClusterObjects`, so that whoever has a snapshot can ask. Nothing
else compares versions: code that behaves differently in another release asks a question that has a name here.
The model is pod-security-admission, whose checks are each given for the minor since which they hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from policies.minors import KNOWN_MINORS, RECORDED_MINOR
from policies.profiles import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from policies.profiles import SchedulerConfiguration

FEATURE_GATES: Final[dict[str, tuple[tuple[int, bool], ...]]] = {
    "DRAAdminAccess": ((34, True),),
    "DRAConsumableCapacity": ((34, False), (36, True)),
    "DRADeviceBindingConditions": ((34, False), (36, True)),
    "DRADeviceTaints": ((34, False), (36, True)),
    "DRADeviceTaintRules": ((35, False), (37, True)),
    "DRAExtendedResource": ((34, False), (36, True)),
    "DRAPartitionableDevices": ((34, False), (36, True)),
    "DRAPrioritizedList": ((34, True),),
    "DynamicResourceAllocation": ((34, True),),
    "GangScheduling": ((35, False),),
    "GenericWorkload": ((35, False),),
    "InPlacePodLevelResourcesVerticalScaling": ((35, False), (36, True)),
    "NodeDeclaredFeatures": ((35, False), (36, True)),
    "NominatedNodeNameForExpectation": ((34, False), (35, True)),
    "PodTopologyLabelsAdmission": ((33, False), (35, True)),
    "StorageCapacityScoring": ((33, False), (37, True)),
    "TaintTolerationComparisonOperators": ((35, False),),
    "VolumeLimitScaling": ((35, False), (37, True)),
}
"""Feature gate -> (minor, the default since then), oldest first. Source: upstream `pkg/features/kube_features.go`."""


@dataclass(frozen=True, slots=True)
class Semantics:
    """One release with its gates. `minor`: of Kubernetes 1; `gates`: those that were given, (name, whether it is on);
    `scheduler`: its profiles, None for the release's own.

    Two that are equal decide alike; a snapshot made with another one is another snapshot.
    """

    minor: int = RECORDED_MINOR
    gates: tuple[tuple[str, bool], ...] = ()
    scheduler: SchedulerConfiguration | None = None

    def with_gates(self, **gates: bool) -> Semantics:
        """The same with these gates given too."""
        return replace(self, gates=tuple(sorted({**dict(self.gates), **gates}.items())))

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on; off where the release has none of that name. Raises KeyError: not known."""
        for name, value in self.gates:
            if name == gate:
                return value
        defaults = [on for since, on in FEATURE_GATES[gate] if since <= self.minor]
        return bool(defaults) and defaults[-1]

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The `spec.schedulerName`s of pods that are scheduled here."""
        return frozenset({DEFAULT_SCHEDULER} if self.scheduler is None else self.scheduler.profiles)

    @property
    def release(self) -> str:
        """`1.36`."""
        return f"1.{self.minor}"

    @property
    def unknown(self) -> str:
        """Why nothing is predicted for this release, empty where predictions hold."""
        if self.minor in KNOWN_MINORS:
            return ""
        return f"the cluster runs Kubernetes {self.release}; predictions hold for {_KNOWN}"

    @property
    def pods_carry_topology_labels(self) -> bool:
        """Whether a pod gets the zone and region of its node as labels when it is bound."""
        return self.enabled("PodTopologyLabelsAdmission")

    @property
    def balanced_allocation_scores_the_change(self) -> bool:
        """Whether NodeResourcesBalancedAllocation scores how much more even a node gets, not how even it is."""
        return self.minor >= 36

    @property
    def pods_are_grouped(self) -> bool | None:
        """Whether pods belong to groups, as a given gate says; None: it is not given, and what is stored tells."""
        return self.minor >= 35 and dict(self.gates).get("GenericWorkload")

    @property
    def groups_are_preempted_together(self) -> bool:
        """Whether preemption for a pod without a group goes by the groups of its victims, and their priorities."""
        return self.minor >= 37

    @property
    def every_nominated_pod_is_passed_over(self) -> bool:
        """Whether cluster-autoscaler of this minor passes over pods that are nominated to a node that is gone too.

        Source: kubernetes/autoscaler, `ArrangePodsBySchedulability`; until 1.35 `FilterOutExpendableAndSplit`.
        """
        return self.minor >= 36

    @property
    def image_volumes_count_for_locality(self) -> bool:
        """Whether ImageLocality counts the images of volumes beside those of containers."""
        return self.minor >= 36

    @property
    def image_volumes_raise_the_threshold(self) -> bool:
        """Whether the most that ImageLocality can count grows with image volumes as it does with containers."""
        return self.minor >= 37

    @property
    def devices_are_scored(self) -> bool:
        """Whether DynamicResources has a score."""
        return self.minor >= 35

    @property
    def devices_of_resources_are_scored(self) -> bool:
        """Whether extended resources that a DeviceClass provides are scored as those of device plugins are."""
        return self.minor >= 35 and self.enabled("DRAExtendedResource")

    @property
    def coming_bindings_are_announced(self) -> bool:
        """Whether the API server is told of a pod's node (`nominatedNodeName`) where its binding has to wait."""
        return self.enabled("NominatedNodeNameForExpectation")

    @property
    def devices_are_allocated(self) -> bool:
        """Whether DynamicResources is among the default plugins."""
        return self.enabled("DynamicResourceAllocation")

    @property
    def device_binding_conditions_are_awaited(self) -> bool:
        """Whether DynamicResources waits for devices to be ready before a pod is bound to them."""
        return self.enabled("DRADeviceBindingConditions")

    @property
    def device_taint_rules_apply(self) -> bool:
        """Whether DeviceTaintRules that are stored add taints to devices. Before 1.37 the API serves none unless the
        gate is on."""
        return dict(self.gates).get("DRADeviceTaintRules", True)

    @property
    def device_taint_rules_are_served(self) -> bool:
        """Whether every API server has DeviceTaintRules."""
        return self.minor >= 37

    @property
    def declared_features_are_checked(self) -> bool:
        """Whether NodeDeclaredFeatures is among the default plugins."""
        return self.enabled("NodeDeclaredFeatures")

    @property
    def schedulable_features(self) -> frozenset[str]:
        """The features that NodeDeclaredFeatures finds in a pod's spec."""
        return frozenset(name for name, since in _SCHEDULABLE_FEATURES.items() if since <= self.minor)

    @property
    def node_names_are_checked_first(self) -> bool:
        """Whether the default plugins have NodeName before NodeUnschedulable, and not after it."""
        return self.minor >= 37

    @property
    def deferred_resizes_have_pre_filters(self) -> bool:
        """Whether NodeName, NodeUnschedulable and TaintToleration have a PreFilter, for pods that are on a node."""
        return self.minor >= 37

    @property
    def storage_capacity_is_scored(self) -> bool:
        """Whether VolumeBinding scores nodes by the storage that their topology has left."""
        return self.enabled("StorageCapacityScoring")

    @property
    def missing_drivers_reject(self) -> bool:
        """Whether NodeVolumeLimits rejects a node without a CSI driver that asks for it."""
        return self.enabled("VolumeLimitScaling")

    @property
    def drivers_opt_in(self) -> bool:
        """Whether only CSI drivers do that which say `preventPodSchedulingIfMissing`."""
        return self.minor >= 36

    @property
    def portworx_needs_the_annotation(self) -> bool:
        """Whether NodeVolumeLimits takes Portworx volumes for migrated only where the CSINode's annotation says so."""
        return self.minor <= 35

    @property
    def gated_nominations_count(self) -> bool:
        """Whether a nominated pod takes up room while it may not be scheduled (kubernetes #139057)."""
        return self.minor >= 37

    @property
    def first_violated_budget_ends_the_count(self) -> bool:
        """Whether a potential victim uses up none of the budgets that come after one that it violates."""
        return self.minor >= 37

    @property
    def unstarted_victims_in_order(self) -> bool:
        """Whether potential victims that have not started keep the order in which they came to the node."""
        return self.minor >= 37

    @property
    def pod_level_status_counts(self) -> bool:
        """Whether a resize of the pod's own resources counts while it is going on."""
        return self.enabled("InPlacePodLevelResourcesVerticalScaling")

    @property
    def resizes_are_compared_by_pod(self) -> bool:
        """Whether requests, allocated and actual resources are added up by pod before the largest is taken."""
        return self.minor >= 37

    @property
    def label_keys_have_words_of_their_own(self) -> bool:
        """Whether a label key that is none is told as a label key; before it was "a qualified name", in characters."""
        return self.minor >= 35

    @property
    def counting(self) -> tuple[bool, bool]:
        """Both of these: a `policies.objects.resources.Counting`."""
        return self.pod_level_status_counts, self.resizes_are_compared_by_pod


_KNOWN: Final = f"1.{KNOWN_MINORS[0]} to 1.{KNOWN_MINORS[-1]}"
_SCHEDULABLE_FEATURES: Final = {
    "RestartAllContainersOnContainerExits": 35,
    "UserNamespacesHostNetworkSupport": 36,
    "VolumeBindMountOptions": 37,
}
"""Source: component-helpers `nodedeclaredfeatures/features/registry.go`, those with an `InferForScheduling`."""

DEFAULT: Final = Semantics()
