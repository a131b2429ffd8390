"""Jobs that Kueue starts: what it decides about them, and what this means for their Pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from forewarn.policies.base.documents.answer import MAX_ROWS, AnswerStatus, Counter, Effects, Rows, Table
from forewarn.policies.base.findings import listed, plural
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, at, mapping, ref_of
from forewarn.policies.prediction.forecast.replacements import started_elsewhere
from forewarn.policies.prediction.kueue.forecast import QueueForecast, count_pods, forecast_jobs, pods_of
from forewarn.policies.prediction.kueue.snapshot import Objects, objects_of
from forewarn.policies.prediction.kueue.workload import (
    is_managed_by_kueue,
    is_managed_without_queue,
    started_job,
    with_default_local_queue,
)
from forewarn.policies.prediction.simulation.scenario import Arrival

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Sparse
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.kueue import Workload


Outcome = Literal["admitted", "preempts", "waits", "not-predicted"]
_VERSION: Final = "Kueue 0.19"


def assumed(cluster: ClusterSnapshot) -> str:
    """Return what predictions about Kueue assume."""
    is_known = bool(cluster.kueue.get(registry.KUEUE_CONFIGURATION))
    return _VERSION if is_known else f"{_VERSION} without fair sharing"


class PreemptedWorkload(NamedTuple):
    """A Workload that Kueue preempts. `pods`: the number of its Pods in the cluster. `reason`: Kueue's."""

    workload: str
    cluster_queue: str
    priority: int
    pods: int
    reason: str


class FlavorNotAssigned(NamedTuple):
    """Why a flavor is not assigned now. `flavor`: "" if none can be."""

    flavor: str
    reason: str


class QueuedJob(NamedTuple):
    """What Kueue decides about a Job. `pods`: those that it starts, of `wanted`. `flavors`: by resource. `message`: why
    the Job waits, or is not predicted; or `reasons`. `ahead`: Workloads that wait before it. `otherwise`: what else
    Kueue may do, if chance decides between equal ClusterQueues.
    """

    id: str
    outcome: Outcome
    cluster_queue: str
    wanted: int = 0
    pods: int = 0
    flavors: Sparse[Mapping[str, str]] = NOTHING
    preempted: Sparse[Sequence[PreemptedWorkload]] = ()
    message: Sparse[str] = ""
    reasons: Sparse[Sequence[FlavorNotAssigned]] = ()
    ahead: Sparse[Sequence[str]] = ()
    otherwise: Sparse[str] = ""

    @property
    def is_admitted(self) -> bool:
        return self.outcome in ("admitted", "preempts")


@dataclass(frozen=True)
class Queued:
    """The Jobs of a question that Kueue manages.

    `objects`: all objects, with these Jobs as Kueue starts them, or leaves them suspended. `cluster`: without the Pods
    of Workloads that Kueue preempts, whose Jobs it suspends (`suspended`).
    """

    jobs: Sequence[QueuedJob]
    objects: list[ApiObject]
    cluster: ClusterSnapshot
    suspended: Sequence[ApiObject] = ()


def queued_jobs(cluster: ClusterSnapshot, objects: Sequence[ApiObject]) -> Queued:
    """Predict what Kueue does with new Jobs in LocalQueues. Other objects cost little."""
    objects = [with_default_local_queue(obj, cluster) for obj in objects]
    places = [index for index, obj in enumerate(objects) if is_managed_by_kueue(obj)]
    found = objects_of(cluster) if places else None
    jobs: list[QueuedJob] = []
    changed = [*objects]
    for index, obj in enumerate(objects):
        if is_managed_without_queue(obj, cluster):
            jobs.append(QueuedJob(_name(obj), "waits", "", message=_WITHOUT_QUEUE))
            changed[index] = _with_suspend(obj)
        elif (found is None or not is_managed_by_kueue(obj)) and (started := started_elsewhere(obj, cluster)):
            is_job = is_managed_by_kueue(obj)
            message = "its LocalQueue is not in the input" if is_job else f"{ref_of(obj).kind} not modelled"
            jobs.append(QueuedJob(_name(obj), "not-predicted", "", started[0], message=message))
    if found is None:
        return Queued(jobs, changed, cluster)
    preempted: dict[str, Workload] = {}
    for index, (result, otherwise) in zip(
        places, _forecasts(cluster, found, [objects[index] for index in places]), strict=True
    ):
        job = objects[index]
        if isinstance(result, InvalidObject):
            jobs.append(QueuedJob(_name(job), "waits", "", message=str(result)))
            changed[index] = _suspended(job)
            continue
        if not result.workload.has_quota:
            jobs.append(queued_job(result, cluster, _name(job), otherwise))
            preempted |= {target.info.key: target.info.obj for target in result.targets}
        if result.admission is not None:
            changed[index] = started_job(job, result.admission.pod_sets[0], found.flavors)
        elif result.not_predicted is not None:
            changed[index] = _with_suspend(job)
        else:
            changed[index] = _suspended(job)
    return Queued(
        jobs,
        changed,
        _without_pods(cluster, preempted.values()),
        [*_suspended_jobs(cluster, preempted.values())],
    )


