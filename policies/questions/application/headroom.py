"""Count the replicas of Pods and workloads that still fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import brief, grouped
from forewarn.policies.inputs.sources.cluster import objects_of
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, check_numbers, check_one_of
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.questions.application.cluster import Cluster, autoscaling_for, head_with_nodes, snapshot_of
from forewarn.policies.questions.application.headroom_answer import (
    Capacity,
    ExtendedResource,
    HeadroomResult,
    ObjectHeadroom,
    PoolCapacity,
    QuotaUse,
)
from forewarn.policies.questions.application.manifests import Manifest, with_manifests
from forewarn.policies.questions.application.places import Places, Rejected
from forewarn.policies.questions.whatif.capacity_buffers import CapacityBuffers
from forewarn.policies.questions.whatif.headroom import headroom as headroom_of
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.placeholders import placeholders
from forewarn.policies.questions.whatif.questions import workloads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

_LONG: Final = 200


@dataclass(frozen=True, slots=True)
class HeadroomRequest:
    """Manifests of Pods and workloads, or a workload of the cluster.

    `namespace`: namespace of objects that name none. `workload`: `KIND/NAME`, instead of manifests. `placeholders`: the
    number of Pods that must start without waiting for new nodes. `autoscaling`: settings of autoscalers (default: those
    of the cluster). `options`: those of rules, which select placeholder Pods. `at_least`: the number that must fit,
    with preemption if `preempting`.
    """

    manifests: Manifest | Sequence[Manifest] = ()
    namespace: str = "default"
    placeholders: int | None = None
    autoscaling: Autoscaling | None = None
    workload: str = ""
    options: Options = field(default_factory=Options)
    at_least: int | None = None
    preempting: bool = False


def headroom(
    cluster: Cluster | ClusterSnapshot,
    request: HeadroomRequest | Manifest | Sequence[Manifest],
    buffers: CapacityBuffers | None = None,
) -> HeadroomResult:
    """Count the replicas that fit. `request`: a HeadroomRequest, or its manifests alone.

    `buffers`: the CapacityBuffers of the cluster. Raises SourceError and InvalidObject.
    """
    if not isinstance(request, HeadroomRequest):
        request = HeadroomRequest(request)
    check_numbers(0, placeholders=request.placeholders)
    check_one_of(workload=request.workload, manifests=request.manifests)
    autoscaling = autoscaling_for(cluster, request.autoscaling)
    cluster, places, buffers = snapshot_of(cluster), Places(), buffers or CapacityBuffers()
    faults = list[Exception]()
    with places.locating():
        if request.workload:
            objects: Sequence[ApiObject] = workloads_of(cluster, [request.workload], request.namespace)
        else:
            objects, cluster = with_manifests(cluster, request.manifests, request.namespace, places, faults)
        faults = [places.located(fault) for fault in faults]
        if not objects:
            raise Rejected(faults)
        objects = _one_of_each_group(objects)
        rooms = [headroom_of(cluster, obj, autoscaling) for obj in objects]
        notes = [*places.warnings(), *([buffers.note] if buffers.note else [])]
        rooms = [room._replace(notes=[*room.notes, *notes]) for room in rooms] if notes else rooms
        results = []
        for obj, room in zip(objects, rooms, strict=True):
            own = buffers.buffers_for(obj, request.placeholders)
            buffered, reserve = own.provisioned if own else 0, None
            if wanted := request.placeholders:
                reserve = placeholders(cluster, obj, room, wanted, request.options, autoscaling.cutoff, buffered)
            results.append(ObjectHeadroom(room, reserve, own))
    head = head_with_nodes(cluster, (clause for room in rooms for clause in room.assumes))
    return HeadroomResult(head, cluster, results, faults, request.at_least, request.preempting)


def capacity(cluster: Cluster | ClusterSnapshot, options: Options | None = None) -> Capacity:
    """Return how full each pool of nodes is. `options`: those of rules, which select placeholder Pods."""
    snapshot, options = snapshot_of(cluster), options or Options()
    pools = grouped((pool_of(info.node), info) for info in snapshot.scheduling.node_infos)
    rows = [_capacity_of(name, infos, options) for name, infos in pools.items()]
    total = _capacity_of("", snapshot.scheduling.node_infos, options)
    pending = sum(is_pending(pod, snapshot.semantics.scheduler_names) for pod in snapshot.waiting_pods.values())
    ordered = sorted(rows, key=lambda pool: (-max(pool.percents), pool.pool))
    return Capacity(head_with_nodes(snapshot), ordered, total, pending, quota_uses(snapshot))


def quota_uses(cluster: ClusterSnapshot) -> list[QuotaUse]:
    """Return the usage of each ResourceQuota, that of the highest percentage first."""
    namespaces = sorted({quota.namespace for quota in cluster.resource_quotas.values()})
    uses = [
        QuotaUse(quota.namespace, quota.name, resource, quota.used[resource], limit)
        for namespace in namespaces
        for quota in cluster.quotas_of(namespace)
        for resource, limit in sorted(quota.hard.items())
        if resource in quota.used
    ]
    return sorted(uses, key=lambda use: (-use.percent, use[:3]))


def _capacity_of(name: str, infos: Sequence[NodeInfo], options: Options) -> PoolCapacity:
    sizes, usable = [info.node.allocatable for info in infos], [info for info in infos if not info.node.unschedulable]
    return PoolCapacity(
        name,
        len(infos),
        len(infos) - len(usable),
        sum(len(info.pods) for info in infos),
        sum(size.allowed_pod_number for size in sizes),
        sum(info.milli_cpu for info in infos),
        sum(size.milli_cpu for size in sizes),
        sum(info.memory for info in infos),
        sum(size.memory for size in sizes),
        max((max(info.node.allocatable.milli_cpu - info.milli_cpu, 0) for info in usable), default=0),
        max((max(info.node.allocatable.memory - info.memory, 0) for info in usable), default=0),
        sum(is_placeholder(pod, options) for info in infos for pod in info.pods),
        [
            ExtendedResource(
                resource,
                sum(info.scalars.get(resource, 0) for info in infos),
                sum(size.scalars.get(resource, 0) for size in sizes),
            )
            for resource in sorted({resource for size in sizes for resource, amount in size.scalars.items() if amount})
        ],
    )


def _one_of_each_group(objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Return the objects, with only the first of several Pods of a PodGroup."""
    groups: dict[object, ApiObject] = {}
    for number, obj in enumerate(objects):
        name = at(obj, "spec", "schedulingGroup", "podGroupName")
        groups.setdefault((at(obj, "metadata", "namespace"), name) if isinstance(name, str) else number, obj)
    return list(groups.values())


def read_buffers(sources: Sequence[str], buffers: CapacityBuffers) -> CapacityBuffers:
    """Add the CapacityBuffers of running clusters, or the note that they cannot be read."""
    try:
        for source in sources:
            for obj in objects_of(source, "capacity_buffers"):
                buffers.collect(obj)
    except SourceError as fault:
        buffers.note = f"CapacityBuffers not read: {brief(str(fault), _LONG)}"
    return buffers
