"""What Prometheus is told, beyond what the tests of each part look at."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

import pytest

from forewarn.policies import VERSION
from forewarn.policies.cli.main import KUBERNETES
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.admission.review import MAX_DECODED
from forewarn.webhook.metrics import Metrics, RejectionReason
from tests.webhook.builders import body, endpoint, pod
from tests.webhook.running import begin, read_answer, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.webhook.running import Running

REFUSED = "forewarn_http_requests_rejected_total"


def samples(metrics: Metrics) -> dict[str, float]:
    lines = metrics.exposition("")[0].decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def counted(metrics: Metrics) -> dict[str, float]:
    """Refusals by reason, but for those that never happened."""
    found = {name: value for name, value in samples(metrics).items() if name.startswith(REFUSED) and value}
    return {re.findall(r'reason="(.*)"', name)[0]: value for name, value in found.items()}


def test_the_process_and_the_build_are_told() -> None:
    metrics = Metrics()
    found = samples(metrics)
    python = platform.python_version()
    assert found[f'forewarn_build_info{{kubernetes="{KUBERNETES}",python="{python}",version="{VERSION}"}}'] == 1
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    text = metrics.exposition("")[0].decode()
    helps = re.findall("^# HELP process_.*", text, re.MULTILINE)
    assert helps
    assert all("without child processes" in line for line in helps)


def test_what_may_happen_once_is_there_before_it_happens() -> None:
    """A counter that appears with its first event has no increase in Prometheus' eyes."""
    found = samples(Metrics())
    assert {f'{REFUSED}{{reason="{reason}"}}' for reason in RejectionReason} <= found.keys()
    assert {f'forewarn_predictions_total{{outcome="{outcome}"}}' for outcome in Outcome} <= found.keys()
    assert found["forewarn_log_lines_dropped_total"] == 0


def slow_header(server: Running) -> int:
    with server.tls() as connection:
        connection.sendall(b"POST /validate HTTP/1.1\r\n")
        return read_answer(connection)[0]


def large_header(server: Running) -> int:
    with server.tls() as connection:
        connection.sendall(b"POST /validate HTTP/1.1\r\nX: " + b"x" * 80_000)
        return read_answer(connection)[0]


def slow_body(server: Running) -> int:
    with server.tls() as connection:
        begin(connection, b"{}" * 50, 10)
        return read_answer(connection)[0]


def no_http(server: Running) -> int:
    with server.tls() as connection:
        connection.sendall(b"hello\r\n\r\n")
        return read_answer(connection)[0]


@pytest.mark.parametrize(
    ("ask", "status", "reason"),
    [
        (slow_header, 408, "slow"),
        (slow_body, 408, "slow"),
        (large_header, 431, "header-size"),
        (no_http, 400, "malformed"),
        (lambda server: server.post("/validate", b"{")[0], 400, "malformed"),
        (lambda server: server.post("/validate", b" " * (MAX_DECODED + 1))[0], 413, "body-size"),
        (lambda server: server.post("/validate", b"{}", **{"Content-Type": "text/plain"})[0], 415, "media-type"),
        (lambda server: server.post("/elsewhere", b"{}")[0], 404, "path"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_refusal_is_counted_once_by_its_reason(ask: Callable[[Running], int], status: int, reason: str) -> None:
    with running() as server:
        assert ask(server) == status
        assert counted(server.endpoint.metrics) == {reason: 1}


@pytest.mark.parametrize(
    "ask",
    [slow_header, no_http, slow_body, lambda server: server.post("/validate", b"{")[0]],
    ids=["a slow header", "no HTTP", "a slow body", "no JSON"],
)
def test_the_log_says_who_was_refused(ask: Callable[[Running], int], caplog: pytest.LogCaptureFixture) -> None:
    """Only the API server should ask: who else does is to be found."""
    with running() as server:
        ask(server)
    (record,) = (record for record in caplog.records if "rejected" in record.message)
    assert record.__dict__["fields"]["client"] == "127.0.0.1"
    assert record.__dict__["fields"]["status"] in (400, 408)


def test_a_503_says_which() -> None:
    with running(endpoint(limit=0)) as server:
        assert server.post("/validate", body(pod()))[0] == 503
        assert counted(server.endpoint.metrics) == {"overload": 1}
        server.endpoint.gate.stopping = True
        assert server.post("/validate", body(pod()))[0] == 503
        assert counted(server.endpoint.metrics) == {"overload": 1, "stopping": 1}
