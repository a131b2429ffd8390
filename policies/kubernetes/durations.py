"""Durations as text: as Go writes them, and as options and files of forewarn take them."""

from __future__ import annotations

import re
from typing import Any, Final

from forewarn.policies.base.light import later

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = later(r"(\d{1,19}\.?\d{0,19}|\.\d{1,19})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_LENGTH: Final = 128


def parse_duration(text: str) -> float | None:
    """Return a duration in seconds; None for invalid text. Source: Go's `time.ParseDuration`."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    if not rest or len(rest) > _MAX_LENGTH or _PART.sub("", rest):
        return None
    return sign * sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(rest))


def seconds(value: Any, what: str = "at") -> float:
    """Return the seconds of a duration: a number of seconds, also as text, or text such as `90s`, `5m`, `1h30m`.

    `what`: name of the field for the message. Raises ValueError.
    """
    found = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    elif isinstance(value, str):
        found = parse_duration(f"{value}s") if value[-1:].isdecimal() else parse_duration(value)
    if found is None or not 0 <= found < 1e9:
        raise ValueError(f"{what} must be seconds, or a duration in s, m or h such as 90s, 5m or 1h")
    return found
