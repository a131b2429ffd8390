"""Pod, with the fields that rules and kube-scheduler read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.copies import replace, shared_labels
from forewarn.policies.objects.extent import TooLargeToRetain, is_omitted
from forewarn.policies.objects.fields import (
    NOTHING,
    OBJECT,
    at,
    int32,
    items,
    mapping,
    sequence,
    string_map,
    text,
    texts,
    timestamp,
)
from forewarn.policies.objects.pod_spec import NO_SPEC, PodSpec, read_pod_resource, read_pod_spec
from forewarn.policies.objects.resources import NOTHING_OCCUPIED, PodResource

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject


TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_LONGEST: Final = 253
NOW: Final = 2**62
"""The start time of a Pod without one in comparisons: upstream uses the current time."""


@lru_cache(maxsize=16384)
def _interned(text: str) -> str:
    return text


def once(text: str) -> str:
    """Return an equal, shared string. The cache is bounded, while `sys.intern` is permanent in Python 3.12."""
    return _interned(text) if len(text) <= _LONGEST else text


@lru_cache(maxsize=256)
def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


class Owner(NamedTuple):
    """The controller of an object (`metadata.ownerReferences` with controller: true)."""

    kind: str
    name: str
    uid: str
    api_version: str = ""

    @property
    def group_kind(self) -> str:
        """The `group/Kind` of the controller; the group is empty for core kinds."""
        return f"{_group(self.api_version)}/{self.kind}"

    @classmethod
    def from_api(cls, obj: ApiObject) -> Owner | None:
        """Return the controller of an object; None if the object has none. Source: apimachinery `GetControllerOf`."""
        for reference in sequence(obj, "metadata", "ownerReferences"):
            if isinstance(reference, dict) and reference.get("controller"):
                kind, name, uid, version = (once(text(reference, key)) for key in ("kind", "name", "uid", "apiVersion"))
                return cls(kind, name, uid, version)
        return None


class PodClaim(NamedTuple):
    """An entry of a Pod's `spec.resourceClaims`.

    `claim`: the name of the ResourceClaim; None if no claim is needed, or (not `resolved`) if it is not created yet.
    `template`: the ResourceClaimTemplate; "" for a claim that the Pod names.
    """

    name: str
    claim: str | None
    template: str = ""
    resolved: bool = True


_DAEMON_POD: Final = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_SAFE_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod, reduced to the fields that matter for scheduling.

    `priority`: None if admission never set it, which counts as 0. `start_time`: in seconds since 1970.
    """

    namespace: str
    name: str
    uid: str = ""
    phase: str = ""
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    start_time: int | None = None
    owner: Owner | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: PodSpec = NO_SPEC
    occupies: PodResource = NOTHING_OCCUPIED
    nominated_node_name: str = ""
    device_claims: tuple[PodClaim, ...] = ()
    created: int | None = None
    """Creation time in seconds since 1970; None for a Pod with a node."""
    annotated_daemon: bool = False
    """True if an annotation makes cluster-autoscaler treat the Pod as a DaemonSet Pod."""
    safe_to_evict: str = ""
    """The annotation safe-to-evict of cluster-autoscaler: true, false or on-completion; otherwise ""."""
    has_local_storage: bool = False
    """True if a local volume of the Pod prevents that cluster-autoscaler removes its node."""
    terminating: bool = False
    preempted: bool = False
    """True if the first DisruptionTarget condition has the reason PreemptionByScheduler."""
    ready: bool = True
    """True if PDBs count the Pod as healthy. Running Pods without a Ready condition (in snapshots) also count."""

    @property
    def healthy(self) -> bool:
        """Whether PDBs count the Pod as healthy. Source: pkg/controller/disruption, `countHealthyPods`."""
        return self.ready and not self.terminating

    @property
    def owner_kind(self) -> str:
        """The `group/Kind` of the Pod's controller; "" without one."""
        return "" if self.owner is None else self.owner.group_kind

    @classmethod
    def from_api(cls, obj: ApiObject) -> Pod:
        """Read an API object. Raises InvalidObject."""
        spec, conditions = read_pod_spec(obj), _first_conditions(obj)
        name, uid = texts(obj, "metadata", "name", "uid")
        node_name, priority_class, policy = texts(obj, "spec", "nodeName", "priorityClassName", "preemptionPolicy")
        phase, nominated = texts(obj, "status", "phase", "nominatedNodeName")
        metadata = mapping(obj, "metadata")
        annotations = metadata.get("annotations")
        annotations = annotations if isinstance(annotations, OBJECT) else NOTHING
        return cls(
            namespace=once(text(obj, "metadata", "namespace", default="default")),
            name=name,
            uid=uid,
            phase=once(phase),
            node_name=once(node_name),
            priority=int32(obj, "spec", "priority"),
            priority_class_name=once(priority_class),
            preemption_policy=once(policy),
            start_time=timestamp(obj, "status", "startTime"),
            owner=Owner.from_api(obj),
            labels=shared_labels(string_map(obj, "metadata", "labels")),
            spec=spec,
            occupies=read_pod_resource(obj, spec, conditions),
            nominated_node_name=once(nominated),
            device_claims=_device_claims(obj) if spec.claims_devices else (),
            created=None if node_name else timestamp(obj, "metadata", "creationTimestamp"),
            annotated_daemon=annotations.get(_DAEMON_POD) == "true",
            safe_to_evict=_safe_to_evict(annotations.get(_SAFE_TO_EVICT)),
            has_local_storage=bool(spec.local_volumes) and _has_local_storage(spec, annotations.get(_SAFE_VOLUMES)),
            terminating=metadata.get("deletionTimestamp") is not None,
            preempted=_preempted(conditions),
            ready=_ready(phase, conditions),
        )

    def to_api(self) -> ApiObject:
        """Return the priority fields and the PodGroup of the Pod as an API object, for comparison with an update."""
        spec: dict[str, object] = {
            "priorityClassName": self.priority_class_name,
            "priority": self.priority,
            "preemptionPolicy": self.preemption_policy or None,
        }
        if self.spec is not NO_SPEC:
            spec["schedulingGroup"] = {"podGroupName": self.spec.pod_group} if self.spec.pod_group else None
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    @property
    def terminal(self) -> bool:
        """Whether the Pod has terminated: the Pod uses no resources, and kube-scheduler ignores the Pod."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def start(self) -> int:
        """The start time in comparisons: NOW for a Pod without one."""
        return NOW if self.start_time is None else self.start_time

    @property
    def effective_priority(self) -> int:
        """The priority value; 0 if admission never set it.

        Source: component-helpers `PodPriority`.
        """
        return self.priority or 0

    def __repr__(self) -> str:
        return f"<Pod {self.key}>"

    @property
    def key(self) -> str:
        """The Pod as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """The uid of the Pod; `namespace/name` if it has none."""
        return self.uid or self.key

    def bound_to(self, node_name: str, node_labels: Mapping[str, str]) -> Pod:
        """The Pod bound to a node. As the API server does, copies the node's zone and region to the Pod's labels."""
        topology = {key: node_labels[key] for key in TOPOLOGY_LABELS if key in node_labels}
        labels = shared_labels({**self.labels, **topology})
        return replace(self, node_name=node_name, nominated_node_name="", labels=labels, created=None)

    def as_terminating(self) -> Pod:
        """Return the Pod as terminating, after kube-scheduler has evicted it. Source: upstream `prepareCandidate`."""
        if self.terminating:
            return self
        # A preemption has dozens of victims, and `replace` costs three times as much.
        ending: tuple[Any, ...] = (*_BEFORE_TERMINATION(self), True, True, self.ready)
        return Pod(*ending)


