"""Durations of options and files are those of Go, or numbers of seconds."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.kubernetes.durations import seconds


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), (1.5, 1.5), ("7", 7), ("1.5", 1.5), ("90s", 90), ("5m", 300), ("1h", 3600), ("1.5m", 90), ("1h30m", 5400)],
)
def test_durations(value: Any, number: float) -> None:
    assert seconds(value) == number


@pytest.mark.parametrize("value", [None, True, -1, 1e9, float("nan"), "", "s", "-5m", "2d", "1h 5m", "9" * 99, []])
def test_other_values_are_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^at must be seconds, or a duration in s, m or h such as 90s, 5m or 1h$"):
        seconds(value)
