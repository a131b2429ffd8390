"""A node that shuts down gracefully: which pods end together. Source: kubernetes `pkg/kubelet/nodeshutdown`."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.kubelet.pods import KubeletPod


class Group(NamedTuple):
    """Pods that end together, each within its own grace period and `seconds`; groups follow each other."""

    priority: int
    seconds: int
    pods: Sequence[KubeletPod]


def shutdown_groups(periods: Iterable[tuple[int, int]], pods: Iterable[KubeletPod]) -> list[Group]:
    """Source: `groupByPriority`. `periods`: (priority, seconds), as `shutdownGracePeriodByPodPriority` has them.

    A pod is in the group of the highest priority that is not above its own; below the lowest one, in the lowest.
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
    return [Group(priority, seconds, tuple(found)) for (priority, seconds), found in zip(ordered, members, strict=True)]
