"""The operators' pages on the health port: requests go to the process of the pages, and its answers come back in parts.

The health port itself answers its own paths, so pages delay no probe. Only the headers below are forwarded: a client
cannot claim to be another one.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.webhook.http.addresses import is_loopback

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import Callable
    from pathlib import Path

    from forewarn.webhook.http.asgi import Application, Message, Receive, Send

OWN_PATHS: Final = ("/livez", "/readyz", "/metrics")
MAX_REQUESTS: Final = 16
"""Requests to the pages at a time, also those that wait for the progress of a question."""
MAX_BODY: Final = 1 << 20
_MAX_HEAD: Final = 64 * 1024
_PART: Final = 64 * 1024
_BODY_SECONDS: Final = 10.0
_HEAD_SECONDS: Final = 660.0
"""Seconds until the first byte of an answer: the first page reads the cluster."""
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


class _Rejected(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Forwarding:
    """An ASGI application: `own` for the paths of the health port, the process at a socket for all others."""

    def __init__(self, own: Application, path: Callable[[], Path]) -> None:
        """`path`: the Unix socket of the process."""
        self._own, self._path, self._inside = own, path, 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] in OWN_PATHS:
            await self._own(scope, receive, send)
            return
        try:
            if self._inside >= MAX_REQUESTS:
                raise _Rejected(503, "too many requests; try again later")
            self._inside += 1
            try:
                await self._forward(scope, receive, send)
            finally:
                self._inside -= 1
        except _Rejected as fault:
            await _reject(send, fault)

    async def _forward(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] not in _METHODS:
            raise _Rejected(405, "only GET and POST are allowed")
        try:
            body = await asyncio.wait_for(_body(receive), _BODY_SECONDS)
        except TimeoutError:
            raise _Rejected(408, "the body did not arrive in time") from None
        try:
            reader, writer = await asyncio.open_unix_connection(self._path(), limit=_MAX_HEAD)
        except OSError:
            raise _Rejected(503, "the pages are starting; try again in a few seconds") from None
        try:
            writer.write(_request(scope, body))
            disconnected = asyncio.ensure_future(_disconnected(receive))
            answer = asyncio.ensure_future(_answer(reader, send))
            await asyncio.wait((disconnected, answer), return_when=asyncio.FIRST_COMPLETED)
            disconnected.cancel()
            if answer.done():
                answer.result()
            else:  # the page is closed: the end of the connection cancels the question
                answer.cancel()
        finally:
            writer.transport.abort()  # close() waits for a process that does not read


async def _body(receive: Receive) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _Rejected(400, "the client disconnected")
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > MAX_BODY:
            raise _Rejected(413, f"the body is larger than {MAX_BODY} bytes")
        parts.append(part)
    return b"".join(parts)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _request(scope: Message, body: bytes) -> bytes:
    """The request as HTTP/1.0, so that the end of the answer is the end of the connection."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    client = b"loopback" if scope.get("client") and is_loopback(scope["client"][0]) else b"other"
    headers = [(name, value) for name, value in scope["headers"] if name in _FORWARDED]
    if len({name for name, _ in headers}) < len(headers):
        raise _Rejected(400, "a header is repeated")
    lines = [
        scope["method"].encode() + b" " + target + b" HTTP/1.0",
        b"x-forewarn-client: " + client,
        *(name + b": " + value for name, value in headers),
    ]
    if any(byte in line for line in lines for byte in b"\r\n\0"):
        raise _Rejected(400, "a header contains a control character")
    if scope["method"] == "POST":
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def _answer(reader: StreamReader, send: Send) -> None:
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
        first, *lines = head.rstrip().split(b"\r\n")
        status = int(first.split()[1])
    except (OSError, EOFError, TimeoutError, ValueError, IndexError, asyncio.LimitOverrunError):
        raise _Rejected(502, "the process of the pages gave no answer") from None
    split = (line.partition(b": ") for line in lines)
    headers = [(name.lower(), value) for name, _, value in split if name.lower() in _BACK]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    with suppress(OSError):
        while part := await reader.read(_PART):
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _reject(send: Send, fault: _Rejected) -> None:
    body = json.dumps({"error": str(fault)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
