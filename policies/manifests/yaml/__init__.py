"""YAML text: its nodes with positions, and their values as kubectl reads them."""

from __future__ import annotations

import re
from typing import Any, Final

_compile: Final = re.compile


class _Pattern:
    """A pattern that is compiled on its first use."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._arguments: Final = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(_compile(*self._arguments), name)
        setattr(self, name, value)
        return value


# To compile the patterns of PyYAML's reader, resolver and constructor, which libyaml replaces, takes a tenth of the
# time of `forewarn lint FILE`.
re.compile = _Pattern  # type: ignore[assignment]
try:
    import yaml  # noqa: F401
finally:
    re.compile = _compile
