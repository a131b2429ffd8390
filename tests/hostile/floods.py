"""Floods of connections: clients that open many, and send nothing, little, or without an end."""

from __future__ import annotations

import http.client
import json
import re
import resource
import ssl
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection
from tempfile import NamedTemporaryFile
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tests.hostile.records import USELESS, RecordClient
from tests.webhook.builders import body, pod
from tests.webhook.running import ENVIRONMENT, address_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from socket import socket

TOKEN: Final = "a-token-of-api-servers"
HUGE: Final = 1_000_000_000
REVIEW: Final = body(pod("gold", 1000))
POST: Final = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
GET: Final = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


def trusting() -> ssl.SSLContext:
    """A context that accepts a self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reads no certificates of authorities, which takes milliseconds
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


class Sent(NamedTuple):
    """What a client sends after its handshake. `tls`: whether it shakes hands. `reads`: whether it reads an answer.
    `records`: the name of useless records.
    """

    data: bytes = b""
    tls: bool = True
    reads: bool = False
    records: str = ""


TLS_PORT: Final = {
    "half-open": Sent(tls=False),
    "no TLS": Sent(b"\x16\x03\x01", tls=False),
    "ClientHello": Sent(client_hello(), tls=False),
    "idle": Sent(),
    "KeyUpdates": Sent(records="KeyUpdates"),
    "records of one byte": Sent(records="records of one byte"),
    "slow request line": Sent(b"POST /val"),
    "slow header": Sent(b"POST /validate HTTP/1.1\r\nHost: x\r\nX: "),
    "large header": Sent(b"POST /validate HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 200 + b"X: " + b"x" * 60_000),
    "no body": Sent(POST % 1000),
    "slow body": Sent(POST % 60_000 + b'{"a": ' * 1000),
    "answered": Sent(GET % b"/elsewhere", reads=True),
    "reviewed": Sent(POST % len(REVIEW) + REVIEW, reads=True),
    "pipelined": Sent(GET % b"/" * 1000),
}
HEALTH_PORT: Final = {
    "half-open": Sent(),
    "slow request line": Sent(b"GET /liv"),
    "large header": Sent(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 200 + b"X: " + b"x" * 60_000),
    "many fields": Sent(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 10_000),
    "GET with a body": Sent(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % HUGE + b"x" * 300_000),
    "POST": Sent(b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % HUGE + b"x" * 300_000),
    "chunks": Sent(b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n40000\r\n" + b"x" * 0x40000),
    "unread": Sent(GET % b"/metrics"),
    "pipelined": Sent(GET % b"/metrics" * 5_000),
    "POST to a page": Sent(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 300_000),
    "answered": Sent(GET % b"/livez", reads=True),
}
"""Clients by what they do."""


def open_many(count: int) -> None:
    """Allow this process to open so many files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * count + 1_000), hard))


@dataclass
class Flood:
    """Connections that are open."""

    port: int
    is_tls: bool = True
    context: ssl.SSLContext = field(default_factory=trusting)
    held: list[socket] = field(default_factory=list)

    def open(self, count: int, sent: Sequence[Sent], sources: Sequence[str]) -> None:
        """Open connections that send these in turn, from these addresses in turn."""
        for number in range(count):
            source, what = sources[number % len(sources)], sent[number % len(sent)]
            with suppress(OSError):  # the server may close it at any time
                self._open(source, what)

    def _open(self, source: str, what: Sent) -> None:
        if what.records:
            writer = RecordClient(self.port, self.context, source)
            self.held.append(writer.socket)
            writer.socket.sendall(b"".join(USELESS[what.records](writer)))
            return
        client: socket = create_connection(("127.0.0.1", self.port), 5, (source, 0))
        client.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self.held.append(client)
        if self.is_tls and what.tls:
            client = self.held[-1] = self.context.wrap_socket(client)
        client.settimeout(1)
        client.sendall(what.data)
        if what.reads:
            client.recv(4096)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.held:
            client.close()
        self.held.clear()


@dataclass
class Serving:
    """`forewarn webhook serve` in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int
    health_port: int

    def seconds(self, count: int, source: str = "127.0.1.1", timeout: float = 10) -> list[float]:
        """How long each of some reviews of an address took, each on a connection of its own. Raises OSError."""
        times = []
        for _ in range(count):
            began = monotonic()
            with closing(self._connection(source, timeout)) as client:
                client.request("POST", f"/validate/{TOKEN}?timeout=10s", REVIEW, {"Content-Type": "application/json"})
                answer = client.getresponse()
                assert answer.status == 200
                assert json.loads(answer.read())["response"]["uid"]
            times.append(monotonic() - began)
        return times

    def _connection(self, source: str, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=trusting(), timeout=timeout, source_address=(source, 0)
        )

    def health(self, path: str, source: str = "127.0.1.1", timeout: float = 10) -> tuple[int, str]:
        """An answer of the health port."""
        client = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=timeout, source_address=(source, 0))
        with closing(client):
            client.request("GET", path)
            answer = client.getresponse()
            return answer.status, answer.read().decode()

    @property
    def descriptors(self) -> int:
        """How many files it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def peak(self) -> float:
        """The most memory that it has had, in MiB."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found
        return int(found[1]) / 1024


@contextmanager
def serving(limits: tuple[int, int], *arguments: str, **variables: str) -> Iterator[Serving]:
    """The webhook with this soft and hard limit on open files."""
    command = [sys.executable, "-m", "forewarn", "webhook", "serve", "--host", "127.0.0.1", "--drain", "0"]
    with (
        NamedTemporaryFile("w") as log,
        subprocess.Popen(
            [*command, "--port", "0", "--health-port", "0", *arguments],
            stderr=log,
            env={**ENVIRONMENT, **variables},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
        ) as process,
    ):
        try:
            addresses = (address_of(process, Path(log.name), port) for port in ("webhook", "health"))
            yield Serving(process, *(int(address.rpartition(":")[2]) for address in addresses))
        finally:
            process.kill()
            process.communicate(timeout=60)
