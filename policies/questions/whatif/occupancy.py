"""Record the Pods on each node over the time of a simulation, or before and after a placement: the data of the
pictures.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.prediction.simulation.summary import Names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.simulation.api_server import Change
    from forewarn.policies.prediction.simulation.simulation import Simulation

BEFORE: Final = -inf
"""The start of intervals that have begun before time 0."""
SCHEDULABLE, CORDONED, REMOVED = range(3)
AT: Final = 1.0
"""The time of all changes in seconds: a placement has only one time at which victims terminate and new Pods start."""


class PodInterval(NamedTuple):
    """A Pod on a node, in seconds from `start` to `end` (infinity for a Pod that stays).

    `group`: displayed name of the top-level workload, or of the Pod itself; `kind`: the kind of this object.
    `milli_cpu` (thousandths) and `memory` (bytes): requests as kube-scheduler counts them.
    """

    pod: str
    node: str
    group: str
    namespace: str
    priority: int
    priority_class: str
    milli_cpu: int
    memory: int
    start: float
    end: float
    kind: str = ""


class NodeChange(NamedTuple):
    """A change of a node's state at `t` seconds.

    `state`: SCHEDULABLE, CORDONED or REMOVED.
    """

    t: float
    node: str
    state: int


class Occupancy:
    """Records the Pods on each node of a simulation from its start.

    `nodes`: all nodes by name, in the order of creation.
    """

    def __init__(self, simulation: Simulation) -> None:
        api = simulation.api
        self._api, self._clock, self._origins = api, simulation.clock, simulation.timeline.origins
        self._ended: list[PodInterval] = []
        self._open: dict[str, PodInterval] = {}
        self.nodes: dict[str, Node] = {}
        self.node_changes: list[NodeChange] = []
        for node in api.nodes.values():
            self._note(node.name, node, BEFORE)
        for state in api.pods.values():
            self._follow(state.pod, BEFORE)
        api.watchers.append(self._watch)

    @property
    def intervals(self) -> Sequence[PodInterval]:
        """The Pods' intervals on nodes: first those that have ended, in order of their end, then the others."""
        names = Names(origin.workload for origin in self._origins.values())
        intervals = (*self._ended, *self._open.values())
        named = ((interval, names.name_of((interval.kind, interval.group))) for interval in intervals)
        return [interval if name == interval.group else interval._replace(group=name) for interval, name in named]

    def _watch(self, change: Change) -> None:
        if change.kind == "Pod":
            if change.new is None:
                self._close(change.old.pod.key)
            else:
                self._follow(change.new.pod, self._clock.now)
        elif change.kind == "Node":
            self._note((change.new or change.old).name, change.new, self._clock.now)

    def _follow(self, pod: Pod, now: float) -> None:
        if pod.terminal:
            self._close(pod.key)
        elif pod.node_name and pod.key not in self._open:
            origin = self._origins[pod.key]
            interval = _interval(pod, pod.node_name, origin.group, now, inf)
            self._open[pod.key] = interval._replace(
                priority=origin.priority, priority_class=origin.priority_class, kind=origin.kind
            )

    def _close(self, identity: str) -> None:
        interval = self._open.pop(identity, None)
        if interval is not None:
            self._ended.append(interval._replace(end=self._clock.now))

    def _note(self, name: str, node: Node | None, now: float) -> None:
        state = REMOVED if node is None else CORDONED if node.unschedulable else SCHEDULABLE
        if node is not None:
            self.nodes.setdefault(name, node)
        self.node_changes.append(NodeChange(now, name, state))


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
        infos = [info for info in cluster.scheduling.node_infos if only is None or info.node.name in only]
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