def _forecasts(
    cluster: ClusterSnapshot, objects: Objects, jobs: Sequence[ApiObject]
) -> Iterator[tuple[QueueForecast | InvalidObject, QueueForecast | InvalidObject | None]]:
    """Yield the forecast for each Job, and one with another order of ClusterQueues, which depends on chance."""
    forecasts = forecast_jobs(cluster, objects, jobs)
    is_alone = len(objects.cluster_queues) < 2
    yield from zip_longest(forecasts, () if is_alone else forecast_jobs(cluster, objects, jobs, is_reversed=True))


_WITHOUT_QUEUE: Final = (
    "it has no queue, and manageJobsWithoutQueueName suspends it. Fix: set the label kueue.x-k8s.io/queue-name"
)


def _suspended_jobs(cluster: ClusterSnapshot, preempted: Iterable[Workload]) -> Iterator[ApiObject]:
    """Yield the Jobs of preempted Workloads as Kueue suspends them."""
    for workload in preempted:
        kind, name = workload.owner or ("", "")
        if kind == registry.JOB and (stored := cluster.workload(kind, workload.namespace, name)) is not None:
            yield _with_suspend(stored.object)


def _without_pods(cluster: ClusterSnapshot, preempted: Iterable[Workload]) -> ClusterSnapshot:
    pods = [pod for workload in preempted for pod in pods_of(workload, cluster)]
    if not pods:
        return cluster
    identities = {pod.identity for pod in pods}
    left = {key: pod for key, pod in cluster.pods.items() if pod.identity not in identities}
    return replace(cluster.scheduled_as(cluster.scheduling.with_pods((), pods)), pods=left)


def _with_suspend(job: ApiObject) -> ApiObject:
    return {**job, "spec": {**mapping(job, "spec"), "suspend": True}}


def queued_arrivals(cluster: ClusterSnapshot, arrivals: Sequence[Arrival]) -> tuple[list[Arrival], Sequence[QueuedJob]]:
    """Return the arrivals with Jobs as Kueue starts them or leaves them suspended, and its decisions about them.

    The Jobs of preempted Workloads are suspended first. Jobs without a prediction are omitted. Later decisions of Kueue
    are not simulated.
    """
    created = [arrival for arrival in arrivals if arrival.op == "create"]
    queued = queued_jobs(cluster, [arrival.object for arrival in created])
    if not queued.jobs:
        return [*arrivals], ()
    objects = {id(arrival.object): obj for arrival, obj in zip(created, queued.objects, strict=True)}
    changed = [arrival._replace(object=objects.get(id(arrival.object), arrival.object)) for arrival in arrivals]
    changed = [arrival for arrival in changed if started_elsewhere(arrival.object, cluster) is None]
    return [*(Arrival(0.0, "create", job) for job in queued.suspended), *changed], queued.jobs


def suspended_job(cluster: ClusterSnapshot, job: ApiObject) -> QueuedJob | None:
    """Predict what Kueue does with a Job of the cluster; None if it is not suspended, or Kueue does not manage it."""
    found = objects_of(cluster) if is_managed_by_kueue(job) and at(job, "spec", "suspend") is True else None
    if found is None:
        return None
    ((each, otherwise),) = _forecasts(cluster, found, [job])
    if isinstance(each, InvalidObject):
        return QueuedJob(_name(job), "waits", "", message=str(each))
    return None if each.workload.has_quota else queued_job(each, cluster, _name(job), otherwise)


