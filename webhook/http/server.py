"""Listening sockets and their servers: new connections, the limit on open ones, draining and shutdown; the plain health
port, on a thread: probes and metrics; the limit on open files, and how both ports share it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from threading import Thread, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import uvicorn

from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND
from forewarn.webhook.admission.review import Gate, Reply, rejection
from forewarn.webhook.http import asgi
from forewarn.webhook.http.protocol import Protocol
from forewarn.webhook.http.wire import Connection, Connections, Turns, Wire

if TYPE_CHECKING:
    from ssl import SSLContext
    from types import FrameType

    from forewarn.webhook.health import Health
    from forewarn.webhook.metrics import Metrics
    from forewarn.webhook.settings import Settings


def report_nothing(_status: int) -> None:
    """Ignore the status: the default for servers without metrics."""


ACCEPTED_AT_ONCE: Final = 8
"""Maximum number of connections that a port accepts in one turn of the event loop, which then closes evicted ones."""
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.05
"""Pause if the kernel gives no connection and none can be evicted."""


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals inside the block. Call this on the main thread only: other threads cannot set handlers."""
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
        app: asgi.Application,
        limits: asgi.Limits = asgi.DEFAULT_LIMITS,
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
        """Start to listen, in place of uvicorn's method, which accepts any number of connections, waits 60 seconds for
        a handshake, and pauses for a second if there is no file descriptor.
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
        app: asgi.Application,
        context: SSLContext,
        gate: Gate,
        health: Health,
        limits: asgi.Limits = asgi.DEFAULT_LIMITS,
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


def _config(app: asgi.Application, limits: asgi.Limits) -> uvicorn.Config:
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


MAX_HEALTH_CONNECTIONS: Final = 128
RECEIVE_BUFFER: Final = 32 * 1024
"""Bytes of a client that the kernel buffers (Linux: twice as many), and thus the most that one read returns."""
_CLOSE_SECONDS: Final = 2.0
"""Maximum seconds to wait for the end of the server."""
_NOT_FOUND: Final = rejection(HTTPStatus.NOT_FOUND, "this port serves only /livez, /readyz and /metrics")
_NOT_ALLOWED: Final = rejection(
    HTTPStatus.METHOD_NOT_ALLOWED, "only the method GET is allowed", (("allow", "GET, HEAD"), ("connection", "close"))
)
_TEXT: Final = (("content-type", "text/plain; charset=utf-8"),)


class HealthPaths:
    """The ASGI application: GET /livez, /readyz and /metrics."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._checks = {"/livez": health.alive, "/readyz": health.ready}
        self._metrics, self._scrape = metrics, asyncio.Lock()
        metrics.ready.set_function(lambda: not health.ready())

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """Answer a request."""
        check = self._checks.get(scope["path"])
        if scope["method"] not in ("GET", "HEAD"):
            reply = _NOT_ALLOWED
        elif check is not None:
            fault = check()
            reply = Reply(503 if fault else 200, f"{fault or 'ok'}\n".encode(), _TEXT)
        elif scope["path"] == "/metrics":
            async with self._scrape:
                if (await receive())["type"] != "http.request":
                    return  # the client has disconnected
                accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
                body, content_type = await asyncio.to_thread(self._metrics.exposition, accept)
            reply = Reply(200, body, (("content-type", content_type),))
        else:
            reply = _NOT_FOUND
        await asgi.send_reply(reply, send)


def serve_health(
    sock: socket.socket, health: Health, metrics: Metrics, connections: int = MAX_HEALTH_CONNECTIONS
) -> Callable[[], None]:
    """Serve the port; return a function that stops it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    server = Server(HealthPaths(health, metrics), asgi.Limits(connections=connections), has_bodies=False)
    thread = Thread(target=server.run, args=([sock],), name="health", daemon=True)
    thread.start()

    def end() -> None:
        """Stop the server and wait for it: an event loop that runs at interpreter exit can crash the process."""
        server.should_exit = True
        thread.join(_CLOSE_SECONDS)

    return end


_ANY: Final = "::"
_ANY_IPV4: Final = "0.0.0.0"
_BACKLOG: Final = 2048


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. `::` also accepts IPv4; without IPv6, IPv4 only.

    Raises OSError.
    """
    host = _ANY_IPV4 if host == _ANY and not socket.has_dualstack_ipv6() else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dualstack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=dualstack)
    except OSError as error:
        if host == _ANY and error.errno == errno.EADDRNOTAVAIL:
            return bind(_ANY_IPV4, port)
        raise OSError(error.errno, str(error.strerror).partition(" (while ")[0]) from None


def address_of(listening: socket.socket, scheme: str) -> str:
    """Return the address of a listening socket, as a URL."""
    host, port, *_ = listening.getsockname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


_LEAST: Final = (32, 8)
"""Minimum number of connections of the TLS port, and of the health port."""
_HEALTH_PART: Final = 5
_FILES, _RELOADS = 32, 8
_THREADS: Final = 16
"""Number of threads that may have a connection to the API server, besides threads with a watch."""


class TooFewDescriptors(Exception):
    """The error if the limit on open files does not suffice."""


class Shares(NamedTuple):
    """The limit on open files, and the maximum connections of the TLS port and of the health port."""

    limit: int
    tls: int
    health: int

    @property
    def is_low(self) -> bool:
        """True if the limit on open files is the reason for fewer connections."""
        return self.tls < asgi.MAX_CONNECTIONS or self.health < MAX_HEALTH_CONNECTIONS


def reserve(settings: Settings, kinds: Collection[str]) -> int:
    """Return the number of descriptors that connections must leave free. `kinds`: those of workloads.

    Listening sockets, event loops, modules and a credential plugin need some. Each prediction process and the audit
    need a pipe, and a second one during a fork. Each of the two ports accepts connections in up to two turns of its
    event loop before evicted ones are closed.
    """
    watches = len(BY_GROUP_KIND.keys() | kinds) + _THREADS
    processes = 2 * (settings.prediction_processes + 1)
    return _FILES + _RELOADS + watches + processes + 4 * ACCEPTED_AT_ONCE


def raise_limit() -> int:
    """Raise the soft limit on open files to the hard limit; return the soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS does not accept "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def divide(limit: int, used: int) -> Shares:
    """Divide the descriptors within a limit on open files. Raises TooFewDescriptors. `used`: those for other things."""
    least_tls, least_health = _LEAST
    left = limit - used
    if limit == resource.RLIM_INFINITY:
        left = asgi.MAX_CONNECTIONS + MAX_HEALTH_CONNECTIONS
    health = min(max(left // _HEALTH_PART, least_health), MAX_HEALTH_CONNECTIONS)
    if left < least_tls + least_health:
        raise TooFewDescriptors(
            f"the limit on open files is {limit}, and forewarn needs {used + least_tls + least_health}. "
            f"Fix: raise the hard limit (ulimit -Hn)"
        )
    return Shares(limit, min(left - health, asgi.MAX_CONNECTIONS), health)


def open_files() -> int:
    """Return the number of open descriptors; 0 if unknown."""
    with suppress(OSError):
        return len(os.listdir("/dev/fd"))
    return 0
