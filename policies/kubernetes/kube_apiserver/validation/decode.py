"""Decoding of an object as in the API server, with the errors of encoding/json, and the Go types of its fields; fields
that the API server does not know, and rejects for kubectl (`fieldValidation=Strict`).

Fields that go_types.json does not list accept any value. Source of unknown fields: sigs.k8s.io/json
internal/golang/encoding/json (DisallowUnknownFields, CaseSensitive), apimachinery pkg/runtime/error.go. The fields are
those of Kubernetes' OpenAPI (docs/field_tables.py generates the tables).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from forewarn.policies.base.findings import Path, cut
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import charge, charging, meter
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError, go_quote
from forewarn.policies.kubernetes.objects.extent import is_omitted
from forewarn.policies.kubernetes.objects.fields import ApiObject, json_type


class Plain(NamedTuple):
    """A string, boolean or whole number. `kind`: the JSON type; `name`: the Go type."""

    kind: str
    name: str


class Parsed(NamedTuple):
    """A Go type with its own decoding (`UnmarshalJSON`). `name`: the Go type."""

    name: str


class ListOf(NamedTuple):
    """A slice. `name`: the Go name of the slice type."""

    item: Type
    name: str


class MapOf(NamedTuple):
    """A map from strings. `name`: the Go name of the map type."""

    value: Type
    name: str


class Struct(NamedTuple):
    """A struct. `name`: its name without the package. `package`: the package as in error messages."""

    name: str
    fields: Mapping[str, Type]
    package: str = "v1"


Type = Plain | Parsed | ListOf | MapOf | Struct
"""The type of a field."""

GO_TYPES: Final = "go_types.json"
TYPED, QUOTED = "write a value of this type", "quote the value"
FIXES: Final = {
    "string": QUOTED,
    **dict.fromkeys(("int32", "int64"), "write an integer without quotes"),
    "bool": "write true or false without quotes",
    "[": "write a list",
    "v1.LocalObjectReference": "write name: before the value",
    "types.Patch": "write path: before the value",
}
"""Go type -> the fix of a wrong type; TYPED for other types."""
_BUILT_IN: Final[Mapping[str, Type]] = {
    "string": Plain("string", "string"),
    "bool": Plain("bool", "bool"),
    "int32": Plain("number", "int32"),
    "int64": Plain("number", "int64"),
    "quantity": Parsed("quantity"),
    "time": Parsed("time"),
    "v1.ResourceList": MapOf(Parsed("quantity"), "v1.ResourceList"),
}


class GoTypes:
    """The Go types of a file: struct -> fields (separated by blanks) -> their Go type. The default package is v1."""

    def __init__(self, directory: str) -> None:
        with open(os.path.join(directory, GO_TYPES), encoding="utf-8") as file:
            self.structs: Mapping[str, Mapping[str, str]] = json.load(file)

    def struct(self, name: str) -> Struct:
        package, _, short = name.rpartition(".")
        fields = {
            field: self._type_named(kind) for names, kind in self.structs[name].items() for field in names.split()
        }
        return Struct(short, fields, package or "v1")

    def _type_named(self, name: str) -> Type:
        """Return the type with this Go name; a named type that is not a struct counts as a string."""
        if name in _BUILT_IN:
            return _BUILT_IN[name]
        if name.startswith("[]"):
            return ListOf(self._type_named(name[2:]), name)
        if name.startswith("map[string]"):
            return MapOf(self._type_named(name.removeprefix("map[string]")), name)
        struct = name.removeprefix("v1.")
        return self.struct(struct) if struct in self.structs else Plain("string", name)


_TYPES: Final = GoTypes(os.path.dirname(__file__))
OBJECT_META: Final = _TYPES.struct("ObjectMeta")
PRIORITY_CLASS_STRUCT: Final = _TYPES.struct("PriorityClass")
RESOURCE_QUOTA_STRUCT: Final = _TYPES.struct("ResourceQuota")
POD_STRUCT: Final = _TYPES.struct("Pod")
POD_SPEC_STRUCT: Final = _TYPES.struct("PodSpec")
KUSTOMIZATION_STRUCT: Final = _TYPES.struct("types.Kustomization")


_BITS: Final = {"int32": 2**31, "int64": 2**63}
_FIELD: Final = 2
"""Units of work to decode a field of a struct."""
_RFC3339: Final = "2006-01-02T15:04:05Z07:00"


def decode_error(obj: ApiObject, struct: Struct) -> FieldError | None:
    """Return the error of `decode_fault`, but only with encoding/json's message."""
    fault = decode_fault(obj, struct)
    return fault and fault._replace(text=fault.text.removeprefix("json: "))


def decode_fault(obj: ApiObject, struct: Struct) -> FieldError | None:
    """Return the error because of which an object cannot be decoded; None if it can. It is the first error in the order
    of the text, except that an invalid quantity or time precedes wrong types.
    """
    first = None
    for fault, parsing in _decode(obj, struct, (), struct.name, ""):
        if parsing:
            return fault
        first = first or fault
    return first


