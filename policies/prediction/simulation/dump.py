"""A cluster snapshot as the initial state (World) of a simulation."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

from forewarn.policies.base.findings import grouped, listed, plural
from forewarn.policies.kubernetes.cluster.admission import admitted, admitted_group, with_default_resources
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Key, key_of, seconds_of
from forewarn.policies.kubernetes.controllers.cron_job import fault_of_schedule
from forewarn.policies.kubernetes.controllers.job import INDEX_FAILURES, stored_status
from forewarn.policies.kubernetes.controllers.own_pods import Recreator, again
from forewarn.policies.kubernetes.controllers.replica_set import POD_DELETION_COST, deletion_cost
from forewarn.policies.kubernetes.controllers.templates import replica_set_name
from forewarn.policies.kubernetes.controllers.view import Key as WorkloadKey
from forewarn.policies.kubernetes.controllers.view import PodState, WorkloadState, controller_of
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    JOB,
    POD_TEMPLATE_PATHS,
    REPLICA_SET,
)
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    int32,
    objects_at,
    text_at,
    timestamp,
)
from forewarn.policies.kubernetes.objects.pod import Pod, first_conditions
from forewarn.policies.kubernetes.objects.workload import selector_of
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
from forewarn.policies.prediction.simulation.scenario import Arrival, World, labelled_with_host, read_workload
from forewarn.policies.prediction.simulation.scheduler import unmodelled_pending


def completed(workloads: Iterable[WorkloadState], states: Sequence[PodState]) -> list[WorkloadState]:
    """Return all workloads, with a missing ReplicaSet of each Deployment, and with the stored status of Jobs."""
    every = {state.key: state for state in workloads}
    by_namespace = grouped((pod.pod.namespace, pod) for pod in states if not pod.pod.terminal)
    controlled = {state.controller for state in every.values()}
    for key in [key for key in every if key[0] == DEPLOYMENT and key not in controlled]:
        workload_state = _missing_replica_set(every[key], by_namespace.get(key[1], ()), every)
        if workload_state is not None:
            every[workload_state.key] = workload_state
    _read_job_statuses(every, states)
    return list(every.values())


def _read_job_statuses(every: dict[WorkloadKey, WorkloadState], pods: Sequence[PodState]) -> None:
    """Read the stored status of Jobs without one in `every`.

    The Pods do not suffice, because most terminated Pods no longer exist.
    """
    jobs = [state for state in every.values() if state.key[0] == JOB and state.status is None]
    terminated = (pod.pod for pod in pods if pod.pod.terminal) if jobs else ()
    ended = grouped((controller_of(pod), pod.uid) for pod in terminated)
    for state in jobs:
        with suppress(InvalidObject):  # without it, the existing Pods count
            every[state.key] = replace(state, status=stored_status(state.object, ended.get(state.key, ())))


def _missing_replica_set(
    deployment: WorkloadState, pods: Sequence[PodState], every: dict[WorkloadKey, WorkloadState]
) -> WorkloadState | None:
    """Return a ReplicaSet for a Deployment's Pods whose controller does not exist; None without such Pods."""
    try:
        selector = selector_of(deployment.object)
    except InvalidObject:
        return None
    lost = [pod for pod in pods if selector.matches(pod.pod.labels) and controller_of(pod.pod) not in every]
    if not lost or selector.empty:
        return None
    _, namespace, name = deployment.key
    named = Counter(pod.pod.owner.name for pod in lost if pod.pod.owner is not None)
    called = named.most_common(1)[0][0] if named else replica_set_name(deployment.object)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True}
    metadata = {"name": called, "namespace": namespace, "ownerReferences": [reference]}
    spec = {"replicas": len(lost), **{key: at(deployment.object, "spec", key) for key in ("selector", "template")}}
    obj = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
    return WorkloadState((REPLICA_SET, namespace, called), obj, created=deployment.created, controller=deployment.key)


MINUTE: Final = 60.0
_HOUR: Final = 3600.0
QUIET: Final = 660.0
"""Seconds without events after which a run ends: longer than the queue's flush period and a Job's back-off."""
LATEST: Final = 7_030 * 365.25 * 86_400
_NAMED: Final = 5
"""Maximum number of kinds in a sentence."""


