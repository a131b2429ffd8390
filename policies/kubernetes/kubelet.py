"""Predict what the kubelet does: whether it admits a Pod, which Pods it preempts for a critical Pod, which it evicts
under node pressure, and in which order it terminates Pods when the node shuts down.

A static Pod, or a Pod with a node name, reaches the kubelet without kube-scheduler. If only resources are insufficient,
the kubelet terminates other Pods for a critical one, regardless of PodDisruptionBudgets. Source: kubernetes
`pkg/kubelet/preemption/preemption.go`, `pkg/kubelet/eviction`, `pkg/kubelet/nodeshutdown`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json
from forewarn.policies.base.findings import cut
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    compute_pod_qos,
    is_extended,
)
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    int32,
    items,
    json_type,
    mapping,
    objects_at,
    text,
)
from forewarn.policies.kubernetes.objects.node import LABEL_OS, NO_EXECUTE, Node, untolerated_taint
from forewarn.policies.kubernetes.objects.pod import MIRROR_ANNOTATION, Pod
from forewarn.policies.kubernetes.objects.pod_resources import pod_level, read_pod_resources
from forewarn.policies.kubernetes.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, to_nano
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.kubernetes.scheduling.plugins import one_node
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import (
    InsufficientResource,
    insufficient_resources,
)
from forewarn.policies.kubernetes.scheduling.plugins.one_node import TaintToleration

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo


_SYSTEM_CRITICAL: Final = 2_000_000_000
CONFIG_SOURCE: Final = "kubernetes.io/config.source"


class KubeletPod(NamedTuple):
    """A Pod on a node.

    `key`: `namespace/name`. `has_priority`: false if the spec has none. `requests`: in billionths, by resource.
    `volumes`: names of volumes on the node's own disk. `grace`: termination grace period in seconds. `static`: the
    kubelet read the Pod from a file or URL. `by_claims`: extended resources that ResourceClaims provide. `os`: "" if
    the Pod names no operating system. `strict_groups`: the policy for supplemental groups is Strict.
    """

    key: str
    priority: int
    has_priority: bool
    critical: bool
    qos: str
    requests: Mapping[str, int]
    volumes: tuple[str, ...]
    grace: int
    static: bool = False
    by_claims: frozenset[str] = frozenset()
    os: str = ""
    strict_groups: bool = False

    def request(self, resource: str) -> int:
        """Return the request for a resource in units, rounded up. Source: upstream `GetResourceRequestQuantity`."""
        return -(-self.requests.get(resource, 0) // NANO)


def read_pod(obj: ApiObject) -> KubeletPod:
    """Return a Pod from its API object. Raises InvalidObject."""
    priority = int32(obj, "spec", "priority")
    annotations = mapping(obj, "metadata", "annotations")
    static = annotations.get(CONFIG_SOURCE) not in (None, "api")
    grace = at(obj, "spec", "terminationGracePeriodSeconds")
    # With Pod-level requests, containers do not count; overhead counts only for requested resources. Source:
    # pkg/api/v1/resource `GetResourceRequestQuantity`.
    resources = read_pod_resources(obj, use_status=False, accept_negative=False)
    overhead = to_nano(resources.overhead)
    total = pod_level(resources.requests) if resources.sets_pod_level else resources.container_requests()
    return KubeletPod(
        key=f"{text(obj, 'metadata', 'namespace', default='default')}/{text(obj, 'metadata', 'name')}",
        priority=priority or 0,
        has_priority=priority is not None,
        critical=is_critical_pod(priority or 0, of_node=static or MIRROR_ANNOTATION in annotations),
        qos=text(obj, "status", "qosClass") or compute_pod_qos(resources),
        requests={name: amount + overhead.get(name, 0) for name, amount in to_nano(total).items() if amount},
        volumes=tuple(text(v, "name") for v in items(obj, "spec", "volumes") if _is_local(v)),
        grace=grace if isinstance(grace, int) and grace >= 0 else 30,
        static=static,
        by_claims=frozenset(
            text(item, "resourceName")
            for item in items(obj, "status", "extendedResourceClaimStatus", "requestMappings")
        ),
        os=text(obj, "spec", "os", "name"),
        strict_groups=text(obj, "spec", "securityContext", "supplementalGroupsPolicy") == "Strict",
    )


def is_critical_pod(priority: int, *, of_node: bool) -> bool:
    """Report whether the kubelet evicts others for a Pod, and never evicts it. Source: `IsCriticalPod`."""
    return of_node or priority >= _SYSTEM_CRITICAL


def _is_local(volume: ApiObject) -> bool:
    """Return whether a volume is on the node's own disk. Source: `localVolumeNames`, `IsLocalEphemeralVolume`."""
    empty = volume.get("emptyDir")
    on_disk = isinstance(empty, dict) and not empty.get("medium")
    return on_disk or any(volume.get(kind) is not None for kind in ("hostPath", "gitRepo", "configMap"))


