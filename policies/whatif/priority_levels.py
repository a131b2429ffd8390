"""Which Pods may preempt each other, by PriorityClass: each class's requests, and the Pods that it could displace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.kube_apiserver.priority import default_priority_class
from forewarn.policies.objects.priority_class import PREEMPT_NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod


class Requested(NamedTuple):
    """A number of Pods and the sum of their requests: cpu in thousandths, memory in bytes."""

    pods: int = 0
    milli_cpu: int = 0
    memory: int = 0

    def plus(self, other: Requested) -> Requested:
        """Return the sum of both requests."""
        return Requested(self.pods + other.pods, self.milli_cpu + other.milli_cpu, self.memory + other.memory)


class Level(NamedTuple):
    """A PriorityClass ("" for none) with a priority value, and the Pods that have both.

    `preempts`: true if new Pods of the class may preempt; None if new Pods do not get this value, because the class
    changed or was deleted. `running`: Pods on nodes. `pending`: number of Pods without a node.
    """

    name: str
    value: int
    preempts: bool | None
    is_default: bool
    running: Requested
    pending: int

    def may_preempt(self, other: Level) -> bool:
        """Return whether a new Pod of this level may preempt Pods of the other.

        Source: upstream `SelectVictimsOnNode`.
        """
        return bool(self.preempts) and other.value < self.value


class Levels(NamedTuple):
    """All levels (PriorityClasses with a value), highest first.

    `could_displace`: for each level, the sum of all running Pods that its new Pods may preempt. `allocatable`: of all
    nodes.
    """

    levels: Sequence[Level]
    could_displace: Sequence[Requested]
    allocatable: Requested

    def cells(self, level: Level) -> list[int]:
        """Return [level]: the number of running Pods of each level that a new Pod of the given level may preempt."""
        return [other.running.pods if level.may_preempt(other) else 0 for other in self.levels]


def priority_levels(cluster: ClusterSnapshot) -> Levels:
    """Return the levels of a cluster: its PriorityClasses, and other priorities of its Pods."""
    running: dict[tuple[str, int], Requested] = {}
    pending: dict[tuple[str, int], int] = {}
    unknown = cluster.objects.pods_on_unknown_nodes
    for pod in cluster.pods.values():
        key = pod.priority_class_name, pod.effective_priority
        if pod.terminal or pod.node_name in unknown:
            continue
        if pod.node_name:
            running[key] = running.get(key, Requested()).plus(_of(pod))
        else:
            pending[key] = pending.get(key, 0) + 1
    default = default_priority_class(cluster.priority_classes.values())
    current = {(c.name, c.value): c.preemption_policy != PREEMPT_NEVER for c in cluster.priority_classes.values()}
    if default is None:
        current["", 0] = True
    levels = [
        Level(
            name=name,
            value=value,
            preempts=current.get((name, value)),
            is_default=default is not None and (name, value) == (default.name, default.value),
            running=running.get((name, value), Requested()),
            pending=pending.get((name, value), 0),
        )
        for name, value in {*running, *pending, *current}
    ]
    levels.sort(key=lambda level: (-level.value, level.name))
    return Levels(levels, [_displaced(level, levels) for level in levels], _allocatable(cluster))


def _of(pod: Pod) -> Requested:
    requests = pod.occupies.resource
    return Requested(1, requests.milli_cpu, requests.memory)


def _displaced(level: Level, levels: Iterable[Level]) -> Requested:
    total = Requested()
    for other in levels:
        if level.may_preempt(other):
            total = total.plus(other.running)
    return total


def _allocatable(cluster: ClusterSnapshot) -> Requested:
    nodes = [node.allocatable for node in cluster.objects.nodes.values()]
    return Requested(
        sum(each.allowed_pod_number for each in nodes),
        sum(each.milli_cpu for each in nodes),
        sum(each.memory for each in nodes),
    )


def as_dict(levels: Levels) -> dict[str, Any]:
    """Return the levels as a JSON object."""
    return {
        "allocatable": _requested(levels.allocatable),
        "classes": [
            {
                "class": level.name,
                "value": level.value,
                "globalDefault": level.is_default,
                "newPods": None if level.preempts is None else {"preempt": level.preempts},
                "running": _requested(level.running),
                "pending": level.pending,
                "couldDisplace": _requested(displaced),
                "mayPreempt": [
                    {"class": other.name, "value": other.value, "pods": count}
                    for other, count in zip(levels.levels, levels.cells(level), strict=True)
                    if count
                ],
            }
            for level, displaced in zip(levels.levels, levels.could_displace, strict=True)
        ],
    }


def _requested(requested: Requested) -> dict[str, int]:
    return {"pods": requested.pods, "milliCpu": requested.milli_cpu, "memory": requested.memory}
