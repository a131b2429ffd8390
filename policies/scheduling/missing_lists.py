"""What an answer assumes where the state of a cluster lacks a list that it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import listed
from policies.kinds import BY_GROUP_KIND, CLAIM, DEVICE_TAINT_RULES, DISRUPTION_BUDGET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.objects.pod import Pod
    from policies.scheduling.cluster_objects import ClusterObjects

_OF_VICTIMS: Final = (DISRUPTION_BUDGET,)
_OF_CLAIMS: Final = (CLAIM, "/PersistentVolume", "storage.k8s.io/StorageClass", "storage.k8s.io/CSINode")
"""Of the volumes of a pod. CSIDrivers, storage capacities and attachments can be absent where these are there."""


def assumptions(objects: ClusterObjects, pods: Iterable[Pod], *, victims: bool) -> tuple[str, ...]:
    """A sentence on the lists that matter and are not there; nothing where all are.

    `pods`: those that are placed; `victims`: whether pods are evicted.
    """
    if not objects.unlisted:
        return ()
    wanted = list(_OF_VICTIMS) if victims else []
    has_claims = has_devices = False
    for pod in pods:
        has_claims = has_claims or any(volume.claim_of(pod.name) for volume in pod.spec.volumes)
        has_devices = has_devices or bool(pod.device_claims)
        if has_claims and has_devices:
            break
    wanted += _OF_CLAIMS if has_claims else ()
    if has_devices and objects.semantics.device_taint_rules_are_served:
        wanted.append(DEVICE_TAINT_RULES.group_kind)
    absent = [_plural(BY_GROUP_KIND[kind].kind) for kind in wanted if kind in objects.unlisted]
    if not absent:
        return ()
    return (f"the cluster state has no list of {listed(absent, len(absent))}: the answer assumes that there are none",)


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"
