"""JSON Schemas of the outputs of commands, from their types (see policies/base/documents)."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
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

from finding_details import Detail
from several_clusters import SeveralClusters

from forewarn.policies.base.documents import (
    VERSION,
    Always,
    Sparse,
    Spelled,
    fields_of,
    inlined_in_json,
    optional_in_json,
    properties_of,
)
from forewarn.policies.base.documents.answer import AnswerDocument
from forewarn.policies.base.documents.info import NodeGroups, Release, Rule, Scheduler
from forewarn.policies.base.findings import Finding
from forewarn.policies.cli.ui.answers import UiCluster, UiPrediction
from forewarn.policies.cli.ui.app import UiFault
from forewarn.policies.kubernetes.cluster.cache import AnswerHead
from forewarn.policies.prediction.forecast.impact import ImpactDocument
from forewarn.policies.questions.application.class_suggestion import Suggestion
from forewarn.policies.questions.application.classes import Classes, ClassPlan
from forewarn.policies.questions.application.diff import Diff
from forewarn.policies.questions.application.expectations import Expectations
from forewarn.policies.questions.application.findings import Report
from forewarn.policies.questions.application.headroom import Capacity, HeadroomResult
from forewarn.policies.questions.application.node import NodePressure
from forewarn.policies.questions.application.overview import Overview
from forewarn.policies.questions.application.predict import PredictResult
from forewarn.policies.questions.application.survival_answer import Survival
from forewarn.policies.questions.application.whatif import WhatIf
from forewarn.policies.questions.application.why import ClusterWhy, PodWhy, WorkloadWhy
from forewarn.policies.questions.whatif.risk_answer import Risks
from forewarn.policies.questions.whatif.sweep import Sweep
from forewarn.webhook.accuracy import AccuracyTable
from forewarn.webhook.commands.review import Review
from forewarn.webhook.doctor.report import Checks

DOCUMENTS: Final[dict[str, tuple[str, Any]]] = {
    "lint": ("`lint` and `audit`", Report),
    "predict": ("`predict`", PredictResult),
    "diff": ("`diff`", Diff),
    "whatif": ("`whatif`", WhatIf),
    "whatif-each": ("`whatif --each`", Sweep),
    "whatif-pressure": ("`whatif pressure`", NodePressure),
    "headroom": ("`headroom`", HeadroomResult | Capacity | Survival),
    "classes": ("`classes`", Classes),
    "classes-plan": ("`classes plan`", ClassPlan),
    "classes-suggest": ("`classes suggest`", Suggestion),
    "test": ("`test`", Expectations),
    "why": ("`why`", PodWhy | WorkloadWhy | ClusterWhy),
    "risk": ("`risk`", Risks),
    "overview": ("`overview`", Overview),
    "several-clusters": (
        "`audit` and `whatif` about several clusters",
        SeveralClusters,
    ),
    "rejected": ("`predict`, `whatif` and `headroom` if all objects are rejected", AnswerDocument),
    "explain": ("`explain RULE`; a list for `explain`", Rule | list[Rule]),
    "info-node-groups": ("`info node-groups`", NodeGroups),
    "info-releases": ("`info releases`", list[Release]),
    "info-scheduler": ("`info scheduler`", Scheduler),
    "webhook-review": ("each line of `webhook review -o json`", Review),
    "webhook-accuracy": ("`webhook accuracy`", AccuracyTable),
    "webhook-doctor": ("`webhook doctor`", Checks),
    "ui-cluster": ("the Cluster page of `ui`", UiCluster),
    "ui-predict": ("the Predict page of `ui`", UiPrediction),
    "ui-error": ("an error of `ui`", UiFault),
    "preemption-impact": ("the annotation `forewarn.dev/preemption-impact`", ImpactDocument),
}
"""Name of a JSON Schema -> the output that it describes, and its type."""
DETAIL: Final = ImpactDocument | Detail | dict[str, Any] | None
"""The type of the details of a finding, which rules determine."""

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


_PAGE: Final = """\
# JSON output (`-o json`)

