"""Deadlines of requests: `?timeout=10s`, as the API server appends it, and CPU time for predictions."""

from __future__ import annotations

import re
from functools import lru_cache
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.metering import holding

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_SECONDS: Final = 10.0
"""The default of `timeoutSeconds` in webhook configurations."""
MAX_SECONDS: Final = 30.0
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RESERVE: Final = 0.25
"""The part of the timeout that is reserved for the response."""


@lru_cache(maxsize=64)
def parse_timeout(text: str) -> float:
    """A Go duration in seconds; the default for an empty, invalid or non-positive duration.

    Cached, because API servers use only a few values.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return DEFAULT_SECONDS
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return min(seconds, MAX_SECONDS) if seconds > 0 else DEFAULT_SECONDS


class Deadline(NamedTuple):
    """The latest time to send the response, in seconds of the monotonic clock."""

    at: float

    @classmethod
    def after(cls, received: float, seconds: float) -> Deadline:
        """Return the deadline of a request that arrived at `received` with a timeout of `seconds`, minus a reserve."""
        return cls(received + seconds * (1 - _RESERVE))

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, monotonic() + seconds))

    def seconds(self) -> float:
        """The remaining time; never negative."""
        return max(0.0, self.at - monotonic())

    def expired(self) -> bool:
        """True if no time remains for predictions."""
        return monotonic() >= self.at


class Attempt:
    """The time limit of a prediction on the event loop or the evaluating thread.

    Counts CPU time of the thread, so other processes on a busy machine do not shorten the limit. `give_way` runs
    cheaper requests first; their time does not count.
    """

    def __init__(self, seconds: float, deadline: Deadline, give_way: Callable[[], bool] = lambda: False) -> None:
        self._deadline, self._started, self._give_way = deadline, thread_time(), give_way
        self._seconds = seconds
        self.used_up = False

    def expired(self) -> bool:
        """True if the time is used up; stays true. Runs cheaper requests first, unless the thread has a shared lock."""
        if not self.used_up:
            took = thread_time() - self._started
            self.used_up = took >= self._seconds or self._deadline.expired()
            if not (self.used_up or holding()) and self._give_way():
                self._started = thread_time() - took
        return self.used_up
