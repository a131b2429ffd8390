"""Unknown fields of API objects, which the API server rejects for kubectl (`fieldValidation=Strict`).

Source: sigs.k8s.io/json internal/golang/encoding/json (DisallowUnknownFields, CaseSensitive), apimachinery
pkg/runtime/error.go. The fields are those of Kubernetes' OpenAPI (docs/field_tables.py generates the tables).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.light import NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.objects.fields import ApiObject

_TABLES: Final = os.path.join(os.path.dirname(__file__), "field_tables.json")
_PATCH: Final = "$"
"""Prefix of directives in a strategic merge patch, which is not an object."""


class Fields(NamedTuple):
    """The fields of a struct. `nested`: fields that contain structs: (name, "" for one struct, `[` for a list or `{`
    for a map, type of the struct).
    """

    known: frozenset[str]
    nested: tuple[tuple[str, str, str], ...]


class Unknown(NamedTuple):
    """An unknown field: its path, and the type that does not define it."""

    path: Path
    type: str


def type_of(obj: ApiObject, minor: int | None = None) -> str:
    """Return the type of an object in the tables; "" if they do not contain its kind and version, or `minor` has
    neither.
    """
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    entry = _tables()["kinds"].get(f"{api_version}/{kind}", "") if isinstance(kind, str) else ""
    name, _, span = entry.partition("@")
    return name if minor is None or not span or _covers(span, minor) else ""


def unknown_fields(obj: ApiObject, minor: int | None = None) -> Iterator[Unknown]:
    """Yield the fields that a minor version does not define, in order. `minor` None: that no supported version
    defines.

    Empty for kinds without a table, and for versions that the minor does not serve. Patches of `kubectl patch` are not
    checked.
    """
    name = type_of(obj, minor)
    return _unknown(obj, name, minor, ()) if name else iter(())


def _unknown(value: Any, name: str, minor: int | None, path: Path) -> Iterator[Unknown]:
    if not isinstance(value, dict):
        return  # the type is wrong, which other checks report
    fields = fields_of(name, minor)
    if not value.keys() <= fields.known:
        strange = (key for key in value if key not in fields.known and not key.startswith(_PATCH))
        yield from (Unknown((*path, key), name) for key in strange)
    for key, many, inner in fields.nested:
        inside = value.get(key)
        if not inside:
            continue
        if not many:
            yield from _unknown(inside, inner, minor, (*path, key))
        elif many == "[":
            for index, item in enumerate(inside if isinstance(inside, list) else ()):
                yield from _unknown(item, inner, minor, (*path, key, index))
        else:
            for entry, item in inside.items() if isinstance(inside, dict) else ():
                yield from _unknown(item, inner, minor, (*path, key, entry))


def minors_of(unknown: Unknown) -> tuple[int, ...]:
    """Return the supported minor versions that define a field."""
    name = str(unknown.path[-1])
    return tuple(minor for minor in _tables()["minors"] if name in fields_of(unknown.type, minor).known)


def homes(name: str, root: str) -> Iterator[Path]:
    """Yield the paths of structs below `root` with a field of this name, nearest first; item 0 in lists."""
    level: list[tuple[str, Path]] = [(root, ())]
    seen = {root}
    while level:
        below = []
        for kind, path in level:
            fields = fields_of(kind)
            if name in fields.known:
                yield path
            for key, many, inner in fields.nested:
                if many != "{" and inner not in seen:
                    below.append((inner, (*path, key, 0) if many else (*path, key)))
        seen.update(inner for inner, _ in below)
        level = below


@lru_cache(maxsize=1)
def _tables() -> Mapping[str, Any]:
    with open(_TABLES, encoding="utf-8") as file:
        tables: Mapping[str, Any] = json.load(file)
    return tables


@lru_cache(maxsize=2048)
def fields_of(name: str, minor: int | None = None) -> Fields:
    """Return the fields of a type in a minor version; None: in any version."""
    names, held = [], []
    for entry in _tables()["types"][name].split():
        typed, _, span = entry.partition("@")
        field, _, kind = typed.partition(":")
        if minor is None or not span or _covers(span, minor):
            names.append(field)
            if kind:
                many = kind[0] if kind[0] in "[{" else ""
                held.append((field, many, kind.removeprefix(many)))
    return Fields(frozenset(names), tuple(held))


def _covers(span: str, minor: int) -> bool:
    first, _, last = span.partition("-")
    return (not first or int(first) <= minor) and (not last or minor <= int(last))
