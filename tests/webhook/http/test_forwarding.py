"""What the health port forwards to the operators' pages, and what it does not."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from forewarn.webhook.health import Health
from forewarn.webhook.http.app import create_health_app
from forewarn.webhook.http.forwarding import MAX_BODY, MAX_REQUESTS
from forewarn.webhook.http.server import bind, serve_health
from forewarn.webhook.metrics import Metrics

MAX_SECONDS = 60.0


class Pages:
    """The process of the pages: stores requests, and answers when `go_on` is set."""

    def __init__(self, path: Path) -> None:
        self.requests: list[bytes] = []
        self.go_on, self.closed, self.asked = threading.Event(), threading.Event(), threading.Semaphore(0)
        self.go_on.set()
        self.answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nServer: secret\r\n\r\nbody"
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(MAX_SECONDS)
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1 << 16)
            self.requests.append(head)
            self.asked.release()
            if not self.go_on.is_set():
                self.closed.set() if not connection.recv(1) else None
                return
            connection.sendall(self.answer)


class Served(NamedTuple):
    port: int
    pages: Pages

    def send(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_SECONDS)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        found = response.status, response.read(), {name.lower(): value for name, value in response.getheaders()}
        connection.close()
        return found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    pages = Pages(tmp_path / "socket")
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        end = serve_health(sock, create_health_app(Health(), Metrics()), lambda: tmp_path / "socket")
        yield Served(port, pages)
        end()
    pages.listening.close()


def test_own_paths_are_not_forwarded(served: Served) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        served.send("GET", path)
    assert served.pages.requests == []


def test_an_answer_has_only_known_headers(served: Served) -> None:
    status, body, headers = served.send("GET", "/a%20b?c=d")
    assert (status, body, headers["content-type"]) == (200, b"body", "text/plain")
    assert "server" not in headers
    assert served.pages.requests[0].startswith(b"GET /a%20b?c=d HTTP/1.0\r\nx-forewarn-client: loopback\r\n")


def test_a_client_cannot_claim_to_be_another_one(served: Served) -> None:
    claims = {"X-Forewarn-Client": "other", "X_Forewarn_Client": "other", "X-Remote-User": "ada", "X-Real-IP": "::1"}
    served.send("GET", "/", None, Authorization="Bearer t", Cookie="a=b", **claims)
    head = served.pages.requests[0].lower()
    assert head.count(b"forewarn") == 1
    assert b"ada" not in head
    assert b"::1" not in head
    assert b"authorization: bearer t\r\n" in head
    assert b"cookie: a=b\r\n" in head


@pytest.mark.parametrize("name", ["Host", "Authorization", "Cookie"])
def test_a_repeated_header_is_rejected(served: Served, name: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), MAX_SECONDS) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: a\r\n{name}: b\r\n{name}: c\r\n\r\n".encode())
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
    assert served.pages.requests == []


def test_methods_and_sizes_are_limited(served: Served) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert served.send(method, "/")[0] == 405
    assert served.send("POST", "/api/predict", b"x" * (MAX_BODY + 1))[0] == 413
    assert served.pages.requests == []
    assert served.send("POST", "/api/predict", b"x")[0] == 200
    assert b"\r\ncontent-length: 1\r\n" in served.pages.requests[0]


def test_without_the_process_pages_have_a_reason_and_probes_an_answer(served: Served, tmp_path: Path) -> None:
    (tmp_path / "socket").unlink()
    status, body, _ = served.send("GET", "/")
    assert status == 503
    assert b"the pages are starting" in body
    assert served.send("GET", "/livez")[0] == 200


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0", b"HTTP/1.0 abc\r\n\r\n"])
def test_no_answer_of_the_process_is_an_error(served: Served, answer: bytes) -> None:
    served.pages.answer = answer
    assert served.send("GET", "/")[0] == 502


def test_a_closed_page_ends_its_request(served: Served) -> None:
    served.pages.go_on.clear()
    with socket.create_connection(("127.0.0.1", served.port), MAX_SECONDS) as client:
        client.sendall(b"GET /events/risk HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert served.pages.asked.acquire(timeout=MAX_SECONDS)
    assert served.pages.closed.wait(MAX_SECONDS)


def test_many_pages_delay_no_probe(served: Served) -> None:
    served.pages.go_on.clear()
    clients = [socket.create_connection(("127.0.0.1", served.port), MAX_SECONDS) for _ in range(MAX_REQUESTS)]
    try:
        for client in clients:
            client.sendall(b"GET /events/risk HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert served.pages.asked.acquire(timeout=MAX_SECONDS)
        assert served.send("GET", "/")[0] == 503
        assert served.send("GET", "/livez")[0] == 200
    finally:
        for client in clients:
            client.close()


def test_a_process_that_does_not_read_blocks_no_later_request(served: Served, tmp_path: Path) -> None:
    (tmp_path / "socket").unlink()
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % MAX_BODY
    stopped = socket.socket(socket.AF_UNIX)
    stopped.bind(str(tmp_path / "socket"))
    stopped.listen()
    stopped.settimeout(MAX_SECONDS)
    unread = []
    for _ in range(MAX_REQUESTS):
        with socket.create_connection(("127.0.0.1", served.port), MAX_SECONDS) as client:
            client.sendall(head + b"x" * MAX_BODY)
            unread.append(stopped.accept()[0])
            assert unread[-1].recv(4) == b"POST"
    (tmp_path / "socket").unlink()
    running = Pages(tmp_path / "socket")
    end = time.monotonic() + MAX_SECONDS
    while served.send("GET", "/")[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
    for each in (stopped, running.listening, *unread):
        each.close()
