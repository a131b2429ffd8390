"""The table of accuracy for processes of the same user on the same host or in the same container: a Unix socket.

The examples in the table name Pods and nodes. A network address proves nothing about a client: in a Pod with a sidecar
of a service mesh, all connections come from the loopback address.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import tempfile
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TABLE: Final = 1024 * 1024
_SECONDS: Final = 5.0


def path_of(port: int) -> Path:
    """The socket of the webhook with this health port."""
    return Path(tempfile.gettempdir()) / f"forewarn-accuracy-{port}"


def serve_table(port: int, table: Callable[[], Any]) -> Callable[[], None]:
    """Answer each connection with the table as JSON; returns a function that stops. Raises OSError."""
    path = path_of(port)
    path.unlink(missing_ok=True)
    server = _Server(str(path), _Answer)
    server.table = table
    Thread(target=server.serve_forever, name="accuracy", daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        path.unlink(missing_ok=True)

    return stop


def request_table(port: int) -> bytes:
    """At most MAX_TABLE bytes of the table. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(path_of(port)))
        with connection.makefile("rb") as parts:
            return parts.read(MAX_TABLE)


class _Server(socketserver.UnixStreamServer):
    table: Callable[[], Any]

    def server_bind(self) -> None:
        super().server_bind()
        os.chmod(str(self.server_address), 0o600)  # before it listens

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects."""


class _Answer(socketserver.StreamRequestHandler):
    timeout = _SECONDS

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        self.wfile.write(json.dumps(self.server.table()).encode())
