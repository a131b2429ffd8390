"""git runs no program that a repository, its work tree or a variable names, and reads nothing elsewhere."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.inputs.sources.revisions import open_repository
from forewarn.policies.questions.versions import versions

if TYPE_CHECKING:
    from collections.abc import Mapping

GIT = shutil.which("git") or ""
WHO = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "test"), ("EMAIL", ""))
}
PLAIN = {"PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", **WHO}
OLD, NEW = "kind: Pod\n", "kind: Node\n"


def git(directory: Path, *arguments: str, check: bool = True, given: str = "", **variables: str) -> str:
    """The output of git as it is, for a repository and home directory of a test."""
    command = (GIT, "-c", "init.defaultBranch=main", *arguments)
    environment = {**PLAIN, "HOME": str(directory.parent), **variables}
    done = subprocess.run(
        command, cwd=directory, env=environment, input=given, capture_output=True, text=True, check=check, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with two commits, in which the working directory is."""
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    git(tree, "init", "-q")
    (tree / ".gitattributes").write_text("*.yaml filter=x diff=x merge=x\n")
    for text in (OLD, NEW):
        (tree / "a.yaml").write_text(text)
        git(tree, "add", ".")
        git(tree, "commit", "-q", "-m", "change")
    monkeypatch.chdir(tree)
    return tree


def compared(base: str = "HEAD~1", head: str = "") -> tuple[str, list[str]]:
    """The base's file, and the names of changed files."""
    with versions.versions(base, head) as pair:
        return (Path(pair.base.root) / "a.yaml").read_text(), list(pair.changed)


SETTINGS = {
    "file system monitor": ("status", {"core.fsmonitor": "{run}"}),
    "clean filter": ("diff", {"filter.x.clean": "{run}"}),
    "filter process": ("diff", {"filter.x.process": "{run}"}),
    "external diff": ("diff HEAD~1", {"diff.external": "{run}"}),
    "diff driver": ("diff HEAD~1", {"diff.x.command": "{run}"}),
    "text conversion": ("diff HEAD~1", {"diff.x.textconv": "{run}"}),
    "hooks": ("update-index --refresh --force-write-index", {"core.hooksPath": "{hooks}"}),
    "ssh": ("cat-file -p {missing}", {"core.sshCommand": "{run}", "remote.origin.url": "ssh://localhost/x"}),
    "remote helper": (
        "cat-file -p {missing}",
        {"protocol.ext.allow": "always", "remote.origin.url": "ext::{run}"},
    ),
    "uploading program": (
        "cat-file -p {missing}",
        {"remote.origin.uploadpack": "{run}", "remote.origin.url": "{tree}"},
    ),
    "signatures": ("log --show-signature", {"gpg.program": "{run}"}),
    "editor": ("commit --amend", {"core.editor": "{run}"}),
    "included file": ("status", {"include.path": "{included}"}),
}
"""A command of git that runs a program, and the settings for it."""
PROMISOR = {"core.repositoryformatversion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true"}
SIGNED = (
    "tree {tree}\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n\nx\n"
)


def prepared(tree: Path, settings: Mapping[str, str], command: str, config: Path) -> tuple[list[str], Path]:
    """Write settings whose programs leave a mark; return the command of git that runs them, and the mark."""
    mark, script, included = (tree.parent / name for name in ("mark", "script", "included"))
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o700)
    (tree.parent / "hooks").mkdir()
    (tree.parent / "hooks" / "post-index-change").symlink_to(script)
    included.write_text(f"[core]\n\tfsmonitor = {script}\n")
    os.utime(tree / "a.yaml", (1, 1))  # so that git compares the content
    names = {"run": script, "hooks": tree.parent / "hooks", "included": included}
    for key, value in (PROMISOR | dict(settings) if "{missing}" in command else settings).items():
        git(tree, "config", "--file", str(config), key, value.format(**names, tree=tree))
    if "signature" in command:
        commit = SIGNED.format(tree=git(tree, "write-tree"))
        signed = git(tree, "hash-object", "-t", "commit", "-w", "--stdin", given=commit)
        command += f" {signed}"
    return command.replace("{missing}", "1" * 40).split(), mark


