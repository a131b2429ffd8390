"""Unrendered templates: their template engine, and PriorityClass names that can be checked without rendering.

Literal class names in templates, literal defaults, and class names in a chart's values need no rendering. A template
without braces is a plain manifest. Every scan is linear, by lines of bounded length.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Location, Path, grouped, listed, plural
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.documents import as_utf8
from forewarn.policies.inputs.manifests.reading import scalars_in
from forewarn.policies.inputs.manifests.templates import lines_of
from forewarn.policies.kubernetes.kinds.class_paths import ANYWHERE, PRESETS, found_at
from forewarn.policies.kubernetes.kinds.registry import ONLY_LINTED, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import InvalidObject, at, group_kind, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, parts_of, pod_template_of

if TYPE_CHECKING:
    from forewarn.policies.linting.lint.chart_texts import ChartValues

RULE: Final = "template-braces"
_PIPE: Final = "pipe the rendered output into `forewarn lint -`"


class Engine(NamedTuple):
    """A template engine. `sign`: recognizes a template of the engine. `fix`: the fix for unrendered templates."""

    name: str
    sign: re.Pattern[bytes]
    fix: str


HELM: Final = Engine(
    "Helm",
    later(rb"\.(?:Values|Release|Chart|Capabilities)\b|\{\{-? *(?:include|template) \""),
    "run `helm template CHART | forewarn lint -`",
)
_ENGINES: Final = (
    HELM,
    Engine("ytt", later(rb"^[ \t]{0,100}#@|\(@=", re.MULTILINE), "run `ytt -f DIRECTORY | forewarn lint -`"),
    Engine(
        "Argo Workflows",
        later(rb"\{\{=? *(?:inputs|workflow|tasks|steps)\."),
        "none: Argo Workflows replaces it in the cluster",
    ),
    Engine("Jinja", later(rb"\{%|\{\{-? *cookiecutter\."), f"render it with Jinja (ansible, salt) and {_PIPE}"),
    Engine(
        "Go template",
        later(rb"\{\{-? *(?:[.$]|(?:if|range|with|define|block|end|else)\b|/\*)"),
        f"render it with the program that reads it and {_PIPE}",
    ),
    Engine("Mustache", later(rb"\{\{[#^/>!]"), f"render it with Mustache or Handlebars and {_PIPE}"),
    Engine("Jinja", later(rb"\{\{-? *[A-Za-z_]"), f"render it with Jinja (ansible, salt) and {_PIPE}"),
    Engine("FreeMarker", later(rb"</?#[a-z]"), f"render it with FreeMarker and {_PIPE}"),
    Engine("ERB", later(rb"<%"), f"render it with erb and {_PIPE}"),
    Engine("Terraform", later(rb"%\{"), f"render it with templatefile() and {_PIPE}"),
    Engine("kustomize", later(rb"\$\([A-Z]"), "run `kustomize build DIRECTORY | forewarn lint -`"),
    Engine("envsubst", later(rb"\$\{?[A-Za-z_]"), "run `envsubst <FILE | forewarn lint -`"),
)
_UNKNOWN: Final = Engine("unknown engine", later(rb""), f"replace its variables and {_PIPE}")
_SHOWN: Final = 1 << 20
"""Bytes of a text that are searched for the marks of an engine."""


def engine_of(data: bytes) -> Engine:
    """The engine of a template."""
    text = data[:_SHOWN]
    return next((engine for engine in _ENGINES if engine.sign.search(text)), _UNKNOWN)


_VARIABLE: Final = later(
    rb"riorityClassName[\"']?[ \t]*:[ \t]*[\"']?[\w.-]{0,100}"
    rb"(?:\{\{|\$[{(A-Za-z_]|<%|@[A-Za-z_][\w.-]{0,100}@|%[A-Za-z_])"
)


def has_variable_class(data: bytes) -> bool:
    """Report whether a valid manifest has a variable as PriorityClass name."""
    return b"riorityClassName" in data and _VARIABLE.search(data) is not None


def merge_by_directory(
    diagnostics: Iterable[FileDiagnostic], engines: Mapping[str, Engine]
) -> Iterator[FileDiagnostic]:
    """Yield the diagnostics, with those about unrendered templates merged to one for each directory.

    `engines`: the engine of each template file.
    """
    found = list(diagnostics)
    yield from (diagnostic for diagnostic in found if diagnostic.rule != RULE)
    own = (diagnostic for diagnostic in found if diagnostic.rule == RULE)
    for directory in grouped((os.path.dirname(diagnostic.location.file), diagnostic) for diagnostic in own).values():
        used = [engines.get(diagnostic.location.file, _UNKNOWN) for diagnostic in directory]
        names = listed(list(dict.fromkeys(engine.name for engine in used)))
        message = f"{plural(len(directory), 'template')} in this directory checked only in part ({names})"
        yield directory[0]._replace(problem=message, remediation=used[0].fix)


def unrendered(engines: Mapping[str, Engine]) -> str:
    """One line about all unrendered templates; "" if there are none."""
    counts = Counter(engine.name for engine in engines.values())
    each = [plural(count, f"{name.removesuffix(' template')} template") for name, count in sorted(counts.items())]
    return f"{' and '.join(each)} read in part, not rendered" if engines else ""


_MAX_LENGTH: Final = 2_000
"""Maximum characters of a line that are searched."""
_NAME: Final = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_LITERAL: Final = later(
    rf"(?<![\w.])[\"']?priorityClassName[\"']?[ \t]*:[ \t]*([\"']?)({_NAME})\1(?=[ \t]*(?:[,}}#]|\r?$))"
)
_NO_STRINGS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off"))
"""Words that YAML does not read as strings if they are unquoted."""
_DEFAULT: Final = later(rf"\bdefault[ \t]+\"({_NAME})\"|\|[ \t]*default\([ \t]*['\"]({_NAME})['\"]")
_VALUE: Final = later(r"\.Values((?:\.\w{1,100}){1,20})")
_COMMENTS: Final = (("{{/*", "*/"), ("{{- /*", "*/"), ("{#", "#}"))


class _Place(NamedTuple):
    """A Source for a name in a text: the same position for every path."""

    location: Location

    def locate(self, path: Path, *, key: bool = False) -> Location:  # noqa: ARG002  (the protocol's signature)
        """Return the location of the PriorityClass name in the template. Ignores `path` and `key`."""
        return self.location


def _named(
    name: str, location: Location, *, namespace: str = "", used_by: str = "", is_guess: bool = False
) -> ReviewedObject:
    """Return a subject that contains only a PriorityClass name, so that rules can check the name."""
    spec, path = {"spec": {"priorityClassName": name}}, ("priorityClassName",)
    part = PodTemplate(spec, (), is_template=True, named=path, namespace=namespace, is_guess=is_guess, used_by=used_by)
    return ReviewedObject({}, source=_Place(location), part=part)


def _read_lines(subject: ReviewedObject) -> Collection[int]:
    """The lines (from 0) of a subject whose class names rules read; in a custom resource, all except embedded texts."""
    kind = group_kind(subject.object)
    if kind not in PRESETS:
        return () if kind in ONLY_LINTED else lines_of(subject)
    paths = [path for path, _ in found_at(subject.object, (ANYWHERE,))]
    paths += [part.at("priorityClassName") for part in parts_of(subject.object, PRESETS)]
    return [subject.source.locate(path).line - 1 for path in paths]


def _name_in(subject: ReviewedObject) -> Iterator[str]:
    """Yield the class name of a workload in an embedded text; only the position of the text itself may be known."""
    with suppress(InvalidObject):
        template = pod_template_of(subject.object, POD_TEMPLATE_PATHS)
        if template is not None:
            yield text_at(template.spec, "priorityClassName")


_OTHER_NAME: Final = later(
    rf"(?:^[ \t]*(?:- +)*|[{{,][ \t]*)[\"']?priorityClassName[\"']?:[ \t]*([\"']?)({_NAME})\1[ \t]*(?=[,}}#]|\r?$)"
    rf"|/priorityClassName[\"']?[ \t,]*\r?\n[ \t]*[\"']?value[\"']?:[ \t]*([\"']?)({_NAME})\3[ \t]*\r?$",
    re.MULTILINE,
)
"""A class name at its key, or in an operation of a JSON patch."""


def other_names(content: bytes, file: str, subjects: Sequence[ReviewedObject]) -> Iterator[ReviewedObject]:
    """Yield the literal class names that no rule reads: in custom resources, values files, patches and embedded texts.

    `subjects`: the objects of the file that rules read.
    """
    text = as_utf8(content).decode("utf-8", "replace")
    done = {line for subject in subjects for line in _read_lines(subject)}
    embedded = {name for subject in subjects if subject.within for name in _name_in(subject)}
    for match in _OTHER_NAME.finditer(text):
        group = 2 if match[2] else 4
        if match[group] in _NO_STRINGS and not match[group - 1]:
            continue
        line, start = text.count("\n", 0, match.start(group)), text.rfind("\n", 0, match.start(group)) + 1
        if line not in done and match[group] not in embedded:
            place = Location(file, line + 1, match.start(group) - start + 1, match.end(group) - start + 1)
            yield _named(match[group], place, is_guess=True)


def literal_names(text: str, file: str, names: Sequence[ReviewedObject] = ()) -> Iterator[ReviewedObject]:
    """Yield the literal class names in a template: values, and defaults of values.

    `names`: objects of the file that are read completely, whose lines are skipped.
    """
    done = {line for subject in names for line in lines_of(subject)}
    for number, line in enumerate(_without_comments(text).split("\n"), 1):
        if "priorityClassName" not in line or len(line) > _MAX_LENGTH or number - 1 in done:
            continue
        for match, group in _names_in(line):
            yield _named(match[group], Location(file, number, match.start(group) + 1, match.end(group) + 1))


def _names_in(line: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield a match for each literal class name in a line, and the group of the match that contains the name."""
    code = line.partition("#")[0]
    found = (match for match in _LITERAL.finditer(line) if match.start() < len(code))
    literals = [(match, 2) for match in found if match[1] or match[2] not in _NO_STRINGS]
    is_name = code.lstrip(" \t-\"'").startswith("priorityClassName")
    defaults = _DEFAULT.finditer(line) if is_name and not literals else ()
    yield from literals or ((match, 1 if match[1] else 2) for match in defaults)


