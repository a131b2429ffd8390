"""Pending Pods in the order of the scheduling queue, and whether the deletion of Pods may help them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import listed, plural
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated, responsible_for_pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import CycleState
from forewarn.policies.kubernetes.scheduling.not_predicted import has_constraints, not_predicted, not_scheduled
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import NodeResourcesFit
from forewarn.policies.kubernetes.scheduling.plugins.other_points import queue_order
from forewarn.policies.kubernetes.scheduling.preemption import may_be_preempted

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

MAX_PENDING: Final = 100
"""Maximum number of evaluated Pending Pods, in the order of the scheduling queue."""
_FEW_NODES: Final = 64
"""Number of nodes above which a scheduling cycle is cheaper than a check of each node."""
_LOOKING: Final = 3
"""Units of work to check a node, besides its Pods."""


class Waiting(NamedTuple):
    """Pending Pods in the order in which kube-scheduler tries them. `omitted`: number of further Pending Pods."""

    pods: tuple[Pod, ...] = ()
    omitted: int = 0

    def without(self, identities: Collection[str]) -> Waiting:
        """Return the Pending Pods without these, which count as omitted."""
        pods = tuple(pod for pod in self.pods if pod.identity not in identities)
        return Waiting(pods, self.omitted + len(self.pods) - len(pods))


def queue_key(pod: Pod) -> tuple[int, float, str]:
    """Sort key of Pending Pods, in the order of `pending_in_order`."""
    return *queue_order(pod.effective_priority, pod.created or 0), pod.key


def pending_in_order(cluster: ClusterSnapshot, excluded: Collection[str] = ()) -> Waiting:
    """Return the Pending Pods except `excluded` (identities), by priority, then by creation time. Raises CutShort.

    Nominated Pods, which wait for their victims, and gated Pods are left out. Upstream's queue sorts by the time of the
    last attempt instead of creation. Source: upstream `PrioritySort`.
    """
    charge(len(cluster.waiting_pods))
    snapshot, semantics = cluster.scheduling, cluster.semantics
    free = [
        pod
        for pod in cluster.waiting_pods.values()
        if not pod.nominated_node_name and not is_gated(pod, semantics) and pod.identity not in excluded
    ]
    first = nsmallest(MAX_PENDING, free, key=queue_key)
    ours = tuple(pod for pod in first if not not_predicted(pod, snapshot))
    unknown = sum(not not_scheduled(pod, snapshot) for pod in first) - len(ours)
    return Waiting(ours, len(free) - len(first) + unknown)


def before_in_queue(cluster: ClusterSnapshot, pod: Pod) -> Waiting | None:
    """Return the Pending Pods before a Pending Pod in the queue; none before a nominated Pod. Raises CutShort.

    None if the Pod is not among the first MAX_PENDING.
    """
    if pod.nominated_node_name:
        return Waiting()
    waiting = pending_in_order(cluster, {pod.identity})
    ahead = tuple(other for other in waiting.pods if queue_key(other) < queue_key(pod))
    is_late = len(ahead) == len(waiting.pods) and len(waiting.pods) + waiting.omitted > MAX_PENDING
    return None if is_late else Waiting(ahead)


def pods_ahead(cluster: ClusterSnapshot, priority: int) -> list[Pod]:
    """Return the Pending Pods that kube-scheduler tries before new Pods of this priority, in the order of the queue.

    New Pods are behind all Pods of their priority. Source: upstream `plugins/queuesort/priority_sort.go`.
    """
    first_new = (*queue_order(priority, inf), "")
    ahead = (
        pod
        for pod in cluster.waiting_pods.values()
        if not is_gated(pod, cluster.semantics)
        and responsible_for_pod(pod, cluster.semantics.scheduler_names)
        and queue_key(pod) < first_new
    )
    return sorted(ahead, key=queue_key)


def ahead_in_queue(pod: Pod, cluster: ClusterSnapshot) -> Iterator[str]:
    """Yield a sentence with the Pending Pods that kube-scheduler tries before this new Pod."""
    if (pod.namespace, pod.name) in cluster.pods:
        return
    if ahead := pods_ahead(cluster, pod.effective_priority):
        waiting = plural(len(ahead), "Pending Pod")
        yield f"{waiting} ahead in the queue may use the capacity first: {listed([other.key for other in ahead])}"


class Freed(NamedTuple):
    """What deleted Pods free. `nodes`: their nodes. `repelling`: those with required anti-affinity."""

    nodes: frozenset[str]
    repelling: tuple[Pod, ...]


def freed_by(deleted: Iterable[Pod]) -> Freed:
    """Return what these deleted Pods free for Pending Pods."""
    on_nodes = [pod for pod in deleted if pod.node_name]
    repelling = (pod for pod in on_nodes if pod.spec.pod_affinity.has_required_anti_affinity)
    return Freed(frozenset(pod.node_name for pod in on_nodes), tuple(repelling))


def may_be_helped(pod: Pod, snapshot: Snapshot, freed: Freed) -> bool:
    """Report whether the deletion of Pods may help a Pending Pod: one of their nodes may have enough resources, also by
    preemption, or a constraint between Pods may have excluded other nodes. Raises CutShort.

    Always True for many nodes. False if kube-scheduler does not schedule the Pod.
    """
    if not_scheduled(pod, snapshot):
        return False
    framework = framework_of(snapshot, pod)
    if len(freed.nodes) > _FEW_NODES or NodeResourcesFit.name not in framework.profile.plugins:
        return True
    if freed.nodes and (has_constraints(pod.spec, framework) or _is_repelled(pod, snapshot, freed.repelling)):
        return True
    fit = framework.plugin(NodeResourcesFit.name)
    infos = (info for name in freed.nodes if (info := snapshot.get(name)) is not None)
    return any(_may_fit(pod, info, snapshot, fit) for info in infos)


def help_pending(waiting: Waiting, snapshot: Snapshot, deleted: Sequence[Pod]) -> bool:
    """Report whether a Pending Pod may use the capacity of these deleted Pods. Raises CutShort."""
    freed = freed_by(deleted)
    return bool(waiting.omitted) or any(may_be_helped(pod, snapshot, freed) for pod in waiting.pods)


def _is_repelled(pod: Pod, snapshot: Snapshot, others: Sequence[Pod]) -> bool:
    """Report whether the required anti-affinity of one of these Pods matches the Pod."""
    charge(len(others))
    labels = snapshot.namespace_labels(pod.namespace)
    return any(
        term.matches(other.namespace, pod.namespace, pod.labels, labels)
        for other in others
        for term in other.spec.pod_affinity.required_anti_affinity
    )


def _may_fit(pod: Pod, info: NodeInfo, snapshot: Snapshot, fit: NodeResourcesFit) -> bool:
    charge(_LOOKING)
    if fit.filter(CycleState(), pod, info) is None:
        return True
    if pod.preemption_policy == PREEMPT_NEVER:
        return False
    charge(len(info.pods))
    stay = [other for other in info.pods if not may_be_preempted(other, pod.effective_priority, snapshot)]
    return len(stay) < len(info.pods) and fit.filter(CycleState(), pod, info.with_pods(stay)) is None
