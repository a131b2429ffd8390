"""`make run` for the first time: pip's minutes are not silent, and what it complains of is seen."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def installing(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / ".build"))
    return import_module("installing")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "    7 s, 0 packages looked at, asking the index"),
        (["Collecting numpy==2.3.5 (from x)"], "    7 s, 1 packages looked at, now numpy"),
        (
            ["Collecting numpy>=2", "  Downloading numpy-2.3.5-cp313-cp313-linux_x86_64.whl (16 MB)"],
            "    7 s, 1 packages looked at, now fetching numpy",
        ),
        (
            ["Collecting a", "Collecting b", "Installing collected packages: a, b"],
            "    7 s, 2 packages looked at, now writing 2 of them into place",
        ),
    ],
)
def test_a_line_says_how_far_it_is(installing: Any, lines: list[str], said: str) -> None:
    progress = installing.Progress()
    for line in lines:
        progress.take(f"{line}\n")
    assert progress.line(7.2) == said


def test_what_pip_complains_of_is_shown_with_its_status(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / ".build/installing.py"), "--no-index", "--target", str(tmp_path), "no-such-x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 1
    assert "No matching distribution found for no-such-x" in done.stderr


def test_make_help_lists_every_target_in_one_group_and_six_first() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], capture_output=True, text=True, check=True, timeout=60
    )
    first, *groups = done.stdout.split(":\n")
    lines = [line for line in done.stdout.splitlines() if line.startswith("  make ")]
    targets = re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(line.split()[1] for line in lines) == sorted(targets)
    assert (first, groups[0].count("  make ")) == ("Start here", 6)


def test_what_goes_well_needs_no_word(tmp_path: Path) -> None:
    empty = tmp_path / "requirements.txt"
    empty.write_text("# nothing\n")
    command = [sys.executable, str(ROOT / ".build/installing.py"), "--no-index", "--dry-run", "-r", str(empty)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_wait_is_not_silent(
    installing: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installing, "EVERY", 0.01)
    assert installing.main(["--help"]) == 0
    told = capsys.readouterr().err
    assert " s, 0 packages looked at, " in told
    assert told.count("\n") == 1


def test_only_news_are_printed(installing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The first `make run` fits on a screen."""
    shown, progress = installing.Shown(), installing.Progress()
    for seconds in range(0, 60, 5):
        shown.show(progress, float(seconds))
    progress.take("Collecting a\n")
    shown.show(progress, 60.0)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["0", "30", "60"]
