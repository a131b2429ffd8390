"""Strict decoding of a configuration: Go's types, no unknown fields, and the right kinds of plugin arguments.

Source: kubernetes `cmd/kube-scheduler/app/options/configfile.go`, kube-scheduler `config/v1/types.go`
(`DecodeNestedObjects`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import cut
from forewarn.policies.kube_apiserver.validation.decode import ListOf, Struct, Type, decode_fault
from forewarn.policies.kube_apiserver.validation.field_errors import FieldError
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import json_type
from forewarn.policies.scheduling.configuration.schema import API_VERSION, ARGUMENTS, CONFIGURATION, KIND, OPAQUE

if TYPE_CHECKING:
    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject

MAX_ENTRIES: Final = 256
"""Maximum entries of a list of objects: each profile, plugin, resource or term has a cost for each node."""
MAX_TEXTS: Final = 10_000
"""Maximum entries of a list of strings: values of a requirement, ignored resources."""
_NAMED: Final = 64
"""Maximum characters of a name in a message."""
_MAX_ERRORS: Final = 100
"""Maximum number of reported errors."""


def decoding_faults(config: Any) -> list[FieldError]:
    """Return the errors because of which kube-scheduler cannot decode a configuration."""
    if not isinstance(config, Mapping):
        return [FieldError((), f"a configuration is an object, not {json_type(config)}")]
    faults = _of_struct(config, CONFIGURATION, ()) + _of_header(config, (), KIND, must_be_given=True)
    if faults:
        return faults
    for number, profile in enumerate(config.get("profiles") or ()):
        for place, plugin in enumerate((profile or {}).get("pluginConfig") or ()):
            path: Path = ("profiles", number, "pluginConfig", place, "args")
            faults += _of_arguments((plugin or {}).get("name") or "", (plugin or {}).get("args"), path)
    return faults


def _of_arguments(name: str, args: Any, path: Path) -> list[FieldError]:
    """Return the errors of a plugin's arguments. Arguments of an unknown plugin may have any form."""
    if args is None or name not in ARGUMENTS:
        return []
    if not isinstance(args, Mapping):
        return [FieldError(path, f"must be an object, not {json_type(args)}")]
    return _of_struct(args, ARGUMENTS[name], path) + _of_header(args, path, f"{name}Args")


def _of_struct(obj: ApiObject, struct: Struct, path: Path) -> list[FieldError]:
    wrong = decode_fault(obj, struct)
    if wrong is not None:
        return [FieldError((*path, *wrong.path), wrong.text)]
    return list(islice(_faults(obj, struct, path), _MAX_ERRORS))


def _faults(value: Any, kind: Type, path: Path) -> Iterator[FieldError]:
    """Yield an error for each unknown field and each list that is too long.

    `kind`: the type of `value` in the schema.
    """
    if isinstance(kind, ListOf):
        most = MAX_ENTRIES if isinstance(kind.item, Struct) else MAX_TEXTS
        if len(value or ()) > most:
            yield FieldError(path, f"{len(value)} entries: more than {most} are not read")
            return
        for index, item in enumerate(each(value or (), 1)):
            yield from _faults(item, kind.item, (*path, index))
    elif isinstance(kind, Struct):
        opaque = OPAQUE.get(kind.name, ())
        for key, entry in (value or {}).items():
            if key in kind.fields:
                yield from _faults(entry, kind.fields[key], (*path, key))
            elif key not in opaque:
                known = (*kind.fields, *opaque)
                yield FieldError((*path, key), f'unknown field "{cut(str(key), _NAMED)}"{_nearest(str(key), known)}')


def _nearest(key: str, known: tuple[str, ...]) -> str:
    found = get_close_matches(key[:_NAMED], known, 1)
    return f' (did you mean "{found[0]}"?)' if found else ""


def _of_header(obj: ApiObject, path: Path, kind: str, *, must_be_given: bool = False) -> list[FieldError]:
    """Return the errors of `apiVersion` and `kind`, which may be missing in plugin arguments."""
    faults = []
    for key, wanted in (("apiVersion", API_VERSION), ("kind", kind)):
        given = obj.get(key) or ""
        if (given or must_be_given) and given != wanted:
            suffix = f', not "{cut(str(given), _NAMED)}"' if given else ": it is missing"
            faults.append(FieldError((*path, key), f'must be "{wanted}"{suffix}'))
    return faults