def _name(job: ApiObject) -> str:
    return str(ref_of(job, registry.DEFAULT_NAMESPACE))


def quota_without_pods(cluster: ClusterSnapshot, pending: Mapping[str, int]) -> Iterator[str]:
    """Yield how many admitted Workloads of Jobs have Pods that stay Pending. `pending`: Pods by `namespace/name`."""
    views: Iterable[Workload] = cluster.kueue.get(registry.KUEUE_WORKLOAD, {}).values()
    held = [each for each in views if each.has_quota and each.owner is not None and each.owner[0] == registry.JOB]
    pods = [number for each in held if each.owner and (number := pending.get(f"{each.namespace}/{each.owner[1]}", 0))]
    if pods:
        workloads = plural(len(pods), "Workload keeps its quota", "Workloads keep their quota")
        yield f"Kueue: {workloads} while {plural(sum(pods), 'Pod stays', 'Pods stay')} Pending"


def _suspended(job: ApiObject) -> ApiObject:
    """Return a Job that stays suspended, without its queue, so that nothing starts it."""
    labels = {key: value for key, value in mapping(job, "metadata", "labels").items() if key != registry.QUEUE_LABEL}
    return _with_suspend({**job, "metadata": {**mapping(job, "metadata"), "labels": labels}})


def queued_job(
    result: QueueForecast, cluster: ClusterSnapshot, name: str, otherwise: QueueForecast | InvalidObject | None = None
) -> QueuedJob:
    """Convert a forecast for the answer. `otherwise`: the forecast with another order of ClusterQueues."""
    job = _queued_job(result, cluster, name)
    if otherwise is None or isinstance(otherwise, InvalidObject):
        return job
    other = _queued_job(otherwise, cluster, name)
    decided, else_decided = ((each.outcome, each.pods, each.flavors, {*each.preempted}) for each in (job, other))
    return job if decided == else_decided else job._replace(otherwise=summary_of([other]))


def _queued_job(result: QueueForecast, cluster: ClusterSnapshot, name: str) -> QueuedJob:
    queue, wanted = result.cluster_queue or "", sum(pod_set.count for pod_set in result.workload.pod_sets)
    if result.not_predicted is not None:
        return QueuedJob(name, "not-predicted", queue, wanted, message=result.not_predicted)
    preempted = [
        PreemptedWorkload(
            target.info.key,
            target.info.cluster_queue,
            target.info.obj.priority,
            count_pods(target.info.obj, cluster),
            target.reason,
        )
        for target in result.targets
    ]
    if result.admission is None:
        ahead = [workload.key for workload in result.ahead]
        reasons = [FlavorNotAssigned(reason.flavor or "", reason.short) for reason in result.reasons]
        return QueuedJob(name, "waits", queue, wanted, 0, NOTHING, preempted, result.message or "", reasons, ahead)
    flavors = {
        resource: flavor for pod_set in result.admission.pod_sets for resource, flavor in pod_set.flavors.items()
    }
    pods = sum(pod_set.count or 0 for pod_set in result.admission.pod_sets)
    return QueuedJob(name, "preempts" if preempted else "admitted", queue, wanted, pods, flavors, preempted)


# The answer


def with_evicted(effects: Effects, jobs: Sequence[QueuedJob]) -> Effects:
    """Return the counters with the Pods of Workloads that Kueue preempts."""
    pods = sum({each.workload: each.pods for job in jobs for each in job.preempted}.values())
    return effects._replace(victims=effects.victims + pods, preempted=effects.preempted + pods)


def status_of(status: AnswerStatus, jobs: Sequence[QueuedJob]) -> AnswerStatus:
    """Return the status of an answer: at best NO ANSWER if Jobs are not predicted, PENDING if Jobs wait."""
    statuses = {"not-predicted": AnswerStatus.NO_ANSWER, "waits": AnswerStatus.PENDING}
    of_jobs = [statuses.get(job.outcome, AnswerStatus.OK) for job in jobs]
    return min([status, *of_jobs], key=lambda each: each.rank)


