"""All supported interpreters read the regular expressions alike, and a hostile text costs little time and memory."""

from __future__ import annotations

import ast
import io
import random
import re
import tracemalloc
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from forewarn.policies.inputs.manifests import documents, templates
from forewarn.policies.inputs.manifests.diagnostics import broken
from forewarn.policies.inputs.manifests.reading import is_untyped, matters_beyond_grammar, type_meta
from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SOURCES: Final = sorted(
    path for root in ("policies", "webhook", "src", "docs", ".build") for path in Path(root).rglob("*.py")
)
MAY_COMMIT: Final = re.compile(r"[*+?}]\+|\(\?>")
NO_PATTERNS: Final = {"!#$&'*+-.^_`|~"}
"""Strings that are not patterns, but could be."""


def strings(source: str) -> Iterator[str]:
    """Yield the strings of a module except docstrings, with "x" in place of what a format string inserts."""
    tree = ast.parse(source)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
            case ast.Constant(value=str(text)) if id(node) not in texts:
                yield text
            case ast.Constant(value=bytes(data)):
                yield data.decode("latin-1")


def commits(pattern: str) -> bool:
    """Report whether a pattern has a possessive quantifier or an atomic group."""
    parsed = io.StringIO()
    if MAY_COMMIT.search(pattern):
        with redirect_stdout(parsed), suppress(re.error):
            re.compile(pattern, re.DEBUG)
    return "POSSESSIVE" in parsed.getvalue() or "ATOMIC" in parsed.getvalue()


def test_no_pattern_has_possessive_quantifiers_or_atomic_groups() -> None:
    """CPython 3.11.0 to 3.11.4 reads such quantifiers of groups wrongly; with captures, 3.13.0 raises SystemError."""
    sources = filter(MAY_COMMIT.search, (path.read_text() for path in SOURCES))
    assert {text for source in sources for text in strings(source) if commits(text)} == NO_PATTERNS


@pytest.mark.parametrize("pattern", ["a++", "(?:a|b)*+", "[ab]?+", "a{2,3}+", "(?>a|b)"])
def test_such_a_pattern_is_found(pattern: str) -> None:
    assert [commits(text) for text in strings(f'"docstring a++"\nP = later(rb"{pattern}")')] == [True]
    assert not commits(re.escape(pattern))


def test_such_a_pattern_is_found_in_a_format_string() -> None:
    assert any(map(commits, strings('later(rf"[{A}]{B}*+")')))


LENGTH: Final = 1_000_000


def lint(text: str) -> None:
    """Use what the linter asks of a text before it parses the text."""
    data = text.encode()
    for document in documents.split(data, "a.yaml"):
        if isinstance(document, documents.Document):
            type_meta(document.data)
            is_untyped(document.data)
            matters_beyond_grammar(document.data)
            broken(document, documents.Fault("", len(document.text) - 1))


def outline(text: str) -> None:
    templates.outline(f"kind: Pod\n{text}\n".encode(), "a.yaml", frozenset({"/Pod"}), "default")


def quantity(text: str) -> None:
    with suppress(InvalidQuantity):
        parse_quantity(text)


