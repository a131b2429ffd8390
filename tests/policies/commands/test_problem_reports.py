"""Problems that users of Kubernetes reported in public, with the lines that the answer must have.

Each directory of `cases/problems` has the input and `cases.yaml`: commands, their exit status and some of their lines.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.policies.cli.main import main

DIRECTORIES = sorted(path.parent for path in Path("tests/policies/cases/problems").glob("*/cases.yaml"))
CASES = [
    (directory, case) for directory in DIRECTORIES for case in yaml.safe_load((directory / "cases.yaml").read_text())
]


@pytest.mark.parametrize(("directory", "case"), CASES, ids=lambda each: getattr(each, "name", None))
def test_the_answer_names_the_cause(
    directory: Path, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(directory)
    status = main(shlex.split(case["command"]))
    printed = capsys.readouterr()
    answer = " ".join((printed.out + printed.err).split())
    assert [line for line in case["lines"] if line not in answer] == []
    assert [line for line in case.get("without", ()) if line in answer] == []
    assert status == case.get("status", 0)


def test_pending_pods_have_the_same_rows_in_each_process() -> None:
    command = [sys.executable, "-m", "forewarn", "why", "--cluster", "cluster.yaml"]
    directory = "tests/policies/cases/problems/pending-for-different-causes"
    answers = {
        subprocess.check_output(command, cwd=directory, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=60)
        for seed in "123"
    }
    assert len(answers) == 1
