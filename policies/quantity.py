"""Quantities as the API server reads and prints them (apimachinery `pkg/api/resource`).

A quantity is an exact number and the notation it was written in. Arithmetic is exact; a sum keeps the notation of
its first non-zero operand, as upstream's `Quantity.Add` does, because messages print it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * NANO
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_SYNTAX: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,9})", re.ASCII)
_MAX_EXPONENT: Final = 400  # beyond any amount that means something; keeps hostile input from allocating gigabytes


class InvalidQuantity(ValueError):
    """The text is no quantity; the message is the API server's."""


class Format(Enum):
    """The notation a quantity was written in, and is printed in."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount: `nano` billionths, printed in `format`. Equality and order are those of the amount alone."""

    nano: int
    format: Format = Format.DECIMAL_SI

    @property
    def value(self) -> int:
        """The amount in units, rounded up away from zero (upstream `Value`)."""
        return _round_up(self.nano, NANO)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded up away from zero (upstream `MilliValue`)."""
        return _round_up(self.nano, NANO // 1000)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        """The canonical text: no fraction, the largest suffix that loses nothing (upstream `CanonicalizeBytes`)."""
        if self.nano == 0:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            return _binary_text(self.nano // NANO)
        return _decimal_text(self.nano, self.format)


ZERO: Final = Quantity(0)


def parse_quantity(text: object) -> Quantity:
    """Read a quantity from what a manifest holds: text, or a number (JSON numbers are read by their text).

    Raises InvalidQuantity with upstream's message. Source: apimachinery `ParseQuantity`, `Quantity.UnmarshalJSON`.
    """
    if isinstance(text, str):
        return _parse(text.strip())
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise InvalidQuantity(f"a quantity must be text or a number, not {_json_type(text)}")
    return _parse(repr(text))


@lru_cache(maxsize=65536)
def _parse(text: str) -> Quantity:
    match = _SYNTAX.fullmatch(text)
    if not text or match is None:
        raise InvalidQuantity(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, whole, fraction, letters, digits = match.groups(default="")
    scale, shift, notation = _interpret(letters + digits)
    # A text without any digit before its suffix ("m", "+", ".") is zero to upstream's scanner.
    mantissa = int((whole + fraction) or "0")
    exponent = scale + 9 - len(fraction)
    if abs(exponent) > _MAX_EXPONENT and mantissa:
        raise InvalidQuantity("unable to parse quantity's suffix")
    nano = (mantissa << shift) * 10**exponent if exponent >= 0 else _round_up(mantissa << shift, 10**-exponent)
    if notation is Format.BINARY_SI:
        nano = min(nano, _MAX_BINARY)
        if 0 < nano < NANO:
            notation = Format.DECIMAL_SI
    return Quantity(-nano if sign == "-" else nano, notation)


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """(power of ten, power of two, notation) of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0, Format.DECIMAL_SI
    if suffix in _BINARY:
        return 0, _BINARY[suffix], Format.BINARY_SI
    if exponent := _EXPONENT.fullmatch(suffix):
        return int(exponent[1]), 0, Format.DECIMAL_EXPONENT
    raise InvalidQuantity("unable to parse quantity's suffix")


def _round_up(amount: int, unit: int) -> int:
    """`amount / unit`, rounded away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


def _binary_text(value: int) -> str:
    for suffix, shift in reversed(_BINARY.items()):
        if value % (1 << shift) == 0:
            return f"{value >> shift}{suffix}"
    return str(value)


def _decimal_text(nano: int, notation: Format) -> str:
    exponent = -9
    while nano % 1000 == 0 and (exponent < 18 or notation is Format.DECIMAL_EXPONENT):
        nano, exponent = nano // 1000, exponent + 3
    if notation is Format.DECIMAL_EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


def _json_type(value: object) -> str:
    return {bool: "a boolean", dict: "an object", list: "a list", type(None): "null"}.get(type(value), "that")
