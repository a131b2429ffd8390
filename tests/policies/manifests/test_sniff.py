"""What is seen of a text without reading it: never wrong, and of ordinary text enough that it need not be read."""

from __future__ import annotations

import pytest

from forewarn.policies.inputs.manifests.reading import is_untyped, matters_beyond_grammar, named_kinds, type_meta

MANY = 4_000


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
    ("text", "does"),
    [
        (b"a: b\nc: [d, {e: f}]\ng: 'h'\n", False),
        (b"a: {{ b }}\n", True),
        (b"a: { [b]: c }\n", True),
        (b"k: [" + b"[]," * (MANY - 1) + b"]\n", False),
        (b"k: [" + b"[]," * MANY + b"]\n", True),
    ],
)
def test_templates_and_deep_documents_are_decoded_whatever_their_kind(text: bytes, does: bool) -> None:
    assert matters_beyond_grammar(text) is does
