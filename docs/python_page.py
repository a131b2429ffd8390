"""docs/reference/python.md: the names of the package forewarn, from their docstrings."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin, is_typeddict

from json_schemas import hints_of, split

import forewarn
from forewarn.policies.base.documents import fields_of
from forewarn.policies.inputs.sources.files import File
from forewarn.policies.questions.application.manifests import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXAMPLES: Final = Path(__file__).parent / "examples/python"
_WIDTH: Final = 150
_CODE_WIDTH: Final = 100
_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "Answer": ("change", "after", "autoscalers", "with_new_nodes"),
    "EndState": (
        *("running_before", "running_after", "pdbs", "not_drained", "eviction_blocked_by", "not_simulated"),
        *("not_modelled", "bound", "upgrade", "pod_losses"),
        *("daemon_pods_of_lost_nodes", "scaled_down", "completed", "blocked", "blocks", "interruptions"),
    ),
    "Autoscalers": ("cluster_autoscaler", "karpenter"),
    "Autoscaling": ("cutoff", "node_delay", "grows", "assumes"),
    "ClassChange": ("before", "after", "taken_from", "may_preempt", "totals", "changed", "restarting", "restarted"),
    "Context": ("stored_classes", "minor", "of_kind"),
    "Problem": ("message", "path", "remediation", "object", "detail", "severity"),
    "ReviewedObject": ("object", "operation", "old", "namespace"),
    "Cluster": ("nodes", "zones", "pods", "autoscaling"),
    "Finding": ("file", "line", "column", "severity", "rule", "message", "fix", "object", "path", "detail"),
    "Headroom": (
        *("name", "pod", "without", "preempting", "more", "pods", "by_class", "reasons", "stranded", "by_zone"),
        *("notes", "node_groups", "pod_group", "quota", "assumes"),
    ),
    "Pod": (
        *("key", "namespace", "name", "phase", "labels", "node_name", "nominated_node_name", "priority_class_name"),
        *("effective_priority", "terminating"),
    ),
    "Prediction": (
        *("pod", "outcome", "node", "nominated_node", "victims", "num_pdb_violations", "violated_pdbs", "feasible"),
        *("statuses", "candidates", "not_predicted", "caveats", "assumes"),
    ),
    "PredictResult": (
        *("head", "document", "predictions", "outcomes", "groups", "faults", "autoscalers", "conditions", "to_dict"),
    ),
    "PodWhy": ("head", "key", "document", "diagnosis", "nodes", "reported", "missing", "conditions", "to_dict"),
    "Ranked": ("workload", "before", "after", "running"),
    "RenderRequest": ("flags", "network"),
    "Status": ("reasons", "plugin"),
    "WhatIf": (
        *(
            "head",
            "document",
            "change",
            "answer",
            "class_change",
            "counters",
            "preemptions",
            "workloads",
            "conditions",
        ),
        *("notes", "faults", "to_dict"),
    ),
    "WorkloadWhy": (
        *("head", "key", "document", "namespace", "name", "kind", "timeline", "missing", "conditions", "to_dict"),
    ),
    "Workloads": ("namespace", "priority_class"),
    "UpgradeRun": ("complete", "seconds", "least", "not_reached", "forced", "pools"),
}
"""Types with many more members -> those on the page."""
_INTERNAL: Final = frozenset(
    (
        *("Alternative", "Applied", "Buffers", "CapacityBuffers", "ClusterSnapshot", "Config", "DumpCache", "Evidence"),
        *("Given", "Grouping", "Input", "Options", "Outcome", "Places", "Placement", "PodGroup", "Report", "Shard"),
        *("Details", "Rule", "Simulation", "Snapshot", "Start", "Summary", "Text", "Victim"),
    )
)
"""Types that the page omits, with the members, parameters and methods that need them."""
_INTRODUCTION: Final = """
The functions of the package `forewarn` return typed values, and print nothing. `forewarn.load` returns a cluster. Most
other functions take the cluster and a request. They do not change the cluster. Names that the documentation does not
contain may change in a minor release.

