"""The test that `each` makes."""

from __future__ import annotations

import pytest

from tests.cases import each


def check_is_even(number: int) -> None:
    assert number % 2 == 0


def test_it_fails_without_cases() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        each(list[tuple[int]])(check_is_even)()


def test_it_fails_with_the_faults_of_all_cases() -> None:
    with pytest.raises(ExceptionGroup, match="2 cases"):
        each(lambda: [(1,), (2,), (3,)])(check_is_even)()
