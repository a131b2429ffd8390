"""Which Pods may preempt each other, by PriorityClass: each class's requests, and the Pods that it could displace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.cluster.cache import ClusterSnapshot, Result, head_of
from forewarn.policies.findings import described, listed
from forewarn.policies.kube_apiserver.priority import default_priority_class
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.scheduling.event_handlers import is_pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.pod import Pod


class Requested(NamedTuple):
    """A number of Pods and the sum of their requests: CPU in thousandths, memory in bytes."""

    pods: int = 0
    milli_cpu: int = 0
    memory: int = 0

    def plus(self, other: Requested) -> Requested:
        return Requested(self.pods + other.pods, self.milli_cpu + other.milli_cpu, self.memory + other.memory)


class NewPodsOfClass(NamedTuple):
    """Whether new Pods of a PriorityClass may preempt."""

    preempt: bool


class PreemptablePods(NamedTuple):
    """The number of running Pods with a PriorityClass and value."""

    class_: str
    value: int
    pods: int


class PriorityLevel(NamedTuple):
    """A PriorityClass (empty: none) with a priority value.

    `newPods`: whether new Pods may preempt; null if new Pods do not get this value. `running`: running Pods and their
    requests. `pending`: number of Pods Pending for kube-scheduler. `couldDisplace`: running Pods of lower priority that
    a new Pod may preempt. `mayPreempt`: these Pods by class and value.
    """

    class_: str
    value: int
    global_default: bool
    new_pods: NewPodsOfClass | None
    running: Requested
    pending: int
    could_displace: Requested
    may_preempt: Sequence[PreemptablePods]


@dataclass(frozen=True)
class Classes(Result):
    """The output of `forewarn classes`. `allocatable`: the sum of all nodes. `classes`: the highest value first.
    `pendingOfOtherSchedulers`: number of Pods, which `classes` omits.
    """

    allocatable: Requested
    classes: Sequence[PriorityLevel]
    pending_of_other_schedulers: int = 0

    def __repr__(self) -> str:
        return described(self, listed([f"{level.class_ or 'no class'} ({level.value})" for level in self.classes]))


def priority_levels(cluster: ClusterSnapshot) -> Classes:
    """Return the PriorityClasses of a cluster, and other priorities of its Pods.

    Source of what may be preempted: upstream `SelectVictimsOnNode`.
    """
    running: dict[tuple[str, int], Requested] = {}
    pending: dict[tuple[str, int], int] = {}
    unknown = cluster.objects.pods_on_unknown_nodes
    for pod in cluster.pods.values():
        key = pod.priority_class_name, pod.effective_priority
        if pod.terminal or pod.node_name in unknown:
            continue
        if pod.node_name:
            running[key] = running.get(key, Requested()).plus(_of(pod))
        elif is_pending(pod, cluster.semantics.scheduler_names):
            pending[key] = pending.get(key, 0) + 1
    default = default_priority_class(cluster.priority_classes.values())
    current = {(c.name, c.value): c.preemption_policy != PREEMPT_NEVER for c in cluster.priority_classes.values()}
    if default is None:
        current["", 0] = True
    keys, levels = sorted({*running, *pending, *current}, key=lambda key: (-key[1], key[0])), []
    for key in keys:
        preempts = current.get(key)
        lower = [other for other in keys if other in running and other[1] < key[1]] if preempts else []
        levels.append(
            PriorityLevel(
                *key,
                global_default=default is not None and key == (default.name, default.value),
                new_pods=None if preempts is None else NewPodsOfClass(preempts),
                running=running.get(key, Requested()),
                pending=pending.get(key, 0),
                could_displace=reduce(Requested.plus, (running[other] for other in lower), Requested()),
                may_preempt=[PreemptablePods(*other, running[other].pods) for other in lower],
            )
        )
    others = len(cluster.waiting_pods) - sum(pending.values())
    return Classes(head_of(cluster), _allocatable(cluster), levels, others)


def _of(pod: Pod) -> Requested:
    requests = pod.occupies.resource
    return Requested(1, requests.milli_cpu, requests.memory)


def _allocatable(cluster: ClusterSnapshot) -> Requested:
    nodes = (node.allocatable for node in cluster.objects.nodes.values())
    amounts = (Requested(node.allowed_pod_number, node.milli_cpu, node.memory) for node in nodes)
    return reduce(Requested.plus, amounts, Requested())
