"""The mutants themselves, and what is said of those that survive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.mutants.mutations import mutants_of, mutated
from tests.mutants.run import ROOT, every_mutant, explained, modules

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''
def first(a: int = 1, b: bool = True) -> "int | None":
    """1 < 2"""
    work.charge(3 * a)
    for n in each(range(a), 2):
        if not b or n < a:
            continue
        if first(n):
            return a + 1 if n < 1 else 1
'''


def test_each_mutant_has_one_change(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text(SOURCE)
    assert sorted(mutant.change for mutant in mutants_of(path, "some")) == sorted(
        [
            "1 -> 2",
            "1 -> 2",
            "1 -> 2 (2)",
            "1 -> 2 (3)",
            "n < 1 -> n <= 1",
            "True -> False",
            "not b or n < a -> not b and n < a",
            "not b -> b",
            "n < a -> n <= a",
            "continue -> break",
            "if first(n) -> if not",
            "a + 1 -> a - 1",
        ]
    )
    for mutant in mutants_of(path, "some"):
        compile(mutated(path, mutant), "some.py", "exec")


def test_every_module_and_test_file_is_there() -> None:
    for _, path, tests in modules():
        assert path.is_file()
        assert all((ROOT / test).exists() for test in tests)


def test_what_is_explained_is_a_mutant_still_and_has_a_reason() -> None:
    there = {mutant.key for mutant, _, _ in every_mutant()}
    for key, why in explained().items():
        assert key in there, key
        assert why
