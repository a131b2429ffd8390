"""The ASGI application: `/mutate` and `/validate` by the endpoint itself, everything else by whom it is handed to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl

from webhook.admission.callers import bearer
from webhook.admission.deadlines import Deadline, parse_timeout
from webhook.admission.endpoint import (
    JSON,
    NO_MEMORY,
    NO_TOKEN,
    NOT_IN_TIME,
    TOO_LARGE_FOR_A_STRANGER,
    TOO_LONG,
    TOO_MANY,
    TOO_SLOW,
    AdmissionCall,
    Later,
    Reply,
    route,
)
from webhook.admission.sizes import HEAD, MAX_SMALL, MAX_WIRE, PARSED
from webhook.admission.workers import Workers
from webhook.http.connections import MAX_CONNECTIONS
from webhook.http.overload import InFlightLimiter, InFlightRequest, NoRoom, Strangers

if TYPE_CHECKING:
    from webhook.admission.decision import Hook
    from webhook.admission.endpoint import Endpoint
    from webhook.health import Health

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_DISCARDED: Final = 2 * MAX_WIRE
"""Bytes of an API server's request that are read at most, whatever becomes of it."""
_DISCARDED_OF_STRANGERS: Final = 16 * MAX_SMALL
_UNKNOWN: Final = MAX_WIRE
"""The size of a body that does not say how large it is: API servers always say."""
_SHARE: Final = 0.5
"""Of the time until a request is answered, in which its large body waits for memory."""
_DIGITS: Final = 20
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
    room: int = 256 * 1024 * 1024
    """Bytes of memory for all small bodies that have not been answered, at most as many as they take when parsed."""
    large_room: int = 2 * MAX_WIRE
    """Bytes of all large bodies that have not been answered. What is parsed of them is parsed one at a time."""
    strangers: int = 16
    """How many requests of callers that are no API server wait until one has been answered."""
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
        self._intake = InFlightLimiter(endpoint.gate, limits.room, limits.large_room, limits.patience, limits.body)
        self._strangers = Strangers(limits.strangers, limits.patience)
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
        """Let the request in, or reject it before its body is read."""
        received, headers, callers = monotonic(), dict(scope["headers"]), self._endpoint.callers
        tokens: tuple[str, ...] = (token,) if token else ()
        if b"authorization" in headers:
            tokens += (bearer(headers[b"authorization"].decode("latin-1")),)
        request = _Request(
            AdmissionCall(hook, b"", received, _timeout(scope["query_string"]), _client(scope), tokens),
            headers,
            scope.pop(WHOLE, None),
            receive,
            callers.are_known(tokens),
        )
        if not callers.may_ask(tokens):
            return await self._rejected(request._replace(is_known=False), NO_TOKEN)
        if request.is_known:
            return await self._let_in(request)
        try:
            async with self._strangers.turn():
                return await self._let_in(request)
        except NoRoom:
            return await self._rejected(request, TOO_MANY)

    async def _let_in(self, request: _Request) -> Reply:
        in_flight = self._intake.enter()
        if isinstance(in_flight, Reply):
            return await self._rejected(request, in_flight)
        try:
            return await self._answer(request, in_flight)
        finally:
            self._intake.leave(in_flight)

    async def _answer(self, request: _Request, in_flight: InFlightRequest) -> Reply:
        given = (request.headers.get(name, b"").decode("latin-1") for name in (b"content-type", b"content-encoding"))
        if (reply := self._endpoint.refuse(*given)) is not None:
            return await self._rejected(request, reply)
        try:
            call = await self._received(request, in_flight)
        except TimeoutError:
            return self._refused(request, TOO_SLOW)
        if isinstance(call, Reply):
            return call
        answer = self._endpoint.answer(call)
        while isinstance(answer, Later):
            future = self._workers.submit(answer)
            if future is not None:
                answer = await asyncio.wrap_future(future)
            elif answer.otherwise is not None:
                answer = answer.otherwise()
            else:
                return self._refused(request, TOO_MANY)
        return answer

    async def _received(self, request: _Request, in_flight: InFlightRequest) -> AdmissionCall | Reply:
        """The call with its body, or the answer to a request whose body is not kept. Raises TimeoutError."""
        if request.size > MAX_SMALL:
            if not request.is_known:
                return await self._rejected(request, TOO_LARGE_FOR_A_STRANGER)
            return await self._received_large(request, in_flight)

        def hold(size: int) -> None:
            self._intake.hold(in_flight, PARSED * size)

        try:
            if request.whole is not None:
                hold(len(request.whole))
                return request.call._replace(body=request.whole)
            parts: list[bytes] = []
            seconds = None if request.is_known else self._limits.patience
            async with self._intake.coming(in_flight), asyncio.timeout(seconds):
                await _read(request.receive, parts, MAX_SMALL, _DISCARDED, hold)
        except NoRoom:
            return await self._rejected(request, TOO_MANY)
        return request.call._replace(body=b"".join(parts))

    async def _received_large(self, request: _Request, in_flight: InFlightRequest) -> AdmissionCall | Reply:
        """As `_received`, once there is memory for it. Where it is not kept, its first bytes say what it was about."""
        seconds = Deadline.after(request.call.received, parse_timeout(request.call.timeout)).seconds() * _SHARE
        try:
            await self._intake.reserve(in_flight, min(request.size, MAX_WIRE), seconds)
            limit, why = MAX_WIRE, TOO_LONG
        except NoRoom:
            limit, why = 0, NO_MEMORY
        parts: list[bytes] = []
        try:
            async with self._intake.coming(in_flight):
                is_whole = await _read(request.receive, parts, limit, _DISCARDED)
        except TimeoutError:
            is_whole, why = False, NOT_IN_TIME
        call = request.call._replace(body=b"".join(parts))
        parts.clear()
        return call if is_whole else self._endpoint.not_evaluated(call, why)

    async def _rejected(self, request: _Request, reply: Reply) -> Reply:
        """Read what the client still sends, so that it is not cut off before it reads the answer."""
        most = _DISCARDED if request.is_known else _DISCARDED_OF_STRANGERS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.discard):
                await _read(request.receive, [], 0, most)
        return self._refused(request, reply)

    def _refused(self, request: _Request, reply: Reply) -> Reply:
        return self._endpoint.refused(request.call.hook, reply, known=request.is_known, client=request.call.client)

    async def _send(self, reply: Reply, send: Send) -> None:
        headers = _encoded(reply.headers)
        headers.append((b"content-length", b"%d" % len(reply.body)))
        if self._health.draining and _CLOSE not in headers:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": reply.body, "more_body": False})


class _Request(NamedTuple):
    """A request whose body is yet to come. `whole`: the body, where it has come already."""

    call: AdmissionCall
    headers: dict[bytes, bytes]
    whole: bytes | None
    receive: Receive
    is_known: bool

    @property
    def size(self) -> int:
        """Bytes of the body, as far as is known."""
        if self.whole is not None:
            return len(self.whole)
        length = self.headers.get(b"content-length", b"")
        return int(length[:_DIGITS]) if length.isdigit() else _UNKNOWN


async def _read(
    receive: Receive, parts: list[bytes], limit: int, most: int, hold: Callable[[int], None] = lambda _: None
) -> bool:
    """Read a body into `parts`; whether it is whole. Of one larger than `limit` its first bytes are kept. Raises Gone.

    `most`: bytes that are read at most. `hold` is called with the number of bytes before they are kept, and may raise.
    """
    size, more = 0, True
    while more and size <= most:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        more, part = message["more_body"], message["body"]
        if size <= limit:
            hold(len(part))
            parts.append(part)
            if size + len(part) > limit:
                parts[:] = [b"".join(parts)[:HEAD]]
        size += len(part)
    return not more and size <= limit


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