def _without_comments(text: str) -> str:
    """Return the text with blank lines in place of template comments."""
    for opening, closing in _COMMENTS:
        pieces, at = [], 0
        while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
            pieces += [text[at:start], "\n" * text.count("\n", start, end)]
            at = end + len(closing)
        text = "".join((*pieces, text[at:])) if pieces else text
    return text


def keys_of_name(lines: Sequence[str], subject: ReviewedObject) -> set[str]:
    """Return the value keys in the name of a PriorityClass template. `lines`: the lines of the file."""
    line = lines[subject.locate(("metadata", "name")).line - 1][:_MAX_LENGTH]
    return {key[1:] for key in _VALUE.findall(line)}


class Use(NamedTuple):
    """Where a template uses a value. `user`: the kind of the object, and the file. `namespace`: as in the template."""

    user: str
    namespace: str


_KIND_LINE: Final = later(r"^kind:[ \t]*(\w{1,63})[ \t\r]*$", re.MULTILINE)
_NAMESPACE_LINE: Final = later(r"^  namespace:[ \t]*(\S.{0,250}?)[ \t\r]*$", re.MULTILINE)


def keys_of(text: str, file: str) -> dict[str, Use]:
    """The value keys that a template uses as PriorityClass names, for example `primary.priorityClassName`. `file`: the
    name of the template in its chart.
    """
    result = dict[str, Use]()
    for document in text.split("\n---"):
        if "riorityClass" not in document:
            continue
        kind, namespace = _KIND_LINE.search(document), _NAMESPACE_LINE.search(document)
        use = Use(f"the {kind[1]} in {file}" if kind else file, namespace[1] if namespace else "")
        for line in document.split("\n"):
            if "riorityClass" in line and len(line) <= _MAX_LENGTH:
                is_name = line.lstrip(" \t-\"'").startswith("priorityClassName")
                for key in (match[1][1:] for match in _VALUE.finditer(line)):
                    if is_name or key.lower().endswith(("priorityclass", "priorityclassname")):
                        result.setdefault(key, use)
    return result


