"""The terms and paths of docs/internals/architecture.md exist in the code."""

import ast
import json
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.base.documents import key_of
from forewarn.policies.base.documents.answer import Effects

ARCHITECTURE = Path("docs/internals/architecture.md")
TERMS = ARCHITECTURE.read_text().partition("## Terms")[2].partition("## Modules")[0]
COUNTERS, TERMS = TERMS.partition("Other terms:")[::2]
ROWS = re.findall(r"^\| ([a-z ]+) \| (.+) \| `([\w.]+)` \|$", TERMS, re.MULTILINE)


@pytest.mark.parametrize("name", [name for _, _, name in ROWS])
def test_every_term_names_existing_code(name: str) -> None:
    parts = name.split(".")
    paths = [Path(*parts[:n]) for n in range(1, len(parts))]
    modules = [len(path.parts) for path in paths if path.is_dir() or path.with_suffix(".py").is_file()]
    module = import_module(".".join(["forewarn", *parts[: max(modules)]]))
    assert reduce(getattr, parts[max(modules) :], module) is not None


def test_each_term_is_one_row() -> None:
    words = [word for word, _, _ in ROWS]
    assert len(words) == len(set(words)) >= 12
    assert len(ROWS) == TERMS.count("\n|") - 2


ENDPOINTS = {"/validate", "/mutate", "/readyz"}
WAYS = ARCHITECTURE.read_text().partition("## Find the place for a change")[2]


def test_every_path_and_name_exists() -> None:
    paths = [path for package in ("policies", "webhook", "docs", "manifests") for path in Path(package).rglob("*")]
    sources = [path.read_text() for path in paths if path.suffix == ".py"]

    def exists(name: str) -> bool:
        if "/" in name or name.endswith(".py"):
            return any(path.match(name) for path in paths)
        last = name.rpartition(".")[2]
        defines = re.compile(rf"((def|class) |^ *|= ){last}\b", re.MULTILINE)
        return any(last in source and defines.search(source) for source in sources)

    names = set(re.findall(r"`([\w./]+)`", WAYS)) - ENDPOINTS
    assert names
    assert [name for name in sorted(names) if not exists(name)] == []


SEMANTICS = WAYS.partition("## Semantics and their modules")[2].partition("\n## ")[0]
PLACES = re.findall(r"^\| (?!semantic )(\w.+) \| (.+) \|$", SEMANTICS, re.MULTILINE)


@pytest.mark.parametrize(("semantic", "place"), PLACES, ids=[semantic for semantic, _ in PLACES])
def test_every_semantic_is_in_its_place(semantic: str, place: str) -> None:
    quoted = re.findall(r"`([^`]+)`", place)
    paths = [Path("policies", name) for name in quoted if "/" in name]
    assert paths, semantic
    assert [path for path in paths if not path.exists()] == []
    modules = [module for path in paths for module in (path.rglob("*.py") if path.is_dir() else [path])]
    text = "\n".join(module.read_text() for module in modules)
    names = [name for name in quoted if re.fullmatch(r"\w+", name)]
    assert [name for name in names if not re.search(rf"(def|class) {name}\b", text)] == []


def test_each_semantic_is_one_row() -> None:
    assert len({semantic for semantic, _ in PLACES}) == len(PLACES) >= 10
    assert len(PLACES) == SEMANTICS.count("\n|") - 2 * SEMANTICS.count("\n| semantic |")


CHANGES = re.findall(r"^\| (?!to change )(.+) \| (.+) \|$", WAYS.partition("\n## ")[0], re.MULTILINE)


def test_the_table_of_changes_names_files_for_each() -> None:
    assert len(CHANGES) >= 10
    assert [change for change, places in CHANGES if "/" not in places] == []


VAGUE = {"of", "most", "given", "left", "whose", "told", "said", "known", "anyway", "each", "found"}


def _vague_names(path: Path) -> Iterator[str]:
    """Yield the functions, parameters and module-level names with a name that says nothing about their content."""
    tree = ast.parse(path.read_text())
    targets = [
        node.targets if isinstance(node, ast.Assign) else [node.target]
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    names = [(target.id, target.lineno) for group in targets for target in group if isinstance(target, ast.Name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names += [(node.name, node.lineno), *((parameter.arg, parameter.lineno) for parameter in parameters)]
    yield from (f"{path}:{line} {name}" for name, line in names if name in VAGUE)


def test_names_of_functions_parameters_and_modules_are_not_vague() -> None:
    paths = [path for package in ("policies", "webhook") for path in Path(package).rglob("*.py")]
    assert [name for path in paths for name in _vague_names(path)] == []


NAMES = re.findall(r"^\| ((?:`\w+`,? ?)+) \| ((?:`\w+`,? ?)+) \|$", COUNTERS, re.MULTILINE)
OTHER_NAMES = {name for _, others in NAMES for name in re.findall(r"\w+", others)} | {"settled_at"}
OTHER_KEYS = {key_of(name) for name in OTHER_NAMES} | {"settled"}


def test_the_glossary_has_all_counters_and_at_most_30_terms() -> None:
    counters = [name for own, _ in NAMES for name in re.findall(r"\w+", own)]
    assert sorted(counters) == sorted(name for name in Effects._fields if name != "down_seconds")
    assert len(counters) + len(ROWS) <= 30


def test_counters_have_no_other_name_in_code() -> None:
    """In the rooms that ask questions and answer them; others have names of upstream."""
    found = []
    for path in (path for room in ("base", "questions", "cli") for path in Path("policies", room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [getattr(node, field, "") for field in ("id", "arg", "attr", "name")]
            found += [f"{path}:{node.lineno} {name}" for name in names if name in OTHER_NAMES]  # type: ignore[attr-defined]
    assert found == []


def _keys(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {}) if isinstance(schema.get("properties"), dict) else ()
        for value in schema.values():
            yield from _keys(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _keys(value)


def test_counters_have_no_other_name_in_json_options_and_headings() -> None:
    schemas = [json.loads(path.read_text()) for path in Path("docs/reference/schemas").glob("*.json")]
    assert {key for schema in schemas for key in _keys(schema)} & OTHER_KEYS == set()
    options = re.findall(r"--([a-z-]+)", Path("docs/reference/cli.md").read_text())
    assert {option.replace("-", "_") for option in options} & OTHER_NAMES == set()
    pages = [re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL) for path in Path("docs").rglob("*.md")]
    headings = [
        word for page in pages for line in re.findall(r"^#+ (.+)$", page, re.MULTILINE) for word in line.split()
    ]
    assert {*headings} & OTHER_NAMES == set()


def _lines_of_text_functions(path: Path) -> int:
    """Return the code lines of the functions that return `str`, with signatures, without docstrings and comments."""
    text = path.read_text()
    lines = set[int]()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.returns
            and ast.unparse(node.returns) == "str"
        ):
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
            if ast.get_docstring(node):
                lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code = text.splitlines()
    return sum(code[line - 1].strip()[:1] not in ("", "#") for line in lines)


def test_functions_that_return_text_have_few_lines() -> None:
    paths = [path for package in ("policies", "webhook") for path in Path(package).rglob("*.py")]
    (limit,) = re.findall(r"`-> str`\) have at most ([\d,]+) code lines", ARCHITECTURE.read_text())
    assert sum(map(_lines_of_text_functions, paths)) <= int(limit.replace(",", ""))
