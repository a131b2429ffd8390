"""HTTP/1.1 on one connection, with limits on the size and time of requests."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from forewarn.webhook.admission.review import rejection, route
from forewarn.webhook.http.asgi import COMPLETE_BODY, IS_CALLER, Limits
from forewarn.webhook.http.tls import client_names
from forewarn.webhook.http.wire import Connection, Connections, Rank
from forewarn.webhook.logs import RareEvents

if TYPE_CHECKING:
    import asyncio

MAX_HEADER: Final = 64 * 1024
"""Maximum bytes of a request outside its body: header, trailer, and chunk lines."""
_TOO_LARGE: Final = f"the header is larger than {MAX_HEADER} bytes"
MAX_FIELDS: Final = 256
"""Maximum number of fields of a header, which need more memory than their bytes."""
MAX_PIPELINED: Final = 2
"""Maximum number of requests that wait for an earlier response. API servers, probes and browsers send none."""
_TOO_MANY_FIELDS: Final = f"the header has more than {MAX_FIELDS} fields"
_AT_ONCE: Final = 64 * 1024
"""Maximum bytes of a body that is delivered as a whole; larger bodies are read in parts, with flow control."""
_AROUND: Final = len(": \r\n")
_REJECTED: Final = RareEvents()


def _has_no_request(cycle: RequestResponseCycle | None) -> bool:
    return cycle is None or cycle.response_complete


class _WhileOpen:
    """A transport that ignores writes after the client has closed the connection; uvicorn would log an exception for
    them.
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

        `client_names`: the allowed names of client certificates; empty: all. `rejected`: called with the status of each
        rejected request. `connection`: the entry in `connections`. `has_bodies`: whether requests may have a body.
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
        """Number of bytes of this request outside its body."""
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Check the client certificate's names; start the idle timeout, which ends connections without requests."""
        super().connection_made(transport)
        self._connection.end, self._connection.is_open = transport.abort, True
        if self._client_names:
            names = client_names(transport.get_extra_info("peercert") or {})
            if not names & self._client_names:
                self._stranger = ", ".join(f'"{name[:80]}"' for name in sorted(names)[:3]) or "(no name)"
        self._start_idle_timer()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser. Check the size and time of the header, and the names of the certificate."""
        self._connection.delivered(len(data))
        if self._stranger:
            self._reject(403, f"the client certificate for {self._stranger} is not allowed by --client-name")
            return
        self._packet, self._mixed = len(data), self._in_message
        self._outside += len(data)
        idle = self.timeout_keep_alive_task
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._outside > MAX_HEADER:
            self._reject(431, _TOO_LARGE)
        elif self.headers and len(self.headers) > MAX_FIELDS:
            self._reject(431, _TOO_MANY_FIELDS)
        elif self._in_header:
            if self._header_timer is None:
                self._header_timer = self.loop.call_later(self._limits.header, self._too_slow)
        elif self.timeout_keep_alive_task is None and _has_no_request(self.cycle):
            self._start_idle_timer(idle.when() if idle else None)  # blank lines do not extend the idle time

    def on_message_begin(self) -> None:
        """Start to count the bytes of a header.

        A header in the same packet as the end of another request is counted in `on_headers_complete`.
        """
        self._in_header = self._in_message = True
        self._outside = 0 if self._mixed else self._packet
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop_parsing(429, "too many requests on this connection wait for a response")

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
        if len(self.headers) > MAX_FIELDS:
            self._stop_parsing(431, _TOO_MANY_FIELDS)
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
        """Record that the request comes from an API server."""
        self._connection.is_caller = True
        if self.cycle.more_body:
            self._connections.place(self._connection, Rank.RECEIVING)
        else:
            self._ask()

    def _ask(self) -> None:
        """Record that a complete request waits for its response."""
        connection = self._connection
        connection.busy = connection.is_caller
        if connection.rank < Rank.CALLER:
            self._connections.place(connection, Rank.CALLER if connection.is_caller else Rank.ASKING)

    def _give_way(self) -> None:
        """Record that no request waits for its response, or that the client does not read it."""
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
            # If all data came in one packet, the task has not started yet, and will read this; a running task does not.
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
            self._start_idle_timer()
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
        """Reject a request inside the parser; the parser's error then calls `send_400_response`."""
        self._fault = status, message
        raise ValueError(message)

    def _start_idle_timer(self, until: float | None = None) -> None:
        seconds: float = self.timeout_keep_alive
        if self._connection.rank is Rank.UNUSED:
            seconds = min(seconds, self._limits.first)
        until = self.loop.time() + seconds if until is None else until
        self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)

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
