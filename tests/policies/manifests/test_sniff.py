"""What is seen of a text without reading it: never wrong, and of ordinary text enough that it need not be read."""

from __future__ import annotations

import pytest

from forewarn.policies.inputs.manifests import sniff
from forewarn.policies.inputs.manifests.sniff import (
    is_untyped,
    laxer_than_kubectl,
    named_kinds,
    only_grammar_matters,
    type_meta,
)

MANY = 4_000
LONG = b"z: " + b"a" * 500_000 + b"\n"
"""The longer a document, the further back it is looked in it."""
BLANKS = 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("apiVersion: v1\nkind: Pod\n", ("v1", "Pod")),
        ("---\n# c\nkind: Pod # d\nmetadata: {name: a}\napiVersion: v1\n", ("v1", "Pod")),
        ("kind: Pod\n", None),
        ("kind: Pod\nkind: Job\napiVersion: v1\n", None),
        ("'a': b\napiVersion: v1\nkind: Pod\n", None),
        ("a: b\n'c': d\napiVersion: v1\nkind: Pod\n", None),
        ("- kind: Pod\napiVersion: v1\nkind: Pod\n", None),
    ],
)
def test_the_type_of_an_ordinary_document_is_seen(text: str, found: tuple[str, str] | None) -> None:
    assert type_meta(text.encode()) == found


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("kind: Pod\n---\n{'kind': 'Job'}\n", {"Pod", "Job"}),
        ('{"apiVersion": "v1", "kind": "Pod"}', {"Pod"}),
        ("apiVersion: v1\n", {""}),
        ("kind: {{ .kind }}\n", {""}),
        ("a: b\n", set()),
        ("mankind: Pod\n", set()),
        ("kind: Pod\n" * 999, {"Pod"}),
        ("kind: Pod\n" * 1_000 + "kind: Job\n", {"Pod", ""}),
    ],
)
def test_kinds_are_named_in_what_cannot_be_read(text: str, kinds: set[str]) -> None:
    assert named_kinds(text.encode()) == kinds


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b"a: " + b"b" * ((1 << 20) - 4) + b"\n", True),
        (b"a: " + b"b" * ((1 << 20) - 3) + b"\n", False),
        (b"a: b" + b" " * 199 + b"c\n", True),
        (b"a: b" + b" " * 200 + b"c\n", False),
        (b"a:\n- - - b\n", True),
        (b"a:\n- - - - b\n", False),
        (b"- a: b\n  c:\n    kind: Pod\n- d: e\n", True),
        (b"- a:\n    kind: Pod\n  b:\n  - kind: Job\n", True),
        (b"- a: of a kind\n  b: kind\n", True),
        (b"- a: b\n  &c kind: Pod\n", False),
        (b"- a: b\n- kind: Pod\n", False),
        (b"- a:\n    kind: Pod\n  b:\n    - kind: Job\n", True),
        (b"- a: b\n  kind: Pod\n", False),
        (b"- kind: Pod\n", False),
        (b"- a: b\n  'kind': Pod\n", False),
        (b"- a:\n    kind: Pod\n-   kind: Job\n", False),
        (b"- a:\n    kind: Pod\n-\n   kind: Job\n", False),
        (b"- a:\n    kind: Pod\n- {a: b,\n    kind: Job}\n", False),
    ],
)
def test_what_may_be_long_or_deep_or_have_a_type_is_not_surely_without_one(text: bytes, is_one: bool) -> None:
    assert is_untyped(text) is is_one


@pytest.mark.parametrize(
    "text",
    [
        "a: b\nc: [d, {e: f}]\ng: 'h'\n",
        "a: x {{t}} *y !w &z ]v }u q? b:~ c~ d\n",
        "a *x\n",
        "a: null\nb: full\nc: FULL\nd: .infra\n",
        "a: x? y - ? z *w\n",
        "k: |\n *a\n",
        "k: |\n\n  *a\n",
        "\n- |\n   *a\n",
        "- |\n  **a** b\n- |\n  <<: c\n",
        "a: b << c\nd: <<\n",
        "'<<': a\n",
        "a[0]: b\nc: x[d]:e [f] g[1]: h\ni.j/k-l[0]:\n- m\n",
        "a: |\n  *b\n\n  ~ : [c]: {d}: ! e !f ? g < {{h}}\n",
        "a: (b && !c(d))\n",
        "a: b[*].c\nd: '-* e'\nf: g -*h\n",
        "a: 'b, !c, d'\n",
        "- a: b c\n  d: e(f, !g(h))\n",
        "- a: b\n    c\n  d: e(f, !g(h))\n",
        "a: b {{ c }} [{{d}}]\n",
    ],
)
def test_of_ordinary_text_only_the_grammar_matters(text: str) -> None:
    assert only_grammar_matters(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "ab: *x\n",
        "ab: &c *x\n",
        "a: x *y\nb: *z\n",
        "a: !x y\n",
        "[a]: b\n",
        "{a}: b\n",
        "? a\n: b\n",
        "? a\n",
        "a:\n- ? b\n",
        "a:\n  ? b\n",
        "- ? a\n  : b\n",
        "~ : b\n",
        "null: b\n",
        "NULL : b\n",
        "a: {Null: b}\n",
        "a: .inf\n",
        "<<: a\n",
        "a: {<<}\n",
        "a: [<<: b]\n",
        "a: {[b]}\n",
        "a: {\n  [b], c}\n",
        "a: { {b}}\n",
        "a:\n  b: {c: d, << : e}\n",
        "- << : a\n",
        "&a <<: b\n",
        "{~}: a\n",
        "a: {b: ~}: c\n",
        "{'x y[',[z]: b}\n",
        "{a, [b]: c}\n",
        "- |\n*a\n",
        "a: {{ b }}\n",
        "a: b\n: c\n",
        "a: {: b}\n",
        "a: &b- !c d\n",
        "a: [*b]\n",
        "a: [[ *b]]\n",
        "- *a\n",
        "- - *a\n",
        "a: {\n  b: c,\n  d: e, *f: g}\n",
        "a: {b: c,\n  d: (e, *f }\n",
        "a: {b: 'c',\n  d: (e, *f }\n",
    ],
)
def test_where_more_than_grammar_matters_it_is_seen(text: str) -> None:
    assert not only_grammar_matters(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "k: |\n  *a\n*b : 1\n",
        "- k: |\n    *a\n  j: *b\n",
        " a: |\n *x : 1\n",
        "  *a : 1\nk: |\n",
        "k: 'a'\n  *x\n",
    ],
)
def test_what_stands_behind_a_text_or_above_it_is_not_in_it(text: str) -> None:
    assert not only_grammar_matters(text.encode())


