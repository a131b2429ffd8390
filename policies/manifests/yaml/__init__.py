"""YAML text: its nodes with positions, and their values as kubectl reads them."""

from __future__ import annotations

import re
import sys
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


def _for_later(pattern: str, flags: int = 0) -> Any:
    """Return a pattern; for a module of PyYAML, one that is compiled later."""
    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001
    return (_Pattern if module.startswith("yaml.") else _compile)(pattern, flags)


# To compile the patterns of PyYAML's reader, resolver and constructor, which libyaml replaces, takes 10 of 140 ms of
# `forewarn lint FILE`. What else is imported meanwhile has its patterns at once.
re.compile = _for_later  # type: ignore[assignment]
try:
    import yaml  # noqa: F401
finally:
    re.compile = _compile
