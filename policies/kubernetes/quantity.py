"""Quantities as the API server reads and prints them (apimachinery `pkg/api/resource`).

A quantity is an exact number with the notation of its input. Arithmetic is exact; a sum has the notation of its first
non-zero operand, as in upstream's `Quantity.Add`, because messages print sums. Upstream prints some texts as they
were written (`1.500`, `+5Ki`, `1e+3`) until arithmetic changes them; so does this module.

Not reproduced: amounts beyond 10^1000 (rejected here, accepted upstream), and 64-bit overflow of `Value` and
`MilliValue`.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final

from forewarn.policies.base.light import later

NANO: Final = 10**9
MILLI: Final = 10**6
_MAX_BINARY: Final = (2**63 - 1) * NANO
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_SYNTAX: Final = later(r"([+-]?)0*([0-9]*)(\.[0-9]*)?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
"""Matches the start of every text, so that no step is repeated; a quantity has to match as a whole."""
_EXPONENT: Final = later(r"[eE]([+-]?[0-9]{1,9})", re.ASCII)
# The characters that strings.TrimSpace removes and that JSON strings may contain without an escape.
_SPACE: Final = (
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_MAX_DIGITS: Final = 1000  # larger than any meaningful amount; prevents hostile input from allocating gigabytes
_CACHE_SIZE: Final = 64
"""Maximum characters of a quantity whose parsed form is cached."""
_FORMAT_WRONG: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC: Final = "unable to parse numeric part of quantity"
_SUFFIX: Final = "unable to parse quantity's suffix"


class InvalidQuantity(ValueError):
    """The text is not a quantity; the message is the API server's."""


class Format(Enum):
    """The notation of a quantity, for input and output."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


class Quantity:
    """An exact amount: `nano` billionths, printed in `format`. Equality and order depend only on the amount.

    `text`: the printed form, "" if it is the canonical form.
    """

    __slots__ = ("format", "nano", "text")

    def __init__(self, nano: int, notation: Format = Format.DECIMAL_SI, text: str = "") -> None:
        self.nano: Final = nano
        self.format: Final = notation
        self.text: Final = text

    @property
    def value(self) -> int:
        """The amount in units, rounded up away from zero (upstream `Value`)."""
        return _round_up(self.nano, NANO)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded up away from zero (upstream `MilliValue`)."""
        return _round_up(self.nano, MILLI)

    def round_up_to_milli(self) -> Quantity:
        """Return the quantity rounded up to thousandths, the API's precision (upstream `SetDefaults_ResourceList`)."""
        return self if self.nano % MILLI == 0 else Quantity(_round_up(self.nano, MILLI) * MILLI, self.format)

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
        """Return the canonical text: no fraction, the largest suffix that loses nothing (upstream
        `CanonicalizeBytes`).
        """
        if self.text or not self.nano:
            return self.text or "0"
        if self.format is Format.BINARY_SI and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            return _binary_text(self.nano // NANO)
        return _decimal_text(self.nano, self.format)


ZERO: Final = Quantity(0)


def parse_quantity(text: object) -> Quantity:
    """Parse a quantity from a manifest: a string, or a JSON number (read as its text).

    None reads as 0. Raises InvalidQuantity with upstream's message. Source: apimachinery `ParseQuantity`,
    `Quantity.UnmarshalJSON`.
    """
    if isinstance(text, str):
        return _parse(text.strip(_SPACE))
    if text is None:
        return ZERO
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise InvalidQuantity(_FORMAT_WRONG)
    return _parse(repr(text).removesuffix(".0"))


def _parse(text: str) -> Quantity:
    """Parse a quantity as `_read` does, with a cache for short texts."""
    return _read(text) if len(text) <= _CACHE_SIZE else _read.__wrapped__(text)


@lru_cache(maxsize=65536)
def _read(text: str) -> Quantity:
    match = _SYNTAX.match(text)
    if not text or match is None or match.end() != len(text):
        raise InvalidQuantity(_FORMAT_WRONG)
    sign, whole, point, suffix = match.groups(default="")
    fraction = point[1:]
    power, shift, notation = _interpret(suffix)
    power -= len(fraction)
    if len(whole) + len(fraction) + abs(power) > _MAX_DIGITS:
        raise InvalidQuantity(_NUMERIC)
    digits = (whole or "0") + fraction
    mantissa = int(digits)
    if _is_fast(digits, fraction, power, shift):
        amount = (mantissa << shift) * 10 ** (power + 9)
        keeps_format = (
            mantissa & 7 != 0 if shift else power % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
        )
        return Quantity(-amount if sign == "-" else amount, notation, text if keeps_format else "")
    if not re.search("[0-9]", text[: match.start(4)]):
        raise InvalidQuantity(_NUMERIC)
    amount = _scaled(mantissa << shift, power + 9)
    if notation is Format.BINARY_SI:
        amount = min(amount, _MAX_BINARY)
        if 0 < amount < NANO:
            notation = Format.DECIMAL_SI
    return Quantity(-amount if sign == "-" else amount, notation)


def _is_fast(digits: str, fraction: str, power: int, shift: int) -> bool:
    """Report whether upstream parses the text in 64 bits; upstream then prints some texts as written."""
    if shift:
        return not fraction and len(digits) + shift * 3 // 10 + 1 <= 15
    return len(digits) <= 18 and power >= -9


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Return (power of ten, power of two, notation) of a suffix. Raises InvalidQuantity."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0, Format.DECIMAL_SI
    if suffix in _BINARY:
        return 0, _BINARY[suffix], Format.BINARY_SI
    if exponent := _EXPONENT.fullmatch(suffix):
        return int(exponent[1]), 0, Format.DECIMAL_EXPONENT
    raise InvalidQuantity(_SUFFIX)


def _scaled(amount: int, power: int) -> int:
    return amount * 10**power if power >= 0 else _round_up(amount, 10**-power)


def _round_up(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _binary_text(value: int) -> str:
    whole = (f"{value >> shift}{suffix}" for suffix, shift in reversed(_BINARY.items()) if value % (1 << shift) == 0)
    return next(whole, str(value))


def _decimal_text(nano: int, notation: Format) -> str:
    exponent = -9
    while nano % 1000 == 0:
        nano, exponent = nano // 1000, exponent + 3
    if notation is Format.DECIMAL_EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    # Above E there is no suffix, and upstream prints none.
    return f"{nano}{_DECIMAL_SUFFIX.get(exponent, '')}"


_GIB: Final = 2**30
_LARGE_CPU: Final = 10**8
"""Minimum number of millicores that is printed in whole cores."""


def cores(milli: int) -> str:
    """Return an amount of cpu in cores as text."""
    return f"{milli / 1000:g}" if milli < _LARGE_CPU else f"{milli // 1000}"


def gibibytes(size: int) -> str:
    """Return an amount of memory in GiB as text."""
    return f"{size / _GIB:.4g}Gi" if size < 1000 * _GIB else f"{size / _GIB:.0f}Gi"


def percent(part: int, whole: int) -> int:
    """Return `part` as a percentage of `whole`; 0 if `whole` is 0."""
    return round(100 * part / whole) if whole > 0 else 0


def format_units(quantity: Quantity) -> str:
    """Return a quantity in units with separators for thousands, such as `1,422.5`; with a binary suffix as it is."""
    if quantity.format is not Format.DECIMAL_SI or quantity.nano % MILLI:
        return str(quantity)
    return f"{quantity.nano // NANO:,}" + f"{quantity.nano % NANO / NANO:.3f}".removeprefix("0").rstrip("0").rstrip(".")
