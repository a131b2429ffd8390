"""The terms and paths of docs/internals/architecture.md exist in the code."""

import ast
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ARCHITECTURE = Path("docs/internals/architecture.md")
TERMS = ARCHITECTURE.read_text().partition("## Terms")[2].partition("## Modules")[0]
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
