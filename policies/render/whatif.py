"""A simulated change as text and Markdown: the cluster before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import (
    NAMED,
    cut,
    first_of,
    one_line,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


_LONGEST_NAME: Final = 100
_LONGEST_NAMES: Final = 60
"""Characters of several names."""


def named(names: Iterable[str], noun: str = "workload", *, is_counted: bool = False, most: int = NAMED) -> str:
    """The different names, of many the first and the number of the others; "" without any. `is_counted`: after another
    number, of many their number and the first. `most`: so many names are few.
    """
    shown = [cut(one_line(name), _LONGEST_NAME) for name in dict.fromkeys(names)]
    are_few = len(shown) <= min(2, most) or (len(shown) <= most and sum(map(len, shown[1:])) <= _LONGEST_NAMES)
    if is_counted and not are_few:
        return f"{plural(len(shown), noun)} such as {shown[0]}"
    return first_of(shown if are_few else [shown[0], plural(len(shown) - 1, f"more {noun}")], noun)


# A class that changes


# Markdown
