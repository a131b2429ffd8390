"""Jobs. Source: pkg/controller/job/job_controller.go, backoff_utils.go, indexed_job_utils.go, pod_failure_policy.go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.controllers.replica_set import ordered_for_deletion
from forewarn.policies.kubernetes.controllers.templates import labelled, pod_of_template, template_of
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreatePod,
    DeletePod,
    ReleasePod,
    Report,
    Requeue,
    SetStatus,
)
from forewarn.policies.kubernetes.objects import workload
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, boolean, int32, items, period, text, timestamp

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import PodState, View, WorkloadState

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
MAX_PODS_PER_SYNC: Final = 500
"""Maximum number of Pods that one sync creates or deletes."""
JOB_BACKOFF: Final = 10.0
"""Seconds until a Job first recreates a Pod that failed or was deleted. Source: `DefaultJobPodFailureBackOff`."""
_MAX_BACKOFF: Final = 600.0
_BATCH_PERIOD: Final = 1.0
_COMPLETE: Final = frozenset({"Complete", "SuccessCriteriaMet"})
_MAX_INDEXES: Final = 100_000
"""Maximum completion index that is read. Upstream allows no more completions for indexed Jobs with high parallelism."""
_MAX_LENGTH: Final = 1 << 20
_DIGITS: Final = 10


class _IndexFailures(NamedTuple):
    """The failures of an index: their number, and the time of the last one in seconds since 1970."""

    number: int = 0
    last: float | None = None


class JobStatus(NamedTuple):
    """The status of a Job.

    `failed`, `succeeded`: numbers of Pods. `failures`: failed Pods since the last success. `finished`: "Failed" or
    "Complete"; "" while the Job runs. `failed_at`, `started`: seconds since 1970. `index_failures`: index -> its
    failures, with backoffLimitPerIndex. `counted`: uids of existing Pods that `failed` and `succeeded` include.
    `active`, `terminating`, `ready`: numbers of such Pods. `failure`: the reason of upstream's condition FailureTarget,
    or ""; a Job with this condition creates no more Pods.
    """

    failed: int = 0
    succeeded: int = 0
    failures: int = 0
    failed_at: float | None = None
    started: float | None = None
    finished: str = ""
    succeeded_indexes: frozenset[int] = frozenset()
    failed_indexes: frozenset[int] = frozenset()
    index_failures: Mapping[int, _IndexFailures] = MappingProxyType({})
    active: int = 0
    counted: frozenset[str] = frozenset()
    terminating: int = 0
    ready: int = 0
    failure: str = ""


class _Job(NamedTuple):
    """The input of one sync of a Job. `status`: the Job's status after counting the Pods that have terminated."""

    view: View
    state: WorkloadState
    pods: Sequence[PodState]
    status: JobStatus
    now: float

    @property
    def object(self) -> ApiObject:
        return self.state.object

    @property
    def active(self) -> list[PodState]:
        return [pod for pod in self.pods if pod.active and not pod.removed]

    @property
    def indexed(self) -> bool:
        return text(self.object, "spec", "completionMode") == "Indexed"

    @property
    def terminating(self) -> list[PodState]:
        return [pod for pod in self.pods if pod.terminating and not pod.removed and not pod.pod.terminal]


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:
    """Return the writes of one sync of a Job. Upstream `syncJob`. Raises InvalidObject."""
    if workload.is_managed_elsewhere(state.object):
        return []
    old_status = state.status if isinstance(state.status, JobStatus) else JobStatus()
    if old_status.finished:
        return [ReleasePod(state.key, pod.pod.uid) for pod in view.pods_of(state.key) if pod.removed]
    pods = view.pods_of(state.key)
    sync = _Job(view, state, pods, _with_finished(old_status, state.object, pods, now), now)
    actions: list[Action] = [ReleasePod(state.key, pod.pod.uid) for pod in pods if pod.removed]
    status, further = _manage(sync)
    actions += further
    doomed = {action.name for action in further if isinstance(action, DeletePod)}
    ready = sum(pod.ready is not None and pod.pod.name not in doomed for pod in sync.active)
    status = status._replace(terminating=len(sync.terminating) + len(doomed), ready=ready)
    if status != state.status:
        actions.append(SetStatus(state.key, status))
    return actions


