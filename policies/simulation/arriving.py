"""Apply users' changes (arrivals) to the objects of the simulated API server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.controllers.applied import is_known
from forewarn.policies.controllers.templates import admitted_claim
from forewarn.policies.kinds.registry import (
    APPLIED,
    CLAIM,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    VOLUME,
)
from forewarn.policies.objects.fields import group_kind, text
from forewarn.policies.objects.resource_quota import ResourceQuota
from forewarn.policies.objects.storage import PersistentVolume, default_storage_class
from forewarn.policies.scheduling.cluster_objects import ClusterObjects
from forewarn.policies.simulation.drain import drain
from forewarn.policies.simulation.scenario import read_node, read_workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.simulation.api_server import ApiServer, PodKey
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies
    from forewarn.policies.simulation.scenario import Arrival, World


def arrive(clock: Clock, api: ApiServer, latencies: Latencies, world: World, arrival: Arrival) -> None:
    """Apply one change by a user to the objects of the API server. Raises InvalidObject."""
    kind, obj = group_kind(arrival.object), arrival.object
    if arrival.op == "drain":
        drain(clock, api, latencies, text(obj, "metadata", "name"))
    elif kind == NODE:
        _node(api, arrival)
    elif kind == POD:
        _pod(api, world.admission, arrival)
    elif kind == POD_GROUP:
        _pod_group(api, world, arrival)
    elif kind == CLAIM:
        _claim(api, world, arrival)
    elif kind == VOLUME:
        _volume(api, arrival)
    elif kind == RESOURCE_QUOTA:
        _quota(api, arrival)
    elif kind == DISRUPTION_BUDGET or kind not in (PRIORITY_CLASS, *APPLIED):  # these exist from the start
        _workload(api, arrival)


def _node(api: ApiServer, arrival: Arrival) -> None:
    name = text(arrival.object, "metadata", "name")
    node = api.nodes.get(name)
    if arrival.op in ("delete", "lost"):
        api.remove_node(name)
    elif arrival.op == "create":
        api.put_node(arrival.node or read_node(arrival.object))
    elif node is None:
        return  # what is gone is not found
    elif arrival.op == "update":
        api.put_node(read_node(arrival.object))
    elif arrival.op in ("cordon", "uncordon"):
        api.put_node(replace(node, unschedulable=arrival.op == "cordon"))
    else:
        raise ValueError(f"no such operation for a node: {arrival.op}")


def _pod(api: ApiServer, admission: Callable[[ApiObject], Pod], arrival: Arrival) -> None:
    obj = arrival.object
    if arrival.op == "delete":
        api.delete_pod(_key(obj), "deleted", message="user")
        return
    pod = admission(obj)
    if _key(obj) in api.pods:
        api.update_pod(pod, obj)
    elif arrival.op == "create":
        rejection = api.rejection(pod, obj)
        if rejection:
            api.rejected[_key(obj)] = rejection
            api.timeline.add("refused", message=f"{pod.key}: {rejection}")
        else:
            api.create_pod(pod, obj)


def _pod_group(api: ApiServer, world: World, arrival: Arrival) -> None:
    key = _key(arrival.object)
    if arrival.op == "delete":
        api.pod_groups.delete(key)
    elif arrival.op == "create" or api.pod_groups.get(key) is not None:
        api.pod_groups.put(world.group_admission(arrival.object))


def _claim(api: ApiServer, world: World, arrival: Arrival) -> None:
    """Create or delete a claim. Pods are simulated without the volumes of a claim whose volume is not known."""
    key, base = _key(arrival.object), world.base or ClusterObjects()
    if arrival.op == "delete":
        api.storage.delete_claim(key)
    elif arrival.op == "create" and api.storage.claim(key) is None:
        default = default_storage_class(base.storage_classes.values())
        claim = admitted_claim({**arrival.object, "status": None}, default)
        if is_known(claim, replace(base, volumes=api.storage.volumes())):
            api.storage.put_claim(claim)
        else:
            api.storage.unlisted |= {key}


def _volume(api: ApiServer, arrival: Arrival) -> None:
    name = text(arrival.object, "metadata", "name")
    if arrival.op == "create" and api.storage.volume(name) is None:
        volume = PersistentVolume.from_api({**arrival.object, "status": None})
        api.storage.put_volume(replace(volume, phase="Available"))


def _quota(api: ApiServer, arrival: Arrival) -> None:
    if api.quotas is not None and arrival.op in ("create", "update"):
        quota = ResourceQuota.from_api({**arrival.object, "status": None})
        api.quotas.put(quota, [state for (namespace, _), state in api.pods.items() if namespace == quota.namespace])


def _key(obj: ApiObject) -> PodKey:
    return text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")


def _workload(api: ApiServer, arrival: Arrival) -> None:
    state = read_workload(arrival.object)
    old = api.workloads.get(state.key)
    if arrival.op == "delete":
        api.remove_workload(state.key)
    elif arrival.op == "scale":
        if old is not None:
            spec = {**(old.object.get("spec") or {}), "replicas": arrival.object["replicas"]}
            api.put_workload(replace(old, object={**old.object, "spec": spec}))
    elif old is not None:
        api.put_workload(replace(old, object=arrival.object))
    elif arrival.op == "create":
        api.put_workload(replace(state, created=float(int(api.seconds))))
