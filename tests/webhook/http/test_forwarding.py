"""What the health port forwards to the operators' pages, and what it does not."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from forewarn.webhook.health import Health
from forewarn.webhook.http.app import create_health_app
from forewarn.webhook.http.listening import bind
from forewarn.webhook.http.server import MAX_BODIES, MAX_BODY, MAX_OF_A_CLIENT, MAX_REQUESTS, serve_health
from forewarn.webhook.metrics import Metrics

MAX_SECONDS = 60.0


class Pages:
    """The process of the pages: stores requests, and answers users and, when `go_on` is set, strangers."""

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
        with connection, suppress(ConnectionError):
            connection.settimeout(MAX_SECONDS)
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1 << 16)
            self.requests.append(head)
            self.asked.release()
            if b"bearer valid" in head.lower():
                connection.sendall(self.answer.replace(b"\r\n", b"\r\nX-Forewarn-User: known\r\n", 1))
                if b" /events/" in head:
                    self.closed.set() if not connection.recv(1) else None
                return
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
    assert "x-forewarn-user" not in served.send("GET", "/", None, Authorization="Bearer valid")[2]
    assert served.pages.requests[0].startswith(b"GET /a%20b?c=d HTTP/1.0\r\nx-forewarn-client: 127.0.0.1\r\n")


def test_a_client_cannot_claim_to_be_another_one(served: Served) -> None:
    claims = {"X-Forewarn-Client": "a", "X_Forewarn_Client": "b", "X-Remote-User": "ada", "X-Real-IP": "::1"}
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


@contextmanager
def clients(served: Served, number: int, request: bytes, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Connections that have sent a request, or a part of it."""
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            client = socket.create_connection(("127.0.0.1", served.port), MAX_SECONDS, (address, 0))
            made.append(stack.enter_context(client))
            client.sendall(request)
        yield made


GET = b"GET /events/risk HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
SLOW = b"POST /enter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ntoken="
VALID = b"Authorization: Bearer valid\r\n"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_slow_bodies_of_strangers_delay_no_user(served: Served, address: str) -> None:
    with clients(served, 40, SLOW, address) as slow:
        for client in slow[: len(slow) - MAX_BODIES]:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 503 "), "the oldest gives its place to a newer one"
        assert served.send("GET", "/")[0] == 200
        assert served.send("POST", "/api/predict", b"x" * 10_000, Authorization="Bearer valid")[0] == 200
        assert served.send("POST", "/enter", b"token=valid")[0] == 200
        assert served.send("GET", "/livez")[0] == 200


def test_a_slow_body_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.webhook.http.server._BODY_SECONDS", 0.1)
    with clients(served, 1, SLOW) as (client,):
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
    assert served.pages.requests == []


def test_an_announced_body_that_is_too_large_is_not_read(served: Served) -> None:
    with clients(served, 1, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n") as (client,):
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


def test_strangers_leave_slots_for_users(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.send("GET", "/", None, Authorization="Bearer valid")
    served.pages.go_on.clear()
    monkeypatch.setattr("forewarn.webhook.http.server._SLOT_SECONDS", 0.5)
    with clients(served, MAX_REQUESTS + 4, GET % b"") as strangers:
        for client in strangers[MAX_OF_A_CLIENT:]:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        assert served.send("GET", "/", None, Authorization="Bearer valid")[0] == 200
        assert served.send("GET", "/livez")[0] == 200
        assert len(served.pages.requests) == 2 + MAX_OF_A_CLIENT


def test_a_user_who_waits_for_answers_leaves_slots_for_others(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.webhook.http.server._SLOT_SECONDS", 0.5)
    with clients(served, MAX_OF_A_CLIENT, GET % VALID) as waiting:
        for client in waiting:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert served.send("GET", "/", None, Authorization="Bearer valid")[0] == 503
        assert served.send("GET", "/")[0] == 200, "the slots of users do not count as those of strangers"


def test_a_client_that_does_not_read_gives_its_slot_back(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.webhook.http.server._READ_SECONDS", 0.1)
    served.pages.answer += b"x" * (16 << 20)
    with clients(served, 2 * MAX_REQUESTS, GET % b""):
        for _ in range(2 * MAX_REQUESTS):
            assert served.pages.asked.acquire(timeout=MAX_SECONDS)
        served.pages.answer = served.pages.answer[:100]
        assert served.send("GET", "/")[0] == 200


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
