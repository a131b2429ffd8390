"""The input of a simulation: a cluster and timed arrivals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.view import PodState, WorkloadState
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.objects.fields import InvalidObject, at, group_kind, text, timestamp
from forewarn.policies.objects.node import Node
from forewarn.policies.objects.pod import Owner, Pod
from forewarn.policies.objects.pod_group import PodGroup
from forewarn.policies.simulation.api_server import EPOCH
from forewarn.policies.simulation.workload_index import PDB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects

MAX_REPLICAS: Final = 100_000
"""Maximum Pods of an arriving workload."""
_HOSTNAME: Final = "kubernetes.io/hostname"


class Arrival(NamedTuple):
    """A change by a user `at` seconds after the start.

    `op`: create, update, delete, scale, run, cordon, uncordon, drain or lost. `node`: the new node, if `object` has
    only its name.
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
