"""A name in a docstring is one that the code has: what was renamed must not live on in its description."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILES = sorted(path for package in ("policies", "webhook") for path in Path(package).rglob("*.py"))
KNOWN = {"forewarn", "xxxxx", "ull", "down", "add_argument", "getpeercert", "sys.intern", "time.Duration"}
"""The program, parts of texts, and names of others."""
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """What a module names: in its code (keys and commands in short texts included), and in its docstrings."""

    identifiers: frozenset[str]
    defined: frozenset[str]
    """Classes and functions."""
    docstrings: tuple[str, ...]


@cache
def module_of(path: Path) -> Module:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    documented = [(node, text) for node in nodes if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node))]
    docstrings = {id(node.body[0].value) for node, _ in documented if isinstance(node.body[0], ast.Expr)}
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return Module(
        frozenset(identifiers(node for node in nodes if id(node) not in docstrings)),
        frozenset(node.name for node in nodes if isinstance(node, named)),
        tuple(text for _, text in documented),
    )


def identifiers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every name in these nodes, words in short texts included."""
    for node in nodes:
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) | ast.arg(name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name, other):
                yield from (other or name).split(".")
            case ast.Constant(value=str(text)) if "\n" not in text:
                yield from re.findall(r"\w+", text)


@cache
def defined() -> frozenset[str]:
    """Every module, class and function."""
    return frozenset().union(*(module_of(path).defined.union(path.with_suffix("").parts) for path in FILES))


@cache
def used() -> frozenset[str]:
    """Every name in the code."""
    return defined().union(*(module_of(path).identifiers for path in FILES))


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
    module = module_of(path)
    named = {name for text in module.docstrings for name in names_in(text)}
    dotted = {name for name in named if "." in name and not used().issuperset(name.split("."))}
    return dotted | {
        name
        for name in named
        if "." not in name and not any(name in known for known in (module.identifiers, defined(), names_of_tests()))
    }


def test_names_in_docstrings_are_in_the_code() -> None:
    assert {str(path): found for path in FILES if (found := unknown_names(path))} == {}