class DumpCache(GroupCache):
    """A Cache that also stores data that only simulations need: PDBs as API objects, times of Pods, node groups."""

    def __init__(self, collect: Callable[[ApiObject], bool | None] | None = None) -> None:
        super().__init__(collect)
        self.pdbs: dict[Key, ApiObject] = {}
        self.times: dict[Key, dict[str, Any]] = {}
        """Pod -> the fields of its PodState that its view does not contain."""
        self.recreated = frozenset[str]()
        """The `group/Kind` of controllers that are not simulated, and create their Pods again by the configuration."""

    def copy(self) -> Self:
        """Return a cache with the same objects and discovery. See `Cache.copy`."""
        cache = super().copy()
        cache.pdbs, cache.times, cache.autoscalers = dict(self.pdbs), dict(self.times), dict(self.autoscalers)
        return cache

    def add(self, obj: ApiObject) -> bool:
        """Add or replace an object, and its additional data. See `Cache.add`."""
        kind = group_kind(obj)
        added = super().add(obj)
        if kind == DISRUPTION_BUDGET:
            self.pdbs[key_of(obj)] = obj
        elif kind == "/Pod":
            created = timestamp(obj, "metadata", "creationTimestamp") or timestamp(obj, "status", "startTime") or 0
            inits = objects_at(obj, "spec", "initContainers")
            sidecars = {text_at(each, "name") for each in inits if each.get("restartPolicy") == "Always"}
            conditions = first_conditions(obj)
            met = {name: each for name, each in conditions.items() if each.get("status") == "True"}
            since = _or_zero(timestamp, met.get("Ready", NOTHING), "lastTransitionTime")
            self.times[key_of(obj)] = {
                "created": float(created),
                "ready": float(since or timestamp(obj, "status", "startTime") or 0),
                "restarts": (_restarts(obj, "containerStatuses"), _restarts(obj, "initContainerStatuses", sidecars)),
                "disrupted": "DisruptionTarget" in met,
                "deletion_cost": deletion_cost(at(obj, "metadata", "annotations", POD_DELETION_COST)),
                "index_failures": max(deletion_cost(at(obj, "metadata", "annotations", INDEX_FAILURES)), 0),
            }
        return added

    def remove(self, obj: ApiObject) -> None:
        """Remove an object, and its PDB data. See `Cache.remove`."""
        super().remove(obj)
        if group_kind(obj) == DISRUPTION_BUDGET:
            self.pdbs.pop(key_of(obj), None)


def _restarts(pod: ApiObject, statuses: str, names: Container[object] | None = None) -> int:
    """Return the maximum restarts of a container. `names`: of these containers; None: of all."""
    found = (each for each in objects_at(pod, "status", statuses) if names is None or text_at(each, "name") in names)
    return max((_or_zero(int32, each, "restartCount") for each in found), default=0)


def _or_zero(read: Callable[[ApiObject, str], int | None], obj: ApiObject, field: str) -> int:
    """Return a field that only orders Pods for deletion; 0 if it is absent or invalid."""
    with suppress(InvalidObject):
        return read(obj, field) or 0
    return 0


def quiet_for(objects: Iterable[ApiObject]) -> float:
    """Return `World.quiet`: QUIET, or longer than the `minReadySeconds` of each of these workloads, up to an hour."""
    seconds = (at(obj, "spec", "minReadySeconds") for obj in objects)
    return MINUTE + min(max([QUIET - MINUTE, *(each for each in seconds if isinstance(each, int))]), _HOUR - MINUTE)


def world_of(cache: DumpCache, arrivals: Sequence[Arrival], *, until: float) -> World:
    """Return the World of a cluster snapshot. `quiet`: see `World`. Raises InvalidObject, also for other releases.

    Time 0 is that of the cluster state, but a minute after the creation of the newest Pod or later, and not after the
    year 9000.
    """
    cache.check_release()
    cluster = cache.snapshot()
    newest = max((state["created"] for state in cache.times.values()), default=0.0)
    epoch = min(max(newest + MINUTE, seconds_of(cache.origin)), LATEST)
    pods = sorted(_pods(cluster, cache), key=lambda state: (state.created, state.pod.key))
    return World(
        nodes=sorted(map(labelled_with_host, cluster.objects.nodes.values()), key=lambda node: node.name),
        workloads=completed(_workloads(cluster), pods) + [read_workload(obj) for _, obj in sorted(cache.pdbs.items())],
        pods=pods,
        arrivals=arrivals,
        horizon=until,
        quiet=quiet_for([*(each.object for each in cluster.workloads.values()), *(each.object for each in arrivals)]),
        epoch=epoch,
        base=cluster.objects,
        admission=lambda obj: admitted(obj, cluster),
        group_admission=lambda obj: admitted_group(obj, cluster),
        asks_webhooks=True,
        quotas_of=cluster.quotas_of if cluster.resource_quotas else None,
        defaulted=lambda obj: with_default_resources(obj, cluster),
        order_known=False,
        pods_take_time_to_start=True,
        recreated=cache.recreated,
    )


