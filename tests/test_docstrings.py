"""A name in a docstring is one that the code has: what was renamed must not live on in its description."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FILES = sorted(path for package in ("policies", "webhook") for path in Path(package).rglob("*.py"))
KNOWN = {"forewarn", "xxxxx", "ull", "down", "add_argument", "getpeercert", "sys.intern", "time.Duration"}
"""The program, parts of texts, and names of others."""
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Every name in the code of a module, words in its short texts (keys, commands) included."""
    docstrings = {id(node.body[0].value) for node, _ in documented(tree) if isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) | ast.arg(name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name, other):
                yield from (other or name).split(".")
            case ast.Constant(value=str(text)) if id(node) not in docstrings and "\n" not in text:
                yield from re.findall(r"\w+", text)


def documented(tree: ast.Module) -> Iterator[tuple[DOCUMENTED, str]]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node, text


@cache
def identifiers_of(path: Path) -> frozenset[str]:
    return frozenset(identifiers(parsed(path)))


@cache
def defined() -> frozenset[str]:
    """Every module, class and function."""
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for path in FILES for node in ast.walk(parsed(path)) if isinstance(node, named)}
    return frozenset(found.union(*(path.with_suffix("").parts for path in FILES)))


@cache
def used() -> frozenset[str]:
    """Every name in the code."""
    return defined().union(*map(identifiers_of, FILES))


def names_in(docstring: str) -> Iterator[str]:
    """Names in backticks, written as Python writes them; upstream's are in sentences that say so."""
    ours = re.sub(r"(Source|[Uu]pstream)[^.]*(\.|$)", "", docstring)
    for name in re.findall(r"(?<!`)`([a-z_]+(?:\.[a-z_]+)*)(?:\([^`]*\))?`(?!`)", ours):
        if name not in KNOWN and not name.endswith(".go"):
            yield name


@cache
def names_of_tests() -> frozenset[str]:
    """Every test, which a docstring may name as what holds it."""
    found = (
        re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) for path in Path("tests").rglob("test_*.py")
    )
    return frozenset().union(*found)


def unknown_names(path: Path) -> set[str]:
    tree = parsed(path)
    named = {name for _, text in documented(tree) for name in names_in(text)}
    dotted = {name for name in named if "." in name and not used().issuperset(name.split("."))}
    return dotted | {
        name
        for name in named
        if "." not in name and not any(name in known for known in (identifiers_of(path), defined(), names_of_tests()))
    }


def test_names_in_docstrings_are_in_the_code() -> None:
    assert {str(path): found for path in FILES if (found := unknown_names(path))} == {}
