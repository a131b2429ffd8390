"""Cases of tests. RANDOM_CASES=10 tries ten times as many random cases as CI tries; default: half."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Case = TypeVarTuple("Case")
_FACTOR = float(os.environ.get("RANDOM_CASES", "0.5"))


def cases(count: int) -> int:
    """This number of random cases, times RANDOM_CASES; at least 1."""
    return max(1, round(count * _FACTOR))


def each(found: Callable[[], Iterable[tuple[*Case]]]) -> Callable[[Callable[[*Case], None]], Callable[[], None]]:
    """Make one test of a check of one case. It fails with the faults of all cases, or without cases.

    For hundreds of cases of a millisecond each: pytest needs 4 ms for a test.
    """

    def one_test(check: Callable[[*Case], None]) -> Callable[[], None]:
        def test() -> None:
            is_empty, faults = True, []
            for case in found():
                is_empty = False
                try:
                    check(*case)
                except Exception as fault:
                    fault.add_note(f"case {case!r:.300}")
                    faults.append(fault)
            assert not is_empty, "no cases"
            if faults:
                raise ExceptionGroup(f"{len(faults)} cases", faults)

        test.__name__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return one_test
