"""The pods that wait in a cluster, and take the room that others leave."""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.metering import charge
from policies.objects.priority_class import PREEMPT_NEVER
from policies.scheduling.plugins.node_resources_fit import insufficient_resources
from policies.scheduling.responsible import not_predicted, not_scheduled

if TYPE_CHECKING:
    from collections.abc import Collection

    from policies.cluster import ClusterSnapshot
    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo
    from policies.scheduling.snapshot import Snapshot

MOST_WAITING: Final = 100
"""Pods that are asked, the first ones in the order in which the scheduler would try them."""
_FEW_NODES: Final = 64
"""Of more it takes longer to look at one after the other than to ask whether a pod fits anywhere."""
_LOOKING: Final = 3
"""Units that it costs to look whether one fits on a node, besides that node's pods."""


class Waiting(NamedTuple):
    """Pods in the order in which the scheduler tries them; `left_out`: how many more wait."""

    pods: tuple[Pod, ...] = ()
    left_out: int = 0


def waiting_in_turn(cluster: ClusterSnapshot, apart: Collection[str] = ()) -> Waiting:
    """Who waits for a node, `apart` from these identities: the highest priority first, then who came first.

    Those that are nominated wait for their victims, those behind a gate for somebody else. Upstream's queue has the
    time of the last attempt where this has that of creation. Source: upstream `PrioritySort`. Raises CutShort.
    """
    charge(len(cluster.waiting_pods))
    snapshot = cluster.scheduling
    free = [
        pod
        for pod in cluster.waiting_pods.values()
        if not pod.nominated_node_name and not pod.spec.gated and pod.identity not in apart
    ]
    first = nsmallest(MOST_WAITING, free, key=lambda pod: (-pod.effective_priority, pod.created or 0, pod.key))
    ours = tuple(pod for pod in first if not not_predicted(pod, snapshot))
    unknown = sum(not not_scheduled(pod, snapshot) for pod in first) - len(ours)
    return Waiting(ours, len(free) - len(first) + unknown)


def made_anew(pod: Pod) -> Pod:
    """What its controller makes in its place."""
    return replace(pod, uid=f"{pod.identity}+")


def may_be_helped(pod: Pod, snapshot: Snapshot, nodes: Collection[str]) -> bool:
    """Whether one of these nodes, on which room was made, has as much as the pod asks for, or has it less the pods that
    it may preempt; of many nodes it is taken for granted. Who fitted nowhere before fits nowhere else now, but for what
    pods say of each other. Raises CutShort."""
    if len(nodes) > _FEW_NODES:
        return True
    infos = (info for name in nodes if (info := snapshot.get(name)) is not None)
    return any(_has_room(pod, info) for info in infos)


def _has_room(pod: Pod, info: NodeInfo) -> bool:
    charge(_LOOKING)
    if not any(insufficient_resources(pod, info)):
        return True
    if pod.preemption_policy == PREEMPT_NEVER:
        return False
    charge(len(info.pods))
    stay = [other for other in info.pods if other.effective_priority >= pod.effective_priority]
    return len(stay) < len(info.pods) and not any(insufficient_resources(pod, info.with_pods(stay)))
