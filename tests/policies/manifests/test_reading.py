"""Which objects a file holds: kinds, Lists, documents, JSON streams; what is skipped is counted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.inputs.manifests.documents import Document, Fault, split
from forewarn.policies.inputs.manifests.json_text import JsonReader
from forewarn.policies.inputs.manifests.reading import Reading, is_untyped, read, type_meta
from forewarn.policies.inputs.manifests.yaml.nodes import check_as_kubectl, compose
from forewarn.policies.inputs.manifests.yaml.source import Construction

WANTED = frozenset(("/Pod", "/Namespace", "apps/Deployment", "scheduling.k8s.io/PriorityClass"))
CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "yaml.jsonl").read_text().splitlines()]

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n"


def _names(reading: Reading) -> list[str]:
    return [str(subject.ref) for subject in reading.subjects]


def test_objects_come_in_order_and_the_others_are_counted() -> None:
    reading = read(f"{POD}---\n{CONFIG}---\n{POD.replace('web', 'db')}", "f.yaml", WANTED, namespace="team")
    assert _names(reading) == ["Pod team/web", "Pod team/db"]
    assert (reading.objects, reading.skipped, reading.diagnostics) == (3, {"ConfigMap": 1}, ())


@pytest.mark.parametrize("data", ["a: &a b\nc: *a", "a: &a {b: c}\nd:\n  <<: *a", "a: !x b", "a: *b", "a: &a {b: *a}"])
def test_an_object_of_another_kind_is_counted_without_its_aliases_and_tags(data: str) -> None:
    reading = read(f"{CONFIG.partition('data')[0]}{data}\n", "f.yaml", WANTED)
    assert (reading.diagnostics, dict(reading.skipped)) == ((), {"ConfigMap": 1})


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n---\n", "null\n", "---\n# a\n...\n", "\ufeff", "\r\n\r\n"]
)
def test_a_file_without_objects_holds_none(text: str) -> None:
    assert read(text, "f.yaml", WANTED) == Reading()


@pytest.mark.parametrize("text", ["replicas: 3\nimage: {tag: x}\n", "- op: replace\n  path: /x\n", "7\n"])
def test_values_without_a_kind_are_counted_and_no_fault(text: str) -> None:
    reading = read(text, "values.yaml", WANTED)
    assert (reading.objects, dict(reading.skipped), reading.diagnostics) == (1, {"objects without a kind": 1}, ())


def test_a_workload_without_api_version_is_a_fault() -> None:
    reading = read("kind: Deployment\nmetadata: {name: a}\n", "f.yaml", WANTED)
    (diagnostic,) = reading.diagnostics
    assert (diagnostic.rule, diagnostic.location.line, diagnostic.location.column) == ("parse-error", 1, 7)
    assert "apiVersion" in diagnostic.message


def test_values_of_a_chart_that_choose_a_kind_are_no_object() -> None:
    assert not read("kind: Pod\nreplicas: 1\npriorityClassName: ''\n", "values.yaml", WANTED).diagnostics
    assert not read("kind: Pod\nspec: {containers: []}\n", "f.yaml", WANTED).diagnostics, "a patch"
    assert read("kind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n", "f.yaml", WANTED).diagnostics


def test_an_object_without_kind_is_a_fault_but_a_chart_is_not() -> None:
    assert [r.rule for r in read("apiVersion: v1\nmetadata: {name: a}\n", "f.yaml", WANTED).diagnostics] == [
        "parse-error"
    ]
    assert not read("apiVersion: v2\nname: chart\nversion: 1.0.0\n", "Chart.yaml", WANTED).diagnostics
    assert not read("kind: Kustomization\nresources: [a.yaml]\n", "kustomization.yaml", WANTED).diagnostics


def test_a_list_is_taken_apart_and_lists_in_it_too() -> None:
    inner = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}],
    }
    items = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        inner,
        {"apiVersion": "v1", "kind": "Secret"},
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    for name in ("f.json", "f.yaml"):
        reading = read(text, name, WANTED)
        assert (_names(reading), reading.objects, dict(reading.skipped)) == (["Pod a", "Pod b"], 3, {"Secret": 1})


def test_items_of_a_typed_list_get_its_type() -> None:
    items = "- metadata: {name: a}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n"
    text = f"apiVersion: apps/v1\nkind: DeploymentList\nitems:\n{items}"
    reading = read(text, "f.yaml", WANTED)
    assert _names(reading) == ["Deployment a", "Pod b"]
    assert reading.subjects[0].object["apiVersion"] == "apps/v1"


def test_an_empty_list_holds_nothing() -> None:
    for items in ("[]", "null"):
        assert not read(f"apiVersion: v1\nkind: List\nitems: {items}\n", "f.yaml", WANTED).subjects


def test_cluster_scoped_objects_get_no_namespace() -> None:
    text = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1\n"
    (subject,) = read(text, "f.yaml", WANTED, namespace="team").subjects
    assert (subject.namespace, str(subject.ref)) == ("", "PriorityClass high")


def test_a_namespace_of_ones_own_is_kept() -> None:
    (subject,) = read(
        POD.replace("name: web", "name: web, namespace: prod"), "f.yaml", WANTED, namespace="team"
    ).subjects
    assert (subject.namespace, str(subject.ref)) == ("prod", "Pod prod/web")


def test_documents_on_both_sides_of_a_broken_one_are_read() -> None:
    reading = read(f"{POD}---\na: [1\n---\n{POD.replace('web', 'db')}", "f.yaml", WANTED)
    assert _names(reading) == ["Pod web", "Pod db"]
    assert [(r.rule, r.location.line) for r in reading.diagnostics] == [("parse-error", 6)]


def test_faults_in_kinds_that_nobody_reads_are_found() -> None:
    for bad in (
        "data: {a: [}\n",
        "data: {[a]: b}\n",
        "  bad: x\n",
    ):
        reading = read(CONFIG.replace("data: {a: b}\n", bad), "f.yaml", WANTED)
        assert [r.rule for r in reading.diagnostics] == ["parse-error"], bad


def test_json_values_may_follow_each_other() -> None:
    pods = [json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n}}) for n in "abc"]
    assert _names(read("\n".join(pods), "f.json", WANTED)) == ["Pod a", "Pod b", "Pod c"]
    assert _names(read("".join(pods), "f.yaml", WANTED)) == ["Pod a", "Pod b", "Pod c"]


def test_a_brace_may_begin_yaml_and_json_may_be_followed_by_yaml() -> None:
    assert _names(read("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "f.yaml", WANTED)) == ["Pod a"]
    text = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}) + f"\n---\n{POD}"
    reading = read(text, "f.yaml", WANTED)
    assert _names(reading) == ["Pod a", "Pod web"]
    assert reading.subjects[1].locate(("kind",)).line == 4


def test_yaml_that_begins_in_the_line_where_json_ends_is_placed_in_that_line() -> None:
    first = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}'
    text = f"{first} {{apiVersion: v1, kind: Pod, metadata: {{name: b}}}}"
    reading = read(text, "f.yaml", WANTED)
    assert _names(reading) == ["Pod a", "Pod b"]
    place = reading.subjects[1].locate(("metadata", "name"))
    assert (place.line, place.column, place.end_column) == (1, text.index("b}") + 1, text.index("b}") + 2)


def test_a_json_file_with_a_fault_is_told_in_terms_of_json() -> None:
    (diagnostic,) = read('{\n  "a": 1\n  "b": 2\n}', "f.json", WANTED).diagnostics
    assert (diagnostic.location.line, diagnostic.location.column) == (3, 3)
    assert "JSON" in diagnostic.message


@pytest.mark.parametrize(("levels", "rejected"), [((4, 3, 3, 3, 5, 4), True), ((4, 3, 3, 3, 5), False)])
def test_aliases_are_bounded_from_a_thousand_steps_on(levels: tuple[int, ...], rejected: bool) -> None:
    """Over 99 % of some five thousand steps are behind aliases."""
    text, alias = "apiVersion: v1\nkind: Pod\nspec:\n", "x"
    for number, count in enumerate(levels):
        text += f"  a{number}: &a{number} [{', '.join([alias] * count)}]\n"
        alias = f"*a{number}"
    messages = [diagnostic.message for diagnostic in read(text, "f.yaml", WANTED).diagnostics]
    assert ["aliasing" in message for message in messages] == [True] * rejected


def test_text_behind_the_end_marker_is_a_fault_and_what_stands_before_is_read() -> None:
    reading = read(f"{POD}...\nkind: Pod\n", "f.yaml", WANTED)
    assert _names(reading) == ["Pod web"]
    assert [(r.rule, r.location.line) for r in reading.diagnostics] == [("parse-error", 4)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_text(encoding: str) -> None:
    reading = read(f"{POD}---\n{POD}".encode(encoding), "f.yaml", WANTED)
    assert _names(reading) == ["Pod web", "Pod web"]
    assert reading.subjects[0].locate(("apiVersion",)).column == 13


def test_a_file_that_is_far_too_long_is_refused_with_its_size() -> None:
    (diagnostic,) = read(b"#" * (65 << 20), "f.yaml", WANTED).diagnostics
    assert diagnostic.rule == "parse-error"
    assert "64 MiB" in diagnostic.message


PIECES = (
    "apiVersion: v1\n",
    "kind: Pod\n",
    "kind: ConfigMap\n",
    '"kind": Pod\n',
    "kind : Pod # c\n",
    "kind: 'Pod'\n",
    "kind:\n",
    "metadata:\n  name: a\n",
    "data:\n  kind: Pod\n",
    "data: |\n  kind: Pod\n",
    'data: "x\nkind: Pod\n"\n',
    "<<: {kind: Pod}\n",
    "items:\n- kind: Pod\n",
    "# c\n",
    "---\n",
    "...\n",
    " kind: Pod\n",
    "kind: PodList\n",
    "kind: &a Pod\n",
    "x: {\nkind: Pod }\n",
    "a: *a\n",
    "\n",
    "b: {{ x }}\n",
    "c: [\n",
    "kind: Po\n d\n",
    "\tx\n",
    "apiVersion: !!str v1\n",
    "d: a?b\n",
    "e: [a?b]\n",
)


@pytest.mark.parametrize("rest", ["\n d\n", "\r\n\td", "\n\n  \n  d\n"])
def test_a_kind_that_goes_on_in_the_next_line_is_read(rest: str) -> None:
    assert type_meta(f"apiVersion: v1\nkind: Po{rest}".encode()) is None
    assert type_meta(f"kind: Pod\napiVersion: v1{rest}".encode()) is None


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_looking_at_the_kind_first_changes_nothing(pieces: list[str]) -> None:
    for document in split("".join(pieces).encode(), "f.yaml"):
        assert isinstance(document, Document)
        found = type_meta(document.data)
        if found is None:
            continue
        try:
            value: Any = Construction(compose(document)[0]).value
        except Fault:
            continue
        assert (value["apiVersion"], value["kind"]) == found


@given(st.lists(st.sampled_from([*PIECES, "a: b\n", "  c: 'd\n", "    {{ e }}\n", "f: [1]\n"]), max_size=8))
def test_what_has_no_type_comes_to_the_same_without_being_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    if not is_untyped(text.encode()) or "---" in text:
        return
    quick = read(text, "f.yaml", WANTED)
    with patch("forewarn.policies.inputs.manifests.reading.is_untyped", lambda _: False):
        whole = read(text, "f.yaml", WANTED)
    assert whole == quick or (whole.diagnostics and not whole.subjects and not quick.subjects)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("replicas: 1\nimage: {tag: a}\n", True),
        ("# values\n\nreplicas: 1\n", True),
        ("kind: Pod\n", False),
        ("apiVersion : v1\n", False),
        ("- a\n", True),
        ("- kind: a\n", False),
        ("items:\n- kind: Pod\n", False),
        ("'kind': Pod\n", False),
        ("text\n", False),
        ("a: b\n...\n", False),
    ],
)
def test_a_mapping_without_a_type_is_known_by_its_lines(text: str, is_one: bool) -> None:
    assert is_untyped(text.encode()) is is_one


def test_a_random_mixture_of_documents_is_counted_in_full() -> None:
    chance = random.Random(7)
    documents = [chance.choice((POD, CONFIG, "a: 1\n")) for _ in range(300)]
    reading = read("---\n".join(documents), "f.yaml", WANTED)
    assert reading.objects == 300
    assert len(reading.subjects) == documents.count(POD)
    assert reading.skipped == {
        "ConfigMap": documents.count(CONFIG),
        "objects without a kind": documents.count("a: 1\n"),
    }


def test_a_question_mark_outside_of_brackets_is_none_that_kubectl_minds() -> None:
    check_as_kubectl(Document(b'a: what?\nb: ["?"]\n', "f.yaml"))
    with pytest.raises(Fault, match="needs quotes"):
        check_as_kubectl(Document(b"a: what?\nb: [what?]\n", "f.yaml"))


def test_json_that_is_nested_too_deeply_is_told_at_its_beginning() -> None:
    with pytest.raises(Fault, match="too deeply") as told:
        JsonReader("  " + '{"a":' * 100_000).value(2)
    assert (told.value.start, told.value.end) == (2, 3)


LISTS = [
    "- a: 1\n  b: [c]\n- d\n",
    "# one\n\n- a\n-\n  - b\n",
    "---\n- a: {b: 'c'}\n",
    "- apiVersion: v1\n  metadata: {name: a}\n",
    '- "\\x6bind": Pod\n  apiVersion: v1\n',
    "- kind: Pod\n  apiVersion: v1\n",
    "- kind: Service\n  apiVersion: v1\n",
    "- a: [\n",
    "- a\nb: c\n",
    "- a\n...\nb\n",
    "- a: *b\n",
    "- &a b\n- {~}\n",
    "- a: {b: c?}\n",
    "-a\n",
]


@pytest.mark.parametrize("text", LISTS)
def test_lists_are_the_same_whether_they_are_looked_at_or_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is a list: mere data, or objects that kubectl does not take so."""
    looked = read(text, "a.yaml", {"/Pod"})
    monkeypatch.setattr("forewarn.policies.inputs.manifests.reading.is_untyped", lambda _: False)
    whole = read(text, "a.yaml", {"/Pod"})
    assert whole == looked or (whole.diagnostics and not looked.subjects)


def test_only_lists_without_kinds_are_merely_looked_at() -> None:
    assert [text for text in LISTS if is_untyped(text.encode())] == [LISTS[i] for i in (0, 1, 2, 3, 7, 8, 10, 11, 12)]
