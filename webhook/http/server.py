"""uvicorn with limits on time and size, draining, and a health port on a separate thread."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from tempfile import NamedTemporaryFile
from threading import Lock, Thread, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

import uvicorn
from a2wsgi import WSGIMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from forewarn.policies.kinds.registry import BY_GROUP_KIND
from forewarn.webhook.admission.replies import Gate, rejection
from forewarn.webhook.admission.review import route
from forewarn.webhook.http.asgi import COMPLETE_BODY, DEFAULT_LIMITS, IS_CALLER, Limits, send_reply
from forewarn.webhook.http.connections import MAX_CONNECTIONS, Connection, Connections, Rank
from forewarn.webhook.logs import RareEvents
from forewarn.webhook.x509 import Certificate, NoCertificate, certificates_in, validity_of

if TYPE_CHECKING:
    from pathlib import Path
    from ssl import SSLContext
    from types import FrameType
    from wsgiref.types import WSGIApplication

    from forewarn.webhook.health import Health
    from forewarn.webhook.http.asgi import Application, Message, Receive, Send
    from forewarn.webhook.settings import Settings


class TlsError(ValueError):
    """A certificate or key is not usable."""


@dataclass(frozen=True, slots=True)
class Demands:
    """Requirements for clients: the minimum TLS version, and the CAs (PEM) of client certificates; empty: no client
    certificate needed.
    """

    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    client_ca: bytes = b""


TLS_1_3: Final = Demands()


def read_certificate(chain: Path, key: Path) -> Certificate:
    """Read a certificate and its key. Raises TlsError with the file's name."""
    texts = [_read(path) for path in (chain, key)]
    try:
        certificate = Certificate(texts[0], texts[1], b"", validity_of(texts[0]).not_after)
    except NoCertificate as error:
        raise TlsError(f"{chain}: {error}") from None
    try:
        server_context(certificate)
    except ssl.SSLError as error:
        raise TlsError(f"{key}: does not match the certificate {chain}: {error.reason or error}") from None
    return certificate


def untimely(certificate: Certificate, now: datetime) -> str:
    """The reason why a certificate is not valid at this time; "" if it is valid."""
    return validity_of(certificate.chain).fault(now)


def distrust(why: str) -> str:
    """Return why a replica is not ready, with the reason why API servers reject its certificate."""
    return why and f"API servers do not trust the certificate: {why}"


def read_authorities(path: Path) -> bytes:
    """Read the CAs of client certificates. Raises TlsError with the name of the file."""
    pem = _read(path)
    try:
        authorities = certificates_in(pem)
    except NoCertificate as error:
        raise TlsError(f"{path}: {error}") from None
    if not authorities:
        raise TlsError(f"{path}: no PEM certificate: the file is empty")
    return b"".join(authorities)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from error


def server_context(certificate: Certificate, demands: Demands = TLS_1_3) -> ssl.SSLContext:
    """Return an SSL context with this certificate.

    Raises ssl.SSLError if key and chain do not match, and TlsError if a temporary file cannot be written.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = demands.minimum
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")  # of TLS 1.2; those of 1.3 are all good
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # API servers do not resume
    if demands.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=demands.client_ca.decode("ascii"))
    with ExitStack() as stack:
        paths = []
        try:
            for pem in (certificate.chain, certificate.key):
                file = stack.enter_context(NamedTemporaryFile(suffix=".pem"))  # only its owner can read it
                file.write(pem)
                file.flush()
                paths.append(file.name)
        except OSError as error:
            raise TlsError(f"cannot write the certificate and key to temporary files: {error.strerror}") from error
        context.load_cert_chain(*paths)
    return context


class SwappingContext:
    """The TLS context of the listening socket: each new connection uses the current certificate and client CAs.

    An SSL context never changes: `swap` creates a new one. `rejection`: why API servers reject a certificate, or "".
    """

    def __init__(self, certificate: Certificate, demands: Demands = TLS_1_3) -> None:
        self.rejection: Callable[[Certificate], str] = lambda some: untimely(some, datetime.now(UTC))
        self.certificate, self.demands, self._lock = certificate, demands, Lock()
        self.listening = server_context(certificate, demands)
        self._current = self.listening
        self.listening.sni_callback = self._hand_over

    def swap(self, certificate: Certificate | None = None, demands: Demands | None = None) -> None:
        """Use another certificate or other client CAs from the next handshake on. Raises ssl.SSLError.

        The minimum TLS version, and whether clients need a certificate, do not change: OpenSSL reads them from the
        listening context.
        """
        with self._lock:
            certificate, demands = certificate or self.certificate, demands or self.demands
            self._current = server_context(certificate, demands)
            self.certificate, self.demands = certificate, demands

    def worse(self, new: Certificate) -> str:
        """Return why a new certificate must not replace the current one; "" if it may."""
        why = self.rejection(new)
        is_worse = why and not self.rejection(self.certificate)
        return f"{why}; the current certificate is valid and stays in use" if is_worse else ""

    def _hand_over(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def client_names(peer: Mapping[str, Any]) -> frozenset[str]:
    """The common names, DNS names and URIs in a client's certificate, as `getpeercert()` returns it."""
    common = {value for part in peer.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for kind, value in peer.get("subjectAltName", ()) if kind in _KINDS})


