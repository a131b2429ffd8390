"""The objects of a recorded case that Karpenter reads, and the Pods that it may evict.

Sources: pkg/controllers/state/cluster.go, pkg/utils/pdb, pkg/utils/pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.durations import parse_duration
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    REQUIRED,
    ApiObject,
    at,
    group_kind,
    items,
    mapping,
    namespace_of,
    string_map,
    text,
    timestamp,
)
from forewarn.policies.kubernetes.objects.namespace import Namespace
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from forewarn.policies.kubernetes.selectors import InvalidSelector, LabelSelector, parse_label_selector
from forewarn.policies.prediction.autoscaling.karpenter import requirements as label
from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import (
    DISRUPTED,
    ClusterState,
    RunningNode,
    StateNode,
)
from forewarn.policies.prediction.autoscaling.karpenter.requirements import untolerated
from forewarn.policies.prediction.autoscaling.karpenter.topology import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DO_NOT_DISRUPT: Final = f"{label.GROUP}/do-not-disrupt"
NODE_CLAIM: Final = f"{label.GROUP}/NodeClaim"
NODE_POOLS: Final = f"{label.GROUP}/NodePool"
_NAMESPACE: Final = "/Namespace"
KINDS: Final = (
    "/Node", NODE_CLAIM, "/Pod", "apps/DaemonSet", NODE_POOLS, _NAMESPACE, DISRUPTION_BUDGET, "/PersistentVolumeClaim",
    "/PersistentVolume", "storage.k8s.io/StorageClass", "storage.k8s.io/CSINode",
)  # fmt: skip


class Objects:
    """The API objects of a cluster that Karpenter reads, by `group/Kind`."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[tuple[str, str], ApiObject]] = {kind: {} for kind in KINDS}

    def collect(self, obj: ApiObject, kind: str = "") -> None:
        """Add or replace an object (see `Cache`). `kind`: that of an object that does not name it."""
        objects = self._by_kind.get(kind or group_kind(obj))
        if objects is not None:
            objects[text(obj, "metadata", "namespace"), text(obj, "metadata", "name")] = obj

    def of(self, kind: str) -> list[ApiObject]:
        return list(self._by_kind[kind].values())


class Eviction:
    """Which Pods Karpenter may evict. `now`: seconds since 1970."""

    def __init__(self, pdbs: Iterable[ApiObject], now: float) -> None:
        self.now = now
        self._pdbs = grouped((namespace_of(pdb), (pdb, selector)) for pdb in pdbs if (selector := _selector(pdb)))

    def is_protected(self, obj: ApiObject) -> bool:
        """Report whether the annotation do-not-disrupt protects a Pod. Source: `IsDoNotDisruptActive`."""
        value = string_map(obj, "metadata", "annotations").get(_DO_NOT_DISRUPT, "")
        if value == "true" or not value or not _is_active(obj):
            return bool(value) and _is_active(obj)
        duration, start = parse_duration(value), timestamp(obj, "status", "startTime")
        return duration is not None and duration > 0 and (start is None or self.now - start < duration)

    def is_blocked(self, obj: ApiObject) -> bool:
        """Report whether PDBs prevent the eviction of a Pod with any number of healthy Pods. Source: `isEvictable`."""
        own = self._pdbs.get(namespace_of(obj), ())
        if not own or not _is_active(obj) or _owner(obj, "Node", "v1") or self.is_protected(obj):
            return False
        pod = Pod.from_api(obj)
        if untolerated((DISRUPTED,), pod.spec.tolerations) is None:
            return False
        matching = [pdb for pdb, selector in own if selector.matches(pod.labels)]
        return len(matching) > 1 or any(_blocks(pdb, obj) for pdb in matching)

    def moves(self, obj: ApiObject) -> bool:
        """Report whether a Pod gets a place elsewhere if its node is removed. Source: `IsCurrentlyReschedulable`."""
        return _is_reschedulable(obj) and not self.is_protected(obj) and not self.is_blocked(obj)


