"""Findings and predictions as text, for users and for programs."""

from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from typing import TypeVar

T = TypeVar("T")
Painter = Callable[[str, str], str]
"""Applies a style to a text."""


def plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a Painter)
    return text


def fitting_prefix(items: Sequence[T], limit: int, size_of: Callable[[T], int]) -> list[T]:
    """Return the first of the items, whose sizes are at most `limit` together."""
    sizes = accumulate(map(size_of, items))
    return [item for item, _ in takewhile(lambda pair: pair[1] <= limit, zip(items, sizes, strict=True))]
