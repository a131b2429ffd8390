"""The copies of charts for helm, and the program that kustomize runs as helm."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.policies.inputs.sources.programs import Outside, Trees
from forewarn.policies.questions.versions import tools as render_files
from forewarn.policies.questions.versions.tools import Stage, allowed, end_of, write_gate

REMOTE = b'{"properties": {"a": {"$ref": "https://example.com/x.json"}}}'
LOCAL = b'{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a"}'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a chart, and a secret beside the tree."""
    (tmp_path / "secret").write_text("s3cret")
    tree = tmp_path / "tree"
    (tree / "c/templates").mkdir(parents=True)
    (tree / "c/Chart.yaml").write_text("name: c\n")
    (tree / "c/templates/a.yaml").write_text("a: b\n")
    (tree / ".git").mkdir()
    (tree / ".git/config").write_text("token\n")
    return tree


def _staged(tree: Path, tmp_path: Path) -> dict[str, bytes]:
    """The files that helm sees of the chart, by path."""
    stage = tmp_path / "stage"
    stage.mkdir()
    copy = Path(Stage(Trees((str(tree),)), str(stage)).chart(str(tree / "c")))
    return {str(path.relative_to(copy)): path.read_bytes() for path in copy.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("c/env", "/proc/self/environ"),
        ("c/up", "../../secret"),
        ("c/Chart.lock", "/etc/passwd"),
        ("c/charts", "../.."),
        ("c/templates/b.yaml", "../../a-link"),
        ("c/git", "../.git"),
        ("c/config", "../.git/config"),
        ("c/.hidden", "."),
    ],
)
def test_charts_with_links_that_leave_the_tree_are_not_copied(
    tree: Path, tmp_path: Path, link: str, target: str
) -> None:
    (tree / "a-link").symlink_to("../secret")
    (tree / link).symlink_to(target)
    with pytest.raises(Outside) as raised:
        _staged(tree, tmp_path)
    loops = "link leads to a directory above it"
    assert str(raised.value) == f"{tree}/{link}: {loops if target == '.' else 'link leaves the checked directories'}"


def test_links_within_the_tree_become_files(tree: Path, tmp_path: Path) -> None:
    (tree / "common").mkdir()
    (tree / "common/_x.tpl").write_text("x")
    (tree / "c/templates/common").symlink_to("../../common")
    (tree / "c/.git").mkdir()
    (tree / "c/.git/config").write_text("token")
    assert _staged(tree, tmp_path) == {
        "Chart.yaml": b"name: c\n",
        "templates/a.yaml": b"a: b\n",
        "templates/common/_x.tpl": b"x",
    }


def test_charts_with_pipes_are_not_copied(tree: Path, tmp_path: Path) -> None:
    os.mkfifo(tree / "c/pipe")
    with pytest.raises(Outside, match="c/pipe: not a file or directory"):
        _staged(tree, tmp_path)


