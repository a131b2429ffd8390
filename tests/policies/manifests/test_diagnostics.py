"""What is said of a text: faults and where they are, template braces, keys given twice, scalars that mislead."""

from __future__ import annotations

import sys
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import read, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

WANTED = frozenset(("/Pod", "scheduling.k8s.io/PriorityClass"))
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n"
CONFIG = "apiVersion: v1\nkind: ConfigMap\n"


def _diagnostics(text: str | bytes, file: str = "f.yaml") -> tuple[FileDiagnostic, ...]:
    return read(text, file, WANTED).diagnostics


def _one(text: str | bytes, rule: str, file: str = "f.yaml") -> FileDiagnostic:
    (diagnostic,) = _diagnostics(text, file)
    assert diagnostic.rule == rule, diagnostic
    return diagnostic


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a:\n\t- b\n", 2, 1, "tab"),
        ("a:\n  b: 1\n c: 2\n", 3, 2, "block mapping that begins on line 1"),
        ("a: 'x\nb: 1\n", 3, 1, "quoted"),
        ("a: [1, 2\n", 2, 1, "flow sequence that begins on line 1"),
        ("a: b: c\n", 1, 5, "needs quotes"),
        ("a: 1\nb: @x\n", 2, 4, "cannot start any token"),
        ("a: é\nb: \x00\n", 2, 4, "U+0000"),
        ("[a]: b\n", 1, 1, "cannot be a key"),
        ("~: b\n", 1, 1, "cannot be a key"),
        ("%YAML 1.1\n---\na: b\n", 1, 1, "directives"),
        ("a: 1\n---\nb: 2\n--- x\n", 4, 4, "separator"),
        ("a: 1\n...\nb: 2\n", 2, 4, "end marker"),
        ("a: 'x/y'\n...\nb: \"x\\\\/y\"\n", 2, 4, "end marker"),
    ],
)
def test_a_fault_says_where_and_what(text: str, line: int, column: int, says: str) -> None:
    for before in ("", "# comment\n---\n", "a: 1\r\n---\r\n"):
        if before and text.startswith("%"):
            continue
        diagnostic = _one(before + text, "parse-error")
        lines = before.count("\n")
        assert (diagnostic.location.line - lines, diagnostic.location.column) == (line, column)
        assert says.replace("line 1", f"line {1 + lines}") in diagnostic.message


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("a: *b\n", 4, "unknown anchor"),
        ("a: !!int x\n", 4, "!!int"),
        ("a: .inf\n", 4, "not a JSON number"),
        ("a: [x?y]\n", 6, "needs quotes"),
        ('a: "x\\/y"\n', 6, "escape"),
    ],
)
def test_what_the_grammar_accepts_is_a_fault_in_objects_that_rules_read(text: str, column: int, says: str) -> None:
    diagnostic = _one(POD + text, "parse-error")
    assert (diagnostic.location.line, diagnostic.location.column) == (5, column)
    assert says in diagnostic.message
    assert _diagnostics(CONFIG + text) == ()


@pytest.mark.parametrize(
    ("data", "column"),
    [(b"a: \xff\n", 4), ("é: ".encode() + b"\xc3\n", 4), (b"a: caf\xe9\n", 7)],
)
def test_what_is_not_utf_8_is_a_fault(data: bytes, column: int) -> None:
    """Behind a byte order mark; elsewhere kubectl replaces it."""
    diagnostic = _one(b"\xef\xbb\xbf# x\n" + data, "parse-error")
    assert diagnostic.location.column == column
    assert "UTF-8" in diagnostic.message


@pytest.mark.parametrize(
    ("text", "line", "column", "end"),
    [
        ("a: {{ .Values.x }}\n", 1, 4, 19),
        ("{{- if .Values.x }}\na: 1\n{{- end }}\n", 1, 1, 20),
        ("a: 1\n{{- range .x }}\n- b\n{{- end }}\n", 2, 1, 16),
        ('metadata:\n  labels:\n    {{- include "x" . | nindent 4 }}\n', 3, 5, 37),
        ('a: "{{ default "x" .Values.y }}"\n', 1, 5, 32),
        ("# {{ comment }}\na: {{ .x\n", 2, 4, 9),
    ],
)
@pytest.mark.parametrize("head", [POD, CONFIG, ""])
def test_template_braces_are_named_as_such(text: str, line: int, column: int, end: int, head: str) -> None:
    diagnostic = _one(head + text, "template-braces")
    location = diagnostic.location
    assert (location.line - head.count("\n"), location.column, location.end_column) == (line, column, end)
    assert "helm template" in diagnostic.remediation


