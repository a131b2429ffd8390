"""Files of a git revision: exactly what git has, bounded, and nothing outside of the directory; no program runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.sources import revisions
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.inputs.sources.revisions import Repository, open_repository

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

IDENTITY = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "test"), ("EMAIL", ""))
}


def git(directory: Path, *arguments: str, given: str = "") -> str:
    variables = {**os.environ, **IDENTITY}
    command = ("git", "-c", "init.defaultBranch=main", *arguments)
    done = subprocess.run(
        command, cwd=directory, env=variables, input=given, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def opened(directory: Path) -> AbstractContextManager[Repository]:
    return open_repository(str(directory), shutil.which("git") or "", os.environ["PATH"])


@pytest.fixture
def work_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "-q")
    (tree / "a b").mkdir()
    (tree / "a b" / "ü.yaml").write_text("kind: Pod\n")
    (tree / "link").symlink_to("a b/ü.yaml")
    (tree / ".gitattributes").write_text("* export-ignore\n")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "one")
    return tree


def written(work_tree: Path, revision: str, directory: Path) -> dict[str, str]:
    directory.mkdir()
    with opened(work_tree) as repository:
        repository.write(repository.commit(revision), str(directory))
    paths = [path for path in directory.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(directory)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in paths
    }


def test_a_revision_has_its_files_whatever_its_attributes_say(work_tree: Path, tmp_path: Path) -> None:
    (work_tree / "later.yaml").write_text("kind: Node\n")
    found = written(work_tree, "HEAD", tmp_path / "out")
    assert found == {"a b/ü.yaml": "kind: Pod\n", "link": "a b/ü.yaml", ".gitattributes": "* export-ignore\n"}


def test_what_differs_between_two_commits(work_tree: Path) -> None:
    (work_tree / "new.yaml").write_text("")
    (work_tree / ".gitattributes").write_text("")
    (work_tree / "link").unlink()
    git(work_tree, "add", ".")
    git(work_tree, "commit", "-q", "-m", "two")
    with opened(work_tree) as repository:
        changed = repository.changed(repository.commit("HEAD~1"), repository.commit("HEAD"))
    assert changed == [".gitattributes", "link", "new.yaml"]


def test_the_merge_base_is_the_newest_common_commit_with_the_main_branch(work_tree: Path) -> None:
    first = git(work_tree, "rev-parse", "HEAD")
    git(work_tree, "checkout", "-q", "-b", "change")
    git(work_tree, "commit", "-q", "--allow-empty", "-m", "two")
    with opened(work_tree) as repository:
        assert repository.merge_base() == first


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD:link", "a\0b", ""])
def test_what_is_no_revision_is_an_error_that_names_it(work_tree: Path, revision: str) -> None:
    with opened(work_tree) as repository, pytest.raises(SourceError, match=r"no revision|null byte"):
        repository.commit(revision)


def test_a_directory_without_git_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"not in a clone\. Fix: run forewarn in a clone"), opened(tmp_path):
        pass


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_names_that_leave_the_directory_are_not_written(work_tree: Path, tmp_path: Path, name: str) -> None:
    blob = git(work_tree, "hash-object", "-w", "--stdin", given="hooks\n")
    inner = git(work_tree, "mktree", given=f"100644 blob {blob}\tconfig\n")
    tree = git(work_tree, "mktree", given=f"040000 tree {inner}\t{name}\n100644 blob {blob}\tfine\n")
    commit = git(work_tree, "commit-tree", tree, "-m", "hostile")
    assert written(work_tree, commit, tmp_path / "out") == {"fine": "hooks\n"}
    assert sorted(os.listdir(tmp_path)) == ["out", "tree"]


def test_nothing_is_written_through_a_link_of_the_tree(work_tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = git(work_tree, "hash-object", "-w", "--stdin", given=str(outside))
    inner = git(work_tree, "mktree", given=f"100644 blob {target}\tfile\n")
    tree = git(work_tree, "mktree", given=f"120000 blob {target}\tsame\n040000 tree {inner}\tsame\n")
    commit = git(work_tree, "commit-tree", tree, "-m", "link")
    assert git(work_tree, "ls-tree", "-r", "--name-only", commit).split() == ["same", "same/file"]
    written(work_tree, commit, tmp_path / "out")
    assert not list(outside.iterdir())


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 1), ("MAX_BYTES", 5)])
def test_a_tree_that_is_too_large_is_an_error(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(revisions, limit, value)
    with pytest.raises(SourceError, match="more than"):
        written(work_tree, "HEAD", tmp_path / "out")
