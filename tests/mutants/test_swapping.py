"""Exchanged code is the changed function's, and tests say of it what they say of a changed file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.mutants.mutations import mutants_of
from tests.mutants.swapping import exchange, verdicts

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
LIMIT = 5

def twice(n, times=2):
    return n * times

def within(n):
    def below(limit):
        return n < limit
    return below(LIMIT)

class Counter:
    start = 0

    def next(self):
        return self.start + 1

def unused(n):
    return n > 3
"""
TESTS = """
import sys
sys.path.insert(0, {folder!r})
from little import Counter, twice, within

def test_twice():
    assert twice(3) == 6

def test_within():
    assert within(4) and not within(6)

def test_next():
    assert Counter().next() == 1
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "little.py"
    path.write_text(SOURCE)
    (tmp_path / "test_little.py").write_text(TESTS.format(folder=str(tmp_path)))
    return path


def test_what_is_in_a_function_can_be_exchanged_and_nothing_else(module: Path) -> None:
    found = {mutant.change: exchange(module, mutant) for mutant in mutants_of(module, "little")}
    assert {change: made and (made[0].name, made[1].co_name) for change, made in found.items()} == {
        "5 -> 6": None,
        "2 -> 3": None,
        "0 -> 1": None,
        "n * times -> n // times": ("twice", "twice"),
        "n < limit -> n <= limit": ("within", "within"),
        "self.start + 1 -> self.start - 1": ("Counter.next", "next"),
        "1 -> 2": ("Counter.next", "next"),
        "n > 3 -> n >= 3": ("unused", "unused"),
        "3 -> 4": ("unused", "unused"),
    }


def test_each_mutant_gets_the_verdict_of_the_tests_that_run_it(module: Path) -> None:
    mutants = list(mutants_of(module, "little"))
    changed = [(number, mutant, module) for number, mutant in enumerate(mutants)]
    tests = [str(module.parent / "test_little.py")]
    found = {mutants[n].change: passed for n, passed in verdicts(changed, tests, 60, time.monotonic() + 600)}
    assert found == {
        "5 -> 6": None,
        "2 -> 3": None,
        "0 -> 1": None,
        "n * times -> n // times": False,
        "n < limit -> n <= limit": True,
        "self.start + 1 -> self.start - 1": False,
        "1 -> 2": False,
        "n > 3 -> n >= 3": None,
        "3 -> 4": None,
    }


def test_tests_that_fail_anyhow_say_nothing_of_mutants(module: Path) -> None:
    test = module.parent / "test_little.py"
    test.write_text(f"{test.read_text()}\n\ndef test_that_fails():\n    assert twice(3) == 7\n")
    changed = [(0, mutant, module) for mutant in mutants_of(module, "little")]
    assert list(verdicts(changed, [str(test)], 60, time.monotonic() + 600)) == [("fails", None)]
