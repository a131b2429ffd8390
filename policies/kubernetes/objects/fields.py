"""Functions that read fields of API objects with their types, and raise errors that name the object and the field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from forewarn.policies.base.findings import ObjectRef, Path, cut, field_path, with_fix
from forewarn.policies.base.metering import FEW, TooLarge, charge, charging

ApiObject = Mapping[str, Any]
"""An API object, or a part of one, as parsed JSON. Readers never modify it."""

NOTHING: Final[ApiObject] = {}
INT32: Final = range(-(2**31), 2**31)
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
OBJECT: Final = (dict, Mapping)
"""Types of objects; `dict` is first, because checks with the abstract class are slow for large clusters."""


class ForewarnError(Exception):
    """The base class of all errors of the package: a question has no answer. `fix`: how to get one, or ""."""

    fix = ""

    def __str__(self) -> str:
        return with_fix(super().__str__(), self.fix)


class InvalidObject(ForewarnError, ValueError):
    """The error for an object that the API server would reject: the object, the field, the problem and the fix.

    `reason`: a shorter problem, for lists of errors.
    """

    def __init__(
        self, problem: str, path: Path = (), ref: ObjectRef | None = None, fix: str = "", reason: str = ""
    ) -> None:
        self.problem, self.path, self.ref, self.fix, self.reason = problem, path, ref, fix, reason or problem
        super().__init__(": ".join(filter(None, (str(ref or ""), field_path(path), problem))))

    def at(self, path: Path, ref: ObjectRef | None = None) -> InvalidObject:
        """Return the error with another path and object."""
        return InvalidObject(self.problem, path, ref, self.fix, self.reason)


class InvalidInput(InvalidObject):
    """The error for a malformed argument of a command, or an argument that names an object which the cluster does
    not have.
    """


def check_numbers(least: int, **given: float | None) -> None:
    """Raise InvalidInput for a number below `least`. None means that the default applies."""
    for name, number in given.items():
        if number is not None and not number >= least:
            raise InvalidInput(f"{name} is {number}", fix=f"set it to {least} or more")


def check_one_of(**given: object) -> None:
    """Raise InvalidInput if more than one of these arguments is set, because they exclude each other."""
    if len(names := [name for name, value in given.items() if value]) > 1:
        raise InvalidInput(f"{' and '.join(names)} are given", fix="give one")


def json_type(value: object) -> str:
    """Return the name of a JSON value's type, as Go's encoding/json names it in errors."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"


def at(obj: ApiObject, *path: str | int) -> Any:
    """Return the value at a path; None if a step is absent or null."""
    value: Any = obj
    for step in path:
        if value is None:
            return None
        if isinstance(value, OBJECT):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, Sequence) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _expect(obj: ApiObject, path: Path, kinds: tuple[type, ...], what: str) -> Any:
    value: Any = obj
    for depth, step in enumerate(path):
        if type(value) is dict:
            value = value.get(step)
        elif value is None:
            return None
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            raise InvalidObject(f"must be an object, not {json_type(value)}", path[:depth], ref_of(obj))
    if value is None or type(value) in kinds or (isinstance(value, kinds) and not isinstance(value, bool)):
        return value
    raise InvalidObject(f"must be {what}, not {json_type(value)}", path, ref_of(obj))


def text(obj: ApiObject, *path: str | int, default: str = "") -> str:
    """Return a string field; `default` if the field is absent or null. Raises InvalidObject for other types."""
    value: str | None = _expect(obj, path, (str,), "a string")
    return default if value is None else value


def texts(obj: ApiObject, part: str, *names: str) -> list[str]:
    """Return the string fields of a part such as `metadata`; "" if absent or null. Raises InvalidObject for other
    types.
    """
    fields = mapping(obj, part)
    return [value if type(value := fields.get(name, "")) is str else text(obj, part, name) for name in names]


def text_at(obj: ApiObject, *path: str | int) -> str:
    """Return the string at a path of an object; "" for other types and absent fields."""
    value = at(obj, *path)
    return value if isinstance(value, str) else ""


def list_at(obj: ApiObject, *path: str | int) -> Sequence[Any]:
    """Return the list at a path of an object; empty for other types and absent fields."""
    value = at(obj, *path)
    return value if isinstance(value, list) else ()


def objects_at(obj: ApiObject, *path: str | int) -> list[ApiObject]:
    """Return the objects in the list at a path of an object; none for other types and absent fields."""
    return [item for item in list_at(obj, *path) if isinstance(item, OBJECT)]


def mapping_at(obj: ApiObject, *path: str | int) -> ApiObject:
    """Return the object at a path of an object; empty for other types and absent fields."""
    value = at(obj, *path)
    return value if isinstance(value, OBJECT) else NOTHING


def has_controller(obj: ApiObject) -> bool:
    """Report whether one of the owner references is that of a controller; false for other types."""
    return any(owner.get("controller") for owner in objects_at(obj, "metadata", "ownerReferences"))


def boolean(obj: ApiObject, *path: str | int) -> bool:
    """Return a boolean field; False if the field is absent or null. Raises InvalidObject for other types."""
    return bool(_expect(obj, path, (bool,), "a boolean"))


def integer(obj: ApiObject, *path: str | int) -> int | None:
    """Return an integer field of any size; None if absent or null. Raises InvalidObject for other types."""
    value: int | None = _expect(obj, path, (int,), "an integer")
    return value