_BEFORE_TERMINATION: Final = attrgetter(*(f.name for f in fields(Pod)[:-3]))
"""Getter of all fields of a Pod in order, except the last three: terminating, preempted, ready."""


def wait_seconds(victims: Iterable[Pod]) -> int:
    """The seconds until the last Pod has terminated, if all terminate at the same time within their grace periods."""
    return max((pod.spec.termination_grace_period for pod in victims), default=0)


def _device_claims(obj: ApiObject) -> tuple[PodClaim, ...]:
    """Return the entries of a Pod's `spec.resourceClaims`. Source: dynamic-resource-allocation `resourceclaim.Name`."""
    generated = {
        text(entry, "name"): at(entry, "resourceClaimName") for entry in items(obj, "status", "resourceClaimStatuses")
    }
    claims = []
    for entry in items(obj, "spec", "resourceClaims"):
        name, claim, template = (text(entry, key) for key in ("name", "resourceClaimName", "resourceClaimTemplateName"))
        if claim:
            claims.append(PodClaim(name, claim))
        else:
            claims.append(PodClaim(name, generated.get(name), template, name in generated))
    return tuple(claims)


def _first_conditions(obj: ApiObject) -> Mapping[str, ApiObject]:
    """Return type -> the first condition of the type, which is the one that upstream uses."""
    conditions: dict[str, ApiObject] = {}
    for condition in items(obj, "status", "conditions"):
        kind = condition.get("type")
        if isinstance(kind, str):
            conditions.setdefault(kind, condition)
    return conditions


