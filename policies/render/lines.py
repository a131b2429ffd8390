"""Long lists of lines in text outputs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINES: Final = 20
"""Maximum lines of one kind."""


def limited(lines: Iterable[str], count: int, one: str, many: str, indent: str = "  ") -> Iterator[str]:
    """Yield the first MAX_LINES lines, and the number of the others. `one`, `many`: the noun for lines."""
    yield from (f"{indent}{line}" for line in islice(lines, MAX_LINES))
    if count > MAX_LINES:
        yield f"{indent}and {plural(count - MAX_LINES, f'more {one}', f'more {many}')}; use -o json for all"
