"""The memory in bytes of parsed JSON: 3 bytes of text, `{},`, can become 72 bytes of Python objects."""

from __future__ import annotations

from sys import getsizeof
from typing import Any, Final

_SMALL: Final = range(-5, 257)
"""Integers that the interpreter caches, so that they need no memory."""
_TEXT: Final = getsizeof("")


def max_memory_of(text: str, start: int = 0, end: int | None = None) -> int:
    """Return an upper bound, in bytes, of the memory of the JSON in `text[start:end]` after parsing.

    Only counts characters, braces, brackets, quotes, commas and colons; does not parse.
    """
    count = text.count
    length = len(text) - start if end is None else end - start
    entries = count(",", start, end) + count(":", start, end) + 1
    containers = 184 * count("{", start, end) + 88 * count("[", start, end)
    return containers + 32 * count('"', start, end) + 64 * entries + (1 if text.isascii() else 4) * length


def memory_of(value: Any, limit: int) -> int:
    """Return the bytes of memory of a parsed JSON value; each distinct key counts once.

    Stops when the sum exceeds `limit`: a result above `limit` means only that the value is larger. Only follows the
    types that a JSON parser creates, no subclasses.
    """
    total = 0
    keys: set[str] = set()
    left: list[Any] = [[value]]
    total -= getsizeof(left[0])
    while left and total <= limit:
        objects = left.pop()
        total += getsizeof(objects)
        if total > limit:
            break
        if objects.__class__ is dict:
            keys.update(objects)
            objects = objects.values()
        for part in objects:
            kind = part.__class__
            if kind is str:
                if len(part) > 1:  # others are there anyway
                    total += _TEXT + len(part) if part.isascii() else getsizeof(part)
            elif kind is dict or kind is list:
                left.append(part)
            elif part is not None and kind is not bool and not (kind is int and part in _SMALL):
                total += getsizeof(part)
    return total + sum(map(getsizeof, keys)) if total <= limit else total
