"""The network of `make cluster`: API servers reach Services and pods by an HTTP CONNECT proxy on a Unix socket.

That is how API servers reach the cluster's network where they are not part of it (EgressSelectorConfiguration, as with
konnectivity). So Services and pods have addresses of their own, and no manifest has to be changed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EGRESS = """\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: {socket}
"""


class Network:
    """Leads connections to the ports of this machine that stand for addresses of the cluster.

    `find`: host and port as the API server names them -> the port on the loopback interface; None: nobody is there.
    """

    def __init__(self, socket: Path, find: Callable[[str, int], int | None]) -> None:
        self._socket, self._find = socket, find
        self._up = Event()
        Thread(target=lambda: asyncio.run(self._serve()), name="network", daemon=True).start()
        assert self._up.wait(10), "no proxy"

    async def _serve(self) -> None:
        self._socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._connected, path=self._socket)
        self._up.set()
        async with server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            head = await reader.readuntil(b"\r\n\r\n")
            _, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            host, _, port = target.rpartition(":")
            found = self._find(host.strip("[]"), int(port))
            try:
                if found is None:
                    raise ConnectionRefusedError
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", found)
            except OSError:
                writer.write(b"HTTP/1.1 502 nobody listens there: connection refused\r\n\r\n")
                await writer.drain()
            else:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await asyncio.gather(_copied(reader, far_writer), _copied(far_reader, writer))
        writer.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
