"""The differences between Kubernetes releases, feature gates and scheduler profiles, as methods of one frozen value.

A `Semantics` belongs to a cluster: it is part of `ClusterObjects`, so it is available with each snapshot. No other code
compares versions: code that differs between releases calls a named method. The model is pod-security-admission, which
gives each check with its first minor version.

feature_gates.json has all gates with their defaults, gate_dependencies.json the gates that others require; `make
feature-gates` writes both. predicted_gates.json has the gates that affect the code which forewarn predicts: modelled,
not modelled in one of their states, or without effect, with the reason.

A kube-scheduler configuration as data: profiles with plugins at extension points, weights and arguments.
`scheduling.configuration` creates these values. Source: kubernetes `pkg/scheduler/apis/config/types.go`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Self, overload

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.releases import minors
from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS, PREDICTED_MINORS

DEFAULT_SCHEDULER: Final = "default-scheduler"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One scheduler profile.

    `points`: extension point, in upstream's spelling (`preFilter`) -> names of its plugins in order; points without
    plugins may be missing. `weights`: plugin with a score -> weight. `args`: plugin -> arguments with defaults.
    `plugins`: plugin -> its class. `percentage_of_nodes_to_score` None: that of the scheduler.
    """

    scheduler_name: str
    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Any] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None

    def plugins_at(self, point: str) -> tuple[str, ...]:
        """Return the plugins of an extension point, in the order in which they run."""
        return self.points.get(point, ())

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """The names of all plugins of all extension points, without duplicates."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name in names))


class Extender(NamedTuple):
    """An HTTP extender of kube-scheduler. An empty verb means that kube-scheduler does not call this endpoint.

    `managed_resources`: the extender handles only Pods that request one of these; empty: all Pods.
    `ignored_resources`: resources that kube-scheduler itself ignores. Source: upstream `Extender`.
    """

    url_prefix: str = ""
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    ignorable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignored_resources: frozenset[str] = frozenset()


DEFAULT_BACKOFF: Final = (1, 10)
"""Defaults of podInitialBackoffSeconds and podMaxBackoffSeconds."""


@dataclass(frozen=True, slots=True, eq=False)
class SchedulerConfiguration:
    """A scheduler's configuration: profiles by `schedulerName`, extenders and limits.

    `source`: the file or preset. `percentage_of_nodes_to_score` 0: depends on the number of nodes. Back-off in seconds.
    """

    profiles: Mapping[str, Profile]
    extenders: tuple[Extender, ...] = ()
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = DEFAULT_BACKOFF[0]
    pod_max_backoff_seconds: int = DEFAULT_BACKOFF[1]
    source: str = ""

    def profile(self, scheduler_name: str) -> Profile | None:
        """Return the profile for Pods with this `spec.schedulerName`; None if another scheduler schedules them."""
        return self.profiles.get(scheduler_name or DEFAULT_SCHEDULER)

    def extenders_for(self, requested: Iterable[str]) -> list[Extender]:
        """Return the extenders that manage a Pod with these requests. Source: upstream `IsInterested`."""
        return [e for e in self.extenders if not e.managed_resources or not e.managed_resources.isdisjoint(requested)]

    def percentage(self, profile: Profile) -> int:
        """Return the percentageOfNodesToScore of a profile: its own, or else the scheduler's."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own


def _table(name: str) -> Any:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return json.load(file)


FEATURE_GATES: Final[Mapping[str, str]] = _table("feature_gates.json")
"""Gate -> its default in each known minor, then in previews: on or off, `!` if it is locked; `-` without the gate."""
DEPENDENCIES: Final[Mapping[str, str]] = _table("gate_dependencies.json")
"""Gate -> in each known minor, the gates that must be on with it, otherwise the components do not start; `-` for none.

Source: pkg/features `defaultKubernetesFeatureGateDependencies`.
"""
_PREDICTED: Final = _table("predicted_gates.json")
MODELLED: Final = frozenset(_PREDICTED["modelled"])
"""Feature gates that semantics depend on; of those that are also in NOT_MODELLED, one state is predicted."""
NOT_MODELLED: Final[Mapping[str, bool]] = _PREDICTED["not modelled"]
"""Feature gates that change predictions -> the only state that is predicted."""
NO_EFFECT: Final = {name: reason for reason, names in _PREDICTED["no effect"].items() for name in names}
"""Feature gates that upstream reads in code that forewarn predicts -> why they have no effect on predictions."""
NOT_READ: Final = "no code that forewarn predicts reads it"


def state(gate: str, minor: int, table: Mapping[str, str] = FEATURE_GATES) -> str:
    """Return the default of a gate: on or off, `!` if it is locked; `-` if the release does not have it.

    A release that is not in the table counts as the nearest one that is. Raises KeyError.
    """
    states = table[gate].split()
    return states[min(max(minor - KNOWN_MINORS[0], 0), len(states) - 1)]


