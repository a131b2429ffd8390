"""JSON Patch (RFC 6902): the three operations that forewarn sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.policies.kubernetes.objects.patches import json_patched

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path


class PatchOperation(NamedTuple):
    """One operation of a JSON Patch. `remove` ignores `value`."""

    op: Literal["add", "replace", "remove"]
    path: Path
    value: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the operation as JSON."""
        written: dict[str, Any] = {"op": self.op, "path": pointer(self.path)}
        return written if self.op == "remove" else {**written, "value": self.value}


def pointer(path: Path) -> str:
    """Return a path as JSON Pointer (RFC 6901): `~` and `/` inside a key are escaped."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def set_value(obj: ApiObject, path: Path, value: Any) -> PatchOperation:
    """Return the operation that sets a value; it adds absent parents, because the API server does not."""
    depth = 1
    while depth < len(path) and isinstance(at(obj, *path[:depth]), Mapping):
        depth += 1
    for step in reversed(path[depth:]):
        value = {step: value}
    return PatchOperation("replace" if at(obj, *path[:depth]) is not None else "add", path[:depth], value)


def drop(obj: ApiObject, path: Path) -> list[PatchOperation]:
    """Return the removal of a value; none if absent, because RFC 6902 then requires an error."""
    parent = at(obj, *path[:-1]) if len(path) > 1 else obj
    return [PatchOperation("remove", path)] if isinstance(parent, Mapping) and path[-1] in parent else []


def apply_patch(obj: ApiObject, operations: Iterable[PatchOperation]) -> dict[str, Any]:
    """Return a copy of the object with the operations applied. Raises PatchError if one does not apply.

    The copy shares unchanged parts with the object, so modify neither.
    """
    patched: dict[str, Any] = json_patched(obj, [operation.to_json() for operation in operations])
    return patched
