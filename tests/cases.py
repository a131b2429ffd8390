"""The number of random cases that a test tries: RANDOM_CASES=10 for ten times as many as CI tries; default: half."""

from __future__ import annotations

import os

_FACTOR = float(os.environ.get("RANDOM_CASES", "0.5"))


def cases(count: int) -> int:
    """This number, times RANDOM_CASES; at least 1."""
    return max(1, round(count * _FACTOR))
