"""No text of a file or a cluster becomes a command of the CI system that a command's output goes to."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.findings import no_command, no_command_in_json, no_command_in_markup
from forewarn.policies.cli.main import main
from tests.in_process import captured

ANYWHERE = (
    "##[group]",
    "##vso[task.setvariable variable=PATH]",
    "##teamcity[buildStop]",
    "##octopus[set]",
    "##my-ci.2[x]",
)
FOLDS = (
    "section_start:1560896352:x\r\033[0K",
    "section_end:1:x\r\033[0K",
    "travis_fold:start:x",
    "travis_time:start:1",
)
AT_LINE_START = ("::error::x", "::set-output name=a::b", "::stop-commands::x", "--- x", "+++ x", "~~~ x", "^^^ +++")
COMMANDS = (*ANYWHERE, *FOLDS, *AT_LINE_START)
COMMAND = re.compile(
    r"##[\w.-]*\[|section_(?:start|end):|travis_(?:fold|time):|^\s*::|^(?:---|\+\+\+|~~~|\^\^\^)\s", re.MULTILINE
)
"""Sources: actions/runner ActionCommand.cs; azure-pipelines-agent Command.cs; TeamCity, "Service messages"; GitLab,
"Custom collapsible sections"; Buildkite, "Managing log output"; travis-build's folds; Octopus, "Service messages"."""
OWN = re.compile(r"^::(?:error|warning|notice) file=", re.MULTILINE)
"""Annotations that `-o github` is for."""


def hostile(begin: str) -> str:
    """A name that begins with one of them and holds all."""
    return f"{begin} " + " ".join(COMMANDS) + "\n" + "\n".join(COMMANDS)


def renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


@cache
def documented() -> Any:
    cluster, *_ = yaml.safe_load_all(Path("docs/examples/whatif/cluster.yaml").read_text())
    return cluster


@pytest.fixture(params=["::error::x", "--- x"], ids=["as GitHub", "as Buildkite"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cluster of the documentation with hostile names, manifests and expectations for it."""
    text = hostile(request.param)
    named = dict.fromkeys(("shop", "reports", "gold", "batch", "web", "nightly", "a", "b"), text)
    names = {name: f"{text}{name}" for name in (*named, "a-1", "a-2", "b-1", "b-2", "web-1", "web-2", "nightly-1")}
    (tmp_path / "cluster.json").write_text(json.dumps(renamed(documented(), names)))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": text, "namespace": names["shop"]},
        "spec": {
            "priorityClassName": names["gold"],
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "3"}}}],
        },
    }
    odd = {**pod, "spec": {"priorityClassName": "x" + text, "containers": []}, text: 1}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    (tmp_path / "odd.json").write_text(json.dumps(odd))
    broken = "kind: Pod\nmetadata: {name: [ '##vso[task.x]a ##teamcity[a' \n::error::x\n--- x\n"
    (tmp_path / "broken.yaml").write_text(broken)
    (tmp_path / "##vso[task.x] ##teamcity[a.yaml").write_text(broken)
    (tmp_path / "::error::x.yaml").write_text(broken)
    held = [
        {"name": text, "when": {"lost": {"node": names["a-1"]}}, "expect": {"run": {"namespace": names["shop"]}}},
        {
            "name": f"{text}2",
            "when": {"lost": {"zone": names["a"]}},
            "expect": {"run": {"namespace": names["reports"]}},
        },
    ]
    (tmp_path / "promises.json").write_text(json.dumps(held))
    (tmp_path / "names.json").write_text(json.dumps(names))
    monkeypatch.chdir(tmp_path)
    return tmp_path


ODD = ["broken.yaml", "::error::x.yaml", "##vso[task.x] ##teamcity[a.yaml"]
CLUSTER = ["--cluster", "cluster.json"]
ASKED: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "lint": (["lint", "pod.json", "odd.json", *ODD, *CLUSTER],
             ("text", "json", "sarif", "junit", "gitlab", "github", "rdjson", "markdown")),
    "lint, colours": (["lint", ".", "--color", "always"], ("text",)),
    "files": (["lint", ".", "::error::x.yaml", "--list-files"], ("text",)),
    "preempt": (["predict", "-f", "pod.json", *CLUSTER], ("text", "json", "html")),
    "whatif lose node": (["whatif", "lose", "node", "NODE", *CLUSTER], ("text", "json", "markdown", "html")),
    "whatif lose zone": (["whatif", "lose", "zone", "ZONE", *CLUSTER], ("text", "json", "markdown", "html")),
    "sweep": (["whatif", "lose", "--each", "node", *CLUSTER], ("text", "json", "markdown", "html")),
    "test": (["test", "promises.json", *CLUSTER], ("text", "json", "junit")),
    "risk": (["risk", *CLUSTER], ("text", "json", "markdown", "html")),
    "audit": (["audit", *CLUSTER], ("text", "json", "sarif", "markdown", "html")),
    "headroom": (["headroom", "-f", "pod.json", *CLUSTER], ("text", "json", "markdown", "html")),
    "why": (["why", "pod/x", *CLUSTER], ("text", "json")),
    "unknown arguments": (["lint", "--::error::x", "--##vso[x]"], ()),
    "unknown command": (["::error::x ##vso[x]"], ()),
    "no such file": (["lint", "::error::x ##vso[x]"], ()),
    "no such cluster": (["risk", "--cluster", "##vso[task.x]a"], ()),
}  # fmt: skip
CASES = [(name, form) for name, (_, forms) in ASKED.items() for form in forms or ("",)]


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize(("name", "form"), CASES)
def test_no_command_of_a_ci_system_is_printed(
    tree: Path, name: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = json.loads((tree / "names.json").read_text())
    arguments = [{"NODE": names["a-1"], "ZONE": names["a"]}.get(argument, argument) for argument in ASKED[name][0]]
    _, printed, said = captured(capsys, *arguments, *(["-o", form] if form and name != "files" else []))
    assert printed + said
    assert "internal error" not in said
    assert "Traceback" not in said
    if form == "github":
        assert OWN.search(printed)
        printed = OWN.sub("", printed)
    assert not COMMAND.search(printed), COMMAND.search(printed)
    assert not COMMAND.search(said), COMMAND.search(said)


@given(
    st.lists(st.sampled_from([*COMMANDS, "#", "##", "[", ":", " ", "a", "-", "\\", '"', "<"]), max_size=8).map("".join)
)
def test_nothing_is_left_and_json_says_the_same(text: str) -> None:
    for line in text.split("\n"):
        assert not COMMAND.search(no_command(line))
    written = json.dumps({text: [text]})
    assert json.loads(no_command_in_json(written)) == {text: [text]}
    assert not COMMAND.search(no_command_in_json(written))
    assert not COMMAND.search(no_command_in_markup(f"<p>{text}</p>"))
    assert not COMMAND.search(no_command_in_markup(text))


def test_a_patch_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  priorityClassName: glod\n"
    )
    assert main(["lint", "--diff", "a.yaml"]) == 1
    assert capsys.readouterr().out.startswith("--- a.yaml\n+++ a.yaml\n@@")
    assert os.listdir() == ["a.yaml"]
