"""`forewarn lint --base`: what is new against a commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.main import main

CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {}}}\nvalue: {}\n---\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec: {{priorityClassName: {}}}\n---\n"
BASE = CLASS.format("gold", 5) + CLASS.format("silver", 4) + POD.format("a", "silver") + POD.format("old", "glod")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app").mkdir()
    monkeypatch.chdir(tmp_path / "app")
    Path("all.yaml").write_text(BASE)
    for command in ("init -q", "add all.yaml", "-c user.email=a@b -c user.name=a commit -q -m a"):
        subprocess.run(["git", *command.split()], check=True, timeout=60)


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[str, str]]:
    main(["lint", "--base", "HEAD", "-o", "json", *arguments])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return [(finding["rule"], finding["message"]) for finding in report["findings"]]


def test_only_new_findings_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert findings(capsys) == []
    Path("all.yaml").write_text(BASE + POD.format("new", "sliver"))
    ((rule, message),) = findings(capsys, ".")
    assert rule == "unknown-priority-class"
    assert "sliver" in message


def test_what_needs_two_versions(capsys: pytest.CaptureFixture[str]) -> None:
    text = BASE.replace(CLASS.format("silver", 4), "").replace("value: 5", "value: 6\nglobalDefault: true")
    Path("all.yaml").write_text(text)
    assert findings(capsys) == [
        ("immutable-field-changed", "value: Forbidden: may not be changed in an update; HEAD has 5"),
        ("default-not-retroactive", "new Pods without a class get 6; running Pods keep their priority"),
        ("unknown-priority-class", 'PriorityClass "silver" not found; the Pod will be rejected (deleted since HEAD)'),
    ]


def test_a_deleted_class_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.yaml").write_text(POD.format("a", "silver"))
    assert [rule for rule, _ in findings(capsys)] == ["unknown-priority-class"]


def test_a_class_may_move_to_another_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.yaml").write_text(BASE.replace(CLASS.format("gold", 5), ""))
    Path("gold.yaml").write_text(CLASS.format("gold", 6))
    assert [rule for rule, _ in findings(capsys)] == ["immutable-field-changed"]


@pytest.mark.parametrize(
    ("arguments", "told"), [(["--base=nothing"], 'no revision "nothing"'), (["--base=--help"], "--base")]
)
def test_an_unknown_commit_is_an_error(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", *arguments]) == 3
    assert told in capsys.readouterr().err


def test_an_absolute_path_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--base", "HEAD", str(tmp_path)]) == 3
    assert "relative" in capsys.readouterr().err


def test_a_patch_is_what_all_passes_fix(capsys: pytest.CaptureFixture[str]) -> None:
    text = CLASS.format("gold", 5) + "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"
    text += "  priorityClassName: glod\n  priority: 7\n"  # with the class corrected, its priority is wrong
    Path("all.yaml").write_text(text)
    main(["lint", "--diff"])
    patch = capsys.readouterr().out
    assert [line for line in patch.splitlines() if line[:1] in "+-" and line[1] == " "] == [
        "-  priorityClassName: glod",
        "-  priority: 7",
        "+  priorityClassName: gold",
    ]
    main(["lint", "--fix"])
    after = Path("all.yaml").read_text()
    Path("all.yaml").write_text(text)
    subprocess.run(["patch", "-p0", "-s"], input=patch, text=True, check=True, timeout=60)
    assert Path("all.yaml").read_text() == after


def _git(*arguments: str) -> None:
    who = ("-c", "user.email=a@b", "-c", "user.name=a")
    subprocess.run(["git", *who, *arguments], check=True, timeout=60, capture_output=True)


def test_findings_of_renamed_files_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.yaml").rename("renamed.yaml")
    assert findings(capsys) == []
    Path("copy.yaml").write_text(POD.format("other", "glod"))
    assert [rule for rule, _ in findings(capsys)] == ["unknown-priority-class"]


def test_the_baseline_follows_renames(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--write-baseline", "known.json"]) == 0
    assert main(["lint"]) == 1
    Path("all.yaml").rename("renamed.yaml")
    assert main(["lint", "--baseline", "known.json"]) == 0
    assert "no longer found" not in capsys.readouterr().err


def test_the_base_is_the_merge_base(capsys: pytest.CaptureFixture[str]) -> None:
    """What another branch has fixed since is not new in this one."""
    _git("branch", "-M", "main")
    _git("checkout", "-q", "-b", "feature")
    _git("checkout", "-q", "main")
    Path("all.yaml").write_text(BASE.replace("glod", "gold"))
    _git("commit", "-qam", "fixed")
    _git("checkout", "-q", "feature")
    assert main(["lint", "--base", "main"]) == 0, capsys.readouterr()


def test_a_shallow_clone_needs_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _git("commit", "-q", "--allow-empty", "-m", "more")
    clone = tmp_path / "clone"
    _git("clone", "-q", "--depth", "1", f"file://{tmp_path}/app", str(clone))
    monkeypatch.chdir(clone)
    assert main(["lint", "--base", "HEAD~1"]) == 3
    assert "shallow clone. Fix: fetch the whole history (actions/checkout: fetch-depth: 0)" in capsys.readouterr().err


def test_sarif_has_the_version_and_whether_the_run_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> dict[str, Any]:
        main(["lint", "-o", "sarif", *arguments])
        (only,) = json.loads(capsys.readouterr().out)["runs"]
        return dict(only)

    whole = run(".")
    assert whole["tool"]["driver"]["version"]
    assert whole["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]
    (invocation,) = run("all.yaml", "missing.yaml")["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "missing.yaml" in invocation["toolExecutionNotifications"][0]["message"]["text"]