Results about one cluster have a [`head`](json.md#head): `head.assumes` lists what the answer assumes. `to_dict()`
returns JSON in the format of [`-o json`](json.md). A `Manifest` is a path (file or directory), or an API object as a
`dict`. A path is a `str` or a `pathlib.Path`. Durations are in seconds.

`progress` is a function that forewarn calls repeatedly, with the number of finished cases and of all cases. `load`
passes the number of objects; `whatif` and `plan_classes` pass the simulated seconds and the number of steps. If
`progress` raises an exception, the function stops and raises it. Some functions fork processes, to use all CPUs.

You can import each function and type that has a heading on this page from `forewarn`. `# property` marks computed
attributes. In comments, "null" and "absent" mean None. The functions raise these errors; `str` returns the message:
"""
_ERRORS: Final = """
| exception | meaning | exit status of commands |
|---|---|---|
| `ForewarnError` | forewarn has no answer; base class of the others | |
| `InvalidInput` | a request has an unknown or invalid name or value | 2 |
| `InvalidObject` | an object is invalid, or not predicted; base class of `InvalidInput`; a `ValueError` | 3 |
| `ConfigError` | a configuration file is invalid or unreadable; a `ValueError` | 2 |
| `SourceError` | a file or cluster is unreadable, or lacks objects | [3 or 2](exit-statuses.md) |

Results of `lint`, `predict`, `headroom` and `whatif` have `faults`: the errors of single files and objects. The result
covers the other files and objects. `lint` raises `SourceError` for a path that does not exist.
"""
_TYPES: Final = """
Results contain these types; `forewarn.types` exports them.
"""
_EXAMPLES: Final = {
    "Load a cluster, predict, and lose each zone": "zones.py",
    "Test a cluster with pytest": "test_cluster.py",
    "Fail on errors of manifests, and explain Pending Pods": "checks.py",
}
_RULE: Final = """
The [guide to what-if](../guides/what-if.md) describes changes of a cluster, and the format of events.

### Write a rule of your own

[Write a rule in your own package](../guides/write-a-rule.md) shows a module that imports `Context`, `Problem`,
`ReviewedObject`, `Severity` and `Target` from `forewarn`.
"""


def page() -> str:
    """The page."""
    parts = ["# Python", *map(_wrapped, _INTRODUCTION.strip().split("\n\n")), _ERRORS.strip(), "## Examples"]
    for title, name in _EXAMPLES.items():
        parts += [f"### {title}", f"```python\n{(EXAMPLES / name).read_text().strip()}\n```"]
    parts += [_RULE.strip(), "## Functions and types"]
    for item in (public := exported()):
        parts += _section(item)
    types = "\n\n\n".join(_class(item, _explained(item)[0]) for item in inside(public))
    parts += ["## Types in results", _TYPES.strip(), f"```python\n{types}\n```"]
    return "\n\n".join(parts) + "\n"


def exported() -> list[Any]:
    """The functions and types of the package, without exceptions and aliases."""
    items = [getattr(forewarn, name) for name in forewarn.__all__]
    return [item for item in items if inspect.isfunction(item) or (inspect.isclass(item) and not _is_error(item))]


def _is_error(item: type) -> bool:
    return issubclass(item, Exception)


def _section(item: Any) -> list[str]:
    text, meanings = _explained(item)
    code = _class(item, "", with_methods=True) if isinstance(item, type) else _signature(item, meanings)
    return [f"### `{item.__name__}`", _wrapped(text), *([f"```python\n{code}\n```"] if code else [])]


def _explained(item: Any) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and the meaning of each field, property or parameter."""
    names = {name: name for name in _defaults(item)}
    if isinstance(item, type):
        names |= {key: field.name for field in fields_of(item) for key in (field.name, field.key)}
        names |= {name: name for name, _ in _fields(item)}
    doc = inspect.getdoc(item) or ""
    text, meanings = split("" if doc == dict.__doc__ else doc, names)
    return text, meanings | (_beside_fields(item) if isinstance(item, type) else {})


def _beside_fields(item: type) -> dict[str, str]:
    """The docstrings that follow fields, without a full stop."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(item))).body
    pairs = pairwise(definition.body if isinstance(definition, ast.ClassDef) else ())
    return {
        field.target.id: " ".join(doc.value.value.split()).removesuffix(".")
        for field, doc in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
        and isinstance(doc.value.value, str)
    }


def _class(item: type, text: str, *, with_methods: bool = False) -> str:
    """The fields, properties and methods of a request or result, with the defaults of a request."""
    meanings, defaults = _explained(item)[1], _defaults(item)
    lines = dict[str, tuple[str, str]]()
    for name, hint in _fields(item):
        default = _default(defaults.get(name, inspect.Parameter.empty))
        lines[name] = meanings.get(name, ""), f"{name}: {_type(hint)}{default}"
    lines |= {name: (doc, f"{name}: {_type(hint)}  # property") for name, hint, doc in _properties(item)}
    lines |= (
        {member.name: ("", f"{member.name} = {json.dumps(member.value)}") for member in item}
        if issubclass(item, Enum)
        else {}
    )
    lines |= _methods(item) if with_methods else {}
    order = _PARTS.get(item.__name__, lines)
    shown, last = list[str](), ""
    for meaning, line in map(lines.__getitem__, order):
        space = "\n" if line.startswith("def ") and shown else ""
        shown.append(space + _commented(line, meaning if meaning != last else ""))
        last = meaning
    comment = [f"# {line}" for line in textwrap.wrap(text, _CODE_WIDTH, break_on_hyphens=False)]
    return "\n".join([*comment, f"class {item.__name__}:", *shown]) if shown else ""


def _methods(item: type) -> dict[str, tuple[str, str]]:
    """The methods and their docstrings, without those that need an internal type."""
    methods = {}
    for name, method in inspect.getmembers(item, inspect.isfunction):
        hints = {} if name.startswith("_") else hints_of(method)
        if hints and all(_is_shown(item, name, hint) for hint in hints.values()):
            text, meanings = split(inspect.getdoc(method) or "", {key: key for key in hints})
            methods[name] = text, f"def {_signature(method, meanings)}: ..."
    return methods


def _defaults(item: Any) -> dict[str, Any]:
    if is_typeddict(item):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(item).parameters.items()}


def _commented(line: str, meaning: str) -> str:
    """A line of a class or signature after the comment that explains it."""
    comment = [f"# {part}" for part in textwrap.wrap(meaning, _CODE_WIDTH, break_on_hyphens=False)]
    return textwrap.indent("\n".join([*comment, line]), "    ")


def _wrapped(paragraph: str) -> str:
    return paragraph if paragraph.startswith("- ") else "\n".join(textwrap.wrap(paragraph, _WIDTH))


def _signature(function: Any, meanings: Mapping[str, str]) -> str:
    signature, hints = inspect.signature(function), hints_of(function)
    lines, is_keyword = list[str](), False
    for parameter in signature.parameters.values():
        if parameter.name == "self" or _is_internal(hints[parameter.name]):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            lines.append("    *,")
        is_keyword = parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        line = f"{star}{parameter.name}: {_type(hints[parameter.name])}{_default(parameter.default)},"
        lines.append(_commented(line, meanings.get(parameter.name, "")))
    inside = "\n".join(["", *lines, ""]) if lines else ""
    return f"{function.__name__}({inside}) -> {_type(hints['return'])}"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, Enum):
        return f" = {type(value).__name__}.{value.name}"
    is_plain = value is None or isinstance(value, str | int | float | tuple)
    text = json.dumps(value) if isinstance(value, str) else repr(value)
    return f" = {text}" if is_plain and len(text) < 20 else " = ..."


def _fields(item: type) -> Iterator[tuple[str, Any]]:
    names = [field.name for field in fields_of(item)] or list(vars(item).get("__annotations__", ()))
    if names:
        hints = {name: bare(hint) for name, hint in hints_of(item).items()}
        for name in names:
            if _is_shown(item, name, hints[name]):
                yield name, hints[name]


def _properties(item: type) -> Iterator[tuple[str, Any, str]]:
    for name, value in inspect.getmembers(item):
        function = getattr(value, "fget", None) or getattr(value, "func", None)
        is_other_form = name.removesuffix("_") != name and hasattr(item, name.removesuffix("_"))  # in JSON
        if function is not None and not name.startswith("_") and not is_other_form and not issubclass(item, Enum):
            doc, hint = (inspect.getdoc(value) or "").partition("\n\n")[0], hints_of(function)["return"]
            if _is_shown(item, name, hint):
                yield name, hint, " ".join(doc.split())


def bare(hint: Any) -> Any:
    """A type without its annotations, such as `Hidden`."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_shown(item: type, name: str, hint: Any) -> bool:
    return name in _PARTS.get(item.__name__, (name,)) and not _is_internal(hint)


def _is_internal(hint: Any) -> bool:
    """Whether a type without its internal alternatives is internal."""
    parts = _alternatives(hint)
    return not parts or any(getattr(part, "__name__", "") in _INTERNAL for one in parts for part in _flat(one))


def _alternatives(hint: Any) -> list[Any]:
    """The alternatives of a type that are not internal, without None."""
    arguments = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    rest = [one for one in arguments if getattr(one, "__name__", "") not in _INTERNAL]
    return rest if rest != [type(None)] or len(arguments) == 1 else []


def _type(hint: Any) -> str:
    """A type as in source code, without its modules."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return "dict[str, Any]"
    if hint == Manifest or hint == Manifest | Sequence[Manifest]:
        return "Manifest" if hint == Manifest else "Manifest | Sequence[Manifest]"
    if origin in (Union, types.UnionType):
        rest = [argument for argument in arguments if argument not in get_args(Manifest | Sequence[Manifest])]
        has_manifests = {*get_args(Manifest | Sequence[Manifest])} <= {*arguments}
        shown = [one for one in (rest if has_manifests else arguments) if getattr(one, "__name__", "") not in _INTERNAL]
        return " | ".join([*map(_type, shown), *(_MANIFESTS if has_manifests else ())])
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, arguments))}]"
    if origin is Callable:
        return f"Callable[[{', '.join(map(_type, arguments[0]))}], {_type(arguments[1])}]"
    if hint is Ellipsis or hint is types.ModuleType:
        return "..." if hint is Ellipsis else "ModuleType"
    name = "None" if hint is type(None) else getattr(origin or hint, "__name__", str(hint).rpartition(".")[2])
    return f"{name}[{', '.join(map(_type, arguments))}]" if arguments else str(name)


_MANIFESTS: Final = ("Manifest", "Sequence[Manifest]")


def inside(public: Iterable[Any]) -> list[type]:
    """The types of fields and properties of these results, and the types of their fields."""
    shown = list(public)
    for item in shown:  # which grows
        members = _members(item) if isinstance(item, type) else hints_of(item).values()
        parts = dict.fromkeys(part for hint in members if not _is_internal(hint) for part in _flat(hint))
        shown += [part for part in parts if part not in shown and _is_own(part)]
    return [item for item in shown if item not in public]


def _members(item: type) -> Iterator[Any]:
    yield from (hint for _, hint in _fields(item))
    yield from (hint for _, hint, _ in _properties(item))


def _is_own(item: Any) -> bool:
    return item.__module__.startswith("forewarn.") and item.__name__ not in _INTERNAL and item is not File


def _flat(hint: Any) -> Iterator[Any]:
    if get_args(hint):
        for argument in get_args(hint):
            yield from _flat(argument)
    elif isinstance(hint, type):
        yield hint
