"""Liveness and readiness of this process, and threads that must not end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
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


_AGAIN_SECONDS: Final = 5.0


def start_loop(name: str, run: Callable[[], object], stopped: Event) -> Thread:
    """Run a loop on a new thread until `stopped`; start it again if it fails. Raises RuntimeError if there is no
    thread. Loops handle their errors, but if memory is used up, even an error cannot be logged.
    """

    def keep_running() -> None:
        while not stopped.is_set():
            with suppress(Exception):
                run()
                return
            stopped.wait(_AGAIN_SECONDS)

    thread = Thread(target=keep_running, name=name, daemon=True)
    thread.start()
    return thread