def default(gate: str, minor: int) -> bool:
    """Return the default of a gate; its last default if the gate was removed, off before its first release."""
    states = (state(gate, phase) for phase in reversed(PREDICTED_MINORS) if phase <= max(minor, KNOWN_MINORS[0]))
    return next((phase.startswith("on") for phase in states if phase != "-"), False)


def fault(gate: str, minor: int, *, on: bool) -> str | None:
    """Return why the components of a release do not start with a gate in this state; None if they do."""
    if gate not in FEATURE_GATES:
        return f"no Kubernetes release from 1.{KNOWN_MINORS[0]} to 1.{KNOWN_MINORS[-1]} has the feature gate {gate}"
    now = state(gate, minor)
    if now == "-":
        minors = [minors for minors in PREDICTED_MINORS if state(gate, minors) != "-"]
        if minors[0] > minor:
            return f"{gate} came with Kubernetes 1.{minors[0]}: 1.{minor} does not know it"
        return f"Kubernetes 1.{minors[-1] + 1} removed {gate}: components of 1.{minor} do not start with it"
    if now.endswith("!") and now.startswith("on") != on:
        return f"cannot set feature gate {gate} to {str(on).lower()}, feature is locked to {str(not on).lower()}"
    return None


def unmet_dependency(gates: Mapping[str, bool], minor: int) -> str | None:
    """Return why the components of a release do not start with these gates together, or None (`DEPENDENCIES`)."""
    for name in DEPENDENCIES:
        others = state(name, minor, DEPENDENCIES)
        for other in others.split(",") if others != "-" else ():
            is_on, is_met = (gates.get(gate, default(gate, minor)) for gate in (name, other))
            if is_on and not is_met:
                problem = f"{name}=true requires {other}=true, otherwise components of 1.{minor} do not start"
                return f"{problem}. Fix: set {other}=true or {name}=false"
    return None


_DEFAULTS: Final = {name: {minor: default(name, minor) for minor in minors.PREDICTED_MINORS} for name in MODELLED}


class _Property:
    """A property of `Semantics`: true from the minor `since` up to `until`, if the feature gate is on.

    `first`, `before`: the first release with the property, and the last one before it, as text.
    """

    __slots__ = ("_gate", "_since", "_until", "before", "first")

    def __init__(self, since: int = 0, until: int = 1 << 31, gate: str = "") -> None:
        self._since, self._until, self._gate = since, until, gate
        self.first, self.before = f"1.{since}", f"1.{since - 1}"

    @overload
    def __get__(self, owner: None, _: type[Semantics]) -> Self: ...
    @overload
    def __get__(self, owner: Semantics, _: type[Semantics]) -> bool: ...
    def __get__(self, owner: Semantics | None, _: type[Semantics]) -> bool | Self:
        if owner is None:
            return self
        return self._since <= owner.minor <= self._until and (not self._gate or owner.enabled(self._gate))


class _Fields(NamedTuple):
    minor: int = minors.RECORDED_MINOR
    gates: tuple[tuple[str, bool], ...] = ()
    scheduler: SchedulerConfiguration | None = None
    fault: str = ""
    assumed: bool = False


