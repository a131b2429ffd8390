"""Parse the resource usage of the Pods on a node, from the kubelet's `/stats/summary`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut
from forewarn.policies.objects.fields import InvalidObject, at, json_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        """Return the Pod's disk usage in some `parts` ("root", "logs", "volumes"). Source: upstream `podDiskUsage`.

        `volumes`: names of the volumes to count.
        """
        found = [getattr(self, part) for part in parts if part in ("root", "logs")]
        if "volumes" in parts:
            found += [self.volumes[name] for name in volumes if name in self.volumes]
        return _sum(found)


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
    found = {}
    for pod in pods:
        if not isinstance(pod, dict):
            raise InvalidObject(f"pods must hold objects, not {json_type(pod)}")
        namespace, name = at(pod, "podRef", "namespace"), at(pod, "podRef", "name")
        found[f"{namespace}/{name}"] = read_pod_stats(pod)
    return found


def read_pod_stats(pod: Mapping[str, Any]) -> PodStats:
    """Return the usage of one Pod in a summary; 0 for absent values.

    Source: upstream `memoryUsage`, `diskUsage`, `inodeUsage`, `processUsage`.
    """
    volumes: dict[str, Disk] = {}
    for volume in _list(pod, "volume"):
        volumes.setdefault(str(volume.get("name")), _disk(volume))
    containers = _list(pod, "containers")
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
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63 else 0


def _list(pod: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = pod.get(key)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
