"""The limit on the number of requests in flight."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from forewarn.webhook.admission.replies import STOPPING, TOO_MANY

if TYPE_CHECKING:
    from forewarn.webhook.admission.replies import Reply


class Gate:
    """Counts the requests in flight, and rejects requests above the limit. Safe from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit, self._inside, self._lock = limit, 0, Lock()
        self.stopping = False

    @property
    def inside(self) -> int:
        """The number of requests in flight."""
        return self._inside

    def enter(self) -> Reply | None:
        """Count one request; return None, or the rejection. The caller of a counted request must call `leave`."""
        with self._lock:
            if self.stopping:
                return STOPPING
            if self._inside >= self._limit:
                return TOO_MANY
            self._inside += 1
            return None

    def leave(self) -> None:
        """Count one request less."""
        with self._lock:
            self._inside -= 1
