"""The input of a simulation (World): a cluster snapshot as the initial state, and timed arrivals."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

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
from forewarn.policies.kubernetes.durations import seconds
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    JOB,
    JOB_TEMPLATE,
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
    json_type,
    objects_at,
    text,
    text_at,
    timestamp,
)
from forewarn.policies.kubernetes.objects.node import HOSTNAME, Node
from forewarn.policies.kubernetes.objects.pod import Owner, Pod, first_conditions
from forewarn.policies.kubernetes.objects.pod_group import PodGroup
from forewarn.policies.kubernetes.objects.workload import selector_of
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
from forewarn.policies.prediction.simulation.api_server import EPOCH, ApiServer, ControllerView
from forewarn.policies.prediction.simulation.scheduler import unmodelled_pending

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
    from forewarn.policies.prediction.simulation.clock import Clock, Latencies
    from forewarn.policies.prediction.simulation.controller_manager import ControllerManager

    Effect = Callable[["Simulated", ApiObject], None]

MAX_REPLICAS: Final = 100_000
"""Maximum number of Pods of an arriving workload."""


class Arrival(NamedTuple):
    """A change by a user `at` seconds after the start.

    `op`: create, update, delete, scale, run, cordon, uncordon, drain or lost. `node`: the new node, if `object` has
    only its name. `sooner`: randomized runs draw a time of up to this many seconds before `at`. `autoscaler`: the
    HorizontalPodAutoscaler that scales the workload to its maxReplicas.
    """

    at: float
    op: str
    object: ApiObject
    node: Node | None = None
    sooner: float = 0.0
    autoscaler: ApiObject | None = None


class World(NamedTuple):
    """The state at time 0, the arrivals, and the end of a run.

    - `horizon`: maximum simulated seconds. `quiet`: the run ends after this many seconds with nothing but failed
      attempts.
    - `epoch`: time 0 in seconds since 1970. `base`: constant objects, such as StorageClasses, Services and namespaces.
    - `admission`: converts the object of a new Pod; `group_admission`: converts that of a new PodGroup.
    - `controllers`: creates the kube-controller-manager of recorded scenarios; None: the one of a cluster.
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
    controllers: Callable[[Clock, ApiServer, ControllerView, Latencies], ControllerManager] | None = None
    asks_webhooks: bool = False
    quotas_of: Callable[[str], Sequence[ResourceQuota]] | None = None
    defaulted: Callable[[ApiObject], ApiObject] = dict
    order_known: bool = True
    pods_take_time_to_start: bool = False
    recreated: frozenset[str] = frozenset()

    @property
    def semantics(self) -> Semantics:
        """The semantics of the release and scheduler configuration of the simulated cluster."""
        return DEFAULT if self.base is None else self.base.semantics


def bounded(obj: ApiObject) -> ApiObject:
    """Return the object unchanged. Raises ValueError for a workload with more Pods than forewarn simulates."""
    spec = obj.get("spec")
    job = at(obj, *JOB_TEMPLATE, "spec") if obj.get("kind") == "CronJob" else spec
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
    return node if HOSTNAME in node.labels else replace(node, labels={**node.labels, HOSTNAME: node.name})


def read_workload(obj: ApiObject) -> WorkloadState:
    """Return the state of a workload or PDB. Raises InvalidObject for a kind that forewarn does not simulate."""
    kind = group_kind(obj)
    if kind != DISRUPTION_BUDGET and kind not in POD_TEMPLATE_PATHS:
        raise InvalidObject(f"{obj.get('kind') or 'an object without a kind'} is not simulated")
    namespace, name = text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")
    owner = Owner.from_api(obj)
    controller = None if owner is None else (owner.group_kind, namespace, owner.name)
    created = float(timestamp(obj, "metadata", "creationTimestamp") or 0)
    return WorkloadState((kind, namespace, name), obj, created=created, controller=controller)


_SCALED: Final = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
}
MAX_EVENTS: Final = 10_000
MAX_BYTES: Final = 4 * 1024 * 1024


class EntryFault(ValueError):
    """The error for an invalid entry of a list. `number`: position of the entry, from 1."""

    def __init__(self, number: int, problem: str) -> None:
        self.number = number
        super().__init__(problem)


def read_events(values: Iterable[Any]) -> Iterator[Arrival]:
    """Yield an Arrival for each event of a file. `values`: the documents of the file, each an event or a list of
    events.

    Raises ValueError and EntryFault.
    """
    events = [event for value in values for event in (value if isinstance(value, list) else [value])]
    if len(events) > MAX_EVENTS:
        raise ValueError(f"{len(events):,} events; the limit is {MAX_EVENTS:,}")
    for number, event in enumerate(events, 1):
        try:
            yield _event(event)
        except ValueError as error:
            raise EntryFault(number, f"event {number}: {error}") from None


def _event(event: Any) -> Arrival:
    if not isinstance(event, dict):
        raise ValueError(f"must be an object, not {json_type(event)}")
    given = [name for name in OPERATIONS if name in event]
    extra = sorted(map(str, set(event) - {"at", *OPERATIONS}))
    if len(given) != 1 or extra:
        unknown = f'unknown key "{extra[0][:40]}"' if extra else "no operation" if not given else "several operations"
        raise ValueError(f"{unknown} in an event; known: at, and one of {', '.join(OPERATIONS)}")
    at, operation = seconds(event.get("at", 0)), given[0]
    return Arrival(at, operation, OPERATIONS[operation].read(operation, event[operation]))


def _named_node(operation: str, name: Any) -> ApiObject:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{operation} must be the name of a node")
    return node_object(name)