_ALL: Final = ("root", "logs", "volumes")
_PARTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "shared": {"nodefs": _ALL, "imagefs": _ALL, "containerfs": _ALL},
    "own": {"nodefs": ("logs", "volumes"), "imagefs": ("root",), "containerfs": ("root",)},
    "split": {"nodefs": _ALL, "imagefs": (), "containerfs": _ALL},
}
"""Location of images (`buildSignalToRankFunc`) -> signal -> the parts of a Pod's usage that count."""
SIGNALS: Final = ("memory", "pids", "nodefs", "imagefs", "containerfs")
IMAGE_FILESYSTEMS: Final = tuple(_PARTS)


class Usage(NamedTuple):
    """What a Pod uses and requests: bytes, inodes or processes, a request rounded up.

    `exceeds`: true if the Pod uses more than its request; null if that does not count. `over`: the usage above the
    request, which sorts Pods of equal priority, in billionths, because a request may be a fraction of a byte.
    """

    used: int
    requested: int
    exceeds: bool | None
    over: Hidden[int]


class Place(NamedTuple):
    """A Pod in the order of eviction; without usage if it is unknown.

    `tied`: the kubelet may also evict this Pod before the previous one. `reason`: for the position.
    """

    pod: Hidden[KubeletPod]
    usage: Inlined[Usage | None]
    tied: bool
    reason: str

    @in_json
    def pod_(self) -> str:
        return self.pod.key

    @in_json
    def priority(self) -> int:
        return self.pod.priority


def rank(
    pods: Iterable[KubeletPod],
    stats: Mapping[str, PodStats] | None,
    signal: str,
    *,
    inodes: bool = False,
    images: str = "shared",
) -> list[Place]:
    """Return the Pods in the order of eviction, including critical Pods, which the kubelet then skips.

    `stats`: usage by Pod key; None: each Pod uses what it requests, or a little without a request. `signal`: one of
    SIGNALS. `inodes`: the signal is about inodes of a disk, not bytes. `images`: one of IMAGE_FILESYSTEMS: the
    kubelet's disk for images is "shared" with Pods, its "own", or "split".
    """
    key = _key_of_pids if signal == "pids" else _key
    usages: Iterable[tuple[KubeletPod, Usage | None]]
    if stats is None:
        usages = ((pod, _requested(pod, signal, inodes=inodes)) for pod in pods)
    else:
        used = ((pod, stats.get(pod.key)) for pod in pods)
        usages = ((pod, _usage(pod, stat, signal, inodes, images) if stat else None) for pod, stat in used)
    places = sorted((Place(pod, usage, False, "") for pod, usage in usages), key=key)
    return [
        place._replace(tied=number > 0 and key(places[number - 1]) == key(place)) for number, place in enumerate(places)
    ]


def _requested(pod: KubeletPod, signal: str, *, inodes: bool) -> Usage:
    if signal == "pids":
        return Usage(0, 0, None, 0)
    request = 0 if inodes else pod.request(MEMORY if signal == "memory" else EPHEMERAL_STORAGE)
    return Usage(request, request, not request, 0)