def _preempted(conditions: Mapping[str, ApiObject]) -> bool:
    """Report whether kube-scheduler has preempted the Pod.

    Source: upstream `podTerminatingByPreemption`, without the check of the deletion timestamp.
    """
    target = conditions.get("DisruptionTarget", NOTHING)
    return target.get("status") == "True" and target.get("reason") == "PreemptionByScheduler"


def _ready(phase: str, conditions: Mapping[str, ApiObject]) -> bool:
    """Whether the Pod is ready. Without the condition Ready, a Pod that is not Pending is ready (`IsPodReady`)."""
    ready = conditions.get("Ready")
    return phase != "Pending" if ready is None else ready.get("status") == "True"


def _safe_to_evict(value: object) -> str:
    return once(value) if isinstance(value, str) and value in ("true", "false", "on-completion") else ""


def _has_local_storage(spec: PodSpec, safe: object) -> bool:
    """Report whether a Pod has a local volume that its annotation does not name. Source: `HasBlockingLocalStorage`."""
    named = safe.split(",") if isinstance(safe, str) and safe else ()
    return any(name not in named for name in spec.local_volumes)


MAX_TEXT: Final = 8 * 1024
"""Maximum characters of the spec fields of a stored Pod; decoded, they need about ten times as much memory."""
TOO_LARGE: Final = "the Pod exceeds what forewarn keeps of one"
_PLAIN: Final = (
    "nodeName", "priority", "priorityClassName", "preemptionPolicy", "schedulerName", "terminationGracePeriodSeconds",
)  # fmt: skip
_REQUESTS: Final = ("containers", "initContainers", "overhead", "resources")
_OF_A_CONTAINER: Final = ("name", "resources", "ports", "restartPolicy")


def stored_pod(obj: ApiObject) -> Pod:
    """Read a Pod for storage in memory. Raises InvalidObject.

    If the Pod's scheduling constraints are too large, they are omitted (`PodSpec.too_large`): forewarn does not predict
    the Pod itself, but its requests, labels, ports, volumes and (anti-)affinity to Pods count for others. If these are
    too large as well, predictions of other Pods may be wrong (`PodSpec.hides`).
    """
    try:
        pod = Pod.from_api(obj)
        if pod.spec.size <= MAX_TEXT:
            return pod
    except TooLargeToRetain:
        pass
    for hides, reduced in ((False, _without_wishes), (True, _with_requests), (True, _bare)):
        if (smaller := _read(obj, reduced)) is not None:
            spec = replace(
                smaller.spec, too_large=TOO_LARGE, hides=hides, gated=smaller.spec.gated or not smaller.node_name
            )
            return replace(smaller, spec=spec)
    return Pod.from_api(_bare(obj))


def _read(obj: ApiObject, reduced: Callable[[ApiObject], ApiObject]) -> Pod | None:
    try:
        pod = Pod.from_api(reduced(obj))
    except TooLargeToRetain:
        return None
    return pod if pod.spec.size <= MAX_TEXT else None


def _without_wishes(obj: ApiObject) -> ApiObject:
    """Return the Pod without fields for its own scheduling: node affinity, tolerations, spread constraints, images."""
    spec = _spec(obj, *_PLAIN, *_REQUESTS, "volumes", "resourceClaims", "hostNetwork")
    affinity = {key: at(obj, "spec", "affinity", key) for key in ("podAffinity", "podAntiAffinity")}
    if any(value is not None for value in affinity.values()):
        spec["affinity"] = affinity
    return {**obj, "spec": _with_slim_containers(spec)}


def _with_requests(obj: ApiObject) -> ApiObject:
    return {**obj, "spec": _with_slim_containers(_spec(obj, *_PLAIN, *_REQUESTS))}


def _bare(obj: ApiObject) -> ApiObject:
    kept = {
        "metadata": ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"),
        "spec": _PLAIN,
        "status": ("phase", "startTime", "nominatedNodeName"),
    }
    bare: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}
    for part, keys in kept.items():
        holder = obj.get(part)
        bare[part] = {} if is_omitted(holder) else {key: at(obj, part, key) for key in keys}
    return bare


def _spec(obj: ApiObject, *keys: str) -> dict[str, Any]:
    return {key: value for key in keys if (value := at(obj, "spec", key)) is not None}


def _with_slim_containers(spec: dict[str, Any]) -> dict[str, Any]:
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [{name: c[name] for name in _OF_A_CONTAINER if name in c} for c in spec[key]]
    return spec
