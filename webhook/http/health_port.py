"""The plain health port, on a thread: probes and metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, Final

from forewarn.webhook.admission.replies import Reply, rejection
from forewarn.webhook.http.asgi import Limits, Message, Receive, Send, send_reply
from forewarn.webhook.http.server import Server

if TYPE_CHECKING:
    from forewarn.webhook.health import Health
    from forewarn.webhook.metrics import Metrics

MAX_HEALTH_CONNECTIONS: Final = 128
RECEIVE_BUFFER: Final = 32 * 1024
"""Bytes of a client that the kernel buffers (Linux: twice as many), and so forewarn reads at once."""
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

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
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
        await send_reply(reply, send)


def serve_health(
    sock: socket.socket, health: Health, metrics: Metrics, connections: int = MAX_HEALTH_CONNECTIONS
) -> Callable[[], None]:
    """Serve the port; return what stops it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    server = Server(HealthPaths(health, metrics), Limits(connections=connections), has_bodies=False)
    thread = Thread(target=server.run, args=([sock],), name="health", daemon=True)
    thread.start()

    def end() -> None:
        """Stop the server and wait for it: an event loop that runs at interpreter exit can crash the process."""
        server.should_exit = True
        thread.join(_CLOSE_SECONDS)

    return end
