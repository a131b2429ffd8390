"""Findings in the output of `helm template` on standard input have the position in the template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import forewarn

TEMPLATE = """{{- range .Values.tiers }}
apiVersion: v1
kind: Pod
metadata:
  name: {{ $.Release.Name }}-{{ . }}
spec:
  {{- if true }}
  priorityClassName: {{ . }}
  {{- end }}
  priorityClass: gold
---
{{- end }}
"""
OUTPUT = """---
# Source: shop/templates/pods.yaml
apiVersion: v1
kind: Pod
metadata:
  name: r-gold
spec:
  priorityClassName: gold
  priorityClass: gold
---
# Source: shop/templates/pods.yaml
apiVersion: v1
kind: Pod
metadata:
  name: r-glod
spec:
  priorityClassName: system-cluster-critcal
  priorityClass: gold
---
# Source: shop/charts/inner/templates/pod.yaml
apiVersion: v1
kind: Pod
metadata: {name: in}
spec: {priorityClass: gold}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {priorityClass: gold}
"""
CHART = "apiVersion: v2\nname: %s\nversion: 0.1.0\n"
INNER = "apiVersion: v1\nkind: Pod\nmetadata: {name: in}\nspec: {priorityClass: {{ .Values.tier }}}\n"


@pytest.mark.parametrize("directory", [".", "charts/web"])
def test_findings_show_the_line_of_the_template(tmp_path: Path, directory: str) -> None:
    chart = tmp_path / directory
    for name, text in {
        "Chart.yaml": CHART % "shop",
        "templates/pods.yaml": TEMPLATE,
        "charts/inner/Chart.yaml": CHART % "inner",
        "charts/inner/templates/pod.yaml": INNER,
    }.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
    places = {(f["file"], f["line"], f["column"], f["rule"]) for f in _findings(tmp_path, OUTPUT)}
    prefix = f"{directory}/".removeprefix("./")
    assert places == {
        (f"{prefix}templates/pods.yaml", 8, 22, "unknown-priority-class"),
        (f"{prefix}templates/pods.yaml", 10, 3, "unknown-field"),
        (f"{prefix}charts/inner/templates/pod.yaml", 4, 7, "unknown-field"),
        ("<stdin>", 29, 8, "unknown-field"),
    }
    text = forewarn("lint", "-", cwd=tmp_path, stdin=OUTPUT).stdout
    assert "\n  8 |   priorityClassName: {{ . }}\n" in text


@pytest.mark.parametrize(
    ("source", "charts"),
    [
        ("shop/templates/pods.yaml", ["one", "two"]),
        ("other/templates/pods.yaml", ["one"]),
        ("shop/../secret", ["one"]),
        ("shop/templates/link.yaml", ["one"]),
    ],
)
def test_an_unknown_or_ambiguous_template_leaves_the_line_of_the_output(
    tmp_path: Path, source: str, charts: list[str]
) -> None:
    tree = tmp_path / "tree"
    for name in charts:
        (tree / name / "templates").mkdir(parents=True)
        (tree / name / "Chart.yaml").write_text(CHART % "shop")
        (tree / name / "templates/pods.yaml").write_text(TEMPLATE)
        (tree / name / "templates/link.yaml").symlink_to(tmp_path / "secret")
    for secret in (tree / "secret", tmp_path / "secret"):
        secret.write_text(TEMPLATE)
    output = OUTPUT.replace("shop/templates/pods.yaml", source)
    assert {f["file"] for f in _findings(tree, output)} == {"<stdin>"}


def test_no_file_is_changed_for_the_output(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(CHART % "shop")
    template = OUTPUT.partition("---\n# Source: shop/charts")[0].replace("r-", "{{ .Release.Name }}-")
    (tmp_path / "templates/pods.yaml").write_text(template)
    forewarn("lint", "--fix", "-", cwd=tmp_path, stdin=OUTPUT)
    assert (tmp_path / "templates/pods.yaml").read_text() == template


def _findings(tree: Path, output: str) -> list[dict[str, Any]]:
    done = forewarn("lint", "-o", "json", "-", cwd=tree, stdin=output)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return [f for f in findings if f["rule"] in ("unknown-field", "unknown-priority-class")]
