"""No function is complex."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.test_deferred_imports import statements

MAX_COMPLEXITY = 20
"""Rank C of radon. Besides the statements that C901 of ruff counts, radon counts boolean operators, conditional
expressions and comprehensions.
"""
DECIDING = re.compile(r"\b(?:and|or|if|elif|else|for|while|except|case|assert)\b")
"""At least one for each decision."""
MODULES = sorted(path for package in ("policies", "webhook") for path in Path(package).rglob("*.py"))


def decisions(node: ast.AST) -> int:
    """The number of decisions in a node itself, as radon counts them."""
    match node:
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.Try(handlers=handlers, orelse=otherwise):
            return len(handlers) + bool(otherwise)
        case ast.For(orelse=otherwise) | ast.AsyncFor(orelse=otherwise) | ast.While(orelse=otherwise):
            return 1 + bool(otherwise)
        case ast.comprehension(ifs=conditions):
            return 1 + len(conditions)
        case ast.Match(cases=cases):
            return sum(not isinstance(case.pattern, ast.MatchAs) or case.pattern.pattern is not None for case in cases)
    return isinstance(node, ast.If | ast.IfExp | ast.Assert)


def complex_functions(source: str) -> list[str]:
    """The functions that are too complex, with line and complexity."""
    lines = source.splitlines()
    functions = [
        (node, 1 + sum(map(decisions, ast.walk(node))))
        for node in statements(ast.parse(source).body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(DECIDING.findall("\n".join(lines[node.lineno - 1 : node.end_lineno]))) >= MAX_COMPLEXITY
    ]
    return [f"line {node.lineno}: {node.name} {found}" for node, found in functions if found > MAX_COMPLEXITY]


def test_no_function_is_complex() -> None:
    complex_ones = {path: found for path in MODULES if (found := complex_functions(path.read_text()))}
    assert MODULES
    assert complex_ones == {}


def test_a_complex_function_is_found() -> None:
    conditions = "\n".join(f"    if a and b: return [x for x in c if x] or {n}" for n in range(4))
    assert complex_functions(f"def f(a, b, c):\n{conditions}\n") == ["line 1: f 21"]
    assert complex_functions(f"def f(a, b):\n{conditions}\n".replace("and b", "", 1)) == []