def _with_finished(job_status: JobStatus, job: ApiObject, pods: Sequence[PodState], now: float) -> JobStatus:
    """Return the status `job_status` of the previous sync, updated with the Pods that have terminated since."""
    uncounted = [pod for pod in pods if pod.pod.uid not in job_status.counted]
    done = [pod for pod in uncounted if pod.pod.phase == "Succeeded"]
    failed = [pod for pod in uncounted if _is_failed(pod, job)]
    counted = job_status.counted.union(pod.pod.uid for pod in (*done, *failed))
    present = frozenset(pod.pod.uid for pod in pods if not pod.removed)
    # Source: `newBackoffRecord`, and the sums in `syncJob`.
    last_success = max(map(_finished_at, done), default=None)
    recent = [at for at in map(_finished_at, failed) if last_success is None or at > last_success]
    failures = (job_status.failures if last_success is None else 0) + len(recent)
    failed_at = max(recent, default=job_status.failed_at if last_success is None else None)
    started = None if _is_suspended(job) else now if job_status.started is None else job_status.started
    failed_indexes, index_failures = _index_failures(job_status, job, failed)
    return job_status._replace(
        failed_indexes=failed_indexes,
        index_failures=index_failures,
        failed=job_status.failed + sum(_policy_action(pod, job) != "Ignore" for pod in failed),
        succeeded=job_status.succeeded + len(done),
        failures=failures,
        failed_at=failed_at,
        started=started,
        succeeded_indexes=job_status.succeeded_indexes | frozenset(map(_index_of, done)) - {-1},
        counted=present & counted,
    )


def _index_failures(
    status: JobStatus, job: ApiObject, failed: Sequence[PodState]
) -> tuple[frozenset[int], Mapping[int, _IndexFailures]]:
    """Return the failed indexes, and the failures of each index for backoffLimitPerIndex, after the Pods `failed`
    failed.

    Source: `calculateFailedIndexes`, `isIndexFailed`, `getNewIndexFailureCounts`.
    """
    limit = _limit_per_index(job)
    if limit is None:
        return status.failed_indexes, status.index_failures
    indexes, failures = set(status.failed_indexes), dict(status.index_failures)
    for pod in failed:
        index, action = _index_of(pod), _policy_action(pod, job)
        if index < 0:
            continue
        count = max(pod.index_failures, failures.get(index, _IndexFailures()).number)
        if action == "FailIndex" or (action != "Ignore" and count >= limit):
            indexes.add(index)
        failures[index] = _IndexFailures(count + (action != "Ignore"), _finished_at(pod))
    return frozenset(indexes), failures


def _limit_per_index(job: ApiObject) -> int | None:
    """Return how many failures of each index a Job tolerates; None for a Job without such a limit."""
    return int32(job, "spec", "backoffLimitPerIndex")


def stored_status(job: ApiObject, ended: Iterable[str]) -> JobStatus | None:
    """Return the status of a stored Job; None if no controller has written a status.

    `ended`: uids of existing terminated Pods that the status has counted. Raises InvalidObject.
    """
    if not at(job, "status"):
        return None
    true = {text(c, "type") for c in items(job, "status", "conditions") if c.get("status") == "True"}
    started = timestamp(job, "status", "startTime")
    return JobStatus(
        failed=max(int32(job, "status", "failed") or 0, 0),
        succeeded=max(int32(job, "status", "succeeded") or 0, 0),
        started=None if started is None else float(started),
        finished="Failed" if "Failed" in true else "Complete" if true & _COMPLETE else "",
        succeeded_indexes=_indexes_in(text(job, "status", "completedIndexes"), int32(job, "spec", "completions") or 0),
        failed_indexes=_indexes_in(text(job, "status", "failedIndexes"), int32(job, "spec", "completions") or 0),
        active=max(int32(job, "status", "active") or 0, 0),
        counted=frozenset(ended),
        failure="FailureTarget" if "FailureTarget" in true else "",
    )


def is_finished(job: ApiObject) -> bool:
    """Report whether the status of a stored Job is final (Failed or Complete). Source: `IsJobFinished`."""
    status = stored_status(job, ())
    return status is not None and bool(status.finished)


