"""The assumptions of a prediction: missing lists in the cluster state, the queue order, and a preview release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import listed, plural
from forewarn.policies.kinds.registry import (
    BY_GROUP_KIND,
    CLAIM,
    DEVICE_TAINT_RULES,
    DISRUPTION_BUDGET,
    LIMIT_RANGE,
    NAMESPACE,
    RESOURCE_QUOTA,
)
from forewarn.policies.scheduling.plugin import foreign_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects

_OF_VICTIMS: Final = (DISRUPTION_BUDGET,)
_OF_CREATED: Final = (RESOURCE_QUOTA, LIMIT_RANGE)
"""Kinds that admission of a new Pod depends on.

PriorityClasses need no note: Pods that name a missing class are reported.
"""
_OF_CLAIMS: Final = (
    CLAIM,
    "/PersistentVolume",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
)
"""Kinds that the volumes of a Pod depend on. Storage capacities and attachments may be missing although these exist."""


def assumptions(
    objects: ClusterObjects, pods: Iterable[Pod], *, victims: bool, created: bool = False
) -> tuple[str, ...]:
    """Return sentences about missing lists that matter, objects that are stored only in part, a third-party queueSort
    plugin, and a preview release.

    `pods`: new Pods. `victims`: whether Pods are evicted. `created`: whether controllers create Pods.
    """
    absent = _absent(objects, pods, victims=victims, created=created) if objects.unlisted else []
    notes = [f"the cluster state has no list of {listed(absent, len(absent))}: the answer assumes that there are none"]
    if objects.omitted:
        large = plural(objects.omitted, "object is", "objects are")
        notes.append(f"{large} too large to keep whole: the answer assumes that other namespaces are not affected")
    if plugin := _sorting_plugin(objects.semantics):
        notes.append(f"plugin {plugin} sorts the queue (queueSort): which Pending Pod is first is not predicted")
    if objects.semantics.preview:
        notes.append(objects.semantics.preview)
    return tuple(notes[0 if absent else 1 :])


def _sorting_plugin(semantics: Semantics) -> str:
    """Return the third-party queueSort plugin, which all profiles of a scheduler share; "" without."""
    profiles = () if semantics.scheduler is None else semantics.scheduler.profiles.values()
    return next((name for profile in profiles for name in foreign_at(profile, "queueSort")), "")


def lists_storage(objects: ClusterObjects) -> bool:
    """Report whether the cluster state has all lists of storage objects that new PersistentVolumeClaims depend on."""
    return not any(kind in objects.unlisted for kind in _OF_CLAIMS if kind != CLAIM)


def _absent(objects: ClusterObjects, pods: Iterable[Pod], *, victims: bool, created: bool) -> list[str]:
    """Return the kinds of missing lists that the answer depends on, as plurals."""
    wanted = [*(_OF_VICTIMS if victims else ()), *(_OF_CREATED if created else ())]
    has_claims = has_devices = selects_namespaces = False
    for pod in pods:
        selects_namespaces = selects_namespaces or _selects_namespaces(pod)
        has_claims = has_claims or any(volume.claim_of(pod.name) for volume in pod.spec.volumes)
        has_devices = has_devices or bool(pod.device_claims)
        if has_claims and has_devices and selects_namespaces:
            break
    wanted += _OF_CLAIMS if has_claims else ()
    wanted += (NAMESPACE,) if selects_namespaces else ()
    if has_devices and objects.semantics.device_taint_rules_are_served:
        wanted.append(DEVICE_TAINT_RULES.group_kind)
    return [_plural(BY_GROUP_KIND[kind].kind) for kind in wanted if kind in objects.unlisted]


def _selects_namespaces(pod: Pod) -> bool:
    """Report whether affinity terms of a Pod select namespaces by their labels."""
    affinity = pod.spec.pod_affinity
    terms = (*affinity.required_affinity, *affinity.required_anti_affinity)
    return any(term.namespace_selector is not None and not term.namespace_selector.empty for term in terms)


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"