def _workloads(cluster: ClusterSnapshot) -> Iterator[WorkloadState]:
    for _, workload in sorted(cluster.workloads.items()):
        yield read_workload(workload.object)


def _pods(cluster: ClusterSnapshot, cache: DumpCache) -> Iterator[PodState]:
    for key, pod in cluster.pods.items():
        if pod.terminal and pod.owner is None:
            continue
        times = cache.times.get(key, {})
        is_ready = pod.node_name and pod.ready and not pod.terminal
        deleted = float(pod.start_time or 0) if pod.terminating else None
        yield PodState(pod=pod, deleted=deleted, **{**times, "ready": times.get("ready", 0.0) if is_ready else None})


def not_simulated(cache: DumpCache) -> Iterable[str]:
    """Yield sentences about objects of a cluster snapshot that forewarn does not simulate."""
    cluster = cache.snapshot()
    lost = Counter(key for pod in cluster.pods.values() if (key := _lost(pod, cluster)))
    added = {state.key for state in completed(_workloads(cluster), [*_pods(cluster, cache)])} if lost else set()
    lost = Counter({key: count for key, count in lost.items() if key not in added})
    if lost:
        pods, workloads = plural(sum(lost.values()), "Pod is", "Pods are"), plural(len(lost), "workload")
        yield f"{pods} not replaced: {workloads} missing from the cluster snapshot"
    yield from unknown_owners(cache)
    waiting = cluster.waiting_pods.values()
    elsewhere = sum(not responsible_for_pod(pod, cluster.semantics.scheduler_names) for pod in waiting)
    if elsewhere:
        yield f"{plural(elsewhere, 'Pending Pod')} ignored: of another scheduler"
    unmodelled = Counter(unmodelled_pending(waiting, cluster.objects).values())
    yield from (f"{plural(count, 'Pending Pod')} ignored: {reason}" for reason, count in sorted(unmodelled.items()))
    cron_jobs = (stored.object for (kind, *_), stored in cluster.workloads.items() if kind == CRON_JOB)
    if faults := [fault for obj in cron_jobs if (fault := fault_of_schedule(obj))]:
        yield f"{plural(len(faults), 'CronJob')} not simulated, because forewarn reads no such schedule: {min(faults)}"
    terminating = sum(pod.terminating for pod in cluster.pods.values())
    if terminating:
        yield f"{plural(terminating, 'terminating Pod')} assumed to end within the grace period"


def unknown_owners(cache: DumpCache) -> Iterator[str]:
    """Yield a sentence about Pods of controllers that forewarn does not know; nothing if there are none."""
    unknown = Counter(kind for pod in cache.snapshot().pods.values() if (kind := _unknown(pod, cache.recreated)))
    if unknown:
        pods = plural(sum(unknown.values()), "Pod is", "Pods are")
        kinds = listed(sorted(kind.removeprefix("/") for kind in unknown), _NAMED)
        yield (
            f"{pods} assumed not to be replaced: owned by {kinds}, unknown to forewarn. "
            "Fix: list the kinds that replace their Pods in the configuration (recreatesPods)"
        )


def _unknown(pod: Pod, recreated: frozenset[str]) -> str:
    """Return the unknown controller's `group/Kind`; "" for terminal Pods and for known or no controllers."""
    is_unknown = not pod.terminal and again(pod, recreated, is_there=False) is Recreator.UNKNOWN
    return pod.owner_kind if is_unknown else ""


def _lost(pod: Pod, cluster: ClusterSnapshot) -> WorkloadKey | None:
    """Return the key of the workload that a Pod names as its controller, if it does not exist; otherwise None."""
    key = controller_of(pod)
    return key if key and not pod.terminal and key[0] in POD_TEMPLATE_PATHS and key not in cluster.workloads else None


_BITS: Final = 2**256


class DigestedCache(DumpCache):
    """A DumpCache with a digest of the added objects, independent of their order."""

    def __init__(self) -> None:
        super().__init__()
        self._sum = 0

    def add(self, obj: ApiObject) -> bool:
        """Add an object, and include it in the digest. Returns as `Cache.add`."""
        encoded = json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(encoded).digest(), "big")) % _BITS
        return super().add(obj)

    @property
    def digest(self) -> str:
        return f"{self._sum:064x}"
