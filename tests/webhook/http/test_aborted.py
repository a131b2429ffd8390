"""Clients that go away in the middle of anything: no traceback, and few lines in the log."""

from __future__ import annotations

import gc
import socket
import time
from typing import TYPE_CHECKING

import pytest

from forewarn.webhook.health import Health
from forewarn.webhook.http.protocol import Protocol
from forewarn.webhook.http.server import bind, serve_health
from forewarn.webhook.logs import RareEvents
from forewarn.webhook.metrics import Metrics
from tests.hostile.floods import HEALTH_PORT, TLS_PORT, Flood, Sent
from tests.webhook.running import running

if TYPE_CHECKING:
    from collections.abc import Iterator

GET = b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /elsewhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc"
RESET = b"\x01\0\0\0\0\0\0\0"
"""SO_LINGER without a time: the connection is reset and not closed."""


@pytest.fixture
def health_port() -> Iterator[int]:
    sock = bind("127.0.0.1", 0)
    end = serve_health(sock, Health(), Metrics())
    yield sock.getsockname()[1]
    end()


@pytest.mark.parametrize(
    "sent", [GET, GET * 200, POST, GET * 50 + b"\0\r\n\r\n"], ids=["one", "many", "body", "no HTTP"]
)
@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_goes_away_leaves_no_traceback(
    sent: bytes, reset: bool, health_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", health_port)) as client:
            client.sendall(sent)
            if reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    time.sleep(0.3)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("name", HEALTH_PORT)
def test_a_closed_connection_leaves_nothing_for_the_garbage_collector(name: str, health_port: int) -> None:
    """The collector runs rarely, so that bodies of closed connections took 60 kB each."""
    _assert_nothing_is_left(health_port, HEALTH_PORT[name], is_tls=False)


@pytest.mark.parametrize("name", ["ClientHello", "idle"])
def test_a_closed_tls_connection_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """A flood of ClientHellos left 8 kB each."""
    with running() as server:
        _assert_nothing_is_left(server.port, TLS_PORT[name], is_tls=True)


def _assert_nothing_is_left(port: int, sent: Sent, *, is_tls: bool) -> None:
    gc.collect()  # what other tests left; pytest has switched the collector off
    with Flood(port, is_tls=is_tls) as flood:
        flood.open(20, [sent], ["127.0.0.1"])
        time.sleep(0.2)
    end = time.monotonic() + 20
    while left := [obj for obj in gc.get_objects() if isinstance(obj, Protocol)]:
        assert time.monotonic() < end
        left.clear()
        time.sleep(0.05)


def test_refused_requests_of_strangers_are_logged_a_few_times_a_second(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.webhook.http.protocol._REJECTED", RareEvents())
    with running() as server:
        for _ in range(50):
            with server.tls() as client:
                client.sendall(b"hello\r\n\r\n")
    rejected = [record for record in caplog.records if record.getMessage() == "connection rejected"]
    assert 1 <= len(rejected) < 50


def test_what_is_left_out_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    events = RareEvents(limit=3, clock=lambda: now[0])
    for second in (1.0, 2.5):
        now[0] = second
        for number in range(10):
            events.log("refused", {"number": number})
    told = [record.__dict__["fields"] for record in caplog.records]
    assert [fields["number"] for fields in told] == [0, 1, 2, 0, 1, 2]
    assert [fields.get("not_logged") for fields in told] == [None, None, None, 7, None, None]
