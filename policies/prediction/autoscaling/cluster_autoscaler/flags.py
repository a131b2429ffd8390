"""The types of flags of cluster-autoscaler. A field of settings declares one: `Annotated[Seconds, "scan-interval"]`.

Values are hostile: a reader returns None for an unreadable one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple, get_type_hints

from forewarn.policies.kubernetes.durations import parse_duration

_MAX_NUMBER: Final = 2**31 - 1
_MAX_LENGTH: Final = 253
_SHORTEST_INTERVAL: Final = 1.0


def number(value: object) -> int | None:
    """Return a whole number, also written as text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value, re.ASCII):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_NUMBER else None


def duration(value: str) -> float | None:
    found = parse_duration(value) if len(value) <= _MAX_LENGTH else None
    return found if found is not None and 0 <= found <= _MAX_NUMBER else None


def _interval(value: str) -> float | None:
    found = duration(value)
    return None if found is None else max(found, _SHORTEST_INTERVAL)


def _share(value: str) -> float | None:
    return float(value) if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,15})?", value, re.ASCII) else None


Switch = Annotated[bool, {"true": True, "false": False}.get]
Number = Annotated[int, number]
Seconds = Annotated[float, duration]
Interval = Annotated[float, _interval]
Share = Annotated[float, _share]


class Flag(NamedTuple):
    """A flag that a field of settings declares. `read`: parses the text of its value."""

    field: str
    read: Callable[[str], Any]
    is_switch: bool


def flags_of(settings: type) -> Mapping[str, Flag]:
    """Return the flags that the fields of a NamedTuple declare, by name."""
    hints = get_type_hints(settings, include_extras=True).items()
    declared = ((field, hint.__origin__, *hint.__metadata__) for field, hint in hints if hasattr(hint, "__metadata__"))
    return {flag: Flag(field, read, of is bool) for field, of, read, flag in declared}


def values_of(flags: Mapping[str, Flag], arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the given flags by field; None for an unreadable one."""
    return {flag.field: flag.read(arguments[name]) for name, flag in flags.items() if name in arguments}
