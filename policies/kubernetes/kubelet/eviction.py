"""The order in which the kubelet ends Pods: under node pressure, and in a graceful node shutdown.

Sources: kubernetes `pkg/kubelet/eviction/helpers.go`, `pkg/kubelet/nodeshutdown`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json
from forewarn.policies.base.findings import cut
from forewarn.policies.kubernetes.objects.fields import InvalidObject, at, json_type, objects_at
from forewarn.policies.kubernetes.objects.resources import EPHEMERAL_STORAGE, MEMORY
from forewarn.policies.kubernetes.quantity import NANO

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kubelet.pods import KubeletPod

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
