"""Where a field stands: line and columns of the value, in characters from 1."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.inputs.manifests.reading import read, values
from forewarn.policies.inputs.manifests.yaml import source
from forewarn.policies.inputs.manifests.yaml.source import entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.base.findings import Location, Path
    from forewarn.policies.inputs.manifests.yaml.nodes import Collection
    from forewarn.policies.inputs.manifests.yaml.source import MappingEntry

HEAD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n"


def _where(text: str | bytes, path: Path, *, file: str = "f.yaml", key: bool = False, subject: int = 0) -> Location:
    return read(text, file, {"/Pod", "apps/Deployment"}).subjects[subject].source.locate(path, key=key)


def _shown(text: str, location: Location) -> str:
    """The characters that a location spans."""
    line = text.split("\n")[location.line - 1]
    return line[location.column - 1 : location.end_column - 1]


@pytest.mark.parametrize(
    ("body", "path", "shown", "line"),
    [
        ("spec:\n  priorityClassName: high # c\n", ("spec", "priorityClassName"), "high", 6),
        ('spec:\n  priorityClassName: "high"\n', ("spec", "priorityClassName"), '"high"', 6),
        ("spec: {priorityClassName: 'high', a: b}\n", ("spec", "priorityClassName"), "'high'", 5),
        ("spec:\n  containers:\n  - name: a\n  - name: b\n", ("spec", "containers", 1, "name"), "b", 8),
        ("spec:\n  list: [x, yy, z]\n", ("spec", "list", 1), "yy", 6),
        ("spec:\n  a: &anchor high\n", ("spec", "a"), "high", 6),
        ("spec:\n  a: !!str high\n", ("spec", "a"), "high", 6),
        ("spec:\n  a: !!str &x high\n", ("spec", "a"), "high", 6),
        ("spec:\n  a: &x !<tag:yaml.org,2002:str> high\n", ("spec", "a"), "high", 6),
        ("spec:\n  a: &x\n    high\n", ("spec", "a"), "high", 7),
        ("spec:\n  a: &x high\n  b: *x\n", ("spec", "b"), "high", 6),
        ("x: &x {a: high}\nspec:\n  <<: *x\n  b: 1\n", ("spec", "a"), "high", 5),
        ("x: &x {a: low}\nspec:\n  <<: *x\n  a: high\n", ("spec", "a"), "high", 8),
        ("x: &x {a: high}\nspec:\n  a: low\n  <<: *x\n", ("spec", "a"), "high", 5),
        ("x: &x {a: 1}\ny: &y {a: 2, b: high}\nspec:\n  <<: [*x, *y]\n", ("spec", "b"), "high", 6),
        ("spec: &s\n  a: [1, {b: high}]\nz: *s\n", ("z", "a", 1, "b"), "high", 6),
        ("spec:\n  a: low\n  a: high\n", ("spec", "a"), "high", 7),
        ("spec:\n  yes: high\n", ("spec", "true"), "high", 6),
        ("spec:\n  1: high\n", ("spec", "1"), "high", 6),
        ("spec:\n  ? a\n  : high\n", ("spec", "a"), "high", 7),
        ("spec:\n  a: |\n    high\n    low\n", ("spec", "a"), "|", 6),
        ("spec:\n  a: >-\n    high\n", ("spec", "a"), ">-", 6),
        ("spec:\n  a: high\n    low\n", ("spec", "a"), "high", 6),
        ('spec:\n  a: "high\n    low"\n', ("spec", "a"), '"high', 6),
        ("spec:\n  é𝄞: {ü: high}\n", ("spec", "é𝄞", "ü"), "high", 6),
        ("spec:\n  a: {b: [1, 2]}\n", ("spec", "a"), "{b: [1, 2]}", 6),
        ("spec:\n  a:\n    b: 1\n", ("spec", "a"), "b: 1", 7),
        ("spec:\n  a:\n  - x\n  - y\n", ("spec", "a"), "- x", 7),
        ("spec:\n  a:\n  b: 1\n", ("spec", "a"), "a", 6),
        ("spec:\n  a: ''\n", ("spec", "a"), "''", 6),
        ("spec:\n  a: ~\n", ("spec", "a"), "~", 6),
        ("spec:\n  a: 1\n", ("spec", "absent"), "spec", 5),
        ("spec:\n  a: 1\n", ("spec", "a", "deeper", 0), "a", 6),
        ("spec:\n- a\n", ("spec", 7), "spec", 5),
    ],
)
def test_the_value_is_shown(body: str, path: Path, shown: str, line: int) -> None:
    for text in (HEAD + body, (HEAD + body).replace("\n", "\r\n")):
        location = _where(text, path)
        assert (_shown(text, location), location.line) == (shown, line)


def test_the_key_is_shown_where_it_is_asked_for() -> None:
    text = f"{HEAD}spec:\n  'on': 1\n  b: 2\n"
    assert _shown(text, _where(text, ("spec", "on"), key=True)) == "'on'"
    assert _where(text, ("spec", "b"), key=True).line == 7
    as_json = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}}, indent=1)
    assert _shown(as_json, _where(as_json, ("spec", "a"), file="f.json", key=True)) == '"a"'


def test_columns_are_characters_and_not_bytes() -> None:
    location = _where(f'{HEAD}spec: {{"é𝄞漢": high}}\n', ("spec", "é𝄞漢"))
    assert (location.line, location.column, location.end_column) == (5, 15, 19)


def test_other_line_separators_of_unicode_are_no_new_lines() -> None:
    text = f'{HEAD}spec:\n  a: "x\u2028y\u0085z"\n  b: high\n'
    assert (_where(text, ("spec", "b")).line, _shown(text, _where(text, ("spec", "b")))) == (7, "high")


def test_lines_count_from_the_beginning_of_the_file() -> None:
    text = f"# c\n---\n{HEAD}---\n# d\n\n{HEAD}spec: {{a: high}}\n---\n{HEAD}"
    assert _where(text, ("spec", "a"), subject=1).line == 14
    assert _where(text, ("kind",), subject=2).line == 17
    assert _where(text.replace("\n", "\r\n"), ("kind",), subject=2).line == 17


def test_items_of_lists_have_their_own_places() -> None:
    items = "- {apiVersion: v1, kind: Pod}\n- apiVersion: v1\n  kind: Pod\n  a: high\n"
    text = f"kind: List\napiVersion: v1\nitems:\n{items}"
    location = _where(text, ("a",), subject=1)
    assert (_shown(text, location), location.line) == ("high", 7)
    inner = {"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod", "x": [{"a": "high"}]}]}
    as_json = json.dumps({"kind": "List", "apiVersion": "v1", "items": [{}, inner]}, indent=2)
    for file in ("f.json", "f.yaml"):
        location = _where(as_json, ("x", 0, "a"), file=file)
        assert (_shown(as_json, location), location.line) == ('"high"', 15)


def test_a_type_filled_in_from_the_list_is_shown_at_the_item() -> None:
    text = "kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: a}\n"
    assert _where(text, ("kind",)).line == 4


JSON_TEXT = r"""{
 "apiVersion": "v1", "kind": "Pod",
 "skipped": [{"a": {"b": "}"}}, 1.5],
 "spec" : {
  "a":	"hé\"gh",
  "l": [1, 22, {"x": null}],
  "m": [1,
        2],
  "dup": 1, "dup": 2,
  "n": -1.5e3,
  "o": {}}}"""


@pytest.mark.parametrize(
    ("path", "shown", "line"),
    [
        (("spec", "a"), '"hé\\"gh"', 5),
        (("spec", "l", 1), "22", 6),
        (("spec", "l", 2, "x"), "null", 6),
        (("spec", "m"), "[1,", 7),
        (("spec", "m", 1), "2", 8),
        (("spec", "dup"), "2", 9),
        (("spec", "n"), "-1.5e3", 10),
        (("spec", "o"), "{}", 11),
        (("spec", "absent"), '"spec"', 4),
        (("spec", "l", 9), '"l"', 6),
        ((), "{", 1),
    ],
)
def test_positions_in_json(path: Path, shown: str, line: int) -> None:
    location = _where(JSON_TEXT, path, file="f.json")
    assert (_shown(JSON_TEXT, location), location.line) == (shown, line)


def test_the_second_json_value_of_a_file_has_its_own_lines() -> None:
    text = '{"apiVersion": "v1", "kind": "Pod"}\n\n{"apiVersion": "v1",\n "kind": "Pod", "a": "high"}'
    location = _where(text, ("a",), file="f.json", subject=1)
    assert (_shown(text, location), location.line) == ('"high"', 4)


LEAVES = st.integers(0, 99) | st.text("abc xz:#'\"é\n", min_size=1, max_size=8) | st.booleans()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text("abcé", min_size=1, max_size=3), inner)
    ),
    max_leaves=10,
)


def _leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in _leaves(item, (*path, index))]
    return [(path, value)]


@given(TREES, st.sampled_from((None, True, False)), st.integers(0, 3))
def test_the_text_at_a_position_is_the_value(tree: Any, flow: bool | None, seed: int) -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "spec": tree}
    texts = {
        "f.yaml": yaml.safe_dump(
            obj, default_flow_style=flow, allow_unicode=True, width=random.Random(seed).choice((20, 500))
        ),
        "f.json": json.dumps(obj, indent=seed or None, ensure_ascii=False),
    }
    for file, text in texts.items():
        (subject,) = read(text, file, {"/Pod"}).subjects
        assert subject.object == obj
        for path, value in _leaves(obj):
            location = subject.locate(path)
            # The first few are sought one by one, the later ones in all nodes of the document.
            assert location == read(text, file, {"/Pod"}).subjects[0].locate(path)
            shown = _shown(text, location)
            if not isinstance(value, str) or (
                "\n" not in value and len(text.split("\n")[location.line - 1]) > location.end_column
            ):
                [(found, _)] = values(shown.encode(), "f.yaml")
                assert found == value or (isinstance(value, str) and len(value) > len(str(found)))


def test_a_thousand_positions_in_one_long_json_list_take_no_time() -> None:
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}"}, "pad": ["x"] * 50} for i in range(1000)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    subjects = read(text, "f.json", {"/Pod"}).subjects
    lines = [subject.locate(("metadata", "name")).line for subject in subjects]
    assert lines == [line for line, content in enumerate(text.split("\n"), 1) if '"name"' in content]


def test_a_thousand_positions_in_one_wide_mapping_take_one_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def counted(node: Collection) -> Iterator[MappingEntry]:
        looked.append(node)
        return entries(node)

    monkeypatch.setattr(source, "entries", counted)
    text = "apiVersion: v1\nkind: Pod\nspec:\n" + "".join(f"  k{i}: {i}\n" for i in range(1000)) + "  k7: again\n"
    (subject,) = read(text, "a.yaml", {"/Pod"}).subjects
    lines = [subject.source.locate(("spec", f"k{i}"), key=True).line for i in range(1000)]
    assert lines == [*range(4, 11), 1004, *range(12, 1004)]
    assert len(looked) < 5000
    assert sum(len(node.children) for node in looked if len(node.children) > 100) < 5000
