"""What a template shows without being rendered: objects that are known as a whole, objects known in part, and text."""

from __future__ import annotations

import time
from typing import Any

import pytest

from forewarn.policies.inputs.manifests.templates import UNKNOWN, Outline, mask, outline
from forewarn.policies.kubernetes.kinds.registry import LINTED, POD_TEMPLATE_PATHS, RELEASE_NAMESPACE

_WANTED = frozenset((*LINTED, *POD_TEMPLATE_PATHS))
_HEAD = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n"


def _outline(text: str) -> Outline:
    return outline(text.encode(), "t.yaml", _WANTED, "default")


def _masked(text: str) -> str:
    masked = mask(text)
    assert masked is not None
    assert [len(line) for line in masked.text.split("\n") if line] == [
        len(old) for old, new in zip(text.split("\n"), masked.text.split("\n"), strict=True) if new
    ]
    return UNKNOWN.sub("?", masked.text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {{ .x }}\n", "a: ????????\n"),
        ("a:\n  {{- toYaml .x | nindent 2 }}\nb: 1\n", "a:\n\nb: 1\n"),
        ("{{if .x}}\na: 1\n{{else if .y}}\na: 2\n{{else}}\na: 3\n{{end}}\nb: 1\n", "\na: 1\n\n\n\n\n\nb: 1\n"),
        ("{{- define \"x\" }}\na: 1\n{{- end }}\nb: 1\n", "\n\n\nb: 1\n"),
        ("{{/* }} a: */}}\nb: 1\n", "\nb: 1\n"),
        ("a: {{ if_x }}\nb: {{ end.y }}\n", "a: " + "?" * 10 + "\nb: " + "?" * 11 + "\n"),
        ("{{ $x := 1 }}\nb: 1\n", "\nb: 1\n"),
        ("a: {{ tpl \"{{ .x }}\" . }}\nb: 1\n", "a: " + "?" * 22 + "\nb: 1\n"),
        ("{% x %}\na: {{ '\"' }}\nb: 1\n", "\na: " + "?" * 9 + "\nb: 1\n"),
        ("a: {{- include \"x\" . | nindent 2 }}\n  b: 1\n", "a:" + " " * 31 + "\n  b: 1\n"),
        ("a:\n{{ include \"x\" . | indent 2 }}\n    b: 1\nc: 1\n", "a:\n\n\nc: 1\n"),
        ("{% if x %}\na: 1\n{% else %}\na: 2\n{% endif %}\nb: 1\n", "\na: 1\n\n\n\nb: 1\n"),
        ("{% x %}\nb: {{ y }} {# no #}\n", "\nb: " + "?" * 7 + " " + "?" * 8 + "\n"),
        ("a: ${#array[@]} {{ x }}\n", "a: ${#array[@]} " + "?" * 7 + "\n"),
        ("a:\n- {{ toYaml .x | nindent 2 | trim }}\n  b: 1\n", "a:\n-\n  b: 1\n"),
        ("a: {{ include \"x\"\n  . }}\nb: 1\n", "a: " + "?" * 14 + "\n" + " " * 6 + "\nb: 1\n"),
    ],
)  # fmt: skip
def test_actions_are_replaced_in_place(text: str, expected: str) -> None:
    lines = zip(_masked(text).split("\n"), expected.split("\n"), strict=True)
    assert [line.rstrip() for line, _ in lines] == [line.rstrip() for line in expected.split("\n")]


@pytest.mark.parametrize("text", ["a: {{ x\n", "{% if x\n", "{{/* }}\n", "{{ if x }}\n" * 101, "{{x}}\n" * 20_001])
def test_what_has_no_end_or_no_bound_is_not_outlined(text: str) -> None:
    assert mask(text) is None
    assert _outline(text) == Outline([], [], [])


@pytest.mark.parametrize(
    "text",
    [
        "{{" * 500_000,
        '{{ "' * 10_000,
        "{{ `}}" * 10_000,
        "{#" * 500_000 + "{%",
        "{{-" + " " * 900_000,
        "a: {{ x }}\n" * 19_000,
        '{{ "}}" x\n' * 20_000,
    ],
)
def test_masking_is_linear(text: str) -> None:
    start = time.process_time()
    mask(text)
    assert time.process_time() - start < 5


def _partial(text: str) -> dict[str, Any]:
    found = _outline(text)
    assert found.complete == []
    (subject,) = found.partial
    assert subject.is_partial
    return dict(subject.object)


def test_unknown_values_are_null() -> None:
    text = (
        _HEAD + "  namespace: {{ .x }}\n  labels: {a: '{{ .y }}', b: c}\nspec:\n  replicas: {{ .n }}\n  paused: true\n"
    )
    assert _partial(text) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": None, "labels": {"a": None, "b": "c"}},
        "spec": {"replicas": None, "paused": True},
    }
    assert _outline(text).partial[0].ref.namespace == RELEASE_NAMESPACE


