"""Which releases of Kubernetes are known, what somebody names, and what differs. The rest is `policies.semantics`."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.minors import KNOWN_MINORS, NEWEST, RECORDED_MINOR
from policies.semantics import FEATURE_GATES, Semantics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.profiles import SchedulerConfiguration

LOCKED: Final = {
    "DRAAdminAccess": 36,
    "DRADeviceTaints": 37,
    "DRAExtendedResource": 37,
    "NodeDeclaredFeatures": 37,
}
"""Gates that cannot be set otherwise any longer -> the minor since then. Source: upstream `kube_features.go`."""
NOT_MODELLED: Final = {
    "CompositePodGroup": False,
    "DRADerivedAttributes": False,
    "DRADeviceCompatibilityGroups": False,
    "DRAListTypeAttributes": False,
    "DRANodeAllocatableResources": False,
    "DRAOptionalNodeOperations": False,
    "DRAWorkloadResourceClaims": False,
    "GangScheduling": False,
    "InPlacePodVerticalScaling": True,
    "InPlacePodVerticalScalingSchedulerPreemption": False,
    "InterPodAffinityHostnameFastPath": False,
    "MatchLabelKeysInPodTopologySpread": True,
    "PodGroupPreemptionPolicy": False,
    "PodLevelResources": True,
    "TopologyAwareWorkloadScheduling": False,
    "VolumeAttributesClass": True,
    "WorkloadAwarePreemption": False,
}
"""Gates that change answers -> the one state in which they are predicted."""

_VERSION: Final = re.compile(r"v?1\.(\d{1,4})(?:\.\d{1,6})?(?:[-+][-+.\w]{0,100})?")


class UnknownRelease(ValueError):
    """A version that is none, or none whose scheduler is predicted."""


class BadGates(ValueError):
    """Feature gates that the release would not take, or that are not predicted."""


class Change(NamedTuple):
    """What a release does otherwise than the one before it: where, and what."""

    minor: int
    where: str
    what: str


CHANGES: Final = (
    Change(
        35, "DynamicResources", "has a score: alternatives of a request (firstAvailable) that come first are better"
    ),
    Change(35, "binding", "kube-scheduler sets nominatedNodeName before a delayed binding"),
    Change(35, "Pods", "get the zone and region labels of their node when they are bound"),
    Change(36, "NodeResourcesBalancedAllocation", "scores the gain in balance of a node, not the resulting balance"),
    Change(36, "ImageLocality", "counts the images of volumes"),
    Change(36, "NodeDeclaredFeatures", "rejects nodes whose kubelet does not declare a feature that the Pod needs"),
    Change(36, "NodeVolumeLimits", "treats Portworx volumes as migrated without the annotation of the CSINode"),
    Change(36, "requests", "at Pod level include the status of an in-place resize"),
    Change(36, "NodeResourcesFit", "scores extended resources by the devices of the DeviceClass that provides them"),
    Change(
        36, "DynamicResources", "provides extended resources that a DeviceClass names; adds taints, counters and shares"
    ),
    Change(37, "NodeName", "runs before NodeUnschedulable"),
    Change(37, "VolumeBinding", "scores nodes by their free storage (StorageCapacityScoring)"),
    Change(37, "NodeVolumeLimits", "rejects nodes without a CSI driver that sets preventPodSchedulingIfMissing"),
    Change(37, "ImageLocality", "counts image volumes in its threshold, like containers"),
    Change(37, "NodeDeclaredFeatures", "supports bind mount options of volumes"),
    Change(37, "requests", "of a Pod during a resize: the largest of three sums, not the sum of the largest values"),
    Change(37, "nominated Pods", "with scheduling gates use capacity on their node"),
    Change(37, "preemption", "a Pod that violates a PDB uses no disruptions of the PDBs after it"),
    Change(37, "preemption", "victims that have not started keep the order in which they were assigned to the node"),
)


class PatchChange(NamedTuple):
    """What patch releases of a minor before `fixed` do otherwise than the checked one: where, and what."""

    minor: int
    fixed: int
    where: str
    what: str


PATCH_CHANGES: Final = (
    PatchChange(34, 2, "TaintToleration", "the reason names the taint"),
    PatchChange(34, 2, "preemption", "victims that are already terminating get no second DELETE"),
    PatchChange(34, 2, "API calls", "kube-scheduler makes them asynchronously (SchedulerAsyncAPICalls is on)"),
    PatchChange(35, 1, "API calls", "kube-scheduler makes them asynchronously (SchedulerAsyncAPICalls is on)"),
    PatchChange(35, 4, "StatefulSet", "maxUnavailable counts (MaxUnavailableStatefulSet is on)"),
    PatchChange(35, 8, "queue", "a flush of unschedulable Pods does not retry gated Pods"),
    PatchChange(
        36,
        2,
        "DynamicResources",
        "scores nodes without DRAPrioritizedList too, and earlier allocations by the wrong claim",
    ),
    PatchChange(36, 4, "queue", "a flush of unschedulable Pods does not retry gated Pods"),
)
"""Of the code that predictions follow. Predictions are those of the checked release, whatever the patch release.
Source: the modules k8s.io/kubernetes of each minor's first and checked release, and their changelogs."""
UNFIXED: Final = (
    ("kubernetes#141785", "preemption", "a PodDisruptionBudget with an empty selector protects no Pod"),
    ("kubernetes#141340", "PodTopologySpread", "a constraint with an empty labelSelector counts no Pod"),
    ("kubernetes#141348", "LimitRanger", "compares quantities beyond int64 wrongly"),
)
"""Faults fixed in 1.38 and in none of the checked releases: (pull request, where, what they do)."""


