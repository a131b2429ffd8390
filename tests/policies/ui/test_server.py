"""The server: only this machine, and a page that disconnects ends its question."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.ui.app import MAX_ANSWERS, Answers, Cluster, Shown, create_ui_app
from forewarn.policies.cli.ui.processes import Step
from forewarn.policies.cli.ui.questions import CommandLine
from forewarn.policies.cli.ui.server import MAX_CONNECTIONS, Access, Server
from forewarn.webhook.http.server import bind
from tests.policies.ui.test_processes import wait_until

MAX_SECONDS = 120.0


class Endless:
    """A question that never ends, and knows when it is stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def ask(self, question: dict[str, Any], seconds: float) -> Generator[Step, None, None]:
        try:
            while True:
                yield Step("at work")
                threading.Event().wait(0.02)
        finally:
            self.stopped.set()


@pytest.fixture
def endless() -> Iterator[tuple[Endless, Access, int]]:
    processes = Endless()
    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        access = Access(port)
        shown = Shown("", "", (), {"notDrawn": 0}, {"nodes": []}, ())
        asked: Any = processes
        server = Server(listening, create_ui_app(Cluster(asked, shown), asked, access))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield processes, access, port
        server.shutdown()
        thread.join(MAX_SECONDS)
        server.server_close()


def cookie(access: Access, port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), MAX_SECONDS) as client:
        client.sendall(f"GET /?token={access.token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    (line,) = [line for line in answer.split(b"\r\n") if line.startswith(b"Set-Cookie: ")]
    return line.decode().removeprefix("Set-Cookie: ").partition(";")[0]


@pytest.mark.parametrize("request_line", ["GET /events/risk", "POST /api/predict"])
def test_a_closed_connection_stops_the_question(endless: tuple[Endless, Access, int], request_line: str) -> None:
    processes, access, port = endless
    head = f"{request_line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie(access, port)}\r\n"
    body = '{"manifest": "kind: Pod"}'
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if "POST" in request_line else ""
    with socket.create_connection(("127.0.0.1", port), MAX_SECONDS) as client:
        client.sendall(f"{head}\r\n{body if 'POST' in request_line else ''}".encode())
        if "GET" in request_line:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert not processes.stopped.is_set()
    assert processes.stopped.wait(MAX_SECONDS)


def test_the_owner_is_answered_beside_idle_connections(endless: tuple[Endless, Access, int]) -> None:
    _, access, port = endless
    idle = [socket.create_connection(("127.0.0.1", port), MAX_SECONDS) for _ in range(MAX_CONNECTIONS)]
    try:
        for _ in range(3):
            assert cookie(access, port)
        assert idle[0].recv(1) == b"", "the oldest is closed"
        idle[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            idle[-1].recv(1)
    finally:
        for client in idle:
            client.close()


def test_questions_of_the_owner_stay_beside_idle_connections(
    endless: tuple[Endless, Access, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.policies.cli.ui.server.MAX_CONNECTIONS", 4)
    processes, access, port = endless
    head = f"GET /events/risk HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie(access, port)}\r\n\r\n"
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), MAX_SECONDS))

        for client in (connect(), connect()):
            client.sendall(head.encode())
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        strangers = [connect() for _ in range(5)]
        assert [strangers[number].recv(1) for number in range(3)] == [b""] * 3
        assert not processes.stopped.is_set()
        assert cookie(access, port)
    assert processes.stopped.wait(MAX_SECONDS)
    wait_until(lambda: answers_at_all(port))


def answers_at_all(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), MAX_SECONDS) as client, contextlib.suppress(OSError):
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        return client.recv(1) != b""
    return False


def test_the_server_listens_on_this_machine_alone() -> None:
    with bind("127.0.0.1", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_recent_answers_are_stored_and_old_ones_removed() -> None:
    answers = Answers()
    asked = [CommandLine("whatif", ("lose", "node", f"n-{number}")) for number in range(MAX_ANSWERS + 1)]
    for question in asked[:-1]:
        answers.put(question, {"title": "t", "markup": "", "scripts": [], "document": {}})
    assert answers.get(asked[0]) is not None
    answers.put(asked[-1], {"title": "t", "markup": "", "scripts": [], "document": {}})
    assert [number for number, each in enumerate(asked) if answers.get(each) is None] == [1]


def test_large_answers_replace_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.cli.ui.app.MAX_STORED_BYTES", 1000)
    answers = Answers()
    for name in ("risk", "audit"):
        answers.put(CommandLine(name), {"title": "t", "markup": "x" * 900, "scripts": [], "document": {}})
    assert answers.get(CommandLine("risk")) is None
    assert answers.get(CommandLine("audit")) is not None


def test_every_file_of_the_pages_is_shipped_or_a_template() -> None:
    from forewarn.policies.cli.ui.app import _SHIPPED

    static = {path.name for path in Path("policies/cli/ui/static").iterdir() if path.suffix in (".js", ".css")}
    assert static <= set(_SHIPPED)