@pytest.mark.parametrize(("kind", "version"), [("Deployment", "apps/v1"), ("CronJob", "batch/v1"), ("Fleet", "")])
def test_a_built_in_workload_has_the_version_that_it_has(kind: str, version: str) -> None:
    found = _outline(f'apiVersion: {{{{ include "v" . }}}}\nkind: {kind}\nmetadata: {{name: a}}\n')
    assert [subject.ref.api_version for subject in (*found.complete, *found.partial)] == ([version] if version else [])


def test_an_object_without_unknown_fields_is_whole() -> None:
    text = "{{ if .x }}\n" + _HEAD + "{{ end }}\n---\n" + _HEAD + "  {{ .y }}\n"
    found = _outline(text)
    assert [subject.source.locate(("metadata", "name")).line for subject in found.complete] == [5]
    assert [subject.source.locate(("metadata", "name")).line for subject in found.partial] == [11]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: {{ .k }}\nmetadata: {name: a}\n",
        _HEAD.replace("kind: Deployment", "{{ if .x }}\nkind: StatefulSet\n{{ else }}\nkind: Deployment\n{{ end }}"),
        _HEAD + "spec: {{ .x }\n",
        _HEAD + "spec:\n  a: {{ .x }}\n b: 1\n",
    ],
)  # fmt: skip
def test_without_one_kind_there_is_no_object(text: str) -> None:
    assert _outline(text)[:2] == ([], [])


def test_a_key_is_repeated_only_within_its_block() -> None:
    twice = _HEAD + "spec:\n  paused: true\n{{ if .x }}\n  paused: false\n{{ end }}\n"
    other = _HEAD + "{{ if .x }}\nspec: {paused: true}\n{{ end }}\n{{ if .y }}\nspec: {}\n{{ end }}\n"
    assert [found.rule for found in _outline(twice).diagnostics] == ["duplicate-key"]
    assert _outline(other).diagnostics == []
    assert _outline("{{ .a }}: 1\n" + _HEAD + "{{ .a }}: 2\n").diagnostics == []


def test_a_diagnostic_names_nothing_unknown() -> None:
    text = _HEAD.replace("web", "'{{ .n }}'") + "spec:\n  paused: true\n  paused: true\n"
    (found,) = _outline(text).diagnostics
    assert found.object is not None
    assert (found.object.kind, found.object.name) == ("Deployment", "")


_PARTS = "spec:\n  template:\n    spec:\n      containers:\n      - name: {{ .x }}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_HEAD + "spec:\n\ttemplate: {}\n", ["parse-error 6"]),
        (_HEAD + "spec:\n  {{- if .x }}\n  a: 1\n  {{- end }}\n\ttemplate: {}\n", ["parse-error 9"]),
        (_HEAD + _PARTS + "        image: web\n       env: []\n", ["parse-error 11"]),
        (_HEAD + _PARTS + "        image: web\n        {{ .y }}\n       env: []\n", []),
        (_HEAD + "spec:\n  {{ if .y }}\n  a: 1\n  {{ end }}\n - b\n", []),
        (_HEAD.replace("Deployment", "Deploymnet") + _PARTS, ["unknown-kind 2"]),
        (_HEAD.replace("Deployment", "Statefulset") + _PARTS, ["unknown-kind 2"]),
        (_HEAD.replace("Deployment", "ControllerRevision") + _PARTS, []),
        (_HEAD.replace("apps/v1", "apps.kruise.io/v1").replace("Deployment", "Deploymnet") + _PARTS, []),
    ],
)
def test_errors_in_text_that_no_action_changes_are_certain(text: str, expected: list[str]) -> None:
    found = _outline(text).diagnostics
    assert [f"{diagnostic.rule} {diagnostic.location.line}" for diagnostic in found] == expected


@pytest.mark.parametrize(
    ("condition", "versions"),
    [
        ("if .Values.x", ["policy/v1beta1"]),
        ('if semverCompare "<1.21" .x', []),
        ('if .Capabilities.APIVersions.Has "x"', []),
        ("with $x := .Capabilities.KubeVersion", []),
    ],
)
def test_an_object_for_old_clusters_is_not_checked(condition: str, versions: list[str]) -> None:
    head = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata:\n  name: {{ .x }}\nspec: {}\n"
    subjects = _outline(f"{{{{ {condition} }}}}\n{head}{{{{ end }}}}\n").partial
    assert [subject.object["apiVersion"] for subject in subjects] == versions
