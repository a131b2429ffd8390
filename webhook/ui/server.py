"""The HTTP server of the pages: on the loopback address, a thread for each connection."""

from __future__ import annotations

from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Final

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

if TYPE_CHECKING:
    import socket
    from wsgiref.types import WSGIApplication

HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 64
_IDLE_SECONDS: Final = 60.0


class _Handler(WSGIRequestHandler):
    """Handles requests without a log, and closes connections that send nothing for some time."""

    timeout = _IDLE_SECONDS

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  (werkzeug's name)
        """Log nothing, because the first address contains the token."""


class Server(ThreadedWSGIServer):
    """Closes a connection beyond MAX_CONNECTIONS."""

    def __init__(self, host: str, port: int, app: WSGIApplication, descriptor: int) -> None:
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(host, port, app, _Handler, fd=descriptor)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection on a thread of its own."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The same, on that thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def serving(listener: socket.socket, app: WSGIApplication) -> Server:
    """The server on a listening socket."""
    host, port = listener.getsockname()
    return Server(host, port, app, listener.fileno())
