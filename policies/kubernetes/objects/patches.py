"""Patches of objects: JSON Patch (RFC 6902), and strategic merge patches as kustomize applies them.

Results share unchanged parts with the object and the patch, so modify neither. Work is charged to the current meter.

Sources: github.com/evanphx/json-patch patch.go; kustomize kyaml/yaml/merge2/merge2.go,
kyaml/yaml/walk/associative_sequence.go; patchMergeKey in k8s.io/api/core/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, text_at

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path


MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env", "volumes"), ("name",)),
    **dict.fromkeys(("imagePullSecrets", "resourceClaims", "schedulingGates", "webhooks"), ("name",)),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
"""The lists of built-in kinds whose items patches merge, each with the fields that identify an item."""
_DIRECTIVE: Final = "$patch"
_MAX_STEPS: Final = 100
"""The maximum steps of a JSON pointer, so that patches cannot nest objects too deeply."""
_MAX_DIGITS: Final = 7
_COST: Final = 5
"""The units of work for a step of a pointer, or a field of a patch."""


class PatchError(ValueError):
    """A patch that does not apply to the object."""


class MissingPath(PatchError):
    """An operation of JSON Patch whose path does not exist. `missing`: up to the first absent step; `rest`: the steps
    after it.
    """

    def __init__(self, name: str, pointer: str, depth: int) -> None:
        super().__init__(f"{name} {pointer}: the path does not exist")
        steps = pointer.split("/")
        self.name, self.missing, self.rest = name, "/".join(steps[: depth + 1]), steps[depth + 1 :]


def json_patched(obj: ApiObject, operations: Iterable[Any]) -> Any:
    """Return the object after the operations of a JSON Patch. Raises PatchError if one does not apply."""
    root: list[Any] = [obj]
    for operation in operations:
        name, path, start = (text_at(operation, key) for key in ("op", "path", "from"))
        value = at(operation, "value")
        if name in ("copy", "move"):
            value = _edit(root, "remove" if name == "move" else "read", start, None)
            charge(_nodes(value, _MAX_STEPS))
        _edit(root, "add" if name in ("copy", "move") else name, path, value)
    return root[0]


def _edit(root: list[Any], name: str, pointer: str, value: Any) -> Any:
    """Apply an operation to the item of a list, and return the value that was at the pointer. Raises PatchError."""
    steps = pointer.split("/")[1:]
    if len(steps) > _MAX_STEPS:
        raise PatchError("the path of an operation is too long")
    holder: Any = root
    key: Any = 0
    for depth, step in enumerate(steps):
        below = holder[key] if _has(holder, key) else None
        if not isinstance(below, dict | list):
            raise MissingPath(name, pointer, depth)
        charge(_COST + len(below))
        holder[key] = below.copy()
        holder, key = holder[key], _key(below, step)
    is_there = _has(holder, key)
    old = holder[key] if is_there else None
    if not steps or (name == "test" and old != value):
        raise PatchError(f"{name} {pointer}: the path has another value, or is empty")
    if not (is_there or name == "add" or (name == "replace" and isinstance(holder, dict))):
        raise MissingPath(name, pointer, len(steps))
    if name == "remove":
        del holder[key]
    elif name == "add" and isinstance(holder, list):
        holder.insert(key, value)
    elif name in ("add", "replace"):
        holder[key] = value
    return old


def _has(holder: Any, key: Any) -> bool:
    return key < len(holder) if isinstance(holder, list) else key in holder


def _key(holder: Any, step: str) -> str | int:
    """Return the key or the index for a step of a JSON pointer. Raises PatchError."""
    if isinstance(holder, dict):
        return step.replace("~1", "/").replace("~0", "~")
    index = len(holder) if step == "-" else int(step) if step.isdecimal() and len(step) < _MAX_DIGITS else -1
    if not 0 <= index <= len(holder):
        raise PatchError(f"{step}: no such item")
    return index


def _nodes(value: Any, max_depth: int) -> int:
    """Return the number of values in a value, including itself. Raises PatchError if it is nested too deeply."""
    if max_depth < 0:
        raise PatchError("a copied value is nested too deeply")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_nodes(item, max_depth - 1) for item in inner)


def merged(obj: ApiObject, patch: ApiObject, keys: Mapping[str, Sequence[str]] = MERGE_KEYS) -> dict[str, Any] | None:
    """Return the object after a strategic merge patch; None if the patch deletes the object. Raises PatchError.

    `keys`: empty for custom resources, whose lists are replaced. Directives other than `$patch` have no effect.
    """
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return None
    result = {} if directive == "replace" else dict(obj)
    charge(_COST * (1 + len(patch)) + len(result))
    for name, value in patch.items():
        if not name.startswith("$"):
            new = _merged_value(name, result.get(name), value, keys)
            if new is None:
                result.pop(name, None)
            else:
                result[name] = new
    return result


def _merged_value(name: str, old: Any, new: Any, keys: Mapping[str, Sequence[str]]) -> Any:
    """Return the value of a field after a patch; None if the patch removes the field. Raises PatchError."""
    kinds = {type(each) if isinstance(each, dict | list) else str for each in (old, new) if each is not None}
    if len(kinds) > 1:
        raise PatchError(f"{name}: the patch has a value of another type")
    if isinstance(new, dict):
        return merged(old or {}, new, keys)
    if isinstance(new, list) and name in keys and all(isinstance(item, dict) for item in (*(old or ()), *new)):
        return _merged_list(old or [], new, keys[name], keys)
    return new


def _merged_list(old: list[Any], new: list[Any], names: Sequence[str], keys: Mapping[str, Sequence[str]]) -> Any:
    """Return a list after a patch, with the items of the patch first; None if the patch deletes the list."""
    directives = [item[_DIRECTIVE] for item in new if [*item] == [_DIRECTIVE]]
    if "delete" in directives:
        return None
    charge(len(old) + len(new))
    remaining: dict[str, list[dict[str, Any]]] = {}
    for item in old if "replace" not in directives else ():
        remaining.setdefault(str(item.get(names[0])), []).append(item)
    result = []
    for item in new:
        if [*item] != [_DIRECTIVE]:
            same = remaining.get(str(item.get(names[0])), [])
            charge(len(same))
            there = next((each for each in same if _are_same(each, item, names)), None)
            if there is not None:
                same.remove(there)
            if value := merged(there or {}, item, keys):
                result.append(value)
    kept = {id(item) for items in remaining.values() for item in items}
    return result + [item for item in old if id(item) in kept]


def _are_same(one: ApiObject, other: ApiObject, names: Sequence[str]) -> bool:
    """Report whether items of a list have equal keys; an absent key such as `protocol` equals any."""
    pairs = [(one.get(name), other.get(name)) for name in names]
    return any(left == right for left, right in pairs) and all(
        left == right or left is None or right is None for left, right in pairs
    )


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
