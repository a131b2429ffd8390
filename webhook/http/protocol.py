"""One HTTP connection: requests within limits of size and time."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from forewarn.webhook.admission.call import route
from forewarn.webhook.admission.replies import rejection
from forewarn.webhook.http.asgi import COMPLETE_BODY, DEFAULT_LIMITS
from forewarn.webhook.http.connections import Connection, Connections
from forewarn.webhook.http.tls import client_names
from forewarn.webhook.logs import RareEvents

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


MAX_HEADER: Final = 64 * 1024
"""Maximum bytes of a request outside its body: header, trailer, and chunk lines."""
_TOO_LARGE: Final = f"the header is larger than {MAX_HEADER} bytes"
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
        header_seconds: float = DEFAULT_LIMITS.header,
        client_names: frozenset[str] = frozenset(),
        rejected: Callable[[int], None] = report_nothing,
        connection: Connection | None = None,
        connections: Connections | None = None,
        **keywords: Any,
    ) -> None:
        """Create the protocol of one connection.

        `client_names`: the allowed names of client certificates; empty: all. `rejected`: called with the status of
        each rejected request. `connection`: the entry in `connections`.
        """
        super().__init__(*arguments, **keywords)
        self._connections = connections or Connections()
        self._connection = connection or Connection("", monotonic())
        self._header_seconds, self._client_names, self._rejected = header_seconds, client_names, rejected
        self._stranger = ""
        self._in_header = False
        self._in_message = self._is_large = self._mixed = False
        self._packet = 0
        self._outside = 0
        """Bytes of this request that are not of its body."""
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Check the client certificate's names, and start the idle timeout, so that a connection without requests
        ends.
        """
        super().connection_made(transport)
        self._connection.end = transport.abort
        if self._client_names:
            names = client_names(transport.get_extra_info("peercert") or {})
            if not names & self._client_names:
                self._stranger = ", ".join(f'"{name[:80]}"' for name in sorted(names)[:3]) or "(no name)"
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, and check the size and time of the header.

        Rejects clients whose certificate has none of the allowed names.
        """
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
                self._header_timer = self.loop.call_later(self._header_seconds, self._too_slow)
        elif self.timeout_keep_alive_task is None and _has_no_request(self.cycle):
            self._rest()

    def on_message_begin(self) -> None:
        """Start to count the bytes of a header.

        A header in the same packet as the end of another request is counted in `on_headers_complete`.
        """
        self._in_header = self._in_message = True
        self._outside = 0 if self._mixed else self._packet
        self._connection.busy = True
        super().on_message_begin()

    def on_response_complete(self) -> None:
        """Handle the end of a response. uvicorn then starts the next request of the same packet, if any."""
        self._connections.rest(self._connection)
        super().on_response_complete()
        self._connection.busy = not _has_no_request(self.cycle)

    def on_headers_complete(self) -> None:
        """Handle the end of a header, and check the size of a header that arrived in one packet."""
        self._in_header = False
        self._stop_header_timer()
        if self._outside > MAX_HEADER or self._mixed:
            size = len(self.url) + sum(len(name) + len(value) + _AROUND for name, value in self.headers)
            if size > MAX_HEADER:
                self._is_large = True
                raise ValueError(_TOO_LARGE)  # ends the parser's work, and comes back by `send_400_response`
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            kind = _InOneWrite if self._is_ours() and not self.expect_100_continue else _WhileOpen
            self.cycle.transport = cast("asyncio.Transport", kind(self.transport))

    def _is_ours(self) -> bool:
        """Report whether the request is an admission request: the response then has one header and one body."""
        return self.scope["method"] == "POST" and route(self.scope["path"])[0] is not None

    def on_body(self, body: bytes) -> None:
        """Subtract a part of the body from the counted bytes, which include only header, trailer and chunk lines."""
        self._outside -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request. The rest of the packet belongs to the next request."""
        self._in_message, self._mixed, self._outside = False, True, 0
        if len(self.cycle.body) <= _AT_ONCE:
            # The task that answers has not run yet where all came in one packet. Who runs already looks here no more.
            cast("dict[str, Any]", self.scope)[COMPLETE_BODY] = self.cycle.body
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and unregister the connection."""
        self._stop_header_timer()
        self._connections.leave(self._connection)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        """Respond with a metav1.Status to input that is not HTTP."""
        if self._is_large:
            self._reject(431, _TOO_LARGE)
        else:
            self._reject(400, msg)

    def _rest(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _too_slow(self) -> None:
        if self._in_header and not self.transport.is_closing():
            self._reject(408, "the request header did not arrive in time")

    def _reject(self, status: int, message: str) -> None:
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
