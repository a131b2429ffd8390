"""Predict the cascade after a preemption: where the replacements of victims are scheduled, and which Pods they preempt
in turn.

Runs scheduling cycles in the order in which victims terminate and controllers create Pods: few enough for an admission
response. Only the first Pending Pods take part (`pending_in_order`). A replacement that a quota rejects is retried
after each termination. In contrast to a simulation, steps take no time, there is no back-off except the first of a Job,
allowed disruptions of PDBs decrease and never recover, and the first of equal nodes by name is selected. Source: the
controllers in policies.controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.base.disclosure import count_range
from forewarn.policies.base.findings import listed, plural
from forewarn.policies.base.metering import CutShort, charge
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.daemon_set import on_node
from forewarn.policies.kubernetes.controllers.job import JOB_BACKOFF, only_replaces_failed
from forewarn.policies.kubernetes.controllers.own_pods import Recreator, again, has_lost_owner
from forewarn.policies.kubernetes.controllers.stateful_set import blocking_ordinal, ordinal_of
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.controllers.view import Key, controller_of
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from forewarn.policies.kubernetes.kube_apiserver.defaults import with_limit_range_defaults
from forewarn.policies.kubernetes.kube_apiserver.quota import RemainingQuota
from forewarn.policies.kubernetes.objects.extent import check_extent, check_metadata_extent
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, at, mapping
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.workload import Workload, fails_with_one_pod, selector_of
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated, responsible_for_pod
from forewarn.policies.kubernetes.scheduling.framework import CycleState
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import NodeResourcesFit
from forewarn.policies.kubernetes.scheduling.plugins.priority_sort import queue_order
from forewarn.policies.kubernetes.scheduling.preemption import may_be_preempted
from forewarn.policies.kubernetes.scheduling.responsible import (
    framework_of,
    has_constraints,
    not_predicted,
    not_scheduled,
)
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Sparse
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
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


def ahead_in_queue(pod: Pod, cluster: ClusterSnapshot) -> Iterator[str]:
    """Yield a sentence with the Pending Pods that kube-scheduler tries before this new Pod, which is behind all Pods of
    its priority. Source: upstream `plugins/queuesort/priority_sort.go`.
    """
    if (pod.namespace, pod.name) in cluster.pods:
        return
    own_key = (*queue_order(pod.effective_priority, inf), "")
    waiting_pods = [
        other
        for other in cluster.waiting_pods.values()
        if not is_gated(other, cluster.semantics)
        and responsible_for_pod(other, cluster.semantics.scheduler_names)
        and queue_key(other) < own_key
    ]
    if waiting_pods:
        names = [other.key for other in sorted(waiting_pods, key=queue_key)]
        one, many = "Pending Pod of equal or higher priority is", "Pending Pods of equal or higher priority are"
        waiting = plural(len(names), one, many)
        yield f"{waiting} ahead in the queue: {listed(names)}"


def replacement_of(pod: Pod) -> Pod:
    """Return the Pod that the controller creates to replace this Pending Pod: the same with another uid."""
    return replace(pod, uid=f"{pod.identity}+")


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
    """True if a Pending Pod may use the capacity of these deleted Pods. Raises CutShort."""
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


_AFTER_TERMINATION: Final = (STATEFUL_SET, DAEMON_SET)
"""Kinds whose controllers create the new Pod, under the same name, after the old one has terminated."""
_MAKING: Final = 100
"""Units of work to create a Pod from a template."""


def recreator_of(pod: Pod, cluster: ClusterSnapshot, recreated: Collection[str]) -> Recreator:
    """Return what recreates a deleted Pod. `recreated`: see `again`."""
    owner = controller_in(cluster, pod)
    return again(pod, recreated, is_there=owner is not None and owner in cluster.workloads)


def controller_in(cluster: ClusterSnapshot, pod: Pod) -> Key | None:
    """Return the controller of a Pod; if it is a ReplicaSet that the cluster state does not have, the Deployment that
    selects the Pod and has no other ReplicaSet.
    """
    owner = controller_of(pod)
    if owner is None or owner[0] != REPLICA_SET or owner in cluster.workloads:
        return owner
    workloads = cluster.workloads_of(pod.namespace)
    charge(len(workloads))
    complete = {workload.controller for workload in workloads.values()}
    deployments = ((key, workload.object) for key, workload in workloads.items() if key[0] == DEPLOYMENT)
    selecting = (key for key, obj in deployments if (key[0], key[2]) not in complete and _selects(obj, pod))
    return next(selecting, owner)


def _selects(deployment: ApiObject, pod: Pod) -> bool:
    try:
        selector = selector_of(deployment)
    except InvalidObject:
        return False
    return not selector.empty and selector.matches(pod.labels)


def is_recreated(pod: Pod, cluster: ClusterSnapshot, recreated: Collection[str], evicted: Collection[str]) -> bool:
    """True if a controller recreates a deleted Pod. `evicted`: identities of Pods that no longer run."""

    def runs(namespace: str, name: str) -> bool:
        state = cluster.pods.get((namespace, name))
        return state is not None and not state.terminating and not state.terminal and state.identity not in evicted

    return recreator_of(pod, cluster, recreated) is Recreator.CONTROLLER and not has_lost_owner(pod, runs)


class _Made(NamedTuple):
    """A Pod of a template. `spec`: the Pod spec as quotas count it; empty if the namespace has no quota."""

    pod: Pod
    spec: ApiObject


class Replacements:
    """The replacement Pods of one cascade. `numbers`: sequence numbers for unique names. `recreated`: see `again`."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        remaining_quota: RemainingQuota,
        numbers: Iterator[int],
        recreated: Collection[str],
    ) -> None:
        self._cluster, self._recreated = cluster, recreated
        self._remaining_quota, self._numbers = remaining_quota, numbers
        self._templates: dict[Key, _Made | None] = {}
        self._counted: dict[tuple[int, int], ApiObject] = {}
        """(milli CPU, bytes of memory) -> a Pod spec with these requests."""
        self.evicted: set[str] = set()
        """Identities of the victims so far, which recreate no Pods."""

    def replacement_for(self, victim: Pod) -> Pod | None:
        """Return the replacement of a victim; None if no controller creates one, the Job fails, or admission rejects
        it. Raises CutShort, and InvalidObject for an unreadable Job.
        """
        if not is_recreated(victim, self._cluster, self._recreated, self.evicted):
            return None
        if (job := self._job(victim)) is not None and fails_with_one_pod(job.object):
            return None
        try:
            new_pod = self._made(controller_in(self._cluster, victim))
        except CutShort:
            raise
        except InvalidObject:
            return None
        number = next(self._numbers)
        name, uid = f"{victim.name}+{number}", f"{victim.identity}+{number}"
        if new_pod is not None and victim.owner_kind not in _AFTER_TERMINATION:
            return replace(new_pod.pod, name=name, uid=uid)
        same = replace(victim, name=name, uid=uid, node_name="", nominated_node_name="", start_time=None, ready=False)
        if victim.owner_kind == DAEMON_SET and same.spec.node_affinity.required is not None:
            same = on_node(same, victim.node_name)
        if new_pod is None:
            if same.spec.too_large:
                raise CutShort(same.spec.too_large)
            return same
        return replace(
            same,
            priority=new_pod.pod.priority,
            preemption_policy=new_pod.pod.preemption_policy,
            priority_class_name=new_pod.pod.priority_class_name,
        )

    def follows_termination(self, victim: Pod) -> bool:
        """Report whether the replacement is created only after the victim has terminated. Raises InvalidObject."""
        job = self._job(victim)
        return victim.owner_kind in _AFTER_TERMINATION or (job is not None and only_replaces_failed(job.object))

    def _job(self, victim: Pod) -> Workload | None:
        key = controller_of(victim)
        return self._cluster.workload(*key) if key is not None and victim.owner_kind == JOB else None

    def _made(self, key: Key | None) -> _Made | None:
        """Return a Pod of the template after admission; None if unknown. Raises InvalidObject and CutShort."""
        if key is None:
            return None
        if key not in self._templates:
            workload = self._cluster.workload(*key)
            charge(_MAKING)
            self._templates[key] = None if workload is None else self._of_template(key[1], workload.object)
        return self._templates[key]

    def _of_template(self, namespace: str, owner: ApiObject) -> _Made:
        template = template_of(owner)
        check_extent(at(template, "spec"))
        check_metadata_extent(at(template, "metadata"))
        obj = made_of(namespace, owner, template)
        pod = admitted(obj, self._cluster)
        if not self._remaining_quota.limits(namespace):
            return _Made(pod, NOTHING)
        ranges = self._cluster.limit_ranges_of(namespace)
        return _Made(pod, mapping(with_limit_range_defaults(obj, ranges, self._cluster.semantics), "spec"))

    def as_counted(self, pod: Pod) -> ApiObject:
        """Return a Pod as an API object for quotas: the template of its workload with the PriorityClass of the Pod.

        If the workload is unknown, or its template now has other requests, the object has the requests that
        kube-scheduler counts and no limits.
        """
        try:
            new_pod = self._made(controller_in(self._cluster, pod))
        except InvalidObject:
            new_pod = None
        if new_pod is None or new_pod.pod.occupies != pod.occupies:
            counted = pod.occupies.resource.milli_cpu, pod.occupies.resource.memory
            requests = {"cpu": f"{counted[0]}m", "memory": str(counted[1])}
            made_up: ApiObject = {"containers": [{"name": "", "resources": {"requests": requests}}]}
            spec = self._counted.setdefault(counted, made_up)
        else:
            spec = new_pod.spec
        return {
            "metadata": {"namespace": pod.namespace},
            "spec": {**spec, "priorityClassName": pod.priority_class_name},
        }


