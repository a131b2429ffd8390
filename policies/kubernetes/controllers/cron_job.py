"""CronJobs. Source: pkg/controller/cronjob/cronjob_controllerv2.go, utils.go."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

from forewarn.policies.kubernetes.controllers.job import JobStatus
from forewarn.policies.kubernetes.controllers.templates import metadata_below
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    Report,
    Requeue,
    SetStatus,
)
from forewarn.policies.kubernetes.kinds.registry import JOB_TEMPLATE
from forewarn.policies.kubernetes.kube_apiserver.validation.batch import CronSchedule, InvalidSchedule, parse_schedule
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    boolean,
    mapping,
    period,
    text,
    timestamp,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import View, WorkloadState


_NEXT_SCHEDULE_DELTA: Final = 0.1
"""Seconds that upstream adds to the scheduled time, because clocks differ."""
_MAX_ZONE: Final = 64


class CronJobStatus(NamedTuple):
    """The status of a CronJob. `last_schedule`: the time for which the last Job was created, in seconds since 1970."""

    last_schedule: float | None = None


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:
    """Return the writes of one sync of a CronJob. Upstream `syncCronJob`. Raises InvalidObject."""
    if boolean(state.object, "spec", "suspend"):
        return []
    try:
        schedule = _schedule_of(state.object)
    except (InvalidSchedule, ValueError, OSError) as error:
        return [Report(state.key, "UnparseableSchedule", str(error))]
    status = state.status if isinstance(state.status, CronJobStatus) else _stored_status(state.object)
    earliest = state.created if status.last_schedule is None else status.last_schedule
    deadline = period(state.object, "spec", "startingDeadlineSeconds")
    due = most_recent(schedule, earliest if deadline is None else max(earliest, now - deadline), now)
    actions = _start(view, state, status, due, now) if due is not None else []
    base = due if due is not None else status.last_schedule if status.last_schedule is not None else state.created
    upcoming = schedule.next(max(base, now))
    return actions if upcoming is None else [*actions, Requeue(state.key, upcoming + _NEXT_SCHEDULE_DELTA)]


def _stored_status(obj: ApiObject) -> CronJobStatus:
    last = None
    with suppress(InvalidObject):  # treated as if no Job had been created yet
        last = timestamp(obj, "status", "lastScheduleTime")
    return CronJobStatus(None if last is None else float(last))


def fault_of_schedule(obj: ApiObject) -> str | None:
    """Return why forewarn does not start the Jobs of a CronJob; None if it does, or if it is suspended."""
    try:
        if not boolean(obj, "spec", "suspend"):
            _schedule_of(obj)
    except (InvalidSchedule, ValueError, OSError) as fault:
        return str(fault)
    return None


def next_start(obj: ApiObject, after: float) -> float | None:
    """Return the time at which a CronJob creates its next Job after `after`, in seconds since 1970.

    None if it is suspended, or its schedule is invalid. Raises InvalidObject.
    """
    if boolean(obj, "spec", "suspend"):
        return None
    try:
        due = _schedule_of(obj).next(after)
    except (InvalidSchedule, ValueError, OSError):
        return None
    return None if due is None else due + _NEXT_SCHEDULE_DELTA


def _schedule_of(obj: ApiObject) -> CronSchedule:
    """Return the schedule of a CronJob in its time zone. Raises ValueError (InvalidSchedule), OSError."""
    return parse_schedule(text(obj, "spec", "schedule"), _zone(obj))


def _zone(obj: ApiObject) -> tzinfo:
    """Return the time zone; UTC without one, as for a controller manager in UTC. Raises ValueError, OSError."""
    name = text(obj, "spec", "timeZone")
    if not name:
        return UTC
    if len(name) > _MAX_ZONE:
        raise InvalidSchedule("unknown time zone")
    try:
        return ZoneInfo(name)
    except KeyError:  # zoneinfo raises these for an unknown time zone
        raise InvalidSchedule(f"unknown time zone {name!r}") from None


def most_recent(schedule: CronSchedule, earliest: float, now: float) -> float | None:
    """Return the last scheduled time after `earliest` and until `now`, or None. Source: `mostRecentScheduleTime`.

    After many missed times, skips most of them by the interval of the first two.
    """
    first = schedule.next(earliest)
    if first is None or first > now:
        return None
    second = schedule.next(first)
    if second is None or second > now:
        return first
    skipped = int((now - first) // (second - first)) - 1
    result, upcoming = first, schedule.next(first + max(skipped, 0) * (second - first))
    for _ in range(_MAX_MISSED):
        if upcoming is None or upcoming > now:
            break
        result, upcoming = upcoming, schedule.next(upcoming)
    return result


_MAX_MISSED: Final = 10_000


def _start(view: View, state: WorkloadState, cron_job_status: CronJobStatus, due: float, now: float) -> list[Action]:
    """Return the writes that create the Job for a scheduled time `due`, as the concurrencyPolicy allows."""
    deadline = period(state.object, "spec", "startingDeadlineSeconds")
    if cron_job_status.last_schedule == due or (deadline is not None and due + deadline < now):
        return []
    active = [job for job in view.owned(state.key) if not (isinstance(job.status, JobStatus) and job.status.finished)]
    policy = text(state.object, "spec", "concurrencyPolicy")
    if policy == "Forbid" and active:
        return [
            Report(state.key, "JobAlreadyActive", "the run before it has not ended, and concurrencyPolicy is Forbid")
        ]
    replaced: list[Action] = [DeleteWorkload(job.key) for job in active] if policy == "Replace" else []
    # The Job's name ends with the minutes since 1970 (`getJobFromTemplate2`). Its Pod template is a copy, so that the
    # template's Python id identifies the Pods of this Job.
    template = mapping(state.object, *JOB_TEMPLATE)
    labels, annotations = (mapping(template, "metadata", name) for name in ("labels", "annotations"))
    name = f"{state.key[2]}-{int(due) // 60}"
    metadata = metadata_below(state.object, state.key[1], name, labels, annotations)
    spec = mapping(template, "spec")
    own = {**spec, "template": dict(mapping(spec, "template"))} if "template" in spec else spec
    creation = CreateWorkload({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": own}, state.key)
    return [*replaced, creation, SetStatus(state.key, CronJobStatus(due))]
