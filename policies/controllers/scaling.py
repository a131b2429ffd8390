"""Fields with a number or a percentage. Source: apimachinery `util/intstr`."""

from __future__ import annotations

from typing import Any, Final

from forewarn.policies.objects.fields import ApiObject, InvalidObject, at, ref_of

_MAX_DIGITS: Final = 18
"""Maximum digits of a percentage, which upstream's Atoi reads in 64 bits."""


def scaled(obj: ApiObject, path: tuple[str, ...], total: int, *, up: bool, default: int | str = 0) -> int:
    """Return the value of a field: a number, or a percentage of `total`, rounded up or down; never below 0. Raises
    InvalidObject.

    `default`: the value of an absent field. Source: `GetScaledValueFromIntOrPercent`.
    """
    value: Any = at(obj, *path)
    value = default if value is None else value
    if isinstance(value, int) and not isinstance(value, bool):
        return max(value, 0)
    number = value.removesuffix("%") if isinstance(value, str) and value.endswith("%") else ""
    number = number.lstrip("0") or number[:1]
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise InvalidObject("must be a whole number or a percentage", path, ref_of(obj))
    share = int(number) * total
    return -(-share // 100) if up else share // 100