MAX_CYCLES: Final = 200
"""Maximum scheduling cycles of one cascade."""
MAX_WORK: Final = 150_000
"""Maximum units of work of one cascade, if work is limited."""


class Aftermath(NamedTuple):
    """The cascade after a preemption: the fate of the victims. A missing number is 0. `incomplete`: the cascade was not
    predicted, because time or work was used up.

    `replaced`: number of victims that a controller recreates. `not_replaced`: number of other victims.
    `controller_unknown`: number of those whose controller is unknown or not in the cluster state. `preempted`: number
    of Pods that replacements preempt. `pending`: replacements that stay Pending. `rejected_by_quota`: replacements that
    a quota still rejects at the end, included in `replaced`. `pending_not_evaluated`: number of Pending Pods that were
    not evaluated.
    """

    replaced: Sparse[int] = 0
    not_replaced: Sparse[int] = 0
    preempted: Sparse[int] = 0
    cascade_depth: Sparse[int] = 0
    pending: Sparse[int] = 0
    incomplete: Sparse[bool] = False
    rejected_by_quota: Sparse[int] = 0
    pending_not_evaluated: Sparse[int] = 0
    controller_unknown: Sparse[int] = 0

    @property
    def coarse(self) -> Aftermath:
        """The lower end of a range in place of each count, without the depth and `pending_not_evaluated`."""
        lowest = Aftermath._make(count_range(number).lowest or 0 for number in self)
        return lowest._replace(incomplete=self.incomplete, cascade_depth=0, pending_not_evaluated=0)


