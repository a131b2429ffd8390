"""Imports inside functions are seams: what is imported late, and why, is on a list, so that each new one is deliberate.

`tests/deferred_imports.json`: module or package -> why it is not imported at the top.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent
SEAMS: dict[str, str] = json.loads((HERE / "deferred_imports.json").read_text())


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """These statements and all in them: a tenth of the nodes of a module."""
    for statement in body:
        yield statement
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from statements(getattr(statement, part, ()))


@cache
def deferred() -> frozenset[tuple[str, str]]:
    """(file, what it imports inside a function)."""
    return frozenset(_deferred())


def _deferred() -> Iterator[tuple[str, str]]:
    for top in ("policies", "webhook"):
        for path in sorted((HERE.parent / top).rglob("*.py")):
            tree = ast.parse(path.read_text())
            functions = [n for n in statements(tree.body) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
            for node in (n for function in functions for n in statements(function.body)):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                yield from ((str(path.relative_to(HERE.parent)), name) for name in names)


def seam_of(name: str) -> str | None:
    """The entry that it falls under, None where there is none."""
    parts = name.split(".")
    packages = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((package for package in packages if package in SEAMS), None)


def test_every_import_in_a_function_is_at_a_seam() -> None:
    found = {(file, name) for file, name in deferred() if seam_of(name) is None}
    assert not found, "import it at the top, or say in tests/deferred_imports.json why not"


def test_every_seam_is_used_and_has_a_reason() -> None:
    assert {seam_of(name) for _, name in deferred()} == set(SEAMS)
    assert all(SEAMS.values())


@pytest.mark.parametrize(
    ("name", "seam"),
    [
        ("celpy.evaluation", "celpy"),
        ("policies", None),
        ("forewarn.policies.kubernetes.scheduling.bulk", "forewarn.policies.kubernetes.scheduling"),
    ],
)
def test_a_module_is_at_the_seam_of_its_package(name: str, seam: str | None) -> None:
    assert seam_of(name) == seam