def int32(obj: ApiObject, *path: str | int) -> int | None:
    """Return a 32-bit integer field; None if the field is absent or null. Raises InvalidObject for other values."""
    return _bounded_integer(32, obj, path)


def int64(obj: ApiObject, *path: str | int) -> int | None:
    """Return a 64-bit integer field as `int32` does."""
    return _bounded_integer(64, obj, path)


def period(obj: ApiObject, *path: str | int) -> int | None:
    """Return a 64-bit field of seconds as Go's `time.Duration(value) * time.Second`, which overflows after 292 years;
    None if absent or null. Raises InvalidObject for other values.
    """
    value = int64(obj, *path)
    return None if value is None else ((value * 10**9 + 2**63) % 2**64 - 2**63) // 10**9


def _bounded_integer(bits: int, obj: ApiObject, path: tuple[str | int, ...]) -> int | None:
    value = integer(obj, *path)
    if value is not None and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise InvalidObject(f"{cut(str(value), 40)} does not fit into {bits} bits", path, ref_of(obj))
    return value


def mapping(obj: ApiObject, *path: str | int) -> ApiObject:
    """Return an object field; empty if the field is absent or null. Raises InvalidObject for other types."""
    value: ApiObject | None = _expect(obj, path, OBJECT, "an object")
    return value or NOTHING


def sequence(obj: ApiObject, *path: str | int) -> Sequence[Any]:
    """Return a list field; empty if the field is absent or null. Raises InvalidObject for other types."""
    value: Sequence[Any] | None = _expect(obj, path, (list, tuple), "a list")
    return value or ()


def string_map(obj: ApiObject, *path: str | int) -> Mapping[str, str]:
    """Return a field that maps strings to strings, such as labels; empty if absent or null. Raises InvalidObject for
    other types.

    A null value is the empty string, as in Go's decoder.
    """
    entries = mapping(obj, *path)
    if len(entries) > FEW:
        charge(len(entries) // 8)
    if None in entries.values():
        entries = {key: "" if value is None else value for key, value in entries.items()}
    for key, value in entries.items():
        if not isinstance(value, str):
            raise InvalidObject(f"must be a string, not {json_type(value)}", (*path, key), ref_of(obj))
    return entries


def timestamp(obj: ApiObject, *path: str | int) -> int | None:
    """Return a metav1.Time field in seconds since 1970; None if absent or empty. Raises InvalidObject for invalid
    times.
    """
    value = text(obj, *path)
    if not value:
        return None
    moment = moment_of(value)
    if moment is None:
        raise InvalidObject(f'"{value}" is no RFC 3339 time', path, ref_of(obj))
    return int(moment.timestamp())


def moment_of(text: str) -> datetime | None:
    """Parse an RFC 3339 time, in UTC if it has no time zone; return None if the text is not a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def ref_of(obj: ApiObject, namespace: str = "") -> ObjectRef:
    """Return the reference to an object, with the fields that are readable. `namespace`: used if the object has
    none.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, OBJECT):
        metadata = NOTHING
    name = metadata.get("name") or (f"{metadata['generateName']}*" if metadata.get("generateName") else "")
    return ObjectRef(
        api_version=str(obj.get("apiVersion") or ""),
        kind=str(obj.get("kind") or ""),
        namespace=str(metadata.get("namespace") or namespace),
        name=str(name),
    )


def namespace_of(obj: ApiObject) -> str:
    """Return the namespace in an object's metadata; "" if there is no readable one."""
    metadata = obj.get("metadata")
    return str(metadata.get("namespace") or "") if isinstance(metadata, OBJECT) else ""


def group_kind(obj: ApiObject) -> str:
    """Return the `group/Kind`, with an empty group for core kinds: `apps/Deployment`, `/Pod`; "" if unreadable."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return ""
    group, slash, _ = api_version.rpartition("/")
    return f"{group if slash else ''}/{kind}"


def items(obj: ApiObject, *path: str | int) -> Iterable[ApiObject]:
    """Return the objects of a list field, in order; none if absent or null. Raises InvalidObject for other types."""
    values = sequence(obj, *path)
    return _objects(values, obj, path) if values else ()


def _objects(values: Sequence[Any], obj: ApiObject, path: Path) -> Iterator[ApiObject]:
    for index, item in enumerate(charging(values, 1)):
        if not isinstance(item, OBJECT):
            raise InvalidObject(f"must be an object, not {json_type(item)}", (*path, index), ref_of(obj))
        yield item


def strings(obj: ApiObject, *path: str | int) -> tuple[str, ...]:
    """Return a list field of strings; empty if absent or null. Raises InvalidObject for other types."""
    values: Sequence[Any] = sequence(obj, *path)
    for index, value in enumerate(charging(values, 0.1)):
        if not isinstance(value, str):
            raise InvalidObject(f"must be a string, not {json_type(value)}", (*path, index), ref_of(obj))
    return tuple(values)


@contextmanager
def within(root: ApiObject, *path: str | int) -> Iterator[None]:
    """Context manager that adds the object `root` and the path to InvalidObject errors."""
    try:
        yield
    except TooLarge:
        raise
    except InvalidObject as error:
        if error.ref is not None and error.ref.name:
            raise
        raise error.at((*path, *error.path), ref_of(root)) from None
