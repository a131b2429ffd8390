"""Regular expressions that are compiled on their first use: `forewarn lint FILE` needs few of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr, Final

if TYPE_CHECKING:
    from re import Pattern

compile_now: Final = re.compile


class Later:
    """A pattern that is compiled on its first use."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._arguments: Final = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of copies that have no arguments yet
            raise AttributeError(name)
        value = getattr(compile_now(*self._arguments), name)
        setattr(self, name, value)
        return value


def later(pattern: AnyStr, flags: int = 0) -> Pattern[AnyStr]:
    """Return a pattern of which only the methods and attributes can be used: it is no argument of functions of re."""
    return Later(pattern, flags)  # type: ignore[return-value]
