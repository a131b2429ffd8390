"""`forewarn lint --render`, with stand-ins for helm and kustomize on the PATH."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from policies.commands import lint, lint_render

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {priorityClassName: %s}\n"
HELM = """#!/bin/sh
test "$1" = template || exit 9
printf -- '---\\n# Source: shop/templates/web.yaml\\n'
cat "$2/web.txt"
printf -- '---\\n# Source: shop/templates/../../../up.yaml\\napiVersion: v1\\nkind: ConfigMap\\n'
"""
KUSTOMIZE = """#!/bin/sh
test "$1" = build || exit 9
cat "$2/built.txt"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs that is searched first."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return directory


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "tree"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def _tool(tools: Path, name: str, script: str) -> None:
    path = tools / name
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _chart(tree: Path) -> None:
    chart = tree / "charts" / "shop"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 0.1.0\n")
    (chart / "templates" / "web.yaml").write_text("{{ broken")
    (chart / "web.txt").write_text(POD % ("web", "gold"))


def _lint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = lint.main(["-o", "json", "--fail-on", "never", *arguments])
    said = capsys.readouterr()
    return status, json.loads(said.out) if said.out else {}, said.err


def test_a_chart_is_judged_as_helm_prints_it(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    status, report, _ = _lint(capsys, "--render")
    (finding,) = [f for f in report["findings"] if f["rule"] == "priority-class-not-checked"]
    assert (status, finding["file"]) == (0, "./charts/shop/templates/web.yaml (rendered)")
    assert (finding["line"], finding["object"]["name"]) == (5, "web")
    assert (report["summary"]["objects"], report["summary"]["skipped"]) == (1, 2), (
        "the ConfigMap and Chart.yaml are none of ours"
    )


def test_templates_of_a_rendered_chart_are_not_counted_as_left_out(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    for name in ("shop/charts/sub", "shopping"):
        (tree / "charts" / name / "templates").mkdir(parents=True)
        (tree / "charts" / name / "Chart.yaml").write_text("apiVersion: v2\nname: other\ntype: library\n")
    _, report, _ = _lint(capsys)
    assert report["summary"]["leftOut"] == {"chart's templates": 3}
    _, report, said = _lint(capsys, "--render")
    assert report["summary"]["leftOut"] == {"chart's templates": 1}
    (tree / "charts" / "shopping" / "Chart.yaml").unlink()
    _, report, said = _lint(capsys, "--render")
    assert (report["summary"]["leftOut"], "left out" in said) == ({}, False)


def test_nothing_is_run_that_nobody_asked_for(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _chart(tree)
    _tool(tools, "helm", f"#!/bin/sh\ntouch {tree}/ran\n")
    _lint(capsys, "--allow-empty")
    assert not (tree / "ran").exists()


def test_a_kustomization_stands_for_its_files(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("base", "prod"):
        (tree / name).mkdir()
    (tree / "base" / "kustomization.yaml").write_text("resources: [pod.yaml]\n")
    (tree / "base" / "pod.yaml").write_text(POD % ("raw", "gold"))
    (tree / "prod" / "kustomization.yaml").write_text("resources: [../base]\n")
    (tree / "prod" / "built.txt").write_text(POD % ("built", "silver"))
    _tool(tools, "kustomize", KUSTOMIZE)
    _, report, _ = _lint(capsys, "--render")
    found = [f for f in report["findings"] if f["rule"] == "priority-class-not-checked"]
    assert [(f["file"], f["object"]["name"]) for f in found] == [("./prod (rendered)", "built")]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho 'no such \x1b[31mvalue' >&2\nexit 1\n", "exit status 1: no such"),
        ("#!/bin/sh\nsleep 100\n", "takes more than"),
        ("#!/bin/sh\nexec cat /dev/zero\n", "prints more than"),
        ("", "helm"),
    ],
)
def test_a_tool_that_fails_is_no_clean_bill(
    tools: Path,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    said: str,
) -> None:
    monkeypatch.setattr(lint_render, "SECONDS", 5.0 if "zero" in script else 1.0)
    monkeypatch.setattr(lint_render, "MOST", 1 << 20)
    _chart(tree)
    if script:
        _tool(tools, "helm", script)
    status, _, error = _lint(capsys, "--render")
    assert status == 3
    assert "--render: helm" in error
    assert said in error
    assert "\x1b" not in error


def test_libraries_and_charts_within_charts_are_left_to_those_that_use_them(tree: Path) -> None:
    _chart(tree)
    inner = tree / "charts" / "shop" / "charts" / "inner"
    library = tree / "charts" / "library"
    for directory, kind in ((inner, "application"), (library, "library")):
        directory.mkdir(parents=True)
        (directory / "Chart.yaml").write_text(f"apiVersion: v2\nname: a\nversion: 0.1.0\ntype: {kind}\n")
    broken = tree / "broken"
    broken.mkdir()
    (broken / "Chart.yaml").write_text("a: [}\n")
    charts, kustomizations = lint_render._found(["."], as_git=False)
    assert (charts, kustomizations) == (["./charts/shop"], {})