def node_object(name: str) -> ApiObject:
    """Return the API object that names a node in an arrival."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _mapping(operation: str, value: object) -> ApiObject:
    if not isinstance(value, dict):
        raise ValueError(f"{operation} must be an object, not {json_type(value)}")
    return value


def _identified(operation: str, event: object) -> ApiObject:
    """Return the object of an event. Raises ValueError if it lacks a field that identifies it."""
    value = _mapping(operation, event)
    given = {
        "apiVersion": value.get("apiVersion"),
        "kind": value.get("kind"),
        "metadata.name": at(value, "metadata", "name")
        or (operation == "create" and at(value, "metadata", "generateName")),
    }
    for field, found in given.items():
        if not isinstance(found, str) or not found:
            raise ValueError(f"{operation} needs {field}")
    return value


def _run(operation: str, event: object) -> ApiObject:
    """Convert `{namespace, name, durationSeconds}` to an object for an arrival. The duration is optional."""
    value = _mapping(operation, event)
    if value.get("kind", "Job") != "Job" or not isinstance(value.get("name"), str):
        raise ValueError("run needs the name of a Job")
    metadata = {"namespace": value.get("namespace", "default"), "name": value["name"]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    if value.get("durationSeconds") is None:
        return job
    return {**job, "durationSeconds": seconds(value["durationSeconds"], "durationSeconds")}


def _scale(operation: str, event: object) -> ApiObject:
    """Convert `{kind, namespace, name, replicas}` to an object for an arrival."""
    value = _mapping(operation, event)
    replicas, kind = value.get("replicas"), value.get("kind")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 0 <= replicas < 2**31:
        raise ValueError("scale needs replicas, a whole number")
    if kind not in _SCALED:
        raise ValueError(f"scale needs kind; known: {', '.join(_SCALED)}")
    metadata = {"namespace": value.get("namespace", "default"), "name": value.get("name")}
    if replicas > MAX_REPLICAS:
        raise ValueError(f"scale to {replicas:,} replicas; the limit is {MAX_REPLICAS:,}")
    return {"apiVersion": _SCALED[kind], "kind": kind, "metadata": metadata, "replicas": replicas}


class Simulated(Protocol):
    """The part of a simulation that operations use."""

    api: ApiServer

    def drain(self, node: str) -> None: ...

    def complete(self, job: ApiObject) -> None: ...


def to_node(change: Callable[[Node, ApiObject], Node | None]) -> Effect:
    """Return the effect that changes a node. `change`: (node, object of the Arrival) -> changed node; None: removed."""

    def effect(simulation: Simulated, obj: ApiObject) -> None:
        node = simulation.api.nodes.get(text(obj, "metadata", "name"))
        if node is not None and (changed := change(node, obj)) is not None:
            simulation.api.put_node(changed)
        elif node is not None:
            simulation.api.remove_node(node.name)

    return effect


def to_workload(change: Callable[[ApiObject, ApiObject], ApiObject]) -> Effect:
    """Return the effect that changes a workload. `change`: (its object, object of the Arrival) -> changed object."""

    def effect(simulation: Simulated, obj: ApiObject) -> None:
        stored = simulation.api.workloads.get(read_workload(obj).key)
        if stored is not None:
            simulation.api.put_workload(replace(stored, object=change(stored.object, obj)))

    return effect


def _scaled(stored: ApiObject, event: ApiObject) -> ApiObject:
    return {**stored, "spec": {**(stored.get("spec") or {}), "replicas": event["replicas"]}}


class Operation(NamedTuple):
    """An operation in a file of events.

    `read`: (operation, value) -> object of the Arrival. `effect`: called with the simulation and this object; None: the
    object is created, updated or deleted. `noun`: its name in messages, if different.
    """

    read: Callable[[str, Any], ApiObject] = _identified
    effect: Effect | None = None
    noun: str = ""


OPERATIONS: Final[Mapping[str, Operation]] = {
    **dict.fromkeys(("create", "update", "delete"), Operation()),
    "scale": Operation(_scale, to_workload(_scaled)),
    "run": Operation(_run, lambda simulation, job: simulation.complete(job)),
    "cordon": Operation(_named_node, to_node(lambda node, _: replace(node, unschedulable=True))),
    "uncordon": Operation(_named_node, to_node(lambda node, _: replace(node, unschedulable=False))),
    "drain": Operation(_named_node, lambda simulation, node: simulation.drain(text(node, "metadata", "name"))),
    "lost": Operation(_named_node, to_node(lambda *_: None), "loss"),
}
"""The operations that a file of events may contain, by name."""
FORM: Final = f"list of `{{at, {'|'.join(OPERATIONS)}}}`"
"""What a file must contain, for help and messages."""


def completed(workloads: Iterable[WorkloadState], states: Sequence[PodState]) -> list[WorkloadState]:
    """Return all workloads, with missing ReplicaSets of Deployments added, and the stored status of Jobs filled in."""
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
        with suppress(InvalidObject):  # without a valid status, the existing Pods count
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
        """The `group/Kind`s of controllers that are not simulated and, by the configuration, recreate their Pods."""

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
    """Return the maximum restarts of a container. `names`: only these containers; None: all."""
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

    Time 0 is the time of the cluster state, but at least a minute after the creation of the newest Pod, and not after
    the year 9000.
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
        """Add an object, and include it in the digest. Return the result of `Cache.add`."""
        encoded = json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(encoded).digest(), "big")) % _BITS
        return super().add(obj)

    @property
    def digest(self) -> str:
        return f"{self._sum:064x}"
