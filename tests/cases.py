"""The number of random cases that a test tries: RANDOM_CASES=10 for ten times as many."""

from __future__ import annotations

import os

_FACTOR = int(os.environ.get("RANDOM_CASES", "1"))


def cases(count: int) -> int:
    """This number, times RANDOM_CASES."""
    return count * _FACTOR