def _usage(pod: KubeletPod, used: PodStats, signal: str, inodes: bool, images: str) -> Usage:
    if signal == "pids":
        return Usage(used.processes, 0, None, used.processes * NANO)
    if signal == "memory":
        over = used.memory * NANO - pod.requests.get(MEMORY, 0)
        return Usage(used.memory, pod.request(MEMORY), over > 0, over)
    disk = used.disk(_PARTS[images][signal], pod.volumes)
    amount, request = (disk.inodes, 0) if inodes else (disk.size, pod.request(EPHEMERAL_STORAGE))
    # Upstream takes the request for ephemeral storage from inodes, too.
    over = amount * NANO - pod.requests.get(EPHEMERAL_STORAGE, 0)
    return Usage(amount, request, amount > 0 if inodes else over > 0, over)


def _key(place: Place) -> tuple[int, int, int, int]:
    """Sort key: unknown usage first, then Pods above their requests, then lowest priority, then excess."""
    if place.usage is None:
        return (0, 0, place.pod.priority, 0)
    return (1, 0 if place.usage.exceeds else 1, place.pod.priority, -place.usage.over)


def _key_of_pids(place: Place) -> tuple[int, int, int, int]:
    """Return the sort key for process IDs: by lowest priority, then unknown usage, then most processes."""
    return (place.pod.priority, *((1, -place.usage.over) if place.usage else (0, 0)), 0)


_SHOWN: Final = 80
"""Maximum characters of a name in a message."""


class Disk(NamedTuple):
    """Disk usage in bytes and inodes."""

    size: int = 0
    inodes: int = 0


class PodStats(NamedTuple):
    """A Pod's usage: memory in bytes, and the number of processes.

    `root`, `logs`: disk usage of all containers' root filesystems and logs. `volumes`: disk usage by volume name.
    """

    memory: int = 0
    processes: int = 0
    root: Disk = Disk()
    logs: Disk = Disk()
    volumes: Mapping[str, Disk] = {}

    def disk(self, parts: Iterable[str], volumes: Iterable[str]) -> Disk:
        """Return the Pod's disk usage in some `parts` ("root", "logs", "volumes"). Source: upstream `podDiskUsage`."""
        parts_used = [getattr(self, part) for part in parts if part in ("root", "logs")]
        if "volumes" in parts:
            parts_used += [self.volumes[name] for name in volumes if name in self.volumes]
        return _sum(parts_used)


def read_stats(summary: Any, node: str | None = None) -> dict[str, PodStats]:
    """Return the usage of Pods by `namespace/name`. `node`: the expected node; None for any.

    Raises InvalidObject for other documents, and for another node's summary.
    """
    pods = at(summary, "pods") if isinstance(summary, dict) else None
    if not isinstance(pods, list):
        raise InvalidObject("not a kubelet /stats/summary: no pods in it")
    of = at(summary, "node", "nodeName")
    if node is not None and isinstance(of, str) and of != node:
        raise InvalidObject(f'the /stats/summary of node "{cut(of, _SHOWN)}", not of "{node}"')
    pod_stats = {}
    for pod in pods:
        if not isinstance(pod, dict):
            raise InvalidObject(f"pods must hold objects, not {json_type(pod)}")
        namespace, name = at(pod, "podRef", "namespace"), at(pod, "podRef", "name")
        pod_stats[f"{namespace}/{name}"] = read_pod_stats(pod)
    return pod_stats


def read_pod_stats(pod: Mapping[str, Any]) -> PodStats:
    """Return the usage of one Pod in a summary; 0 for absent values.

    Source: upstream `memoryUsage`, `diskUsage`, `inodeUsage`, `processUsage`.
    """
    volumes: dict[str, Disk] = {}
    for volume in objects_at(pod, "volume"):
        volumes.setdefault(str(volume.get("name")), _disk(volume))
    containers = objects_at(pod, "containers")
    return PodStats(
        memory=_number(pod, "memory", "workingSetBytes"),
        processes=_number(pod, "process_stats", "process_count"),
        root=_sum([_disk(at(container, "rootfs")) for container in containers]),
        logs=_sum([_disk(at(container, "logs")) for container in containers]),
        volumes=volumes,
    )


