"""The work that a call does: counted where Python does it, else CPU time, which other processes hardly change."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ATTEMPTS = 6


def steps(work: Callable[[], object]) -> int:
    """The lines of Python that a call executes: the same number each time. Loops within C functions do not count."""
    count, before = 0, sys.gettrace()

    def trace(frame: object, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cpu_seconds(work: Callable[[], object], enough: float) -> float:
    """The least CPU time of a few calls; the first call that takes at most `enough` is the last one."""
    least = float("inf")
    for _ in range(_ATTEMPTS):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least <= enough:
            break
    return least


def growth(work: Callable[[int], Callable[[], object]], small: int, large: int, enough: float, floor: float) -> float:
    """The factor by which CPU time grows from a small to a large input, the least of a few attempts.

    The first attempt with at most `enough` is the last one. The small input counts as at least `floor` seconds.
    """
    least = float("inf")
    for _ in range(_ATTEMPTS):
        base = max(cpu_seconds(work(small), float("inf")), floor)
        least = min(least, cpu_seconds(work(large), float("inf")) / base)
        if least <= enough:
            break
    return least
