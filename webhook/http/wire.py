"""Limits on clients: their connections, and the bytes that TLS receives.

A TLS connection needs about 50 kB from its first bytes on, even if idle, and 250 kB of address space: after many
others, most of this is memory. An API server keeps up to 25 idle connections, and opens another one for each further
request. At the limit, each new connection replaces another one.

Expensive steps for clients have an order: one step per turn of the event loop, and each network in turn. A handshake
costs the event loop a millisecond. Between two steps the event loop accepts connections, and serves others.

OpenSSL reads any number of records in one call until one has application data. KeyUpdates, renegotiations, alerts, and
empty records have none, and each costs as much CPU time as kilobytes of data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]

from forewarn.webhook.logs import RareEvents

if TYPE_CHECKING:
    from ssl import SSLContext

    from forewarn.webhook.http.asgi import Limits


MAX_SPARED: Final = 128
"""Maximum number of connections of a caller's network and rank that are closed after those of strangers."""
_MAX_CALLERS: Final = 1024


class Rank(IntEnum):
    """What the client of a connection has sent. Connections of a lower rank are closed first."""

    UNUSED = 0
    """No complete request: a client that is silent, slow, or in its handshake."""
    USED = 1
    """A request that has received its response."""
    ASKING = 2
    """A request that has no response yet."""
    CALLER = 3
    """A request of an API server."""
    RECEIVING = 4
    """A request of an API server whose body is arriving."""


@dataclass(eq=False, slots=True)
class Connection:
    """One connection. `network`: the client's. `since`: start of the connection (monotonic clock). `end`: closes it."""

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
    """True if it is closed after all others: an API server has sent a request from its network."""
    end: Callable[[], object] = lambda: None
    delivered: Callable[[int], object] = lambda _: None
    """Called with the number of bytes of application data that arrived."""


class Connections:
    """The open connections, at most `limit`. Only for the thread of one event loop."""

    def __init__(self, limit: int) -> None:
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
        """Change the rank of an open connection that was active until now."""
        if self.leave(connection):
            connection.rank = rank
            self._add(connection)

    def evict(self, newcomer: Connection | None = None) -> bool:
        """Close one connection: if possible not spared, then of the lowest rank, then of the network with most of this
        rank, then idle for longest. Returns false if all connections besides `newcomer` are busy.
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


@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """Return the network that one host has: an IPv4 address, or the /64 prefix of an IPv6 address."""
    with suppress(ValueError):
        if isinstance(parsed := ip_address(address), IPv6Address):
            return str(parsed.ipv4_mapped or f"{IPv6Address(int(parsed) >> 64 << 64)}/64")
    return address


RATE: Final = 128
"""Number of handshake steps per second for a group of connections. A handshake has three steps, because most clients do
not guess the group of the key exchange.
"""
BURST: Final = 256
"""Number of steps that a group may take without a wait after it has been idle for some time."""
_REMEMBERED: Final = 1024
CALLERS: Final = "callers"
"""The group of the networks from which API servers have sent requests."""


class Waiting(Protocol):
    """A connection that waits for its step. `network`: that of the client, as in `Connection`."""

    network: str

    def proceed(self) -> None:
        """Take the step."""


class Turns:
    """Gives steps to connections: one group after the other, and within a group one network after the other. Only for
    one event loop.

    `is_caller`: whether API servers have sent requests from a network. These networks are one group, which has every
    second step, and no limit per second.
    """

    def __init__(self, is_caller: Callable[[str], bool], clock: Callable[[], float] = monotonic) -> None:
        self._is_caller, self._clock = is_caller, clock
        self._waiting: dict[str, dict[str, dict[Waiting, None]]] = {}
        """Group -> network -> connections, each in the order of the next steps."""
        self._groups: dict[Waiting, str] = {}
        """Connection that waits -> its group."""
        self._last = ""
        """The group that took the last step."""
        self._rested_at: dict[str, float] = {}
        """Group -> time from which its whole burst is available again."""
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
        """Remove a connection, and move its network and group to the end of the order."""
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


AT_ONCE: Final = 64 << 10
"""Maximum bytes of a client that TLS reads in one step. In one turn of the event loop, libuv reads 32 times at most."""
_FIRST: Final = 4 << 10
"""Bytes that are read before TLS starts. A ClientHello has up to 2 KiB."""
FREE_COST: Final = 32 << 10
"""Cost of records, beyond their bytes, for which they do not wait."""
_ENDED: Final = RareEvents()

_HEADER: Final = Struct(">BBxH")
"""Type, major version, and length of a record."""
_TYPES: Final = range(20, 24)
"""The record types ChangeCipherSpec, alert, handshake and application data."""
_HANDSHAKE: Final = 22
_APPLICATION_DATA: Final = 23
"""The record type of application data; in TLS 1.3 also of all other encrypted records, such as KeyUpdates."""
_MAJOR: Final = 3
_MAX_LENGTH: Final = (1 << 14) + 2048
_TINY: Final = 64
"""Records with fewer bytes have hardly any data: a KeyUpdate has 22."""
USELESS_COST: Final = 16 << 10
"""Cost of a tiny record, and of a record without application data. The data of a turn also pay this amount once."""
MIN_COST: Final = 1 << 10
"""Cost of any other small record; a large record costs its length."""
MAX_HANDSHAKE: Final = 16 << 10
"""Maximum bytes of handshake messages without encryption. OpenSSL compares each key share of a ClientHello with each
group: 64 KiB cost 60 ms, 16 KiB 4 ms.
"""
MAX_DEBT: Final = 256 << 10
"""Maximum `RecordDebt.debt`. API servers send records of at least 1 KiB in bulk. Data that waits in TLS for a paused
reader does not count as payment yet.
"""


class UselessRecords(Exception):
    """The error if the client does not send TLS, or too many records for its application data."""


class RecordDebt:
    """The records that a client has sent without enough application data to pay for them."""

    def __init__(self) -> None:
        self.debt = self._handshake = 0
        self._header = b""
        """The part of a record's header that has arrived."""
        self._rest = 0
        """Bytes of the current record that have not arrived."""

    def charge(self, data: memoryview) -> int:
        """Add the records that begin in this data; return their cost. Raises UselessRecords, before TLS reads them."""
        before, place = self.debt, self._rest
        if self._header:
            data = memoryview(self._header + data)
        while place + _HEADER.size <= len(data):
            place += _HEADER.size + self._begin(*_HEADER.unpack_from(data, place))
        self._header = bytes(data[place:])
        self._rest = max(0, place - len(data))
        return self.debt - before

    def pay(self, size: int) -> None:
        """Subtract application data of `size` bytes that the client has sent."""
        self.debt = max(0, self.debt - 2 * size - USELESS_COST)

    def _begin(self, kind: int, major: int, length: int) -> int:
        """Add a record; return its length without the header."""
        is_useless = kind != _APPLICATION_DATA or length < _TINY
        self.debt += max(length, USELESS_COST if is_useless else MIN_COST)
        self._handshake += length if kind == _HANDSHAKE else 0
        if kind not in _TYPES or major != _MAJOR or length > _MAX_LENGTH:
            raise UselessRecords
        if self._handshake > MAX_HANDSHAKE or self.debt > MAX_DEBT:
            raise UselessRecords
        return length


