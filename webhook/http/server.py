"""uvicorn with limits on time and size, draining, and a health port on a separate thread."""

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

from forewarn.webhook.http.asgi import DEFAULT_LIMITS, Application, Limits
from forewarn.webhook.http.connections import Connection, Connections
from forewarn.webhook.http.forwarding import Forwarding
from forewarn.webhook.http.health_port import MAX_HEALTH_CONNECTIONS, RECEIVE_BUFFER, HealthPaths
from forewarn.webhook.http.protocol import Protocol, report_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator
    from pathlib import Path
    from ssl import SSLContext
    from types import FrameType
    from wsgiref.types import WSGIApplication

    from forewarn.webhook.admission.gate import Gate
    from forewarn.webhook.health import Health

ANY: Final = "::"
_BACKLOG: Final = 2048
ACCEPTED_AT_ONCE: Final = 8
"""Maximum connections that a port accepts in one turn of the event loop, which then closes the evicted ones."""
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.05
"""Pause if the kernel gives no connection and none can be evicted."""
_CLOSE_SECONDS: Final = 2.0
"""Maximum seconds to wait for the end of the health server."""
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class Server(uvicorn.Server):
    """Serves HTTP, or HTTPS with a `context`, on at most `limits.connections` connections."""

    def __init__(
        self,
        app: Application,
        limits: Limits = DEFAULT_LIMITS,
        context: SSLContext | None = None,
        client_names: frozenset[str] = frozenset(),
        rejected: Callable[[int], None] = report_nothing,
        body_methods: Container[bytes] | None = None,
    ) -> None:
        super().__init__(_config(app, limits))
        self._body_methods = body_methods
        self._limits, self._client_names, self._rejected = limits, client_names, rejected
        times = {"ssl_handshake_timeout": limits.handshake, "ssl_shutdown_timeout": limits.goodbye}
        self._tls: dict[str, Any] = {"ssl": context, **times} if context else {}
        self.connections = Connections(limits.connections)
        self._is_accepting = True
        self._opening: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, in place of uvicorn's method, which accepts any number of connections, waits 60 seconds
        for a handshake, and without a file descriptor stops for a second.
        """
        await self.lifespan.startup()
        self.servers = []
        for sock in sockets or ():
            sock.setblocking(False)
            self._listen(sock)
        self.started = True

    def _listen(self, sock: socket.socket) -> None:
        if self._is_accepting:
            asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR or not self.connections.evict():
                    loop = asyncio.get_running_loop()
                    loop.remove_reader(sock)
                    loop.call_later(_PAUSE_SECONDS, self._listen, sock)
                return
            connection = self.connections.enter(str(address[0]))
            if connection is None:
                accepted.close()
                self._rejected(HTTPStatus.SERVICE_UNAVAILABLE)
            else:
                self._open(accepted, connection)

    def _open(self, accepted: socket.socket, connection: Connection) -> None:
        accepted.setblocking(False)
        protocol = self._protocol(connection)
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted, protocol))
        connection.end = task.cancel
        self._opening.add(task)

        def opened(task: asyncio.Task[None]) -> None:
            self._opening.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None or task.cancelled():
                self.connections.leave(connection)
                if protocol in self.server_state.connections:  # uvloop tells only one that is open
                    protocol.connection_lost(ConnectionAbortedError())
                accepted.close()
            if error is not None and not isinstance(error, OSError):  # a failed handshake is the client's affair
                raise error

        task.add_done_callback(opened)

    async def _shake_hands(self, accepted: socket.socket, protocol: Protocol) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, accepted, **self._tls)

    def _protocol(self, connection: Connection) -> Protocol:
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        return Protocol(
            **state,
            limits=self._limits,
            client_names=self._client_names,
            rejected=self._rejected,
            body_methods=self._body_methods,
            connection=connection,
            connections=self.connections,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and finish requests in flight."""
        self._is_accepting = False
        for sock in sockets or ():
            asyncio.get_running_loop().remove_reader(sock)
        for task in self._opening:
            task.cancel()
        await super().shutdown(sockets)


class TlsServer(Server):
    """Serves until SIGTERM or SIGINT, then drains.

    While the server drains, it is not ready, and closes each connection with its response; then it accepts no
    connections.
    """

    def __init__(
        self,
        app: Application,
        context: SSLContext,
        gate: Gate,
        health: Health,
        limits: Limits = DEFAULT_LIMITS,
        client_names: frozenset[str] = frozenset(),
        rejected: Callable[[int], None] = report_nothing,
    ) -> None:
        super().__init__(app, limits, context, client_names, rejected)
        self._gate, self._health = gate, health
        self._drained_at: float | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until SIGTERM or SIGINT.

        Installs signal handlers first: uvicorn does so only after its event loop has started.
        """
        with self.capture_signals():
            super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self._health.listening = True

    async def on_tick(self, counter: int) -> bool:
        """Record that the event loop runs; return true if the server must stop."""
        self._health.beat = monotonic()
        stop = await super().on_tick(counter)
        return stop or (self._drained_at is not None and self._health.beat >= self._drained_at)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, reject new requests on open connections, and finish requests in flight."""
        self._gate.stopping = True
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGTERM and SIGINT inside the block. Unlike uvicorn's method, does not end the process by the
        signal.
        """
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
        """Start to drain on the first signal; stop immediately on the second."""
        if self._drained_at is None:
            self._health.draining = True
            self._drained_at = monotonic() + self._limits.drain
        else:
            self.should_exit = self.force_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. `::` also accepts IPv4; without IPv6, IPv4 only.

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


def serve_health(
    sock: socket.socket,
    app: WSGIApplication,
    pages: Callable[[], Path] | None = None,
    connections: int = MAX_HEALTH_CONNECTIONS,
) -> Callable[[], None]:
    """Serve the plain health port on a separate thread; returns a function that stops it.

    `pages`: the Unix socket of the operators' pages.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    probes, others = (cast("Application", WSGIMiddleware(cast("Any", app), workers=1)) for _ in range(2))
    own = HealthPaths(probes, others)
    limits = Limits(connections=connections)
    if pages is None:
        server = Server(own, limits, body_methods=())
    else:
        server = Server(Forwarding(own, pages), limits, body_methods=(b"POST",))
    thread = Thread(target=server.run, args=([sock],), name="health", daemon=True)
    thread.start()

    def end() -> None:
        """Stop the server and wait for it: an event loop that runs at interpreter exit can crash the process."""
        server.should_exit = True
        thread.join(_CLOSE_SECONDS)

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
