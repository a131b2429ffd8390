"""How far a long run is can be seen on a terminal, and Ctrl-C ends it: one line, and the status that shells know."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builders import make_node, make_pod

CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "often", "namespace": "default"},
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": {
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
        },
    },
}
SECONDS = 60.0
_SHOWN = re.compile(r"\d+ s simulated, [\d,]+ steps")


def until_shown(terminal: int) -> str:
    """What the terminal has got when the run first says how far it is."""
    text, deadline = "", time.monotonic() + SECONDS
    while not _SHOWN.search(text):
        ready, _, _ = select.select([terminal], [], [], max(deadline - time.monotonic(), 0))
        assert ready, text
        text += os.read(terminal, 4096).decode()
    return text


def heard() -> None:
    """Let SIGINT have its default effect: a script's background jobs are started with it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def rest_of(terminal: int) -> str:
    """What comes until nobody writes to it; fails after SECONDS."""
    text, deadline = "", time.monotonic() + SECONDS
    while True:
        ready, _, _ = select.select([terminal], [], [], max(deadline - time.monotonic(), 0))
        assert ready, text
        try:
            more = os.read(terminal, 4096)
        except OSError:  # Linux says so where the last writer has gone
            return text
        if not more:
            return text
        text += more.decode()


@pytest.mark.parametrize("arguments", [["whatif", "events", "-f", "new.json"], ["whatif", "apply", "-f", "new.json"]])
def test_ctrl_c_while_a_run_lasts(tmp_path: Path, arguments: list[str]) -> None:
    there: list[Any] = [make_node("n1").obj, make_pod("p").on("n1").obj]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": there}))
    (tmp_path / "new.json").write_text(json.dumps(CRON_JOB))
    command = [sys.executable, "-m", "forewarn", *arguments, "--cluster", "cluster.json", "--until", "744h"]
    terminal, theirs = pty.openpty()
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=theirs,
        preexec_fn=heard,
    )
    os.close(theirs)
    try:
        until_shown(terminal)
        process.send_signal(signal.SIGINT)
        said = rest_of(terminal)
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait(timeout=60)
        os.close(terminal)
    assert process.returncode == 130
    assert out == b""
    assert said.rpartition("\033[K")[2] == f"forewarn {arguments[0]}: interrupted\r\n"
