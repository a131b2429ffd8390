"""Text that kubectl's YAML reader takes and libyaml does not. Source: go.yaml.in/yaml/v2 scannerc.go, decoder.go."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import read, values
from forewarn.policies.inputs.manifests.yaml.nodes import _PRIVATE

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"


def value(text: str | bytes) -> Any:
    return [found.value for found in values(text if isinstance(text, bytes) else text.encode(), "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1.2.3.4, 001:db8::]\n", {"a": ["1.2.3.4", "001:db8::"]}),
        ("a: [fe80::, ff02::, 1]\n", {"a": ["fe80::", "ff02::", 1]}),
        ("a: {b: c::, d: 'e:]', f: \"g:,\"} # h:]\n", {"a": {"b": "c::", "d": "e:]", "f": "g:,"}}),
        ("a: {b: c:}\n", {"a": {"b": "c:"}}),
        ("a: \"it\\'s\"\nb: '\\'\nc: \\'x\n", {"a": "it's", "b": "\\", "c": "\\'x"}),
        ("a: [b:]\nc: |\n  [d:]\n", {"a": ["b:"], "c": "[d:]\n"}),
        ("a: !!str, x\nb: ![]\n", {"a": "x", "b": ""}),
        ("- !foo[]\n- !!int, 1\n- !b] [c]\n- ' !d] '\n", ["", "1", ["c"], " !d] "]),
        ("!!nu[ll: v\n", "v"),
        ("v: !]\n", {"v": ""}),
    ],
)
def test_what_kubectl_reads_is_read(text: str, expected: object) -> None:
    assert value(text) == [expected]


@pytest.mark.parametrize(
    "text", ["a: [::]\n", "a: {b:[1]}\n", "a: [b:{}]\n", "a: [b:], c\n", "a: !!float yes\n", 'a: "\\q"\n']
)
def test_what_kubectl_refuses_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        value(text)


@pytest.mark.parametrize("space", ["\u00a0", "\u0085", "\u3000", " \u2003\t", "\u2000", "\u200a"])
def test_a_separator_may_have_any_blank_behind_it(space: str) -> None:
    assert value(f"a: 1\n---{space}\nb: 2\n") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("sign", ["\u200b", "\u1fff", "a"])
def test_what_is_no_blank_to_go_is_text_behind_a_separator(sign: str) -> None:
    with pytest.raises(Fault, match="only a comment may follow"):
        value(f"a: 1\n---{sign}\nb: 2\n")


def test_bytes_of_json_that_are_no_text_are_replaced() -> None:
    reading = read(b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\xffb"}}', "a.json", {"/Pod"})
    assert [subject.ref.name for subject in reading.subjects] == ["a\ufffdb"]
    assert not reading.diagnostics


def test_places_stay_where_they_are() -> None:
    text = f"{POD}  a: [1, fe80::, ä]\n  priorityClassName: 'glod'\n"
    (subject,) = read(text, "f", {"/Pod"}).subjects
    assert subject.object["spec"]["a"] == [1, "fe80::", "ä"]
    where = subject.locate(("spec", "priorityClassName"))
    assert (where.line, where.column, where.end_column) == (6, 22, 28)
    item = subject.locate(("spec", "a", 2))
    assert (item.line, item.column) == (5, 18)


def test_a_text_that_holds_the_masks_has_others_and_one_with_all_of_them_is_refused() -> None:
    assert value(f"a: [b:, {_PRIVATE[0]}]\n") == [{"a": ["b:", _PRIVATE[0]]}]
    with pytest.raises(Fault):
        value(f"a: [b:, '{''.join(_PRIVATE)}']\n")


def test_two_characters_of_64_have_to_be_left_for_masks() -> None:
    taken = "".join(map(chr, range(0xE001, 0xE03F)))
    assert value(f"a: [b:, '{taken}']\n") == [{"a": ["b:", taken]}]
    for last in "\ue000\ue03f":
        with pytest.raises(Fault):
            value(f"a: [b:, '{taken}{last}']\n")


def test_many_of_them_cost_no_more_than_one() -> None:
    start = time.process_time()
    assert len(value(f"a: [{', '.join(['fe80::'] * 20_000)}]\n")[0]["a"]) == 20_000
    assert time.process_time() - start < 5


@given(st.lists(st.text("ab:1[]{},'\"\\ ", min_size=1, max_size=6), max_size=4))
def test_quoted_text_is_never_changed(texts: list[str]) -> None:
    line = ", ".join(json.dumps(text) for text in texts)
    assert value(f"a: [x:, {line}]\n" if texts else "a: [x:]\n") == [{"a": ["x:", *texts]}]
