"""One audit of a cluster in a forked process, limited to a share of one core and to a deadline."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.application.audit import audited_within
from forewarn.webhook.apiserver.open_reports import Found, found_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config

SHARE: Final = 0.2
"""Maximum share of one core, on average since the start."""
MAX_REPORTED: Final = 2_000
"""Maximum findings with texts, the worst first; the others are only counted."""
_SLICE: Final = 0.02
"""Seconds of CPU time by which the audit may exceed its share before it sleeps."""
_MAX_WORK: Final = 10**12
"""Maximum units of work: so high that only the deadline stops an audit."""
_NICE: Final = 14
"""Niceness in addition to the 5 of every forked process: 19, the lowest priority."""


class Audited(NamedTuple):
    """The result of an audit. `counts`: (rule, severity) -> number of all findings. `is_complete`: false if the time
    was used up before the end; there may be more findings.
    """

    found: tuple[Found, ...]
    counts: Mapping[tuple[str, str], int]
    suppressed: int
    is_complete: bool
    seconds: float
    """CPU time of the audit."""


class Throttle:
    """An `expired()` callback for an audit that also sleeps whenever the process exceeds its share of CPU time."""

    def __init__(
        self,
        share: float,
        until: float,
        clock: Callable[[], float] = monotonic,
        used: Callable[[], float] = process_time,
        rest: Callable[[float], object] = sleep,
    ) -> None:
        """Start to measure. `share`: of one core, in (0, 1]. `until`: deadline by `clock`. `used`: returns seconds of
        CPU time.
        """
        self._share, self._until, self._clock, self._used, self._rest = share, until, clock, used, rest
        self._began, self._used_before = clock(), used()
        self.is_over = False
        """True after a caller has seen the expired deadline."""

    def __call__(self) -> bool:
        """Sleep if the process exceeds its share; return true if the deadline has passed."""
        now = self._clock()
        ahead = (self._used() - self._used_before) / self._share - (now - self._began)
        if ahead > _SLICE:
            self._rest(max(0.0, min(ahead, self._until - now)))
            now = self._clock()
        self.is_over = now >= self._until
        return self.is_over


def scan(cluster: ClusterSnapshot, config: Config, until: float, share: float = SHARE) -> Audited:
    """Audit a cluster. `until`: deadline on the monotonic clock. `share`: maximum share of one core."""
    with suppress(OSError):
        os.nice(_NICE)
    expired, began = Throttle(share, until), process_time()
    result = audited_within(cluster, config, expired, _MAX_WORK)
    evaluated = [finding for finding in result.findings if not finding.not_evaluated]
    return Audited(
        tuple(found_of(finding) for finding in evaluated[:MAX_REPORTED]),
        dict(Counter((finding.rule, str(finding.severity)) for finding in evaluated)),
        result.suppressed,
        len(evaluated) == len(result.findings) and not expired.is_over,
        process_time() - began,
    )
