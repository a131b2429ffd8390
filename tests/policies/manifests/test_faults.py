"""What is wrong with a text, and at which characters of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from yaml.error import Mark, MarkedYAMLError, YAMLError

from forewarn.policies.base.findings import ObjectRef
from forewarn.policies.inputs.manifests.diagnostics import _owners, broken
from forewarn.policies.inputs.manifests.documents import Document, Fault
from forewarn.policies.inputs.manifests.json_text import JsonSource, Spans, members
from forewarn.policies.inputs.manifests.yaml.nodes import _code, compose, fault_of

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path


@pytest.mark.parametrize(
    ("data", "says", "span"),
    [
        (b"a: \xff\n", "this is not UTF-8", (3, 4)),
        ("ä: ".encode() + b"\xff\n", "this is not UTF-8", (3, 4)),
        (b"a: \x07b\n", r"the control character U\+0007 is not allowed", (3, 4)),
        (b"a:\n\tb: c\n", "a tab cannot indent YAML", (3, 4)),
    ],
)
def test_a_character_that_cannot_be_is_shown(data: bytes, says: str, span: tuple[int, int]) -> None:
    with pytest.raises(Fault, match=says) as fault:
        compose(Document(data, "f.yaml"))
    assert (fault.value.start, fault.value.end) == span


@pytest.mark.parametrize(("character", "code"), [(7, 7), (b"\x80\x81", 0x80), ("\x07", 7)])
def test_both_parsers_name_a_character_in_their_way(character: object, code: int) -> None:
    assert _code(character) == code


def mark(index: int) -> Mark:
    return Mark("f.yaml", index, 0, index, None, 0)


@pytest.mark.parametrize(
    ("error", "start", "since"),
    [
        (MarkedYAMLError(problem="x"), 0, None),
        (MarkedYAMLError(problem="x", problem_mark=mark(2)), 2, None),
        (MarkedYAMLError("while", mark(1), "x", mark(2)), 2, 1),
        (MarkedYAMLError(None, mark(1), "x", mark(2)), 2, None),
        (MarkedYAMLError("while", None, "x", mark(2)), 2, None),
        (YAMLError("x"), 0, None),
    ],
)
def test_a_fault_begins_where_the_parser_says(error: YAMLError, start: int, since: int | None) -> None:
    fault = fault_of(error, Document(b"a: b\n", "f.yaml"))
    assert (fault.start, fault.since) == (start, since)


def braces_of(text: str, fault: int) -> str | None:
    found = broken(Document(text.encode(), "f.yaml"), Fault("x", fault))
    return found.message if found.rule == "template-braces" else None


@pytest.mark.parametrize(
    ("text", "are"),
    [
        ("{{ a }}\n@", True),
        ("a#b: {{ c }}\n@", True),
        ("a: b # {{ c }}\n@", False),
        ("  # {{ c }}\n@", False),
        ("a: '{{ c }}'\n@", False),
        ("a: '{{ c }}' @", True),
        ("a: @ '{{ c }}'", True),
        ("@\na: {{ c }}\n", False),
        ('a: "b" {{ c }}\n@', True),
        ("a: 'b' {{ c }}\n@", True),
        ("\n{{ a }} @", True),
        ("# {{ a }}\n" * 999 + "b: {{ c }}\n@", True),
        ("# {{ a }}\n" * 1_000 + "b: {{ c }}\n@", False),
    ],
)
def test_braces_in_front_of_a_fault_are_its_cause(text: str, are: bool) -> None:
    assert (braces_of(text, text.index("@")) is not None) is are


def test_braces_in_the_next_line_are_not_the_cause_of_a_fault_in_an_empty_one() -> None:
    assert braces_of("\n{{ a }}\n", 0) is None


def test_what_begins_where_an_object_ends_is_not_its() -> None:
    first, second = ObjectRef("", "Pod", "", "a"), ObjectRef("", "Pod", "", "b")
    owner_at = _owners([(7, 9, second), (2, 5, first)])
    assert [owner_at(index) for index in (1, 2, 4, 5, 7, 8, 9)] == [None, first, first, None, second, second, None]


def test_long_braces_are_cut() -> None:
    whole, longer = "{{" + "a" * 56 + "}}", "{{" + "a" * 57 + "}}"
    assert f"template braces {whole}:" in (braces_of(f"{whole}\n", 0) or "")
    assert f"template braces {longer[:57]}...:" in (braces_of(f"{longer}\n", 0) or "")


def test_members_of_json_stand_where_they_stand() -> None:
    text = '{"a":12,"b" : [3,45 , {"c":6}] }'
    found = {member.key: text[member.start : member.end] for member in members(text, 0)}
    assert found == {"a": "12", "b": '[3,45 , {"c":6}]'}
    assert [text[m.key_start : m.key_end] for m in members(text, 0)] == ['"a"', '"b"']
    assert [text[m.start : m.end] for m in members(text, text.index("["))] == ["3", "45", '{"c":6}']
    assert not list(members(text, text.index("12")))


def test_what_is_not_there_is_shown_at_its_parent() -> None:
    source = JsonSource(Spans(Document(b'{"a": {"b": {"c": 1}}}', "f.json")), 0)
    paths: tuple[Path, ...] = ((), ("a", "x", "b"), ("a", "x"), ("x",))
    shown = {path: tuple(source.locate(path)[2:]) for path in paths}
    assert shown == {(): (1, 2), ("a", "x", "b"): (2, 5), ("a", "x"): (2, 5), ("x",): (1, 2)}
