"""Liveness and readiness of this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

MAX_SILENCE: Final = 30.0
"""Maximum seconds for which the event loop may be blocked."""


@dataclass(slots=True)
class Health:
    """The state of this process for probes. Thread-safe to read.

    `faults`: each returns why the process is not ready, or "". `beat`: time at which the event loop last ran
    (monotonic clock).
    """

    faults: tuple[Callable[[], str], ...] = ()
    draining: bool = False
    listening: bool = False
    beat: float = field(default_factory=monotonic)

    def ready(self) -> str:
        """Return why the process is not ready; "" if ready."""
        if self.draining:
            return "draining"
        if not self.listening:
            return "not listening yet"
        return "; ".join(fault for check in self.faults if (fault := check()))

    def alive(self) -> str:
        """Return why the process must restart; "" if alive."""
        silence = monotonic() - self.beat
        return f"the event loop is blocked for {silence:.0f} s" if silence > MAX_SILENCE else ""