def _sum(disks: Iterable[Disk]) -> Disk:
    listed = list(disks)
    return Disk(sum(disk.size for disk in listed), sum(disk.inodes for disk in listed))


def _disk(value: Any) -> Disk:
    return Disk(_number(value, "usedBytes"), _number(value, "inodesUsed")) if isinstance(value, dict) else Disk()


def _number(value: Any, *path: str) -> int:
    number = at(value, *path)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63 else 0


class Group(NamedTuple):
    """Pods that terminate together, each within its grace period and at most `seconds`. Groups terminate in sequence.

    `priority`: the lowest priority of the Pods in the group, except for the lowest group.
    """

    priority: int
    seconds: int
    pods: Hidden[Sequence[KubeletPod]]

    @in_json
    def pods_(self) -> list[str]:
        return [pod.key for pod in self.pods]


def shutdown_groups(periods: Iterable[tuple[int, int]], pods: Iterable[KubeletPod]) -> list[Group]:
    """Return the groups of a node's Pods, lowest priority first. Source: upstream `groupByPriority`.

    `periods`: (priority, seconds) of `shutdownGracePeriodByPodPriority`. A Pod belongs to the group with the highest
    priority that is not above the Pod's; a Pod below all groups belongs to the lowest one.
    """
    ordered = sorted(periods)
    if not ordered:
        return []
    levels = [priority for priority, _ in ordered]
    members: list[list[KubeletPod]] = [[] for _ in ordered]
    for pod in pods:
        index = min(bisect_left(levels, pod.priority), len(levels) - 1)
        if index > 0 and levels[index] > pod.priority:
            index -= 1
        members[index].append(pod)
    return [
        Group(priority, seconds, tuple(groups)) for (priority, seconds), groups in zip(ordered, members, strict=True)
    ]


_NOT_TOLERATED: Final = "node(s) had taints that the pod didn't tolerate"
"""Only the kubelet has this reason. Source: upstream `ErrReasonNotMatch`."""


class Rejection(NamedTuple):
    """The status of a rejected Pod: `status.reason` and `status.message`."""

    reason: str
    message: str


_OTHER_LABEL: Final = Rejection(
    "PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
)
_OTHER_OS: Final = Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
_NOT_STRICT: Final = Rejection(
    "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
)


def check_support(admitted: KubeletPod, pod: Pod, node: Node) -> Rejection | None:
    """Return why the node cannot run the Pod, regardless of the other Pods there; None if it can.

    If the node's label for its operating system has a wrong value, the kubelet corrects the label. Source: upstream
    `rejectPodAdmissionBasedOnOSSelector`, `rejectPodAdmissionBasedOnOSField`,
    `rejectPodAdmissionBasedOnSupplementalGroupsPolicy`.
    """
    if pod.labels.get(LABEL_OS, node.operating_system) != node.operating_system:
        return _OTHER_LABEL
    if admitted.os not in ("", node.operating_system):
        return _OTHER_OS
    return _NOT_STRICT if admitted.strict_groups and not node.supplemental_groups_policy else None


def general_filter(
    pod: Pod, node_info: NodeInfo, *, static: bool, by_claims: Collection[str] = ()
) -> Iterator[InsufficientResource | Rejection]:
    """Yield why the node rejects the Pod: insufficient resources first. Source: upstream `generalFilter`.

    `static`: whether the Pod is static, so that NoExecute taints do not apply. `by_claims`: extended resources that
    ResourceClaims of the Pod provide.
    """
    yield from insufficient_resources(pod, node_info, {*by_claims, *_missing_extended_resources(pod, node_info)})
    node = node_info.node
    if not pod.spec.node_affinity.matches(node.labels, node.name):
        yield _failed(one_node.NodeAffinity.name, *one_node.SELECTOR_REASON.reasons)
    if not one_node.fits(pod, node_info):
        yield _failed(one_node.NodeName.name, *one_node.NAME_REASON.reasons)
    if not one_node.ports_fit(pod, node_info):
        yield _failed(one_node.NodePorts.name, *one_node.PORTS_REASON.reasons)
    taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
    if not static and untolerated_taint(taints, pod.spec.tolerations):
        yield _failed(TaintToleration.name, _NOT_TOLERATED)