def test_braces_in_quotes_are_text() -> None:
    assert not _diagnostics(POD + 'spec: {args: ["{{ $labels.pod }}"]}\n')
    assert not _diagnostics(CONFIG + "data:\n  rule: |\n    {{ $value }}\n  b: '{{ x }}'\n")


def test_a_fault_behind_braces_in_quotes_is_a_fault_of_its_own() -> None:
    assert _one(POD + 'a: "{{ x }}"\nb: [\n', "parse-error").location.line == 7


def test_braces_are_named_once_a_file() -> None:
    text = "---\n".join(CONFIG + "a: {{ x }}\n" for _ in range(5)) + "---\nb: [\n"
    assert [diagnostic.rule for diagnostic in _diagnostics(text)] == ["template-braces", "parse-error"]


def test_a_key_given_twice_names_the_line_that_is_lost() -> None:
    diagnostic = _one(POD + "spec:\n  a: 1\n  b: 2\n  a: 3\n", "duplicate-key")
    assert (diagnostic.location.line, diagnostic.location.column, diagnostic.location.end_column) == (8, 3, 4)
    assert '"a"' in diagnostic.message
    assert "line 6" in diagnostic.message
    assert str(diagnostic.object) == "Pod web"


@pytest.mark.parametrize("twice", ['{"a": 1, "a": 2}', '{1: x, "1": y}', "{yes: 1, 'true': 2}", "{&k a: 1, *k : 2}"])
def test_keys_are_the_same_once_kubectl_has_read_them(twice: str) -> None:
    assert [
        diagnostic.rule for diagnostic in _diagnostics(POD + f"spec: {twice}\n") if diagnostic.rule == "duplicate-key"
    ]


def test_a_key_given_twice_in_json() -> None:
    diagnostic = _one('{"apiVersion": "v1", "kind": "Pod",\n "x": [{"a": 1,\n "a": 2}]}', "duplicate-key", "f.json")
    assert (diagnostic.location.line, diagnostic.location.column, diagnostic.location.end_column) == (3, 2, 5)
    assert "line 2" in diagnostic.message


@pytest.mark.parametrize(
    ("text", "says"),
    [('{"a": "x', "unterminated string"), ("{", "expecting property")],
)
def test_a_fault_in_json_is_a_whole_phrase(text: str, says: str) -> None:
    message = _one(text, "parse-error", "f.json").message
    assert message.startswith(f"invalid JSON: {says}")
    assert not message.endswith(" at")


def test_overwriting_what_was_merged_is_what_merging_is_for() -> None:
    assert not _diagnostics(POD + "x: &x {a: 1}\nspec: {<<: *x, a: 2}\n")


def test_a_merge_behind_a_key_overwrites_it_in_kubectl_only() -> None:
    diagnostic = _one(POD + "x: &x {a: 1}\nspec:\n  a: 2\n  <<: *x\n", "ambiguous-value")
    assert (diagnostic.location.line, diagnostic.location.column) == (7, 3)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("priorityClassName: on", "boolean true"),
        ("priorityClassName: NO", "boolean false"),
        ("enabled: yes", "boolean true"),
        ("- n", "boolean false"),
        ("y: 1", "boolean true"),
        ("value: 0777", "octal number 511"),
        ("value: 0o777", "octal number 511"),
        ("value: -010", "octal number -8"),
        ("port: 0080", "number 80"),
        ("value: 1_000", "number 1000"),
        ("value: 0b11", "number 3"),
        ("value: 12:30:45", "45045"),
        ("name: 1e3", "number 1000"),
        ("labels: {rev: 12e4}", "number 120000"),
    ],
)
def test_a_scalar_that_misleads_gets_a_remark(line: str, says: str) -> None:
    body = f"spec:\n  {line}\n"
    diagnostic = _one(POD + body, "ambiguous-value")
    assert says in diagnostic.message
    assert (diagnostic.location.line, str(diagnostic.object)) == (6, "Pod web")
    assert not _diagnostics(CONFIG + body)