class Release(NamedTuple):
    """What somebody asked for. `minor` None: what the cluster says, else the newest.

    `scheduler`: makes the configuration of the cluster's scheduler for a release (it may raise ValueError); None: the
    release's own.
    """

    minor: int | None = None
    gates: Mapping[str, bool] = MappingProxyType({})
    scheduler: Callable[[Semantics], SchedulerConfiguration] | None = None

    @property
    def without_part(self) -> list[str]:
        """The gates that play no part in predictions."""
        return [name for name in self.gates if name not in FEATURE_GATES and name not in NOT_MODELLED]

    def semantics(self, told: int | None = None) -> Semantics:
        """What holds for a cluster that says (`told`) that it runs this minor, which may be an unknown one.

        Raises BadGates where the gates are none of that release, and ValueError where the scheduler would not start.
        """
        found = self._of_release(told)
        if self.scheduler is None or found.unknown:
            return found
        return replace(found, scheduler=self.scheduler(found))

    def _of_release(self, told: int | None) -> Semantics:
        minor = self.minor or told
        if minor is not None:
            return semantics_of(minor, self.gates)
        fault = BadGates()
        for newest in reversed(KNOWN_MINORS):
            try:
                return semantics_of(newest, self.gates)
            except BadGates as error:
                fault = error if newest == NEWEST else fault
        raise fault


def minor_of(version: str) -> int:
    """`1.36`, `v1.36.3`, `1.36.3-gke.100` -> 36, known or not. Raises UnknownRelease where it is no version."""
    found = _VERSION.fullmatch(version.strip())
    if not found:
        raise UnknownRelease(f"{version[:40]!r} is no version of Kubernetes (write it as 1.{RECORDED_MINOR})")
    return int(found[1])


def known_minor(version: str) -> int:
    """The minor of a version whose scheduler is predicted. Raises UnknownRelease."""
    minor = minor_of(version)
    if minor not in KNOWN_MINORS:
        known = ", ".join(f"1.{known}" for known in KNOWN_MINORS)
        raise UnknownRelease(f"Kubernetes 1.{minor} is not known: predictions hold for {known}")
    return minor


def parse_gates(text: str) -> dict[str, bool]:
    """`A=true,B=false` as the components take it. Raises BadGates."""
    gates: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or value.lower() not in ("true", "false"):
            raise BadGates(f"{part[:80]!r}: write NAME=true or NAME=false")
        gates[name] = value.lower() == "true"
    return gates


def semantics_of(minor: int, gates: Mapping[str, bool]) -> Semantics:
    """What a release with these gates comes to. Raises BadGates."""
    given: dict[str, bool] = {}
    for name, on in gates.items():
        if name in ("AllAlpha", "AllBeta") and on:
            raise BadGates(f"{name}=true is not predicted: name the gates one by one")
        if NOT_MODELLED.get(name, on) != on:
            raise BadGates(f"{name}={str(on).lower()} is not predicted")
        if name in FEATURE_GATES:
            _check(name, on, minor)
            given[name] = on
    return Semantics(minor).with_gates(**given)


def is_known(name: str, minor: int) -> bool:
    """Whether a release has one of the gates that predictions go by."""
    return FEATURE_GATES[name][0][0] <= minor


def is_locked(name: str, minor: int) -> bool:
    """Whether a release no longer lets a gate be set."""
    return minor >= LOCKED.get(name, minor + 1)


def _check(name: str, on: bool, minor: int) -> None:
    """What the components say to a gate that they do not know, or no longer let be set."""
    first = FEATURE_GATES[name][0][0]
    if not is_known(name, minor):
        raise BadGates(f"{name} came with Kubernetes 1.{first}: 1.{minor} does not know it")
    if is_locked(name, minor) and Semantics(minor).enabled(name) != on:
        raise BadGates(
            f"cannot set feature gate {name} to {str(on).lower()}, feature is locked to {str(not on).lower()}"
        )
