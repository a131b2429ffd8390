"""One audit of a cluster as a forked process does it: never faster than its share of a core, and never for too long."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.disclosure import Disclose
from forewarn.policies.evaluation.audit import audit, stored_objects, unsuppressed
from forewarn.policies.findings import ObjectRef, Severity, cut, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.policies.findings import Finding

SHARE: Final = 0.2
"""Of one core, on average, from its first moment on."""
MOST_TOLD: Final = 2_000
"""Maximum findings with texts, the worst first; the others are only counted."""
_LONGEST: Final = 600
"""Characters of a text."""
_SLICE: Final = 0.02
"""Seconds that it may be ahead of its share before it sleeps."""
_MOST_WORK: Final = 10**12
"""Units: time alone ends an audit."""
_NICE: Final = 14
"""Beside the 5 of every forked process: 19, the last of all."""


class Found(NamedTuple):
    """A finding. `message` and `fix` contain all names; `told` and `told_fix` none of other namespaces."""

    severity: Severity
    rule: str
    object: ObjectRef
    message: str
    fix: str
    told: str
    told_fix: str


class Audited(NamedTuple):
    """The result of an audit. `counts`: (rule, severity) -> number of all findings. `whole`: False if time was used up
    before the end, so there may be more findings.
    """

    found: tuple[Found, ...]
    counts: Mapping[tuple[str, str], int]
    suppressed: int
    whole: bool
    seconds: float
    """Of the processor."""


class Throttle:
    """An `expired()` that sleeps whenever the process is ahead of its share."""

    def __init__(
        self,
        share: float,
        until: float,
        clock: Callable[[], float] = monotonic,
        used: Callable[[], float] = process_time,
        rest: Callable[[float], object] = sleep,
    ) -> None:
        """`share`: of a core, in (0, 1]; `until`: on the clock; `used`: seconds of the processor."""
        self._share, self._until, self._clock, self._used, self._rest = share, until, clock, used, rest
        self._began, self._used_before = clock(), used()
        self.is_over = False
        """True after a caller has seen the expired deadline."""

    def __call__(self) -> bool:
        """True if time is used up; waits for the pauses first."""
        now = self._clock()
        ahead = (self._used() - self._used_before) / self._share - (now - self._began)
        if ahead > _SLICE:
            self._rest(max(0.0, min(ahead, self._until - now)))
            now = self._clock()
        self.is_over = now >= self._until
        return self.is_over


def look(cluster: ClusterSnapshot, config: Config, until: float, share: float = SHARE) -> Audited:
    """Audit a cluster. `until`: on the monotonic clock; `share`: of a core."""
    with suppress(OSError):
        os.nice(_NICE)
    expired, now = Throttle(share, until), datetime.now(UTC)
    began = process_time()
    subjects = tuple(stored_objects(cluster))
    every = audit(cluster, subjects, config, now=now, expired=expired, most_work=_MOST_WORK, disclose=Disclose.COUNTS)
    findings, suppressed = unsuppressed(every, subjects, config, now)
    judged = [finding for finding in findings if not finding.not_evaluated]
    return Audited(
        tuple(_found(finding) for finding in judged[:MOST_TOLD]),
        dict(Counter((finding.rule, str(finding.severity)) for finding in judged)),
        suppressed,
        len(judged) == len(findings) and not expired.is_over,
        process_time() - began,
    )


def _found(finding: Finding) -> Found:
    told = finding.as_shown
    texts = (finding.message, finding.remediation, told.message, told.remediation)
    return Found(finding.severity, finding.rule, finding.object, *(cut(one_line(text), _LONGEST) for text in texts))
