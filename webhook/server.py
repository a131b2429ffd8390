"""uvicorn with what a webhook needs: limits in time and size, draining, and a health port on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Thread, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

import uvicorn
from a2wsgi import WSGIMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from webhook.endpoint import MAX_BODY, PATHS, TOO_LARGE, TOO_SLOW, Call, Later, Reply, refusal
from webhook.logs import say

if TYPE_CHECKING:
    from collections.abc import Generator
    from ssl import SSLContext
    from types import FrameType
    from wsgiref.types import WSGIApplication

    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

    from webhook.admission import Hook
    from webhook.endpoint import Endpoint
    from webhook.health import Health

BODY_SECONDS: Final = 30.0
"""A request that has not come whole by then is older than the API server waits for its answer."""
HEADER_SECONDS: Final = 10.0
HANDSHAKE_SECONDS: Final = 10.0
MAX_HEADER: Final = 64 * 1024
_DISCARDED: Final = 4 * MAX_BODY
"""Bytes that are read of a body that is refused, so that the client is not cut off before it reads why."""
_BACKLOG: Final = 2048
_CLOSE: Final = (b"connection", b"close")


class TooLarge(Exception):
    """The body is past the limit."""


class Gone(Exception):
    """The client went away."""


class Routes:
    """The ASGI application: `/mutate` and `/validate` by the endpoint itself, everything else by Flask."""

    def __init__(self, endpoint: Endpoint, rest: WSGIApplication, health: Health, workers: int = 4) -> None:
        self._endpoint, self._health = endpoint, health
        self._rest = cast("ASGI3Application", WSGIMiddleware(cast("Any", rest), workers=2))
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="worker")

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        hook = PATHS.get(scope["path"]) if scope["method"] == "POST" else None
        if hook is None:
            await self._rest(scope, receive, send)
            return
        with contextlib.suppress(Gone):
            await self._send(await self._admit(hook, scope, receive), send)

    async def _admit(self, hook: Hook, scope: HTTPScope, receive: ASGIReceiveCallable) -> Reply:
        """Let the request in, or refuse it once what it sends has been read."""
        if (full := self._endpoint.gate.enter()) is not None:
            await _discard(receive)
            return self._endpoint.refused(hook, full)
        try:
            return await self._answer(hook, scope, receive)
        finally:
            self._endpoint.gate.leave()

    async def _answer(self, hook: Hook, scope: HTTPScope, receive: ASGIReceiveCallable) -> Reply:
        received = monotonic()
        headers = dict(scope["headers"])
        given = (headers.get(name, b"") for name in (b"content-type", b"content-encoding", b"content-length"))
        if (reply := self._endpoint.refuse(*(value.decode("latin-1") for value in given))) is not None:
            await _discard(receive)
            return self._endpoint.refused(hook, reply)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read(receive)
        except TooLarge:
            await _discard(receive)
            return self._endpoint.refused(hook, TOO_LARGE)
        except TimeoutError:
            return self._endpoint.refused(hook, TOO_SLOW)
        call = Call(hook, body, received, _timeout(scope["query_string"]))
        answer = self._endpoint.answer(call)
        if isinstance(answer, Later):
            return await asyncio.get_running_loop().run_in_executor(self._workers, answer.run)
        return answer

    async def _send(self, reply: Reply, send: ASGISendCallable) -> None:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers]
        headers.append((b"content-length", b"%d" % len(reply.body)))
        if self._health.draining and _CLOSE not in headers:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": reply.body, "more_body": False})


async def _read(receive: ASGIReceiveCallable) -> bytes:
    """The whole body. Raises TooLarge and Gone."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        size += len(message["body"])
        if size > MAX_BODY:
            raise TooLarge
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def _discard(receive: ASGIReceiveCallable) -> None:
    """Read what a refused request still sends, within bounds."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HEADER_SECONDS):
            while size < _DISCARDED:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                size += len(message["body"])
                if not message["more_body"]:
                    return


def _timeout(query: bytes) -> str:
    return dict(parse_qsl(query.decode("latin-1"))).get("timeout", "") if query else ""


def _is_idle(cycle: RequestResponseCycle | None) -> bool:
    return cycle is None or cycle.response_complete


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds that uvicorn lacks: on the header's time and size, and on connections never used."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._in_header = False
        self._header_size = 0
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection that no request ever comes on ends as an idle one does."""
        super().connection_made(transport)
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and watch that the header ends."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_header:
            self._header_size += len(data)
            if self._header_size > MAX_HEADER:
                self._refuse(431, f"the header is larger than {MAX_HEADER} bytes")
            elif self._header_timer is None:
                self._header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)
        elif self.timeout_keep_alive_task is None and _is_idle(self.cycle):
            self._rest()

    def on_message_begin(self) -> None:
        """A header begins."""
        self._in_header, self._header_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A header ends."""
        self._in_header = False
        self._stop_header_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is waited for."""
        self._stop_header_timer()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered with a Status too."""
        self._refuse(400, msg)

    def _rest(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _too_slow(self) -> None:
        if self._in_header and not self.transport.is_closing():
            self._refuse(408, "the header did not come in time")

    def _refuse(self, status: int, message: str) -> None:
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


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds. `keep_alive`: longer than the 90 that an API server keeps a connection it may use again."""

    keep_alive: int = 120
    drain: float = 5.0
    """How long requests are still answered after SIGTERM, until every API server has heard of it."""
    finish: int = 35
    """How long what is in flight then may take."""


class TlsServer(uvicorn.Server):
    """Serves until SIGTERM or SIGINT, then drains: not ready, connections closed as they answer, then no new ones."""

    def __init__(self, config: uvicorn.Config, health: Health, endpoint: Endpoint, context: SSLContext, drain: float):
        super().__init__(config)
        self._health, self._endpoint, self._context, self._drain = health, endpoint, context, drain
        self._drained_at: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn's own start leaves a silent handshake 60 seconds."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                lambda: self.config.http_protocol_class(  # type: ignore[call-arg]
                    config=self.config, server_state=self.server_state, app_state=self.lifespan.state
                ),
                sock=sock,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=HANDSHAKE_SECONDS,
                backlog=_BACKLOG,
            )
            for sock in sockets or ()
        ]
        self.started = True
        self._health.listening = True

    async def on_tick(self, counter: int) -> bool:
        """A sign of life; true once it is time to stop."""
        self._health.beat = monotonic()
        stop = await super().on_tick(counter)
        return stop or (self._drained_at is not None and self._health.beat >= self._drained_at)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """No new connections; requests on old ones are sent elsewhere; what is in flight ends."""
        self._endpoint.gate.stopping = True
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
            self._drained_at = monotonic() + self._drain
        else:
            self.should_exit = self.force_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening address; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(_BACKLOG)  # from here on nobody is refused, only kept waiting
    return sock


def serve(
    sock: socket.socket, app: ASGI3Application, context: SSLContext, endpoint: Endpoint, health: Health, limits: Limits
) -> None:
    """Serve the TLS port until told to stop."""
    config = _config(app, limits)
    server = TlsServer(config, health, endpoint, context, limits.drain)
    server.run([sock])
    say("stopped", {"in_flight": endpoint.gate.inside})


def serve_health(sock: socket.socket, app: WSGIApplication) -> Thread:
    """Serve the plain port on a thread of its own, which ends with the process."""
    server = uvicorn.Server(_config(cast("Any", WSGIMiddleware(cast("Any", app), workers=2)), Limits()))
    thread = Thread(target=server.run, args=([sock],), name="health", daemon=True)
    thread.start()
    return thread


def _config(app: ASGI3Application, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
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
