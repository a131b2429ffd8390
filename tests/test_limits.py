"""Every test ends: processes that tests start have a time limit, and so do each test and the whole run."""

from __future__ import annotations

import ast
import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

OWN_LIMITS = {"benchmarks", "e2e", "kubelet_oracle", "mutants", "oracle", "yaml_oracle"}
SOURCES = [path for path in sorted(Path("tests").rglob("*.py")) if path.parts[1] not in OWN_LIMITS]
RUNS = {"subprocess.run", "subprocess.check_output", "subprocess.check_call"}
WAITS = re.compile(r"subprocess|\.\s*(wait|communicate)\b")


def without_limit(source: str) -> list[str]:
    """The calls that wait for a process without a time limit."""
    if not WAITS.search(source):
        return []
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    unlimited = [call for call in calls if not any(keyword.arg in ("timeout", None) for keyword in call.keywords)]
    return [
        f"line {call.lineno}: {name}"
        for call in unlimited
        if (name := ast.unparse(call.func)) in RUNS or (name.endswith((".wait", ".communicate")) and not call.args)
    ]


def test_every_process_that_a_test_waits_for_has_a_limit() -> None:
    unlimited = {path: found for path in SOURCES if (found := without_limit(path.read_text()))}
    assert SOURCES
    assert unlimited == {}


def test_a_call_without_a_limit_is_found() -> None:
    source = (
        "import subprocess as s, subprocess\nsubprocess.run(['a'])\np.wait()\np.communicate('x', 5)\np.wait(timeout=3)"
    )
    assert without_limit(source) == ["line 2: subprocess.run", "line 3: p.wait"]


def test_each_test_has_a_limit() -> None:
    config = configparser.ConfigParser()
    config.read("setup.cfg")
    assert 0 < config.getfloat("tool:pytest", "faulthandler_timeout") <= 600
    assert config.getboolean("tool:pytest", "faulthandler_exit_on_timeout")


def test_a_run_has_a_limit_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text("import time\ndef test_long(): time.sleep(400)\n")
    conftest = Path("tests/conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(conftest)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    path = os.pathsep.join((os.getcwd(), os.environ.get("PYTHONPATH", "")))  # the conftest imports from tests/
    environment = {**os.environ, "TEST_LIMIT": "3", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 124
    assert "the tests are still running after 3 s" in done.stderr
    assert "TEST_LIMIT=" in Path("Makefile").read_text()
