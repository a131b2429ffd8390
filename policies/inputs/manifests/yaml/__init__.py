"""YAML text: its nodes with positions, and their values as kubectl reads them."""

from __future__ import annotations

import re
import sys
from typing import Any

from forewarn.policies.base.light import Later, compile_now


def _for_later(pattern: str, flags: int = 0) -> Any:
    """Return a pattern; for a module of PyYAML, one that is compiled later."""
    module = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001
    return (Later if module.startswith("yaml.") else compile_now)(pattern, flags)


# `forewarn lint FILE` needs none of the patterns of PyYAML's reader, resolver and constructor, which libyaml replaces.
# Other modules get compiled patterns.
re.compile = _for_later  # type: ignore[assignment]
try:
    import yaml  # noqa: F401
finally:
    re.compile = compile_now
