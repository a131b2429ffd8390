"""The real server, on a thread of the test."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from signal import SIGTERM
from socket import create_connection
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any

from forewarn.webhook.health import Health
from forewarn.webhook.http.asgi import Limits, Routes
from forewarn.webhook.http.server import TlsServer, bind
from forewarn.webhook.http.tls import TLS_1_3, Demands, SwappingContext
from forewarn.webhook.x509 import self_signed
from tests.webhook.builders import endpoint as make_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path
    from socket import socket

    from forewarn.webhook.admission.endpoint import Endpoint
    from forewarn.webhook.admission.prediction_access import Workers
    from forewarn.webhook.http.asgi import Application

QUICK = Limits(handshake=1, goodbye=0.2, header=0.5, body=0.5, discard=2, drain=0, finish=10)
JSON = {"Content-Type": "application/json"}
ENVIRONMENT = {**os.environ, "PYTHONUNBUFFERED": "1"}
PYTHON = sys.executable


def by_asgi(
    application: Application, method: str, path: str, data: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """The answer of an ASGI application, without a server. Names of headers have `_` for `-`."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": raw}

    async def answer() -> None:
        await application(scope, receive, send)

    asyncio.run(answer())
    start, content = sent
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, content["body"]


def address_of(process: subprocess.Popen[Any], log: Path, port: str = "webhook") -> str:
    """The address of a port (`webhook` or `health`) of a webhook that starts in another process, from its log."""
    while True:
        for line in log.read_text().splitlines(keepends=True):
            if '"message":"listening"' in line and line.endswith("\n"):
                return str(json.loads(line)[port])
        assert process.poll() is None, log.read_text()
        sleep(0.02)


def client_context(ca: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca.decode())


@dataclass
class Running:
    port: int
    contexts: SwappingContext
    endpoint: Endpoint
    routes: Routes
    server: TlsServer
    health: Health
    thread: Thread
    host: str = "127.0.0.1"

    @property
    def client(self) -> ssl.SSLContext:
        return client_context(self.contexts.certificate.ca)

    @contextmanager
    def connect(self, timeout: float = 10) -> Iterator[http.client.HTTPSConnection]:
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.client, timeout=timeout)
        try:
            connection.connect()
            yield connection
        finally:
            connection.close()

    def tls(self, client: Path | None = None) -> ssl.SSLSocket:
        context = self.client
        if client:
            context.load_cert_chain(client)
        raw = create_connection(("127.0.0.1", self.port), timeout=10)
        return context.wrap_socket(raw, server_hostname="localhost")

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, str], bytes]:
        with self.connect() as connection:
            connection.request("POST", path, body, {**JSON, **headers})
            return answer_of(connection)

    @property
    def held(self) -> int:
        """Bytes of the bodies in flight."""
        return self.routes._intake.held

    def stop(self) -> None:
        self.server.handle_exit(SIGTERM, None)
        self.thread.join(15)
        assert not self.thread.is_alive()


@contextmanager
def running(
    endpoint: Endpoint | None = None,
    limits: Limits = QUICK,
    demands: Demands = TLS_1_3,
    client_names: frozenset[str] = frozenset(),
    workers: Workers | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Running]:
    endpoint = endpoint or make_endpoint()
    health, contexts = Health(), SwappingContext(self_signed(datetime.now(UTC)), demands)
    sock = bind(host, 0)
    port = sock.getsockname()[1]
    routes = Routes(endpoint, health, limits, workers)
    rejected = endpoint.metrics.reject_by_status
    server = TlsServer(routes, contexts.listening, endpoint.gate, health, limits, client_names, rejected)
    thread = Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    served = Running(port, contexts, endpoint, routes, server, health, thread, host)
    try:
        yield served
    finally:
        if thread.is_alive():
            served.stop()


def answer_of(connection: http.client.HTTPConnection) -> tuple[int, dict[str, str], bytes]:
    response = connection.getresponse()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def begin(connection: socket | ssl.SSLSocket, body: bytes, sent: int, path: str = "/validate") -> None:
    """Send a request's header and the first bytes of its body."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body[:sent])


def read_answer(connection: socket | ssl.SSLSocket) -> tuple[int, dict[str, str], bytes]:
    with http.client.HTTPResponse(connection) as response:
        response.begin()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def is_status(answer: tuple[int, dict[str, str], bytes], code: int) -> dict[str, Any]:
    """Assert that an answer is a metav1.Status of this code; returns it."""
    status, headers, body = answer
    assert status == code
    assert headers["content-type"] == "application/json"
    read: dict[str, Any] = json.loads(body)
    assert (read["kind"], read["apiVersion"], read["status"], read["code"]) == ("Status", "v1", "Failure", code)
    assert read["message"]
    assert read["reason"]
    return read
