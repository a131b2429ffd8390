"""Limits repeated warnings to one user within a minute: first full warnings, then short warnings, then counts.

The audit annotations contain every warning in full; denials are never limited.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.config import RepeatedWarnings
from forewarn.policies.copies import replace
from forewarn.policies.findings import Action, Text, cut, one_line
from forewarn.webhook.admission import impact_annotation
from forewarn.webhook.admission.messages import MAX_WARNINGS, audit_of, shortened, warnings_of, worst_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.config import Config
    from forewarn.policies.findings import Finding
    from forewarn.webhook.admission.decision import Decision
    from forewarn.webhook.admission.review import AdmissionRequest

SECONDS: Final = 60.0
FULL: Final = 3
SHORT: Final = 7
"""The number of short warnings after the full ones, for one rule and user within SECONDS. Counts follow."""
EACH: Final = 10
MAX_SHORT: Final = 100
REMEMBERED: Final = 4096
"""Maximum number of pairs of user and rule, about 500 bytes each; the least recently used pair is dropped."""


class _LastWarned(NamedTuple):
    """The times of the latest FULL + SHORT warnings to a user by a rule, and the number of hidden warnings since
    then.
    """

    times: tuple[float, ...] = ()
    suppressed: int = 0


class WarningCount(NamedTuple):
    """The numbers of earlier warnings within SECONDS, and of consecutive hidden warnings."""

    before: int
    suppressed: int

    @property
    def is_full(self) -> bool:
        """Whether to show the warning in full."""
        return self.before < FULL

    @property
    def is_short(self) -> bool:
        """Whether to show the short form of the warning."""
        return FULL <= self.before < FULL + SHORT

    @property
    def is_count(self) -> bool:
        """Whether to show a count of hidden warnings instead. kubectl prints equal lines only once."""
        return self.before >= FULL + SHORT and self.suppressed % EACH == 0


class WarningLimiter:
    """The recent warnings of each user by rule, in bounded memory. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_warned: OrderedDict[bytes, _LastWarned] = OrderedDict()
        self._lock = Lock()

    def count(self, user: str, rule: str, dry_run: bool = False) -> WarningCount:
        """Count one more warning, and return the counts before it. Dry runs are counted separately."""
        key = blake2b(f"{rule}\0{dry_run}\0{user}".encode(errors="replace"), digest_size=16).digest()
        with self._lock:
            now = self._clock()
            times, suppressed = self._last_warned.pop(key, _LastWarned())
            times = tuple(time for time in times if time > now - SECONDS)
            turn = WarningCount(len(times), (suppressed if times else 0) + (len(times) >= FULL + SHORT))
            self._last_warned[key] = _LastWarned((*times, now)[-FULL - SHORT :], turn.suppressed)
            while len(self._last_warned) > REMEMBERED:
                self._last_warned.popitem(last=False)
        return turn

    def with_limited_warnings(self, request: AdmissionRequest, decision: Decision, config: Config) -> Decision:
        """Return the decision with warnings shortened, counted or omitted, by the limit for the requesting user."""
        warned = [finding for finding in decision.findings if finding.action is Action.WARN and finding.is_shown]
        if not warned or not decision.response.allowed or config.repeated_warnings is RepeatedWarnings.FULL:
            return decision
        rules = dict.fromkeys(finding.rule for finding in worst_first(warned))
        counts = {rule: self.count(request.user.name, rule, request.dry_run) for rule in rules}
        if all(count.is_full for count in counts.values()):
            return decision
        lines = list(_shorter_lines(counts, warned, request, impact_annotation.wanted(request.subject, config)))
        warnings = (*warnings_of(f for f in warned if counts[f.rule].is_full), *lines[:MAX_WARNINGS])
        audit = {**audit_of(f for f in warned if not counts[f.rule].is_full), **decision.response.audit}
        return replace(decision, response=replace(decision.response, warnings=warnings, audit=audit))


def _shorter_lines(
    turns: Mapping[str, WarningCount], warned: Sequence[Finding], request: AdmissionRequest, annotated: bool
) -> Iterator[str]:
    """The short warnings and counts for the rules without full warnings. `annotated`: see `_short`."""
    for rule, turn in turns.items():
        if turn.is_short:
            yield _short(next(f for f in warned if f.rule == rule).as_shown, request, annotated)
        elif turn.is_count:
            yield f"{turn.suppressed} more warnings of this rule not shown [{rule}]"


def _short(finding: Finding, request: AdmissionRequest, annotated: bool) -> str:
    """Return the short form of a warning: `Deployment web: would preempt 1 Pod on node-1… (see its annotation)
    [preempts-running-pods]`.

    `annotated`: forewarn writes the impact annotation on the object.
    """
    object_name = cut(f"{request.kind.kind} {one_line(finding.object.name)}".strip(), MAX_SHORT // 3)
    where = " (see its annotation)" if annotated and finding.rule in impact_annotation.ABOUT_PREDICTIONS else ""
    tail = f"{where} [{finding.rule}]"
    versions = tuple(f"{object_name}: {version}" for version in finding.text.shorter)
    text = Text(f"{object_name}: {one_line(finding.text.problem)}", shorter=versions)
    return f"{shortened(text, MAX_SHORT - len(tail))}{tail}"
