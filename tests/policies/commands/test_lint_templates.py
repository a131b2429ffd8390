"""Templates that are not rendered: one note for a directory, and what can be checked in them all the same."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from policies.commands import lint
from policies.commands.lint_templates import (
    defined_in,
    engine_of,
    has_variable_class,
    keys_of,
    literal_names,
    names_in_values,
)

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: %s\nvalue: 1000\n"


def _lint(
    tree: Path,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
) -> tuple[int, list[dict[str, Any]], str]:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    monkeypatch.chdir(tree)
    status = lint.main(["-o", "json", *arguments])
    said = capsys.readouterr()
    return status, json.loads(said.out)["findings"], said.err


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (POD + "a: {{ .Values.x }}\n", "Helm"),
        (POD + 'a: {{ include "x" . }}\n', "Helm"),
        (POD + "{{- if .Enabled }}\na: 1\n{{- end }}\n", "Go template"),
        ("{% if x %}\n" + POD + "{% endif %}\n", "Jinja"),
        (POD + "a: {{ name }}\n", "Jinja"),
        (POD + "{{#each pods}}\na: 1\n{{/each}}\n", "Mustache"),
        ("#@ x = 1\n" + POD + "a: (@= x @): {{ y }}\n", "ytt"),
        (POD + "<% if x %>\na: <%= x %>\n", "ERB"),
        (POD + "%{ if x }\na: 1\n%{ endif }\n", "Terraform"),
        (POD + "a: {b: ${X}, c: @X@}\n", "envsubst"),
        (POD + "a: @X@\nb: $(NAME)\n", "kustomize"),
        (POD + "a: @NAME@\n", "unknown engine"),
        (POD + "a: %NAME%\n", "unknown engine"),
    ],
)
def test_a_template_is_a_note_with_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, engine: str
) -> None:
    status, (finding,), said = _lint(tmp_path, {"a.yaml": text}, monkeypatch, capsys)
    assert (status, finding["rule"], finding["severity"]) == (0, "template-braces", "note")
    assert finding["message"] == f"1 template in this directory not checked ({engine})"
    assert "forewarn lint -" in finding["remediation"]
    assert f"1 template not rendered ({engine} 1)" in said


def test_a_directory_has_one_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"{d}/{n}.yaml": POD + "a: {{ x }}\n" for d in ("one", "two") for n in range(3)}
    status, found, said = _lint(tmp_path, {**files, "one/b.yaml": "{% x %}\n" + POD}, monkeypatch, capsys)
    assert (status, [(f["file"], f["message"][:11]) for f in found]) == (
        0,
        [("./one/0.yaml", "4 templates"), ("./two/0.yaml", "3 templates")],
    )
    assert "7 templates not rendered (Jinja 7)" in said


@pytest.mark.parametrize(
    "text",
    [
        POD + "spec:\n  containers:\n  - args:\n    - |\n      echo {{ x }}\n    b: [\n",
        POD + "a: >-\n  {{ x }}\n\n  more\nb: [\n",
        POD + "a: ${X}\nb: x@Y@z\nc: [\n",
        POD + "a: 50%x%\nb: [\n",
    ],
)
def test_a_fault_behind_a_variable_in_text_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    status, (finding,), _ = _lint(tmp_path, {"a.yaml": text}, monkeypatch, capsys)
    assert (status, finding["rule"]) == (1, "parse-error")


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
    "templates/class.yaml": "{{- if .Values.on }}\n" + CLASS % "gold" + "{{- end }}\n",
    "templates/made.yaml": CLASS % "{{ .Values.made.name }}",
    "templates/amount.yaml": (CLASS % "silver").replace("1000", "{{ .Values.amount }}"),
    "templates/plain.yaml": POD + "spec: {priorityClassName: golt}\n",
    "templates/_part.yaml": "a: [\n",
    "templates/_pod.tpl": 'priorityClassName: {{ .Values.tier.class | default "gald" }}\n',
    "values.yaml": "made: {name: valued}\ntier:\n  class: goold\n",
}
_WEB = "a: {{ .x }}\n"


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("priorityClassName: gould", 20),
        ("  - priorityClassName: gould  # why", 24),
        ("'priorityClassName': \"gould\"", 23),
        ("spec: {a: b, priorityClassName: gould}", 33),
        ('priorityClassName: {{ default "gould" .Values.x }}', 32),
        ('priorityClassName: {{ .Values.x | default "gould" | quote }}', 44),
        ("priorityClassName: {{ x | default('gould') }}", 36),
        ("priorityClassName: gold", 0),
        ("priorityClassName: silver", 0),
        ("priorityClassName: valued", 0),
        ("priorityClassName: gould-{{ x }}", 0),
        ("# priorityClassName: gould", 0),
        ("{{/* priorityClassName: gould */}}", 0),
        ("{{- /*\npriorityClassName: gould\n*/ -}}", 0),
        ("{# priorityClassName: gould #}", 0),
        ("myPriorityClassName: gould", 0),
    ],
)
@pytest.mark.parametrize("name", ["templates/web.yaml", "other/web.yaml"])
def test_literal_names_in_a_template_are_checked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    column: int,
    name: str,
) -> None:
    files = {**CHART, name: f"{POD}{_WEB}{line}\n"}
    _, found, _ = _lint(tmp_path, files, monkeypatch, capsys)
    wrong = [(f["line"], f["column"]) for f in found if f["file"] == f"./{name}" and f["severity"] == "error"]
    assert wrong == ([(5, column)] if column else [])


def test_values_and_plain_templates_of_a_chart_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**CHART, "values-prod.yaml": "a:\n- priorityClassName: gould\n- priorityClassName: ''\n"}
    status, found, _ = _lint(tmp_path, files, monkeypatch, capsys)
    assert status == 1
    assert [(f["file"], f["line"], f["detail"]["class"]) for f in found] == [
        ("./templates/_pod.tpl", 1, "gald"),
        ("./templates/plain.yaml", 4, "golt"),
        ("./values-prod.yaml", 2, "gould"),
        ("./values.yaml", 3, "goold"),
    ]
    _, found, _ = _lint(tmp_path, files, monkeypatch, capsys, "--exclude", "templates/*", "--exclude", "values-prod*")
    assert [f["rule"] for f in found] == [], "what uses the key is not read"


def test_the_templates_of_a_chart_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"charts/shop/{name}": text for name, text in CHART.items()}
    _, found, said = _lint(tmp_path, files, monkeypatch, capsys, ".", "charts")
    assert len({(f["line"], f["detail"]["class"]) for f in found}) == len(found) == 3
    assert "5 templates not rendered (Helm 5)" in said


def test_a_missing_class_is_no_error_where_nothing_says_which_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"Chart.yaml": CHART["Chart.yaml"], "templates/web.yaml": f"{_WEB}priorityClassName: high\n"}
    status, found, _ = _lint(tmp_path, files, monkeypatch, capsys)
    assert (status, [f["rule"] for f in found]) == (0, ["priority-class-not-checked"])


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("${CLASS}", "envsubst"),
        ("a-$(CLASS)", "kustomize"),
        ("'{{ .Values.x }}'", "Helm"),
        ('"{{workflow.parameters.x}}"', "Argo Workflows"),
        ("'@CLASS@'", "unknown engine"),
        ("gold", ""),
        ("gold # ${CLASS}", ""),
    ],
)
def test_a_class_name_with_a_variable_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, engine: str
) -> None:
    files = {"web.yaml": f"{POD}spec:\n  priorityClassName: {name}\n"}
    status, _, said = _lint(tmp_path, files, monkeypatch, capsys)
    assert status == 0
    assert ("not rendered" in said, f"1 template not rendered ({engine} 1)" in said) == (bool(engine), bool(engine))


HOSTILE = {
    "braces": "{{" * 200_000,
    "envsubst": "priorityClassName: " + "${" * 200_000,
    "variables": "priorityClassName: a" * 50_000 + "riorityClassName:" * 50_000,
    "percent": "%{" * 200_000 + "%a" * 200_000,
    "at": "@a" * 300_000,
    "comments": "{{/*" * 200_000 + "priorityClassName: a\n",
    "names": "priorityClassName: a-\n" * 50_000,
    "blanks": "priorityClassName:" + " " * 1_000_000 + "x",
    "values": "priorityClassName: {{ " + ".Values.a" * 100_000 + " }}\n",
    "documents": "kind: PriorityClass\n---\n" * 50_000,
    "blocks": "".join(" " * (n % 100) + "a: {{ x }}\n" for n in range(20_000)) + "b: [\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_looking_into_templates_is_linear(name: str) -> None:
    text = HOSTILE[name]
    from policies.manifests import read

    start = time.process_time()
    read(text, "a.yaml", {"/Pod"})
    list(literal_names(text, "a.yaml"))
    defined_in(text)
    keys_of(text)
    engine_of(text.encode())
    has_variable_class(text.encode())
    list(names_in_values(text.encode(), "values.yaml", set()))
    assert time.process_time() - start < 5
