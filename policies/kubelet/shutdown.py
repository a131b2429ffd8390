"""Group Pods by priority for a graceful node shutdown. Source: kubernetes `pkg/kubelet/nodeshutdown`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.documents import Hidden, in_json

if TYPE_CHECKING:
    from forewarn.policies.kubelet.pods import KubeletPod


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