def mismatches(obj: ApiObject, struct: Struct) -> Iterator[FieldError]:
    """Yield all wrong types in an object, except quantities and times."""
    return (fault for fault, parsing in _decode(obj, struct, (), struct.name, "") if not parsing)


def _decode(value: Any, kind: Type, path: Path, holder: str, field: str) -> Iterator[tuple[FieldError, bool]]:
    """Yield errors, each with whether it ends decoding. `holder`: the innermost struct. `field`: Go's path from the
    root.
    """
    if isinstance(kind, Parsed):
        yield from _parse(value, kind, path, holder, field)
    elif value is None or is_omitted(value):
        return
    elif isinstance(kind, Plain):
        yield from _plain(value, kind, path, holder, field)
    elif isinstance(kind, ListOf):
        if not isinstance(value, list | tuple):
            yield _mismatch(json_type(value), kind.name, path, holder, field), False
        else:
            for index, item in enumerate(charging(value, 1)):
                yield from _decode(item, kind.item, (*path, index), holder, field)
    elif not isinstance(value, Mapping):
        name = kind.name if isinstance(kind, MapOf) else f"{kind.package}.{kind.name}"
        yield _mismatch(json_type(value), name, path, holder, field), False
    elif isinstance(kind, MapOf):
        work = meter()
        for key, entry in value.items():
            work.charge(2)
            yield from _decode(entry, kind.value, (*path, key), holder, field)
    else:
        charge(_FIELD * len(value))
        for key, entry in value.items():
            if key in kind.fields:
                inner = f"{field}.{key}" if field else str(key)
                yield from _decode(entry, kind.fields[key], (*path, key), kind.name, inner)


def absent_fields(value: Any, kind: Type, path: Path = ()) -> Iterator[tuple[Path, Struct]]:
    """Yield the fields that a struct does not have in any case of letters, each with the struct."""
    if isinstance(kind, ListOf):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from absent_fields(item, kind.item, (*path, index))
    elif isinstance(kind, Struct) and kind.fields and isinstance(value, Mapping):
        inner = {field.lower(): each for field, each in kind.fields.items()}
        for key, entry in value.items():
            here = (*path, key)
            yield from absent_fields(entry, inner[key.lower()], here) if key.lower() in inner else [(here, kind)]


def _plain(value: Any, kind: Plain, path: Path, holder: str, field: str) -> Iterator[tuple[FieldError, bool]]:
    given = json_type(value)
    if given != kind.kind:
        yield _mismatch(given, kind.name, path, holder, field), False
    elif kind.kind == "number" and not (isinstance(value, int) and -_BITS[kind.name] <= value < _BITS[kind.name]):
        yield _mismatch(f"number {cut(str(value), 64)}", kind.name, path, holder, field), False


def _parse(value: Any, kind: Parsed, path: Path, holder: str, field: str) -> Iterator[tuple[FieldError, bool]]:
    if kind.name == "quantity":
        from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity

        try:
            parse_quantity(value)
        except InvalidQuantity as problem:
            yield FieldError(path, str(problem)), True
    elif value is not None and not isinstance(value, str):
        yield _mismatch(json_type(value), "string", path, holder, field), True
    elif value and not _is_time(value):
        yield FieldError(path, f"parsing time {go_quote(cut(value, 64))} as {go_quote(_RFC3339)}: cannot parse"), True


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and text[10:11] == "T"
    except ValueError:
        return False


def _mismatch(actual: str, name: str, path: Path, holder: str, field: str) -> FieldError:
    fix = FIXES.get(name.partition("]")[0], TYPED)
    fix = TYPED if fix == QUOTED and actual in ("object", "array") else fix
    text = f"json: cannot unmarshal {actual} into Go struct field {holder}.{field} of type {name}"
    return FieldError(path, text, fix=fix)


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
    """Return the type of an object in the tables; "" if they do not contain its kind and version (in `minor`)."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    entry = _tables()["kinds"].get(f"{api_version}/{kind}", "") if isinstance(kind, str) else ""
    name, _, span = entry.partition("@")
    return name if minor is None or not span or _covers(span, minor) else ""


def stable_version(obj: ApiObject) -> str | None:
    """Return the stable version with the kind of an object whose own stable version no supported release serves; None
    if there is none.
    """
    version, kind = _STABLE.fullmatch(str(obj.get("apiVersion"))), obj.get("kind")
    if version is None or type_of(obj):
        return None
    served = [_STABLE.fullmatch(name.removesuffix(f"/{kind}")) for name in _tables()["kinds"]]
    return max((each[0] for each in served if each and each[1] == version[1]), default=None)


_STABLE: Final = later(r"(|[\w.-]+/)v\d+")


def unknown_fields(obj: ApiObject, minor: int | None = None) -> Iterator[Unknown]:
    """Yield the fields that a minor version does not define, in order. `minor` None: the fields that no supported
    version defines.

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
    """Yield the paths of structs below `root` with a field of this name, nearest first; index 0 stands for a list."""
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