def _namespace_of(use: Use, values: ChartValues) -> str:
    """Return the namespace of an object in a template, also if it is that of a value; "" if unknown."""
    key = _VALUE.search(use.namespace)
    found = at(values.value, *key[1][1:].split(".")) if key else use.namespace
    return found if isinstance(found, str) and _NAMESPACE.fullmatch(found) else ""


_NAMESPACE: Final = later(_NAME)


_MAX_VALUES: Final = 100_000
_FILLED: Final = later(rb"riorityClass(?:Name)?[\"']?[ \t]*:[ \t]*(?:[\"'][\w{$@%]|[\w{$@%&*!|>\r\n])")
"""A key of a PriorityClass name with a value on its line or below."""


_CONDITION: Final = later(r"\{\{-?[ \t]*(?:if|with)\b[^}\n]{0,500}")
_PRINTED: Final = later(
    r"^[ \t]*(?:- )?priorityClassName:[ \t]*\{\{-?[ \t]*\.Values((?:\.\w{1,100}){1,20})[ \t]*-?\}\}"
)


def printed_keys_of(text: str) -> set[str]:
    """The value keys that a template unconditionally prints as PriorityClass names."""
    lines = (line for line in text.split("\n") if "priorityClassName:" in line and len(line) <= _MAX_LENGTH)
    keys = {match[1][1:] for match in map(_PRINTED.match, lines) if match}
    for condition in _CONDITION.findall(text) if keys else ():
        for key in _VALUE.findall(condition):
            keys.difference_update(accumulate(key[1:].split("."), "{}.{}".format))
    return keys


def maps_in_values(values: ChartValues, keys: set[str]) -> Iterator[ReviewedObject]:
    """The keys of a chart's values whose map or list a template prints as a PriorityClass name."""
    for path in [tuple(key.split(".")) for key in sorted(keys)]:
        value = at(values.value, *path)
        if isinstance(value, dict | list):
            yield _named("map[]" if isinstance(value, dict) else "[]", values.source.locate(path))


def names_in_values(values: ChartValues, keys: Mapping[str, Use]) -> Iterator[tuple[str, str, ReviewedObject]]:
    """The keys, names and subjects of the PriorityClass names in a chart's values.

    `keys`: keys that templates use as class names, with the first use.
    """
    if not _FILLED.search(values.data) and all(key.endswith(("priorityClassName", "priorityClass")) for key in keys):
        return  # most charts leave these keys empty
    for path, value in scalars_in(values.value, _MAX_VALUES):  # reading the file reports the error
        key = ".".join(map(str, path))
        if isinstance(value, str) and value and path and (path[-1] == "priorityClassName" or key in keys):
            use = keys.get(key, NO_USE)
            subject = _named(value, values.source.locate(path), namespace=_namespace_of(use, values), used_by=use.user)
            yield key, value, subject


NO_USE: Final = Use("", "")
