"""JSON Schemas of the outputs of commands, from their types in policies/render/documents."""

from __future__ import annotations

import json
import types
from inspect import cleandoc
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from forewarn.policies.render.documents import DOCUMENTS, VERSION

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema_of(name: str, *, closed: bool = False) -> dict[str, Any]:
    """The JSON Schema of a document. `closed`: it allows no keys that the types do not have, for tests."""
    title, root = DOCUMENTS[name]
    defined: dict[str, Any] = {}
    schema = _of(root, defined, closed)
    return {"$schema": _DIALECT, "title": f"{title}, version {VERSION}", **schema, "$defs": defined}


def schema_text(name: str) -> str:
    """The file of a schema."""
    return json.dumps(schema_of(name), indent=1) + "\n"


def _of(given: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    """The schema of a type; those of TypedDicts go into `defined`."""
    origin, arguments = get_origin(given), get_args(given)
    if is_typeddict(given):
        if given.__name__ not in defined:
            defined[given.__name__] = {}  # a type that contains itself ends here
            defined[given.__name__] = _object(given, defined, closed)
        return {"$ref": f"#/$defs/{given.__name__}"}
    if given in _SCALARS:
        return {"type": _SCALARS[given]}
    if given is Any:
        return {}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0], defined, closed)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], defined, closed)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(each, defined, closed) for each in arguments]}
    raise TypeError(f"no JSON Schema for {given}")


def _object(given: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    hints = get_type_hints(given, include_extras=True)
    plain = {key: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for key, hint in hints.items()}
    text = "" if given.__doc__ in (None, dict.__doc__) else " ".join(cleandoc(given.__doc__).split())
    return {
        "type": "object",
        **({"description": text} if text else {}),
        "properties": {key: _property(hint, defined, closed) for key, hint in plain.items()},
        "required": [key for key, hint in hints.items() if given.__total__ and get_origin(hint) is not NotRequired],
        **({"additionalProperties": False} if closed else {}),
    }


def _property(hint: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    if get_origin(hint) is not Annotated:
        return _of(hint, defined, closed)
    return {"description": hint.__metadata__[0], **_of(hint.__origin__, defined, closed)}
