"""The log: nobody who answers a request waits for who reads it, and nothing in it acts on a terminal."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.webhook.logs import MAX_TEXT, LogWriter, _Line, encode
from tests.webhook.builders import body, deployment
from tests.webhook.commands.test_commands import Started, cluster_file
from tests.webhook.running import ENVIRONMENT, JSON, answer_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cluster_file"]
IN_A_POD = {"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"}
POD = {**ENVIRONMENT, **IN_A_POD}
LINE = _Line(1_700_000_000.5, logging.INFO, "decision", {"uid": "u1"})


def test_a_line_is_json_with_the_time_in_utc() -> None:
    assert encode(LINE) == (
        b'{"time":"2023-11-14T22:13:20.500+00:00","level":"info","message":"decision","uid":"u1"}\n'
    )


@given(st.text(st.characters(), max_size=50), st.one_of(st.integers(), st.text(st.characters()), st.none()))
def test_whatever_is_told_is_one_line_of_printable_ascii(message: str, value: Any) -> None:
    text = encode(LINE._replace(message=message, fields={"value": value}))
    assert all(32 <= byte < 127 for byte in text[:-1])
    assert text.endswith(b"\n")
    told = json.loads(text)
    assert told["message"] == message
    assert told["value"] == value


def test_a_text_of_any_length_makes_a_line_of_bounded_length() -> None:
    assert len(encode(LINE._replace(fields={"user": "x" * 7_000_000}))) < 2 * MAX_TEXT


def test_lines_that_nobody_reads_are_dropped_and_counted_and_that_is_told() -> None:
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    writer = LogWriter(into, limit=100)
    for _ in range(5_000):
        writer.put(LINE)  # returns, though nobody reads
    assert writer.dropped > 4_000
    with ThreadPoolExecutor(1) as reading, open(out) as read:
        got = reading.submit(read.readlines)
        assert writer.stop(30)  # before its descriptor may become another's
        os.close(into)
        lines = [json.loads(line) for line in got.result(30)]
    assert sum(line["lines"] for line in lines if line["message"] == "log lines dropped") == writer.dropped


def test_requests_are_answered_though_nobody_reads_stderr(cluster_file: Path) -> None:
    """It stopped for good after 208 answers."""
    server = Started(cluster_file)
    try:
        connection, data = server.connect(), body(deployment("nothing"))
        for _ in range(500):
            connection.request("POST", "/validate", data, JSON)
            assert answer_of(connection)[0] == 200
        connection.close()
    finally:
        server.process.kill()
        server.process.communicate(timeout=60)


FAULTY = """
import os, sys, threading, warnings
from forewarn.webhook.logs import log_to_stderr
end = log_to_stderr(os.environ)
warnings.warn("old")
print("plain")
print("two\\nlines", file=sys.stderr)
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
end()
print("late", file=sys.stderr)
raise ValueError("the end")
"""


def test_in_a_pod_all_that_is_printed_is_a_line_of_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTY], capture_output=True, text=True, env=POD, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    told = [(line["level"], line["message"]) for line in lines]
    assert ("warning", True) in [(level, "UserWarning: old" in message) for level, message in told]
    assert {("info", "plain"), ("error", "two"), ("error", "lines"), ("error", "late")} <= {*told}
    traces = {line["message"]: line["traceback"] for line in lines if "traceback" in line}
    assert traces.keys() == {"unhandled exception, the thread exits: worker", "unhandled exception, the process exits"}
    assert "ZeroDivisionError" in traces["unhandled exception, the thread exits: worker"]
    assert "ValueError: the end" in traces["unhandled exception, the process exits"]


@pytest.mark.parametrize("command", ["serve", "ca-injector"])
@pytest.mark.parametrize(
    ("variables", "status", "message"),
    [
        ({"FOREWARN_HEALTH_PORT": "x"}, 2, 'must be a whole number, not "x"'),
        ({"FOREWARN_LOG_LEVEL": "loud"}, 2, 'unknown value "loud"; known: info, warning, error'),
        ({"FOREWARN_HOST": "192.0.2.1", "FOREWARN_HEALTH_PORT": "0"}, 3, "cannot start: "),
    ],
)
def test_in_a_pod_a_command_that_cannot_start_says_so_in_the_log(
    command: str, variables: dict[str, str], status: int, message: str, cluster_file: Path
) -> None:
    environment = {
        **POD,
        **variables,
        "KUBECONFIG": str(cluster_file.parent / "none"),
        "HOME": str(cluster_file.parent),
    }
    if command == "serve":
        environment["FOREWARN_CLUSTER"] = str(cluster_file)
    arguments = [sys.executable, "-m", "forewarn", "webhook", command]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout) == (status, "")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines if message in line["message"]] == ["error"], lines


@pytest.mark.parametrize("variables", [{}, IN_A_POD], ids=["outside of a Pod", "in a Pod"])
def test_a_server_prints_nothing_but_lines_of_the_log(variables: dict[str, str], cluster_file: Path) -> None:
    server = Started(cluster_file, "--drain", "0", scratch=None, **variables)
    server.process.terminate()
    out, rest = server.process.communicate(timeout=30)
    lines = [json.loads(line) for line in (*server.before, *rest.splitlines())]
    assert out == ""
    (listening,) = [line for line in lines if line["message"] == "listening"]
    assert (listening["webhook"], listening["health"]) == (
        f"https://127.0.0.1:{server.port}",
        f"http://127.0.0.1:{server.health_port}",
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [("info", ["info", "warning", "error"]), ("warning", ["warning", "error"]), ("error", ["error"])],
)
def test_nothing_below_the_level_is_logged(level: str, expected: list[str]) -> None:
    script = f"""
import logging, os
from forewarn.webhook.logs import LOGGER, log_event, log_to_stderr, use_level
end = log_to_stderr(os.environ)
use_level("{level}")
print("plain")
log_event("event", {{}}, logging.WARNING)
LOGGER.error("fault")
end()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=POD, timeout=60)
    assert [json.loads(line)["level"] for line in done.stderr.splitlines()] == expected
