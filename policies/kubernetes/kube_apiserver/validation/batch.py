"""Tables of Jobs and CronJobs, and schedules of CronJobs.

Source: pkg/apis/batch/validation, pkg/registry/batch/job/strategy.go; github.com/robfig/cron/v3, `ParseStandard`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.light import later
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.durations import parse_duration
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.apps import does_not_match
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    dns1123_label,
    dns1123_subdomain,
    duplicate,
    invalid,
    keyed,
    not_supported,
    required,
    too_long,
    too_many,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.pod_fields import STRUCTS
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, mapping_at, objects_at, text_at

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.releases.semantics import Semantics


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
MAX_SCHEDULE_LENGTH: Final = 256
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

    `any_day`: whether the days of the month or the weekdays are `*`. If so, both must match; otherwise, either of them.
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
    if len(fields) != len(_FIELDS) or len(text) > MAX_SCHEDULE_LENGTH:
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
    """Return the values that one part of a field selects, such as `*`, `5`, `1-5`, `*/2` or `10/5`."""
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


_Faults = Iterator[FieldError]
_UID: Final = "00000000-0000-0000-0000-000000000000"
"""Stands for the UID that kube-apiserver generates, unless the Job is stored."""
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_GENERATED: Final = "x" * 5
"""Stands for the end of a generated name."""


def _name_of(job: ApiObject) -> str:
    metadata = mapping_at(job, "metadata")
    return str(metadata.get("name") or f"{metadata.get('generateName') or ''}{_GENERATED}")


def _generated_labels(job: ApiObject) -> dict[str, str]:
    """Return the labels that kube-apiserver adds to the Pod template of a Job."""
    uid = text_at(job, "metadata", "uid") or _UID
    return dict.fromkeys(_NAME_LABELS, _name_of(job)) | dict.fromkeys(_UID_LABELS, uid)


def _as_created(job: ApiObject) -> ApiObject:
    """Return a Job with defaults, and the labels and the selector that kube-apiserver generates (`generateSelector`).

    Returns the Job itself if these fields have a wrong type.
    """
    parts = [at(job, *path) for path in _CHANGED]
    if not all(isinstance(part, Mapping | None) for part in parts):
        return job
    metadata, spec, template, of_template, labels, selector, matching = (part or {} for part in parts)
    if parts[_CHANGED.index(_TEMPLATE_LABELS)] is not None and not metadata.get("labels"):
        metadata = {**metadata, "labels": labels}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec = {**spec, "completions": 1, "parallelism": 1}
    if spec.get("manualSelector"):
        return {**job, "metadata": metadata, "spec": spec}
    generated = _generated_labels(job)
    labels = {**generated, **labels}
    if "labels" in metadata and metadata["labels"] is parts[_CHANGED.index(_TEMPLATE_LABELS)]:
        metadata = {**metadata, "labels": labels}
    spec = {
        **spec,
        "selector": {**selector, "matchLabels": {_UID_LABELS[1]: generated[_UID_LABELS[1]], **matching}},
        "template": {**template, "metadata": {**of_template, "labels": labels}},
    }
    return {**job, "metadata": metadata, "spec": spec}


_TEMPLATE_LABELS: Final = ("spec", "template", "metadata", "labels")
_SELECTOR: Final = ("spec", "selector")
_CHANGED: Final = (
    ("metadata",), ("spec",), _TEMPLATE_LABELS[:2], _TEMPLATE_LABELS[:3], _TEMPLATE_LABELS, _SELECTOR,
    (*_SELECTOR, "matchLabels"),
)  # fmt: skip
"""Fields that kube-apiserver changes."""


def _job(job: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    """Yield the errors of a Job (`ValidateJob`, `validateGeneratedSelector`)."""
    spec, selector = mapping_at(job, "spec"), at(job, "spec", "selector")
    labels = at(job, "spec", "template", "metadata", "labels") or {}
    here: Path = (*path, "spec", "template", "metadata", "labels")
    name = _name_of(job)
    if not spec.get("manualSelector"):
        expected = _generated_labels(job)
        for key, value in expected.items():
            if labels.get(key) != value:
                fault = f"kube-apiserver generates this label, its value must be {value!r}"
                fault = fault if key in _NAME_LABELS else "kube-apiserver generates this label"
                yield invalid((*here, key), labels.get(key), fault, keyed(here, key))
        if tables.selects(selector, expected, semantics) is False:
            yield invalid((*path, "spec", "selector"), selector, "`selector` not auto-generated")
    elif selector is None:
        yield required((*path, "spec", "selector"))
    yield from tables.validate_struct(tables.Struct({"selector": tables.SELECTOR}), spec, (*path, "spec"), semantics)
    if tables.selects(selector, labels, semantics) is False:
        yield does_not_match(spec, (*path, "spec"))
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0 and dns1123_label(f"{name}-{completions - 1}"):
        fault = f"will not able to create pod with invalid DNS label: {name}-{completions - 1}"
        yield invalid((*path, "metadata", "name"), name, fault)


_MANY: Final = 100_000
"""Maximum parallelism and maxFailedIndexes of an indexed Job."""
_FEWER: Final = 10_000
"""Maximum parallelism and maxFailedIndexes of an indexed Job with more completions than _MANY."""
_ITEMS: Final = 20
"""Maximum number of rules of a policy, and conditions of a rule."""
_CODES: Final = 255


def _job_spec(spec: ApiObject, path: Path, _: Semantics) -> _Faults:
    """Yield the errors of the spec of a Job (`validateJobSpec`)."""
    mode = spec.get("completionMode")
    mode = "NonIndexed" if mode is None else mode
    limit, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if failed is not None and limit is None:
        yield required((*path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    if mode == "Indexed":
        yield from _indexed(spec, path)
    for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(name) is not None and (mode == "NonIndexed" or (mode != "Indexed" and name == "successPolicy")):
            yield invalid((*path, name), spec[name], "requires indexed completion mode")
    if mode == "Indexed" and spec.get("successPolicy") is not None:
        yield from _success_policy(spec, (*path, "successPolicy"))
    policy, field = spec.get("podFailurePolicy"), (*path, "podReplacementPolicy")
    values = ("Failed",) if policy is not None else ("Failed", "TerminatingOrFailed")
    if (replacement := spec.get("podReplacementPolicy")) is not None and replacement not in values:
        yield not_supported(field, replacement, values)
    restart, here = at(spec, "template", "spec", "restartPolicy"), (*path, "template", "spec", "restartPolicy")
    if restart in (None, "", "Always"):
        yield required(here, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield not_supported(here, restart, ("OnFailure", "Never"))
    elif policy is not None and restart != "Never":
        yield invalid(here, restart, 'only "Never" is supported when podFailurePolicy is specified')
    if policy is not None:
        yield from _failure_policy(spec, (*path, "podFailurePolicy", "rules"))


def _indexed(spec: ApiObject, path: Path) -> _Faults:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 1
    failed, limit = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if completions is None:
        yield required((*path, "completions"), "when completion mode is Indexed")
    elif failed is not None and failed > completions:
        yield invalid((*path, "maxFailedIndexes"), failed, "must be less than or equal to completions")
    is_large = completions is not None and completions > _MANY and limit is not None
    if is_large and failed is None:
        yield required((*path, "maxFailedIndexes"), f"must be specified when completions is above {_MANY}")
    most = _FEWER if is_large else _MANY
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > most:
            yield invalid((*path, name), value, f"must be less than or equal to {most}")


def _failure_policy(spec: ApiObject, path: Path) -> _Faults:
    """Yield the errors of podFailurePolicy (`validatePodFailurePolicy`)."""
    pod = mapping_at(spec, "template", "spec")
    names = {text_at(each, "name") for kind in ("containers", "initContainers") for each in objects_at(pod, kind)}
    rules = at(spec, "podFailurePolicy", "rules") or ()
    if len(rules) > _ITEMS:
        yield too_many(path, len(rules), _ITEMS)
    for number, rule in enumerate(charging([each or {} for each in rules], 4)):
        here, codes, conditions = (*path, number), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid((*here, "action"), "FailIndex", "requires the backoffLimitPerIndex to be set")
        if (codes is None) is not bool(conditions):
            fault = "both onExitCodes and onPodConditions is not supported"
            fault = fault if conditions else "one of onExitCodes and onPodConditions is required"
            yield invalid(here, "", f"specifying {fault}")
        if len(conditions) > _ITEMS:
            yield too_many((*here, "onPodConditions"), len(conditions), _ITEMS)
        if codes is not None:
            yield from _exit_codes(codes, (*here, "onExitCodes"), names)


def _exit_codes(codes: ApiObject, path: Path, names: set[str]) -> _Faults:
    """Yield the errors of onExitCodes (`validatePodFailurePolicyRuleOnExitCodes`)."""
    if (container := codes.get("containerName")) is not None and container not in names:
        fault = "must be one of the container or initContainer names in the pod template"
        yield invalid((*path, "containerName"), container, fault)
    here, values = (*path, "values"), [value or 0 for value in codes.get("values") or ()]
    if not values:
        yield invalid(here, values, "at least one value is required")
    elif len(values) > _CODES:
        yield too_many(here, len(values), _CODES)
    if codes.get("operator") == "In" and 0 in values:
        yield invalid((*here, values.index(0)), 0, "must not be 0 for the In operator")
    seen = set[int]()
    for index, value in enumerate(charging(values, 1)):
        if value in seen:
            yield duplicate((*here, index), value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(here, values, "must be ordered")


def _success_policy(spec: ApiObject, path: Path) -> _Faults:
    """Yield the errors of successPolicy (`validateSuccessPolicy`)."""
    rules, completions, path = at(spec, "successPolicy", "rules") or (), spec.get("completions"), (*path, "rules")
    if not rules:
        yield required(path, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _ITEMS:
        yield too_many(path, len(rules), _ITEMS)
    for number, rule in enumerate([each or {} for each in rules]):
        indexes, count, here = rule.get("succeededIndexes"), rule.get("succeededCount"), (*path, number)
        if indexes is None and count is None:
            yield required(here, "at least one of succeededCount or succeededIndexes must be specified")
        if completions is None:
            continue  # reported as another error
        total = completions if indexes is None else _count_of_indexes(indexes, completions)
        if total is None:
            fault = "error parsing succeededIndexes: write increasing intervals below completions, such as 0,2-4"
            yield invalid((*here, "succeededIndexes"), indexes, fault)
        if count is not None:
            yield from tables.check_range(0, min(total or 0, completions))((*here, "succeededCount"), count)


_INDEX: Final = later(r"[+-]?[0-9]+", re.ASCII)


def _count_of_indexes(text: str, completions: int) -> int | None:
    """Return the number of indexes in intervals such as `0,2-4`; None if they are invalid (`validateIndexesFormat`)."""
    last, total = None, 0
    for interval in charging(text.split(","), 1) if text else ():
        limits = interval.split("-")
        if not 1 <= len(limits) <= 2 or not all(
            _INDEX.fullmatch(each) and len(each) < _UPPER_DIGITS for each in limits
        ):
            return None
        first, end = int(limits[0]), int(limits[-1])
        if max(first, end) >= completions or (len(limits) > 1 and first >= end) or (last is not None and last >= first):
            return None
        last, total = end, total + end - first + 1
    return total


_UPPER_DIGITS: Final = 19
_HTTP_PATH: Final = later(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_MAX_MANAGER_LENGTH: Final = 63


def _managed_by(path: Path, value: str) -> _Faults:
    """Yield the errors of managedBy (`IsDomainPrefixedPath`)."""
    host, slash, rest = value.partition("/")
    if not slash or not host or not rest:
        yield (
            invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")') if value else required(path)
        )
        return
    yield from (invalid(path, host, fault) for fault in dns1123_subdomain(host))
    if _HTTP_PATH.fullmatch(rest) is None:
        yield invalid(path, rest, "has characters that a path cannot have")
    if len(value.encode(errors="surrogatepass")) > _MAX_MANAGER_LENGTH:
        yield too_long(path, _MAX_MANAGER_LENGTH)


def _schedule(path: Path, schedule: str) -> _Faults:
    """Yield the error of a schedule (`validateScheduleFormat`)."""
    if "TZ" in schedule:
        yield invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif not schedule:
        yield required(path)
    elif schedule.startswith(_EVERY):
        if parse_duration(schedule.removeprefix(_EVERY).removeprefix("-")) is None:
            yield invalid(path, schedule, "failed to parse duration")
    elif len(schedule) <= MAX_SCHEDULE_LENGTH:
        try:
            parse_schedule(schedule)
        except InvalidSchedule as fault:
            yield invalid(path, schedule, str(fault))


_EVERY: Final = "@every "
_ZONE_PART: Final = later(r"[A-Za-z.\-_0-9+]{1,14}")
_ZONE_CHARACTERS: Final = 64


def _time_zone(path: Path, zone: str) -> _Faults:
    """Yield the error of a time zone (`validateTimeZone`)."""
    parts = zone.split("/") if zone else ()
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
    elif any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in parts):
        yield invalid(path, zone, f"unknown time zone {zone}")
    elif zone.lower() == "local":
        yield invalid(path, zone, "timeZone must be an explicit time zone as defined in the IANA time zone database")
    elif not _exists(zone):
        yield invalid(path, zone, f"unknown time zone {zone}")


def _exists(zone: str) -> bool:
    """Report whether a time zone exists; true if no time zones are installed."""
    from zoneinfo import ZoneInfo  # deferred: saves time

    if len(zone) <= _ZONE_CHARACTERS:
        for name in (zone, "Europe/London"):
            with suppress(KeyError, ValueError, OSError):
                ZoneInfo(name)
                return name == zone
        return True
    return False


def _job_template(template: ApiObject, path: Path, _: Semantics) -> _Faults:
    """Yield the errors of jobTemplate (`ValidateJobTemplateSpec`)."""
    spec, here = mapping_at(template, "spec"), (*path, "spec")
    if spec.get("selector") is not None:
        yield invalid((*here, "selector"), spec["selector"], "`selector` will be auto-generated")
    if spec.get("manualSelector"):
        yield not_supported((*here, "manualSelector"), "true", ("nil", "false"))


def _cron_job(cron_job: ApiObject, path: Path, _: Semantics) -> _Faults:
    """Yield the errors of a CronJob (`ValidateCronJobCreate`)."""
    name = _name_of(cron_job)
    if len(name.encode(errors="surrogatepass")) > _MAX_NAME_LENGTH:
        yield invalid((*path, "metadata", "name"), name, f"must be no more than {_MAX_NAME_LENGTH} characters")


_MAX_NAME_LENGTH: Final = 52
_STRUCTS: Final = STRUCTS.extended(
    {
        "cron-job": _cron_job,
        "job": _job,
        "job-spec": _job_spec,
        "job-template": _job_template,
        "managed-by": _managed_by,
        "schedule": _schedule,
        "time-zone": _time_zone,
    }
)
KINDS: Final = {
    registry.JOB: tables.Kind(_STRUCTS, "Job", prepared=_as_created),
    registry.CRON_JOB: tables.Kind(_STRUCTS, "CronJob"),
}
