"""Reports and recipes for CI, read by what others wrote in Go: reviewdog's own messages, and actionlint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.build import VALIDATORS, binaries

pytestmark = pytest.mark.e2e

ROOT = Path.cwd()
WIDE = 'apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeSelector: {"ä": "ö"}, priorityClassName: glod}\n'


def _read_by_reviewdog(report: str) -> subprocess.CompletedProcess[str]:
    """`path:line:column:line:column SEVERITY "rule"` of each diagnostic that its messages take, strictly."""
    command = [binaries(VALIDATORS) / "rdjson"]
    return subprocess.run(command, input=report, capture_output=True, text=True, check=False, timeout=60)


def test_reviewdog_decodes_every_finding(tmp_path: Path) -> None:
    for case in sorted((ROOT / "tests/policies/cases/lint").glob("*.yaml")):
        (tmp_path / case.name).write_bytes(case.read_bytes())
    (tmp_path / "wide.yaml").write_text(WIDE)
    command = [sys.executable, "-m", "forewarn", "lint", "-q", "--exit-zero", "-o", "rdjson=rd", "-o", "json=js"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)
    report, findings = (tmp_path / "rd").read_text(), json.loads((tmp_path / "js").read_text())["findings"]
    done = _read_by_reviewdog(report)
    assert (done.returncode, done.stderr) == (0, "")
    read = [re.fullmatch(r"(.*?):(\d+):(\d+):\d+:(\d+) (\w+) \"(.*)\"", line) for line in done.stdout.splitlines()]
    assert len(read) == len(findings) > 50
    assert all(read)
    told = [(os.path.normpath(f["file"]), str(f["line"]), f["rule"]) for f in findings]
    assert [(m[1], m[2], m[6]) for m in read if m] == told
    (wide,) = (m for m in read if m and m[1] == "wide.yaml" and m[6].startswith("unknown-"))
    column = len(WIDE.splitlines()[3].encode().partition(b"glod")[0]) + 1
    assert (int(wide[3]), int(wide[4])) == (column, column + 4), (
        "columns count bytes of UTF-8, and the end is exclusive"
    )


@pytest.mark.parametrize("wrong", ['"severity": "NOTE"', '"line": 4', '"location": []'])
def test_reviewdog_refuses_what_it_does_not_know(wrong: str) -> None:
    report = f'{{"diagnostics": [{{"message": "a", "location": {{"path": "b"}}, {wrong}}}]}}'
    assert _read_by_reviewdog(report).returncode == 1


def _actionlint(repository: Path, workflow: str, action: str = "") -> subprocess.CompletedProcess[str]:
    """Check a workflow in a repository that is this one, so that `uses: ./` is our action."""
    directory = repository / ".github/workflows"
    directory.mkdir(parents=True, exist_ok=True)
    (repository / ".git").mkdir(exist_ok=True)
    (repository / "action.yml").write_text(action or (ROOT / "action.yml").read_text())
    (directory / "forewarn.yaml").write_text(workflow)
    command = [str(binaries(VALIDATORS) / "actionlint"), "-shellcheck=", "-pyflakes=", "-no-color"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=60)


def test_actionlint_takes_the_workflow_and_the_action(tmp_path: Path) -> None:
    text = (ROOT / "docs/guides/lint-in-ci.md").read_text()
    found = re.search(r"^## GitHub Actions\n\n.*?\n\n```yaml\n(.*?)```$", text, re.MULTILINE | re.DOTALL)
    assert found
    workflow = found[1]
    own = re.sub(r"uses: OWNER/REPOSITORY@\S+", "uses: ./", workflow)
    assert own != workflow
    for each in (workflow, own):
        done = _actionlint(tmp_path, each)
        assert (done.returncode, done.stdout) == (0, "")
    rejected = _actionlint(tmp_path, own.replace("args:", "arguments:"))
    assert (rejected.returncode, 'input "arguments" is not defined in action' in rejected.stdout) == (1, True)
    rejected = _actionlint(
        tmp_path, own, (ROOT / "action.yml").read_text().replace("using: composite", "using: composit")
    )
    assert (rejected.returncode, '"composit"' in rejected.stdout) == (1, True)
