"""The ASGI application: `/mutate` and `/validate` by the endpoint itself, everything else by whom it is handed to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from webhook.admission.callers import bearer
from webhook.admission.endpoint import (
    JSON,
    MAX_BODY,
    NO_TOKEN,
    TOO_LARGE,
    TOO_MANY,
    TOO_SLOW,
    AdmissionCall,
    Later,
    Reply,
    route,
)
from webhook.admission.workers import Workers
from webhook.http.connections import MAX_CONNECTIONS
from webhook.http.overload import InFlightLimiter, InFlightRequest, NoRoom

if TYPE_CHECKING:
    from webhook.admission.decision import Hook
    from webhook.admission.endpoint import Endpoint
    from webhook.health import Health

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_DISCARDED: Final = 4 * MAX_BODY
"""Bytes of a request that are read at most, whatever becomes of it."""
_CLOSE: Final = (b"connection", b"close")
WHOLE: Final = "forewarn.whole"
"""Key in the scope of a request whose body has come before anybody looks at it: that body."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    connections: int = MAX_CONNECTIONS
    handshake: float = 10.0
    goodbye: float = 2.0
    """How long a client's own end of a TLS connection is waited for."""
    header: float = 10.0
    body: float = 30.0
    """A request that has not come whole by then is older than the API server waits for its answer."""
    patience: float = 1.0
    """How long a body may come where others wait for its place; then who has been at it for longest gives way."""
    room: int = 64 * 1024 * 1024
    """Bytes of all bodies that have not been answered."""
    discard: float = 5.0
    """How long the rest of a refused request is read, so that the client is not cut off before it reads why."""
    keep_alive: int = 120
    """Longer than the 90 that an API server keeps a connection which it may use again."""
    drain: float = 5.0
    """How long requests are still answered after SIGTERM, until every API server has heard of it."""
    finish: int = 35
    """How long what is in flight then may take."""


DEFAULT_LIMITS: Final = Limits()


class Gone(Exception):
    """The client went away."""


class Routes:
    """The ASGI application: `/mutate` and `/validate` by the endpoint itself, everything else by Flask."""

    def __init__(
        self,
        endpoint: Endpoint,
        rest: Application,
        health: Health,
        limits: Limits = DEFAULT_LIMITS,
        workers: Workers | None = None,
    ) -> None:
        self._endpoint, self._health, self._limits = endpoint, health, limits
        self._rest = rest
        self._intake = InFlightLimiter(endpoint.gate, limits.room, limits.patience, limits.body)
        self._workers = workers or Workers()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        hook, token = route(scope["path"]) if scope["method"] == "POST" else (None, "")
        if hook is None:
            await self._rest(scope, receive, send)
            return
        with contextlib.suppress(Gone):
            await self._send(await self._admit(hook, token, scope, receive), send)

    async def _admit(self, hook: Hook, token: str, scope: Message, receive: Receive) -> Reply:
        """Let the request in, or refuse it once what it sends has been read."""
        in_flight = self._intake.enter()
        if isinstance(in_flight, Reply):
            await _discard(receive, self._limits.discard)
            return self._endpoint.refused(hook, in_flight, client=_client(scope))
        try:
            return await self._answer(hook, token, scope, receive, in_flight)
        finally:
            self._intake.leave(in_flight)

    async def _answer(
        self, hook: Hook, token: str, scope: Message, receive: Receive, in_flight: InFlightRequest
    ) -> Reply:
        received = monotonic()
        headers = dict(scope["headers"])
        given = (headers.get(name, b"") for name in (b"content-type", b"content-encoding", b"content-length"))
        if (reply := self._endpoint.refuse(*(value.decode("latin-1") for value in given))) is not None:
            await _discard(receive, self._limits.discard)
            return self._endpoint.refused(hook, reply, client=_client(scope))
        tokens: tuple[str, ...] = (token,) if token else ()
        if b"authorization" in headers:
            tokens += (bearer(headers[b"authorization"].decode("latin-1")),)
        if not self._endpoint.callers.may_ask(tokens):
            await _discard(receive, self._limits.discard)
            return self._endpoint.refused(hook, NO_TOKEN, client=_client(scope))
        body = await self._body(scope.pop(WHOLE, None), receive, in_flight)
        if isinstance(body, Reply):
            if body is TOO_MANY:
                await _discard(receive, self._limits.discard)
            return self._endpoint.refused(hook, body, client=_client(scope))
        call = AdmissionCall(hook, body, received, _timeout(scope["query_string"]), _client(scope), tokens)
        answer = self._endpoint.answer(call)
        while isinstance(answer, Later):
            future = self._workers.submit(answer)
            if future is not None:
                answer = await asyncio.wrap_future(future)
            elif answer.otherwise is not None:
                answer = answer.otherwise()
            else:
                return self._endpoint.refused(hook, TOO_MANY, client=call.client)
        return answer

    async def _body(self, whole: bytes | None, receive: Receive, in_flight: InFlightRequest) -> bytes | Reply:
        """The body, or why it is not read. `whole`: it, where it is there already: then no time needs to be kept."""
        try:
            if whole is not None:
                self._intake.hold(in_flight, len(whole))
                return whole
            async with self._intake.coming(in_flight):
                body = await _read(receive, MAX_BODY, lambda size: self._intake.hold(in_flight, size))
        except TimeoutError:
            return TOO_SLOW
        except NoRoom:
            return TOO_MANY
        return TOO_LARGE if body is None else body

    async def _send(self, reply: Reply, send: Send) -> None:
        headers = _encoded(reply.headers)
        headers.append((b"content-length", b"%d" % len(reply.body)))
        if self._health.draining and _CLOSE not in headers:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": reply.body, "more_body": False})


async def _read(receive: Receive, limit: int, hold: Callable[[int], None] = lambda _: None) -> bytes | None:
    """The whole body; None where it is larger, the rest of it having been read within bounds. Raises Gone.

    `hold` is told of the bytes that are kept, and may raise.
    """
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= _DISCARDED:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        more = message["more_body"]
        size += len(message["body"])
        if size <= limit:
            hold(len(message["body"]))
            parts.append(message["body"])
        else:
            parts.clear()
    return None if more or size > limit else b"".join(parts)


async def _discard(receive: Receive, seconds: float) -> None:
    """Read what a refused request still sends, so that its client is not cut off before it reads why."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await _read(receive, 0)


def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    if headers is JSON:
        return [*_JSON]
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]


_JSON: Final = tuple((name.encode(), value.encode()) for name, value in JSON)


@lru_cache(maxsize=64)
def _timeout(query: bytes) -> str:
    """`?timeout=`. API servers ask with the same few again and again."""
    return dict(parse_qsl(query.decode("latin-1"))).get("timeout", "") if query else ""


def _client(scope: Message) -> str:
    """The address that a request came from; empty where it is not known."""
    client = scope.get("client")
    return str(client[0]) if client else ""
