"""The operators' pages on the health port: requests go to the process of the pages, and its answers come back in parts.

The health port itself answers its own paths, so pages delay no probe. Only the headers below are forwarded. The
address of a client limits its requests, and proves nothing: a sidecar gives all clients the same one.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import AsyncIterator
    from pathlib import Path

    from forewarn.webhook.http.asgi import Application, Message, Receive, Send


MAX_REQUESTS: Final = 16
"""Requests at a time, also those that wait for the progress of a question."""
MAX_OF_A_CLIENT: Final = MAX_REQUESTS // 2
"""Requests of one client at a time, and of all strangers together."""
MAX_BODIES: Final = 16
"""Requests with a body that have no slot yet."""
_SLOT_SECONDS: Final = 5.0
_BODY_SECONDS: Final = 10.0


class NoSlot(Exception):
    """All slots are in use, or a newer request has the place of this one."""


class Client(NamedTuple):
    """A client: the credentials that the pages accepted, or the address of a stranger."""

    is_proven: bool
    name: str


class Slot:
    """A slot in use."""

    def __init__(self, client: Client) -> None:
        self.client = client


class Slots:
    """The slots of requests."""

    def __init__(self) -> None:
        self._used: Counter[Client] = Counter()
        self._waiting: list[tuple[Client, asyncio.Future[None]]] = []

    async def enter(self, client: Client) -> Slot:
        """Wait for a slot. The caller must call `leave`. Raises NoSlot."""
        waiting = client, asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._grant()
        slot = Slot(client)
        try:
            async with asyncio.timeout(_SLOT_SECONDS):
                await waiting[1]
        except BaseException as error:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self.leave(slot)
            if isinstance(error, TimeoutError):
                raise NoSlot from None
            raise
        return slot

    def leave(self, slot: Slot) -> None:
        """Free a slot."""
        self._used[slot.client] -= 1
        self._used += Counter()  # drops clients without slots
        self._grant()

    def prove(self, slot: Slot, client: Client) -> None:
        """Charge a slot to the proven client."""
        self._used[client] += 1
        self.leave(slot)
        slot.client = client

    def _may_enter(self, client: Client) -> bool:
        strangers = sum(used for other, used in self._used.items() if not other.is_proven)
        return (
            self._used.total() < MAX_REQUESTS
            and self._used[client] < MAX_OF_A_CLIENT
            and (client.is_proven or strangers < MAX_OF_A_CLIENT)
        )

    def _grant(self) -> None:
        while allowed := [waiting for waiting in self._waiting if self._may_enter(waiting[0])]:
            first = min(allowed, key=lambda waiting: (not waiting[0].is_proven, self._used[waiting[0]]))
            self._waiting.remove(first)
            self._used[first[0]] += 1
            first[1].set_result(None)


class Bodies:
    """The bodies of requests without a slot. One too many ends the oldest of the address with the most bodies."""

    def __init__(self) -> None:
        self._arriving: dict[asyncio.Timeout, str] = {}

    @asynccontextmanager
    async def arriving(self, address: str) -> AsyncIterator[None]:
        """Limit the time of the block. Raises TimeoutError, or NoSlot if a newer body has the place of this one."""
        if len(self._arriving) >= MAX_BODIES:
            self._end_one()
        try:
            async with asyncio.timeout(_BODY_SECONDS) as timeout:
                self._arriving[timeout] = address
                yield
        except TimeoutError:
            if timeout not in self._arriving:
                raise NoSlot from None
            raise
        finally:
            self._arriving.pop(timeout, None)

    def _end_one(self) -> None:
        crowd = Counter(self._arriving.values()).most_common(1)[0][0]
        oldest = next(timeout for timeout, address in self._arriving.items() if address == crowd)
        del self._arriving[oldest]
        if not oldest.expired():
            oldest.reschedule(asyncio.get_running_loop().time())


OWN_PATHS: Final = ("/livez", "/readyz", "/metrics")
MAX_BODY: Final = 1 << 20
_MAX_HEAD: Final = 64 * 1024
_PART: Final = 64 * 1024
_HEAD_SECONDS: Final = 660.0
"""Seconds until the first byte of an answer: the first page reads the cluster."""
_READ_SECONDS: Final = 30.0
"""Seconds for a client to read a part of an answer."""
_PROVEN: Final = 256
_UNAUTHORIZED: Final = 401
_DIGITS: Final = 18
_USER: Final = b"x-forewarn-user"
"""Header of answers to a user of the cluster, by which the process says that the credentials are valid."""
_FORWARDED: Final = (
    b"host",
    b"authorization",
    b"cookie",
    b"content-type",
    b"origin",
    b"sec-fetch-site",
    b"sec-fetch-mode",
)
_BACK: Final = (
    b"content-type",
    b"content-security-policy",
    b"x-content-type-options",
    b"referrer-policy",
    b"cross-origin-opener-policy",
    b"cross-origin-resource-policy",
    b"cache-control",
    b"set-cookie",
    b"location",
    b"www-authenticate",
)
_METHODS: Final = ("GET", "POST")
Answered = Callable[..., None]
"""Called with the status of an answer, and `has_user`."""


class _Rejected(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Forwarding:
    """An ASGI application: `own` for the paths of the health port, the process at a socket for all others."""

    def __init__(self, own: Application, path: Callable[[], Path]) -> None:
        """`path`: the Unix socket of the process."""
        self._own, self._path = own, path
        self._slots, self._bodies = Slots(), Bodies()
        self._proven: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] in OWN_PATHS:
            await self._own(scope, receive, send)
            return
        try:
            await self._forward(scope, receive, send)
        except NoSlot:
            await _reject(send, _Rejected(503, "too many requests. Fix: try again later"))
        except _Rejected as fault:
            await _reject(send, fault)

    async def _forward(self, scope: Message, receive: Receive, send: Send) -> None:
        parts, credentials, address = [_head(scope)], _credentials(scope), _address(scope)
        client = Client(True, credentials) if credentials in self._proven else Client(False, address)
        if scope["method"] == "POST":
            try:
                async with self._bodies.arriving(address):
                    body = await _body(scope, receive)
                    parts += [b"content-length: %d\r\n\r\n" % len(body), body]
                    del body
                    slot = await self._slots.enter(client)
            except TimeoutError:
                raise _Rejected(408, "the body did not arrive in time") from None
        else:
            parts.append(b"\r\n")
            slot = await self._slots.enter(client)

        def answered(status: int, *, has_user: bool) -> None:
            if credentials and (has_user or status == _UNAUTHORIZED):
                self._prove(credentials, valid=has_user)
            if has_user:
                self._slots.prove(slot, Client(True, credentials))

        try:
            await self._exchange(parts, receive, send, answered)
        finally:
            self._slots.leave(slot)

    def _prove(self, credentials: str, *, valid: bool) -> None:
        self._proven.pop(credentials, None)
        if valid:
            self._proven[credentials] = None
        if len(self._proven) > _PROVEN:
            self._proven.popitem(last=False)

    async def _exchange(self, parts: list[bytes], receive: Receive, send: Send, answered: Answered) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(self._path(), limit=_MAX_HEAD)
        except OSError:
            raise _Rejected(503, "the pages are starting. Fix: try again in a few seconds") from None
        try:
            writer.writelines(parts)
            parts.clear()
            disconnected = asyncio.ensure_future(_disconnected(receive))
            answer = asyncio.ensure_future(_answer(reader, send, answered))
            await asyncio.wait((disconnected, answer), return_when=asyncio.FIRST_COMPLETED)
            disconnected.cancel()
            if answer.done():
                answer.result()
            else:  # the page is closed: the end of the connection cancels the question
                answer.cancel()
        finally:
            writer.transport.abort()  # close() waits for a process that does not read


def _address(scope: Message) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


def _credentials(scope: Message) -> str:
    """A hash of what identifies a user; empty without it."""
    shown = [value for name, value in sorted(scope["headers"]) if name in (b"authorization", b"cookie") and value]
    return blake2b(b"\n".join(shown), digest_size=16).hexdigest() if shown else ""


async def _body(scope: Message, receive: Receive) -> bytes:
    announced = dict(scope["headers"]).get(b"content-length", b"")
    size, body, more = int(announced[:_DIGITS]) if announced.isdigit() else 0, bytearray(), True
    while more and max(size, len(body)) <= MAX_BODY:
        message = await receive()
        if message["type"] != "http.request":
            raise _Rejected(400, "the client disconnected")
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if max(size, len(body)) > MAX_BODY:
        raise _Rejected(413, f"the body is larger than {MAX_BODY} bytes")
    return bytes(body)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _head(scope: Message) -> bytes:
    """The first lines of the request as HTTP/1.0, so that the end of the answer is the end of the connection."""
    if scope["method"] not in _METHODS:
        raise _Rejected(405, "only GET and POST are allowed")
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = [(name, value) for name, value in scope["headers"] if name in _FORWARDED]
    if len({name for name, _ in headers}) < len(headers):
        raise _Rejected(400, "a header is repeated")
    lines = [
        scope["method"].encode() + b" " + target + b" HTTP/1.0",
        b"x-forewarn-client: " + _address(scope).encode(),
        *(name + b": " + value for name, value in headers),
    ]
    if any(byte in line for line in lines for byte in b"\r\n\0"):
        raise _Rejected(400, "a header contains a control character")
    return b"".join(line + b"\r\n" for line in lines)


async def _answer(reader: StreamReader, send: Send, answered: Answered) -> None:
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
        first, *lines = head.rstrip().split(b"\r\n")
        status = int(first.split()[1])
    except (OSError, EOFError, TimeoutError, ValueError, IndexError, asyncio.LimitOverrunError):
        raise _Rejected(502, "the process of the pages gave no answer") from None
    split = (line.partition(b": ") for line in lines)
    headers = [(name.lower(), value) for name, _, value in split]
    answered(status, has_user=any(name == _USER for name, _ in headers))
    back = [(name, value) for name, value in headers if name in _BACK]
    await send({"type": "http.response.start", "status": status, "headers": [*back, (b"connection", b"close")]})
    with suppress(ConnectionError):
        while part := await reader.read(_PART):
            sent = send({"type": "http.response.body", "body": part, "more_body": True})
            try:
                await asyncio.wait_for(sent, _READ_SECONDS)
            except TimeoutError:
                return  # the client does not read; uvicorn closes the connection
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _reject(send: Send, fault: _Rejected) -> None:
    body = json.dumps({"error": str(fault)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