def summary_of(jobs: Sequence[QueuedJob]) -> str:
    """Return a clause about Kueue's decisions on new Jobs."""
    preempted = len({each.workload for job in jobs for each in job.preempted})
    by = f"Kueue preempts {plural(preempted, 'Workload')} and " if preempted else "Kueue "
    if len(jobs) > 1:
        unknown = sum(job.outcome == "not-predicted" for job in jobs)
        more = f", {unknown} not predicted" if unknown else ""
        return f"{by}admits {sum(job.is_admitted for job in jobs)} of {len(jobs)} Jobs{more}"
    (job,) = jobs
    if job.outcome == "not-predicted":
        return f"Kueue is not predicted ({job.message})"
    if job.is_admitted:
        part = f" with {job.pods} of {job.wanted} Pods" if job.pods < job.wanted else ""
        return f"{by}admits it{part} ({_flavors(job)})"
    if not job.cluster_queue:
        return f"Kueue does not start it: {job.message.partition('. Fix: ')[0]}"
    behind = f" behind {plural(len(job.ahead), 'Workload')}" if job.ahead else ""
    return f"{by}does not admit it: it waits{behind} in ClusterQueue {job.cluster_queue}"


def clause_of(jobs: Sequence[QueuedJob], clause: str) -> str:
    """Return the consequence for Jobs, followed by the consequence for their Pods, which is `clause`."""
    if not jobs or (len(jobs) == 1 and jobs[0].outcome == "waits"):
        return summary_of(jobs) if jobs else clause
    return f"{summary_of(jobs)}; {clause}"


def _flavors(job: QueuedJob) -> str:
    names = sorted({*job.flavors.values()})
    return f"{'flavor' if len(names) == 1 else 'flavors'} {listed(names, 2)}"


def warnings_of_jobs(jobs: Sequence[QueuedJob]) -> Iterator[str]:
    """Yield why Jobs wait although no flavor could help, and which decisions depend on chance."""
    for job in jobs:
        if job.otherwise:
            yield f"chance decides between equal ClusterQueues: for {job.id}, {job.otherwise} instead"
    yield from dict.fromkeys(job.message for job in jobs if job.message and job.outcome == "waits")


def counters_of_jobs(jobs: Sequence[QueuedJob]) -> Iterator[Counter]:
    """Yield counters of Workloads, which are shown with the other counters."""
    preempted = {each.workload for job in jobs for each in job.preempted}
    yield Counter("Workloads preempted", len(preempted), optional=True)
    yield Counter("Jobs waiting", sum(job.outcome == "waits" for job in jobs), optional=True)


def tables_of_jobs(jobs: Sequence[QueuedJob]) -> Iterator[Table]:
    """Yield tables of the Jobs with Kueue's decisions, of waiting reasons, and of the Workloads that it preempts."""
    order = ("waits", "not-predicted", "preempts", "admitted")
    rows: Rows
    if len(jobs) > 1:
        rows = [
            [job.id.removeprefix("Job "), job.cluster_queue, job.outcome, job.pods, _flavors(job) * job.is_admitted]
            for job in sorted(jobs, key=lambda job: order.index(job.outcome))
        ]
        yield Table(("JOB", "CLUSTERQUEUE", "KUEUE", "PODS", "WITH"), rows)
    if why := list(dict.fromkeys(each for job in jobs for each in job.reasons)):
        yield Table(("FLAVOR", "WHY NOT"), [[*each] for each in why])
    if ahead := list(dict.fromkeys(each for job in jobs for each in job.ahead)):
        yield Table(("WAITS BEHIND",), [[each] for each in ahead], detail=int(len(ahead) > MAX_ROWS))
    preempted = {each.workload: each for job in jobs for each in job.preempted}
    if preempted:
        rows = [[*each] for each in sorted(preempted.values(), key=lambda each: (-each.pods, each.workload))]
        heads = ("PREEMPTED WORKLOAD", "CLUSTERQUEUE", "PRIORITY", "PODS", "REASON")
        yield Table(heads, rows, detail=int(len(rows) > MAX_ROWS))
