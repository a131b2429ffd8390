"""Read a recorded scenario, a line of a batch: a cluster and timed arrivals.

One kubelet that never fails runs all Pods, generated names are numbered, and the durations of steps are those of
`Latencies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.controllers.view import PodState
from forewarn.policies.kubernetes.kube_apiserver.quota import recalculated
from forewarn.policies.kubernetes.objects.fields import json_type, text
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.pod_group import PodGroup
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from forewarn.policies.kubernetes.releases.semantics import DEFAULT
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
from forewarn.policies.prediction.simulation.api_server import EPOCH
from forewarn.policies.prediction.simulation.scenario import Arrival, World, bounded, read_node, read_workload
from tests.recorded.controllers import RecordedControllers
from tests.recorded.validation import PodsAt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_KINDS: Final = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "resourceQuotas": ("v1", "ResourceQuota"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "podGroups": ("scheduling.k8s.io/v1beta1", "PodGroup"),
}


def read_scenario(case: ApiObject, semantics: Semantics = DEFAULT) -> World:
    """Read a scenario. `case`: the JSON object of a line of a batch. `semantics`: of the cluster's release.

    Its field `scalingDown`: whether ReplicaSets and StatefulSets delete Pods (default: true, as in a cluster; false for
    a recording). Raises ValueError and InvalidObject.
    """
    nodes = [read_node(obj) for obj in _objects(case, "nodes")]
    pods = list(_objects(case, "pods"))
    quotas = _quotas(case, pods)
    workloads = [read_workload(obj) for key in ("workloads", "pdbs") for obj in _objects(case, key)]
    return World(
        nodes=sorted(nodes, key=lambda node: node.name),
        workloads=workloads,
        pods=[_pod(obj) for obj in pods],
        arrivals=sorted(_arrivals(case), key=lambda arrival: arrival.at),
        horizon=_seconds(case, "horizonSeconds", 3600.0),
        quiet=_seconds(case, "quietSeconds", 400.0),
        base=_storage(case, semantics),
        controllers=None if _scales_down(case) else RecordedControllers,
        quotas_of=(lambda namespace: quotas.get(namespace, ())) if quotas else None,
    )


def is_recording(case: ApiObject) -> bool:
    """Report whether a scenario is a recorded one: it has a `category`, but no `scalingDown`.

    In recorded scenarios, ReplicaSets and StatefulSets delete no Pods.
    """
    return "category" in case and "scalingDown" not in case


def _scales_down(case: ApiObject) -> bool:
    value = case.get("scalingDown", not is_recording(case))
    if not isinstance(value, bool):
        raise ValueError(f"scalingDown must be true or false, not {json_type(value)}")
    return value


def _storage(case: ApiObject, semantics: Semantics) -> ClusterObjects:
    """Return the PodGroups, claims, volumes, StorageClasses and CSINodes of a scenario. Raises InvalidObject."""
    claims = [PersistentVolumeClaim.from_api(obj) for obj in _objects(case, "pvcs")]
    groups = [PodGroup.from_api(obj) for obj in _objects(case, "podGroups")]
    return ClusterObjects(
        pod_groups={(group.namespace, group.name): group for group in groups},
        claims={claim.key: claim for claim in claims},
        volumes={("", obj.name): obj for obj in map(PersistentVolume.from_api, _objects(case, "pvs"))},
        storage_classes={("", obj.name): obj for obj in map(StorageClass.from_api, _objects(case, "storageClasses"))},
        csi_nodes={("", obj.name): obj for obj in map(CSINode.from_api, _objects(case, "csiNodes"))},
        semantics=semantics,
    )


def _quotas(case: ApiObject, pods: Sequence[ApiObject]) -> dict[str, list[ResourceQuota]]:
    """Return namespace -> quotas, with the usage by the Pods that exist at time 0. Raises InvalidObject."""
    by_namespace: dict[str, list[ResourceQuota]] = {}
    for obj in _objects(case, "resourceQuotas"):
        quota = ResourceQuota.from_api(obj)
        mine = [pod for pod in pods if text(pod, "metadata", "namespace", default="default") == quota.namespace]
        by_namespace.setdefault(quota.namespace, []).append(recalculated(quota, mine, PodsAt.of(EPOCH)))
    return {namespace: sorted(quotas, key=lambda quota: quota.name) for namespace, quotas in by_namespace.items()}


def _objects(case: ApiObject, key: str) -> Iterator[ApiObject]:
    for obj in _list(case, key):
        if not isinstance(obj, dict):
            raise ValueError(f"{key} must hold objects, not {json_type(obj)}")
        if "kind" in obj or key not in _KINDS:
            yield obj
        else:
            version, kind = _KINDS[key]
            yield {**obj, "apiVersion": version, "kind": kind}


def _list(case: ApiObject, key: str) -> Iterable[Any]:
    value = case.get(key) or []
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list, not {json_type(value)}")
    return value


def _arrivals(case: ApiObject) -> Iterator[Arrival]:
    for arrival in _list(case, "arrivals"):
        if not isinstance(arrival, dict) or not isinstance(arrival.get("object"), dict):
            raise ValueError("each of arrivals must be an object with `at`, `op` and `object`")
        if arrival.get("op") not in ("create", "update", "delete", "drain"):
            raise ValueError("op of an arrival must be create, update, delete or drain")
        yield Arrival(_seconds(arrival, "at", 0.0), arrival["op"], bounded(arrival["object"]))


def _seconds(obj: ApiObject, key: str, default: float) -> float:
    value = obj.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e9:
        raise ValueError(f"{key} must be a number of seconds")
    return float(value)


def _pod(obj: ApiObject) -> PodState:
    """Return the state of a Pod at time 0. Raises InvalidObject."""
    pod = Pod.from_api(obj)
    ready = float(pod.start_time or 0) if pod.node_name else None
    return PodState(pod=pod, created=float(pod.start_time or 0), ready=ready, template=obj)