@pytest.mark.parametrize(
    "line",
    [
        "value: 1000",
        "value: 0",
        "value: -5",
        "value: 0x10",
        "value: 1.5",
        "value: true",
        "value: 'on'",
        'value: "0777"',
        "value: !!str on",
        "defaultMode: 0644",
        "mode: 0400",
        "port: 00",
        "port: 07",
        "cpu: 1e3",
        "value: 1e+06",
        "at: 12:30",
        "- 53:53",
        "a: null",
        "a: ~",
        "a:",
        "name: 2020-01-01",
        "name: 1.2.3",
        "name: v1_0",
        "name: 08:00",
        "name: 100m",
        "a: Nope",
        "name: 123e4567",
        "name: _1",
        "a: .5",
        "version: 1.10",
        "name: none",
        "path: off/on",
    ],
)
def test_an_innocent_scalar_gets_none(line: str) -> None:
    assert not _diagnostics(POD + f"spec:\n  {line}\n")


def test_remarks_of_a_list_belong_to_its_items() -> None:
    items = "".join(
        f"- apiVersion: v1\n  kind: {kind}\n  metadata: {{name: {kind.lower()}}}\n  x: on\n"
        for kind in ("Pod", "Secret")
    )
    diagnostic = _one(f"apiVersion: v1\nkind: List\nitems:\n{items}", "ambiguous-value")
    assert (str(diagnostic.object), diagnostic.location.line) == ("Pod pod", 7)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGE_BOMB = "a: &a {k0: 0}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