def rejection_of(failure: InsufficientResource | Rejection) -> Rejection:
    """Return the status of a Pod that a predicate rejects. Source: upstream `InsufficientResourceError`."""
    if isinstance(failure, Rejection):
        return failure
    name, requested, used, capacity = failure
    amounts = f"{name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {amounts}")


def _missing_extended_resources(pod: Pod, node_info: NodeInfo) -> set[str]:
    """Return the requested extended resources that the node does not know. Upstream `removeMissingExtendedResources`.

    The kubelet admits the Pod without them, because resources of the whole cluster or of DRA are unknown to nodes.
    """
    scalars = node_info.node.allocatable.scalars
    return {name for name in pod.spec.request.scalars if is_extended(name) and name not in scalars}


def _failed(predicate: str, reason: str) -> Rejection:
    """Return the failure of a predicate. Source: upstream `PredicateFailureError`."""
    return Rejection(predicate, f"Predicate {predicate} failed: {reason}")


Requirements = dict[str, int]
"""Resource -> missing amount: cpu in thousandths, `pods` in Pods, others in units."""
_RECOVERY_FAILED: Final = "Unexpected error while attempting to recover from admission failure: preemption"


class NotEnough(ValueError):
    """Terminating all eligible Pods would not free enough resources. The text is upstream's."""

    def __init__(self, missing: Mapping[str, int]) -> None:
        amounts = "".join(f"(res: {name}, q: {amount}), " for name, amount in missing.items())
        super().__init__(f"no set of running pods found to reclaim resources: [{amounts}]")


class Admission(NamedTuple):
    """The kubelet's admission of a Pod.

    `insufficient`: the missing amounts of resources, cpu in thousandths, memory in bytes. `rejection`: the status of
    the rejected Pod; None if the kubelet admits the Pod. `failed`: the predicates other than resources that reject the
    Pod; the kubelet then preempts no Pods. `preempted`: the Pods that the kubelet preempts first. `equal`: Pods that it
    may preempt instead of some of these. `reason`, `message`: those in the status of a rejected Pod.
    """

    admitted: Hidden[KubeletPod]
    insufficient: Requirements
    rejection: Hidden[Rejection | None] = None
    failed: Hidden[Sequence[Rejection]] = ()
    preempted: Hidden[Sequence[KubeletPod]] = ()
    equal: Sequence[str] = ()

    @in_json
    def pod(self) -> str:
        return self.admitted.key

    @in_json
    def rejected(self) -> bool:
        return self.rejection is not None

    @in_json
    def reason(self) -> str:
        return self.rejection.reason if self.rejection else ""

    @in_json
    def message(self) -> str:
        return self.rejection.message if self.rejection else ""

    @in_json
    def preempted_(self) -> list[str]:
        return [pod.key for pod in self.preempted]


def admit(admitted: KubeletPod, pod: Pod, node_info: NodeInfo, pods: Iterable[KubeletPod]) -> Admission:
    """Return the kubelet's admission of a Pod. Source: upstream `Admit`, `HandleAdmissionFailure`.

    `pod`: the same Pod as kube-scheduler's plugins read it. `node_info`, `pods`: the node without this Pod, and the
    Pods there, which are read only for preemption.
    """
    if unsupported := check_support(admitted, pod, node_info.node):
        return Admission(admitted, {}, unsupported, [unsupported])
    failures = list(general_filter(pod, node_info, static=admitted.static, by_claims=admitted.by_claims))
    failed = [failure for failure in failures if isinstance(failure, Rejection)]
    insufficient = {failure.resource: failure.missing for failure in failures if not isinstance(failure, Rejection)}
    if not failures:
        return Admission(admitted, insufficient)
    if not admitted.critical:
        return Admission(admitted, insufficient, rejection_of(failures[0]), failed)
    if failed:
        return Admission(admitted, insufficient, failed[0], failed)
    try:
        preempted, others = pods_to_preempt(admitted, list(pods), insufficient)
        return Admission(admitted, insufficient, preempted=preempted, equal=[pod.key for pod in others])
    except NotEnough as fault:
        message = f"{_RECOVERY_FAILED}: error finding a set of pods to preempt: {fault}"
        return Admission(admitted, insufficient, Rejection("UnexpectedAdmissionError", message))


