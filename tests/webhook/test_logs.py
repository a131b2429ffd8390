"""The log: nobody who answers a request waits for who reads it, and nothing in it acts on a terminal."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.builders import body, deployment
from tests.webhook.commands.test_commands import Started, cluster_file
from tests.webhook.running import JSON, answer_of
from webhook.logs import MAX_TEXT, LogWriter, _Line, encode

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cluster_file"]
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
    writer = LogWriter(into, most=100)
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
        for _ in range(1_500):
            connection.request("POST", "/validate", data, JSON)
            assert answer_of(connection)[0] == 200
        connection.close()
    finally:
        server.process.kill()
        server.process.communicate()
