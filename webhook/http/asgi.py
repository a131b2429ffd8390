"""The ASGI application of the HTTPS port: `/mutate` and `/validate`; any other request gets a 404 or 405."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from http import HTTPStatus
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl

from forewarn.webhook.admission.lanes import Deadline, QueueFull, Step, Where, parse_timeout
from forewarn.webhook.admission.prediction_access import Workers
from forewarn.webhook.admission.review import (
    HEAD,
    JSON,
    MAX_SMALL,
    MAX_WIRE,
    NO_MEMORY,
    NO_TOKEN,
    NOT_IN_TIME,
    NOT_VERIFIED,
    PARSED,
    TOO_LARGE_FOR_A_STRANGER,
    TOO_LONG,
    TOO_MANY,
    TOO_SLOW,
    AdmissionCall,
    Gate,
    Hook,
    Reply,
    bearer,
    rejection,
    route,
)

if TYPE_CHECKING:
    from forewarn.webhook.admission.endpoint import Endpoint
    from forewarn.webhook.health import Health


class NoCapacity(Exception):
    """The error if the bodies in flight use all memory for bodies."""


@dataclass(eq=False, slots=True)
class InFlightRequest:
    """An admitted request. `arrived`: when its body started to arrive. `held`, `reserved`: bytes reserved for a small
    and for a large body. `given_away`: whether another request has taken its slot.
    """

    arrived: float = field(default_factory=monotonic)
    held: int = 0
    reserved: int = 0
    given_away: bool = False


class InFlightLimiter:
    """Admits requests up to the limits, on one event loop. Above the limits, drops the request whose body has been
    arriving for longest, if for longer than `patience` (seconds); otherwise rejects the new request.

    `room`: bytes for all small bodies in flight. `large_capacity`: bytes for all large bodies. `seconds`: maximum
    time for a body.
    """

    def __init__(self, gate: Gate, room: int, large_capacity: int, patience: float, seconds: float) -> None:
        self._gate, self._capacity, self._patience, self._seconds = gate, room, patience, seconds
        self._arriving: dict[InFlightRequest, asyncio.Timeout] = {}
        self.held = 0
        """Bytes of memory reserved for small bodies in flight."""
        self._large_capacity = large_capacity
        self._waiting: list[tuple[int, int, InFlightRequest, asyncio.Future[None]]] = []
        """A heap: the smallest body is read next, because delays matter most for small requests."""
        self._numbers = count()

    def enter(self) -> InFlightRequest | Reply:
        """Admit a request, or return the rejection. The caller of an admitted request must call `leave`."""
        rejection = self._gate.enter()
        if rejection is not TOO_MANY:
            return rejection or InFlightRequest()
        slowest = self._cut_off_the_slowest()
        if slowest is None:
            return rejection
        slowest.given_away = True
        return InFlightRequest()

    def leave(self, in_flight: InFlightRequest) -> None:
        """Release the slot and the memory of a request that has received its response."""
        self._release(in_flight)
        self._large_capacity += in_flight.reserved
        in_flight.reserved = 0
        self._grant()
        if not in_flight.given_away:
            self._gate.leave()

    @asynccontextmanager
    async def arriving(self, in_flight: InFlightRequest) -> AsyncIterator[None]:
        """Limit the time of a body inside the block.

        Raises TimeoutError at the limit, or when another request gets this request's slot.
        """
        async with asyncio.timeout(in_flight.arrived + self._seconds - monotonic()) as timeout:
            self._arriving[in_flight] = timeout
            try:
                yield
            finally:
                self._arriving.pop(in_flight, None)

    def hold(self, in_flight: InFlightRequest, size: int) -> None:
        """Reserve more bytes for a small body, dropping slower requests if necessary. Raises NoCapacity."""
        while self.held + size > self._capacity:
            slowest = self._cut_off_the_slowest()
            if slowest is None or slowest is in_flight:
                self._release(in_flight)
                raise NoCapacity
            self._release(slowest)
        self.held += size
        in_flight.held += size

    async def reserve(self, in_flight: InFlightRequest, size: int, seconds: float) -> None:
        """Wait until `size` bytes are free for a large body, and reserve them. Raises NoCapacity after `seconds`."""
        until, granted = monotonic() + seconds, asyncio.get_running_loop().create_future()
        heappush(self._waiting, (size, next(self._numbers), in_flight, granted))
        self._grant()
        try:
            while not granted.done():
                if (left := until - monotonic()) <= 0:
                    raise NoCapacity
                await asyncio.wait([granted], timeout=min(left, self._patience))
                if not granted.done():
                    self._cut_off_the_slowest(is_large=True)
        finally:
            granted.cancel()  # no effect if it is granted already
        in_flight.arrived = monotonic()

    def _grant(self) -> None:
        """Grant memory to waiting large bodies, the smallest first, while memory is free."""
        while self._waiting:
            size, _, in_flight, granted = self._waiting[0]
            if not granted.done():
                if size > self._large_capacity:
                    return
                self._large_capacity -= size
                in_flight.reserved += size
                granted.set_result(None)
            heappop(self._waiting)

    def _cut_off_the_slowest(self, *, is_large: bool = False) -> InFlightRequest | None:
        in_flight = next((slowest for slowest in self._arriving if slowest.reserved or not is_large), None)
        if in_flight is None or monotonic() - in_flight.arrived < self._patience:
            return None
        self._end(in_flight)
        return in_flight

    def _end(self, in_flight: InFlightRequest) -> None:
        timeout = self._arriving.pop(in_flight)
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())

    def _release(self, in_flight: InFlightRequest) -> None:
        self.held -= in_flight.held
        in_flight.held = 0


class Strangers:
    """Limits requests of callers that are not API servers: one at a time.

    At most `most` of these requests wait, each for `seconds`. Only for one event loop.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit, self._seconds = limit, seconds
        self._waiting = 0
        self._slot = asyncio.Lock()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Yield when a caller other than an API server may proceed; free the slot afterwards. Raises NoCapacity."""
        if self._waiting >= self._limit:
            raise NoCapacity
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._slot.acquire()
        except TimeoutError:
            raise NoCapacity from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slot.release()


class Rereads:
    """Reads the webhook configurations again for requests from unknown callers, at most once every `seconds`. Each
    request waits for a read that begins after the request. Only for one event loop.
    """

    def __init__(self, read: Callable[[], Awaitable[bool]], seconds: float) -> None:
        self._read, self._seconds = read, seconds
        self._lock, self._earliest = asyncio.Lock(), 0.0
        self._next: asyncio.Task[bool] | None = None

    async def next(self) -> bool:
        """Wait for the next read, and return its result."""
        if self._next is None:
            self._next = asyncio.create_task(self._run())
        return await asyncio.shield(self._next)

    async def _run(self) -> bool:
        async with self._lock:
            await asyncio.sleep(self._earliest - monotonic())
            self._next = None
            self._earliest = monotonic() + self._seconds
            return await self._read()


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_DISCARDED: Final = 2 * MAX_WIRE
"""Maximum bytes that forewarn reads of a rejected request of an API server."""
_DISCARDED_OF_STRANGERS: Final = 16 * MAX_SMALL
_UNKNOWN: Final = MAX_WIRE
"""The assumed size of a body without content-length, which API servers always send."""
_SHARE: Final = 0.5
"""Maximum share of a request's time that its large body waits for memory."""
_DIGITS: Final = 20
_CLOSE: Final = (b"connection", b"close")
_NOT_FOUND: Final = rejection(HTTPStatus.NOT_FOUND, "this port serves only /mutate and /validate")
_NOT_ALLOWED: Final = rejection(HTTPStatus.METHOD_NOT_ALLOWED, "only the method POST is allowed", (("allow", "POST"),))
COMPLETE_BODY: Final = "forewarn.whole"
"""Key in the scope for a body that is complete before the application runs."""
IS_CALLER: Final = "forewarn.caller"
"""Key in the scope for a function to call if the request comes from an API server."""