def pods_to_preempt(
    admitted: KubeletPod, pods: Sequence[KubeletPod], requirements: Mapping[str, int]
) -> tuple[list[KubeletPod], list[KubeletPod]]:
    """Return the Pods that the kubelet preempts: as few Guaranteed Pods as possible, then Burstable, then BestEffort
    ones; and the others that it may preempt instead, because it reads its Pods in random order.

    `admitted`: the new Pod. `pods`: the Pods on the node. `requirements`: resource -> missing amount, in the units of
    `request_of`. Raises NotEnough.
    """
    able = [pod for pod in pods if _preemptable(admitted, pod)]
    best_effort, burstable, guaranteed = ([p for p in able if p.qos == q] for q in (BEST_EFFORT, BURSTABLE, GUARANTEED))
    wanted = dict(requirements)
    if missing := _subtract(wanted, [*best_effort, *burstable, *guaranteed]):
        raise NotEnough(missing)
    ended, like_ended = _split_by_distance(guaranteed, _subtract(wanted, [*best_effort, *burstable]))
    then, like_then = _split_by_distance(burstable, _subtract(wanted, [*best_effort, *ended]))
    last, like_last = _split_by_distance(best_effort, _subtract(wanted, [*then, *ended]))
    return [*last, *then, *ended], [*like_last, *like_then, *like_ended]


def request_of(pod: KubeletPod, resource: str) -> int:
    """Return the request of a Pod: cpu in thousandths, 1 for `pods`, others in units. Source: `GetResourceRequest`."""
    if resource == "pods":
        return 1
    return -(-pod.requests.get(CPU, 0) // 1_000_000) if resource == CPU else pod.request(resource)


def _preemptable(admitted: KubeletPod, pod: KubeletPod) -> bool:
    if admitted.critical and not pod.critical:
        return True
    return admitted.has_priority and pod.has_priority and admitted.priority > pod.priority


def _subtract(requirements: Requirements, pods: Iterable[KubeletPod]) -> Requirements:
    """Return the amounts that are still missing after the termination of these Pods, without zeros."""
    removed = list(pods)
    left = {name: amount - sum(request_of(pod, name) for pod in removed) for name, amount in requirements.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _split_by_distance(
    pods: Sequence[KubeletPod], requirements: Requirements
) -> tuple[list[KubeletPod], list[KubeletPod]]:
    """Return the Pods to preempt, and the other Pods that equal one of them. Raises NotEnough.

    Pods are chosen until nothing is missing: each time the Pod that leaves the smallest missing amounts, of several
    Pods the one with the smallest request.
    """
    sizes = {pod.key: (request_of(pod, MEMORY), request_of(pod, CPU)) for pod in pods}
    candidates, chosen, equal = list(pods), list[KubeletPod](), set[str]()
    while requirements:
        if not candidates:
            raise NotEnough(requirements)
        costs = [(_distance(pod, requirements), sizes[pod.key]) for pod in candidates]
        least = min(costs)
        *others, best = (index for index, cost in enumerate(costs) if cost == least)
        requirements = _subtract(requirements, [candidates[best]])
        equal.update(candidates[index].key for index in others)
        chosen.append(candidates[best])
        candidates[best] = candidates[-1]
        candidates.pop()
    return chosen, [pod for pod in candidates if pod.key in equal]


def _distance(pod: KubeletPod, requirements: Requirements) -> float:
    left = ((float(amount - request_of(pod, name)), float(amount)) for name, amount in requirements.items())
    return sum((missing / amount) ** 2 for missing, amount in left if missing > 0)
