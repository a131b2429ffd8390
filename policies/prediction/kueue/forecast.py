"""What Kueue does with a Workload, and with new and suspended Jobs: admit it, preempt others for it, or let it wait. A
cluster with Kueue: its queues, the quota in use, and what follows a scheduling cycle.

Source: kueue pkg/cache (queue and scheduler), pkg/controller/core/workload_controller.go (`Update`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import ObjectRef, quote
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, seconds_of
from forewarn.policies.kubernetes.kinds.registry import LOCAL_QUEUE, QUEUE_LABEL
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.kubernetes.objects.kueue import GROUP, NONE, Admission, ClusterQueue, PodSetAssignment, Workload
from forewarn.policies.prediction.kueue.scheduler import Cycle, Entry, Outcome, PendingQueue, RequeueReason
from forewarn.policies.prediction.kueue.snapshot import Held, Snapshot, cohorts_with_cycle, take_snapshot
from forewarn.policies.prediction.kueue.workload import (
    Info,
    resources_fault,
    with_adjusted_resources,
    workload_from_job,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.kueue.flavor_assigner import Assignment, WhyNot
    from forewarn.policies.prediction.kueue.preemption import Target
    from forewarn.policies.prediction.kueue.snapshot import CohortSnapshot, Objects


_MIN_CYCLES: Final = 50
"""Minimum number of cycles before preemption is reported as endless."""
_MAX_TRIED: Final = 1_000_000
"""Maximum product of the numbers of cycles and Workloads: each cycle reads all Workloads."""
_UNCHANGED_CYCLES: Final = 6
"""Number of consecutive cycles without a change after which the state counts as final."""


class Manager:
    """Runs scheduling cycles. `evicted`: keys of Workloads that lost their quota.

    Kueue iterates over maps, so chance decides between equal ClusterQueues, Cohorts and their heads. `is_reversed`:
    whether they are in reverse order of their names instead of in order.
    """

    def __init__(self, objects: Objects, now: float, *, is_reversed: bool = False) -> None:
        self._objects, self._is_reversed = objects, is_reversed
        self.now = now
        self.active = objects.active_cluster_queues()
        self.queues = {name: PendingQueue(spec) for name, spec in objects.cluster_queues.items()}
        self._held = {name: Held() for name in objects.cluster_queues}
        self.evicted: set[str] = set()
        self._is_unchanged = False
        charge(len(objects.workloads))
        for key, workload in sorted(objects.workloads.items()):
            charge(20)
            if workload.has_quota:
                self._hold(Info.from_workload(workload, ""))
            elif workload.is_active and workload.is_queueable and (queue := self._queue_of(workload)) is not None:
                queue.heap[key] = self._waiting(workload)

    @property
    def holders(self) -> dict[str, Info]:
        """The Workloads with quota, by key."""
        return {key: info for held in self._held.values() for key, info in held.workloads.items()}

    def _hold(self, info: Info) -> None:
        """Add a Workload with quota, or replace it."""
        self._held.setdefault(info.cluster_queue, Held()).replace(info.key, info)

    def _queue_of(self, workload: Workload) -> PendingQueue | None:
        local_queue = self._objects.local_queue_of(workload)
        return self.queues.get(local_queue.cluster_queue) if local_queue else None

    def _waiting(self, workload: Workload) -> Info:
        local_queue = self._objects.local_queue_of(workload)
        ranges = self._objects.limit_ranges.get(workload.namespace, ())
        workload = with_adjusted_resources(workload, ranges, self._objects.configuration)
        return Info.from_workload(workload, local_queue.cluster_queue if local_queue else "")

    def snapshot(self) -> Snapshot:
        objects = self._objects
        return take_snapshot(
            objects.cluster_queues,
            objects.cohorts,
            objects.flavors,
            self._held,
            self.active,
            is_reversed=self._is_reversed,
        )

    def cycle(self) -> list[Entry]:
        """Run one cycle and what follows it within a second. Return the entries that it decided, in order."""
        snapshot = self.snapshot()
        heads = [
            head
            for name in sorted(self.active, reverse=self._is_reversed)
            if (head := self.queues[name].pop()) is not None
        ]
        faults = {head.key: fault for head in heads if (fault := self._fault(head)) is not None}
        entries = Cycle(snapshot, self.now, self._objects.configuration).schedule(heads, faults)
        for entry in entries:
            if entry.outcome is not Outcome.ADMITTED:
                self.queues[entry.cq.name].requeue(entry.info, entry.requeue_reason, self.now)
        for entry in sorted(entries, key=lambda entry: entry.info.key):
            self._update(entry)
        self.now += 1
        self._release(snapshot)
        return entries

    def _fault(self, info: Info) -> tuple[str, RequeueReason] | None:
        """Return why a cycle does not try a head, and its requeue reason. Source: `ValidateAdmissibility`."""
        if info.obj.namespace not in self._objects.namespaces:
            return f'workload namespace "{info.obj.namespace}" does not exist', RequeueReason.GENERIC
        if not self._matches_namespace(info):
            return "workload namespace doesn't match ClusterQueue selector", RequeueReason.NAMESPACE_MISMATCH
        fault = resources_fault(info.obj, self._objects.limit_ranges.get(info.obj.namespace, ()))
        return None if fault is None else (fault, RequeueReason.GENERIC)

    def _matches_namespace(self, info: Info) -> bool:
        selector = self._objects.cluster_queues[info.cluster_queue].namespace_selector
        labels = self._objects.namespaces.get(info.obj.namespace)
        return selector is not None and labels is not None and selector.matches(labels)

    def _update(self, entry: Entry) -> None:
        """Deliver the new status of a head and of the Workloads that it preempts."""
        workload, cq = entry.info.obj, entry.cq.name
        if entry.outcome is Outcome.ADMITTED:
            admission = _admission(cq, entry.assignment)
            workload = replace(workload, admission=admission, reserved_at=int(self.now), is_evicted=False, message=None)
            self._hold(Info.from_workload(workload, cq))
            self.queues[cq].delete(workload.key)
            self._held[cq].generation += 1
        elif workload.message != entry.message:
            # the queue gets a new copy, which has no flavor to try next
            self.queues[cq].push_or_update(Info.from_workload(replace(workload, message=entry.message), cq), self.now)
        for target in entry.targets if entry.outcome is Outcome.PREEMPTING else ():
            if not target.info.obj.is_evicted:
                self._hold(Info.from_workload(replace(target.info.obj, is_evicted=True), target.info.cluster_queue))
                self._held[target.info.cluster_queue].generation += 1

    def _release(self, snapshot: Snapshot) -> None:
        """Release the quota of evicted Workloads, and queue them and inadmissible Workloads again."""
        freed: set[str] = set()
        charge(len(self.queues) + sum(len(held.workloads) for held in self._held.values()) // 4)
        evicted = {key: info for key, info in self.holders.items() if info.obj.is_evicted}
        for key, info in sorted(evicted.items()):
            self.evicted.add(key)
            held = self._held[info.cluster_queue]
            held.replace(key, None)
            held.generation += 1
            waiting = replace(info.obj, admission=None, reserved_at=None, message="")
            if (queue := self._queue_of(waiting)) is not None:
                info = self._waiting(waiting)
                queue.push_or_update(info, self.now)
                freed.add(info.cluster_queue)
        for name in _queues_in_trees(freed, snapshot):
            self.queues[name].queue_inadmissible(self._matches_namespace, self.now)

    def cycles(self) -> Iterator[list[Entry]]:
        """Run cycles until nothing changes any more (then `is_quiet` is true). Yields the entries that each cycle
        decided.

        Stops earlier after two cycles for each waiting Workload (one to preempt, one to be admitted) and some more.
        """
        unchanged, before = 0, self._state()
        waiting = sum(len(queue.heap) for queue in self.queues.values())
        affordable = _MAX_TRIED // (1 + waiting + len(self.holders))
        for _ in range(max(_MIN_CYCLES, min(_MIN_CYCLES + 2 * waiting, affordable))):
            if self.is_quiet:
                return
            yield self.cycle()
            state = self._state()
            unchanged = unchanged + 1 if state == before else 0
            before = state
            self._is_unchanged = unchanged == _UNCHANGED_CYCLES

    @property
    def is_quiet(self) -> bool:
        """Whether cycles change nothing any more."""
        return self._is_unchanged or not any(self.queues[name].heap for name in self.active)

    def _state(self) -> tuple[object, ...]:
        waiting = ((frozenset(queue.heap), frozenset(queue.inadmissible)) for queue in self.queues.values())
        return frozenset(self.holders), tuple(waiting)


def _admission(cluster_queue: str, assignment: Assignment) -> Admission:
    """Return the quota of an admitted head. Source: `Assignment.ToAPI`."""
    return Admission(
        cluster_queue,
        tuple(
            PodSetAssignment(
                each.name,
                {resource: flavor.name for resource, flavor in each.flavors.items()},
                {resource: each.requests[resource] for resource in each.flavors},
                each.count,
            )
            for each in assignment.pod_sets
        ),
    )


def _queues_in_trees(names: Iterable[str], snapshot: Snapshot) -> list[str]:
    """Return the ClusterQueues that are in the same trees of cohorts as these, in order."""
    nodes = [snapshot.cluster_queues[name] for name in names if name in snapshot.cluster_queues]
    alone = {node.name for node in nodes if node.parent is None}
    roots: set[CohortSnapshot] = {node.parent.root for node in nodes if node.parent is not None}
    return sorted(
        name
        for name, node in snapshot.cluster_queues.items()
        if name in alone or (node.parent is not None and node.parent.root in roots)
    )


@dataclass(frozen=True)
class QueueForecast:
    """What Kueue decides about a Workload.

    `cluster_queue`: None if it is not known. `admission`: its quota; None if it waits. `targets`: Workloads that it
    preempts. `reasons`: why no flavor fits. `message`: another reason to wait, or None. `ahead`: Workloads that wait
    before it. `not_predicted`: why forewarn does not predict it, or None.
    """

    workload: Workload
    cluster_queue: str | None
    admission: Admission | None = None
    targets: Sequence[Target] = ()
    message: str | None = None
    reasons: Sequence[WhyNot] = ()
    ahead: Sequence[Workload] = ()
    not_predicted: str | None = None


def forecast(
    objects: Objects, workloads: Sequence[Workload], now: float, *, is_reversed: bool = False
) -> list[QueueForecast]:
    """Predict what Kueue does with waiting Workloads, whether `objects` contain them or not. Runs cycles until all of
    them are admitted, or nothing changes any more. Workloads of one apply are queued in their order. `is_reversed`: as
    for `Manager`.
    """
    forecasts: dict[str, QueueForecast] = {}
    queues: dict[str, ClusterQueue] = {}
    for workload in workloads:
        try:
            queue = _cluster_queue_of(objects, workload)
        except InvalidObject as fault:
            forecasts[workload.key] = QueueForecast(workload, None, message=str(fault))
            continue
        if reason := _not_modelled(objects, workload, queue):
            forecasts[workload.key] = QueueForecast(workload, queue.name, not_predicted=f"{reason} not modelled")
        elif stopped := _stopped(objects, workload, queue):
            forecasts[workload.key] = QueueForecast(workload, queue.name, message=stopped)
        else:
            queues[workload.key] = queue
    if queues:
        waiting = {each.key: each for each in workloads if each.key in queues}
        try:
            forecasts |= _run(objects, waiting, queues, now, is_reversed=is_reversed)
        except TooLarge as why:
            problem = why.excess.problem
            forecasts |= {
                key: QueueForecast(each, queues[key].name, not_predicted=problem) for key, each in waiting.items()
            }
    return [forecasts[workload.key] for workload in workloads]


def forecast_alone(objects: Objects, workload: Workload) -> QueueForecast:
    """Return what Kueue does with a Workload if no other one waits or holds quota, and before admission checks: without
    quota then, it never starts.
    """
    queues = {name: replace(queue, admission_checks=()) for name, queue in objects.cluster_queues.items()}
    return forecast(replace(objects, cluster_queues=queues, workloads={}), [workload], 0)[0]


def _run(
    objects: Objects,
    workloads: Mapping[str, Workload],
    queues: Mapping[str, ClusterQueue],
    now: float,
    *,
    is_reversed: bool,
) -> dict[str, QueueForecast]:
    within = objects.restrict_to_trees(queues.values())
    manager = Manager(replace(within, workloads={**within.workloads, **workloads}), now, is_reversed=is_reversed)
    targets: dict[str, dict[str, Target]] = {key: {} for key in workloads}
    last: dict[str, Entry] = {}
    admissions: dict[str, Admission | None] = {}
    for entries in manager.cycles():
        for entry in entries:
            key = entry.info.key
            if key in workloads:
                last[key] = entry
                if entry.outcome is Outcome.PREEMPTING:
                    targets[key] |= {target.info.key: target for target in entry.targets}
                elif entry.outcome is Outcome.ADMITTED:
                    admissions.setdefault(key, manager.holders[key].obj.admission)
        if len(admissions) == len(workloads):
            break
    forecasts = {}
    for key, workload in workloads.items():
        result = QueueForecast(workload, queues[key].name, admissions.get(key), [*targets[key].values()])
        if result.admission is None and not manager.is_quiet:
            result = QueueForecast(workload, result.cluster_queue, not_predicted=_NOT_QUIET)
        elif result.admission is None:
            order = [info.obj for info in manager.queues[queues[key].name].sorted_workloads()]
            ahead = order[: next((index for index, each in enumerate(order) if each.key == key), 0)]
            result = replace(result, ahead=ahead, **_why(last.get(key)))
        forecasts[key] = result
    return forecasts


_NOT_QUIET: Final = "too many Workloads to try, or preemption goes round in circles"


def _why(entry: Entry | None) -> Mapping[str, Any]:
    """Return the fields that tell why a cycle did not admit a Workload."""
    if entry is None:
        return {}
    reasons = [reason for pod_set in entry.assignment.pod_sets for reason in pod_set.reasons]
    return {"reasons": list(dict.fromkeys(reasons)), "message": None if reasons else entry.message}


def _cluster_queue_of(objects: Objects, workload: Workload) -> ClusterQueue:
    """Return the ClusterQueue of a Workload. Raises InvalidObject if there is none, or it can never admit anything."""
    name = f"{workload.namespace}/{workload.queue_name}"
    local_queue = objects.local_queues.get(name)
    if local_queue is None:
        fix = f"create it, or change the label {QUEUE_LABEL}"
        raise InvalidObject(f"LocalQueue {quote(name)} does not exist", fix=fix)
    ref = ObjectRef(f"{GROUP}/v1beta2", LOCAL_QUEUE.rpartition("/")[2], local_queue.namespace, local_queue.name)
    queue = objects.cluster_queues.get(local_queue.cluster_queue)
    if queue is None:
        problem = f"ClusterQueue {quote(local_queue.cluster_queue)} does not exist"
        raise InvalidObject(problem, ("spec", "clusterQueue"), ref, "create it, or change clusterQueue")
    missing = sorted({flavor for flavor in queue.flavors if flavor not in objects.flavors})
    if missing:
        problem = f"ClusterQueue {quote(queue.name)} is inactive: ResourceFlavor {quote(missing[0])} does not exist"
        raise InvalidObject(problem, (), ref, "create it, or remove it from the ClusterQueue")
    if queue.cohort in cohorts_with_cycle(objects.cohorts):
        problem = f"ClusterQueue {quote(queue.name)} is inactive: Cohort {quote(queue.cohort)} is in a cycle of parents"
        raise InvalidObject(problem, (), ref, "remove the parentName of one of them")
    return queue


def _stopped(objects: Objects, workload: Workload, queue: ClusterQueue) -> str | None:
    if objects.local_queue_of(workload) is None:
        return f"LocalQueue {workload.namespace}/{workload.queue_name} is stopped"
    return f"ClusterQueue {queue.name} is stopped" if queue.stop_policy != NONE else None


def _not_modelled(objects: Objects, workload: Workload, queue: ClusterQueue) -> str | None:
    """Return which part of a Workload or its ClusterQueue forewarn does not model; None if it models everything."""
    if reason := objects.configuration.not_modelled or workload.not_modelled:
        return reason
    if queue.admission_checks:
        return f"admission checks ({queue.admission_checks[0]})"
    has_topology = any(objects.flavors[flavor].topology for flavor in queue.flavors)
    return "topology-aware scheduling" if has_topology else None


def forecast_jobs(
    cluster: ClusterSnapshot, objects: Objects, jobs: Sequence[ApiObject], *, is_reversed: bool = False
) -> list[QueueForecast | InvalidObject]:
    """Return what Kueue does with each Job of one apply, or why it creates no Workload for it.

    `is_reversed`: as for `Manager`.
    """
    charge(len(objects.workloads))
    now = time_of(cluster, objects)
    stored = {(each.namespace, each.owner): each for each in objects.workloads.values()}
    forecasts: dict[int, QueueForecast | InvalidObject] = {}
    workloads: dict[int, Workload] = {}
    for index, job in enumerate(jobs):
        try:
            workload = workload_from_job(job, cluster, now, index)
        except InvalidObject as fault:
            forecasts[index] = fault
            continue
        existing = stored.get((workload.namespace, workload.owner))
        if existing is None:
            workloads[index] = workload
        elif existing.has_quota:
            queue = existing.admission.cluster_queue if existing.admission else None
            forecasts[index] = QueueForecast(existing, queue, existing.admission)
        else:
            workloads[index] = replace(existing, priority=workload.priority, pod_sets=workload.pod_sets)
    forecasts |= dict(
        zip(workloads, forecast(objects, [*workloads.values()], now, is_reversed=is_reversed), strict=True)
    )
    return [forecasts[index] for index in range(len(jobs))]


def time_of(cluster: ClusterSnapshot, objects: Objects) -> int:
    """Return the time of a cluster state in seconds since 1970, after the creation of all Workloads."""
    newest = max((workload.created for workload in objects.workloads.values()), default=0)
    return max(int(seconds_of(cluster.origin)), newest + 1)


def pods_of(workload: Workload, cluster: ClusterSnapshot) -> Iterator[Pod]:
    """Yield the Pods of a Workload of a Job."""
    for pod in cluster.pods_of(workload.namespace).values():
        owner = None if pod.owner is None or pod.terminal else (pod.owner_kind, pod.owner.name)
        if owner is not None and owner == workload.owner and pod.node_name:
            yield pod


def count_pods(workload: Workload, cluster: ClusterSnapshot) -> int:
    """Return the number of Pods that a Workload has, or should have if they are not known."""
    if workload.owner is not None:
        return sum(1 for _ in pods_of(workload, cluster))
    return sum(pod_set.count for pod_set in workload.pod_sets)
