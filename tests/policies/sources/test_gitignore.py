"""What .gitignore leaves out is what git leaves out."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.files import find_files
from forewarn.policies.inputs.sources.git import Ignores, tracked_names

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
@pytest.mark.parametrize("inner", ["", "!b.yaml\ndeep", "*.yaml"])
def test_as_git(tmp_path: Path, inner: str) -> None:
    tree(tmp_path, "", inner)
    git(tmp_path, "init", "-q")
    for ignores in IGNORES:
        (tmp_path / ".gitignore").write_text(ignores)
        listed = git(tmp_path, "ls-files", "-z", "--others", "--exclude-standard")
        expected = {name for name in listed.split("\0") if name.endswith(".yaml")}
        assert found_in(tmp_path) == expected, ignores
        below = {f"sub/{name}" for name in found_in(tmp_path / "sub")}
        expected_below = {name for name in expected if name.startswith("sub/")}
        assert below == expected_below or {"sub", "/*"} & {ignores[:2], ignores[:3]}, ignores


def git(directory: Path, *arguments: str) -> str:
    told = ["-c", "core.excludesFile=/dev/null", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    told += ["-c", "protocol.file.allow=always"]
    command = ["git", "-C", str(directory), *told, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=500).stdout


def found_in(directory: Path) -> set[str]:
    return {os.path.relpath(file.path, directory) for file in find_files([str(directory)], as_git=True)}


needs_git = pytest.mark.skipif(not shutil.which("git"), reason="no git")


@needs_git
@pytest.mark.parametrize("init", [["--object-format=sha1"], ["--object-format=sha256"]], ids=["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("tracked", [["."], ["x", "keep.yaml"], ["build/a.yaml", "sub/deep/b.yaml", "foo/bar"]])
def test_what_git_tracks_is_read_whatever_gitignore_says(
    tmp_path: Path, init: list[str], version: str, tracked: list[str]
) -> None:
    tree(tmp_path, "")
    git(tmp_path, "init", "-q", *init)
    git(tmp_path, "add", "--force", *tracked)
    git(tmp_path, "update-index", "--index-version", version)
    for ignores in IGNORES:
        (tmp_path / ".gitignore").write_text(ignores)
        listed = git(tmp_path, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        assert found_in(tmp_path) == {name for name in listed.split("\0") if name.endswith(".yaml")}, ignores
        below = {name for name in listed.split("\0") if name.startswith("sub/") and name.endswith(".yaml")}
        assert {f"sub/{name}" for name in found_in(tmp_path / "sub")} >= below, ignores


@needs_git
def test_a_hostile_gitignore_hides_no_tracked_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/class.yaml").write_text("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n")
    (tmp_path / "deploy/untracked.yaml").write_text("{}")
    (tmp_path / ".gitignore").write_text("*\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--force", "deploy/class.yaml")
    assert main(["lint", str(tmp_path)]) == 1
    assert ": 1 file, 1 object checked, left out: file or directory ignored by git (1)" in capsys.readouterr().err


@needs_git
def test_linked_work_trees_submodules_and_intended_files_have_their_own_index(tmp_path: Path) -> None:
    main_tree, inner = tmp_path / "main", tmp_path / "inner"
    for directory in (main_tree, inner):
        tree(directory, "*.yaml\nsub/")
        git(directory, "init", "-q")
        git(directory, "add", "--force", "a.yaml", "sub/b.yaml")
        git(directory, "add", "--force", "--intent-to-add", "foo/a.yaml")
        git(directory, "commit", "-qm", "a")
    git(main_tree, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(main_tree, "submodule", "--quiet", "add", "--force", str(inner), "sub/inner")
    assert found_in(tmp_path / "linked") == {"a.yaml", "sub/b.yaml"}
    own = {"a.yaml", "sub/b.yaml", "foo/a.yaml"}
    assert found_in(main_tree) == own | {"sub/inner/a.yaml", "sub/inner/sub/b.yaml"}


@needs_git
def test_an_index_that_is_in_several_parts_is_not_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path, "x")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--force", ".")
    git(tmp_path, "update-index", "--split-index")
    main(["lint", str(tmp_path), "--allow-empty"])
    assert (
        "left out: file or directory that .gitignore names (git's index is unreadable) (1)" in capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "device", "text", "gitdir of no directory"])
def test_an_index_that_is_none_is_not_believed(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path, "x")
    index = tmp_path / ".git/index"
    if kind == "gitdir of no directory":
        (tmp_path / ".git").write_text("gitdir: /dev/null\0\n")
    else:
        index.parent.mkdir()
        if kind == "pipe":
            os.mkfifo(index)
        elif kind == "directory":
            index.mkdir()
        elif kind == "text":
            index.write_text("x")
        else:
            index.symlink_to("/dev/zero" if kind == "device" else "../a.yaml")
    main(["lint", str(tmp_path), "--allow-empty"])
    assert (
        "left out: file or directory that .gitignore names (git's index is unreadable) (1)" in capsys.readouterr().err
    )


def entry(name: bytes, version: int, kept: int = 0, before: bytes = b"") -> bytes:
    """As git writes it, with zeros for what is not looked at."""
    head = bytes(60) + min(len(name), 0xFFF).to_bytes(2, "big")
    if version < 4:
        return head + name + bytes(8 - (62 + len(name)) % 8)
    assert len(before) - kept < 0x80
    return head + bytes([len(before) - kept]) + name[kept:] + b"\0"


def index_of(names: list[bytes], version: int) -> bytes:
    before, parts = b"", [b"DIRC", version.to_bytes(4, "big"), len(names).to_bytes(4, "big")]
    for name in names:
        kept = next(
            (at for at, (a, b) in enumerate(zip(before, name, strict=False)) if a != b), min(len(before), len(name))
        )
        parts.append(entry(name, version, kept, before))
        before = name
    return b"".join([*parts, bytes(20)])


NAMES = st.lists(st.binary(min_size=1, max_size=90).filter(lambda name: b"\0" not in name), max_size=8, unique=True)


@given(names=NAMES, version=st.sampled_from([2, 3, 4]), data=st.data())
def test_an_index_says_its_names_and_a_damaged_one_none_or_some(
    names: list[bytes], version: int, data: st.DataObject
) -> None:
    index = bytearray(index_of(sorted(names), version))
    assert tracked_names(bytes(index)) == sorted(names)
    for _ in range(data.draw(st.integers(1, 3))):
        index[data.draw(st.integers(0, len(index) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(index)))
    found = tracked_names(bytes(index[:end]))
    assert found is None or found == sorted(found)


def test_an_index_that_unpacks_to_very_much_is_refused() -> None:
    """In version 4 each name may go on where the one before ends: n entries may stand for n² bytes."""
    size = 10_000
    head = b"DIRC" + (4).to_bytes(4, "big") + size.to_bytes(4, "big")
    parts, length = [head], 0
    for _ in range(size):
        length += 60
        parts.append(bytes(60) + min(length, 0xFFF).to_bytes(2, "big") + b"\0" + b"a" * 60 + b"\0")
    assert tracked_names(b"".join([*parts, bytes(20)])) is None
    assert tracked_names(b"DIRC" + (2).to_bytes(4, "big") + b"\xff\xff\xff\xff" + bytes(1000)) is None


def test_outside_of_a_work_tree_nothing_is_ignored(tmp_path: Path) -> None:
    tree(tmp_path, "*.yaml")
    assert Ignores.load_inherited(str(tmp_path), {}) is None
    assert len(list(find_files([str(tmp_path)], as_git=True))) == len(FILES)


def test_what_is_ignored_is_counted_and_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path, "build/\nx")
    (tmp_path / ".git").mkdir()
    main(["lint", str(tmp_path), "--allow-empty"])
    assert "left out: file or directory ignored by git (3)" in capsys.readouterr().err
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
    assert (
        not Ignores.from_directory(str(tmp_path))
        .extended_by(str(tmp_path))
        .ignore(str(tmp_path / "a.yaml"), is_directory=False)
    )
    assert len(os.listdir("/proc/self/fd")) == before
