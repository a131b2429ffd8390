"""JSON Schemas of the outputs of commands, from their types (see policies/documents)."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import types
from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from forewarn.policies.application.diff import Diff
from forewarn.policies.documents import VERSION, fields_of
from forewarn.policies.documents.answers import ClassPlan, Headroom, NodePressure, PredictLine, Resize, Why, WorkloadWhy
from forewarn.policies.documents.dry_run import DryRun
from forewarn.policies.documents.findings import Findings, Impact, Review
from forewarn.policies.documents.info import NodeGroups, Release, Rule, Scheduler
from forewarn.policies.documents.ui import UiCluster, UiFault, UiPrediction, UiWarnings
from forewarn.policies.documents.webhook import Accuracy, Checks
from forewarn.policies.documents.whatif import WhatIf
from forewarn.policies.expectations import Expectations
from forewarn.policies.render.several_clusters import SeveralClusters
from forewarn.policies.whatif.priority_levels import Classes
from forewarn.policies.whatif.risk import Risks
from forewarn.policies.whatif.sweep import Sweep

DOCUMENTS: Final[dict[str, tuple[str, Any]]] = {
    "lint": ("`lint` and `audit`", Findings),
    "predict": ("each line of `predict`", PredictLine),
    "diff": ("`diff`", Diff),
    "whatif": ("`whatif`", WhatIf),
    "whatif-each": ("`whatif --each`", Sweep),
    "whatif-pressure": ("`whatif pressure`", NodePressure),
    "whatif-resize": ("`whatif resize`", Resize),
    "headroom": ("each line of `headroom`", Headroom),
    "classes": ("`classes`", Classes),
    "classes-plan": ("`classes plan`", ClassPlan),
    "test": ("`test`", Expectations),
    "why": ("`why`", Why | WorkloadWhy),
    "risk": ("`risk`", Risks),
    "several-clusters": (
        "`audit`, `classes`, `headroom`, `lint`, `predict`, `risk` and `whatif` about several clusters",
        SeveralClusters,
    ),
    "dry-run": ("each line of `dry-run`", DryRun),
    "explain": ("each line of `explain`", Rule),
    "info-node-groups": ("`info node-groups`", NodeGroups),
    "info-releases": ("`info releases`", list[Release]),
    "info-scheduler": ("`info scheduler`", Scheduler),
    "webhook-review": ("each line of `webhook review -o json`", Review),
    "webhook-accuracy": ("`webhook accuracy`", Accuracy),
    "webhook-doctor": ("`webhook doctor`", Checks),
    "ui-cluster": ("the Cluster page of `ui`", UiCluster),
    "ui-predict": ("the Predict page of `ui`", UiPrediction),
    "ui-warnings": ("the page Accuracy and warnings of the webhook", UiWarnings),
    "ui-error": ("an error of `ui`", UiFault),
    "preemption-impact": ("the annotation `forewarn.dev/preemption-impact`", Impact),
}
"""Name of a JSON Schema -> the output that it describes, and its type."""

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
    if isinstance(given, type) and "to_dict" in vars(given):
        given = hints_of(vars(given)["to_dict"])["return"]
    if is_typeddict(given) or (isinstance(given, type) and fields_of(given)):
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
    if origin in (list, Sequence):
        return {"type": "array", "items": _of(arguments[0], defined, closed)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _of(arguments[1], defined, closed)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(each, defined, closed) for each in arguments]}
    raise TypeError(f"no JSON Schema for {given}")


def _object(given: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    hints = hints_of(given)
    if fields := fields_of(given):
        hints = {field.key: _optional(hints[field.name]) if field.optional else hints[field.name] for field in fields}
    is_total = getattr(given, "__total__", True)
    plain = {key: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for key, hint in hints.items()}
    text = "" if given.__doc__ in (None, dict.__doc__) else " ".join(cleandoc(given.__doc__).split())
    return {
        "type": "object",
        **({"description": text} if text else {}),
        "properties": {key: _property(hint, defined, closed) for key, hint in plain.items()},
        "required": [key for key, hint in hints.items() if is_total and get_origin(hint) is not NotRequired],
        **({"additionalProperties": False} if closed else {}),
    }


def _property(hint: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    if get_origin(hint) is not Annotated:
        return _of(hint, defined, closed)
    return {"description": hint.__metadata__[0], **_of(hint.__origin__, defined, closed)}


def _optional(hint: Any) -> Any:
    """The type of an optional key: never null."""
    rest = tuple(each for each in get_args(hint) if each is not type(None))
    return NotRequired[Union[rest] if get_origin(hint) in (Union, types.UnionType) else hint]  # noqa: UP007


def hints_of(given: Any) -> dict[str, Any]:
    """The annotations of a type or function, whose modules may import types only for type checkers."""
    names: dict[str, Any] = {}
    for module in {sys.modules[base.__module__] for base in getattr(given, "__mro__", [given])}:
        names |= vars(module)
        if module.__name__.startswith("forewarn."):
            nodes = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.If)]
            for node in nodes:
                if ast.unparse(node.test) == "TYPE_CHECKING":
                    exec("\n".join(map(ast.unparse, node.body)), names)
    return get_type_hints(given, names, names, include_extras=True)
