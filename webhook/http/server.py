"""The servers on listening sockets: new connections, the limit on open ones, draining and shutdown."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from threading import current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn

from forewarn.webhook.http.asgi import DEFAULT_LIMITS, Application, Limits
from forewarn.webhook.http.connections import Connection, Connections
from forewarn.webhook.http.protocol import Protocol
from forewarn.webhook.http.turns import Turns
from forewarn.webhook.http.wire import Wire

if TYPE_CHECKING:
    import socket
    from ssl import SSLContext
    from types import FrameType

    from forewarn.webhook.admission.replies import Gate
    from forewarn.webhook.health import Health


def report_nothing(_status: int) -> None:
    """Ignore the status: the default for servers without metrics."""


ACCEPTED_AT_ONCE: Final = 8
"""Maximum connections that a port accepts in one turn of the event loop, which then closes the evicted ones."""
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.05
"""Pause if the kernel gives no connection and none can be evicted."""


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals inside the block; only on the main thread, on which alone this is possible."""
    is_main = current_thread() is main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if is_main}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Server(uvicorn.Server):
    """Serves HTTP, or HTTPS with a `context`, on at most `limits.connections` connections."""

    def __init__(
        self,
        app: Application,
        limits: Limits = DEFAULT_LIMITS,
        context: SSLContext | None = None,
        client_names: frozenset[str] = frozenset(),
        rejected: Callable[[int], None] = report_nothing,
        has_bodies: bool = True,
    ) -> None:
        super().__init__(_config(app, limits))
        self._limits, self._rejected = limits, rejected
        self._protocol = partial(
            Protocol, limits=limits, client_names=client_names, rejected=rejected, has_bodies=has_bodies
        )
        self._context = context
        self.connections = Connections(limits.connections)
        self._turns = Turns(self.connections.has_caller)
        self._is_accepting = True
        self._opening: set[asyncio.Task[Any]] = set()

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
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        http = partial(self._protocol, connection=connection, connections=self.connections, **state)
        protocol: asyncio.BaseProtocol = (
            http()
            if self._context is None
            else Wire(http, self._context, self._limits, connection, self._turns, self.connections.leave)
        )
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, accepted))
        connection.end = task.cancel
        self._opening.add(task)

        def opened(task: asyncio.Task[Any]) -> None:
            self._opening.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None or task.cancelled():
                self.connections.leave(connection)
                if protocol in self.server_state.connections:  # uvloop notifies only open connections
                    protocol.connection_lost(ConnectionAbortedError())
                accepted.close()
            if error is not None and not isinstance(error, OSError):
                raise error

        task.add_done_callback(opened)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and finish requests in flight."""
        self._is_accepting = False
        for sock in sockets or ():
            asyncio.get_running_loop().remove_reader(sock)
        for task in self._opening:
            task.cancel()
        for connection in self.connections.opening():
            connection.end()
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
        """Serve until SIGTERM or SIGINT. Installs handlers first: uvicorn does so only after its loop has started."""
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

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGTERM and SIGINT inside the block, without ending the process as uvicorn's method does."""
        with handling(self.handle_exit, signal.SIGTERM, signal.SIGINT):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  (uvicorn's signature)
        """Start to drain on the first signal; stop immediately on the second."""
        if self._drained_at is None:
            self._health.draining = True
            self._drained_at = monotonic() + self._limits.drain
        else:
            self.should_exit = self.force_exit = True


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
