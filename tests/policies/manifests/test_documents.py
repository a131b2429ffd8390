"""Documents of a file, and the objects that are found in their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from forewarn.policies.inputs.manifests import kustomizations
from forewarn.policies.inputs.manifests.documents import Document, Fault, split
from forewarn.policies.inputs.manifests.kustomizations import read_kustomization
from forewarn.policies.inputs.manifests.object_finder import NO_KIND, filled_in, intended_type
from forewarn.policies.inputs.manifests.reading import MAX_FILE, _is_json, read, values
from forewarn.policies.inputs.manifests.yaml.nodes import leniently

WANTED = frozenset(("/Pod", "scheduling.k8s.io/PriorityClass"))
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}


def test_a_separator_may_stand_behind_an_empty_line() -> None:
    pieces = list(split(b"\n---\na: b\n---\n---\nc: d", "f.yaml"))
    assert [(piece.data, piece.line, piece.column) for piece in pieces if isinstance(piece, Document)] == [
        (b"a: b\n", 2, 0),
        (b"---\nc: d\n", 4, 0),
    ]


EMPTY = [
    b"---\n",
    b"---\r\n",
    b"--- \n",
    b"--- # comment\n",
    b"---\n\n",
    b"---\n# comment\n",
    b"\n---\n",
    b"# a\n---\n---\n",
]


@pytest.mark.parametrize("empty", EMPTY)
def test_documents_with_nothing_but_comments_are_skipped_in_one_step(empty: bytes) -> None:
    """8 MiB of `---` lines took 78 s."""
    for count in (10, 11, 10_000):
        pieces = list(split(empty * count + b"a: b\n", "f.yaml", 7))
        assert len(pieces) <= 3
        (last,) = (piece for piece in pieces if isinstance(piece, Document) and b"a: b" in piece.data)
        before = last.data[: last.data.index(b"a")].count(b"\n")
        assert last.line + before == 7 + count * empty.count(b"\n")


@pytest.mark.parametrize("comment", ["\t", "# \x00", "# ä"])
def test_what_a_reader_of_yaml_may_refuse_is_no_empty_document(comment: str) -> None:
    data = f"---\n{comment}\n".encode() * 20
    assert b"".join(p.data for p in split(data, "f.yaml") if isinstance(p, Document)).count(comment.encode()) >= 10


SMALL = {
    "text": "---\na\n",
    "text behind separators": "a\n---x\n",
    "objects": "---\nkind: A\napiVersion: b\n",
    "mappings": "---\na: 1\n",
    "broken": "---\n{\n",
    "template braces": "---\n{{ a }}\n",
    "JSON": "{}\n",
}


@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL)
def test_of_a_file_with_very_many_documents_a_part_is_read_and_that_is_said(text: str) -> None:
    with (
        patch("forewarn.policies.inputs.manifests.reading.MAX_DOCUMENTS", 200),
        patch("forewarn.policies.inputs.manifests.reading.MAX_DIAGNOSTICS", 100),
    ):
        few = read(text * 50, "f.yaml", WANTED)
        assert not any("does not read it" in each.message for each in few.diagnostics)
        readings = []
        for count in (400, 1600):
            with patch("forewarn.policies.inputs.manifests.reading.leniently", wraps=leniently) as made:
                readings.append((read(text * count, "f.yaml", WANTED), made.call_count))
    (one, documents), (other, as_many) = readings
    assert (one, documents) == (other, as_many)
    assert documents <= 201
    said = one.diagnostics[-1]
    assert said.rule == "parse-error"
    assert said.message.startswith("the file has more than ")
    assert said.location.line > 100 or text == "{}\n"
    assert len(one.diagnostics) <= 101


def test_text_behind_a_separator_is_told_up_to_a_point() -> None:
    (piece,) = (p for p in split(b"--- " + b"a" * 50 + b"\n", "f.yaml") if isinstance(p, tuple))
    assert piece[1].message.endswith(f"not '{'a' * 40}'")


def test_a_place_is_told_in_lines_and_columns() -> None:
    document = Document(b"\nab  \nc\n", "f.yaml", 2, 3)
    assert [document.line_of(index) for index in (0, 1, 6)] == [3, 4, 5]
    shown = [(0, None), (1, None), (1, 3), (1, 5), (1, 9), (6, None)]
    assert [tuple(document.location(*span)[1:]) for span in shown] == [
        (3, 4, 4),
        (4, 1, 3),
        (4, 1, 3),
        (4, 1, 5),
        (4, 1, 3),
        (5, 1, 2),
    ]
    assert tuple(Document(b"a\n", "f.yaml").location(0)) == ("f.yaml", 1, 1, 2)


@pytest.mark.parametrize(
    ("data", "file", "is_one"),
    [
        (b"{", "f.yaml", True),
        (b"[", "f.yaml", False),
        (b" [", "f.json", True),
        (b"a", "f.json", False),
        (b" " * 4095 + b"{", "f.json", True),
        (b" " * 4096 + b"{", "f.json", False),
    ],
)
def test_what_kubectl_tries_as_json_is_tried(data: bytes, file: str, is_one: bool) -> None:
    assert _is_json(data, file) is is_one


LIST = "apiVersion: v1\nkind: PodList\nitems:\n- a: 1\n- b: 2\n  c: 3\nmetadata: {}\n"
ITEMS = [{"apiVersion": "v1", "kind": "Pod", "a": 1}, {"apiVersion": "v1", "kind": "Pod", "b": 2, "c": 3}]
WHOLE = {"apiVersion": "v1", "kind": "PodList", "items": [{"a": 1}, {"b": 2, "c": 3}], "metadata": {}}
ALIASED = "kind: List\nitems:\n- &x {a: 1}\n- *x\n"


@pytest.mark.parametrize(
    ("text", "long", "found"),
    [
        (LIST, len(LIST) - 1, [(ITEMS[0], 4), (ITEMS[1], 5)]),
        (LIST, len(LIST), [(WHOLE, 1)]),
        (f"\n{LIST}", 10, [(ITEMS[0], 5), (ITEMS[1], 6)]),
        (f"a: 1\n---\n---\n{LIST}", 10, [({"a": 1}, 1), (ITEMS[0], 7), (ITEMS[1], 8)]),
        ("a: 1\n---\nb: 2\n", 99, [({"a": 1}, 1), ({"b": 2}, 3)]),
        ("items:\n- a: 1\nb: 2\n", 1, [({"items": [{"a": 1}], "b": 2}, 1)]),
        ("a: 1\nb: 2\n", 1, [({"a": 1, "b": 2}, 1)]),
        (ALIASED, 1, [({"a": 1}, 3), ({"kind": "List", "items": [{"a": 1}, {"a": 1}]}, 1)]),
    ],
)
def test_a_long_list_comes_item_by_item(text: str, long: int, found: list[tuple[object, int]]) -> None:
    with patch("forewarn.policies.inputs.manifests.reading._LONG", long):
        assert [tuple(value) for value in values(text.encode(), "f.yaml")] == found


@pytest.mark.parametrize(("size", "items"), [(1 << 20, 1), ((1 << 20) + 1, 2)])
def test_a_list_is_long_from_a_mebibyte_on(size: int, items: int) -> None:
    text = "kind: List\nitems:\n- a: 1\n- b: "
    assert len(list(values(f"{text}{'c' * (size - len(text) - 1)}\n".encode(), "f.yaml"))) == items


def test_a_fault_of_values_is_told_by_its_line() -> None:
    with pytest.raises(Fault) as fault:
        list(values(b"a: 1\n---\nb: 1\nc: [\n", "f.yaml"))
    assert fault.value.start in (4, 5)


def test_a_file_may_be_so_long_and_no_longer() -> None:
    assert MAX_FILE == 64 * 2**20
    with patch("forewarn.policies.inputs.manifests.reading.MAX_FILE", 6):
        assert not read("a: bc\n", "f.yaml", WANTED).diagnostics
        assert read("a: bcd\n", "f.yaml", WANTED).diagnostics
    with patch("forewarn.policies.inputs.manifests.reading.MAX_FILE", 2 << 20):
        (found,) = read("a" * (3 << 20), "f.yaml", WANTED).diagnostics
    assert found.message == "the file has 3 MiB: more than 2 MiB are not read"
    assert tuple(found.location) == ("f.yaml", 1, 1, 81)


@pytest.mark.parametrize(("text", "kind"), [("a: b\n", NO_KIND), ("apiVersion: v1\nkind: ConfigMap\n", "ConfigMap")])
def test_what_nobody_wants_is_not_read(text: str, kind: str) -> None:
    with patch("forewarn.policies.inputs.manifests.reading.quick_value", side_effect=AssertionError):
        assert read(text, "f.yaml", WANTED).skipped == {kind: 1}


def test_comments_to_us_are_read_with_the_objects() -> None:
    assert read(f"# forewarn: ignore no-such-rule\n{json.dumps(POD)}\n", "f.yaml", WANTED).comments
    assert not read(f"# a comment\n{json.dumps(POD)}\n", "f.yaml", WANTED).comments


@pytest.mark.parametrize("text", ["&a null\n", "--- !!null ''\n", "null\n"])
def test_nothing_is_no_object(text: str) -> None:
    assert read(text, "f.yaml", WANTED).objects == 0


def test_json_values_are_read_to_the_last() -> None:
    reading = read("".join(map(json.dumps, [POD, POD, POD])), "f.json", WANTED)
    assert (len(reading.subjects), reading.diagnostics) == (3, ())


def test_behind_two_values_of_json_nothing_is_yaml() -> None:
    (found,) = read('{"a": 1}\n{"a": 2}\nkind: b\n', "f.yaml", WANTED).diagnostics
    assert found.message.startswith("invalid JSON")
    assert not read('{"a": 1}\nkind: b\n', "f.yaml", WANTED).diagnostics


def test_yaml_that_begins_like_json_has_its_own_place() -> None:
    (found,) = read('\n{"a": 1, b: [}\n', "f.yaml", WANTED).diagnostics
    assert (found.location.line, found.location.column) == (2, 14)


@pytest.mark.parametrize("kind", ["7", "''", "[a]", "~"])
def test_a_kind_that_is_no_word_is_none(kind: str) -> None:
    assert read(f"a: b\nkind: {kind}\n", "f.yaml", WANTED).skipped == {NO_KIND: 1}


def test_lists_in_lists_are_looked_through_so_deep() -> None:
    def nested(levels: int) -> str:
        value: dict[str, Any] = POD
        for _ in range(levels):
            value = {"apiVersion": "v1", "kind": "List", "items": [value]}
        return json.dumps(value)

    assert len(read(nested(20), "f.json", WANTED).subjects) == 1
    (found,) = read(nested(21), "f.json", WANTED).diagnostics
    assert found.message == "Lists nested more than 20 deep"


@pytest.mark.parametrize(("others", "is_told"), [(99, True), (100, False)])
def test_the_first_items_tell_whether_a_list_is_one_of_objects(others: int, is_told: bool) -> None:
    assert bool(read(json.dumps([*range(others), POD]), "f.json", WANTED).diagnostics) is is_told


@pytest.mark.parametrize(
    ("parent", "kind"),
    [
        ({"kind": "PodList", "apiVersion": "v1"}, "Pod"),
        ({"kind": "List", "apiVersion": "v1"}, None),
        ({"kind": "Pod", "apiVersion": "v1"}, None),
        ({"kind": 7}, None),
    ],
)
def test_an_item_has_the_type_of_its_list(parent: dict[str, Any], kind: str | None) -> None:
    assert filled_in({"spec": {}}, parent).get("kind") == kind
    assert filled_in({"kind": "Job"}, parent) == {"kind": "Job"}
    assert filled_in(7, parent) == 7


@pytest.mark.parametrize(
    ("api_version", "kind", "is_one"),
    [
        ("scheduling.k8s.io/v1", "PriorityClass", False),
        ("scheduling.k8s.io/v1", "PriorityClas", True),
        ("scheduling.k8s.io/v1", "priorityclass", True),
        ("v1", "PriorityClass", True),
        ("v1", "PriorityClxx", True),
        ("v1", "PriorityCxxx", False),
        ("v1", "Pod", False),
        ("v1", "Pirorityclass", False),
        ("v1", "XPriorityClass", False),
        ("scheduling.k8.io/v1", "PriorityClass", True),
        ("scheduling/v1", "PriorityClass", True),
        ("example.com/v1", "PriorityClass", False),
        ("kueue.x-k8s.io/v1beta1", "WorkloadPriorityClass", False),
        ("a" * 184 + "/v1", "PriorityClass", True),
        ("a" * 185 + "/v1", "PriorityClass", False),
        (None, "PriorityClass", False),
        ("v1", None, False),
    ],
)
def test_what_is_nearly_a_class_is_seen(api_version: object, kind: object, is_one: bool) -> None:
    assert intended_type(api_version, kind) == (("scheduling.k8s.io/v1", "PriorityClass") if is_one else None)


@pytest.mark.parametrize(
    ("text", "field", "meant"),
    [
        ("apiVersion: v1\nkind: PriorityClass\nmetadata: {name: a}\n", 1, "scheduling.k8s.io/v1"),
        ("apiVersion: v1\nkind: PriorityClas\nmetadata: {name: a}\n", 2, "PriorityClass"),
    ],
)
def test_a_near_class_is_shown_where_it_errs(text: str, field: int, meant: str) -> None:
    (found,) = read(text, "f.yaml", WANTED).diagnostics
    assert (found.rule, found.location.line) == ("unknown-kind", field)
    assert meant in found.message.rpartition("did you mean")[2]


def test_a_kustomization_names_its_files(tmp_path: Path) -> None:
    text = """
        namespace: team
        resources: [a.yaml, ../b, 'https://example.com/c', "d\\ne", "f\\0g", 7, '', {path: h}, {name: i}]
        bases: j
        patches: [{path: k.yaml}, {patch: "- op: add"}]
        patchesStrategicMerge: ["a: b\\nc: d", l.yaml]
    """
    found = read_kustomization(text.encode(), str(tmp_path / "kustomization.yaml"))
    assert found is not None
    assert found.directory == str(tmp_path)
    assert [str(Path(p)) for p in found[1]] == [
        str(tmp_path / "a.yaml"),
        str(tmp_path.parent / "b"),
        str(tmp_path / "h"),
    ]
    assert list(found[2]) == [str(tmp_path / "k.yaml"), str(tmp_path / "l.yaml")]
    assert found[3] == "team"


@pytest.mark.parametrize("text", [b"- a\n", b"a: [\n", b"", b"7\n"])
def test_what_is_no_kustomization_is_none(text: bytes) -> None:
    assert read_kustomization(text, "kustomization.yaml") is None


def test_a_kustomization_is_looked_at_so_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kustomizations, "MAX_NAMED", 10_000)
    found = read_kustomization(b"namespace: 7\nresources: [" + b"a," * 10_002 + b"]\n", "kustomization.yaml")
    assert found is not None
    assert (found.directory, len(found[1]), found[3]) == (str(tmp_path), 10_001, "")
