"""Errors about a field, with the texts of apimachinery's `field.Error`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from forewarn.policies.findings import Path, cut, field_path
from forewarn.policies.light import NamedTuple
from forewarn.policies.metering import charge
from forewarn.policies.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

T = TypeVar("T")
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {"\\": r"\\", '"': r"\""}


class FieldError(NamedTuple):
    """One error of an object; `str()` is the text of upstream's field.Error.

    `field`: upstream's name of the field if it differs from `path` (map keys: `spec.hard[cpu]`).
    """

    path: Path
    text: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field or field_path(self.path)}: {self.text}"


class Named(str):
    """Text of a separate Go type (`core.ResourceName`), which field errors print as JSON instead of a quoted string."""

    __slots__ = ()


def keyed(path: Path, key: str) -> str:
    """The path of an entry in a map, for example `spec.hard[cpu]`."""
    return f"{field_path(path)}[{key}]"


def required(path: Path, detail: str = "", field: str = "") -> FieldError:
    return FieldError(path, _with("Required value", detail), field)


def forbidden(path: Path, detail: str) -> FieldError:
    """An error: the value is well-formed, but not permitted here."""
    return FieldError(path, _with("Forbidden", detail))


MAX_FAULTS: Final = 100
"""Maximum errors that are reported about one part of an object."""
_ENTRIES: Final = 64
_CHARACTERS: Final = 2_048
"""Maximum characters of a value in a message; upstream shows the whole value."""


def invalid(path: Path, value: object, detail: str, field: str = "") -> FieldError:
    """An error: the value is malformed. Text is printed as Go quotes it, other values as JSON."""
    return FieldError(path, _with(f"Invalid value: {_shown(value)}", detail), field)


def duplicate(path: Path, value: object) -> FieldError:
    return FieldError(path, f"Duplicate value: {_shown(value)}")


def not_supported(path: Path, value: str, supported: Sequence[str], field: str = "") -> FieldError:
    """An error: the value is not in the enumeration."""
    detail = f"supported values: {', '.join(go_quote(v) for v in supported)}"
    return FieldError(path, _with(f"Unsupported value: {go_json(value)}", detail), field)


def too_many(path: Path, count: int, limit: int) -> FieldError:
    return FieldError(path, f"Too many: {count}: must have at most {limit} {'item' if limit == 1 else 'items'}")


def too_long(path: Path, limit: int) -> FieldError:
    """An error: the text has too many bytes."""
    return FieldError(path, f"Too long: may not be more than {limit} bytes")


def aggregate(errors: Iterable[FieldError]) -> str:
    """The errors as one text without duplicates: one alone, several in brackets (`utilerrors.NewAggregate`)."""
    texts = list(dict.fromkeys(map(str, islice(errors, MAX_FAULTS))))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def go_quote(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def go_json(value: object) -> str:
    """A value as Go's json.Marshal prints it."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _plain(value: Any) -> object:
    return _Plain().of(value)


class _Plain:
    """Converts a value to JSON types, cut to the maximum length in a message."""

    __slots__ = ("_remaining",)

    def __init__(self) -> None:
        self._remaining = _CHARACTERS

    def of(self, value: Any) -> object:
        """Return the value as JSON types. Each entry counts as its minimum number of characters."""
        self._remaining -= 1
        if isinstance(value, Quantity):
            return str(value)
        if isinstance(value, Mapping):
            return {self._text(key): self.of(entry) for key, entry in self._while_shown(value.items())}
        if isinstance(value, str):
            return self._text(value)
        return [self.of(entry) for entry in self._while_shown(value)] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        self._remaining -= len(text)
        return cut(text, _CHARACTERS)

    def _while_shown(self, entries: Iterable[T]) -> Iterator[T]:
        for entry in islice(entries, _ENTRIES):
            if self._remaining < 0:
                return
            yield entry


def _shown(value: object) -> str:
    charge(4)
    return (
        go_quote(cut(value, _CHARACTERS))
        if isinstance(value, str) and not isinstance(value, Named)
        else cut(go_json(value), _CHARACTERS)
    )


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _with(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
