"""The assumptions of an answer: missing lists and nodes in the cluster state, the queue order, a preview release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import plural
from forewarn.policies.kinds.registry import (
    BY_GROUP_KIND,
    CLAIM,
    DEVICE_TAINT_RULES,
    DISRUPTION_BUDGET,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
)
from forewarn.policies.scheduling.plugin import foreign_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects

_ALWAYS: Final = (NODE, POD, PRIORITY_CLASS)
_OF_VICTIMS: Final = (DISRUPTION_BUDGET,)
_OF_CREATED: Final = (RESOURCE_QUOTA, LIMIT_RANGE)
"""Kinds that admission of a new Pod depends on."""
_OF_CLAIMS: Final = (
    CLAIM,
    "/PersistentVolume",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
)
"""Kinds that the volumes of a Pod depend on. Storage capacities and attachments may be missing although these exist."""


def assumptions(
    objects: ClusterObjects, pods: Iterable[Pod] = (), *, victims: bool = False, created: bool = False
) -> tuple[str, ...]:
    """Return what the answer assumes, as clauses without names of a tenant: `no LimitRanges`. The reasons are
    missing lists that matter, missing nodes, objects stored only in part, a third-party queueSort plugin, and a preview
    release.

    `pods`: new Pods. `victims`: whether Pods are evicted. `created`: whether controllers create Pods.
    """
    absent = _absent(objects, pods, victims=victims, created=created) if objects.unlisted else []
    assumed = [f"no {kinds}" for kinds in absent]
    if unknown := objects.pods_on_unknown_nodes:
        nodes = "their node is" if len(unknown) == 1 else f"their {len(unknown)} nodes are"
        pods_run = plural(sum(unknown.values()), "Pod does", "Pods do")
        assumed.append(f"{pods_run} not run: {nodes} missing")
    if objects.omitted:
        large = plural(objects.omitted, "object is", "objects are")
        assumed.append(f"other namespaces are not affected: {large} too large to keep whole")
    if plugin := _sorting_plugin(objects.semantics):
        assumed.append(f"priority orders the queue, although plugin {plugin} sorts it (queueSort)")
    if objects.semantics.preview:
        assumed.append(objects.semantics.preview)
    return tuple(assumed)


def _sorting_plugin(semantics: Semantics) -> str:
    """Return the third-party queueSort plugin, which all profiles of a scheduler share; "" without."""
    profiles = () if semantics.scheduler is None else semantics.scheduler.profiles.values()
    return next((name for profile in profiles for name in foreign_at(profile, "queueSort")), "")


def lists_storage(objects: ClusterObjects) -> bool:
    """Report whether the cluster state has all lists of storage objects that new PersistentVolumeClaims depend on."""
    return not any(kind in objects.unlisted for kind in _OF_CLAIMS if kind != CLAIM)


def _absent(objects: ClusterObjects, pods: Iterable[Pod], *, victims: bool, created: bool) -> list[str]:
    """Return the kinds of missing lists that the answer depends on, as plurals."""
    wanted = [*_ALWAYS, *(_OF_VICTIMS if victims else ()), *(_OF_CREATED if created else ())]
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
    return [kinds_of(kind) for kind in wanted if kind in objects.unlisted]


def kinds_of(kind: str) -> str:
    """Return the plural of a `group/Kind`: `LimitRanges`."""
    name = BY_GROUP_KIND[kind].kind
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _selects_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.pod_affinity
    terms = (*affinity.required_affinity, *affinity.required_anti_affinity)
    return any(term.namespace_selector is not None and not term.namespace_selector.empty for term in terms)
