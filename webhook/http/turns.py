"""The order of expensive steps for clients: one step per turn of the event loop, and each network in turn.

A handshake costs the event loop a millisecond. Between two steps the event loop accepts connections, and serves others.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

RATE: Final = 128
"""Steps of a group per second. A handshake has three: most clients do not guess the group of the key exchange."""
BURST: Final = 256
"""Steps of a group without a wait, if it has taken none for some time."""
_REMEMBERED: Final = 1024


class Waiting(Protocol):
    """A connection that waits for its step. `network`: of the client, as in `Connection`."""

    network: str

    def proceed(self) -> None:
        """Take the step."""


class Turns:
    """Gives steps to connections: group after group, in a group network after network. Only for one event loop.

    `is_caller`: whether an API server is connected from a network. It is then the first one of its group, and has no
    limit per second.
    """

    def __init__(self, is_caller: Callable[[str], bool], clock: Callable[[], float] = monotonic) -> None:
        self._is_caller, self._clock = is_caller, clock
        self._waiting: dict[str, dict[str, dict[Waiting, None]]] = {}
        """Group -> network -> connections, each in the order of the next steps."""
        self._rested_at: dict[str, float] = {}
        """Group -> time from which it has its whole burst."""
        self._handle: asyncio.Handle | None = None
        self._is_late = False
        """True if all groups have reached their limit."""

    def wait(self, connection: Waiting) -> None:
        """Let a connection take its step in a later turn."""
        networks = self._waiting.setdefault(group_of(connection.network), {})
        networks.setdefault(connection.network, {})[connection] = None
        if self._handle is None or self._is_late:
            self._schedule()

    def leave(self, connection: Waiting) -> None:
        """Forget a connection, if it waits."""
        group = group_of(connection.network)
        if connection in self._waiting.get(group, {}).get(connection.network, ()):
            self._remove(group, connection)

    def _schedule(self, seconds: float = 0) -> None:
        if self._handle is not None:
            self._handle.cancel()
        loop, self._is_late = asyncio.get_running_loop(), seconds > 0
        self._handle = loop.call_later(seconds, self._step) if self._is_late else loop.call_soon(self._step)

    def _step(self) -> None:
        self._handle, now, waits = None, self._clock(), list[float]()
        for group, networks in self._waiting.items():
            waits.append(self._rested_at.get(group, now) - now - (BURST - 1) / RATE)
            network = next(filter(self._is_caller, networks), None)
            if network is None and waits[-1] <= 0:
                network = next(iter(networks))
                self._rested_at[group] = max(self._rested_at.get(group, now), now) + 1 / RATE
            if network is not None:
                connection = next(iter(networks[network]))
                self._remove(group, connection)
                self._schedule()
                connection.proceed()
                return
        if waits:
            self._schedule(min(waits))

    def _remove(self, group: str, connection: Waiting) -> None:
        """Remove a connection; its network and group are then the last ones."""
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
    """The /24 network of an IPv4 address; an IPv6 network itself."""
    return f"{network.rpartition('.')[0]}.0/24" if "." in network and ":" not in network else network
