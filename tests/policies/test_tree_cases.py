"""Trees in, findings out: each `cases/trees/*.txt` has the options of the linter, files and the expected findings.

`-- NAME --` begins a file, `-- findings --` the report. `UPDATE=1` rewrites what is expected.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from tests.in_process import forewarn

CASES = sorted((Path(__file__).parent / "cases" / "trees").glob("*.txt"))
_FILE = re.compile(r"^-- (\S+) --\n", re.MULTILINE)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_findings_on_a_tree_are_as_recorded(path: Path, tmp_path: Path) -> None:
    head, *parts = _FILE.split(path.read_text())
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    expected = files.pop("findings")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    options = shlex.split(head, comments=True)
    done = forewarn("lint", "-o", "json", *options, cwd=tmp_path)
    assert done.stdout, done.stderr
    report = "".join(f"{_line(finding)}\n" for finding in json.loads(done.stdout)["findings"])
    if os.environ.get("UPDATE"):
        path.write_text(path.read_text().removesuffix(expected) + report)
    assert report == expected


def _line(finding: dict[str, str]) -> str:
    place = f"{finding['file'].removeprefix('./')}:{finding['line']}"
    return f"{place} {finding['severity']} {finding['rule']}: {finding['message']} | {finding['remediation']}"