NOT_KNOWN: Final = Aftermath(incomplete=True)


def aftermath_of(
    cluster: ClusterSnapshot,
    snapshot: Snapshot,
    preempting: Sequence[Prediction],
    own: Collection[str] = (),
    quotas_of: Callable[[str], Sequence[ResourceQuota]] | None = None,
    waiting: Waiting | None = None,
    recreated: Collection[str] = (),
) -> Aftermath:
    """Return the cascade after these predictions. Raises CutShort.

    `snapshot`: the cluster after the predictions. `own`: identities of Pods that a rollout deletes anyway; only the
    rollout recreates them. `quotas_of`: the quotas of a namespace including the new objects, by default those of the
    cluster. `waiting`: the Pending Pods, by default all of the cluster. `recreated`: see
    `again`.
    """
    going = [victim for prediction in preempting for victim in prediction.victims if not victim.terminating]
    if len(going) > MAX_CYCLES:
        raise CutShort("too many victims to follow")
    remaining_quota = RemainingQuota(quotas_of or cluster.quotas_of)
    waiting = pending_in_order(cluster) if waiting is None else waiting
    nodes = {prediction.node for prediction in preempting}
    cascade = _Cascade(cluster, snapshot, nodes, remaining_quota, waiting, recreated)
    cascade.evict(going, 0, own)
    return cascade.run()


