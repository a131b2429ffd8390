"""The order of expensive steps for clients: one step per turn of the event loop, and each network in turn.

A handshake costs the event loop a millisecond. Between two steps the event loop accepts connections, and serves others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from time import monotonic
from typing import Final, Protocol

RATE: Final = 128
"""Steps of a group per second. A handshake has three: most clients do not guess the group of the key exchange."""
BURST: Final = 256
"""Steps of a group without a wait, if it has taken none for some time."""
_REMEMBERED: Final = 1024
CALLERS: Final = "callers"
"""The group of the networks from which API servers have sent requests."""


class Waiting(Protocol):
    """A connection that waits for its step. `network`: of the client, as in `Connection`."""

    network: str

    def proceed(self) -> None:
        """Take the step."""


class Turns:
    """Gives steps to connections: group after group, in a group network after network. Only for one event loop.

    `is_caller`: whether API servers have sent requests from a network. These networks are one group, which has every
    second step, and no limit per second.
    """

    def __init__(self, is_caller: Callable[[str], bool], clock: Callable[[], float] = monotonic) -> None:
        self._is_caller, self._clock = is_caller, clock
        self._waiting: dict[str, dict[str, dict[Waiting, None]]] = {}
        """Group -> network -> connections, each in the order of the next steps."""
        self._groups: dict[Waiting, str] = {}
        """The group of each of these connections."""
        self._last = ""
        """The group that took the last step."""
        self._rested_at: dict[str, float] = {}
        """Group -> time from which it has its whole burst."""
        self._handle: asyncio.Handle | None = None
        self._is_late = False
        """True if all groups have reached their limit."""

    def wait(self, connection: Waiting) -> None:
        """Let a connection take its step in a later turn."""
        group = CALLERS if self._is_caller(connection.network) else group_of(connection.network)
        self._groups[connection] = group
        networks = self._waiting.setdefault(group, {})
        networks.setdefault(connection.network, {})[connection] = None
        if self._handle is None or self._is_late:
            self._schedule()

    def leave(self, connection: Waiting) -> None:
        """Forget a connection, if it waits."""
        if connection in self._groups:
            self._remove(connection)

    def _schedule(self, seconds: float = 0) -> None:
        if self._handle is not None:
            self._handle.cancel()
        loop, self._is_late = asyncio.get_running_loop(), seconds > 0
        self._handle = loop.call_later(seconds, self._step) if self._is_late else loop.call_soon(self._step)

    def _step(self) -> None:
        self._handle, now, waits = None, self._clock(), list[float]()
        first = (CALLERS,) if CALLERS in self._waiting and self._last != CALLERS else ()
        for group in chain(first, self._waiting):
            waits.append(self._rested_at.get(group, now) - now - (BURST - 1) / RATE)
            if waits[-1] <= 0:
                if group != CALLERS:
                    self._rested_at[group] = max(self._rested_at.get(group, now), now) + 1 / RATE
                connection = next(iter(next(iter(self._waiting[group].values()))))
                self._remove(connection)
                self._last = group
                self._schedule()
                connection.proceed()
                return
        if waits:
            self._schedule(min(waits))

    def _remove(self, connection: Waiting) -> None:
        """Remove a connection; its network and group are then the last ones."""
        group = self._groups.pop(connection)
        networks = self._waiting.pop(group)
        connections = networks.pop(connection.network)
        del connections[connection]
        if connections:
            networks[connection.network] = connections
        if networks:
            self._waiting[group] = networks
        if len(self._rested_at) > _REMEMBERED:
            now = self._clock()
            self._rested_at = {group: at for group, at in self._rested_at.items() if at > now}


def group_of(network: str) -> str:
    """Return the /24 network of an IPv4 address; an IPv6 network itself."""
    return f"{network.rpartition('.')[0]}.0/24" if "." in network and ":" not in network else network