MAX_CONNECTIONS: Final = 1024
"""Maximum number of connections: about 50 MB, and 300 MB after floods."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the server. Times in seconds, sizes in bytes."""

    connections: int = MAX_CONNECTIONS
    handshake: float = 10.0
    goodbye: float = 2.0
    """Seconds for a client to close its end of a TLS connection."""
    header: float = 10.0
    first: float = 10.0
    """Time until the first request, if more than half of all connections are open."""
    body: float = 30.0
    """Maximum time for a whole body. After it, the API server no longer waits for the response."""
    patience: float = 1.0
    """Seconds for a body while other bodies wait for memory; then the slowest body is dropped."""
    capacity: int = 256 * 1024 * 1024
    """Maximum memory of all small bodies in flight, at their size after parsing."""
    large_capacity: int = 2 * MAX_WIRE
    """Maximum size of all large bodies without a response. Large bodies are parsed one at a time."""
    strangers: int = 16
    """Maximum number of waiting requests from clients without an API server token."""
    reread: float = 1.0
    """Minimum time between two reads of the webhook configurations because of unknown callers."""
    discard: float = 5.0
    """Time to read the rest of a rejected request, so that the client can read the response."""
    keep_alive: int = 120
    """Keep-alive time: longer than the 90 seconds for which an API server keeps an idle connection."""
    drain: float = 5.0
    """Time to answer new requests after SIGTERM, until every API server has removed the endpoint."""
    finish: int = 35
    """Time for requests in flight after `drain`."""


