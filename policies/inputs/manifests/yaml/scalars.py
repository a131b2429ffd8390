"""The value of a scalar for kubectl, and unquoted scalars that their author or other YAML parsers may read differently.

Source: go.yaml.in/yaml/v2 resolve.go, then encoding/json.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator
from ctypes import c_float
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.yaml.nodes import Collection, Node, Scalar

if TYPE_CHECKING:
    import re


JsonScalar = str | int | float | bool | None

_TAG: Final = "tag:yaml.org,2002:"
_STR, _BINARY, _FLOAT, _TIMESTAMP = (_TAG + name for name in ("str", "binary", "float", "timestamp"))
_RESOLVED: Final = {_TAG + name: name for name in ("str", "bool", "int", "float", "null", "timestamp")}

_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final[dict[str, JsonScalar]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
STARTS: Final = frozenset("+-.0123456789yYnNtTfFoO~")
"""First characters of unquoted scalars that may be something else than a string."""

_INTEGER: Final = later(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]{0,19}))")
_SIGN_BEHIND_0B: Final = later(r"0b([-+][01]+)")
_DECIMAL: Final = later(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_POINT: Final = later(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_TIME: Final = later(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})"
    r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?)?"
)


class Unreadable(ValueError):
    """kubectl rejects the scalar: its tag does not match, or JSON has no such number."""


def resolve(text: str) -> JsonScalar:
    """The value of an unquoted scalar without tag. Infinities and NaN are not valid in JSON: see `value_of`."""
    if text and text[0] not in STARTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first == ".":
        return _finite(text) if _POINT.fullmatch(text) else text
    return _number(text) if first in "+-0123456789" else text


def value_of(text: str, tag: str | None, plain: bool) -> JsonScalar:
    """Return the JSON value of a scalar. `plain`: without quotes. Raises Unreadable."""
    if tag is None and not plain:
        return text
    if tag == _BINARY:
        return _base64(text)
    if tag is not None and tag not in _RESOLVED:
        return text
    value = text if tag == _STR else resolve(text)
    if tag is not None and tag != _STR:
        value = _convert(text, value, tag)
    return _json_number(value) if isinstance(value, float) else value


@lru_cache(maxsize=4096)
def key_of(text: str, tag: str | None, plain: bool) -> str:
    """The JSON key for a scalar. Raises Unreadable. Source: sigs.k8s.io/yaml yaml.go."""
    if tag is None and (not plain or (text and text[0] not in STARTS)):
        return text
    value = resolve(text) if tag is None else value_of(text, tag, plain)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or (isinstance(value, int) and value >= 2**63):
        raise Unreadable(f"{text or 'an empty key'!s} cannot be a key: only strings, numbers and booleans can")
    return _float_key(value) if isinstance(value, float) else str(value)


def _number(text: str) -> JsonScalar:
    """Parse a text that starts like a number. Source: strconv.ParseInt with base 0, ParseUint, yamlStyleFloat."""
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match and (number := _integer(match)) is not None:
        return number
    if _DECIMAL.fullmatch(digits) and (decimal := _finite(digits)) != digits:
        return decimal
    match = _SIGN_BEHIND_0B.fullmatch(digits)
    if match and -(2**63) <= (number := int(match[1], 2)) < 2**63:
        return number
    return text


def _integer(match: re.Match[str]) -> int | None:
    sign, hexadecimal, binary, octal, decimal = match.groups()
    body = hexadecimal or binary or octal or decimal
    if len(body.lstrip("0")) > 64:
        return None
    number = int(body, 16 if hexadecimal else 2 if binary else 8 if octal else 10)
    if sign == "-":
        return -number if number <= 2**63 else None
    return number if number < 2**63 or (not sign and number < 2**64) else None


def _finite(digits: str) -> float | str:
    """Return the number; the text itself for a number outside the range of Go's ParseFloat."""
    number = float(digits)
    return digits if math.isinf(number) else number


def _json_number(number: float) -> int | float:
    """Return the number as Go's encoding/json writes it: whole numbers below 1e21 are integers. Raises Unreadable."""
    if not math.isfinite(number):
        raise Unreadable(f"{number} is not a JSON number: kubectl rejects it")
    return as_integer(number)


def as_integer(number: float) -> int | float:
    """The integer that a number becomes when Go's encoding/json has written it: its shortest digits, then zeros."""
    if not number.is_integer() or abs(number) >= 1e21:
        return number
    digits, exponent = repr(number).split("e") if abs(number) >= 1e16 else (str(int(number)), "0")
    whole, _, fraction = digits.partition(".")
    return int(whole + fraction + "0" * (int(exponent) - len(fraction)))


def _convert(text: str, value: JsonScalar, tag: str) -> JsonScalar:
    kind = "null" if value is None else {bool: "bool", int: "int", float: "float", str: "str"}[type(value)]
    if tag == _TIMESTAMP and _TIME.fullmatch(text):
        return text
    if tag == _TAG + kind:
        return value
    if tag == _FLOAT and isinstance(value, int) and not isinstance(value, bool) and value < 2**63:
        return float(value)
    raise Unreadable(f"cannot decode !!{kind} `{text[:60]}` as a !!{_RESOLVED[tag]}")


