"""Mutants of a module: its source with one operator, constant or condition changed.

A mutant is named by the function it is in, the line of source without its indentation, and what is changed: line
numbers may move without making it another one.
"""

from __future__ import annotations

import ast
from collections import Counter
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


class Mutant(NamedTuple):
    """One change. `place`: the function it is in, `line`: the source line, `change`: what became of what, with a number
    where the same is changed in several places of that line; `node` and `number`: the how manieth node of the module in
    the order of `ast.walk`, and which of its changes."""

    module: str
    place: str
    line: str
    change: str
    node: int
    number: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by from one version of the source to the next."""
        return self.module, self.place, self.line, self.change


def mutants_of(path: Path, module: str) -> Iterator[Mutant]:
    """Every mutant of a module; annotations, texts and amounts of work that are charged stay as they are."""
    source = path.read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    places = _places(tree)
    alike: Counter[tuple[str, str, str]] = Counter()
    for index, node in enumerate(ast.walk(tree)):
        if index in places:
            line = lines[node.lineno - 1].strip()  # type: ignore[attr-defined]
            for number, (change, _) in enumerate(_changes(node)):
                alike[places[index], line, change] += 1
                which = alike[places[index], line, change]
                told = change if which == 1 else f"{change} ({which})"
                yield Mutant(module, places[index], line, told, index, number)


def mutated(path: Path, mutant: Mutant) -> ast.Module:
    """The module with that change."""
    tree = ast.parse(path.read_text())
    node = next(islice(ast.walk(tree), mutant.node, None))
    _, instead = next(islice(_changes(node), mutant.number, None))
    _put(node, instead)
    return ast.fix_missing_locations(tree)


def _places(tree: ast.Module) -> dict[int, str]:
    """Number of a node, in the order of `ast.walk` -> the function it is in; those that are code."""
    inside: dict[int, str] = {}
    omitted: set[int] = set()
    for node in ast.walk(tree):
        for field, child in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_params", "decorator_list"):
                for one in child if isinstance(child, list) else [child]:
                    omitted |= {id(n) for n in ast.walk(one)} if isinstance(one, ast.AST) else set()
        if isinstance(node, ast.Call):
            omitted |= {id(n) for part in _charged(node) for n in ast.walk(part)}
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            omitted |= {id(n) for n in ast.walk(node)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside[id(node)]}.{node.name}" if id(node) in inside else node.name
            inside |= {id(n): name for part in node.body for n in ast.walk(part)}
    return {
        number: inside.get(id(node), "")
        for number, node in enumerate(ast.walk(tree))
        if id(node) not in omitted and hasattr(node, "lineno")
    }


def _charged(call: ast.Call) -> list[ast.expr]:
    """How much work is charged: a figure that was measured, and no answer depends on it until time is up."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return call.args if name == "charge" else call.args[1:] if name == "each" else []


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(what is changed, the node instead)."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            yield _told(node, ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators))
        case ast.BoolOp():
            yield _told(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        case ast.UnaryOp(op=ast.Not()):
            yield _told(node, node.operand)
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_text(node):
            yield _told(node, ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
        case ast.Constant(value=bool(flag)):
            yield _told(node, ast.Constant(not flag))
        case ast.Constant(value=int(number)):
            yield _told(node, ast.Constant(number + 1))
        case ast.If() | ast.IfExp() | ast.While() if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            instead = copy(node)
            instead.test = ast.UnaryOp(ast.Not(), node.test)
            yield f"if {ast.unparse(node.test)} -> if not", instead
        case ast.Continue():
            yield "continue -> break", ast.Break()
        case ast.Break():
            yield "break -> continue", ast.Continue()


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(s, ast.JoinedStr) or (isinstance(s, ast.Constant) and isinstance(s.value, str)) for s in sides
    )


def _told(node: ast.AST, instead: ast.AST) -> tuple[str, ast.AST]:
    return f"{ast.unparse(node)} -> {ast.unparse(instead)}", instead


def _put(node: ast.AST, instead: ast.AST) -> None:
    """The node becomes the other one, where it stands."""
    node.__class__ = instead.__class__
    where = {name: getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    node.__dict__.clear()
    node.__dict__.update(instead.__dict__, **where)
