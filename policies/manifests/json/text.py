"""JSON text as kubectl reads it: several values in sequence, with Go's rules for numbers."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any, Final

from forewarn.policies.manifests.documents import Fault
from forewarn.policies.manifests.yaml.scalars import as_integer

_SPACE: Final = re.compile(r"\s*")
_INT64: Final = range(-(2**63), 2**63)
_POSITION: Final = re.compile(r"(?: starting)? at$")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _number(digits: str) -> int | float:
    """Return a number with fraction or exponent; an integer below 1e21 becomes an int, as in Go's encoding/json."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} does not fit into a number")
    return as_integer(number)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 or (len(digits) < 21 and int(digits) in _INT64) else _number(digits)


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"no number is written {name}", "", 0)


def problem_of(error: json.JSONDecodeError) -> str:
    """The error message of Python's parser without the position."""
    return _POSITION.sub("", error.msg[:1].lower() + error.msg[1:])


class NotJson(Fault):
    """The text is not JSON; kubectl may still read it as YAML."""


_DECODE: Final = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=_no_constant).raw_decode


class JsonReader:
    """Decodes the JSON values in a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, position: int) -> int:
        """Return the first position, from `position` on, of a character other than white space."""
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def value(self, start: int) -> tuple[Any, int]:
        """The value at a character, and its end. Raises NotJson; Fault if kubectl rejects the value."""
        try:
            value, end = _DECODE(self.text, start)
            if _SURROGATE.search(self.text, start, end):
                value = _well_formed(value)
        except json.JSONDecodeError as error:
            at = max(start, min(error.pos, len(self.text)))
            raise NotJson(f"invalid JSON: {problem_of(error)}", at, at + 1) from None
        except RecursionError:
            raise Fault("nested too deeply", start, start + 1) from None
        except ValueError as error:
            raise Fault(f"invalid JSON: {error}", start, start + 1) from None
        return value, end

    def repeats(self, start: int) -> bool:
        """Report whether an object in this value has a duplicate key. Parses the value again."""
        found = False

        def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal found
            result = dict(pairs)
            found = found or len(result) != len(pairs)
            return result

        with suppress(RecursionError):  # as deep as can be read, and what notes is one call deeper
            json.JSONDecoder(object_pairs_hook=note, parse_float=len, parse_int=len).raw_decode(self.text, start)
        return found


def _well_formed(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates, as in Go."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    return value
