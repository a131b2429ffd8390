"""The HTTP server of the pages: on the loopback address, a thread for each connection."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from forewarn.policies.cli.ui.access import ADMIT

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 64
_STRANGER_SECONDS: Final = 10.0
"""Maximum seconds without data of a connection without a request of the owner."""
_IDLE_SECONDS: Final = 60.0


class _Handler(WSGIRequestHandler):
    """Handles requests without a log, and closes connections that send nothing for some time."""

    timeout = _STRANGER_SECONDS
    server: Server

    def make_environ(self) -> dict[str, Any]:
        """Return the WSGI environment of a request, with ADMIT."""
        return {**super().make_environ(), ADMIT: partial(self.server.admit, self.connection)}

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  (werkzeug's name)
        """Log nothing, because the first address contains the token."""


class Server(ThreadedWSGIServer):
    """Has at most MAX_CONNECTIONS. Then, a new one replaces the oldest without a request of the owner, as every user
    of the machine can open connections. If all are the owner's, the new one is closed.
    """

    def __init__(self, listener: socket.socket, app: WSGIApplication) -> None:
        self._lock = Lock()
        self._open: dict[socket.socket, bool] = {}
        """Connections, the oldest first -> whether they have sent a request of the owner."""
        host, port = listener.getsockname()
        super().__init__(host, port, app, _Handler, fd=listener.fileno())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection on a thread of its own."""
        with self._lock:
            is_accepted = len(self._open) < MAX_CONNECTIONS or self._close_stranger()
            if is_accepted:
                self._open[request] = False
        if is_accepted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The same, on that thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def admit(self, connection: socket.socket) -> None:
        """Keep a connection that has sent a request of the owner."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = True
                connection.settimeout(_IDLE_SECONDS)

    def _close_stranger(self) -> bool:
        """End the oldest connection without a request of the owner; return False if there is none."""
        oldest = next((connection for connection, is_owners in self._open.items() if not is_owners), None)
        if oldest is None:
            return False
        del self._open[oldest]
        with suppress(OSError):  # its thread sees the end, and closes it
            oldest.shutdown(socket.SHUT_RDWR)
        return True