def _blocks(pdb: ApiObject, pod: ApiObject) -> bool:
    spec = mapping(pdb, "spec")
    if _condition(pod, "Ready").get("status") == "False" and spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    zero = spec.get("maxUnavailable")
    return (zero in (0, "0%") and zero is not False) or spec.get("minAvailable") == "100%"


def _condition(obj: ApiObject, kind: str) -> ApiObject:
    """Return the first condition of this type in the status of an object; empty without one."""
    return next((c for c in items(obj, "status", "conditions") if c.get("type") == kind), NOTHING)


def _selector(pdb: ApiObject) -> LabelSelector | None:
    try:
        return parse_label_selector(at(pdb, "spec", "selector"))
    except InvalidSelector:
        return None


def _is_active(obj: ApiObject) -> bool:
    return at(obj, "status", "phase") not in ("Failed", "Succeeded") and not _is_terminating(obj)


def _is_terminating(obj: ApiObject) -> bool:
    return at(obj, "metadata", "deletionTimestamp") is not None


def _owner(obj: ApiObject, kind: str, version: str = "apps/v1") -> bool:
    references = items(obj, "metadata", "ownerReferences")
    return any((o.get("apiVersion"), o.get("kind")) == (version, kind) for o in references)


def _is_reschedulable(obj: ApiObject) -> bool:
    """Report whether a Pod of a removed node is created again elsewhere. Source: `IsReschedulable`."""
    if _owner(obj, "DaemonSet") or _owner(obj, "Node", "v1"):
        return False
    return _is_active(obj) or (_is_terminating(obj) and _owner(obj, "StatefulSet"))


def is_unschedulable(obj: ApiObject) -> bool:
    """Report whether Karpenter considers a Pending Pod. Source: `IsProvisionable`."""
    marked = _condition(obj, "PodScheduled").get("reason") == "Unschedulable"
    bound = at(obj, "spec", "nodeName") or at(obj, "status", "nominatedNodeName")
    return marked and not bound and not _owner(obj, "DaemonSet") and not _owner(obj, "Node", "v1")


def _pods_by_node(objects: Objects) -> dict[str, list[ApiObject]]:
    """Return the Pods on each node, also those that have terminated."""
    names = ((text(obj, "spec", "nodeName"), obj) for obj in objects.of("/Pod"))
    return grouped((name, obj) for name, obj in names if name)


class Recorded(NamedTuple):
    """The state of a recorded cluster.

    `moving`: Pods on nodes that are being deleted, which need another node. `waits`: whether Karpenter waits for a
    NodeClaim, Node or volume.
    """

    state: ClusterState
    moving: Sequence[Pod]
    waits: bool


def read_state(objects: Objects, eviction: Eviction, *, locates_volumes: bool) -> Recorded:
    """Return the state of a cluster. `locates_volumes`: see `Storage`. Raises InvalidObject."""
    raw = [pod for pods in _pods_by_node(objects).values() for pod in pods]
    pods = [Pod.from_api(pod) for pod in raw]
    limits = {node.name: node.limits for node in map(CSINode.from_api, objects.of("storage.k8s.io/CSINode"))}
    nodes, waits = _state_nodes(objects.of("/Node"), objects.of(NODE_CLAIM), pods, limits)
    storage = _storage(objects)._replace(locates_volumes=locates_volumes)
    leaving = {node.node.name for node in nodes if node.deleting and node.node}
    state = ClusterState(
        nodes=nodes,
        pods=pods,
        daemons=[_daemon(daemon_set, raw) for daemon_set in objects.of("apps/DaemonSet")],
        namespaces=_namespaces(objects),
        storage=storage,
        api_nodes={node.name: node for node in map(RunningNode.from_api, objects.of("/Node"))},
    )
    moving = [_unbound(pod) for pod in raw if at(pod, "spec", "nodeName") in leaving and eviction.moves(pod)]
    return Recorded(state, moving, waits or any(_misses_volume(storage, pod) for node in nodes for pod in node.pods))


