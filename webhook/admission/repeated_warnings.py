"""Limits repeated warnings to one user within a minute, and names the object of a warning.

Warnings about objects that will not run are never shortened. Of other warnings of a rule, a user gets three in full,
and then a short line for each request. The audit annotations contain every warning in full; denials are never limited.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from forewarn.policies.config import RepeatedWarnings
from forewarn.policies.copies import replace
from forewarn.policies.findings import Action, Severity, Text, one_line
from forewarn.webhook.admission import impact_annotation
from forewarn.webhook.admission.messages import (
    BEST,
    MAX_WARNINGS,
    audit_of,
    name_of,
    shortened,
    warnings_of,
    worst_first,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.config import Config
    from forewarn.policies.findings import Finding
    from forewarn.webhook.admission.decision import Decision
    from forewarn.webhook.admission.review import AdmissionRequest

SECONDS: Final = 60.0
FULL: Final = 3
"""The number of full warnings for one rule and user within SECONDS; short ones follow."""
TOGETHER: Final = 10.0
"""Seconds in which two requests of a user belong together."""
REMEMBERED: Final = 4096
"""Maximum number of users, and of pairs of user and rule, about 500 bytes each; the least recently used is dropped."""
_REJECTED_OR_PENDING: Final = frozenset({"fits-nowhere", "system-class-blocked-by-quota"})
"""Rules about Pods that will not run, although their findings are not errors."""


_Value = TypeVar("_Value")


class WarningCount(NamedTuple):
    """The times of the latest full warnings within SECONDS, and the number of short warnings since the first one."""

    times: tuple[float, ...] = ()
    shortened: int = 0

    def next(self, now: float) -> WarningCount:
        """The counts after one more warning. Short warnings do not extend the time."""
        times = tuple(time for time in self.times if time > now - SECONDS)
        if len(times) < FULL:
            return WarningCount((*times, now))
        return WarningCount(times, self.shortened + 1)


class _LastRequest(NamedTuple):
    """The object and time of a user's last request, and the time of the last request about another object."""

    object: bytes
    time: float
    of_another: float


class WarningLimiter:
    """The recent requests of each user, and their warnings by rule, in bounded memory. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: OrderedDict[bytes, WarningCount] = OrderedDict()
        self._requests: OrderedDict[bytes, _LastRequest] = OrderedDict()
        self._lock = Lock()

    def count(self, user: str, rule: str, dry_run: bool = False) -> int:
        """Count one more warning. Return 0 to show it in full, otherwise the number of consecutive short ones.

        Dry runs are counted separately.
        """
        key = _digest(rule, str(dry_run), user)
        with self._lock:
            count = self._counts.pop(key, WarningCount()).next(self._clock())
            _remember(self._counts, key, count)
        return count.shortened

    def is_one_of_several(self, request: AdmissionRequest) -> bool:
        """Record the request, and return whether its user changed another object in the seconds before."""
        user, changed = _digest(request.user.name), _digest(*request.resource, request.namespace, request.name)
        with self._lock:
            now = self._clock()
            last = self._requests.pop(user, _LastRequest(changed, now, now - TOGETHER))
            of_another = last.of_another if last.object == changed else last.time
            _remember(self._requests, user, _LastRequest(changed, now, of_another))
        return now - of_another < TOGETHER

    def with_limited_warnings(self, request: AdmissionRequest, decision: Decision, config: Config) -> Decision:
        """Return the decision with warnings named and shortened, by the recent requests of the user."""
        if config.repeated_warnings is RepeatedWarnings.FULL:
            return decision
        several = self.is_one_of_several(request)
        warned = [finding for finding in decision.findings if finding.action is Action.WARN and finding.is_shown]
        if not warned or not decision.response.allowed:
            return decision
        limited = {finding.rule for finding in warned if not will_not_run(finding)}
        counts = {rule: self.count(request.user.name, rule, request.dry_run) for rule in limited}

        def is_short(finding: Finding) -> bool:
            return counts.get(finding.rule, 0) > 0 and not will_not_run(finding)

        short = worst_first(finding for finding in warned if is_short(finding))
        full = [finding for finding in warned if not is_short(finding)]
        warnings = warnings_of(full, lambda finding: several or will_not_run(finding))
        if short:
            annotated = impact_annotation.wanted(request.subject, config)
            warnings = (*warnings, _short(short, sum(counts.values()), annotated))
        audit = {**audit_of(short), **decision.response.audit}
        return replace(decision, response=replace(decision.response, warnings=warnings, audit=audit))


def will_not_run(finding: Finding) -> bool:
    """Whether Pods of the object will be rejected or stay Pending, or the object is invalid."""
    return finding.severity is Severity.ERROR or finding.rule in _REJECTED_OR_PENDING


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=16).digest()


def _remember(memory: OrderedDict[bytes, _Value], key: bytes, value: _Value) -> None:
    memory[key] = value
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _short(findings: Sequence[Finding], count: int, annotated: bool) -> str:
    """Return one line for all short warnings of a request: `Deployment shop/web: would preempt 1 Pod (14 warnings
    shortened; see annotation) [preempts-running-pods]`.

    `count`: the user's short warnings within SECONDS. `annotated`: forewarn writes the impact annotation on the object.
    """
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    is_predicted = annotated and any(rule in impact_annotation.ABOUT_PREDICTIONS for rule in rules)
    how = "see annotation" if is_predicted else "see forewarn lint"
    tail = f" ({count} shortened; {how})"
    worst = findings[0].as_shown
    text, name = worst.text, name_of(worst)
    versions = tuple(f"{name}{version}" for version in text.shorter)
    named = Text(f"{name}{one_line(text.problem)}", shorter=versions)
    return f"{shortened(named, BEST - len(tail))}{tail} [{', '.join(rules[:MAX_WARNINGS])}]"