def test_a_text_may_be_far_down() -> None:
    assert only_grammar_matters(b"a: b\n" * 6_000 + b"k: |\n  *a\n  c\n")
    assert only_grammar_matters(b"a: b\n" * 6_000 + b"k: |\n  c\n" + b"  " + b"d" * 15_000 + b"- *a\n")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"k: |\n  @\n  b\nc: d\n", 13),
        (b"k: |\n  @\n\n  b\n\nc: d\n", 15),
        (b"- k: |\n    @\n   b\n  c: d\n", 18),
        (b"k:\n  - >-\n   @\n", 15),
        (b"k:\n  - >-\n  @\n", 0),
        (b"- |\n  @\n\n  b\n- c\n", 13),
        (b"- - |\n  @\n", 0),
        (b"k:\n  - >-\n     @\n", 17),
        (b'k: "a\n  @"\n', 8),
        (b"k: 'a' # '\n  @'\n", 0),
        (b"k: b\n  @\n", 0),
        (b"@\n", 0),
        (b"\n  @\n", 0),
    ],
)
def test_the_end_of_a_text_is_where_its_lines_end(text: bytes, end: int) -> None:
    assert sniff._Texts(text).end(text.index(b"@")) == end


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"[a, [b], {c: d}] e", 16),
        (b"{}", 2),
        (b"[[]", 0),
        (b"[a?]", 0),
        (b"['a']", 0),
        (b"[ # ]\n]", 0),
        (b"[" + b"a" * 1_998 + b"]", 2_000),
        (b"[" + b"a" * 1_999 + b"]", 0),
    ],
)
def test_brackets_end_where_they_are_closed(text: bytes, end: int) -> None:
    assert sniff._end_of_flow(text, 0) == end
    assert sniff._end_of_flow(b" " + text, 1) == (end and end + 1)


@pytest.mark.parametrize(
    ("text", "laxer"),
    [
        ("k: {a?b: 1}\n", True),
        ("k: [a?b]\n", True),
        ("k: a [b? c]\n", False),
        ("k: a [b\nj: [c?d]\n", True),
        ("k: [a]\nj: b?\n", False),
        ("k: {a?b: 1}\nj: [c]\nl: d?\n", True),
        ("k: [a, [b]]\nj: [c?]\n", True),
        ("k: [a?\n", True),
        ("k: |\n  [a?]\n  [b?]\nj: c\n", False),
        ("k: 'a\n  [b?]'\n", False),
    ],
)
def test_what_libyaml_may_take_is_seen(text: str, laxer: bool) -> None:
    assert laxer_than_kubectl(text.encode()) is laxer


@pytest.mark.parametrize(
    ("below", "above"),
    [
        (b"k: [" + b"[]," * (MANY - 1) + b"]\n", b"k: [" + b"[]," * MANY + b"]\n"),
        (b"k: [" + b"{}," * (MANY - 1) + b"]\n", b"k: [" + b"{}," * MANY + b"]\n"),
        (b"k: |\n *a\n" * (MANY - 1) + LONG, b"k: |\n *a\n" * MANY + LONG),
        (b"k: |\n *a\n" * 231, b"k: |\n *a\n" * 232),
        (b"k: |\n" + b" a\n" * 208 + b" *b\n", b"k: |\n" + b" a\n" * 209 + b" *b\n"),
        (b"k: a" + b" " * (BLANKS - 1) + b"*x\n", b"k: a" + b" " * BLANKS + b"*x\n"),
    ],
)
def test_so_much_is_looked_at_and_of_more_it_is_taken_for_granted(below: bytes, above: bytes) -> None:
    assert only_grammar_matters(below)
    assert not only_grammar_matters(above)


def test_so_many_brackets_are_looked_at() -> None:
    assert not laxer_than_kubectl(b"k: |\n [a?]\n" * (MANY - 1) + LONG)
    assert laxer_than_kubectl(b"k: |\n [a?]\n" * MANY + LONG)
    assert not laxer_than_kubectl(b"k: |\n [a?]\n" * 242)
    assert laxer_than_kubectl(b"k: |\n [a?]\n" * 243)
