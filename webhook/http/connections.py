"""The limit on connections, and the choice of a connection to close.

A TLS connection needs about 50 kB from its first bytes on, even if idle, and 250 kB of address space: after many
others, most of this is memory. An API server keeps 25 idle connections, and opens one more for each further request. At
the limit, each new connection replaces another one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain
from time import monotonic
from typing import Final

from forewarn.webhook.logs import RareEvents

MAX_CONNECTIONS: Final = 1024
"""Maximum connections: about 50 MB, and 300 MB after floods."""
MAX_SPARED: Final = 128
"""Maximum connections of a caller's network and rank that are closed after those of strangers."""
_MAX_CALLERS: Final = 1024


class Rank(IntEnum):
    """What the client of a connection has sent. Connections of a lower rank are closed first."""

    UNUSED = 0
    """No complete request: a client that is silent, slow, or in its handshake."""
    USED = 1
    """A request that has its response."""
    ASKING = 2
    """A request that has no response yet."""
    CALLER = 3
    """A request of an API server."""
    RECEIVING = 4
    """A request of an API server whose body is arriving."""


@dataclass(eq=False, slots=True)
class Connection:
    """One connection. `network`: of the client. `since`: start of the connection (monotonic clock). `end` closes it."""

    network: str
    since: float
    rank: Rank = Rank.UNUSED
    busy: bool = False
    """True while a complete request of an API server has no response. A busy connection is not closed."""
    is_caller: bool = False
    """True after a request of an API server."""
    is_open: bool = False
    """True after the handshake, if there is one."""
    is_spared: bool = False
    """True if it is closed only after all others that are not: an API server has sent a request from its network."""
    end: Callable[[], object] = lambda: None
    delivered: Callable[[int], object] = lambda _: None
    """Called with the number of bytes of application data that arrived."""


class Connections:
    """The open connections, at most `limit`. Only for the thread of one event loop."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._limit = limit
        self._ranks: dict[tuple[bool, Rank], dict[str, dict[Connection, None]]] = {
            (is_spared, rank): {} for is_spared in (False, True) for rank in Rank
        }
        """Spared or not, and rank -> network -> connections, the longest idle first."""
        self._callers: dict[str, None] = {}
        """The networks from which API servers have sent requests, the latest last."""
        self._evictions = RareEvents()
        self.count = 0

    @property
    def is_crowded(self) -> bool:
        """True if more than half of the connections are open."""
        return 2 * self.count > self._limit

    def enter(self, address: str) -> Connection | None:
        """Register a connection, if necessary by evicting another one. Returns None if all others are busy."""
        connection = Connection(network_of(address), monotonic())
        self._add(connection)
        if self.count > self._limit and not self.evict(connection):
            self.leave(connection)
            return None
        return connection

    def opening(self) -> list[Connection]:
        """Return the connections before the end of their handshakes."""
        unused = chain(self._ranks[False, Rank.UNUSED].values(), self._ranks[True, Rank.UNUSED].values())
        return [connection for group in unused for connection in group if not connection.is_open]

    def has_caller(self, network: str) -> bool:
        """Report whether an API server has sent a request from a network."""
        return network in self._callers

    def leave(self, connection: Connection) -> bool:
        """Remove a closed connection. Returns false, and has no effect, if it was removed before."""
        networks = self._ranks[connection.is_spared, connection.rank]
        group = networks.get(connection.network, {})
        if connection not in group:
            return False
        del group[connection]
        self.count -= 1
        if not group:
            del networks[connection.network]
        return True

    def place(self, connection: Connection, rank: Rank) -> None:
        """Change the rank of an open connection, which was in use until now."""
        if self.leave(connection):
            connection.rank = rank
            self._add(connection)

    def evict(self, newcomer: Connection | None = None) -> bool:
        """Close the connection that is not spared, with the lowest rank, of the network with the most of this rank,
        idle for longest.

        Returns false if there is none besides `newcomer` that is not busy.
        """
        networks = (sorted(of_rank.values(), key=len, reverse=True) for of_rank in self._ranks.values())
        in_order = chain.from_iterable(chain.from_iterable(networks))
        victim = next((other for other in in_order if other is not newcomer and not other.busy), None)
        if victim is None:
            return False
        self.leave(victim)
        victim.end()
        self._evictions.log("connection evicted", {"client": victim.network, "rank": victim.rank.name.lower()})
        return True

    def _add(self, connection: Connection) -> None:
        network, rank = connection.network, connection.rank
        if rank >= Rank.CALLER:
            self._callers.pop(network, None)
            self._callers[network] = None
            if len(self._callers) > _MAX_CALLERS:
                del self._callers[next(iter(self._callers))]
        connection.is_spared = rank >= Rank.CALLER or (
            self.has_caller(network) and len(self._ranks[True, rank].get(network, ())) < MAX_SPARED
        )
        self._ranks[connection.is_spared, rank].setdefault(network, {})[connection] = None
        self.count += 1


@lru_cache(maxsize=MAX_CONNECTIONS)
def network_of(address: str) -> str:
    """Return the network that one host has: an IPv4 address, or the /64 prefix of an IPv6 address."""
    with suppress(ValueError):
        if isinstance(parsed := ip_address(address), IPv6Address):
            return str(parsed.ipv4_mapped or f"{IPv6Address(int(parsed) >> 64 << 64)}/64")
    return address
