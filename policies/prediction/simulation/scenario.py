"""The input of a simulation: a cluster and timed arrivals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from forewarn.policies.kubernetes.controllers.view import PodState, WorkloadState
from forewarn.policies.kubernetes.durations import seconds
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET, JOB_TEMPLATE, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    json_type,
    text,
    timestamp,
)
from forewarn.policies.kubernetes.objects.node import HOSTNAME, Node
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.pod_group import PodGroup
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.prediction.simulation.api_server import EPOCH, ApiServer, ControllerView

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.prediction.simulation.clock import Clock, Latencies
    from forewarn.policies.prediction.simulation.controller_manager import ControllerManager

    Effect = Callable[["Simulated", ApiObject], None]

MAX_REPLICAS: Final = 100_000
"""Maximum Pods of an arriving workload."""


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
    """What the effects of operations use of a simulation."""

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
    object is created, updated or deleted. `noun`: in messages, if it is not the name.
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
"""By name."""
FORM: Final = f"list of `{{at, {'|'.join(OPERATIONS)}}}`"
"""What a file must contain, for help and messages."""
