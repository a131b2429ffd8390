"""CronJobs. Source: pkg/controller/cronjob/cronjob_controllerv2.go, utils.go."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from forewarn.policies.controllers.actions import Action, CreateWorkload, DeleteWorkload, Report, Requeue, SetStatus
from forewarn.policies.controllers.cron_schedule import CronSchedule, InvalidSchedule, parse_schedule
from forewarn.policies.controllers.job import JobStatus
from forewarn.policies.objects.fields import boolean, int32, mapping, ref_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.controllers.view import Key, View, WorkloadState
    from forewarn.policies.objects.fields import ApiObject

_NEXT_SCHEDULE_DELTA: Final = 0.1
"""Seconds that upstream adds to the scheduled time, because clocks differ."""
_MAX_ZONE: Final = 64


class CronJobStatus(NamedTuple):
    """The status of a CronJob. `last_schedule`: the time for which the last Job was created, in seconds since 1970."""

    last_schedule: float | None = None


def reconcile(view: View, key: Key, now: float) -> list[Action]:
    """Return the writes of one sync of a CronJob. Upstream `syncCronJob`. Raises InvalidObject."""
    state = view.workload(key)
    if state is None or boolean(state.object, "spec", "suspend"):
        return []
    try:
        schedule = parse_schedule(text(state.object, "spec", "schedule"), _zone(state.object))
    except (InvalidSchedule, ValueError, OSError) as error:
        return [Report(key, "UnparseableSchedule", str(error))]
    known = state.status if isinstance(state.status, CronJobStatus) else CronJobStatus()
    due = most_recent(schedule, _earliest(state, known, now), now)
    actions = _start(view, state, known, due, now) if due is not None else []
    base = due if due is not None else known.last_schedule if known.last_schedule is not None else state.created
    upcoming = schedule.next(max(base, now))
    return actions if upcoming is None else [*actions, Requeue(key, upcoming + _NEXT_SCHEDULE_DELTA)]


def _zone(obj: ApiObject) -> tzinfo:
    """Return the time zone of the schedule; UTC if it has none, as for a kube-controller-manager that runs in UTC.

    Raises ValueError, OSError.
    """
    name = text(obj, "spec", "timeZone")
    if not name:
        return UTC
    if len(name) > _MAX_ZONE:
        raise InvalidSchedule("unknown time zone")
    try:
        return ZoneInfo(name)
    except KeyError:  # what zoneinfo raises for a name that it does not know
        raise InvalidSchedule(f"unknown time zone {name!r}") from None


def _earliest(state: WorkloadState, known: CronJobStatus, now: float) -> float:
    """Return the time after which missed schedules count, in seconds since 1970."""
    earliest = state.created if known.last_schedule is None else known.last_schedule
    deadline = int32(state.object, "spec", "startingDeadlineSeconds")
    return earliest if deadline is None else max(earliest, now - deadline)


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
    found, upcoming = first, schedule.next(first + max(skipped, 0) * (second - first))
    for _ in range(_MAX_MISSED):
        if upcoming is None or upcoming > now:
            break
        found, upcoming = upcoming, schedule.next(upcoming)
    return found


_MAX_MISSED: Final = 10_000


def _start(view: View, state: WorkloadState, known: CronJobStatus, due: float, now: float) -> list[Action]:
    """Return the writes that create the Job for a scheduled time `due`, as the concurrencyPolicy allows."""
    deadline = int32(state.object, "spec", "startingDeadlineSeconds")
    if known.last_schedule == due or (deadline is not None and due + deadline < now):
        return []
    active = _active(view.owned(state.key))
    policy = text(state.object, "spec", "concurrencyPolicy")
    if policy == "Forbid" and active:
        return [
            Report(state.key, "JobAlreadyActive", "the run before it has not ended, and concurrencyPolicy is Forbid")
        ]
    replaced: list[Action] = [DeleteWorkload(job.key) for job in active] if policy == "Replace" else []
    creation = CreateWorkload(_job(state, due), state.key)
    return [*replaced, creation, SetStatus(state.key, CronJobStatus(due))]


def _active(jobs: Sequence[WorkloadState]) -> list[WorkloadState]:
    return [job for job in jobs if not (isinstance(job.status, JobStatus) and job.status.finished)]


def _job(state: WorkloadState, due: float) -> dict[str, Any]:
    """Return the Job of a run; its name ends with the minutes since 1970. Source: `getJobFromTemplate2`.

    The Pod template is a copy, so that its Python id identifies the Pods of this Job.
    """
    template = mapping(state.object, "spec", "jobTemplate")
    ref = ref_of(state.object)
    reference = {"apiVersion": ref.api_version, "kind": "CronJob", "name": ref.name, "controller": True}
    metadata = {
        "namespace": state.key[1],
        "name": f"{state.key[2]}-{int(due) // 60}",
        "labels": dict(mapping(template, "metadata", "labels")),
        "annotations": dict(mapping(template, "metadata", "annotations")),
        "ownerReferences": [reference],
    }
    spec = mapping(template, "spec")
    own = {**spec, "template": dict(mapping(spec, "template"))} if "template" in spec else spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": own}