def _base64(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable("!!binary value contains invalid base64 data") from None
    return data.decode("utf-8", "replace")


def _float_key(number: float) -> str:
    """The text of strconv.FormatFloat(number, 'g', -1, 32), with YAML's names for infinities and NaN."""
    single = c_float(number).value
    if not math.isfinite(single):
        return str(single).replace("inf", ".inf").replace("nan", ".nan")
    text = next(t for p in range(9) if c_float(float(t := f"{single:.{p}e}")).value == single)
    mantissa, exponent = text.split("e")
    digits = len(mantissa.lstrip("-").replace(".", ""))
    if -4 <= int(exponent) < 6:
        return f"{float(text):.{max(digits - 1 - int(exponent), 0)}f}"
    return f"{mantissa}e{int(exponent):+03}"


_OCTAL: Final = later(r"[-+]?0o?[0-9_]*[0-9]")
_BINARY_OR_GROUPED: Final = later(r"[-+]?(0[bB][01_]+|[0-9][0-9a-fA-FxX.]*_[0-9a-fA-F_.]*)")
_BASE_60: Final = later(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_EXPONENT: Final = later(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_SWITCHES: Final = frozenset(
    word for base in ("y", "n", "yes", "no", "on", "off") for word in (base, base.capitalize(), base.upper())
)

FILE_MODES: Final = frozenset(("mode", "defaultMode"))
_NUMBERS: Final = frozenset(("value", "priority"))
_READ_BY_RULES: Final = frozenset(
    ("value", "priority", "priorityClassName", "preemptionPolicy", "globalDefault", "name", "namespace")
)
_BOOLEANS: Final = frozenset(
    (
        *("readOnly", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "runAsNonRoot"),
        *("stdin", "stdinOnce", "tty", "optional", "hostNetwork", "hostPID", "hostIPC", "hostUsers"),
        *("shareProcessNamespace", "automountServiceAccountToken", "enableServiceLinks", "setHostnameAsFQDN"),
        *("suspend", "paused", "globalDefault", "allowVolumeExpansion", "controller", "blockOwnerDeletion"),
    )
)
FIELD_WANTS: Final = ", which the field wants"
"""Ends the message for a scalar that is ambiguous, although kubectl reads it as the field requires."""
_STRING_MAPS: Final = frozenset(("labels", "annotations", "nodeSelector", "matchLabels"))


def may_surprise(text: str) -> bool:
    """Report whether an unquoted scalar may be ambiguous in some field."""
    if text in _SWITCHES:
        return True
    if len(text) < 2 or text[0] not in "+-0123456789" or (text.isdigit() and text[0] != "0"):
        return False
    return any(pattern.fullmatch(text) for pattern in (_OCTAL, _BINARY_OR_GROUPED, _BASE_60, _EXPONENT))


def doubtful(root: Node) -> Iterator[tuple[Scalar, str]]:
    """The ambiguous scalars of a document, with a message for each."""
    stack: list[tuple[Node, str, bool]] = [(root, "", False)]
    while stack:
        node, field, wants_string = stack.pop()
        if type(node) is Scalar:
            if node.plain and node.tag is None and node.text and node.text[0] in STARTS:
                message = _doubt(node.text, field, wants_string)
                if message:
                    yield node, message
        elif type(node) is Collection and node.is_mapping:
            children = node.children
            inside = field in _STRING_MAPS
            for index in range(len(children) - 2, -2, -2):
                key = children[index]
                name = key.text if type(key) is Scalar else ""
                stack.append((children[index + 1], name, inside or name in _READ_BY_RULES))
                stack.append((key, "", False))
        elif type(node) is Collection:
            stack.extend((child, field, wants_string) for child in reversed(node.children))


def _doubt(text: str, field: str, wants_string: bool) -> str:
    """Return the message about an ambiguous unquoted scalar, or "". `wants_string`: the field is a string."""
    if text in _SWITCHES:
        import json

        wanted = FIELD_WANTS if field in _BOOLEANS else ""
        boolean = json.dumps(resolve(text))
        return f"kubectl reads unquoted {text} as the boolean {boolean}{wanted}; YAML 1.2 reads a string"
    if text[0] not in "+-0123456789" or len(text) > 100:
        return ""
    if _OCTAL.fullmatch(text) and field not in FILE_MODES and text.strip("+-0"):
        return _octal(text)
    if _BINARY_OR_GROUPED.fullmatch(text) and isinstance(value := resolve(text), int | float):
        return f"kubectl reads unquoted {text} as the number {value}; YAML 1.2 reads a string"
    if wants_string and _BASE_60.fullmatch(text):
        number = _base_60(text)
        return f'kubectl reads unquoted {text} as the string "{text}"; YAML 1.1 reads the number {number}'
    value = resolve(text) if wants_string and field not in _NUMBERS and _EXPONENT.fullmatch(text) else ""
    is_number = isinstance(value, float)
    return f"kubectl reads unquoted {text} as the number {value:g}; YAML 1.1 reads a string" if is_number else ""


def _octal(text: str) -> str:
    value = resolve(text)
    decimal = text.replace("_", "").lstrip("+-")
    if isinstance(value, float):  # with a digit above 7, kubectl reads a decimal number
        return f"kubectl reads unquoted {text} as the number {int(value)}; YAML 1.1 reads a string"
    if "o" in text:
        return f"kubectl reads unquoted {text} as the octal number {value}; YAML 1.1 reads a string"
    if not isinstance(value, int) or abs(value) == int(decimal):
        return ""
    return f"kubectl reads unquoted {text} as the octal number {value}; YAML 1.2 reads {int(decimal)}"


def _base_60(text: str) -> float | int:
    """The value of a sexagesimal number of YAML 1.1: 1:30 is 90."""
    total: float = 0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        total = total * 60 + (float(part) if "." in part else int(part))
    return -total if text[0] == "-" else total
