"""--fix mends what is safe, and nothing else: every byte beside it stays."""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.findings import NO_OBJECT, Action, Finding, Location, Severity, Text
from forewarn.policies.cli.main import main
from forewarn.policies.linting.lint.fixes import applied, edits_of

if TYPE_CHECKING:
    from pathlib import Path

GOLD = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 10\n"
SILVER = GOLD.replace("gold", "silver")
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\nspec:\n"


def fix(path: Path, text: str | bytes, *flags: str) -> bytes:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    main(["lint", str(path), "--fix", "-q", *flags])
    return path.read_bytes()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("  priorityClassName: glod", "  priorityClassName: gold", id="a slip"),
        pytest.param("  priorityClassName:   'glod'  # why", "  priorityClassName:   'gold'  # why", id="quotes"),
        pytest.param('  priorityClassName: "glod"\r', '  priorityClassName: "gold"\r', id="CRLF"),
        pytest.param("  priorityClassName: system-node-criticl", "  priorityClassName: system-node-critical",
                     id="system"),
        pytest.param("  priorityClassName: bronze", "  priorityClassName: bronze", id="no slip"),
        pytest.param("  priority: 7\n  priorityClassName: gold", "  priorityClassName: gold", id="pinned"),
        pytest.param("  # ä 😀\n  priorityClassName: gold\n\n  priority: 7 # x",
                     "  # ä 😀\n  priorityClassName: gold\n", id="last"),
        pytest.param("  {priority: 7, hostname: gold}", "  {priority: 7, hostname: gold}", id="in braces"),
        pytest.param("  priority: 7", "  priority: 7", id="nothing else in it"),
        pytest.param("  priorityClass: gold", "  priorityClass: gold", id="a field is not renamed"),
        pytest.param("  priorityClassName: &a glod", "  priorityClassName: &a gold", id="an anchor"),
        pytest.param("  priorityClassName: >-\n    glod", "  priorityClassName: >-\n    glod", id="a block"),
    ],
)  # fmt: skip
def test_what_is_safe_is_mended(tmp_path: Path, before: str, after: str) -> None:
    head = f"{GOLD}---\n{SILVER}---\n{POD}"
    assert fix(tmp_path / "a.yaml", f"{head}{before}\n").decode() == f"{head}{after}\n"


def test_two_classes_that_are_near_are_left_to_the_author(tmp_path: Path) -> None:
    text = f"{GOLD}---\n{GOLD.replace('gold', 'gola')}---\n{POD}  priorityClassName: golx\n"
    assert fix(tmp_path / "a.yaml", text).decode() == text


def test_a_name_with_another_word_is_not_a_misspelt_one(tmp_path: Path) -> None:
    text = f"{GOLD.replace('gold', 'customer-web')}---\n{POD}  priorityClassName: customer-app\n"
    assert fix(tmp_path / "a.yaml", text).decode() == text


def test_of_several_defaults_one_stays(tmp_path: Path) -> None:
    text = "---\n".join(f"{GOLD.replace('gold', name)}globalDefault: true\n" for name in ("a1", "b2", "c3"))
    found = fix(tmp_path / "a.yaml", text).decode()
    assert found.count("globalDefault: true") == 1
    assert found.count("globalDefault: false") == 2


def test_marks_modes_and_strange_encodings_stay(tmp_path: Path) -> None:
    path, text = tmp_path / "a.yaml", f"{GOLD}---\n{POD}  priorityClassName: glod"
    path.touch(0o640)
    mode = path.stat().st_mode
    assert fix(path, codecs.BOM_UTF8 + text.encode()) == codecs.BOM_UTF8 + text.replace("glod", "gold").encode()
    assert path.stat().st_mode == mode
    for strange in (text.encode("utf-16"), text.encode() + b"\n# \xff"):
        assert fix(path, strange) == strange
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_a_file_that_may_not_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", reject)
    text = f"{GOLD}---\n{POD}  priorityClassName: glod\n"
    assert fix(tmp_path / "a.yaml", text).decode() == text
    assert "permission denied" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_diff_shows_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"{GOLD}---\n{POD}  priorityClassName: glod")
    assert main(["lint", str(path), "--diff"]) == 1
    lines = capsys.readouterr().out.splitlines()
    changes = [line for line in lines if line.startswith(("-", "+")) and line[:3] not in ("---", "+++")]
    assert changes == ["-  priorityClassName: glod", "+  priorityClassName: gold"]
    assert "glod" in path.read_text()
    fix(path, path.read_text())
    assert main(["lint", str(path), "--diff"]) == 0


@given(st.binary(max_size=60), st.integers(-1, 9), st.integers(0, 80), st.integers(0, 80))
def test_no_text_and_no_place_is_too_strange(data: bytes, line: int, column: int, end: int) -> None:
    for rule, path in (("unknown-priority-class", "x"), ("pinned-priority", "spec.priority"), ("unknown-field", "x")):
        where, detail = Location("f", line, column, end), {"class": "gold", "meant": "x"}
        finding = Finding(where, Severity.ERROR, rule, NO_OBJECT, Text("m"), Action.WARN, path, detail)
        assert isinstance(applied(data, [edit for _, edit in edits_of([finding], data, ("gold",))]), bytes)
    assert applied(data, ()) == data