class Wire(asyncio.BufferedProtocol):
    """The protocol of the TCP connection of a client, and the transport of its TLS.

    Steps of the handshake and many small records wait for their turn. The first of them creates TLS and `http`, which
    takes more time than the connection. `lost`: called when the connection is closed.
    """

    def __init__(
        self,
        http: Callable[[], asyncio.Protocol],
        context: SSLContext,
        limits: Limits,
        connection: Connection,
        turns: Turns,
        lost: Callable[[Connection], object],
    ) -> None:
        self._http, self._context, self._limits = http, context, limits
        self._connection, self._turns, self._lost = connection, turns, lost
        self.network = connection.network
        self._tls: Any = None
        self._buffer = memoryview(bytearray(_FIRST))
        self._records = RecordDebt()
        connection.delivered = self._records.pay
        self._timer = asyncio.get_running_loop().call_later(limits.handshake, self._end_opening)
        self._received = 0
        """Bytes in the buffer that wait for their turn."""
        self._is_paused = False

    def connection_made(self, transport: Any) -> None:
        """Wait for the first bytes of the client, with which TLS starts."""
        self._transport, self._connection.end = transport, transport.abort
        self.write = transport.write

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the TCP connection, as a transport does."""
        return self._transport.get_extra_info(name, default)

    def close(self) -> None:
        """Close the TCP connection after the records that TLS has written."""
        self._transport.close()

    def _force_close(self, error: Exception | None) -> None:
        self._transport._force_close(error)  # noqa: SLF001  (TLS of uvloop calls it)

    def get_buffer(self, _size: int) -> memoryview:
        """Return a part of the buffer of TLS, if TLS has started."""
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        """Pass the bytes to TLS, now or in a later turn."""
        try:
            cost = self._records.charge(self._buffer[:size])
        except UselessRecords:
            _ENDED.log("connection ended", {"client": self.network, "reason": "TLS records without data"})
            self._transport.abort()
            return
        if self._connection.is_open and cost <= size + FREE_COST:
            self._tls.buffer_updated(size)
        else:
            self._received = size
            self._transport.pause_reading()
            self._turns.wait(self)

    def proceed(self) -> None:
        """Pass the bytes that have waited to TLS."""
        if self._tls is None:
            self._start()
        self._tls.buffer_updated(self._received)
        self._received = 0
        self._read()

    def _start(self) -> None:
        """Start TLS, with the first bytes of the client in its buffer."""
        times = {"ssl_handshake_timeout": self._limits.handshake, "ssl_shutdown_timeout": self._limits.goodbye}
        loop = asyncio.get_running_loop()
        self._app: Any = self._http()
        self._tls = SSLProtocol(loop, self._app, self._context, None, server_side=True, **times)
        self._tls._get_app_transport().set_read_buffer_limits(AT_ONCE, AT_ONCE * 3 // 4)  # noqa: SLF001
        self._tls.connection_made(self)
        first, self._buffer = self._buffer, self._tls.get_buffer(AT_ONCE)[:AT_ONCE]
        self._buffer[: self._received] = first[: self._received]

    def _end_opening(self) -> None:
        if not self._connection.is_open:
            self._connection.end()

    def _read(self) -> None:
        if not (self._received or self._is_paused or self._transport.is_closing()):
            self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Read nothing until TLS resumes."""
        self._is_paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, if no bytes wait."""
        self._is_paused = False
        self._read()

    def pause_writing(self) -> None:
        """Tell TLS that the client does not read."""
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        """Tell TLS that the client reads again."""
        self._tls.resume_writing()

    def eof_received(self) -> bool:
        """Tell TLS that the client has ended its side; the connection then closes."""
        return self._tls is not None and bool(self._tls.eof_received())

    def connection_lost(self, error: Exception | None) -> None:
        """Notify TLS, and stop waiting for turns."""
        self._timer.cancel()
        self._turns.leave(self)
        self._lost(self._connection)
        if self._tls is not None:
            self._tls.connection_lost(error)
            if not self._connection.is_open:  # TLS does not notify `http`, which its parser keeps alive
                self._app.parser = None
