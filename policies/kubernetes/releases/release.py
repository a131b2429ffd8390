"""The Kubernetes releases that forewarn supports, and the release that options select.

`policies.kubernetes.releases.semantics` has the differences between releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.releases.minors import (
    KNOWN_MINORS,
    NEWEST,
    PREDICTED_MINORS,
    PREVIEW,
    PREVIEW_MINORS,
    RECORDED_MINOR,
)
from forewarn.policies.kubernetes.releases.semantics import (
    MODELLED,
    NO_EFFECT,
    NOT_MODELLED,
    NOT_READ,
    SchedulerConfiguration,
    Semantics,
    default,
    fault,
    unmet_dependency,
)

_MANY: Final = ("AllAlpha", "AllBeta")
_VERSION: Final = re.compile(r"v?1\.(\d{1,4})(?:\.\d{1,6})?(?:[-+][-+.\w]{0,100})?")


class UnknownRelease(ValueError):
    """The text is not a Kubernetes version, or the version is not supported."""


class BadGates(ValueError):
    """The release rejects the feature gates, or forewarn does not model them."""


_FIX: Final = "kubernetes#"


class Change(NamedTuple):
    """A difference of a release from the release before: the component (`where`) and its new behaviour (`what`).

    `source`: the pull request or enhancement, for a preview. `modelled`: whether predictions include it.
    """

    minor: int
    where: str
    what: str
    source: str = ""
    modelled: bool = True


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
    Change(37, "DynamicResources", "a request for all devices includes devices without free capacity, and fails then"),
    Change(37, "DynamicResources", "follows DeviceTaintRules; distinctAttribute compares all devices of a claim"),
    Change(
        37, "requests", "at Pod level are completed after LimitRanger, and with limits; if empty, they have no effect"
    ),
    Change(37, "requests", "of a Pod during a resize: the largest of three sums, not the sum of the largest values"),
    Change(37, "StatefulSet", "a rollout replaces maxUnavailable Pods at a time (MaxUnavailableStatefulSet)"),
    Change(37, "nominated Pods", "with scheduling gates use capacity on their node"),
    Change(37, "preemption", "a Pod that violates a PDB uses no disruptions of the PDBs after it"),
    Change(37, "preemption", "victims that have not started keep the order in which they were assigned to the node"),
    Change(
        38, "preemption", "counts PodDisruptionBudgets with an empty selector, and Pods without labels", _FIX + "141785"
    ),
    Change(38, "PodTopologySpread", "a constraint with an empty labelSelector counts all Pods", _FIX + "141340"),
    Change(38, "GangScheduling", "has no Permit; this does not change predictions", _FIX + "141182"),
    Change(38, "preemption", "fixes an error with filter extenders", _FIX + "135486", modelled=False),
    Change(38, "LimitRanger", "compares quantities beyond int64 exactly", _FIX + "141348", modelled=False),
    Change(
        38,
        "StatefulSet",
        "with podManagementPolicy Parallel: deletes surplus Pods before it creates missing Pods",
        _FIX + "141057",
        modelled=False,
    ),
    Change(38, "feature gates", "may have other defaults than in 1.37", "enhancements#4671", modelled=False),
)
"""The differences between minors. Source: the checked releases; for a preview, the descriptions of pull requests."""


class PatchChange(NamedTuple):
    """A difference between patch releases before `fixed` and the patch release that forewarn was tested against."""

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
    PatchChange(36, 4, "DynamicResources", "keeps counters of pools with the same name apart by driver"),
    PatchChange(36, 4, "queue", "a flush of unschedulable Pods does not retry gated Pods"),
)
"""Differences in code that affects predictions. Predictions follow the checked release for each patch release.

