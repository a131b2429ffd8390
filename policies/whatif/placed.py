"""Predicted placements in the form of a picture: the Pods on nodes before and after the placement."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from forewarn.policies.whatif.occupancy import BEFORE, CORDONED, SCHEDULABLE, NodeChange, PodInterval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod

AT: Final = 1.0
"""The time of all changes in seconds: a placement has only one time at which victims terminate and new Pods start."""


class Placed:
    """The nodes of a cluster with existing, deleted and new Pods, in the attributes that Occupancy has."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        added: Iterable[tuple[Pod, str, str]],
        ended: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> None:
        """Record the Pods before and after a placement.

        `added`: new Pods as (Pod, node, name of its workload); `ended`: identities of the Pods that end; `only`: names
        of the nodes to show, None for all.
        """
        infos = [
            node_info for node_info in cluster.scheduling.node_infos if only is None or node_info.node.name in only
        ]
        self.nodes: Mapping[str, Node] = {info.node.name: info.node for info in infos}
        self.node_changes: Sequence[NodeChange] = [
            NodeChange(BEFORE, node.name, CORDONED if node.unschedulable else SCHEDULABLE)
            for node in self.nodes.values()
        ]
        existing = ((pod, cluster.top_workload_of(pod)) for info in infos for pod in info.pods)
        self.intervals: Sequence[PodInterval] = [
            *(
                _interval(p, p.node_name, made_by, BEFORE, AT if p.identity in ended else inf)
                for p, made_by in existing
            ),
            *(_interval(pod, node, made_by, AT, inf) for pod, node, made_by in added),
        ]


def _interval(pod: Pod, node: str, group: str, start: float, end: float) -> PodInterval:
    asks = pod.occupies.resource
    return PodInterval(
        pod=pod.key,
        node=node,
        group=group,
        namespace=pod.namespace,
        priority=pod.effective_priority,
        priority_class=pod.priority_class_name,
        milli_cpu=asks.milli_cpu,
        memory=asks.memory,
        start=start,
        end=end,
    )
