"""Which feature gates predictions model, which they do not, and why the others have no effect.

feature_gates.json has all gates with their defaults, gate_dependencies.json the gates that others require; `make
feature-gates` writes both. A gate that is neither modelled nor listed here is read by no code that forewarn predicts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final

from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS, PREDICTED_MINORS


def _table(name: str) -> dict[str, str]:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        table: dict[str, str] = json.load(file)
    return table


FEATURE_GATES: Final = _table("feature_gates.json")
"""Gate -> its default in each known minor, then in previews: on or off, `!` if it is locked; `-` without the gate."""
DEPENDENCIES: Final = _table("gate_dependencies.json")
"""Gate -> in each known minor, the gates that must be on with it, otherwise the components do not start; `-` for none.

Source: pkg/features `defaultKubernetesFeatureGateDependencies`.
"""
_MODELLED: Final = """
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
    DRAExtendedResource DRAFractionalCapacityRange DRAPartitionableDevices DRAPrioritizedList
    DRAResourceClaimDeviceStatus DynamicResourceAllocation GangScheduling GenericWorkload
    HPAConfigurableTolerance HPAScaleToZero
    InPlacePodLevelResourcesVerticalScaling MaxUnavailableStatefulSet MutablePodResourcesForSuspendedJobs
    MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
    NominatedNodeNameForExpectation PodGroupPreemptionPolicy PodLevelResourcesFixDefaulting
    PodLevelResourcesFixKubeletQOSClass PodTopologyLabelsAdmission StorageCapacityScoring
    TaintTolerationComparisonOperators VolumeLimitScaling WorkloadAwarePreemption
    """
MODELLED: Final = frozenset(_MODELLED.split())
"""Feature gates that semantics depend on; of those that are also in NOT_MODELLED, one state is predicted."""
NOT_MODELLED: Final = {
    "CompositePodGroup": False,
    "DRAAdminAccess": True,
    "DRADerivedAttributes": False,
    "DRADeviceCompatibilityGroups": False,
    "DRAListTypeAttributes": False,
    "DRANodeAllocatableResources": False,
    "DRAOptionalNodeOperations": False,
    "DRAWorkloadResourceClaims": False,
    "GangScheduling": False,
    "InPlacePodVerticalScaling": True,
    "InPlacePodVerticalScalingInitContainers": True,
    "InPlacePodVerticalScalingSchedulerPreemption": False,
    "InterPodAffinityHostnameFastPath": False,
    "JobManagedBy": True,
    "KubeletSeparateDiskGC": True,
    "MatchLabelKeysInPodTopologySpread": True,
    "PodDeletionCost": True,
    "PodLevelResources": True,
    "SchedulerAsyncAPICalls": False,
    "SchedulerAsyncPreemption": True,
    "SchedulerPopFromBackoffQ": True,
    "StatefulSetRecreateStrategy": False,
    "SupplementalGroupsPolicy": True,
    "TaintTolerationComparisonOperators": False,
    "TopologyAwareWorkloadScheduling": False,
    "VolumeAttributesClass": True,
    "WorkloadAwarePreemption": False,
    "WorkloadWithJob": False,
}
"""Feature gates that change predictions -> the only state that is predicted."""
BY_REASON: Final = {
    "it affects fields of Pods that predictions do not read, or take as the manifest has them": """
        AtomicWriteVolumeUserFields CSIVolumeHealth ClusterTrustBundleProjection ContainerRestartRules
        ContainerStopSignals EmptyDirVolumeMode EnvFiles EvictionRequestAPI GRPCContainerProbeTLS GitRepoVolumeDriver
        H2CContainerProbe HostnameOverride ImageVolume ImageVolumeWithDigest PodCertificateRequest
        PodLogsQuerySplitStreams PodObservedGenerationTracking ProcMountType ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits SELinuxChangePolicy SELinuxMount
        UserNamespacesHostNetworkSupport UserNamespacesSupport VolumeBindMountOptions
        """,
    "it affects changes that kube-apiserver accepts; predictions take objects as they are": """
        DRAPartitionableDevicesType DRAResourceClaimGranularStatusAuthorization MutablePVNodeAffinity
        PreferSameTrafficDistribution RelaxedServiceNameValidation
        StrictIPCIDRValidation
        """,
    "it affects connections to Pods, or kube-apiserver's storage": """
        AuthorizePodWebsocketUpgradeCreatePermission ExtendWebSocketsToKubelet PortForwardWebsockets
        StorageNamespaceIndex TranslateStreamCloseWebsocketRequests
        """,
    "it affects running containers, not the Pods that the kubelet admits or evicts": """
        CRIListStreaming ContainerCheckpoint DisableCPUQuotaWithExclusiveCPUs EventedPLEG ImageMaximumGCAge
        InPlacePodVerticalScalingMemoryBackedVolumes KubeletCrashLoopBackOffMax KubeletInUserNamespace KubeletPSI
        KubeletPodResourcesGet KubeletServiceAccountTokenForCredentialProviders MemoryQoS NodeLogQuery
        PodReadyToStartContainersCondition PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
        ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RotateKubeletServerCertificate SystemdWatchdog
        WindowsCPUAndMemoryAffinity
        """,
    "the kubelet's CPU, memory and topology managers are not predicted in any state": """
        CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory PodLevelResourceManagers TopologyManagerPolicyAlphaOptions
        TopologyManagerPolicyBetaOptions
        """,
    "predictions of evictions take the kubelet's measurements": "HugepageAwareEviction PodAndContainerStatsFromCRI",
    "it affects grace periods of evictions, not their order": "AllowOverwriteTerminationGracePeriodSeconds",
    "predictions of a node shutdown are for kubelets with it": """
        GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority WindowsGracefulNodeShutdown
        """,
    "HorizontalPodAutoscalers are not predicted in any state": """
        HPAGeneration HPAOptimizedSelectorStore StaleControllerConsistencyHPA
        """,
    "predictions are for controllers whose caches are up to date": """
        NodeControllerLeaseCircuitBreaker StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        """,
    "it affects a count in the status of workloads": "DeploymentReplicaSetTerminatingReplicas",
    "revisions differ only after an upgrade of kube-controller-manager": "StatefulSetSemanticRevisionComparison",
    "kube-scheduler applies matchLabelKeys in both states": "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "kube-scheduler ignores nominations of bound Pods": "ClearingNominatedNodeNameAfterBinding",
    "it selects the Pods for queueing hints, and does not change the hints": "SchedulerPreQueueingHints",
    "predictions assume that the search for devices of a node takes less than 10 s": "DRASchedulerFilterTimeout",
    "simulations run a whole cycle for each Pod, also for equal ones": "OpportunisticBatching",
}
NO_EFFECT: Final = {name: reason for reason, names in BY_REASON.items() for name in names.split()}
"""Feature gates that code reads which forewarn predicts -> why they have no effect on predictions."""
NOT_READ: Final = "no code that forewarn predicts reads it"


def state(gate: str, minor: int, table: Mapping[str, str] = FEATURE_GATES) -> str:
    """Return the default of a gate: on or off, `!` if it is locked; `-` if the release does not have it.

    A release that is not in the table counts as the nearest one that is. Raises KeyError.
    """
    states = table[gate].split()
    return states[min(max(minor - KNOWN_MINORS[0], 0), len(states) - 1)]


def default(gate: str, minor: int) -> bool:
    """Return the default of a gate; that of the release before if a gate was removed, off before its first release."""
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