_KINDS: Final = frozenset({"DNS", "URI"})


MAX_HEADER: Final = 64 * 1024
"""Maximum bytes of a request outside its body: header, trailer, and chunk lines."""
_TOO_LARGE: Final = f"the header is larger than {MAX_HEADER} bytes"
MAX_FIELDS: Final = 256
"""Maximum fields of a header, which need more memory than their bytes."""
MAX_PIPELINED: Final = 2
"""Maximum requests that wait for the response to another one. API servers, probes and browsers send none."""
_TOO_MANY_FIELDS: Final = f"the header has more than {MAX_FIELDS} fields"
_AT_ONCE: Final = 64 * 1024
"""Maximum bytes of a body that is delivered at once; larger bodies are read in parts, with flow control."""
_AROUND: Final = len(": \r\n")
_REJECTED: Final = RareEvents()


def _has_no_request(cycle: RequestResponseCycle | None) -> bool:
    return cycle is None or cycle.response_complete


def report_nothing(_status: int) -> None:
    """Ignore the status: the default for servers without metrics."""


class _WhileOpen:
    """A transport that ignores writes after the client has closed the connection, for which uvicorn would log an
    exception.
    """

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write the data if the client is still connected."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _InOneWrite(_WhileOpen):
    """A transport that sends the first write (the header of a response) together with the second (the body).

    One write instead of two saves a TLS record and a system call, a quarter of the time for a short response.
    """

    __slots__ = ("_head",)

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._head = b""

    def write(self, data: bytes) -> None:
        """Buffer the first write; send it with the second."""
        if self._head:
            super().write(self._head + data)
            self._head = b""
        else:
            self._head = data

    def close(self) -> None:
        """Close the transport after the buffered write."""
        if self._head:
            super().write(self._head)
        self._transport.close()


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with limits that uvicorn does not have: time and size of the header, idle time of unused connections."""

    def __init__(
        self,
        *arguments: Any,
        limits: Limits,
        client_names: frozenset[str],
        rejected: Callable[[int], None],
        connection: Connection,
        connections: Connections,
        has_bodies: bool,
        **keywords: Any,
    ) -> None:
        """Create the protocol of one connection.

        `client_names`: the allowed names of client certificates; empty: all. `rejected`: called with the status of
        each rejected request. `connection`: the entry in `connections`. `has_bodies`: requests may have a body.
        """
        super().__init__(*arguments, **keywords)
        self._connections, self._connection = connections, connection
        self._limits, self._client_names, self._rejected = limits, client_names, rejected
        self._has_bodies = has_bodies
        self._stranger = ""
        self._in_header = False
        self._in_message = self._mixed = False
        self._fault: tuple[int, str] | None = None
        self._running: RequestResponseCycle | None = None
        """The request whose response is next; `cycle` is the latest one."""
        self._packet = 0
        self._outside = 0
        """Bytes of this request that are not of its body."""
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Check the client certificate's names; start the idle timeout, which ends connections without requests."""
        super().connection_made(transport)
        self._connection.end = transport.abort
        if self._client_names:
            names = client_names(transport.get_extra_info("peercert") or {})
            if not names & self._client_names:
                self._stranger = ", ".join(f'"{name[:80]}"' for name in sorted(names)[:3]) or "(no name)"
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser; check the size and time of the header, and the names of the certificate."""
        if self._stranger:
            self._reject(403, f"the client certificate for {self._stranger} is not allowed by --client-name")
            return
        self._packet, self._mixed = len(data), self._in_message
        self._outside += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._outside > MAX_HEADER:
            self._reject(431, _TOO_LARGE)
        elif self._in_header:
            if self._header_timer is None:
                self._header_timer = self.loop.call_later(self._limits.header, self._too_slow)
        elif self.timeout_keep_alive_task is None and _has_no_request(self.cycle):
            self._rest()

    def on_message_begin(self) -> None:
        """Start to count the bytes of a header.

        A header in the same packet as the end of another request is counted in `on_headers_complete`.
        """
        self._in_header = self._in_message = True
        self._outside = 0 if self._mixed else self._packet
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop_parsing(429, "too many requests on this connection wait for a response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a field of the header or trailer, and limit their number."""
        super().on_header(name, value)
        if len(self.headers) > MAX_FIELDS:
            self._stop_parsing(431, _TOO_MANY_FIELDS)

    def on_response_complete(self) -> None:
        """Handle the end of a response. uvicorn then starts the next request of the same packet, if any."""
        self._give_way()
        self._running = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if not (_has_no_request(self.cycle) or self.cycle.more_body or self.transport.is_closing()):
            self._ask()

    def on_headers_complete(self) -> None:
        """Handle the end of a header, and check the size of a header that arrived in one packet."""
        self._in_header = False
        self._stop_header_timer()
        if self._outside > MAX_HEADER or self._mixed:
            size = len(self.url) + sum(len(name) + len(value) + _AROUND for name, value in self.headers)
            if size > MAX_HEADER:
                self._stop_parsing(431, _TOO_LARGE)
        if not self._has_bodies and self._announces_body():
            self._stop_parsing(413, "this request cannot have a body")
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._running = self._running or self.cycle
            kind = _InOneWrite if self._is_ours() and not self.expect_100_continue else _WhileOpen
            self.cycle.transport = cast("asyncio.Transport", kind(self.transport))
            cast("dict[str, Any]", self.scope)[IS_CALLER] = self._is_caller

    def _is_ours(self) -> bool:
        """Report whether the request is an admission request: the response then has one header and one body."""
        return self.scope["method"] == "POST" and route(self.scope["path"])[0] is not None

    def _announces_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
            for name, value in self.headers
        )

    def _is_caller(self) -> None:
        """Note that the request comes from an API server."""
        self._connection.is_caller = True
        if self.cycle.more_body:
            self._connections.place(self._connection, Rank.RECEIVING)
        else:
            self._ask()

    def _ask(self) -> None:
        """Note that a complete request waits for its response."""
        connection = self._connection
        connection.busy = connection.is_caller
        if connection.rank < Rank.CALLER:
            self._connections.place(connection, Rank.CALLER if connection.is_caller else Rank.ASKING)

    def _give_way(self) -> None:
        """Note that no request waits for its response, or that the client does not read it."""
        self._connection.busy = False
        self._connections.place(self._connection, Rank.CALLER if self._connection.is_caller else Rank.USED)

    def on_body(self, body: bytes) -> None:
        """Subtract a part of the body from the counted bytes, which include only header, trailer and chunk lines."""
        self._outside -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request. The rest of the packet belongs to the next request."""
        self._in_message, self._mixed, self._outside = False, True, 0
        if not self.cycle.response_complete:
            self._ask()
        if len(self.cycle.body) <= _AT_ONCE:
            # The task that answers has not run yet where all came in one packet. Who runs already looks here no more.
            cast("dict[str, Any]", self.scope)[COMPLETE_BODY] = self.cycle.body
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Stop writing to a client that does not read; its connection may be evicted."""
        self._give_way()
        super().pause_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection.

        A connection without a request stays open for as long as others, because an API server may open it before it
        needs it, but not if more than half of all connections are open.
        """
        connection = self._connection
        is_new = connection.rank is Rank.UNUSED and monotonic() - connection.since < self.timeout_keep_alive
        if is_new and not self._connections.is_crowded:
            self._rest()
        else:
            super().timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, unregister the connection, and leave nothing to the garbage collector, which runs rarely."""
        self._stop_header_timer()
        self._connections.leave(self._connection)
        self._disconnect()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self.cycle = self.scope = self._running = None  # type: ignore[assignment]

    def send_400_response(self, msg: str) -> None:
        """Respond with a metav1.Status to input that is not HTTP."""
        self._reject(*(self._fault or (400, msg)))

    def _stop_parsing(self, status: int, message: str) -> NoReturn:
        """Reject a request inside the parser, whose error comes back by `send_400_response`."""
        self._fault = status, message
        raise ValueError(message)

    def _rest(self) -> None:
        seconds: float = self.timeout_keep_alive
        if self._connection.rank is Rank.UNUSED:
            seconds = min(seconds, self._limits.first)
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _too_slow(self) -> None:
        if self._in_header and not self.transport.is_closing():
            self._reject(408, "the request header did not arrive in time")

    def _disconnect(self) -> None:
        """End the running request: its client has disconnected."""
        self._connection.busy = False
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()

    def _reject(self, status: int, message: str) -> None:
        self._disconnect()
        self._rejected(status)
        fields = {"status": status, "reason": message, "client": self.client[0] if self.client else ""}
        _REJECTED.log("connection rejected", fields)
        body = rejection(status, message).body
        head = (
            f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
        )
        self.transport.write(head.encode() + b"\r\n\r\n" + body)
        self.transport.close()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