@pytest.mark.parametrize("last_first", [False, True])
def test_the_first_name_of_a_chart_is_copied_first(
    last_first: bool, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order the file system has."""
    for name in ("one", "two"):
        os.mkfifo(tree / "c" / name)
    scandir = os.scandir

    @contextmanager
    def in_order(path: str) -> Iterator[list[os.DirEntry[str]]]:
        yield sorted(scandir(path), key=lambda entry: entry.name, reverse=last_first)

    monkeypatch.setattr(os, "scandir", in_order)
    with pytest.raises(Outside, match="c/one: not a file or directory"):
        _staged(tree, tmp_path)


def test_the_size_of_charts_is_limited(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_files, "_MAX_BYTES", 1 << 20)
    (tree / "c/large").write_bytes(b"x" * (1 << 20))
    with pytest.raises(Outside, match="a chart with more than 20,000 files or 1 MiB"):
        _staged(tree, tmp_path)


def test_the_time_of_copies_is_limited(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_files, "_MAX_SECONDS", -1.0)
    with pytest.raises(Outside, match="copying the chart takes more than"):
        _staged(tree, tmp_path)


def _packed(files: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in others:
            archive.addfile(entry)
    return packed.getvalue()


def _unpacked(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {entry.name: stream.read() for entry in archive if (stream := archive.extractfile(entry))}


@pytest.mark.parametrize(
    ("schema", "stays"),
    [
        (LOCAL, True),
        (REMOTE, False),
        (b'{"$ref": "file:///etc/passwd"}', False),
        (b'{"$ref": "other.json"}', False),
        (b'{"\\u0024ref": "other.json", "$ref": "#"}', False),
        (b'{"allOf": [{"$dynamicRef": "http://127.0.0.1/x"}]}', False),
        (b'{"$schema": "http://127.0.0.1/x"}', False),
        (b'{"$id": "file:///etc/passwd#x", "$ref": "#/a"}', False),
        (b'{"id": "http://127.0.0.1/x#y", "$ref": "#/a"}', False),
        (b'{"$id": "https://example.com/x#", "$ref": "#/a"}', True),
        (b'{"properties": {"id": {"$ref": "#/a"}}}', True),
        (b"no JSON", False),
    ],
)
def test_schemas_that_refer_elsewhere_are_left_out(tree: Path, tmp_path: Path, schema: bytes, stays: bool) -> None:
    link = tarfile.TarInfo("d/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    inner = _packed({"e/Chart.yaml": b"name: e\n", "e/values.schema.json": schema})
    packed = _packed({"d/Chart.yaml": b"name: d\n", "d/values.schema.json": schema, "d/charts/e.tgz": inner}, link)
    (tree / "c/values.schema.json").write_bytes(schema)
    (tree / "c/charts").mkdir()
    (tree / "c/charts/d-1.tgz").write_bytes(packed)
    found = _staged(tree, tmp_path)
    assert ("values.schema.json" in found) == stays
    files = _unpacked(found["charts/d-1.tgz"])
    assert files.keys() - {"d/values.schema.json"} == {"d/Chart.yaml", "d/charts/e.tgz"}, "without the link"
    assert ("d/values.schema.json" in files) == stays
    assert ("e/values.schema.json" in _unpacked(files["d/charts/e.tgz"])) == stays


@pytest.mark.parametrize(
    "name", ["d/values.schema.json/", "d/./values.schema.json/.", "d\\values.schema.json", "d/x/..\\values.schema.json"]
)
def test_a_packed_file_has_the_name_that_helm_reads(tree: Path, tmp_path: Path, name: str) -> None:
    (tree / "c/charts").mkdir()
    (tree / "c/charts/d-1.tgz").write_bytes(_packed({"d/Chart.yaml": b"name: d\n", name: REMOTE}))
    assert _unpacked(_staged(tree, tmp_path)["charts/d-1.tgz"]).keys() == {"d/Chart.yaml"}


@pytest.mark.parametrize("name", ["../d/a", "d/values.schema.json\u200b", "d/a\nb"])
def test_packed_charts_with_ambiguous_names_are_not_copied(tree: Path, tmp_path: Path, name: str) -> None:
    (tree / "c/charts").mkdir()
    (tree / "c/charts/d-1.tgz").write_bytes(_packed({"d/Chart.yaml": b"name: d\n", name: REMOTE}))
    with pytest.raises(Outside, match="a file whose name helm would read differently"):
        _staged(tree, tmp_path)


def _sparse(size: int) -> bytes:
    """A packed chart with a file of zeros that needs no space in the archive."""
    entry = tarfile.TarInfo("d/zeros")
    entry.pax_headers = {"GNU.sparse.map": f"{size},0", "GNU.sparse.size": str(size)}
    return _packed({"d/Chart.yaml": b"name: d\n"}, entry)


@pytest.mark.parametrize("data", [b"no archive", _sparse(1 << 40), _packed({"d/a": b"x" * (2 << 20)})])
def test_packed_charts_that_cannot_be_read_are_not_copied(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(render_files, "_MAX_UNPACKED", 1 << 20)
    (tree / "c/charts").mkdir()
    (tree / "c/charts/d-1.tgz").write_bytes(data)
    with pytest.raises(Outside, match=r"c/charts/d-1\.tgz: "):
        _staged(tree, tmp_path)


def test_the_trees_are_the_directories_and_their_repositories(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = tree.parent
    (above / "link").symlink_to("tree/c")
    assert Trees.from_paths([str(above / "link"), str(above / "secret"), "-"]).roots == (str(tree / "c"), str(tree))
    monkeypatch.setenv("HOME", str(tree))
    assert Trees.from_paths([str(tree / "c")]).roots == (str(tree / "c"),), "the home directory is no tree"
    monkeypatch.setenv("HOME", str(tree / "user"))
    (tree / "user").mkdir()
    assert Trees.from_paths([str(tree / "c")]).roots == (str(tree / "c"),), "nor is a directory above it"
    trees = Trees((str(tree),))
    inside = {
        name: trees.holds(str(tree / name)) for name in ("", "c", "new/file", "../secret", ".git", "c/.GIT/x", "a\0")
    }
    assert inside == {
        "": True, "c": True, "new/file": True, "../secret": False, ".git": False, "c/.GIT/x": False, "a\0": False
    }  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for copies and for other temporary files."""
    stage = tmp_path / "stage"
    stage.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(stage))
    return stage