DEFAULT_LIMITS: Final = Limits()


class ClientDisconnected(Exception):
    """Raised when the client has closed the connection."""


class Routes:
    """The ASGI application of the HTTPS port."""

    def __init__(
        self, endpoint: Endpoint, health: Health, limits: Limits = DEFAULT_LIMITS, workers: Workers | None = None
    ) -> None:
        self._endpoint, self._health, self._limits = endpoint, health, limits
        self._intake = InFlightLimiter(
            endpoint.gate, limits.capacity, limits.large_capacity, limits.patience, limits.body
        )
        self._strangers = Strangers(limits.strangers, limits.patience)
        self._workers = workers or Workers()
        self._rereads = Rereads(self._read_again, limits.reread)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        hook, token = route(scope["path"])
        with contextlib.suppress(ClientDisconnected):
            if hook is not None and scope["method"] == "POST":
                reply = await self._admit(hook, token, scope, receive)
            else:
                reply = await self._not_a_webhook(hook, receive)
            await send_reply(reply, send, close=self._health.draining)

    async def _not_a_webhook(self, hook: Hook | None, receive: Receive) -> Reply:
        """Return the response to another method than POST (405) or another path (404)."""
        reply = _NOT_FOUND if hook is None else _NOT_ALLOWED
        self._endpoint.metrics.reject_by_status(reply.status)
        await self._discard(receive, _DISCARDED_OF_STRANGERS)
        return reply

    async def _admit(self, hook: Hook, token: str, scope: Message, receive: Receive) -> Reply:
        """Check the caller and the limits before the body is read; then read the body and return the response."""
        received, headers, callers = monotonic(), dict(scope["headers"]), self._endpoint.callers
        tokens: tuple[str, ...] = (token,) if token else ()
        if b"authorization" in headers:
            tokens += (bearer(headers[b"authorization"].decode("latin-1")),)
        whole, client = scope.pop(COMPLETE_BODY, None), str((scope.get("client") or ("",))[0])
        request = _Request(
            AdmissionCall(hook, whole or b"", received, _timeout(scope["query_string"]), client, tokens),
            headers,
            whole,
            receive,
            callers.are_known(tokens),
        )
        if not callers.may_ask(tokens):
            return await self._rejected(request._replace(is_known=False), NO_TOKEN)
        if not request.is_known and callers.read_again is not None:
            # The configurations may have changed since they were read.
            if not await self._rereads.next():
                return await self._rejected(request, NOT_VERIFIED)
            request = request._replace(is_known=callers.are_known(tokens))
        if request.is_known:
            scope.get(IS_CALLER, lambda: None)()
            return await self._let_in(request)
        try:
            async with self._strangers.slot():
                return await self._let_in(request)
        except NoCapacity:
            return await self._rejected(request, TOO_MANY)

    async def _read_again(self) -> bool:
        """Read the webhook configurations; return false if that is impossible."""
        assert self._endpoint.callers.read_again is not None
        try:
            await self._workers.run(Step(self._endpoint.callers.read_again, Where.REQUEST))
        except (OSError, QueueFull):
            return False
        return True

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
        if (reply := self._endpoint.unsupported_headers(*given)) is not None:
            return await self._rejected(request, reply)
        try:
            call = await self._received(request, in_flight)
        except TimeoutError:
            return self._http_error(request, TOO_SLOW)
        if isinstance(call, Reply):
            return call
        try:
            return await self._endpoint.answer(call, self._workers.run)
        except QueueFull:
            return self._http_error(request, TOO_MANY)

    async def _received(self, request: _Request, in_flight: InFlightRequest) -> AdmissionCall | Reply:
        """Return the call with its body, or a rejection of the body. Raises TimeoutError."""
        if request.size > MAX_SMALL:
            if not request.is_known:
                return await self._rejected(request, TOO_LARGE_FOR_A_STRANGER)
            return await self._received_large(request, in_flight)

        def hold(size: int) -> None:
            self._intake.hold(in_flight, PARSED * size)

        try:
            if request.whole is not None:
                hold(len(request.whole))
                return request.call
            parts: list[bytes] = []
            seconds = None if request.is_known else self._limits.patience
            async with self._intake.arriving(in_flight), asyncio.timeout(seconds):
                await read_body(request.receive, parts, MAX_SMALL, _DISCARDED, hold)
        except NoCapacity:
            return await self._rejected(request, TOO_MANY)
        return request.call._replace(body=b"".join(parts))

    async def _received_large(self, request: _Request, in_flight: InFlightRequest) -> AdmissionCall | Reply:
        """Return the call with its large body, or a rejection with only the first bytes if no memory becomes free."""
        seconds = Deadline.after(request.call.received, parse_timeout(request.call.timeout)).seconds() * _SHARE
        try:
            await self._intake.reserve(in_flight, min(request.size, MAX_WIRE), seconds)
            limit, why = MAX_WIRE, TOO_LONG
        except NoCapacity:
            limit, why = 0, NO_MEMORY
        parts: list[bytes] = []
        try:
            async with self._intake.arriving(in_flight):
                is_whole = await read_body(request.receive, parts, limit, _DISCARDED)
        except TimeoutError:
            is_whole, why = False, NOT_IN_TIME
        call = request.call._replace(body=b"".join(parts))
        parts.clear()
        return call if is_whole else self._endpoint.not_evaluated(call, why)

    async def _rejected(self, request: _Request, reply: Reply) -> Reply:
        """Read the rest of the request, so that the client can read the response; count and return the rejection."""
        await self._discard(request.receive, _DISCARDED if request.is_known else _DISCARDED_OF_STRANGERS)
        return self._http_error(request, reply)

    async def _discard(self, receive: Receive, limit: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.discard):
                await read_body(receive, [], 0, limit)

    def _http_error(self, request: _Request, reply: Reply) -> Reply:
        return self._endpoint.rejected(request.call.hook, reply, is_known=request.is_known, client=request.call.client)


