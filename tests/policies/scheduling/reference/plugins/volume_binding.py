"""VolumeBinding: the claims of a pod and the volumes a node can reach (binder.go, component-helpers/storage/volume)."""

from typing import Any

from tests.policies.scheduling.reference.framework import CannotAnswer, Plugin
from tests.policies.scheduling.reference.node_info import NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import (
    SKIP,
    SUCCESS,
    Obj,
    Status,
    annotations,
    labels,
    meta,
    name,
    namespace,
    quantity,
    spec,
    status,
    uid,
    unresolvable,
    volumes,
    whole,
)
from tests.policies.scheduling.reference.plugins.migration import translated
from tests.policies.scheduling.reference.plugins.volumes import claim_name, is_for_pod, storage_class_of
from tests.policies.scheduling.reference.selectors import InvalidSelector, label_selector, term_matches

BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOT_ENOUGH = "node(s) did not have enough free storage"
NOT_EXISTING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class Claims:
    """PodVolumeClaims."""

    def __init__(self) -> None:
        self.bound: list[Obj] = []
        self.immediate: list[Obj] = []
        self.delayed: list[Obj] = []


def reaches(volume: Obj, node: Obj) -> bool:
    """CheckNodeAffinity: by labels alone, the node's name is not known here."""
    required = (spec(volume).get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    nameless = {"metadata": {"labels": labels(node)}}
    for term in required.get("nodeSelectorTerms") or []:
        try:
            if term_matches(term, nameless):
                return True
        except InvalidSelector:
            continue
    return False


def is_bound_to(volume: Obj, claim: Obj) -> bool:
    """IsVolumeBoundToClaim."""
    ref = spec(volume).get("claimRef")
    if ref is None or ref.get("name") != name(claim) or ref.get("namespace") != namespace(claim):
        return False
    return not ref.get("uid") or ref["uid"] == uid(claim)


class VolumeBinding(Plugin):
    name = "VolumeBinding"

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        claims = Claims()
        found: list[Obj] = []
        for volume in volumes(pod.pod):
            wanted, ephemeral = claim_name(volume), False
            if wanted is None and volume.get("ephemeral") is not None:
                wanted, ephemeral = f"{name(pod.pod)}-{volume.get('name', '')}", True
            if wanted is None:
                continue
            claim = self.cluster.claims.get(f"{namespace(pod.pod)}/{wanted}")
            failed = _why_unusable(pod.pod, claim, wanted, ephemeral=ephemeral)
            if failed is not None or claim is None:
                return unresolvable(failed or ""), None
            found.append(claim)
        if not found:
            return SKIP, None
        for claim in found:
            self._sort_claim(claim, claims)
        if claims.immediate:
            return unresolvable("pod has unbound immediate PersistentVolumeClaims"), None
        return SUCCESS, claims

    def _sort_claim(self, claim: Obj, claims: Claims) -> None:
        """GetPodVolumeClaims for one claim."""
        prebound = spec(claim).get("volumeName") or ""
        if prebound and "pv.kubernetes.io/bind-completed" in annotations(claim):
            claims.bound.append(claim)
        elif self._delayed(claim) and not prebound:
            claims.delayed.append(claim)
        else:
            claims.immediate.append(claim)

    def _delayed(self, claim: Obj) -> bool:
        """IsDelayBindingMode."""
        found = self.cluster.storage_classes.get(storage_class_of(claim))
        if not storage_class_of(claim) or found is None:
            return False
        if found.get("volumeBindingMode") is None:
            raise CannotAnswer(f"VolumeBindingMode not set for StorageClass {name(found)}")
        return bool(found["volumeBindingMode"] == "WaitForFirstConsumer")

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        """FindPodVolumes."""
        reasons = []
        for claim in state.bound:
            volume = self.cluster.volumes.get(spec(claim)["volumeName"])
            if volume is None:
                reasons.append(NOT_EXISTING)
                break
            if not reaches(translated(volume, self.cluster.csi_nodes.get(node.name)), node.node):
                reasons.append(NODE_CONFLICT)
                break
        reasons += self._why_not_bound(state.delayed, node)
        reasons.sort(key=[NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH, NOT_EXISTING].index)
        return unresolvable(*reasons) if reasons else SUCCESS

    def _why_not_bound(self, claims: list[Obj], node: NodeInfo) -> list[str]:
        to_provision, to_match = [], []
        for claim in claims:
            selected = annotations(claim).get("volume.kubernetes.io/selected-node")
            if selected is None:
                to_match.append(claim)
            elif selected == node.name:
                to_provision.append(claim)
            else:
                return [BIND_CONFLICT]
        chosen: set[str] = set()
        for claim in sorted(to_match, key=_size):
            volume = self._matching_volume(claim, node, chosen)
            if volume is None:
                to_provision.append(claim)
            else:
                chosen.add(name(volume))
        for claim in to_provision:
            reason = self._why_not_provisioned(claim, node)
            if reason is not None:
                return [reason]
        return []

    def _matching_volume(self, claim: Obj, node: NodeInfo, chosen: set[str]) -> Obj | None:
        """FindMatchingVolume: one bound to the claim beforehand, else the smallest that will do."""
        smallest: Obj | None = None
        given = spec(claim).get("selector")
        for volume in self.cluster.volumes.values():
            if _class_of_volume(volume) != storage_class_of(claim) or name(volume) in chosen:
                continue
            if spec(volume).get("claimRef") is not None and not is_bound_to(volume, claim):
                continue
            modes = [spec(x).get("volumeMode") or "Filesystem" for x in (claim, volume)]
            attributes = [spec(x).get("volumeAttributesClassName") or "" for x in (claim, volume)]
            if _capacity(volume) < _size(claim) or modes[0] != modes[1] or attributes[0] != attributes[1]:
                continue
            if meta(volume).get("deletionTimestamp") is not None:
                continue
            if is_bound_to(volume, claim):
                return volume if reaches(volume, node.node) else None
            if status(volume).get("phase") != "Available" or not reaches(volume, node.node):
                continue
            if given is not None and not label_selector(given).matches(labels(volume)):
                continue
            if not set(spec(claim).get("accessModes") or []) <= set(spec(volume).get("accessModes") or []):
                continue
            if smallest is None or _capacity(volume) < _capacity(smallest):
                smallest = volume
        return smallest

    def _why_not_provisioned(self, claim: Obj, node: NodeInfo) -> str | None:
        """checkVolumeProvisions for one claim."""
        found = self.cluster.storage_classes.get(storage_class_of(claim))
        if found is None:
            raise CannotAnswer(f"failed to find storage class {storage_class_of(claim)}")
        provisioner = found.get("provisioner", "")
        if not provisioner or provisioner == "kubernetes.io/no-provisioner":
            return BIND_CONFLICT
        terms = found.get("allowedTopologies") or []
        if terms and not any(_topology_matches(term, node.node) for term in terms):
            return BIND_CONFLICT
        return None if self._has_capacity(provisioner, claim, found, node) else NOT_ENOUGH

    def _has_capacity(self, provisioner: str, claim: Obj, storage_class: Obj, node: NodeInfo) -> bool:
        """hasEnoughCapacity: only drivers that publish their capacity are asked."""
        driver = self.cluster.csi_drivers.get(provisioner)
        asked = (spec(claim).get("resources") or {}).get("requests") or {}
        if "storage" not in asked or driver is None or not spec(driver).get("storageCapacity"):
            return True
        for capacity in self.cluster.storage_capacities:
            limit = capacity.get("maximumVolumeSize", capacity.get("capacity"))
            topology = capacity.get("nodeTopology")
            if capacity.get("storageClassName") != name(storage_class) or limit is None or topology is None:
                continue
            if whole(quantity(limit)) >= whole(_size(claim)) and label_selector(topology).matches(labels(node.node)):
                return True
        return False


def _why_unusable(pod: Obj, claim: Obj | None, wanted: str, *, ephemeral: bool) -> str | None:
    """podHasPVCs for one claim: why it cannot be used."""
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{wanted}"'
        return f'persistentvolumeclaim "{wanted}" not found'
    if status(claim).get("phase") == "Lost":
        volume = spec(claim).get("volumeName") or ""
        return f'persistentvolumeclaim "{wanted}" bound to non-existent persistentvolume "{volume}"'
    if meta(claim).get("deletionTimestamp") is not None:
        return f'persistentvolumeclaim "{wanted}" is being deleted'
    if ephemeral and not is_for_pod(pod, claim):
        place = f"{namespace(claim)}/{name(claim)}"
        return f"PVC {place} was not created for pod {namespace(pod)}/{name(pod)} (pod is not owner)"
    return None


def _topology_matches(term: Obj, node: Obj) -> bool:
    """MatchTopologySelectorTerms for one term: an empty one selects nothing."""
    wanted = term.get("matchLabelExpressions") or []
    return bool(wanted) and all(labels(node).get(e["key"]) in e["values"] for e in wanted)


def _class_of_volume(volume: Obj) -> str:
    beta = annotations(volume).get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else str(spec(volume).get("storageClassName") or "")


def _size(claim: Obj) -> Any:
    return quantity(((spec(claim).get("resources") or {}).get("requests") or {}).get("storage", 0))


def _capacity(volume: Obj) -> Any:
    return quantity((spec(volume).get("capacity") or {}).get("storage", 0))
