"""How much memory a JSON value takes once it is parsed: 3 bytes of text, `{},`, become 72 bytes of Python."""

from __future__ import annotations

from sys import getsizeof
from typing import Any, Final

_SMALL: Final = range(-5, 257)
"""Integers that the interpreter has anyway."""


def memory_of(value: Any, limit: int) -> int:
    """Bytes that a parsed JSON value takes, its keys counted once; more than `limit` as soon as it takes more.

    The answer then says only that the value is larger than `limit`: nothing behind that point is visited. Only types
    that JSON is parsed to are looked into, not what is derived from them.
    """
    total = 0
    keys: set[str] = set()
    left = [value]
    while left and total <= limit:
        found = left.pop()
        if isinstance(found, str):
            total += getsizeof(found) if len(found) > 1 else 0
        elif found.__class__ is dict:
            total += getsizeof(found)
            if total > limit:
                break
            for key in found:
                if key not in keys:
                    keys.add(key)
                    total += getsizeof(key)
            left += found.values()
        elif found.__class__ is list:
            total += getsizeof(found)
            if total <= limit:
                left += found
        elif found is not None and not isinstance(found, bool) and not (isinstance(found, int) and found in _SMALL):
            total += getsizeof(found)
    return total
