"""What .gitignore leaves out is what git leaves out."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from policies.cli import main
from policies.sources import find_files
from policies.sources.gitignore import Ignores

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "a.yaml", "b.yaml", "keep.yaml", "x/a.yaml", "x/keep.yaml", "x/y/a.yaml", "x/y/z/a.yaml", "build/a.yaml",
    "sub/build/a.yaml", "sub/b.yaml", "sub/deep/b.yaml", "#odd.yaml", "!odd.yaml", "sp ace.yaml", "foo/bar/a.yaml",
    "foo/a.yaml",
)  # fmt: skip
IGNORES = (
    "a.yaml",
    "/a.yaml",
    "*.yaml\n!keep.yaml",
    "build/",
    "/build/",
    "x/**",
    "x/**\n!x/keep.yaml",
    "**/y",
    "x/**/a.yaml",
    "foo/*",
    "foo/*\n!foo/bar",
    "\\#odd.yaml\n\\!odd.yaml",
    "sp\\ ace.yaml\nb.yaml   ",
    "# a comment\n\n[ab].yaml",
    "?.yaml",
    "sub/b.yaml",
    "**/deep/**",
    "x/*/a.yaml",
    "/*\n!/x",
    "!a.yaml",
)


def tree(directory: Path, ignores: str, inner: str = "") -> None:
    for name in FILES:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (directory / ".gitignore").write_text(ignores)
    if inner:
        (directory / "sub/.gitignore").write_text(inner)


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
@pytest.mark.parametrize("ignores", IGNORES)
@pytest.mark.parametrize("inner", ["", "!b.yaml\ndeep", "*.yaml"])
def test_as_git(tmp_path: Path, ignores: str, inner: str) -> None:
    tree(tmp_path, ignores, inner)
    git = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout
    expected = {name for name in listed.split("\0") if name.endswith(".yaml")}
    found = {os.path.relpath(file.path, tmp_path) for file in find_files([str(tmp_path)], as_git=True)}
    assert found == expected
    below = {os.path.relpath(file.path, tmp_path) for file in find_files([str(tmp_path / "sub")], as_git=True)}
    assert below == {name for name in expected if name.startswith("sub/")} or {"sub", "/*"} & {ignores[:2], ignores[:3]}


def test_outside_of_a_work_tree_nothing_is_ignored(tmp_path: Path) -> None:
    tree(tmp_path, "*.yaml")
    assert Ignores.above(str(tmp_path)) is None
    assert len(list(find_files([str(tmp_path)], as_git=True))) == len(FILES)


def test_what_is_ignored_is_counted_and_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path, "build/\nx")
    (tmp_path / ".git").mkdir()
    main(["lint", str(tmp_path), "--allow-empty"])
    assert "3 files or directories ignored by git left out" in capsys.readouterr().err
    main(["lint", str(tmp_path), "--allow-empty", "--no-gitignore"])
    assert "ignored" not in capsys.readouterr().err
    main(["lint", str(tmp_path / "build/a.yaml"), "--allow-empty"])
    assert "ignored" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_gitignore_that_is_no_file_is_none(tmp_path: Path, kind: str) -> None:
    """A pipe would be waited for without end, and git itself follows no link there."""
    tree(tmp_path, "")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").unlink()
    (tmp_path / "patterns").write_text("*.yaml\n")
    if kind == "pipe":
        os.mkfifo(tmp_path / ".gitignore")
    else:
        (tmp_path / ".gitignore").symlink_to("patterns")
    assert len(list(find_files([str(tmp_path)], as_git=True))) == len(FILES)


def test_hostile_patterns_take_no_time(tmp_path: Path) -> None:
    tree(
        tmp_path, "\n".join(["*a*a*a*a*a*a*a*a*a*b", "**/" * 500 + "q", "[", "[!", "\\", "/", "//", "!", "a" * 100_000])
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / ("a" * 250 + ".yaml")).write_text("{}")
    assert len(list(find_files([str(tmp_path)], as_git=True))) == len(FILES) + 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="where open files are counted")
def test_a_directory_of_its_name_is_no_file_and_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    assert not Ignores().within(str(tmp_path)).ignore(str(tmp_path / "a.yaml"), is_directory=False)
    assert len(os.listdir("/proc/self/fd")) == before