def _misses_volume(storage: Storage, pod: Pod) -> bool:
    """Report whether a claim names a volume that is gone. Karpenter then does not track the Pod's node."""
    names = (name for volume in pod.spec.volumes if (name := volume.claim_of(pod.name)) is not None)
    claims = [claim for name in names if (claim := storage.claims.get((pod.namespace, name))) is not None]
    return any(claim.volume_name and claim.volume_name not in storage.volumes for claim in claims)


def _storage(objects: Objects) -> Storage:
    return Storage(
        {claim.key: claim for claim in map(PersistentVolumeClaim.from_api, objects.of("/PersistentVolumeClaim"))},
        {volume.name: volume for volume in map(PersistentVolume.from_api, objects.of("/PersistentVolume"))},
        {one.name: one for one in map(StorageClass.from_api, objects.of("storage.k8s.io/StorageClass"))},
    )


def _namespaces(objects: Objects) -> list[Namespace]:
    namespaces = {text(obj, "metadata", "name"): obj for obj in objects.of(_NAMESPACE)}
    namespaces.setdefault("default", {"metadata": {"name": "default"}})
    return [Namespace.from_api(obj) for obj in namespaces.values()]


def _state_nodes(
    nodes: Sequence[ApiObject],
    claims: Sequence[ApiObject],
    pods: Sequence[Pod],
    limits: Mapping[str, Mapping[str, int]],
) -> tuple[list[StateNode], bool]:
    """Return the nodes that Karpenter tracks, and whether it waits until it can track all. Raises InvalidObject.

    `limits`: node name -> CSI driver -> most volumes.
    """
    tracked: dict[str, StateNode] = {}
    waits = False
    for obj in claims:
        claim, provider_id = RunningNode.from_api(obj), text(obj, "status", "providerID")
        if _condition(obj, "InstanceTerminating").get("status") == "True":
            claim = claim._replace(deleting=True)
        startup = frozenset((text(t, "key"), text(t, "effect")) for t in items(obj, "spec", "startupTaints"))
        waits = waits or not provider_id
        if provider_id:
            tracked[provider_id] = StateNode(None, claim, startup)
    bound = grouped((pod.node_name, pod) for pod in pods if not pod.terminal)
    for obj in nodes:
        node, provider_id = RunningNode.from_api(obj), text(obj, "spec", "providerID")
        managed = bool(node.labels.get(label.NODE_POOL))
        typed = node.labels.get(label.INSTANCE_TYPE) or node.labels.get(label.INITIALIZED)
        if managed and not (provider_id and typed):
            waits = True
            continue
        state = tracked.setdefault(provider_id or node.name, StateNode(None, None))
        state.node, state.pods, state.limits = node, bound.get(node.name, []), limits.get(node.name, {})
    return list(tracked.values()), waits


def _unbound(pod: ApiObject) -> Pod:
    """Return a Pod without its node."""
    return Pod.from_api({**pod, "spec": {**mapping(pod, "spec"), "nodeName": ""}})


def _daemon(daemon_set: ApiObject, pods: Iterable[ApiObject]) -> Pod:
    """Return a Pod of a DaemonSet: its newest one, otherwise one of its template. Source: `getDaemonSetPods`."""
    template, uid = mapping(daemon_set, "spec", "template"), at(daemon_set, "metadata", "uid")
    own = [
        pod
        for pod in pods
        if namespace_of(pod) == namespace_of(daemon_set)
        and any(o.get("uid") == uid and o.get("controller") for o in items(pod, "metadata", "ownerReferences"))
    ]
    newest = max(own, key=lambda pod: timestamp(pod, "metadata", "creationTimestamp") or 0, default=None)
    spec = dict(mapping(template if newest is None else newest, "spec"))
    required = at(template, "spec", "affinity", "nodeAffinity", REQUIRED)
    if required is not None:
        affinity = dict(mapping(spec, "affinity"))
        spec["affinity"] = {**affinity, "nodeAffinity": {**mapping(affinity, "nodeAffinity"), REQUIRED: required}}
    return _unbound({"metadata": mapping(newest or daemon_set, "metadata"), "spec": spec})