def _indexes_in(listed: str, completions: int) -> frozenset[int]:
    """Parse indexes such as `0-2,5`; skip indexes from `completions` on. Source: `parseIndexesFromString`."""
    numbers = set[int]()
    for part in listed[:_MAX_LENGTH].split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if first.isascii() and first.isdigit() and last.isascii() and last.isdigit():
            indexes = range(int(first[:_DIGITS]), min(int(last[:_DIGITS]) + 1, completions, _MAX_INDEXES))
            charge(1 + len(indexes) // 8)
            numbers.update(indexes)
    return frozenset(numbers)


def only_replaces_failed(job: ApiObject) -> bool:
    """Report whether only Pods that have terminated are replaced, so that terminating Pods count as running.

    Source: `onlyReplaceFailedPods`.
    """
    return text(job, "spec", "podReplacementPolicy") == "Failed" or at(job, "spec", "podFailurePolicy") is not None


def _is_failed(pod: PodState, job: ApiObject) -> bool:
    """Report whether a Pod has failed. A removed Pod that did not succeed counts as failed. Source: `isPodFailed`."""
    if pod.pod.phase == "Succeeded":
        return False
    if pod.pod.phase == "Failed" or pod.removed:
        return True
    return pod.terminating and not only_replaces_failed(job)


def _finished_at(pod: PodState) -> float:
    """Return the time at which a Pod finished, in seconds since 1970. Source: `getFinishedTime`."""
    return next((at for at in (pod.finished, pod.deleted) if at is not None), pod.created)


def _policy_action(pod: PodState, job: ApiObject) -> str | None:
    """Return the policy action for the Pod's condition DisruptionTarget, or None. Source: `matchPodFailurePolicy`."""
    if not (pod.pod.preempted or pod.disrupted):
        return None
    rules = items(job, "spec", "podFailurePolicy", "rules")
    return next((text(rule, "action") for rule in rules if workload.matches_disruption(rule)), None)


def _is_suspended(job: ApiObject) -> bool:
    return boolean(job, "spec", "suspend")


def _index_of(pod: PodState) -> int:
    """Return the completion index in the labels of a Pod; -1 without one."""
    number = pod.pod.labels.get(COMPLETION_INDEX, "")
    return int(number) if number.isascii() and number.isdigit() and len(number) <= len("2147483647") else -1


def _manage(sync: _Job) -> tuple[JobStatus, list[Action]]:
    """Return (new status, writes). Fails or completes the Job, or creates and deletes Pods."""
    key, status = sync.state.key, sync.status
    reason = status.failure or _failure(sync)
    if reason:
        doomed: list[Action] = [DeletePod(pod.pod.namespace, pod.pod.name, key) for pod in sync.active]
        status = status._replace(failure=reason, active=0)
        if doomed or sync.terminating:  # it is over when all pods are. Source: `enactJobFinished`
            return status, doomed
        message = f"after {status.failed} failed pods" if reason == "BackoffLimitExceeded" else ""
        return status._replace(finished="Failed"), [Report(key, "Failed", message or reason)]
    actions, active = _manage_pods(sync)
    if _is_complete(sync, active) and not sync.terminating:
        return status._replace(finished="Complete", active=0), [*actions, Report(key, "Complete", "")]
    deadline = period(sync.object, "spec", "activeDeadlineSeconds")
    if deadline is not None and status.started is not None:
        actions.append(Requeue(key, status.started + deadline))
    return status._replace(active=active), actions


def _failure(sync: _Job) -> str | None:
    """Return the reason why the Job has failed; None if it has not."""
    status = sync.status
    deadline = period(sync.object, "spec", "activeDeadlineSeconds")
    if any(_is_failed(pod, sync.object) and _policy_action(pod, sync.object) == "FailJob" for pod in sync.pods):
        return "PodFailurePolicy"
    if status.failed > workload.backoff_limit(sync.object):
        return "BackoffLimitExceeded"
    if deadline is not None and status.started is not None and sync.now - status.started >= deadline:
        return "DeadlineExceeded"
    return _failure_of_indexes(sync)


def _failure_of_indexes(sync: _Job) -> str | None:
    """Return the reason why the Job fails because of failed indexes; None if it does not."""
    failed, most = len(sync.status.failed_indexes), int32(sync.object, "spec", "maxFailedIndexes")
    if most is not None and failed > most:
        return "MaxFailedIndexesExceeded"
    completions = int32(sync.object, "spec", "completions") or 0
    return "FailedIndexes" if failed and failed + len(sync.status.succeeded_indexes) >= completions else None


def _is_complete(sync: _Job, active: int) -> bool:
    completions = int32(sync.object, "spec", "completions")
    if completions is None:
        return sync.status.succeeded > 0 and active == 0
    return _succeeded(sync) >= completions and active == 0


def _succeeded(sync: _Job) -> int:
    return len(sync.status.succeeded_indexes) if sync.indexed else sync.status.succeeded


def wanted_pods(job: ApiObject, status: JobStatus) -> int:
    """Return the number of Pods that a Job wants, or wanted until it failed: 0 for a complete or suspended Job, and for
    a Job of another controller. Raises InvalidObject.
    """
    if status.finished == "Complete" or _is_suspended(job) or workload.is_managed_elsewhere(job):
        return 0
    return workload.wanted_active(job, status.succeeded, status.active)


def _manage_pods(sync: _Job) -> tuple[list[Action], int]:
    """Return (writes that create or delete Pods, number of active Pods after them). Source: `manageJob`."""
    active = sync.active
    wanted = wanted_pods(sync.object, sync.status._replace(succeeded=_succeeded(sync), active=len(active)))
    doomed = _pods_for_removal(sync, active, max(len(active) - wanted, 0))[:MAX_PODS_PER_SYNC]
    if doomed:
        key = sync.state.key
        return [DeletePod(pod.pod.namespace, pod.pod.name, key) for pod in doomed], len(active) - len(doomed)
    still = len(sync.terminating) if only_replaces_failed(sync.object) else 0
    missing = wanted - still - len(active)
    if missing <= 0:
        return [], len(active)
    indexes, remaining = _indexes_to_add(sync, min(missing, MAX_PODS_PER_SYNC))
    if remaining > 0:
        return [Requeue(sync.state.key, sync.now + max(remaining, _BATCH_PERIOD))], len(active)
    new_pods = _new_pods(sync, indexes)
    return list(new_pods), len(active) + len(new_pods)


def _indexes_to_add(sync: _Job, count: int) -> tuple[list[int], float]:
    """Return (the indexes of the Pods to create, -1 without indexes; the seconds until the Job may create any).

    Source: `firstPendingIndexes`, `getPodCreationInfoForIndependentIndexes`.
    """
    status, now = sync.status, sync.now
    remaining = _remaining_backoff(status.failures, status.failed_at, now=now)
    if not sync.indexed:
        return [-1] * count, remaining
    completions = int32(sync.object, "spec", "completions") or 0
    held = [*sync.active, *(sync.terminating if only_replaces_failed(sync.object) else ())]
    taken = (status.succeeded_indexes | status.failed_indexes).union(map(_index_of, held))
    free = list(islice((index for index in range(completions) if index not in taken), count))
    if _limit_per_index(sync.object) is None:
        return free, remaining
    delays = {index: _remaining_backoff(*status.index_failures.get(index, _IndexFailures()), now=now) for index in free}
    ready = [index for index in free if not delays[index]]
    return ready, 0.0 if ready else min(delays.values(), default=0.0)


def _remaining_backoff(failures: int, failed_at: float | None, *, now: float) -> float:
    """Return the seconds until a Job may replace failed Pods. Source: `getRemainingTimeForFailuresCount`."""
    if not failures or failed_at is None:
        return 0.0
    backoff = min(JOB_BACKOFF * 2.0 ** min(failures - 1, 10), _MAX_BACKOFF)
    return max(backoff - (now - failed_at), 0.0)


def _pods_for_removal(sync: _Job, active: Sequence[PodState], least: int) -> list[PodState]:
    """Return the Pods to delete, in order: at least `least` Pods. Source: `activePodsForRemoval`.

    For an indexed Job, Pods without a valid index or with a duplicate index are first.
    """
    if not sync.indexed:
        return list(ordered_for_deletion(active)[:least]) if least else []
    completions = int32(sync.object, "spec", "completions") or 0
    ordered = sorted(active, key=_index_of)
    surplus = [pod for pod in ordered if not 0 <= _index_of(pod) < completions]
    unique: list[PodState] = []
    by_index = grouped((_index_of(pod), pod) for pod in ordered if 0 <= _index_of(pod) < completions)
    for same in by_index.values():
        *extra, last = ordered_for_deletion(same)
        surplus += extra
        unique.append(last)
    return surplus + list(ordered_for_deletion(unique)[: max(least - len(surplus), 0)])


def _new_pods(sync: _Job, indexes: Sequence[int]) -> list[CreatePod]:
    """Return the creation of a Pod for each index; -1 for Pods without an index."""
    key, template = sync.state.key, template_of(sync.object)
    pod = labelled(pod_of_template(sync.view, key, sync.object, template), {JOB_NAME: key[2]})
    if not sync.indexed:
        return [CreatePod(key, pod, template, f"{key[2]}-")] * len(indexes)
    return [
        CreatePod(key, labelled(pod, {COMPLETION_INDEX: str(index)}), template, f"{key[2]}-{index}-")
        for index in indexes
    ]
