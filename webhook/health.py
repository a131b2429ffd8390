"""Whether this process lives and may be sent requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SILENCE: Final = 30.0
"""Seconds without a turn of the event loop, after which the process counts as stuck."""


@dataclass(slots=True)
class Health:
    """`faults`: each says what stands against sending requests here, or nothing. Safe to read from any thread."""

    faults: tuple[Callable[[], str], ...] = ()
    draining: bool = False
    listening: bool = False
    beat: float = field(default_factory=monotonic)

    def ready(self) -> str:
        """Why no request may be sent here; empty where one may."""
        if self.draining:
            return "draining"
        if not self.listening:
            return "not listening yet"
        return "; ".join(fault for check in self.faults if (fault := check()))

    def alive(self) -> str:
        """Why the process must be restarted; empty where it need not."""
        silence = monotonic() - self.beat
        return f"the event loop has not turned for {silence:.0f} s" if silence > MAX_SILENCE else ""
