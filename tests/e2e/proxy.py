"""A TCP proxy on the loopback interface: it plays a Service in front of replicas, and can cut connections."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CHUNK = 65_536


class Proxy:
    """Passes connections on to one of the ready ports in turn, as kube-proxy does."""

    def __init__(self, ready: Callable[[], Iterable[int]]) -> None:
        self._ready, self._turn, self._cuts = ready, 0, 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut(self) -> int:
        """Break all connections that are open now, without a word; returns how many."""
        with self._lock:
            self._cuts += 1
            broken = [*self._open]
        for sock in broken:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        return len(broken) // 2

    def close(self) -> None:
        """Take no more connections, and break those that are open."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        cuts = self._cuts
        server = self._connect()
        if server is None:
            client.close()
            return
        for sock in (client, server):  # as kube-proxy, which is no process in between: nothing waits to be sent
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = {client, server}
        with self._lock:
            self._open |= pair
            is_cut = cuts != self._cuts  # while it was being made
        try:
            if not is_cut:
                _pump(client, server)
        finally:
            with self._lock:
                self._open -= pair
            client.close()
            server.close()

    def _connect(self) -> socket.socket | None:
        ports = [*self._ready()]
        for _ in ports:
            self._turn += 1
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", ports[self._turn % len(ports)]), timeout=5)
        return None


def _pump(first: socket.socket, second: socket.socket) -> None:
    """Pass bytes both ways until one side ends."""
    other = {first: second, second: first}
    for sock in other:
        sock.settimeout(None)
    while True:
        readable, _, _ = select.select([first, second], [], [])
        for sock in readable:
            try:
                data = sock.recv(CHUNK)
                if not data:
                    return
                other[sock].sendall(data)
            except OSError:
                return
