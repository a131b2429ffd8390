"""The bytes of a client on their way to TLS: how many TLS reads at once, and when."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]

from forewarn.webhook.http.records import RecordDebt, UselessRecords
from forewarn.webhook.logs import RareEvents

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from forewarn.webhook.http.asgi import Limits
    from forewarn.webhook.http.connections import Connection
    from forewarn.webhook.http.turns import Turns

AT_ONCE: Final = 64 << 10
"""Maximum bytes of a client that TLS reads at once. In one turn of the event loop, libuv reads 32 times at most."""
_FIRST: Final = 4 << 10
"""Bytes that are read before TLS starts. A ClientHello has up to 2 KiB."""
FREE_COST: Final = 32 << 10
"""Cost of records above their bytes, for which they do not wait."""
_ENDED: Final = RareEvents()


class Wire(asyncio.BufferedProtocol):
    """The protocol of the TCP connection of a client, and the transport of its TLS.

    Steps of the handshake and many small records wait for their turn. With the first one, TLS and `http` are created,
    which take more time than the connection. `lost`: called when the connection is closed.
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
        """Information about the TCP connection, as of a transport."""
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
        """Tell TLS, and leave nothing that waits."""
        self._timer.cancel()
        self._turns.leave(self)
        self._lost(self._connection)
        if self._tls is not None:
            self._tls.connection_lost(error)
            if not self._connection.is_open:  # TLS does not notify `http`, which its parser keeps alive
                self._app.parser = None