@dataclass(slots=True)
class _Waiting:
    """A Pod without a node.

    `level`: 0 for a new Pod, 1 for the replacement of a victim of a new Pod, and so on. `is_new`: not tried yet.
    `counted`: the Pod as quotas count it; None without quotas.
    """

    pod: Pod
    level: int
    is_new: bool = True
    counted: ApiObject | None = None


class _Cascade:
    """The event loop of the cascade: victims terminate, controllers recreate Pods, the scheduler tries them."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        snapshot: Snapshot,
        nodes: Iterable[str],
        remaining_quota: RemainingQuota,
        waiting: Waiting,
        recreated: Collection[str],
    ) -> None:
        """Start without events.

        `nodes`: the nodes with victims. Pods nominated to these nodes are Pending in addition to those of `waiting`.
        """
        self._cluster, self._snapshot, self._remaining_quota = cluster, snapshot, remaining_quota
        self._recreated = recreated
        self._now = 0.0
        self._numbers = count(1)
        self._replacements = Replacements(cluster, remaining_quota, self._numbers, recreated)
        self._due: list[tuple[float, int, Pod | _Waiting]] = []
        """A heap of (time, sequence number, terminating victim or replacement)."""
        nominated = (snapshot.objects.nominated.get(name, ()) for name in nodes)
        self._waiting = [_Waiting(pod, 0, is_new=False) for pods in (*nominated, waiting.pods) for pod in pods]
        self._omitted = waiting.omitted
        self._rejected: list[_Waiting] = []
        """Pods that a quota rejected; their controllers retry."""
        self._held: list[_Waiting] = []
        """Pods of ordered StatefulSets, which the controller creates once the Pods of lower ordinals are scheduled."""
        self._cycles = 0
        self._replaced = self._lost = self._assumed = self._preempted = self._levels = 0

    def run(self) -> Aftermath:
        """Process all events in order of time and return the result. Raises CutShort."""
        while self._due:
            self._now = self._due[0][0]
            ended: list[Pod] = []
            arriving, self._rejected = self._rejected, []
            while self._due and self._due[0][0] == self._now:
                what = heappop(self._due)[2]
                if isinstance(what, _Waiting):
                    arriving.append(what)
                else:
                    ended.append(what)
            self._end(ended)
            self._let_in(self._in_order(arriving))
            self._try(freed_by(ended))
            self._let_go()
        pending, rejected = sum(waiting.level > 0 for waiting in self._waiting), len(self._rejected)
        never = len(self._held)
        return Aftermath(
            self._replaced - never,
            self._lost + never,
            self._preempted,
            self._levels,
            pending,
            rejected_by_quota=rejected,
            pending_not_evaluated=self._omitted,
            controller_unknown=self._assumed,
        )

    def evict(self, victims: Sequence[Pod], level: int, own: Collection[str] = ()) -> None:
        """Delete the victims of a preemptor of this level, and plan the creation of their replacements."""
        self._replacements.evicted.update(victim.identity for victim in victims)
        for victim in victims:
            self._evict(victim, level, is_replaced=victim.identity not in own)

    def _evict(self, victim: Pod, level: int, *, is_replaced: bool) -> None:
        if level:
            self._preempted, self._levels = self._preempted + 1, max(self._levels, level)
        deletion_time = self._now + victim.spec.termination_grace_period
        heappush(self._due, (deletion_time, next(self._numbers), victim))
        if not is_replaced:
            return
        replacement = self._replacements.replacement_for(victim)
        if replacement is None:
            self._lost += 1
            self._assumed += recreator_of(victim, self._cluster, self._recreated).is_assumption
            return
        self._replaced += 1
        kind = victim.owner_kind
        failed_at = deletion_time if self._replacements.follows_termination(victim) else self._now
        when = failed_at + (JOB_BACKOFF if kind == JOB else 0.0)
        counted = self._replacements.as_counted(replacement) if self._remaining_quota.limits(victim.namespace) else None
        heappush(self._due, (when, next(self._numbers), _Waiting(replacement, level + 1, counted=counted)))

    def _in_order(self, arriving: Iterable[_Waiting]) -> Iterator[_Waiting]:
        """Yield the Pods to create now; put the others into `_held`.

        An ordered StatefulSet creates no Pod while a Pod with a lower ordinal is Pending (`blocking_ordinal`).
        """
        for waiting in sorted(arriving, key=lambda waiting: _ordinal(waiting.pod)):
            if self._is_held(waiting.pod):
                self._held.append(waiting)
            else:
                yield waiting

    def _let_go(self) -> None:
        """Plan the creation of Pods in `_held` if the Pods with lower ordinals are scheduled."""
        held, self._held = self._held, []
        for waiting in self._in_order(held):
            heappush(self._due, (self._now, next(self._numbers), waiting))

    def _is_held(self, pod: Pod) -> bool:
        owner = pod.owner
        if owner is None or pod.owner_kind != STATEFUL_SET:
            return False
        workload = self._cluster.workload(STATEFUL_SET, pod.namespace, owner.name)
        if workload is None:
            return False
        charge(len(self._waiting))
        others = (item.pod for item in self._waiting)
        own = (_ordinal(other) for other in others if other.owner == owner and other.namespace == pod.namespace)
        blocking = blocking_ordinal(workload.object, own)
        return blocking is not None and blocking < _ordinal(pod)

    def _let_in(self, arriving: Iterable[_Waiting]) -> None:
        """Queue the Pods that no quota rejects. Rejects a Pod that equals a rejected one without another check."""
        vain: set[tuple[int, str]] = set()
        for waiting in arriving:
            pod, counted = waiting.pod, waiting.counted
            alike = id(at(counted or NOTHING, "spec", "containers")), pod.priority_class_name
            if counted is None or (alike not in vain and not self._remaining_quota.rejection(pod.namespace, counted)):
                self._waiting.append(waiting)
            else:
                vain.add(alike)
                self._rejected.append(waiting)

    def _end(self, victims: Iterable[Pod]) -> None:
        deleted: list[Pod] = []
        on_nodes: dict[str, dict[str, Pod]] = {}
        for victim in victims:
            if self._remaining_quota.limits(victim.namespace):
                self._remaining_quota.give_back(victim.namespace, self._replacements.as_counted(victim))
            name = victim.node_name
            if name not in on_nodes:
                info = self._snapshot.get(name)
                on_nodes[name] = {pod.identity: pod for pod in info.pods} if info else {}
            if (pod := on_nodes[name].get(victim.identity)) is not None:
                deleted.append(pod)
        if deleted:
            self._snapshot = self._snapshot.with_pods((), deleted)

    def _try(self, freed: Freed) -> None:
        """Schedule new Pods and Pending Pods that `freed` may help, by priority; plan evictions. Raises CutShort."""
        turn = [waiting for waiting in self._waiting if freed.nodes or waiting.is_new]
        for waiting in sorted(turn, key=lambda waiting: queue_order(waiting.pod.effective_priority, 0)):
            is_woken = waiting.is_new or waiting.pod.nominated_node_name
            if not is_woken and not may_be_helped(waiting.pod, self._snapshot, freed):
                continue
            self._cycles += 1
            if self._cycles > MAX_CYCLES:
                raise CutShort("too much comes after it")
            waiting.is_new = False
            prediction = Prediction(self._snapshot, waiting.pod)
            if prediction.unmodelled:
                raise CutShort(prediction.unmodelled)
            if prediction.outcome == "fits":
                self._waiting.remove(waiting)
            else:
                waiting.pod = prediction.pod_after
                self.evict([victim for victim in prediction.victims if not victim.terminating], waiting.level)
            self._snapshot = prediction.snapshot_after()


def _ordinal(pod: Pod) -> int:
    """Return the ordinal of a StatefulSet's Pod; -1 for other Pods."""
    owner = pod.owner
    return ordinal_of(pod.name.partition("+")[0], owner.name) if owner and pod.owner_kind == STATEFUL_SET else -1
