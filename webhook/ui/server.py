"""The HTTP server of `forewarn ui`: on the loopback address alone, a thread for each connection."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from werkzeug.serving import BaseWSGIServer

HOST: Final = "127.0.0.1"
_IDLE_SECONDS: Final = 60.0


class _Handler(WSGIRequestHandler):
    """Without a log, and with a limit for a connection that sends nothing."""

    timeout = _IDLE_SECONDS

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  (werkzeug's name)
        """Nothing: the first address has the token."""


def bound(port: int) -> socket.socket:
    """A socket for the server. Port 0: any free one. Raises OSError."""
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def serving(made: socket.socket, app: WSGIApplication) -> BaseWSGIServer:
    """The server on such a socket."""
    host, port = made.getsockname()
    return make_server(host, port, app, threaded=True, request_handler=_Handler, fd=made.fileno())