class Semantics(_Fields):
    """One release with feature gates.

    `minor`: minor of Kubernetes 1. `gates`: the gates that were set, as (name, state). `scheduler`: the scheduler's
    configuration; None: the default of the release. `fault`: why the options do not describe the release. `assumed`:
    neither the options nor the cluster name a release. Equal values mean equal decisions; a change needs a new
    snapshot.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Report whether both describe the same release; `assumed` does not count."""
        return self is other or (isinstance(other, Semantics) and self[:-1] == other[:-1])

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:-1])

    def with_gates(self, **gates: bool) -> Semantics:
        return self._replace(gates=tuple(sorted({**dict(self.gates), **gates}.items())))

    def enabled(self, gate: str) -> bool:
        """Report whether a feature gate is on. Raises KeyError for gates that are not modelled."""
        for name, value in self.gates:
            if name == gate:
                return value
        defaults = _DEFAULTS[gate]
        return defaults[self.minor] if self.minor in defaults else default(gate, self.minor)

    def is_at_least(self, minor: int) -> bool:
        """Report whether the release is 1.`minor` or a later one."""
        return self.minor >= minor

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The values of `spec.schedulerName` for which the scheduler has profiles."""
        return frozenset({DEFAULT_SCHEDULER} if self.scheduler is None else self.scheduler.profiles)

    @property
    def release(self) -> str:
        """The release as text: `1.36`."""
        return f"1.{self.minor}"

    @property
    def unknown(self) -> str:
        """Why forewarn does not predict this release; "" for a supported release."""
        if self.fault:
            return f"the cluster runs Kubernetes {self.release}: {self.fault}"
        if self.minor in minors.PREDICTED_MINORS:
            return ""
        return f"the cluster runs Kubernetes {self.release}; predictions hold for {_KNOWN}"

    @property
    def preview(self) -> str:
        """A notice for a release whose predictions are not verified; "" for other releases."""
        return f"Kubernetes {self.release}: {minors.PREVIEW}" if self.minor in minors.PREVIEW_MINORS else ""

    empty_selectors_count = _Property(since=38)
    """Whether PDBs with an empty selector, and Pods without labels, count in preemption (kubernetes #141785).

    Topology spread then also counts Pods for an empty labelSelector (kubernetes #141340).
    """
    pods_carry_topology_labels = _Property(gate="PodTopologyLabelsAdmission")
    """Whether a Pod gets the zone and region of its node as labels when it is bound."""
    balanced_allocation_scores_the_change = _Property(since=36)
    """Whether NodeResourcesBalancedAllocation scores the improvement of a node's balance instead of its balance."""

    @property
    def pods_are_grouped(self) -> bool | None:
        """Whether Pods belong to PodGroups, by the gate GenericWorkload; None: not set, so stored objects decide."""
        return self.minor >= 35 and dict(self.gates).get("GenericWorkload")

    groups_are_preempted_together = _Property(since=37)
    """Whether preemption by a Pod without a group treats victims' PodGroups as units, with their priorities."""
    pod_groups_have_preemption_policies = _Property(gate="PodGroupPreemptionPolicy")
    """Whether the preemption policy of a PodGroup replaces that of its Pods."""
    successful_preemptions_are_reported = _Property(since=37)
    """Whether the condition PodScheduled names the node and the number of victims, and no claims."""
    every_nominated_pod_is_passed_over = _Property(since=36)
    """Whether cluster-autoscaler of this minor also skips Pods that are nominated to a deleted node.

    Source: kubernetes/autoscaler, `ArrangePodsBySchedulability`; until 1.35 `FilterOutExpendableAndSplit`.
    """
    image_volumes_count_for_locality = _Property(since=36)
    """Whether ImageLocality counts the images of volumes in addition to those of containers."""
    image_volumes_raise_the_threshold = _Property(since=37)
    """Whether the maximum threshold of ImageLocality also grows with image volumes, not only with containers."""
    devices_are_scored = _Property(since=35)
    """Whether DynamicResources scores nodes."""
    devices_of_resources_are_scored = _Property(since=35, gate="DRAExtendedResource")
    """Whether extended resources of a DeviceClass are scored like those of device plugins."""
    expected_bindings_are_announced = _Property(gate="NominatedNodeNameForExpectation")
    """Whether kube-scheduler sets `nominatedNodeName` for a Pod whose binding is delayed."""
    autoscalers_scale_to_zero = _Property(gate="HPAScaleToZero")
    """Whether a HorizontalPodAutoscaler may have `minReplicas: 0`."""
    autoscalers_have_tolerances = _Property(gate="HPAConfigurableTolerance")
    """Whether kube-apiserver keeps `tolerance` of HorizontalPodAutoscalers."""
    tolerations_compare = _Property(gate="TaintTolerationComparisonOperators")
    """Whether tolerations may have the operators Lt and Gt."""
    devices_are_allocated = _Property(gate="DynamicResourceAllocation")
    """Whether DynamicResources is a default plugin."""

    @property
    def device_binding_conditions_are_awaited(self) -> bool:
        """Whether DynamicResources waits for devices to be ready before it binds a Pod."""
        return self.enabled("DRADeviceBindingConditions") and self.enabled("DRAResourceClaimDeviceStatus")

    devices_are_shared = _Property(since=36, gate="DRAConsumableCapacity")
    """Whether several claims may share a device, each with a part of its capacity. Not modelled until 1.35."""
    devices_are_partitioned = _Property(since=36, gate="DRAPartitionableDevices")
    """Whether devices consume counters of their pool. Not modelled until 1.35."""
    capacity_ranges_may_be_fractional = _Property(gate="DRAFractionalCapacityRange")
    """Whether the steps of a device capacity may be fractions, counted in thousandths."""
    counters_reach_every_node = _Property(until=36)
    """Whether a slice with counters makes its pool available on every node (Kubernetes 1.36 only)."""
    full_devices_are_passed_over = _Property(until=36)
    """Whether a request for all devices skips devices without free capacity (Kubernetes 1.36 only)."""
    shares_need_capacity = _Property(until=36)
    """Whether a share of a device without capacity consumes no counters (Kubernetes 1.36 only)."""
    distinct_values_by_request = _Property(until=36)
    """Whether distinctAttribute compares only the last device of each request (Kubernetes 1.36 only)."""
    large_amounts_of_devices_go_wrong = _Property(until=36)
    """Whether sums of counters and capacities modify their operands (8Ti and more; Kubernetes 1.36 only)."""

    @property
    def device_taint_rules_apply(self) -> bool:
        """Whether DeviceTaintRules taint devices. Before 1.37, the API serves none unless the gate is on."""
        return dict(self.gates).get("DRADeviceTaintRules", True)

    device_taint_rules_are_served = _Property(gate="DRADeviceTaintRules")
    """Whether every API server serves DeviceTaintRules: `v1` since 1.37; before, if the gate is on."""
    declared_features_are_checked = _Property(gate="NodeDeclaredFeatures")
    """Whether NodeDeclaredFeatures is a default plugin."""

    @property
    def schedulable_features(self) -> frozenset[str]:
        """The features that NodeDeclaredFeatures derives from a Pod's spec."""
        return frozenset(name for name, since in _SCHEDULABLE_FEATURES.items() if since <= self.minor)

    node_names_are_checked_first = _Property(since=37)
    """Whether NodeName runs before NodeUnschedulable in the default plugins."""
    deferred_resizes_have_pre_filters = _Property(since=37)
    """Whether NodeName, NodeUnschedulable and TaintToleration have a PreFilter, for Pods on a node."""
    storage_capacity_is_scored = _Property(gate="StorageCapacityScoring")
    """Whether VolumeBinding scores nodes by the free storage of their topology."""
    missing_drivers_reject = _Property(gate="VolumeLimitScaling")
    """Whether NodeVolumeLimits rejects a node without the CSI driver of a volume."""
    drivers_opt_in = _Property(since=36)
    """Whether `missing_drivers_reject` applies only to CSI drivers with `preventPodSchedulingIfMissing`."""
    portworx_needs_the_annotation = _Property(until=35)
    """Whether NodeVolumeLimits treats Portworx volumes as migrated only if the CSINode's annotation lists the
    plugin.
    """
    gated_nominations_count = _Property(since=37)
    """Whether a nominated Pod uses resources while it is gated (kubernetes #139057)."""
    pdb_count_ends_at_first_violation = _Property(since=37)
    """Whether a potential victim that violates a PDB reduces none of the later PDBs."""
    unstarted_victims_in_order = _Property(since=37)
    """Whether potential victims that have not started keep the order of their arrival on the node."""
    pod_resources_complete_last = _Property(gate="PodLevelResourcesFixDefaulting")
    """Whether admission plugins run before the defaults of `spec.resources` of a Pod, which then include limits."""
    empty_pod_resources_have_no_qos = _Property(gate="PodLevelResourcesFixKubeletQOSClass")
    """Whether an empty `spec.resources` leaves the QoS class of a Pod to its containers."""
    pod_level_status_counts = _Property(gate="InPlacePodLevelResourcesVerticalScaling")
    """Whether the status of an in-place resize of Pod-level resources counts."""
    resizes_are_compared_by_pod = _Property(since=37)
    """Whether requests, allocated and actual resources are summed for the Pod before the maximum is taken."""
    stateful_sets_have_max_unavailable = _Property(gate="MaxUnavailableStatefulSet")
    """Whether a rollout of a StatefulSet replaces `maxUnavailable` Pods at a time."""
    unavailable_pods_are_replaced_first = _Property(since=37)
    """Whether such a rollout of a Parallel StatefulSet begins with its unavailable Pods, whatever the limit."""
    idle_jobs_have_mutable_directives = _Property(gate="MutableSchedulingDirectivesForSuspendedJobs")
    """Whether nodeSelector, node affinity and tolerations of a suspended Job that has started may change."""
    idle_jobs_have_mutable_resources = _Property(gate="MutablePodResourcesForSuspendedJobs")
    """Whether requests and limits of a suspended Job without active Pods may change."""
    jobs_that_never_started_are_idle = _Property(since=36)
    """Whether these gates also apply to Jobs that have no condition Suspended because they never started."""
    serves_mutating_policies = _Property(since=36)
    """Whether MutatingAdmissionPolicies are served in v1; before, they are off by default."""

    @property
    def counting(self) -> tuple[bool, bool]:
        """(`pod_level_status_counts`, `resizes_are_compared_by_pod`), as a `Counting`."""
        return self.pod_level_status_counts, self.resizes_are_compared_by_pod


_KNOWN: Final = (
    f"1.{minors.KNOWN_MINORS[0]} to 1.{minors.KNOWN_MINORS[-1]}"  # a preview applies only if it is requested
)
_SCHEDULABLE_FEATURES: Final = {
    "RestartAllContainersOnContainerExits": 35,
    "UserNamespacesHostNetworkSupport": 36,
    "VolumeBindMountOptions": 37,
}
"""Feature -> first minor. Source: component-helpers `nodedeclaredfeatures/features/registry.go`, features with
`InferForScheduling`.
"""

DEFAULT: Final = Semantics()