def _allowed(tree: Path, stage: Path, *arguments: str) -> str:
    """The arguments for helm, with the directory of the copies as @."""
    given = [argument.replace("{tree}", str(tree)) for argument in arguments]
    return " ".join(allowed(given, Trees((str(tree),)), str(stage))).replace(str(stage), "@")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("version", "--short"), "version --short"),
        (
            ("template", "r", "{tree}/c", "--namespace", "n", "-f", "{tree}/c/a,b", "--api-versions", "v/1", "--debug"),
            "template r @/chart/c --namespace=n --values=@/values-0.yaml --api-versions=v/1 --debug",
        ),
        (
            ("template", "--generate-name", "{tree}/c", "--values", "{tree}/c/Chart.yaml"),
            "template @/chart/c --generate-name --values=@/values-0.yaml",
        ),
        (("template", "{tree}/c", "--name-template", "env-{{ 1 }}"), "template @/chart/c --name-template=env-{{ 1 }}"),
    ],
)
def test_helm_gets_copies(tree: Path, stage: Path, arguments: tuple[str, ...], expected: str) -> None:
    (tree / "c/a,b").write_text("")
    assert _allowed(tree, stage, *arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("pull", "--untar", "--untardir", "{tree}/charts", "--repo", "evil://x", "c"),
        ("template", "--post-renderer=./evil.sh", "{tree}/c"),
        ("template", "--post-renderer", "./evil.sh", "{tree}/c"),
        ("template", "r", "{tree}/c", "--namespace", "--post-renderer=./evil.sh"),
        ("template", "r", "{tree}/c", "--set-file", "a=/etc/passwd"),
        ("template", "r", "{tree}/c", "-f", "{tree}/../secret"),
        ("template", "r", "{tree}/c", "-f", "https://example.com/x"),
        ("template", "r", "{tree}/c", "-f", "-"),
        ("template", "r", "{tree}/c", "-f"),
        ("template", "r", "{tree}/.."),
        ("template", "r", "{tree}/.git"),
        ("template", "oci://example.com/c"),
        ("template", "--generate-name"),
        ("template", "{tree}/c", "--name-template", '{{ "}}" }}{{ env "PATH" }}'),
        ("template", "{tree}/c", "--name-template", '{{ getHostByName "example.com" }}'),
        (),
    ],
)
def test_helm_gets_nothing_else(tree: Path, stage: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises((Outside, OSError)):
        _allowed(tree, stage, *arguments)


def test_the_gate_starts_helm_without_the_directories_of_the_tree(tree: Path, tmp_path: Path) -> None:
    helm, gate = tmp_path / "helm", tmp_path / "g a'te"
    helm.write_text('#!/bin/sh\necho "$1 ${HELM_DATA_HOME-none} $HELM_NO_PLUGINS"; cat "$3/Chart.yaml"\n')
    helm.chmod(0o700)
    write_gate(str(gate), str(helm), Trees((str(tree),)))
    environment = {
        "HELM_DATA_HOME": str(tree),
        "HELM_NO_PLUGINS": "1",
        "TMPDIR": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(gate), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd="/", check=False, timeout=60
        )

    done = run("template", "r", str(tree / "c"))
    assert (done.stdout, done.stderr) == ("template none 1\nname: c\n", "")
    done = run("template", "--post-renderer=x", str(tree / "c"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'forewarn: "--post-renderer=x" would become an option of helm\n'
    assert json.dumps([str(tree)]) in gate.read_text()


def test_the_end_of_an_error_of_kustomize_is_its_cause() -> None:
    cause = "security; file '/a/b.yaml' is not in or below '/c'"
    tried = "accumulating resources: accumulation err='accumulating resources from '../b.yaml': "
    said = f"Error: {tried}{cause}': must build at directory: '/a/b.yaml': file is not directory\n"
    assert end_of(said).endswith(cause)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        (
            "execution error at (c/templates/NOTES.txt:2:3): [ERROR] 'image.repository' must be set. See https://x/{far}",
            "…execution error at (c/templates/NOTES.txt:2:3): [ERROR] 'image.repository' must be set. See https://x/",
        ),
        (
            'template: {far}/a.yaml:13:103: at <include "b" .>: executing "b" at <$.Values.env>: wrong type',
            "…at <$.Values.env>: wrong type",
        ),
    ],
)
def test_the_end_of_an_error_of_helm_names_its_cause(said: str, end: str) -> None:
    assert end_of("Error: " + said.format(far="x" * 300)).startswith(end)
