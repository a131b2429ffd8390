"""Files that commands write: complete or not at all, and never through a symbolic link in a working tree."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.files import SourceError, output_file, write_file

CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: glod}\n"
CLUSTER = os.path.abspath("docs/examples/whatif/cluster.yaml")
EXPECTATIONS = os.path.abspath("docs/examples/test/expectations.yaml")
COMMANDS = {
    "lint json": ["lint", "-q", "-o", "json=OUT", "."],
    "lint sarif": ["lint", "-q", "-o", "sarif=OUT", "."],
    "lint junit": ["lint", "-q", "-o", "junit=OUT", "."],
    "lint baseline": ["lint", "-q", "--write-baseline", "OUT", "."],
    "audit baseline": ["audit", "--cluster", CLUSTER, "--write-baseline", "OUT"],
    "test junit": ["test", EXPECTATIONS, "--cluster", CLUSTER, "-o", "junit=OUT"],
    "sweep html": ["whatif", "lose", "--each", "zone", "--cluster", CLUSTER, "-o", "html=OUT"],
    "risk": ["whatif", "lose", "--each", "node", "--cluster", CLUSTER, "-o", "json=OUT"],
}
FAILED = 3


@pytest.fixture
def work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout as the working directory, with a file outside of it that no report is for."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "elsewhere").mkdir()
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "class.yaml").write_text(CLASS)
    monkeypatch.chdir(tree)
    return tree


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("hostile", ["file", "directory"])
def test_no_command_writes_through_a_symbolic_link_of_the_tree(
    work_tree: Path, arguments: list[str], hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if hostile == "file":
        output = "out"
        (work_tree / output).symlink_to("../precious")
    else:
        output = "linked/precious"
        (work_tree / "linked").symlink_to("..")
    assert main([argument.replace("OUT", output) for argument in arguments]) == FAILED
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint.startswith(f"forewarn {arguments[0]}: {output}: ")
    assert "symbolic link" in complaint
    assert "Fix: " in complaint
    assert (work_tree.parent / "precious").read_text() == "precious"


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_every_command_writes_a_report_that_others_can_read(work_tree: Path, arguments: list[str]) -> None:
    (work_tree / "reports").mkdir()
    before = os.umask(0o027)
    try:
        assert main([argument.replace("OUT", "reports/out") for argument in arguments]) in (0, 1)
    finally:
        os.umask(before)
    assert os.listdir("reports") == ["out"]
    assert stat.S_IMODE(os.stat("reports/out").st_mode) == 0o640


def test_a_file_keeps_its_permissions_and_its_other_names_keep_their_content(work_tree: Path) -> None:
    Path("out").write_text("old")
    os.chmod("out", 0o604)
    os.link("out", "other-name")
    write_file("out", b"new")
    assert (Path("out").read_text(), stat.S_IMODE(os.stat("out").st_mode)) == ("new", 0o604)
    assert Path("other-name").read_text() == "old"


def test_a_report_that_fails_half_way_leaves_the_older_one(work_tree: Path) -> None:
    write_file("out", b"old")

    def written(fault: BaseException) -> None:
        with output_file("out") as file:
            file.write(b"half of it")
            file.flush()
            raise fault

    with pytest.raises(SourceError, match="out: no space left on device\\. Fix: free space"):
        written(OSError(28, "No space left on device"))
    with pytest.raises(KeyboardInterrupt):
        written(KeyboardInterrupt())
    assert Path("out").read_text() == "old"
    assert sorted(os.listdir()) == [".git", "class.yaml", "out"]


LINKS = {
    "to a directory": ("linked", "../elsewhere", "linked/out"),
    "to an absolute path": ("linked", "/", "linked/tmp/out"),
    "back into the tree": ("linked", "deep", "linked/out"),
    "behind a step upwards": ("linked", "../elsewhere", "deep/../linked/out"),
    "behind the name of the tree": ("linked", "../elsewhere", "../tree/linked/out"),
    "upwards from there": ("linked", "../elsewhere", "linked/../out"),
    "to itself": ("linked", "linked", "linked/out"),
}


@pytest.mark.parametrize(("link", "target", "output"), LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("absolute", [False, True])
def test_directories_on_the_way_that_are_links_of_the_tree_are_rejected(
    work_tree: Path, link: str, target: str, output: str, absolute: bool
) -> None:
    (work_tree / "deep").mkdir()
    (work_tree / link).symlink_to(target)
    path = f"{work_tree}/{output}" if absolute else output
    with pytest.raises(SourceError, match=r"linked is a symbolic link in a working tree\. Fix: "):
        write_file(path, b"report")
    assert not os.listdir(work_tree.parent / "elsewhere")


def test_a_tree_of_git_is_one_wherever_the_command_runs(work_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work_tree / "linked").symlink_to("../elsewhere")
    monkeypatch.chdir(work_tree.parent / "elsewhere")
    with pytest.raises(SourceError, match="symbolic link in a working tree"):
        write_file("../tree/linked/out", b"report")


def test_links_of_the_user_are_followed(work_tree: Path) -> None:
    """A home or a temporary directory may be one: /tmp is, on some systems."""
    (work_tree.parent / "mine").symlink_to("elsewhere")
    write_file("../mine/out", b"report")
    assert (work_tree.parent / "elsewhere/out").read_bytes() == b"report"
    (work_tree.parent / "loop").symlink_to("loop")
    with pytest.raises(SourceError, match="too many levels of symbolic links"):
        write_file("../loop/out", b"report")
    (work_tree.parent / "into").symlink_to("tree/linked")
    (work_tree / "linked").symlink_to("../elsewhere")
    with pytest.raises(SourceError, match="symbolic link in a working tree"):
        write_file("../into/out", b"report")


@pytest.mark.parametrize("output", ["", ".", "deep/", "deep/..", "deep", "missing/out", "class.yaml/out"])
def test_what_is_no_file_is_one_line_with_a_fix(work_tree: Path, output: str) -> None:
    (work_tree / "deep").mkdir()
    with pytest.raises(SourceError, match=r": [a-z][^\n]*\. Fix: [^\n]+$"):
        write_file(output, b"report")
    assert sorted(os.listdir()) == [".git", "class.yaml", "deep"]


def test_pipes_devices_and_open_descriptors_are_written_to(work_tree: Path) -> None:
    lint = [sys.executable, "-m", "forewarn", "lint", "class.yaml", "-q", "--color", "never"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}

    def told(*arguments: str, shell: str = "") -> str:
        command = [*lint, *arguments]
        if shell:
            command = ["bash", "-c", shell, "bash", *command]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=500).stdout

    assert json.loads(told("-o", "json=/dev/stdout"))["version"] == 1
    assert told("-o", "json=/dev/null") == ""
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert json.loads(told("-o", "json=/dev/fd/3", shell='"$@" 3>&1'))["version"] == 1
    assert json.loads(told(shell='"$@" -o json=>(cat) | cat'))["version"] == 1
    told("-o", "json=/dev/stdout", shell='echo before >out; "$@" >>out')
    assert Path("out").read_text().startswith("before\n{")
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
    reader.start()
    told("-o", "json=pipe")
    reader.join(30)
    assert json.loads(read[0])["version"] == 1
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_fix_writes_to_the_file_that_a_link_inside_the_tree_leads_to(work_tree: Path) -> None:
    Path("deep").mkdir()
    Path("deep/pod.txt").write_text(POD)
    Path("pod.yaml").symlink_to("deep/pod.txt")
    main(["lint", "-q", "--closed", "--fix", "."])
    assert Path("pod.yaml").is_symlink()
    assert "priorityClassName: gold" in Path("deep/pod.txt").read_text()
