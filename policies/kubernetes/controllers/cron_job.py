"""CronJobs. Source: pkg/controller/cronjob/cronjob_controllerv2.go, utils.go."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

from forewarn.policies.kubernetes.controllers.job import JobStatus
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    Report,
    Requeue,
    SetStatus,
)
from forewarn.policies.kubernetes.kinds.registry import JOB_TEMPLATE
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    boolean,
    mapping,
    period,
    ref_of,
    text,
    timestamp,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import View, WorkloadState


_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_STAR: Final = ("*", "?", "*/1", "?/1")
_MAX_YEARS: Final = 5
"""Number of years after which the search for the next time stops."""
_LONGEST: Final = 256
_FIRST: Final = datetime(2, 1, 1, tzinfo=UTC).timestamp()
_LAST: Final = datetime(9990, 1, 1, tzinfo=UTC).timestamp()
"""The last supported time. Between _FIRST and _LAST, each time zone's clock is within the years that Python
supports.
"""


class InvalidSchedule(ValueError):
    """The error for an invalid schedule."""


class CronSchedule(NamedTuple):
    """The minutes, hours, days, months and weekdays of a schedule, in a time zone.

    `any_day`: whether the days of the month or the weekdays are `*`. If so, both must match, otherwise one of them.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    zone: tzinfo = UTC

    def next(self, after: float) -> float | None:
        """Return the first scheduled time after `after`, in seconds since 1970.

        None if there is no such time within five years, or if `after` is in the year 9990 or later.
        """
        if not after < _LAST:
            return None
        moment = datetime.fromtimestamp(max(after, _FIRST), self.zone).replace(second=0, microsecond=0)
        moment += timedelta(minutes=1)
        last = moment.year + _MAX_YEARS
        while moment.year <= last:
            if moment.month not in self.months or not self._is_due_on(moment):
                moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
            elif moment.hour not in self.hours:
                moment = moment.replace(minute=0) + timedelta(hours=1)
            elif moment.minute not in self.minutes:
                moment += timedelta(minutes=1)
            else:
                return moment.timestamp()
        return None

    def _is_due_on(self, moment: datetime) -> bool:
        of_month, of_week = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.any_day else (of_month or of_week)


def parse_schedule(text: str, zone: tzinfo = UTC) -> CronSchedule:
    """Parse five fields, or a descriptor such as `@hourly`. Raises InvalidSchedule, also for `@every`."""
    fields = _DESCRIPTORS.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS) or len(text) > _LONGEST:
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(fields)}")
    minutes, hours, days, months, weekdays = (
        _field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
    )
    any_day = any(part in _STAR for field in (fields[2], fields[4]) for part in field.split(","))
    return CronSchedule(minutes, hours, days, months, weekdays, any_day, zone)


def _field(field: str, least: int, limit: int, names: dict[str, int]) -> frozenset[int]:
    return frozenset(value for part in field.split(",") for value in _range(part, least, limit, names))


def _range(part: str, least: int, limit: int, names: dict[str, int]) -> range:
    """Return the values of one part of a field: `*`, `5`, `1-5`, `*/2`, `10/5`."""
    bounds, slash, step = part.partition("/")
    low, dash, high = bounds.partition("-")
    if low in ("*", "?"):
        start, end = least, limit
    else:
        start = _number(low, names)
        end = _number(high, names) if dash else limit if slash else start
    stride = _number(step, {}) if slash else 1
    if start < least or end > limit or start > end or stride < 1:
        raise InvalidSchedule(f"{part}: must be within {least} and {limit}")
    return range(start, end + 1, stride)


def _number(text: str, names: dict[str, int]) -> int:
    number = names.get(text.lower())
    if number is not None:
        return number
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(2**31))):
        raise InvalidSchedule(f"{text!r} is no number")
    return int(text)


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
    """Raises ValueError (InvalidSchedule), OSError."""
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
    creation = CreateWorkload({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": own}, state.key)
    return [*replaced, creation, SetStatus(state.key, CronJobStatus(due))]
