"""uvicorn with what a webhook needs: limits in time and size, draining, and a health port on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from http import HTTPStatus
from threading import Thread, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from a2wsgi import WSGIMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from webhook.admission.endpoint import refusal, route
from webhook.http.asgi import DEFAULT_LIMITS, WHOLE, Application, Limits
from webhook.http.connections import Connection, Connections
from webhook.http.tls import client_names
from webhook.logs import RareEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from ssl import SSLContext
    from types import FrameType
    from wsgiref.types import WSGIApplication

    from webhook.admission.endpoint import Gate
    from webhook.health import Health

MAX_HEADER: Final = 64 * 1024
"""Bytes of a request that are not of its body: header, trailer, and the lines between chunks."""
_TOO_LARGE: Final = f"the header is larger than {MAX_HEADER} bytes"
_AT_ONCE: Final = 64 * 1024
"""Bytes of a body that is handed over as it came; a larger one is read in parts, and its client held back."""
_AROUND: Final = len(": \r\n")
ANY: Final = "::"
_BACKLOG: Final = 2048
_PASSES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
"""What keeps one connection from being accepted, and not those after it."""
_NO_DESCRIPTOR_SECONDS: Final = 0.05
_ENDS_WITHIN: Final = 2.0
"""Seconds that the health port gets to end."""
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


_REFUSED: Final = RareEvents()


def _is_idle(cycle: RequestResponseCycle | None) -> bool:
    return cycle is None or cycle.response_complete


def _nobody(_status: int) -> None:
    """Nobody counts."""


class _WhileOpen:
    """A transport that ignores what is written after its client has gone; uvicorn logs an exception for that."""

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write it, if the client is still there."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _InOneWrite(_WhileOpen):
    """A transport that keeps what is written first, the header of an answer, for what is written next, its body.

    Two writes are two TLS records and two system calls: a quarter of the time that a short answer takes.
    """

    __slots__ = ("_head",)

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._head = b""

    def write(self, data: bytes) -> None:
        """Keep it, or write it with what was kept."""
        if self._head:
            super().write(self._head + data)
            self._head = b""
        else:
            self._head = data

    def close(self) -> None:
        """Close the transport, once what was kept is written."""
        if self._head:
            super().write(self._head)
        self._transport.close()


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds that uvicorn lacks: on the header's time and size, and on connections never used."""

    def __init__(
        self,
        *arguments: Any,
        header_seconds: float = DEFAULT_LIMITS.header,
        client_names: frozenset[str] = frozenset(),
        refused: Callable[[int], None] = _nobody,
        connection: Connection | None = None,
        connections: Connections | None = None,
        **keywords: Any,
    ) -> None:
        """`refused`: told the status of each request that is not handed on. `connection`: its place among others."""
        super().__init__(*arguments, **keywords)
        self._connections = connections or Connections()
        self._connection = connection or Connection("", monotonic())
        self._header_seconds, self._client_names, self._refused = header_seconds, client_names, refused
        self._stranger = ""
        self._in_header = False
        self._in_message = self._is_large = self._mixed = False
        self._packet = 0
        self._outside = 0
        """Bytes of this request that are not of its body."""
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection that no request ever comes on ends as an idle one does."""
        super().connection_made(transport)
        self._connection.end = transport.abort
        if self._client_names:
            names = client_names(transport.get_extra_info("peercert") or {})
            if not names & self._client_names:
                self._stranger = ", ".join(f'"{name[:80]}"' for name in sorted(names)[:3]) or "nobody"
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and watch that the header ends."""
        if self._stranger:
            self._refuse(403, f"the client certificate for {self._stranger} is not allowed by --client-name")
            return
        self._packet, self._mixed = len(data), self._in_message
        self._outside += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._outside > MAX_HEADER:
            self._refuse(431, _TOO_LARGE)
        elif self._in_header:
            if self._header_timer is None:
                self._header_timer = self.loop.call_later(self._header_seconds, self._too_slow)
        elif self.timeout_keep_alive_task is None and _is_idle(self.cycle):
            self._rest()

    def on_message_begin(self) -> None:
        """A header begins; in a packet that has the end of another request it is counted once it is whole."""
        self._in_header = self._in_message = True
        self._outside = 0 if self._mixed else self._packet
        self._connection.busy = True
        super().on_message_begin()

    def on_response_complete(self) -> None:
        """A request has been answered; one that came right behind it begins."""
        self._connections.rest(self._connection)
        super().on_response_complete()
        self._connection.busy = not _is_idle(self.cycle)

    def on_headers_complete(self) -> None:
        """A header ends. One that came in one piece has not been measured yet."""
        self._in_header = False
        self._stop_header_timer()
        if self._outside > MAX_HEADER or self._mixed:
            size = len(self.url) + sum(len(name) + len(value) + _AROUND for name, value in self.headers)
            if size > MAX_HEADER:
                self._is_large = True
                raise ValueError(_TOO_LARGE)  # ends the parser's work, and comes back by `send_400_response`
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            kind = _InOneWrite if self._is_ours() and not self.expect_100_continue else _WhileOpen
            self.cycle.transport = cast("asyncio.Transport", kind(self.transport))

    def _is_ours(self) -> bool:
        """Whether the answer is one header and one body, by our own hand."""
        return self.scope["method"] == "POST" and route(self.scope["path"])[0] is not None

    def on_body(self, body: bytes) -> None:
        """A part of the body: all else that comes is header, trailer or the lines between chunks."""
        self._outside -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends; what follows in the same packet is another one."""
        self._in_message, self._mixed, self._outside = False, True, 0
        if len(self.cycle.body) <= _AT_ONCE:
            # The task that answers has not run yet where all came in one packet. Who runs already looks here no more.
            cast("dict[str, Any]", self.scope)[WHOLE] = self.cycle.body
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is waited for."""
        self._stop_header_timer()
        self._connections.leave(self._connection)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered with a Status too."""
        if self._is_large:
            self._refuse(431, _TOO_LARGE)
        else:
            self._refuse(400, msg)

    def _rest(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _too_slow(self) -> None:
        if self._in_header and not self.transport.is_closing():
            self._refuse(408, "the request header did not arrive in time")

    def _refuse(self, status: int, message: str) -> None:
        self._refused(status)
        told = {"status": status, "reason": message, "client": self.client[0] if self.client else ""}
        _REFUSED.log("connection rejected", told)
        body = refusal(status, message).body
        head = (
            f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
        )
        self.transport.write(head.encode() + b"\r\n\r\n" + body)
        self.transport.close()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class TlsServer(uvicorn.Server):
    """Serves until SIGTERM or SIGINT, then drains: not ready, connections closed as they answer, then no new ones."""

    def __init__(
        self,
        app: Application,
        context: SSLContext,
        gate: Gate,
        health: Health,
        limits: Limits = DEFAULT_LIMITS,
        client_names: frozenset[str] = frozenset(),
        refused: Callable[[int], None] = _nobody,
    ) -> None:
        super().__init__(_config(app, limits))
        self._client_names, self._refused = client_names, refused
        self._context, self._gate, self._health, self._limits = context, gate, health, limits
        self._drained_at: float | None = None
        self.connections = Connections(limits.connections)
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop. uvicorn alone takes signals only once its event loop runs."""
        with self.capture_signals():
            super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn's own start takes any number of connections, and leaves a silent handshake 60 seconds."""
        await self.lifespan.startup()
        self.servers = []
        for sock in sockets or ():
            sock.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(sock)))
        self.started = True
        self._health.listening = True

    async def _accept(self, sock: socket.socket) -> None:
        """Take connections in as long as there is room for them."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(sock)
            except OSError as error:
                if error.errno not in _PASSES:
                    raise
                await asyncio.sleep(_NO_DESCRIPTOR_SECONDS)
                continue
            connection = self.connections.enter(str(address[0]))
            if connection is None:
                accepted.close()
                self._refused(HTTPStatus.SERVICE_UNAVAILABLE)
                continue
            task = loop.create_task(self._shake_hands(accepted, connection))
            connection.end = task.cancel
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._protocol(connection),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake,
                ssl_shutdown_timeout=self._limits.goodbye,
            )
        except (OSError, TimeoutError, asyncio.CancelledError):  # a handshake that fails is the client's affair
            self.connections.leave(connection)
            accepted.close()

    def _protocol(self, connection: Connection) -> Protocol:
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        return Protocol(
            **state,
            header_seconds=self._limits.header,
            client_names=self._client_names,
            refused=self._refused,
            connection=connection,
            connections=self.connections,
        )

    async def on_tick(self, counter: int) -> bool:
        """A sign of life; true once it is time to stop."""
        self._health.beat = monotonic()
        stop = await super().on_tick(counter)
        return stop or (self._drained_at is not None and self._health.beat >= self._drained_at)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """No new connections; requests on old ones are sent elsewhere; what is in flight ends."""
        self._gate.stopping = True
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """uvicorn's own version ends the process by the signal; ours exits with status 0."""
        if current_thread() is not main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  (uvicorn's signature)
        """The first signal begins to drain, the second one cuts that short."""
        if self._drained_at is None:
            self._health.draining = True
            self._drained_at = monotonic() + self._limits.drain
        else:
            self.should_exit = self.force_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening address; port 0 takes a free one. `::` is all of IPv4 too, and that alone where there is no IPv6.

    Raises OSError.
    """
    try:
        return _bind(socket.AF_INET6 if ":" in host else socket.AF_INET, host, port)
    except OSError as error:
        if host != ANY or error.errno not in _NO_IPV6:
            raise
        return _bind(socket.AF_INET, "0.0.0.0", port)


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == ANY:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
        sock.listen(_BACKLOG)  # from here on nobody is refused, only kept waiting
    except OSError:
        sock.close()
        raise
    return sock


def from_wsgi(app: WSGIApplication) -> Application:
    """A WSGI application as an ASGI one, on threads of its own."""
    return cast("Application", WSGIMiddleware(cast("Any", app), workers=2))


def serve_health(sock: socket.socket, app: WSGIApplication) -> Callable[[], None]:
    """Serve the plain port on a thread of its own; returns what ends it."""
    server = uvicorn.Server(_config(from_wsgi(app), DEFAULT_LIMITS))
    thread = Thread(target=server.run, args=([sock],), name="health", daemon=True)
    thread.start()

    def end() -> None:
        """Wait until it has: an event loop that is at work while the interpreter goes can crash it."""
        server.should_exit = True
        thread.join(_ENDS_WITHIN)

    return end


def _config(app: Application, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        cast("Any", app),
        http=Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=limits.keep_alive,
        timeout_graceful_shutdown=limits.finish,
    )
