"""Parse durations in Go's format: `1.5h`, `300ms`, `2m30s`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d{1,19}\.?\d{0,19}|\.\d{1,19})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST: Final = 128


def seconds(text: str) -> float | None:
    """Return a duration in seconds; None for invalid text. Source: Go's `time.ParseDuration`."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    if not rest or len(rest) > _LONGEST or _PART.sub("", rest):
        return None
    return sign * sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(rest))
