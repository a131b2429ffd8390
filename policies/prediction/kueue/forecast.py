"""What Kueue does with a Workload, and with new and suspended Jobs: admit it, preempt others for it, or let it wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import ObjectRef, quote
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, seconds_of
from forewarn.policies.kubernetes.kinds.registry import LOCAL_QUEUE, QUEUE_LABEL
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.kubernetes.objects.kueue import GROUP, NONE, Admission, ClusterQueue, Workload
from forewarn.policies.prediction.kueue.job import workload_from_job
from forewarn.policies.prediction.kueue.manager import Manager
from forewarn.policies.prediction.kueue.scheduler import Entry, Outcome
from forewarn.policies.prediction.kueue.snapshot import cohorts_with_cycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.kueue.flavor_assigner import WhyNot
    from forewarn.policies.prediction.kueue.preemption import Target
    from forewarn.policies.prediction.kueue.snapshot import Objects


@dataclass(frozen=True)
class QueueForecast:
    """What Kueue decides about a Workload.

    `cluster_queue`: None if it is not known. `admission`: its quota; None if it waits. `targets`: Workloads that it
    preempts. `reasons`: why no flavor fits. `message`: another reason to wait; None without one. `ahead`: Workloads
    that wait before it. `not_predicted`: why nothing is known; None if it is.
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
    """Predict what Kueue does with waiting Workloads, whether `objects` contain them or not: in cycles until all of
    them are admitted, or nothing changes any more. Workloads of one apply are queued in their order.
    `is_reversed`: as for `Manager`.
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


def _run(
    objects: Objects,
    workloads: Mapping[str, Workload],
    queues: Mapping[str, ClusterQueue],
    now: float,
    *,
    is_reversed: bool,
) -> dict[str, QueueForecast]:
    within = objects.in_trees_of(queues.values())
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
            order = [info.obj for info in manager.queues[queues[key].name].in_order()]
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
        fix = f"Fix: create it, or change the label {QUEUE_LABEL}"
        raise InvalidObject(f"LocalQueue {quote(name)} does not exist. {fix}")
    ref = ObjectRef(f"{GROUP}/v1beta2", LOCAL_QUEUE.rpartition("/")[2], local_queue.namespace, local_queue.name)
    queue = objects.cluster_queues.get(local_queue.cluster_queue)
    if queue is None:
        problem = f"ClusterQueue {quote(local_queue.cluster_queue)} does not exist"
        raise InvalidObject(f"{problem}. Fix: create it, or change clusterQueue", ("spec", "clusterQueue"), ref)
    missing = sorted({flavor for flavor in queue.flavors if flavor not in objects.flavors})
    if missing:
        problem = f"ClusterQueue {quote(queue.name)} is inactive: ResourceFlavor {quote(missing[0])} does not exist"
        raise InvalidObject(f"{problem}. Fix: create it, or remove it from the ClusterQueue", (), ref)
    if queue.cohort in cohorts_with_cycle(objects.cohorts):
        problem = f"ClusterQueue {quote(queue.name)} is inactive: Cohort {quote(queue.cohort)} is in a cycle of parents"
        raise InvalidObject(f"{problem}. Fix: remove the parentName of one of them", (), ref)
    return queue


def _stopped(objects: Objects, workload: Workload, queue: ClusterQueue) -> str | None:
    if objects.local_queue_of(workload) is None:
        return f"LocalQueue {workload.namespace}/{workload.queue_name} is stopped"
    return f"ClusterQueue {queue.name} is stopped" if queue.stop_policy != NONE else None


def _not_modelled(objects: Objects, workload: Workload, queue: ClusterQueue) -> str | None:
    """Return what of a Workload or its ClusterQueue is not modelled; None if everything is."""
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