Source: the modules k8s.io/kubernetes of each minor's first and checked release, and their changelogs.
"""
UNFIXED: Final = (
    ("kubernetes#141785", "preemption", "a PodDisruptionBudget with an empty selector protects no Pod"),
    ("kubernetes#141340", "PodTopologySpread", "a constraint with an empty labelSelector counts no Pod"),
    ("kubernetes#141348", "LimitRanger", "compares quantities beyond int64 wrongly"),
)
"""Upstream bugs that 1.38 fixes, but no checked release does: (pull request, component, effect)."""


class Release(NamedTuple):
    """The release options.

    `minor` None: that of the cluster, otherwise of its newest kubelet, otherwise the newest. `scheduler`: returns the
    configuration of the cluster's scheduler for a release (may raise ValueError); None: the default.
    """

    minor: int | None = None
    gates: Mapping[str, bool] = MappingProxyType({})
    scheduler: Callable[[Semantics], SchedulerConfiguration] | None = None

    @property
    def without_effect(self) -> dict[str, list[str]]:
        """Reason -> the set gates that do not affect predictions for this reason."""
        names = [name for name in self.gates if name not in MODELLED and name not in NOT_MODELLED and name not in _MANY]
        return grouped((NO_EFFECT.get(name, NOT_READ), name) for name in names)

    def semantics(self, reported_minor: int | None = None, kubelet_minor: int | None = None) -> Semantics:
        """Return the semantics of a cluster that reports this minor version (`reported_minor`; None if unknown).

        `kubelet_minor`: of its newest kubelet, which is assumed if the cluster reports no version.
        Raises BadGates for invalid gates of that release, and ValueError if kube-scheduler would not start.
        """
        of_release = self._release_semantics(reported_minor, kubelet_minor)
        if self.scheduler is None or of_release.unknown:
            return of_release
        return of_release._replace(scheduler=self.scheduler(of_release))

    def _release_semantics(self, reported_minor: int | None, kubelet_minor: int | None) -> Semantics:
        minor = self.minor or reported_minor
        if minor is not None:
            return semantics_of(minor, self.gates)
        fault = BadGates()
        expected = kubelet_minor or NEWEST
        for minor in sorted(KNOWN_MINORS, key=lambda minor: (abs(minor - expected), -minor)):
            try:
                return semantics_of(minor, self.gates)._replace(assumed=True)
            except BadGates as error:
                fault = error if minor == NEWEST else fault
        raise fault


def minor_of(version: str) -> int:
    """Return the minor of a version, known or not: `1.36`, `v1.36.3`, `1.36.3-gke.100` -> 36. Raises UnknownRelease."""
    match = _VERSION.fullmatch(version.strip())
    if not match:
        raise UnknownRelease(f'"{version[:40]}" is no version of Kubernetes. Fix: write it as 1.{RECORDED_MINOR}')
    return int(match[1])


def known_minor(version: str) -> int:
    """Return the minor of a version. Raises UnknownRelease if it is invalid or not predicted."""
    minor = minor_of(version)
    if minor not in PREDICTED_MINORS:
        raise UnknownRelease(f"Kubernetes 1.{minor} is not known; known: {named_minors()}")
    return minor


def named_minors() -> str:
    """Return the predicted minors: `1.36, 1.37, 1.38 (preview, unverified)`."""
    known, previews = (f"1.{minor}" for minor in KNOWN_MINORS), (f"1.{minor} ({PREVIEW})" for minor in PREVIEW_MINORS)
    return ", ".join((*known, *previews))


def parse_gates(text: str) -> dict[str, bool]:
    """Parse `A=true,B=false`, as in the `--feature-gates` option of the components. Raises BadGates."""
    gates: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or value.lower() not in ("true", "false"):
            raise BadGates(f'"{part[:80]}" is no feature gate with a value. Fix: write NAME=true or NAME=false')
        gates[name] = value.lower() == "true"
    return gates


def semantics_of(minor: int, gates: Mapping[str, bool]) -> Semantics:
    """Return the semantics of a release with these feature gates. Raises BadGates."""
    given: dict[str, bool] = {}
    for name, on in gates.items():
        state = f"{name}={str(on).lower()}"
        if name in _MANY:
            if on or name == "AllBeta":  # most beta gates are on
                raise BadGates(f"{state} is not predicted. Fix: name the gates one by one")
            continue
        if why := fault(name, minor, on=on):
            raise BadGates(why)
        supported = {NOT_MODELLED.get(name, on), default(name, minor)}
        if on not in supported:
            raise BadGates(f"{state} is not predicted. Fix: leave it out to get the predictions for the default")
        if name in MODELLED:
            given[name] = on
    if why := unmet_dependency(gates, minor):
        raise BadGates(why)
    return Semantics(minor).with_gates(**given)
