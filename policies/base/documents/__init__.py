"""JSON documents (`-o json`). `docs/json_schemas.py` writes JSON Schemas from their types.

A result type is a dataclass or NamedTuple, and is its own document: `json_of` writes its fields, without `Hidden` ones,
and its properties `in_json`. An `Inlined` field has no key: the keys of its value stand beside it.

Later releases may add keys. While the version of a document stays the same, no key disappears or changes its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from forewarn.policies.base.light import NamedTuple

VERSION: Final = 1
"""The version of all schemas. It changes if a key disappears or changes its meaning."""
_DIGITS: Final = 4
"""Number of decimal places of numbers in JSON."""
_T = TypeVar("_T")
Hidden = Annotated[_T, "not in JSON"]
Inlined = Annotated[_T, "its keys are in JSON"]
Spelled = Annotated[_T, "its name is the key"]
Always = Annotated[_T, "in JSON also if empty"]
Sparse = Annotated[_T, "in JSON unless empty, 0 or false"]
if TYPE_CHECKING:
    in_json = property
    optional_in_json = property
    inlined_in_json = property
else:

    class in_json(property):  # noqa: N801
        """A property that is also a key of the JSON document, after those of the fields."""

    class optional_in_json(in_json):  # noqa: N801
        """A property that is also a key of the JSON document, unless its value is None."""

    class inlined_in_json(in_json):  # noqa: N801
        """A property whose keys are in the JSON document, before those of the fields; evaluated once."""

        def __set_name__(self, _: type, name: str) -> None:
            self._name = name

        def __get__(self, record: Any, _: type | None = None) -> Any:
            if record is None:
                return self
            if self._name not in record.__dict__:
                record.__dict__[self._name] = super().__get__(record)
            return record.__dict__[self._name]


class Exact(float):
    """A number that JSON contains with all its decimal places."""


class Field(NamedTuple):
    """A field of a result type. `key`: its key in JSON. `optional`: omitted if empty; `nullable`: only if None;
    `sparse`: also if 0 or false.
    """

    name: str
    key: str
    optional: bool
    nullable: bool
    sparse: bool
    hidden: bool
    inlined: bool

    def omits(self, value: Any) -> bool:
        if value is None:
            return self.hidden or self.inlined or self.nullable
        return self.hidden or (self.sparse and not value) or (self.optional and not self.nullable and is_empty(value))


@cache
def fields_of(record: Any) -> tuple[Field, ...]:
    """Return the fields of a dataclass or NamedTuple in JSON; empty for other types.

    The key is the name in camel case, or of a `Spelled` field the name itself. A field with an empty default is
    optional, unless it is `Always` in JSON, and so is a `Sparse` one.
    """
    declared: Mapping[str, Any] = getattr(record, "__dataclass_fields__", {})
    defaults = {name: field.default for name, field in declared.items()} or getattr(record, "_field_defaults", {})
    hints = {name: field.type for name, field in declared.items()}
    hints |= {name: record.__annotations__[name] for name in getattr(record, "_fields", ())}
    given = ((name, defaults.get(name, ...), str(hint)) for name, hint in hints.items())
    return tuple(
        Field(
            name,
            key,
            "Sparse[" in hint or ("Always[" not in hint and is_empty(default)),
            default is None,
            "Sparse[" in hint,
            "Hidden[" in hint,
            "Inlined[" in hint,
        )
        for name, default, hint in given
        for key in (name if "Spelled[" in hint else key_of(name),)
    )


@cache
def properties_of(record: Any) -> Mapping[str, in_json]:
    """Return the properties of a type that are keys of its JSON document, by key."""
    members = {name: member for base in reversed(record.__mro__) for name, member in vars(base).items()}
    return {key_of(name): member for name, member in members.items() if isinstance(member, in_json)}


def key_of(name: str) -> str:
    """Return the JSON key of a field name."""
    return re.sub(r"_(pdbs|[a-z0-9])", lambda match: match[1].upper().replace("PDBS", "PDBs"), name.rstrip("_"))


def is_empty(value: Any) -> bool:
    """Report whether a value is None or an empty text, list or object."""
    return value is None or (isinstance(value, str | tuple | list | Mapping) and not value)


def to_dict(value: Any) -> dict[str, Any]:
    """Return the JSON object of a dataclass or NamedTuple."""
    of: Any = type(value)
    document: dict[str, Any] = {}
    for member in properties_of(of).values():
        if isinstance(member, inlined_in_json):
            document |= json_of(member.__get__(value))
    for field in fields_of(of):
        item = getattr(value, field.name)
        if not field.omits(item):
            document |= json_of(item) if field.inlined else {field.key: json_of(item)}
    for key, member in properties_of(of).items():
        if isinstance(member, inlined_in_json):
            continue
        item = member.__get__(value)
        if not (item is None and isinstance(member, optional_in_json)):
            document[key] = json_of(item)
    return document


def json_of(value: Any) -> Any:
    """Return the JSON data of a value."""
    of: Any = type(value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if fields_of(of):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {str(key): json_of(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, float):
        return value if isinstance(value, Exact) else round(value, _DIGITS)
    return [json_of(item) for item in value] if isinstance(value, list | tuple) else value


class Document:
    """A result that is its own JSON document."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document, in the format of `-o json`."""
        return to_dict(self)


class Shard(NamedTuple):
    """The part of a divided run, for `forewarn whatif merge`.

    `of`: number of questions of the whole run; `cluster`: digest of the cluster; `asked`: the other options that
    identify the run.
    """

    index_: int
    count_: int
    of: int
    cluster: str
    asked: dict[str, Any]
