"""No modules import each other in a circle: what is imported at the top of a file, types left out."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.test_deferred_imports import statements

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

ROOT = Path(__file__).parents[1]


def modules() -> dict[str, Path]:
    found = {}
    for path in (path for top in ("policies", "webhook") for path in (ROOT / top).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(("forewarn", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(body: list[ast.stmt], known: Container[str]) -> Iterator[str]:
    """The modules that are imported when these statements are run."""
    for statement in body:
        match statement:
            case ast.ImportFrom(module=str(package), names=names):
                inner = (f"{package}.{alias.name}" for alias in names)
                yield from (name if name in known else package for name in inner)
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imported(statement.orelse, known)
            case ast.If() | ast.Try():
                yield from imported([*statement.body, *statement.orelse], known)


@cache
def imports() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Module -> the modules that it imports at the top, and all that it imports, also in functions and for types."""
    known, found = modules(), {}
    for name, path in known.items():
        tree = ast.parse(path.read_text())
        everywhere: list[ast.stmt] = [n for n in statements(tree.body) if isinstance(n, ast.ImportFrom | ast.Import)]
        found[name] = frozenset(imported(tree.body, known)), frozenset(imported(everywhere, known))
    return found


def graph() -> dict[str, set[str]]:
    """Module -> those that it imports."""
    known = imports()
    return {name: {one for one in top if one in known} for name, (top, _) in known.items()}


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(graph()).prepare()


def test_a_circle_would_be_found() -> None:
    circle = graph()
    name = next(iter(circle["forewarn.policies.linting.evaluation.evaluator"] - {"policies"}))
    circle[name].add("forewarn.policies.linting.evaluation.evaluator")
    with pytest.raises(CycleError):
        TopologicalSorter(circle).prepare()


def packages() -> dict[str, set[str]]:
    """First-level package or module of policies and webhook -> those that it imports anywhere, also for types."""
    found = dict[str, set[str]]()
    for name, (_, everywhere) in imports().items():
        inner = (".".join(each.split(".")[:3]) for each in everywhere if each.startswith("forewarn."))
        found.setdefault(".".join(name.split(".")[:3]), set()).update(inner)
    return {name: others - {name} for name, others in found.items()}


def test_no_two_packages_import_each_other() -> None:
    found = packages()
    both = {(a, b) for a, others in found.items() for b in others if a in found.get(b, ()) and a < b}
    assert both == set()