HOSTILE: Final[dict[Callable[[str], None], Sequence[tuple[str, str, str]]]] = {
    lint: [
        ("", "\n", ""),
        ("", "---\n", ""),
        ("", "#\n---\n", ""),
        ("", " ", "x"),
        ("---", " ", "x"),
        ("--- #", " ", "\x80"),
        ("#", " ", "\x80"),
        ("kind: Pod", "\n ", "#"),
        ("null", " ", "x"),
        ("NULL", "\t", "x"),
        ("~", " ", "x"),
        ("<<", "\n", "x"),
        ("{", "\n", "x"),
        ("a]", " ", "x"),
        ("a}", " ", "x"),
        ("a: &a", " ", "x"),
        ("a: &a null", " ", "x"),
        ("a: &", "null", "x"),
        ("a: ", "&null ", "x"),
        ('a: "', "\\x", "{a"),
        ("a: '", "''", "{a"),
        ("a: |\n", " \n", "{a"),
        ("$", "A", "x"),
        ("${", "A", "x"),
        ("$A", " ", "x"),
    ],
    outline: [
        ("{{", " ", "x"),
        ("{{ if", " ", "x"),
        ("{{ $", "a", "x"),
        ("{{ $a", " ", "x"),
        ("{{ ", "a", ".b }}"),
        ('{{ "', "\\a", "}}"),
        ("", '{{ "', "}}"),
        ("", '{{ "}}', ""),
        ("", "{{ ` }}", ""),
        ("{{ indent", " ", "x }}"),
        ("{{ if a }}b", " ", "{{ end }}c"),
        ("{{ if a }}", " ", "{{ end }}"),
        (" ", " ", "{{ if a }}b{{ end }}"),
        ("a:", " ", '[ {{ b }}: "'),
        ("a:", " ", 'indent {{ b }}: "'),
        ("", "- ", "{{ b }}: ["),
        ("{{", " ", "else"),
    ],
    quantity: [("", "0", "x"), ("", "1", "x"), ("1.", "0", "x"), ("1", "E", "x"), ("1e", "0", "x"), ("0", "1", ".x")],
}


@pytest.mark.parametrize(
    ("read", "before", "repeated", "after"), [(read, *text) for read, texts in HOSTILE.items() for text in texts]
)
def test_a_long_text_is_read_in_linear_time_and_memory(
    read: Callable[[str], None], before: str, repeated: str, after: str
) -> None:
    """A quadratic pattern would take hours: the limit of a test is ten minutes. A group keeps 320 bytes per match."""
    text = before + repeated * (LENGTH // len(repeated)) + after
    tracemalloc.start()
    try:
        read(text)
        assert tracemalloc.get_traced_memory()[1] < 100 * LENGTH
    finally:
        tracemalloc.stop()


RANDOM: Final = random.Random(11)


def texts(pieces: Sequence[str], most: int = 14) -> Iterator[str]:
    """Yield random texts made of pieces."""
    for _ in range(cases(4_000)):
        yield "".join(RANDOM.choices(pieces, k=RANDOM.randrange(most)))


def yaml_reader(text: str) -> list[str]:
    """The documents of kubectl's YAMLReader: a separator in the first line of a document does not end it."""
    found = [""]
    for line in text.splitlines(keepends=True):
        if line.startswith("---") and found[-1]:
            found.append("")
        else:
            found[-1] += line
    return found


def test_documents_are_those_of_kubectl() -> None:
    for text in texts(["---\n", "---\n", "--- # a\n", "---  \n", "---\r\n", "\n", "# a\n", " # a\n", " \n", "a: b\n"]):
        read = [piece.text for piece in documents.split(text.encode(), "") if isinstance(piece, documents.Document)]
        assert [one for one in read if "a: b" in one] == [one for one in yaml_reader(text) if "a: b" in one], repr(text)


def end_of_action(text: str) -> int:
    at = 0
    while at < len(text) and not text.startswith("}}", at):
        if text.startswith('\\"', at):  # a mistake that begins no string
            at += 2
            continue
        quote, start, at = text[at], at, at + 1
        if quote in '"`':
            while text[at : at + 1] not in ("", quote, "\n" if quote == '"' else ""):
                at += 1 + (text[at] == "\\" and quote == '"')
            if text[at : at + 1] != quote or "\\\n" in text[start:at] * (quote == '"'):
                return -1
            at += 1
    return at if at < len(text) else -1


def test_an_action_of_go_ends_at_the_braces_outside_of_its_strings() -> None:
    for text in texts(['"', '"', "`", "}", "}}", "{", "\\", "a", "\n"]):
        assert templates._end_of_go(text, 0) == end_of_action(text), repr(text)