MAX_HEALTH_CONNECTIONS: Final = 128
RECEIVE_BUFFER: Final = 32 * 1024
"""Bytes of a client that the kernel buffers (Linux: twice as many), and so forewarn reads at once."""
_NOT_ALLOWED: Final = rejection(405, "only the method GET is allowed", (("allow", "GET, HEAD"),))


class HealthPaths:
    """An ASGI application for requests without bodies: `probes` for probes, `others` for all other paths."""

    def __init__(self, probes: Application, others: Application) -> None:
        self._probes, self._others = _OneAtATime(probes), _OneAtATime(others)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] not in ("GET", "HEAD"):
            await send_reply(_NOT_ALLOWED, send, close=True)  # at once, because a body may follow
            return
        await (self._probes if scope["path"] in ("/livez", "/readyz") else self._others)(scope, receive, send)


class _OneAtATime:
    def __init__(self, app: Application) -> None:
        self._app, self._slot = app, asyncio.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        async with self._slot:
            if (await receive())["type"] == "http.request":  # else the client is gone
                await self._app(scope, receive, collect)
        for message in messages:  # a client that does not read does not delay others
            await send(message)


ACCEPTED_AT_ONCE: Final = 8
"""Maximum connections that a port accepts in one turn of the event loop, which then closes the evicted ones."""
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.05
"""Pause if the kernel gives no connection and none can be evicted."""
_CLOSE_SECONDS: Final = 2.0
"""Maximum seconds to wait for the end of the health server."""


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
        times = {"ssl_handshake_timeout": limits.handshake, "ssl_shutdown_timeout": limits.goodbye}
        self._tls: dict[str, Any] = {"ssl": context, **times} if context else {}
        self.connections = Connections(limits.connections)
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
        protocol = self._protocol(connection=connection, connections=self.connections, **state)
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, accepted, **self._tls))
        connection.end = task.cancel
        self._opening.add(task)

        def opened(task: asyncio.Task[Any]) -> None:
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


