"""Read a scenario, a line of a batch: a cluster and timed arrivals.

Rules of recorded scenarios: one kubelet that never fails runs all Pods, generated names are numbered, and the durations
of steps are those of `Latencies`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.controllers.resource_quota import recalculated
from forewarn.policies.controllers.view import PodState, WorkloadState
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.objects.fields import InvalidObject, at, group_kind, json_type, text, timestamp
from forewarn.policies.objects.node import Node
from forewarn.policies.objects.pod import Owner, Pod
from forewarn.policies.objects.pod_group import PodGroup
from forewarn.policies.objects.resource_quota import ResourceQuota
from forewarn.policies.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from forewarn.policies.releases.semantics import DEFAULT
from forewarn.policies.scheduling.cluster_objects import ClusterObjects
from forewarn.policies.simulation.api_server import EPOCH
from forewarn.policies.simulation.workload_index import PDB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics

MAX_REPLICAS: Final = 100_000
"""Maximum Pods of an arriving workload."""
_HOSTNAME: Final = "kubernetes.io/hostname"
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


class Arrival(NamedTuple):
    """A change by a user `at` seconds after the start.

    `op`: create, update, delete, scale, cordon, uncordon, drain or lost. `node`: the new node, if `object` has only its
    name.
    """

    at: float
    op: str
    object: ApiObject
    node: Node | None = None


class World(NamedTuple):
    """The state at time 0, the arrivals, and the end of a run.

    - `horizon`: maximum simulated seconds. `quiet`: the run ends after so many seconds with nothing but failed
      attempts.
    - `epoch`: time 0 in seconds since 1970. `base`: constant objects, such as StorageClasses, Services and namespaces.
    - `admission`: converts the object of a new Pod; `group_admission`: of a new PodGroup.
    - `grows_only`: ReplicaSets and StatefulSets delete no Pods, as in recorded scenarios.
    - `asks_webhooks`: the API server may call webhooks for each new Pod, as in a cluster.
    - `quotas_of`: returns the ResourceQuotas of a namespace; None: no quotas. `defaulted`: returns the object of a new
      Pod with defaults of LimitRanges, for quotas.
    - `order_known`: the Pods are in the order in which kube-scheduler received them; otherwise, randomized runs draw an
      order.
    - `pods_take_time_to_start`: a bound Pod is ready a moment later, as in a cluster.
    - `recreated`: the `group/Kind`s of controllers that are not simulated and, by the configuration, recreate their
      Pods.
    """

    nodes: Sequence[Node]
    workloads: Sequence[WorkloadState]
    pods: Sequence[PodState]
    arrivals: Sequence[Arrival]
    horizon: float = 3600.0
    quiet: float = 400.0
    epoch: float = EPOCH
    base: ClusterObjects | None = None
    admission: Callable[[ApiObject], Pod] = Pod.from_api
    group_admission: Callable[[ApiObject], PodGroup] = PodGroup.from_api
    grows_only: bool = False
    asks_webhooks: bool = False
    quotas_of: Callable[[str], Sequence[ResourceQuota]] | None = None
    defaulted: Callable[[ApiObject], ApiObject] = dict
    order_known: bool = True
    pods_take_time_to_start: bool = False
    recreated: frozenset[str] = frozenset()


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
        pods=[read_pod(obj) for obj in pods],
        arrivals=sorted(_arrivals(case), key=lambda arrival: arrival.at),
        horizon=_seconds(case, "horizonSeconds", 3600.0),
        quiet=_seconds(case, "quietSeconds", 400.0),
        base=_storage(case, semantics),
        grows_only=not _scales_down(case),
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
        volumes={("", each.name): each for each in map(PersistentVolume.from_api, _objects(case, "pvs"))},
        storage_classes={
            ("", each.name): each for each in map(StorageClass.from_api, _objects(case, "storageClasses"))
        },
        csi_nodes={("", each.name): each for each in map(CSINode.from_api, _objects(case, "csiNodes"))},
        semantics=semantics,
    )


def _quotas(case: ApiObject, pods: Sequence[ApiObject]) -> dict[str, list[ResourceQuota]]:
    """Return namespace -> quotas, with the usage by the Pods that exist at time 0. Raises InvalidObject."""
    found: dict[str, list[ResourceQuota]] = {}
    for obj in _objects(case, "resourceQuotas"):
        quota = ResourceQuota.from_api(obj)
        mine = [pod for pod in pods if text(pod, "metadata", "namespace", default="default") == quota.namespace]
        found.setdefault(quota.namespace, []).append(recalculated(quota, mine, EPOCH))
    return {namespace: sorted(quotas, key=lambda quota: quota.name) for namespace, quotas in found.items()}


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


def bounded(obj: ApiObject) -> ApiObject:
    """Return the object unchanged. Raises ValueError for a workload with more Pods than forewarn simulates."""
    spec = obj.get("spec")
    job = at(obj, "spec", "jobTemplate", "spec") if obj.get("kind") == "CronJob" else spec
    for field, where in (("replicas", spec), ("parallelism", job)):
        value = where.get(field) if isinstance(where, dict) else None
        if isinstance(value, int) and value > MAX_REPLICAS:
            name = at(obj, "metadata", "name")
            raise ValueError(f"{obj.get('kind')} {name}: {field} {value:,} is more than the {MAX_REPLICAS:,} simulated")
    return obj


def _seconds(obj: ApiObject, key: str, default: float) -> float:
    value = obj.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e9:
        raise ValueError(f"{key} must be a number of seconds")
    return float(value)


def read_node(obj: ApiObject) -> Node:
    """Return the node of an API object, with its hostname label. Raises InvalidObject."""
    return labelled_with_host(Node.from_api(obj))


def labelled_with_host(node: Node) -> Node:
    """Return the node with the hostname label, which every kubelet sets."""
    return node if _HOSTNAME in node.labels else replace(node, labels={**node.labels, _HOSTNAME: node.name})


def read_pod(obj: ApiObject) -> PodState:
    """Return the state of a Pod at time 0. Raises InvalidObject."""
    pod = Pod.from_api(obj)
    ready = float(pod.start_time or 0) if pod.node_name else None
    return PodState(pod=pod, created=float(pod.start_time or 0), ready=ready, template=obj)


def read_workload(obj: ApiObject) -> WorkloadState:
    """Return the state of a workload or PDB. Raises InvalidObject for a kind that forewarn does not simulate."""
    kind = group_kind(obj)
    if kind != PDB and kind not in POD_TEMPLATE_PATHS:
        raise InvalidObject(f"{obj.get('kind') or 'an object without a kind'} is not simulated")
    namespace, name = text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")
    owner = Owner.from_api(obj)
    controller = None
    if owner is not None:
        controller = (f"{owner.api_version.rpartition('/')[0]}/{owner.kind}", namespace, owner.name)
    created = float(timestamp(obj, "metadata", "creationTimestamp") or 0)
    return WorkloadState((kind, namespace, name), obj, created=created, controller=controller)