DEEP_ALIASES = "".join(f"k{i}: &k{i} {'[' * 200}{f'*k{i - 1}' if i else 'x'}{']' * 200}\n" for i in range(50))
HOSTILE: dict[str, Callable[[], str]] = {
    "alias bomb": lambda: BOMB,
    "merge bomb": lambda: MERGE_BOMB,
    "wide alias bomb": lambda: "a: &a [" + "x, " * 5_000 + "]\nb: [" + "*a, " * 5_000 + "]\n",
    "alias to itself": lambda: "a: &a [*a]\n",
    "merge of itself": lambda: "a: &a\n  b: 1\n  <<: *a\n",
    "depth through aliases": lambda: DEEP_ALIASES,
    "flow lists 10,000 deep": lambda: "a: " + "[" * 10_000 + "]" * 10_000 + "\n",
    "flow mappings 10,000 deep": lambda: "a: " + "{a: " * 10_000 + "}" * 10_000 + "\n",
    "open brackets without end": lambda: "a: " + "[" * 200_000 + "\n",
    "block lists 10,000 deep": lambda: "- " * 10_000 + "a\n",
    "explicit keys 10,000 deep": lambda: "? " * 10_000 + "a\n",
    "block mappings 3,000 deep": lambda: "".join(f"{' ' * i}a:\n" for i in range(3000)),
    "nul": lambda: "a: \x00\n",
    "100 MB of scalar": lambda: "a: " + "x" * 100_000_000 + "\n",
    "5 MB of scalar": lambda: "a: " + "x" * 5_000_000 + "\n",
    "5 MB of block scalar": lambda: "a: |\n" + "  some text\n" * 500_000,
    "unclosed quote over 10 MB": lambda: 'a: "' + "x\n" * 5_000_000,
    "json 100,000 deep": lambda: '{"a":' * 100_000,
    "json lists 100,000 deep": lambda: '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "json 900 deep with half a surrogate": lambda: '{"a": "\\ud800", "b": ' + "[" * 900 + "]" * 900 + "}}",
    "lists in lists": lambda: '{"kind": "List", "apiVersion": "v1", "items": [' * 100 + "]}" * 100,
    "json integer": lambda: '{"a": ' + "9" * 1_000_000 + "}",
    "json float": lambda: '{"a": 1e999999}',
}


GOOD_IN_OTHERS = {"block mappings 3,000 deep", "5 MB of scalar", "5 MB of block scalar"}
GOOD_UNLESS_READ = {"alias bomb", "merge bomb", "wide alias bomb", "alias to itself", "merge of itself"}
"""Aliases are only followed in objects that rules read."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_a_fault_within_seconds(name: str) -> None:
    """Alone, in a Pod, and in a kind that nobody reads."""
    hostile = HOSTILE[name]()
    heads = [""] if hostile[0] in "{-?" else ["", POD] if name in GOOD_IN_OTHERS else ["", POD, CONFIG]
    heads = [POD] if name in GOOD_UNLESS_READ else heads
    for head in heads:
        start = time.process_time()
        assert [diagnostic.rule for diagnostic in _diagnostics(head + hostile)] == ["parse-error"]
        assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["alias bomb", "merge bomb", "wide alias bomb", "depth through aliases"])
def test_a_dump_with_a_bomb_in_it_is_refused_too(name: str) -> None:
    with pytest.raises(Fault, match=r"aliasing|deep"):
        list(values((POD + HOSTILE[name]()).encode(), "f.yaml"))


def test_a_bomb_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        _diagnostics(POD + BOMB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_many_aliases_of_small_things_are_no_bomb() -> None:
    text = POD + "x: &x {a: 1}\nspec:\n" + "".join(f"  k{i}: *x\n" for i in range(900))
    assert not _diagnostics(text)


def test_a_hundred_thousand_small_documents_take_seconds() -> None:
    start = time.process_time()
    assert read("---\na: 1\n" * 30_000, "f.yaml", WANTED).objects == 30_000
    assert read("---\na: [\n" * 2_000, "f.yaml", WANTED).objects == 0
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "text",
    [
        POD + "spec:\n" + "- on\n" * 20_000,
        POD + "spec:\n" + "  a: 1\n" * 20_000,
        POD + "spec: [" + "{a: 1, a: 2}, " * 10_000 + "]\n",
        "apiVersion: v1\nkind: List\nitems:\n" + "- {apiVersion: v1, kind: Pod, x: on}\n" * 5_000,
        '{"apiVersion": "v1", "kind": "List", "items": ['
        + ", ".join(['{"apiVersion": "v1", "kind": "Pod", "x": 1, "x": 2}'] * 5_000)
        + "]}",
    ],
    ids=["switches", "keys", "mappings", "items", "json items"],
)
def test_very_many_remarks_take_seconds(text: str) -> None:
    start = time.process_time()
    assert len(_diagnostics(text)) >= 5_000
    assert time.process_time() - start < 8


TROUBLE: dict[str, Callable[[], str]] = {
    "brackets and a question": lambda: "[" * 300_000 + "?",
    "brackets with anchors": lambda: "a: " + "[&" * 100_000 + "?",
    "braces": lambda: "a: " + "{{" * 100_000,
    "braces and quotes": lambda: 'a: "' + '{{}}"' * 100_000,
    "tags": lambda: "a: " + "!x " * 100_000 + "[?",
    "empty lines": lambda: "\n" * 1_000_000 + "}",
    "blank lines": lambda: "a: |\n" + " \n" * 500_000 + "b: [",
    "comment": lambda: "#" * 5_000_000 + "\n[",
    "questions far from brackets": lambda: "a:\n" + f"- {'why ' * 400}?\n" * 2_000 + "b: [",
    "spaces": lambda: "a: 1\n" + " " * 5_000_000 + "\n[",
}


@pytest.mark.parametrize("name", TROUBLE)
def test_looking_for_trouble_is_linear(name: str) -> None:
    text = TROUBLE[name]()
    start = time.process_time()
    assert _diagnostics(text)
    assert time.process_time() - start < 5


def test_without_libyaml_the_same_is_read_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
    text = POD + "spec: {a: &x [1, 'b'], b: *x, c: on}\n---\n" + CONFIG + "---\n" + CONFIG + "x: [\n"
    reading = read(text, "f.yaml", WANTED)
    assert reading.subjects[0].object["spec"] == {"a": [1, "b"], "b": [1, "b"], "c": True}
    assert [diagnostic.rule for diagnostic in reading.diagnostics] == ["ambiguous-value", "parse-error"]
    assert reading.subjects[0].locate(("spec", "b", 1)).column == 18
