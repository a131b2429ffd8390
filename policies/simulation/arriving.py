"""Apply users' changes (arrivals) to the objects of the simulated API server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import GROUP_TEMPLATES, LIMIT_RANGE, NAMESPACE, POD_GROUP, PRIORITY_CLASS
from forewarn.policies.objects.fields import group_kind, text
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

_PASSED_OVER: Final = (NAMESPACE, LIMIT_RANGE, PRIORITY_CLASS, GROUP_TEMPLATES)
"""Kinds that exist from the start regardless of their arrival, or that do not affect the simulation."""


def arrive(clock: Clock, api: ApiServer, latencies: Latencies, world: World, arrival: Arrival) -> None:
    """Apply one change by a user to the objects of the API server. Raises InvalidObject."""
    kind, obj = group_kind(arrival.object), arrival.object
    if arrival.op == "drain":
        drain(clock, api, latencies, text(obj, "metadata", "name"))
    elif kind == "/Node":
        _node(api, arrival)
    elif kind == "/Pod":
        _pod(api, world.admission, arrival)
    elif kind == POD_GROUP:
        _pod_group(api, world, arrival)
    elif kind not in _PASSED_OVER:
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
    else:
        api.put_node(replace(node, unschedulable=arrival.op == "cordon"))


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
            api.timeline.add("refused", message=f"{pod.key}: {rejection}")
        else:
            api.create_pod(pod, obj)


def _pod_group(api: ApiServer, world: World, arrival: Arrival) -> None:
    key = _key(arrival.object)
    if arrival.op == "delete":
        api.pod_groups.delete(key)
    elif arrival.op == "create" or api.pod_groups.get(key) is not None:
        api.pod_groups.put(world.group_admission(arrival.object))


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
