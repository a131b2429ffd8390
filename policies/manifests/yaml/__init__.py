"""YAML text: its nodes with positions, and their values as kubectl reads them."""

from __future__ import annotations

import re
import sys
from typing import Any

from forewarn.policies.patterns import Later, compile_now


def _for_later(pattern: str, flags: int = 0) -> Any:
    """Return a pattern; for a module of PyYAML, one that is compiled later."""
    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001
    return (Later if module.startswith("yaml.") else compile_now)(pattern, flags)


# To compile the patterns of PyYAML's reader, resolver and constructor, which libyaml replaces, takes 10 of 140 ms of
# `forewarn lint FILE`. What else is imported meanwhile has its patterns at once.
re.compile = _for_later  # type: ignore[assignment]
try:
    import yaml  # noqa: F401
finally:
    re.compile = compile_now
