"""The ways that are quick answer for ordinary documents, and leave others to the careful one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.inputs.manifests.documents import Document, Fault
from forewarn.policies.inputs.manifests.yaml.nodes import check_as_kubectl, compose
from forewarn.policies.inputs.manifests.yaml.source import UNUSUAL, Construction, Tree, YamlSource, quick_value

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path


def document(text: str) -> Document:
    return Document(text.encode(), "f.yaml")


ORDINARY: list[tuple[str, Any]] = [
    ("a: b\nc: 1\n", {"a": "b", "c": 1}),
    ("a: [b, [c], {d: e, f: []}]\ng: {}\n", {"a": ["b", ["c"], {"d": "e", "f": []}], "g": {}}),
    ("- a\n- 'yes'\n- {b: c}\n- d\n", ["a", "yes", {"b": "c"}, "d"]),
    ("nice: 1\n1.5: no one\n", {"nice": 1, "1.5": "no one"}),
    ("text\n", "text"),
    ("a:\n", {"a": None}),
    (
        "defaultMode: 0644\nitems: [{mode: 0400}, {mode: 0}]\n",
        {"defaultMode": 420, "items": [{"mode": 256}, {"mode": 0}]},
    ),
    ("mode: 0888\n", None),
    (f"a: {'b' * 100_000}\n", {"a": "b" * 100_000}),
    (f"a: {'1' * 63}\nb: {'1' * 64}\n", {"a": float("1" * 63), "b": float("1" * 64)}),
    ("[" * 256 + "]" * 256 + "\n", None),
    ("a: &b c\nd: *b\n", {"a": "c", "d": "c"}),
    ("a: &b {c: 1}\nd: [*b, {e: *b}]\n", {"a": {"c": 1}, "d": [{"c": 1}, {"e": {"c": 1}}]}),
    ("a: &b [c]\nd: &b e\nf: *b\n", {"a": ["c"], "d": "e", "f": "e"}),
    ("a: &b [&b c]\nd: *b\n", {"a": ["c"], "d": "c"}),
    ("a: &b\nc: *b\n", {"a": None, "c": None}),
    (f"a: &b [{'c,' * 199}]\nd: *b\ne: *b\n", None),
    ("[" * 250 + "&a [[b]], *a" + "]" * 250 + "\n", None),
]


@pytest.mark.parametrize(("text", "value"), ORDINARY)
def test_an_ordinary_document_is_read_quickly(text: str, value: Any) -> None:
    found = quick_value(document(text))
    assert found is not UNUSUAL
    assert found == Construction(compose(document(text))[0]).value
    assert value is None or found == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# a\n",
        "&a b: c\n",
        "a: &b {c: *b}\n",
        "a: &b [{c: [*b]}]\n",
        "a: &b c\n*b : d\n",
        "a: &b {c: d}\n<<: *b\n",
        "a: &b 010\nc: *b\n",
        f"a: &b [{'c,' * 200}]\nd: *b\ne: *b\n",
        "[" * 254 + "&a [[b]], *a" + "]" * 254 + "\n",
        "a: !b c\n",
        "a: !!str 1\n",
        "a: *b\n",
        "a: 1\na: 2\n",
        "<<: {a: b}\n",
        "? [a]\n: b\n",
        "? {a: b}\n: c\n",
        "a: yes\n",
        "yes: a\n",
        "a: 010\n",
        "mode: [010]\n",
        "mode: 0_10\n",
        "mode: 0o10\n",
        "~: a\n",
        "a: .inf\n",
        "a: [\n",
        "a: b\n...\nc: d\n",
        f"a: {'b' * 100_001}\n",
        "[" * 257 + "]" * 257 + "\n",
    ],
)
def test_what_needs_care_is_not(text: str) -> None:
    assert quick_value(document(text)) is UNUSUAL


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ("a: [b, {c: d}, e]\n", ("a", 0), "b"),
        ("a: [b, {c: d}, e]\n", ("a", 1, "c"), "d"),
        ("a: [b, {c: d}, e]\n", ("a", 2), "e"),
        ("a: [b, {c: d}, e]\n", ("a", 3), None),
        ("a: [b, {c: d}, e]\n", ("a", 4), None),
        ("a: [b, {c: d}, e]\n", ("a", 1), "{c: d}"),
        ("a: [b, {c: d}, e]\n", ("a", "b"), None),
        ("a: [b, {c: d}, e]\n", (0,), None),
        ("a: [b, {c: d}, e]\n", ("a", 0, "b"), None),
        ("a: [b, {c: d}, e]\n", ("a", 0, 0), None),
        ("a: {b: c}\nb: d\n", ("b",), "d"),
        ("a: {b: c}\nb: d\n", ("c",), None),
        ("a: {b: [[c], d]}\ne: f\n", ("e",), "f"),
        ("a: {b: [[c], d]}\ne: f\n", ("a", "b", 1), "d"),
        ("1e3: a\n'1e3': b\n", ("1000",), "a"),
        ("1e3: a\n'1e3': b\n", ("1e3",), "b"),
        ("a:\nb: c\n", ("a",), ""),
        ("a\n", (), "a"),
        ("- a\n- {b: c}\n", (1, "b"), "c"),
        ("- a\n- {b: c}\n", ("a",), None),
        ("a: &b {c: d}\ne: *b\n", ("e", "c"), "d"),
        ("f: &g h\ni: [*g, *b]\n", ("i", 0), None),
        ("f: &g h\ni: [*g]\n", ("i", 0), "h"),
    ],
)
def test_a_path_leads_to_a_value_or_nowhere(text: str, path: Path, found: str | None) -> None:
    nodes = [*Tree(document(text)).way(path)]
    assert (len(nodes) == len(path) + 1) is (found is not None)
    if found:
        where = YamlSource(Tree(document(text))).locate(path)
        assert text.splitlines()[where.line - 1][where.column - 1 : where.end_column - 1].strip("'") == found


@pytest.mark.parametrize(
    ("text", "path", "columns"),
    [
        ("[&x ]\n", (0,), (2, 4)),
        ("[&x]\n", (0,), (2, 4)),
        ("[&x b]\n", (0,), (5, 6)),
        ("[!x b]\n", (0,), (5, 6)),
        ("[! ]\n", (0,), (2, 3)),
        ("{a: b}\n", ("a",), (5, 6)),
        ("[\n", (), (1, 2)),
    ],
)
def test_a_node_is_shown_without_anchor_and_tag(text: str, path: Path, columns: tuple[int, int]) -> None:
    where = YamlSource(Tree(document(text))).locate(path)
    assert (where.column, where.end_column) == columns


@pytest.mark.parametrize(
    "text", ["a:\n  b: c\nd: e?\nf: ['g?']\n", "a: ['b?', [c]]\nd: e?\n", "k: " + "[" * 256 + "'?'" + "]" * 256 + "\n"]
)
def test_what_kubectl_takes_is_no_fault(text: str) -> None:
    check_as_kubectl(document(text))


@pytest.mark.parametrize(
    ("text", "says", "start"),
    [
        ("a: [b, c?]\n", "needs quotes", 8),
        ("a: [[b], c?]\n", "needs quotes", 10),
        ("k: " + "[" * 257 + "'?'" + "]" * 257 + "\n", "more than 256 levels", 259),
    ],
)
def test_what_it_does_not_take_is_shown(text: str, says: str, start: int) -> None:
    with pytest.raises(Fault, match=says) as fault:
        check_as_kubectl(document(text))
    assert (fault.value.start, fault.value.end) == (start, start + 1)


def test_nodes_are_nested_so_deep_and_no_deeper() -> None:
    compose(document("[" * 256 + "]" * 256))
    with pytest.raises(Fault, match="more than 256 levels") as fault:
        compose(document("a: " + "[" * 256 + "]" * 256))
    assert (fault.value.start, fault.value.end) == (258, 259)