@pytest.mark.parametrize("where", [".git/config", "../.gitconfig"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_runs_a_program(tree: Path, setting: str, where: str) -> None:
    command, settings = SETTINGS[setting]
    words, mark = prepared(tree, settings, command, tree / where)
    if where == ".git/config" or "{missing}" not in command:  # only a repository says that objects are elsewhere
        git(tree, *words, check=False)
        assert mark.exists(), "git itself runs the program"
        mark.unlink()
    assert compared() == (OLD, ["a.yaml"])
    assert compared("HEAD~1", "HEAD") == (OLD, ["a.yaml"])
    assert not mark.exists()


VARIABLES = {
    "GIT_EXTERNAL_DIFF": "touch {mark}",
    "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=touch {mark}'",
    "GIT_TRACE": "{mark}",
    "GIT_TRACE2_EVENT": "{mark}",
    "GIT_SSH_COMMAND": "touch {mark}",
    "GIT_EXEC_PATH": "{tree}",
    "GIT_DIR": "{tree}/no-repository",
    "GIT_INDEX_FILE": "{mark}",
    "GIT_OBJECT_DIRECTORY": "{tree}",
    "GIT_NAMESPACE": "x",
    "GIT_REPLACE_REF_BASE": "refs/x",
}


@pytest.mark.parametrize("name", VARIABLES)
def test_no_variable_changes_what_git_does(tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mark = tree.parent / "mark"
    monkeypatch.setenv(name, VARIABLES[name].format(mark=mark, tree=tree))
    assert compared() == (OLD, ["a.yaml"])
    assert not mark.exists()


def test_git_gets_no_token(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, seen = tree.parent / "bin", tree.parent / "seen"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\nenv >> {seen}\nexec {GIT} "$@"\n')
    (programs / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "GIT_ASKPASS", "KUBECONFIG", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "secret")
    compared()
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()} - {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names == {
        "PATH", "HOME", "LC_ALL", "GIT_DIR", "GIT_ALLOW_PROTOCOL", "GIT_ATTR_NOSYSTEM", "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM", "GIT_NO_LAZY_FETCH", "GIT_NO_REPLACE_OBJECTS", "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
    }  # fmt: skip
    assert "secret" not in seen.read_text()


def embed(directory: Path, mark: Path) -> None:
    """Write a bare repository of plain files, with a program that git runs."""
    git(directory, "init", "-q", "--bare", "bare")
    git(directory / "bare", "config", "core.bare", "false")
    git(directory / "bare", "config", "core.worktree", ".")
    git(directory / "bare", "config", "core.fsmonitor", f"touch {mark}; false")
    shutil.copytree(directory / "bare", directory, dirs_exist_ok=True)
    shutil.rmtree(directory / "bare")


@pytest.mark.parametrize("place", ["", "deploy"])
def test_plain_files_are_no_repository(tree: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    mark = tree.parent / "mark"
    (tree / "deploy").mkdir()
    embed(tree / place, mark)
    monkeypatch.chdir(tree / place)
    if place:
        git(tree / place, "status", check=False)
        assert mark.exists(), "git itself runs the program"
        mark.unlink()
    assert compared()[0] == OLD
    assert not mark.exists()


def test_a_submodule_runs_nothing(tree: Path) -> None:
    mark = tree.parent / "mark"
    git(tree, "init", "-q", "sub")
    (tree / "sub" / "x").write_text("")
    git(tree / "sub", "add", ".")
    git(tree / "sub", "commit", "-q", "-m", "one")
    git(tree, "add", "sub")
    git(tree, "commit", "-q", "-m", "sub")
    git(tree / "sub", "config", "core.fsmonitor", f"touch {mark}")
    git(tree, "diff")
    assert mark.exists(), "git itself runs the program"
    mark.unlink()
    assert compared() == (NEW, [])
    assert not mark.exists()


def test_objects_and_parents_are_the_real_ones(tree: Path) -> None:
    """`git replace` and grafts change what a commit contains, and its parents."""
    other = git(tree, "commit-tree", "-m", "other", git(tree, "rev-parse", "HEAD^{tree}"))
    git(tree, "replace", "HEAD~1", other)
    (tree / ".git/info/grafts").write_text(f"{git(tree, 'rev-parse', 'HEAD')} {other}\n")
    assert git(tree, "show", "HEAD~1:a.yaml") == NEW.strip()
    assert compared() == (OLD, ["a.yaml"])


@pytest.mark.parametrize("way", ["alternates", "link"])
def test_objects_elsewhere_need_the_consent_of_the_user(tree: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    shared = tree.parent / "shared"
    git(tree, "clone", "-q", "--shared", str(tree), str(shared))
    if way == "link":
        shutil.rmtree(shared / ".git/objects")
        (shared / ".git/objects").symlink_to(tree / ".git/objects")
    monkeypatch.chdir(shared)
    with pytest.raises(SourceError) as raised:
        compared()
    advice = f"GIT_ALTERNATE_OBJECT_DIRECTORIES={shlex.quote(f'{tree}/.git/objects')}"
    assert str(raised.value) == (
        f"git: the clone has its objects in another directory. Fix: set {advice} if you trust this clone"
    )
    monkeypatch.setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", f"{tree}/.git/objects")
    assert compared() == (OLD, ["a.yaml"])


@pytest.mark.parametrize(
    "kind", ["linked work tree", "shallow", "packed", "sha256", "detached", "submodule", "bare parent"]
)
def test_other_repositories_are_read(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    place, base = tmp_path / "other", "HEAD~1"
    if kind == "linked work tree":
        git(tree, "worktree", "add", "-q", "--detach", str(place), "HEAD")
        git(tree, "commit", "-q", "--allow-empty", "-m", "HEAD of the main work tree")
    elif kind == "shallow":
        git(tree, "commit", "-q", "--allow-empty", "-m", "three")
        git(tree, "clone", "-q", "--depth=2", f"file://{tree}", str(place))
        monkeypatch.chdir(place)
        with pytest.raises(SourceError, match='no revision "HEAD~2"'):
            compared("HEAD~2")
        assert compared("HEAD~1") == (NEW, [])
        return
    elif kind == "packed":
        git(tree, "tag", "-m", "tag", "before", "HEAD~1")
        git(tree, "gc", "-q")
        place, base = tree, "before"
    elif kind == "sha256":
        git(tmp_path, "init", "-q", "--object-format=sha256", "other")
        for text in (OLD, NEW):
            (place / "a.yaml").write_text(text)
            git(place, "add", ".")
            git(place, "commit", "-q", "-m", "change")
    elif kind == "submodule":
        git(tree, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tree), "sub")
        place = tree / "sub"
    else:
        git(tree, "checkout", "-q", "--detach", "HEAD")
        place = tree
    monkeypatch.chdir(place)
    assert compared(base) == (OLD, ["a.yaml"])


@pytest.mark.parametrize("name", ["HEAD", "packed-refs", "shallow", "config", "objects/info/alternates", "logs"])
def test_git_waits_for_no_pipe(tree: Path, name: str) -> None:
    path = tree / ".git" / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    if name == "HEAD":
        with pytest.raises(SourceError, match="not in a clone"):
            compared("main")
    else:
        assert compared() == (OLD, ["a.yaml"])


def test_new_files_count_unless_git_ignores_them(tree: Path) -> None:
    (tree / ".gitignore").write_text("secret.yaml\nbuilt/\n")
    for name in ("secret.yaml", "new.yaml", "built/x.yaml", "built/tracked.yaml", "other/.git/config", "other/x.yaml"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    git(tree, "add", "-f", "built/tracked.yaml")
    (tree / "link").symlink_to("built")
    (tree / ".gitattributes").unlink()
    assert sorted(compared("HEAD")[1]) == [".gitattributes", ".gitignore", "built/tracked.yaml", "link", "new.yaml"]


def calls(path: Path, names: set[str]) -> set[str]:
    """The calls of these functions in a module."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {name for node in nodes if (name := getattr(node.func, "attr", getattr(node.func, "id", ""))) in names}


STARTS = {
    "Popen", "check_call", "check_output", "getoutput", "getstatusoutput", "system", "popen", "startfile",
    "create_subprocess_exec", "create_subprocess_shell", "posix_spawn", "posix_spawnp",
    *(f"{family}{form}" for family in ("exec", "spawn") for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
}  # fmt: skip


def test_one_function_starts_programs_and_one_starts_git() -> None:
    modules = {path: path.read_text() for path in Path("policies").rglob("*.py")}
    assert {str(path) for path, text in modules.items() if "subprocess" in text} == {
        "policies/inputs/sources/programs.py"
    }
    starting = {str(path): found for path in modules if (found := calls(path, STARTS))}
    assert starting == {
        "policies/inputs/sources/programs.py": {"Popen"},
        "policies/questions/versions/tools.py": {"execve"},
    }
    running = {str(path) for path in modules if calls(path, {"run_program"})}
    assert running == {
        "policies/inputs/sources/programs.py",
        "policies/questions/versions/tools.py",
        "policies/inputs/sources/revisions.py",
    }
    for path in Path("webhook").rglob("*.py"):
        assert not calls(path, {"run_program", "open_repository", "find_program"}), path
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and node.value in ("git", GIT)), path


def test_git_only_reads_objects() -> None:
    tree = ast.parse(Path("policies/inputs/sources/revisions.py").read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    words = {
        ast.literal_eval(node.args[0])
        for node in nodes
        if ast.unparse(node.func) in ("self._run", "self._asked") and isinstance(node.args[0], ast.Constant)
    }
    assert words == {"rev-parse", "merge-base", "ls-tree", "cat-file"}
    assert sum(ast.unparse(node.func) == "run_program" for node in nodes) == 1


def test_a_listing_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of ten trees of ten trees: 10 billion files that git stores in 11 objects."""
    blob = git(tree, "hash-object", "-w", "--stdin", given="x")
    entry = f"100644 blob {blob}"
    for _ in range(10):
        listing = "".join(f"{entry}\t{name}\n" for name in range(10))
        entry = f"040000 tree {git(tree, 'mktree', given=listing)}"
    commit = git(tree, "commit-tree", entry.rpartition(" ")[2], "-m", "bomb")
    monkeypatch.setattr("forewarn.policies.inputs.sources.programs.MAX", 1 << 20)
    with (
        open_repository(str(tree), GIT, os.environ["PATH"]) as repository,
        pytest.raises(SourceError, match="git: ls-tree prints more than 1 MiB"),
    ):
        repository.write(commit, str(tree.parent / "out"))


def test_no_directory_is_made_through_a_link_of_the_commit(tree: Path, tmp_path: Path) -> None:
    """A tree with a link and a directory of one name, which git itself does not write."""
    outside = tmp_path / "outside"
    outside.mkdir()
    blob = git(tree, "hash-object", "-w", "--stdin", given=OLD)
    link = git(tree, "hash-object", "-w", "--stdin", given=str(outside))
    inner = git(tree, "mktree", given=f"100644 blob {blob}\tf.yaml\n")
    middle = git(tree, "mktree", given=f"040000 tree {inner}\tmade\n")
    entries = {b"120000 a": link, b"100644 a.yaml": blob, b"40000 a": middle}
    raw = b"".join(name + b"\0" + bytes.fromhex(found) for name, found in entries.items())
    (tmp_path / "raw").write_bytes(raw)
    root = git(tree, "hash-object", "-w", "--literally", "-t", "tree", str(tmp_path / "raw"))
    commit = git(tree, "commit-tree", "-m", "hostile", root)
    compared(commit, "HEAD")
    assert list(outside.iterdir()) == []
