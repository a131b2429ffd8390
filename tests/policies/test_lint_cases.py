"""Files in, report out: `x.yaml` or `x.json` against `x.out`, with `x.cluster.yaml` and `x.config.yaml`.

`UPDATE=1` rewrites what is expected.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.in_process import forewarn

CASES = Path(__file__).parent / "cases" / "lint"
INPUTS = sorted(
    p for p in CASES.iterdir() if p.suffix in (".yaml", ".json") and not p.stem.endswith((".cluster", ".config"))
)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_the_report_on_a_file_is_as_recorded(path: Path, tmp_path: Path) -> None:
    cluster = path.with_name(f"{path.stem}.cluster.yaml")
    command = ["lint", "-v", path.name]
    if cluster.exists():
        command += ["--cluster", cluster.name]
    config = path.with_name(f"{path.stem}.config.yaml")
    if config.exists():
        command += ["--config", config.name]
    for file in CASES.glob(f"{path.stem}.*"):
        shutil.copy(file, tmp_path)  # findings about files below `tests` may be notes
    done = forewarn(*command, cwd=tmp_path)
    report = f"{done.stderr}{done.stdout}exit status {done.returncode}\n"
    expected = path.with_suffix(".out")
    if os.environ.get("UPDATE"):
        expected.write_text(report)
    assert report == expected.read_text()
