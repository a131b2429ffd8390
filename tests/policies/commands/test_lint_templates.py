"""Templates that are not rendered: one note for a directory, and what can be checked in them all the same."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.commands import lint
from forewarn.policies.inputs.manifests.templates import outline
from forewarn.policies.inputs.manifests.yaml import nodes, source
from forewarn.policies.inputs.manifests.yaml.nodes import parser
from forewarn.policies.inputs.sources.files import File
from forewarn.policies.linting.lint.chart_texts import ChartValues
from forewarn.policies.linting.lint.templates import (
    engine_of,
    has_variable_class,
    keys_of,
    literal_names,
    names_in_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.inputs.manifests.documents import Document

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
    status, (finding,), said = _lint(tmp_path, {"a.yaml": text}, monkeypatch, capsys, "--ignore", "unknown-field")
    assert (status, finding["rule"], finding["severity"]) == (0, "template-braces", "note")
    assert finding["message"] == f"1 template in this directory checked only in part ({engine})"
    assert "forewarn lint -" in finding["remediation"]
    assert f"1 {engine.removesuffix(' template')} template read in part, not rendered" in said


def test_a_directory_has_one_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"{d}/{n}.yaml": POD + "a: {{ x }}\n" for d in ("one", "two") for n in range(3)}
    files["one/b.yaml"] = "{% x %}\n" + POD
    status, found, said = _lint(tmp_path, files, monkeypatch, capsys, "--ignore", "unknown-field")
    assert (status, [(f["file"], f["message"][:11]) for f in found]) == (
        0,
        [("./one/0.yaml", "4 templates"), ("./two/0.yaml", "3 templates")],
    )
    assert "7 Jinja templates read in part, not rendered" in said


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
    wrong = [
        (f["line"], f["column"]) for f in found if f["file"] == f"./{name}" and f["rule"] == "unknown-priority-class"
    ]
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
    assert "5 Helm templates read in part, not rendered" in said


def test_the_values_of_a_chart_are_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parsed = Counter[str]()

    def counted(document: Document) -> Any:
        parsed[document.file] += 1
        return parser(document)

    for module in (nodes, source):
        monkeypatch.setattr(module, "parser", counted)
    files = {**CHART, "templates/printed.yaml": POD + "spec:\n  priorityClassName: {{ .Values.x }}\n"}
    _lint(tmp_path, {**files, "values.yaml": "x:\ntier: {class: }\n"}, monkeypatch, capsys)
    assert parsed["./values.yaml"] == 2, "the first check is only for the grammar"


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
    assert ("not rendered" in said, f"1 {engine} template read in part, not rendered" in said) == (
        bool(engine),
        bool(engine),
    )


def test_a_class_in_values_is_that_of_the_workload_that_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_api = (
        f"{_DEPLOYMENT}  namespace: {{{{ .Values.at }}}}\n{_POD_SPEC}      priorityClassName: {{{{ .Values.tier }}}}\n"
    )
    of_job = of_api.replace("Deployment", "DaemonSet").replace(".tier", ".daemon.tier")
    classes = "".join(
        f"{_CLASS.replace('{{ .Release.Name }}', name)}value: 5\n---\n" for name in ("prod", "prod-critical")
    )
    values = "tier: production\nat: shop\ndaemon:\n  tier: system-node-critical\n"
    files = {"c/Chart.yaml": CHART["Chart.yaml"], "c/templates/api.yaml": f"{of_api}---\n{of_job}"}
    files |= {"c/values.yaml": values, "classes.yaml": classes}
    _, found, said = _lint(tmp_path, files, monkeypatch, capsys, "--closed", "--select", "unknown-priority-class",
                           "--select", "system-class-outside-kube-system", "-v")  # fmt: skip
    start, meant = 'PriorityClass "production" not found;', 'Did you mean "prod" or "prod-critical"?'
    assert [(f["file"], f["line"], f["message"]) for f in found] == [
        (
            "./c/values.yaml",
            1,
            f"{start} Pods of the Deployment in templates/api.yaml will be rejected. {meant}",
        ),
        (
            "./c/values.yaml",
            4,
            'class "system-node-critical" outside kube-system: its Pods rank above all your workloads',
        ),
    ]
    assert found[0]["remediation"] == 'create it, or use "prod" or "prod-critical"'
    assert "of other kinds skipped" not in said, "Chart.yaml and values.yaml are read as parts of the chart"
    assert "left out" not in said


HOSTILE: dict[str, Callable[[], str]] = {
    "braces": lambda: "{{" * 200_000,
    "envsubst": lambda: "priorityClassName: " + "${" * 200_000,
    "variables": lambda: "priorityClassName: a" * 50_000 + "riorityClassName:" * 50_000,
    "percent": lambda: "%{" * 200_000 + "%a" * 200_000,
    "at": lambda: "@a" * 300_000,
    "comments": lambda: "{{/*" * 200_000 + "priorityClassName: a\n",
    "names": lambda: "priorityClassName: a-\n" * 50_000,
    "blanks": lambda: "priorityClassName:" + " " * 1_000_000 + "x",
    "values": lambda: "priorityClassName: {{ " + ".Values.a" * 100_000 + " }}\n",
    "documents": lambda: "kind: PriorityClass\n---\n" * 50_000,
    "classes": lambda: (CLASS % "{{ x }}" + "---\n") * 3_000,
    "defined": lambda: ("{{ define }}\n" + CLASS % "{{ x }}" + "{{ else }}\n{{ end }}\n") * 1_000,
    "budgets": lambda: ("apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec:\n  a: {{ x }}\n---\n") * 3_000,
    "keys": lambda: POD + "{{ x }}\n" + "a: 1\n" * 30_000,
    "blocks": lambda: "".join(" " * (n % 100) + "a: {{ x }}\n" for n in range(20_000)) + "b: [\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_looking_into_templates_is_linear(name: str) -> None:
    text = HOSTILE[name]()
    from forewarn.policies.inputs.manifests.reading import read

    start = time.process_time()
    read(text, "a.yaml", {"/Pod"})
    list(literal_names(text, "a.yaml"))
    outline(text.encode(), "a.yaml", frozenset(("/Pod", "scheduling.k8s.io/PriorityClass")), "default")
    keys_of(text, "a.yaml")
    engine_of(text.encode())
    has_variable_class(text.encode())
    list(names_in_values(ChartValues(File("values.yaml", data=text.encode())), {}))
    assert time.process_time() - start < 5


_DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n"
_POD_SPEC = "spec:\n  template:\n    spec:\n"
_CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: {{ .Release.Name }}\n"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (f"{_DEPLOYMENT}{_POD_SPEC}      priorityClass: {{{{ .x }}}}\n", {"unknown-field": 8}),
        (f"{_DEPLOYMENT}{_POD_SPEC}      priority: 5\n", {"pinned-priority": 8}),
        (f"{_DEPLOYMENT}{_POD_SPEC}      priority: {{{{ .x }}}}\n", {}),
        (f"{_DEPLOYMENT}{_POD_SPEC}      containers:\n      - env: [{{name: A, value: yes}}]\n",
         {"value-rejected": 9}),
        (f"{_CLASS}value: '5'\n", {"priority-value-invalid": 5}),
        (f"{_CLASS}value: {{{{ .x }}}}\n", {}),
        (f"{_CLASS}{{{{ include \"value\" . }}}}\n", {}),
        (f"{_CLASS}value: 1500000000\n", {"priority-value-too-high": 5}),
        (_CLASS.replace("v1", "v1beta1") + "value: 5\n", {"removed-api-version": 1}),
        (_CLASS.replace("{{ .Release.Name }}", "Gold") + "value: 5\n", {"priority-class-name-invalid": 4}),
        (_CLASS.replace("{{ .Release.Name }}", "gold") + "{{ if .x }}\n{{ end }}\n", {"priority-value-missing": 4}),
        (f"{_DEPLOYMENT}spec:\n  paused: true\n  {{{{ if .x }}}}\n  paused: true\n  {{{{ end }}}}\n",
         {"duplicate-key": 8}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["templates", "other"])
def test_the_literal_fields_of_a_template_are_checked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    rules: dict[str, int],
    place: str,
) -> None:
    files = {"Chart.yaml": CHART["Chart.yaml"], f"{place}/a.yaml": text}
    _, found, _ = _lint(tmp_path, files, monkeypatch, capsys, "--ignore", "template-braces")
    assert {f["rule"]: f["line"] for f in found} == rules


def test_what_stands_beside_a_template_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{POD}spec: {{priority: 5}}\n---\n{_DEPLOYMENT}a: [{{{{ x }}}}\n"
    _, found, said = _lint(tmp_path, {"a.yaml": text}, monkeypatch, capsys, "--ignore", "template-braces")
    assert [f["rule"] for f in found] == ["pinned-priority"]
    assert "1 object checked" in said


def test_objects_of_templates_do_not_limit_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a, labels: {a: {{ .x }}}}\nspec: {hard: {pods: '0'}}\n"
    )
    files = {"Chart.yaml": CHART["Chart.yaml"], "templates/quota.yaml": quota, "web.yaml": f"{POD}spec: {{}}\n"}
    assert _lint(tmp_path, files, monkeypatch, capsys)[1] == []


def test_text_has_notes_only_if_they_are_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(f"{POD}spec: {{priorityClassName: gold}}\n")
    monkeypatch.chdir(tmp_path)
    assert lint.main([]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("no errors or warnings, 1 note: 1 file, 1 object checked\n1 note not shown; -v shows it")
    select = ["--select", "priority-class-not-checked"]
    for arguments, status in (["-v"], 0), (select, 0), (["--fail-on", "note"], 1):
        assert lint.main(arguments) == status
        said = capsys.readouterr()
        assert "note: Pod default/a: can't verify" in said.out
        assert "not shown" not in said.err


@pytest.mark.parametrize(("arguments", "rules"), [((), []), (("-n", "default"), ["system-class-outside-kube-system"])])
def test_the_namespace_default_is_known_if_it_is_given(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    rules: list[str],
) -> None:
    files = {"a.yaml": f"{POD}spec: {{priorityClassName: system-node-critical}}\n"}
    assert [f["rule"] for f in _lint(tmp_path, files, monkeypatch, capsys, *arguments)[1]] == rules


@pytest.mark.parametrize("line", ["image: {name}/web", "$CERTIFICATE", "<see the other file>"])
def test_a_placeholder_makes_a_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    status, found, _ = _lint(
        tmp_path, {"a.yaml": f"{POD}spec:\n  containers:\n  - a: 1\n    {line}\n"}, monkeypatch, capsys
    )
    assert (status, [f["rule"] for f in found]) == (0, ["template-braces"])


def test_templates_in_json_are_read_like_those_in_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priorityClassName": "glod"}}
    files = {"Chart.yaml": "name: a\n", "templates/a.json": json.dumps(pod)}
    files["templates/b.json"] = json.dumps({**pod, "metadata": {"name": "{{ .Values.name }}"}}, indent=1)
    _, findings, _ = _lint(tmp_path, files, monkeypatch, capsys, "--closed")
    found = {(finding["file"], finding["rule"]) for finding in findings}
    assert found >= {(f"./templates/{name}.json", "unknown-priority-class") for name in "ab"}
