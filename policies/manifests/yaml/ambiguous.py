"""Unquoted scalars that kubectl may read differently than their author or another YAML parser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.manifests.yaml.nodes import Collection, Scalar
from forewarn.policies.manifests.yaml.scalars import STARTS, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.manifests.yaml.nodes import Node

_OCTAL: Final = re.compile(r"[-+]?0o?[0-9_]*[0-9]")
_BINARY_OR_GROUPED: Final = re.compile(r"[-+]?(0[bB][01_]+|[0-9][0-9a-fA-FxX.]*_[0-9a-fA-F_.]*)")
_BASE_60: Final = re.compile(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_EXPONENT: Final = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_SWITCHES: Final = frozenset(
    word for base in ("y", "n", "yes", "no", "on", "off") for word in (base, base.capitalize(), base.upper())
)

_FILE_MODES: Final = frozenset(("mode", "defaultMode"))
_READ_BY_RULES: Final = frozenset(
    ("value", "priority", "priorityClassName", "preemptionPolicy", "globalDefault", "name", "namespace")
)
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
    """Return the message about an unquoted scalar; "" if not ambiguous in this field. `wants_string`: the field is a
    string.
    """
    if text in _SWITCHES:
        import json

        return f"kubectl reads unquoted {text} as the boolean {json.dumps(resolve(text))}; YAML 1.2 reads a string"
    if text[0] not in "+-0123456789" or len(text) > 100:
        return ""
    if _OCTAL.fullmatch(text) and field not in _FILE_MODES and text.strip("+-0"):
        return _octal(text)
    if _BINARY_OR_GROUPED.fullmatch(text) and isinstance(value := resolve(text), int | float):
        return f"kubectl reads unquoted {text} as the number {value}; YAML 1.2 reads a string"
    if wants_string and _BASE_60.fullmatch(text):
        number = _base_60(text)
        return f'kubectl reads unquoted {text} as the string "{text}"; YAML 1.1 reads the number {number}'
    if wants_string and _EXPONENT.fullmatch(text) and isinstance(value := resolve(text), float):
        return f"kubectl reads unquoted {text} as the number {value:g}; YAML 1.1 reads a string"
    return ""


def _octal(text: str) -> str:
    value = resolve(text)
    decimal = text.replace("_", "").lstrip("+-")
    if not isinstance(value, int):
        # No octal number (a digit above 7): kubectl takes it as a decimal one.
        return (
            f"kubectl reads unquoted {text} as the number {int(value)}; YAML 1.1 reads a string"
            if isinstance(value, float)
            else ""
        )
    if "o" in text:
        return f"kubectl reads unquoted {text} as the octal number {value}; YAML 1.1 reads a string"
    if abs(value) == int(decimal):
        return ""
    return f"kubectl reads unquoted {text} as the octal number {value}; YAML 1.2 reads {int(decimal)}"


def _base_60(text: str) -> float | int:
    """The value of a sexagesimal number of YAML 1.1: 1:30 is 90."""
    total: float = 0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        total = total * 60 + (float(part) if "." in part else int(part))
    return -total if text[0] == "-" else total
