"""Schedules of CronJobs. Source: github.com/robfig/cron/v3, `ParseStandard`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

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
LONGEST_SCHEDULE: Final = 256
"""Maximum characters of a schedule that is parsed."""
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
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS) or len(text) > LONGEST_SCHEDULE:
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(fields)}")
    minutes, hours, days, months, weekdays = (
        _field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
    )
    any_day = any(part in _STAR for field in (fields[2], fields[4]) for part in field.split(","))
    return CronSchedule(minutes, hours, days, months, weekdays, any_day, zone)


def _field(field: str, least: int, limit: int, names: dict[str, int]) -> frozenset[int]:
    parts = filter(None, field.split(","))
    return frozenset(value for part in parts for value in _range(part, least, limit, names))


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
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(2**31))):
        raise InvalidSchedule(f"{text!r} is no number")
    return int(digits)
