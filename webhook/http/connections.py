"""The limit on connections, and the choice of a connection to close.

A TLS connection needs about 50 kB after its handshake, even if idle. An API server keeps 25 idle connections, and
opens one more for each further request. At the limit, the client with the most connections loses one.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CONNECTIONS: Final = 1024
"""Maximum connections: about 50 MB."""


def _nothing() -> None:
    """Do nothing: the default for a connection without transport."""


@dataclass(eq=False, slots=True)
class Connection:
    """One connection. `source`: address of the client. `since`: time of the last use (monotonic clock). `end` closes
    the connection.
    """

    source: str
    since: float
    busy: bool = False
    """True while a request on the connection has no response."""
    used: bool = False
    """True after the first response on the connection."""
    end: Callable[[], object] = _nothing


class Connections:
    """The open connections, at most `most`. Only for the thread of one event loop."""

    def __init__(self, most: int = MAX_CONNECTIONS, clock: Callable[[], float] = monotonic) -> None:
        self._most, self._clock = most, clock
        self._of: dict[str, set[Connection]] = {}
        self.count = 0

    def enter(self, source: str) -> Connection | None:
        """Register a connection from a client, if necessary by closing an idle one of the client with the most
        connections.

        Returns None if no connection can be closed, or if `source` itself has the most connections.
        """
        if self.count >= self._most and not self._close_one(source):
            return None
        connection = Connection(source, self._clock())
        self._of.setdefault(source, set()).add(connection)
        self.count += 1
        return connection

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
        """Record that a request on the connection has its response."""
        connection.busy, connection.used, connection.since = False, True, self._clock()

    def _close_one(self, source: str) -> bool:
        """Close an idle connection of the client with the most connections: unused ones first, then the longest idle.

        Returns false if there is none, or if `source` is the client with the most connections.
        """
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