def serve_health(
    sock: socket.socket, app: WSGIApplication, connections: int = MAX_HEALTH_CONNECTIONS
) -> Callable[[], None]:
    """Serve the plain health port on a thread; return what stops it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    probes, others = (cast("Application", WSGIMiddleware(cast("Any", app), workers=1)) for _ in range(2))
    server = Server(HealthPaths(probes, others), Limits(connections=connections), has_bodies=False)
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


_LEAST: Final = (32, 8)
"""Minimum connections of the TLS port and of the health port."""
_HEALTH_PART: Final = 5
_FILES, _RELOADS = 32, 8
_THREADS: Final = 16
"""Threads with a connection to the API server besides those that watch."""


class TooFewDescriptors(Exception):
    """The limit on open files does not suffice."""


class Shares(NamedTuple):
    """The limit on open files, and the maximum connections of the TLS port and of the health port."""

    limit: int
    tls: int
    health: int

    @property
    def is_low(self) -> bool:
        """True if the limit on open files is the reason for fewer connections."""
        return self.tls < MAX_CONNECTIONS or self.health < MAX_HEALTH_CONNECTIONS


def reserve(settings: Settings, kinds: Collection[str]) -> int:
    """Return the number of descriptors that connections must leave. `kinds`: those of workloads.

    Listening sockets, event loops, modules and a credential plugin need some. Processes have a pipe each, as has the
    audit, and two at a fork. Connections are accepted before evicted ones are closed, on two ports, in two turns of an
    event loop.
    """
    watches = len(BY_GROUP_KIND.keys() | kinds) + _THREADS
    processes = 2 * (settings.prediction_processes + 1)
    return _FILES + _RELOADS + watches + processes + 4 * ACCEPTED_AT_ONCE


def raise_limit() -> int:
    """Raise the soft limit on open files to the hard limit; return the soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS: no limit is no valid limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def divide(limit: int, used: int) -> Shares:
    """Divide what a limit on open files leaves. Raises TooFewDescriptors. `used`: descriptors for other things."""
    least_tls, least_health = _LEAST
    left = limit - used
    if limit == resource.RLIM_INFINITY:
        left = MAX_CONNECTIONS + MAX_HEALTH_CONNECTIONS
    health = min(max(left // _HEALTH_PART, least_health), MAX_HEALTH_CONNECTIONS)
    if left < least_tls + least_health:
        raise TooFewDescriptors(
            f"the limit on open files is {limit}, and forewarn needs {used + least_tls + least_health}. "
            f"Fix: raise the hard limit (ulimit -Hn)"
        )
    return Shares(limit, min(left - health, MAX_CONNECTIONS), health)


def open_files() -> int:
    """Return the number of open descriptors; 0 if unknown."""
    with suppress(OSError):
        return len(os.listdir("/dev/fd"))
    return 0
