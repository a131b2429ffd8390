"""How long a request may take: `?timeout=10s`, as the API server appends it."""

from __future__ import annotations

import re
from time import monotonic
from typing import Final, NamedTuple

DEFAULT_SECONDS: Final = 10.0
"""What the API server waits where a webhook configuration names no time."""
MAX_SECONDS: Final = 30.0
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RESERVE: Final = 0.25
"""The part of the time that is kept for the way back."""


def parse_timeout(text: str) -> float:
    """A Go duration in seconds; the default where there is none, or one that makes no sense."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return DEFAULT_SECONDS
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return min(seconds, MAX_SECONDS) if seconds > 0 else DEFAULT_SECONDS


class Deadline(NamedTuple):
    """When the answer must be on its way (on the monotonic clock, in seconds)."""

    at: float

    @classmethod
    def after(cls, received: float, seconds: float) -> Deadline:
        """The deadline of a request that came at `received` and may take so many seconds."""
        return cls(received + seconds * (1 - _RESERVE))

    def within(self, seconds: float) -> Deadline:
        """This deadline, or so many seconds from now where that is earlier."""
        return Deadline(min(self.at, monotonic() + seconds))

    def seconds(self) -> float:
        """What is left; never negative."""
        return max(0.0, self.at - monotonic())

    def expired(self) -> bool:
        """Whether there is no time left for what takes long."""
        return monotonic() >= self.at
