"""The glossary names things that are there, each once."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROWS = re.findall(r"^\| ([a-z ]+) \| (.+) \| `([\w.]+)` \|$", Path("docs/glossary.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", [name for _, _, name in ROWS])
def test_every_word_has_its_name_in_the_code(name: str) -> None:
    parts = name.split(".")
    paths = [Path(*parts[:n]) for n in range(1, len(parts))]
    modules = [len(path.parts) for path in paths if path.is_dir() or path.with_suffix(".py").is_file()]
    assert reduce(getattr, parts[max(modules) :], import_module(".".join(parts[: max(modules)]))) is not None


def test_words_are_told_once_and_in_a_line() -> None:
    words = [word for word, _, _ in ROWS]
    assert len(words) == len(set(words)) >= 12
    assert len(ROWS) == Path("docs/glossary.md").read_text().count("\n|") - 2


WAYS = (
    Path("docs/architecture.md")
    .read_text()
    .partition("## Three ways through the code")[2]
    .partition("**A change set**")[0]
)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w./]+)`", WAYS)) - {"/validate", "/mutate"}))
def test_what_the_ways_through_the_code_name_is_there(name: str) -> None:
    packages = [Path("policies"), Path("webhook")]
    if "/" in name or name.endswith(".py"):
        assert any(path.match(name) for package in packages for path in package.rglob("*")), "no such file"
        return
    sources = [path.read_text() for package in packages for path in package.rglob("*.py")]
    defines = re.compile(rf"((def|class) |^){name.rpartition('.')[2]}\b", re.MULTILINE)
    assert any(map(defines.search, sources)), "no such function or class"
