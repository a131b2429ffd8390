"""docs/reference/python.md: the names of the package forewarn, from their docstrings."""

from __future__ import annotations

import inspect
import json
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin

from json_schemas import hints_of, split

import forewarn
from forewarn.policies.application.manifests import Manifest
from forewarn.policies.documents import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXAMPLES: Final = Path(__file__).parent / "examples/python"
_WIDTH: Final = 150
_CODE_WIDTH: Final = 100
_OWN: Final = ("forewarn.policies.whatif", "forewarn.policies.application", "forewarn.policies.cluster.answer_head")
"""Modules whose types the page shows if results contain them."""
_INTRODUCTION: Final = """
The package `forewarn` answers the questions of the commands as typed values. `forewarn.load` returns a cluster.
Functions take the cluster and a request, and return a result. They do not change the cluster, and print nothing. Names
that are not on this page may change in a minor release.

Results have a [`head`](json.md#head), and most have `to_dict()`, which returns the document of [`-o json`](json.md). A
`Manifest` is a path (file or directory), or an API object as a `dict`. Simulations call `progress` repeatedly; an
exception that it raises cancels the question. Errors:
"""
_ERRORS: Final = """
| exception | meaning | exit status of commands |
|---|---|---|
| `InvalidInput` | a request has an unknown or invalid name or value | 2 |
| `InvalidObject` | an object is invalid; parent of `InvalidInput` | 3 |
| `SourceError` | a file or cluster is unreadable | 3; 2 for a file that does not exist |
"""
_EXAMPLES: Final = {
    "Load a cluster, predict, and lose each zone": "zones.py",
    "Test a cluster with pytest": "test_cluster.py",
}
_RULE: Final = """
[Write a rule in your own package](../guides/write-a-rule.md) shows a rule of your own.
"""


def page() -> str:
    """The page."""
    parts = ["# Python", *map(_wrapped, _INTRODUCTION.strip().split("\n\n")), _ERRORS.strip(), "## Examples"]
    for title, name in _EXAMPLES.items():
        parts += [f"### {title}", f"```python\n{(EXAMPLES / name).read_text().strip()}\n```"]
    parts += [_RULE.strip(), "## Functions and types"]
    public = [getattr(forewarn, name) for name in forewarn.__all__ if name != "__version__"]
    public = [item for item in public if not (isinstance(item, type) and issubclass(item, Exception))]
    for item in public:
        parts += _section(item)
    types = "\n\n\n".join(_class(item, *_explained(item)) for item in _inside(public))
    parts += ["## Types in results", f"```python\n{types}\n```"]
    return "\n\n".join(parts) + "\n"


def _section(item: Any) -> list[str]:
    text, meanings = _explained(item)
    code = _class(item, "", meanings) if isinstance(item, type) else _signature(item, meanings)
    return [f"### `{item.__name__}`", _wrapped(text), *([f"```python\n{code}\n```"] if code else [])]


def _explained(item: Any) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and the meaning of each field, property or parameter."""
    names = {name: name for name in inspect.signature(item).parameters}
    if isinstance(item, type):
        names |= {key: field.name for field in fields_of(item) for key in (field.name, field.key)}
    return split(inspect.getdoc(item) or "", names)


def _class(item: type, text: str, meanings: Mapping[str, str]) -> str:
    """The fields and properties of a request or result, with the defaults of a request."""
    parameters = inspect.signature(item).parameters
    lines, last = list[str](), ""
    for name, hint in _fields(item):
        meaning = meanings.get(name, "")
        line = f"{name}: {_type(hint)}{_default(parameters[name].default)}"
        lines.append(_commented(line, meaning if meaning != last else ""))
        last = meaning
    lines += [_commented(f"{name}: {_type(hint)}  # property", doc) for name, hint, doc in _properties(item)]
    comment = [f"# {line}" for line in textwrap.wrap(text, _CODE_WIDTH, break_on_hyphens=False)]
    return "\n".join([*comment, f"class {item.__name__}:", *lines]) if lines else ""


def _commented(line: str, meaning: str) -> str:
    """A line of a class or signature after the comment that explains it."""
    return "\n".join(
        [*(f"    # {part}" for part in textwrap.wrap(meaning, _CODE_WIDTH, break_on_hyphens=False)), f"    {line}"]
    )


def _wrapped(paragraph: str) -> str:
    return paragraph if paragraph.startswith("- ") else "\n".join(textwrap.wrap(paragraph, _WIDTH))


def _signature(function: Any, meanings: Mapping[str, str]) -> str:
    signature, hints = inspect.signature(function), hints_of(function)
    lines, is_keyword = list[str](), False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            lines.append("    *,")
        is_keyword = parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        line = f"{star}{parameter.name}: {_type(hints[parameter.name])}{_default(parameter.default)},"
        lines.append(_commented(line, meanings.get(parameter.name, "")))
    return "\n".join([f"{function.__name__}(", *lines, f") -> {_type(hints['return'])}"])


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    is_plain = value is None or isinstance(value, str | int | float | tuple)
    text = json.dumps(value) if isinstance(value, str) else repr(value)
    return f" = {text}" if is_plain and len(text) < 20 else " = ..."


def _fields(item: type) -> Iterator[tuple[str, Any]]:
    if fields := fields_of(item):
        hints = hints_of(item)
        yield from ((field.name, hints[field.name]) for field in fields)


def _properties(item: type) -> Iterator[tuple[str, Any, str]]:
    for name, value in inspect.getmembers(item):
        function = getattr(value, "fget", None) or getattr(value, "func", None)
        if function is not None and not name.startswith("_"):
            doc = (inspect.getdoc(value) or "").partition("\n\n")[0]
            yield name, hints_of(function)["return"], " ".join(doc.split())


def _type(hint: Any) -> str:
    """A type as in source code, without its modules."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == Manifest or hint == Manifest | Sequence[Manifest]:
        return "Manifest" if hint == Manifest else "Manifest | Sequence[Manifest]"
    if origin in (Union, types.UnionType):
        rest = [argument for argument in arguments if argument not in get_args(Manifest | Sequence[Manifest])]
        has_manifests = {*get_args(Manifest | Sequence[Manifest])} <= {*arguments}
        return " | ".join([*map(_type, rest if has_manifests else arguments), *(_MANIFESTS if has_manifests else ())])
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    if origin is Callable:
        return f"Callable[[{', '.join(map(_type, arguments[0]))}], {_type(arguments[1])}]"
    name = "None" if hint is type(None) else getattr(origin or hint, "__name__", str(hint).rpartition(".")[2])
    return f"{name}[{', '.join(map(_type, arguments))}]" if arguments else str(name)


_MANIFESTS: Final = ("Manifest", "Sequence[Manifest]")


def _inside(public: Iterable[Any]) -> list[type]:
    """The types of fields and properties of these results."""
    exported = [item for item in public if isinstance(item, type)]
    hints = [hint for item in exported for hint in (*_hints(item), *(hint for _, hint, _ in _properties(item)))]
    inner = dict.fromkeys(part for hint in hints for part in _flat(hint))
    return [part for part in inner if part not in exported and fields_of(part) and _is_own(part)]


def _hints(item: type) -> list[Any]:
    return [hint for _, hint in _fields(item)]


def _is_own(item: type) -> bool:
    return item.__module__.startswith(_OWN)


def _flat(hint: Any) -> Iterator[Any]:
    if get_args(hint):
        for argument in get_args(hint):
            yield from _flat(argument)
    elif isinstance(hint, type):
        yield hint