Most commands accept `-o json`. `-o json=FILE` writes the answer to a file. The JSON Schemas below describe the keys. In
answers of commands, `milliCpu` is in thousandths of a core, and `memory` is in bytes. "Each line" means that the output
has one JSON object per line. Releases can add keys ([stability](compatibility.md#stability)).

```sh
forewarn lint -o json manifests/ | jq -r '.findings[] | select(.severity == "error") | .message'
forewarn predict -f web.yaml -o json | jq -r '.pods[] | select(.outcome == "preempts") | .id, .selected[]'
forewarn whatif lose zone a -o json | jq '{status, counters, why}'
```

## head

Most answers about a cluster contain `head`. In the output of `diff`, `head` is the name of the second version instead.

| key | meaning |
|---|---|
"""


def page() -> str:
    """docs/reference/json.md: the outputs, and the keys of each."""
    keys, _, explained = _members(AnswerHead)
    parts = [_PAGE + "".join(f"| `{key}` | {explained[key]} |\n" for key in keys)]
    sections: dict[str, list[str]] = {}
    for name, (title, _) in DOCUMENTS.items():
        listed = "" if section_of(name) == OTHERS else f": {', '.join(_keys(name))}"
        sections.setdefault(section_of(name), []).append(f"- {_linked(name, title)}{listed}")
    return "\n".join([*parts, *("\n".join([f"## {name}", "", *rows, ""]) for name, rows in sections.items())])


def section_of(name: str) -> str:
    """The heading for a document on the page."""
    command = name.partition("-")[0]
    return command if command in _WITH_SECTION else OTHERS


OTHERS: Final = "Other outputs"
_WITH_SECTION: Final = ("lint", "predict", "diff", "whatif", "headroom", "classes", "test", "why", "risk")


def _linked(name: str, title: str) -> str:
    return f"[{title}](schemas/{name}.json)"


def _keys(name: str) -> list[str]:
    """The keys of a document, or of each form of its lines, in backticks."""
    schema = schema_of(name)
    found = [
        key
        for form in forms_of(schema, schema["$defs"])
        for key in form["properties"]
        if key != "head" or name == "diff"
    ]
    return [f"`{key}`" for key in dict.fromkeys(found)]


def forms_of(schema: Mapping[str, Any], defined: Mapping[str, Any]) -> list[Any]:
    """The objects to which a schema leads, through lists and alternatives."""
    if "$ref" in schema:
        return [defined[schema["$ref"].rpartition("/")[2]]]
    if "items" in schema:
        return forms_of(schema["items"], defined)
    return [form for each in schema.get("anyOf", ()) for form in forms_of(each, defined)]


def _of(given: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    """The schema of a type; those of TypedDicts go into `defined`."""
    origin, arguments = get_origin(given), get_args(given)
    if isinstance(given, type) and issubclass(given, Enum):
        return {"enum": [str(member) for member in given]}
    if is_typeddict(given) or (isinstance(given, type) and fields_of(given)):
        if given.__name__ not in defined:
            defined[given.__name__] = {}  # a type that contains itself ends here
            defined[given.__name__] = _object(given, defined, closed)
        return {"$ref": f"#/$defs/{given.__name__}"}
    if given in _SCALARS or given is Any:
        return {} if given is Any else {"type": _SCALARS[given]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": _of(arguments[0], defined, closed)}
    if origin in (dict, Mapping, Counter):
        value = int if origin is Counter else arguments[1]
        return {"type": "object", "additionalProperties": _of(value, defined, closed)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(each, defined, closed) for each in arguments]}
    raise TypeError(f"no JSON Schema for {given}")


def _object(given: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    hints, text, explained = _members(given)
    is_total = getattr(given, "__total__", True)
    plain = {key: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for key, hint in hints.items()}
    return {
        "type": "object",
        **({"description": text} if text else {}),
        "properties": {
            key: {**({"description": explained[key]} if key in explained else {}), **_property(hint, defined, closed)}
            for key, hint in plain.items()
        },
        "required": [key for key, hint in hints.items() if is_total and get_origin(hint) is not NotRequired],
        **({"additionalProperties": False} if closed else {}),
    }


def _members(given: Any) -> tuple[dict[str, Any], str, dict[str, str]]:
    """The hints of an object's keys, its description, and the descriptions of keys."""
    hints, keys, names, explained = hints_of(given), dict[str, Any](), dict[str, str](), dict[str, str]()
    for field in fields_of(given):
        if field.inlined:
            hint = get_args(hints[field.name])[0]
            given_hints, _, texts = _members(_some(hint))
            is_optional = hint != _some(hint)
            keys |= {key: _not_required(inner) if is_optional else inner for key, inner in given_hints.items()}
            explained |= texts
        elif not field.hidden:
            keys[field.key] = _optional(hints[field.name]) if field.optional else hints[field.name]
            names |= {field.name: field.key, field.key: field.key}
    members = properties_of(given).items() if fields_of(given) else ()
    for _, member in members:
        if isinstance(member, inlined_in_json):
            inner, _, texts = _members(hints_of(member.fget)["return"])
            keys, explained = inner | keys, texts | explained
    for key, member in members:
        if isinstance(member, inlined_in_json):
            continue
        hint = DETAIL if (given, key) == (Finding, "detail") else hints_of(member.fget)["return"]
        keys[key] = _optional(hint) if isinstance(member, optional_in_json) else hint
        names |= {member.fget.__name__: key, key: key}
        if member.__doc__:
            explained[key] = " ".join(member.__doc__.split()).removesuffix(".")
    keys = keys or hints
    doc = "" if given.__doc__ in (None, dict.__doc__) else given.__doc__
    text, meanings = split(doc, names or {key: key for key in keys})
    return keys, text, explained | meanings


def split(text: str, names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Split a docstring into its text, and sentences such as "`key`: meaning." by field. `names`: word -> field."""
    rest, explained = list[str](), dict[str, str]()
    for sentence in re.split(
        r"(?<=\.) (?=[`A-Z])|(?<=;) (?=`)", " ".join(cleandoc(text).replace("\n- ", "\n").split())
    ):
        match = re.fullmatch(r"((?:`\w+`(?:, | and )?)+)(?: \(\w+\))?: (.+?)[.;]?", sentence)
        keys = re.findall(r"\w+", match[1].replace(" and ", " ")) if match else []
        if match and {*keys} <= {*names}:
            explained.update(dict.fromkeys((names[key] for key in keys), match[2]))
        else:
            rest.append(sentence)
    return " ".join(rest), explained


def _property(hint: Any, defined: dict[str, Any], closed: bool) -> dict[str, Any]:
    if get_origin(hint) is not Annotated:
        return _of(hint, defined, closed)
    text = {} if hint.__metadata__[0] in _MARKS else {"description": hint.__metadata__[0]}
    return {**text, **_of(hint.__origin__, defined, closed)}


_MARKS: Final = (*Always.__metadata__, *Sparse.__metadata__, *Spelled.__metadata__)


def _optional(hint: Any) -> Any:
    """The type of an optional key: never null."""
    return NotRequired[_some(hint)]


def _not_required(hint: Any) -> Any:
    return hint if get_origin(hint) is NotRequired else NotRequired[hint]


def _some(hint: Any) -> Any:
    """A type without None."""
    rest = tuple(part for part in get_args(hint) if part is not type(None))
    return Union[rest] if get_origin(hint) in (Union, types.UnionType) else hint  # noqa: UP007


def hints_of(given: Any) -> dict[str, Any]:
    """The annotations of a type or function, whose modules may import types only for type checkers."""
    names: dict[str, Any] = {}
    for module in {sys.modules[base.__module__] for base in getattr(given, "__mro__", [given])}:
        names |= vars(module)
        if module.__name__.startswith("forewarn."):
            names |= _for_type_checkers(module)
    return get_type_hints(given, names, names, include_extras=True)


@cache
def _for_type_checkers(module: types.ModuleType) -> dict[str, Any]:
    """What the module has, and what it imports for type checkers only."""
    names = dict(vars(module))
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec("\n".join(map(ast.unparse, node.body)), names)
    return names
