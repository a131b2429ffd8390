"""Victims: the units that preemption evicts or reprieves. A victim is a Pod, or all Pods of a PodGroup on all nodes.

Source: kubernetes `pkg/scheduler/framework/preemption/types.go` (`getCrossNodesVictims`), `util.go`
(`MoreImportantVictim`, `GetPodPriority`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot

NOW: Final = 2**62
"""The start time of a Pod without one: upstream uses the current time."""


class MissingNode(Exception):
    """The error if a Pod of a victim is on a node that no longer exists. Source: upstream `newDomainVictim`."""

    def __init__(self, node: str) -> None:
        message = f'nodeinfo not found for node name "{node}"'
        super().__init__(f'failed to get node info for node "{node}" from snapshot: {message}')


class Victim(NamedTuple):
    """Pods that preemption evicts together.

    `priority`: the priority of the Pod or of its PodGroup. `is_group`: the Pods belong to a PodGroup.
    """

    pods: tuple[Pod, ...]
    priority: int
    is_group: bool = False

    @property
    def importance(self) -> tuple[int, bool, int, int]:
        """Sort key, the most important victim first. Source: upstream `MoreImportantVictim`."""
        return -self.priority, not self.is_group, -len(self.pods), min(map(start_time, self.pods))


def pod_priority(pod: Pod, snapshot: Snapshot) -> int:
    """Return the priority by which preemption compares a Pod: the priority of its PodGroup, if preemption treats
    PodGroups as units.

    Source: upstream `GetPodPriority`.
    """
    if pod.spec.pod_group and snapshot.preempts_by_group:
        group = snapshot.objects.pod_groups.get((pod.namespace, pod.spec.pod_group))
        if group is not None:
            return group.priority
    return pod.effective_priority


def victims_on(node_infos: Iterable[NodeInfo], snapshot: Snapshot) -> list[Victim]:
    """Return all possible victims on these nodes, with their Pods on other nodes. Raises MissingNode.

    Source: upstream `getCrossNodesVictims`.
    """
    if not snapshot.preempts_by_group:
        return [Victim((pod,), pod.effective_priority) for info in node_infos for pod in info.pods]
    groups, victims = snapshot.objects.pod_groups, list[Victim]()
    keys = set[tuple[str, str]]()
    for info in node_infos:
        for pod in info.pods:
            key = pod.namespace, pod.spec.pod_group
            group = groups.get(key) if key[1] else None
            if group is None or not group.preempted_together:
                victims.append(Victim((pod,), pod_priority(pod, snapshot), bool(key[1])))
            elif key not in keys:
                keys.add(key)
                pods = snapshot.pods_of_groups[key]
                missing = next((item.node_name for item in pods if item.node_name not in snapshot.rows), "")
                if missing:
                    raise MissingNode(missing)
                victims.append(Victim(pods, group.priority, is_group=True))
    return victims


def victims_below(priority: int, node_infos: Iterable[NodeInfo], snapshot: Snapshot) -> list[Victim]:
    """Return the victims on these nodes with a priority below `priority`, including terminating ones. Raises
    MissingNode.

    Source: upstream `isPreemptionAllowed`.
    """
    return [victim for victim in victims_on(node_infos, snapshot) if victim.priority < priority]


def may_be_preempted(pod: Pod, priority: int, snapshot: Snapshot) -> bool:
    """Report whether a preemptor with this priority may preempt a Pod. Source: upstream `isPreemptionAllowed`."""
    return pod_priority(pod, snapshot) < priority


def terminating_victims(priority: int, node_info: NodeInfo, snapshot: Snapshot) -> list[Pod]:
    """Return the Pods with a priority below `priority` on this node that are terminating because of a preemption.

    Source: upstream `PodEligibleToPreemptOthers`, `isOngoingPreemption`.
    """
    return [
        pod for pod in node_info.pods if pod.terminating and pod.preempted and may_be_preempted(pod, priority, snapshot)
    ]


def victims_by_importance(victims: Sequence[Victim], semantics: Semantics) -> list[Victim]:
    """Return the victims sorted, the most important first."""
    if semantics.unstarted_victims_in_order:
        return sorted(victims, key=lambda victim: victim.importance)
    by_pod = {id(victim.pods[0]): victim for victim in victims}
    return [by_pod[id(pod)] for pod in by_importance([victim.pods[0] for victim in victims], semantics)]


def by_importance(pods: Sequence[Pod], semantics: Semantics) -> list[Pod]:
    """Sort Pods without PodGroups by priority, then by start time, the earliest first. Source: `MoreImportantPod`.

    Upstream uses the current time for a Pod that has not started. In releases that read the time for each comparison,
    the order of such Pods is reversed; in releases that read the time once for each Pod, their order does not change.
    """
    if semantics.unstarted_victims_in_order or all(pod.start_time is not None for pod in pods):
        return sorted(pods, key=importance)
    return [
        pod
        for _, pod in sorted(
            enumerate(pods), key=lambda item: (*importance(item[1]), 0 if item[1].start_time is not None else -item[0])
        )
    ]


def importance(pod: Pod) -> tuple[int, int]:
    """Return the sort key of a Pod without a PodGroup; the most important Pod is first."""
    return -pod.effective_priority, start_time(pod)


def start_time(pod: Pod) -> int:
    """Return the start time in seconds since 1970; NOW for a Pod that has not started."""
    return NOW if pod.start_time is None else pod.start_time