class _Request(NamedTuple):
    """A request before its body is read. `whole`: the body if it is complete already. `is_known`: whether the caller is
    an API server.
    """

    call: AdmissionCall
    headers: dict[bytes, bytes]
    whole: bytes | None
    receive: Receive
    is_known: bool

    @property
    def size(self) -> int:
        """The size of the body in bytes; an assumed maximum if unknown."""
        if self.whole is not None:
            return len(self.whole)
        length = self.headers.get(b"content-length", b"")
        return int(length[:_DIGITS]) if length.isdigit() else _UNKNOWN


async def read_body(
    receive: Receive, parts: list[bytes], limit: int, maximum: int, hold: Callable[[int], None] = lambda _: None
) -> bool:
    """Read a body into `parts`; return true if complete. Raises ClientDisconnected.

    `limit`: a larger body is cut to its first bytes. `maximum`: maximum number of bytes to read. `hold`: called with
    the number of bytes before they are stored; may raise.
    """
    size, more = 0, True
    while more and size <= maximum:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        more, part = message["more_body"], message["body"]
        if size <= limit:
            hold(len(part))
            parts.append(part)
            if size + len(part) > limit:
                parts[:] = [b"".join(parts)[:HEAD]]
        size += len(part)
    return not more and size <= limit


async def send_reply(reply: Reply, send: Send, *, close: bool = False) -> None:
    """Send a response, and close the connection if `close` or if the response says so."""
    headers = _encoded(reply.headers)
    headers.append((b"content-length", b"%d" % len(reply.body)))
    if close and _CLOSE not in headers:
        headers.append(_CLOSE)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})


def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    if headers is JSON:
        return [*_JSON]
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]


_JSON: Final = tuple((name.encode(), value.encode()) for name, value in JSON)


@lru_cache(maxsize=64)
def _timeout(query: bytes) -> str:
    """Return the `timeout` parameter of a query; cached, because API servers use only a few values."""
    return dict(parse_qsl(query.decode("latin-1"))).get("timeout", "") if query else ""
