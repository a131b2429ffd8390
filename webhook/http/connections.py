"""The limit on connections, and the choice of a connection to close.

A TLS connection needs about 50 kB after its handshake, even if it is idle. An API server keeps 25 idle connections, and
opens one more for each further request. The client with the most connections loses one first.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CONNECTIONS: Final = 1024
"""Some 50 MB."""


def _nothing() -> None:
    """Nothing to end yet."""


@dataclass(eq=False, slots=True)
class Connection:
    """One connection. `since`: when it was last of use (monotonic clock); `end` closes it."""

    source: str
    since: float
    busy: bool = False
    """True while a request on the connection has no response."""
    used: bool = False
    """True after the first response on the connection."""
    end: Callable[[], object] = _nothing


class Connections:
    """The connections there are, `most` at a time. One event loop alone calls it."""

    def __init__(self, most: int = MAX_CONNECTIONS, clock: Callable[[], float] = monotonic) -> None:
        self._most, self._clock = most, clock
        self._of: dict[str, set[Connection]] = {}
        self.count = 0

    def enter(self, source: str) -> Connection | None:
        """A place for a connection from there, None where there is none: all are in use, or its own are the most."""
        if self.count >= self._most and not self._make_room(source):
            return None
        made = Connection(source, self._clock())
        self._of.setdefault(source, set()).add(made)
        self.count += 1
        return made

    def leave(self, connection: Connection) -> None:
        """Remove a closed connection. A second call has no effect."""
        found = self._of.get(connection.source)
        if found is None or connection not in found:
            return
        found.discard(connection)
        self.count -= 1
        if not found:
            del self._of[connection.source]

    def rest(self, connection: Connection) -> None:
        """A request on it has been answered."""
        connection.busy, connection.used, connection.since = False, True, self._clock()

    def _make_room(self, source: str) -> bool:
        """Close the one that is least missed of who has most: never used before used, the longest idle first."""
        crowd = max(self._of.values(), key=len)
        if len(self._of.get(source, ())) == len(crowd) and len(self._of) > 1:
            return False
        idle = [connection for connection in crowd if not connection.busy]
        if not idle:
            return False
        least = min(idle, key=lambda connection: (connection.used, connection.since))
        self.leave(least)
        least.end()
        return True
