"""The bytes of a client on their way to TLS: how many TLS reads at once, and when."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from forewarn.webhook.http.records import RecordDebt, UselessRecords
from forewarn.webhook.logs import RareEvents

if TYPE_CHECKING:
    from forewarn.webhook.http.connections import Connection
    from forewarn.webhook.http.turns import Turns

AT_ONCE: Final = 32 << 10
"""Maximum bytes of a client that TLS reads in one turn of the event loop."""
FREE_COST: Final = 16 << 10
"""Cost of records above their bytes, for which they do not wait."""
_ENDED: Final = RareEvents()


class Wire(asyncio.BufferedProtocol):
    """The protocol of the TCP connection, and the transport of TLS, which writes through.

    Steps of the handshake and many small records wait for their turn. `tls`: an SSLProtocol of uvloop. `handshake`:
    done when the handshake is.
    """

    def __init__(self, tls: Any, handshake: asyncio.Future[None], connection: Connection, turns: Turns) -> None:
        self._tls, self._handshake, self._connection, self._turns = tls, handshake, connection, turns
        self.network = connection.network
        self._buffer: memoryview = tls.get_buffer(AT_ONCE)[:AT_ONCE]
        self._records = RecordDebt()
        connection.delivered = self._records.pay
        self._has_started = False
        self._received = 0
        """Bytes in the buffer that wait for their turn."""
        self._is_full = self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport. TLS starts with the first bytes of the client."""
        self._transport: Any = transport

    def write(self, data: bytes) -> None:
        """Send records to the client."""
        self._transport.write(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Information about the TCP connection, as of a transport."""
        return self._transport.get_extra_info(name, default)

    def close(self) -> None:
        """Close the TCP connection after the records that TLS has written."""
        self._transport.close()

    def _force_close(self, error: Exception | None) -> None:
        self._transport._force_close(error)  # noqa: SLF001  (TLS of uvloop calls it)

    def get_buffer(self, _size: int) -> memoryview:
        """The buffer of TLS, of which a part is used."""
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        """Pass the bytes to TLS, now or in a later turn."""
        try:
            cost = self._records.charge(self._buffer[:size])
        except UselessRecords:
            _ENDED.log("connection ended", {"client": self.network, "reason": "TLS records without data"})
            self._transport.abort()
            return
        if not self._handshake.done() or cost > size + FREE_COST:
            self._received = size
            self._transport.pause_reading()
            self._turns.wait(self)
            return
        self._tls.buffer_updated(size)
        if size == AT_ONCE and not self._transport.is_closing():
            self._is_full = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._continue)

    def proceed(self) -> None:
        """Pass the bytes that have waited to TLS."""
        if not self._has_started:
            self._has_started = True
            self._tls.connection_made(self)
        self._tls.buffer_updated(self._received)
        self._received = 0
        self._read()

    def _continue(self) -> None:
        self._is_full = False
        self._read()

    def _read(self) -> None:
        if not (self._received or self._is_full or self._is_paused or self._transport.is_closing()):
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

    def eof_received(self) -> bool | None:
        """Tell TLS that the client has ended its side; the connection then closes."""
        return self._tls.eof_received() if self._has_started else None

    def connection_lost(self, error: Exception | None) -> None:
        """Tell TLS, or without it the task that opens the connection."""
        self._turns.leave(self)
        if self._has_started:
            self._tls.connection_lost(error)
        if not self._handshake.done():
            self._handshake.set_exception(error or ConnectionResetError())
