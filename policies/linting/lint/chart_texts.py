"""Finds mistakes in the texts of a Helm chart that are certain without rendering."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from forewarn.policies.base.findings import Location, Path, Severity, cut, field_path, grouped, quote, reachable
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.diagnostics import yaml_diagnostics
from forewarn.policies.inputs.manifests.documents import Document, Fault, as_utf8
from forewarn.policies.inputs.manifests.reading import first_value
from forewarn.policies.inputs.manifests.templates import CLOSES, ELSE, OPENS, Action, actions_of
from forewarn.policies.inputs.manifests.yaml.source import UNUSUAL, Construction, Tree, YamlSource, quick_value
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic
from forewarn.policies.linting.lint.charts import CHART, first_document


class Scope(NamedTuple):
    """The scope of the actions in one block of a template: the outermost blocks around it, and the dot.

    `openings`: the first actions of at most `MAX_BLOCKS` blocks. `dot`: the keys of the dot in the root, or () if the
    dot may be the root. `shown`: the opening of the block that sets the dot, and the dot in words.
    """

    openings: tuple[str, ...] = ()
    dot: tuple[str, ...] = ()
    shown: tuple[str, str] = "", ""


_DEEPEST: Final = 50
"""Maximum number of keys of a dot; a longer one is unknown."""
MAX_BLOCKS: Final = 4
MAX_READ: Final = 20
"""Maximum number of keys for which all files of a chart are searched, and of the searched files of values."""


class ChartText:
    """The text of a template of a chart."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.place = Document(text.encode(), file).location

    @cached_property
    def actions(self) -> Sequence[tuple[int, int, Scope]]:
        """The start, the end and the scope of each action."""
        return list(_scoped(self.text))

    @cached_property
    def entries(self) -> Sequence[re.Match[str]]:
        """The keys of objects of known kinds with an action that prints their value."""
        found = _ENTRY.finditer(self.text) if _KINDS.search(self.text) else ()
        return [each for each in found if _KINDS.match(self.text, self.kind_before(each.start()))]

    @cached_property
    def _kinds(self) -> Sequence[int]:
        return [match.start() for match in re.finditer("\nkind:", self.text)]

    def kind_before(self, position: int) -> int:
        """Return where the last line with a kind before a position begins; 0 if there is none."""
        before = bisect_left(self._kinds, position)
        return self._kinds[before - 1] if before else 0

    def entries_with(self, key: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield the entries with a key in objects that a pattern matches, each with the matched text."""
        return self.matches_with([each for each in self.entries if each["key"] == key], pattern)

    def matches_with(
        self, matches: Iterable[re.Match[str]], pattern: re.Pattern[str]
    ) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield the matches in objects that a pattern matches, each with the matched text."""
        objects = grouped((self.kind_before(each.start()), each) for each in matches)
        for start, entries in objects.items():
            end = bisect_right(self._kinds, start)
            found = pattern.search(self.text, start, self._kinds[end] if end < len(self._kinds) else len(self.text))
            yield from ((found[1].strip(), entry) for entry in entries if found)

    def scope_at(self, position: int) -> Scope | None:
        """The scope of the action at a position; None in strings, in comments and outside of actions."""
        number = bisect_right(self.actions, position, key=itemgetter(0)) - 1
        start, end, scope = self.actions[number] if number >= 0 else (0, 0, Scope())
        strings = _STRING.finditer(self.text, start, end)
        is_code = position < end and not any(string.start() < position < string.end() for string in strings)
        return scope if is_code else None

    def named(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield the matches in text that a named template prints unconditionally, each with this name."""
        for match in pattern.finditer(self.text) if DEFINE.search(self.text) else ():
            openings = (self.scope_at(match.start()) or Scope()).openings
            if len(openings) == 1 and (name := DEFINE.match(openings[0])):
                yield name[1], match

    def path_at(self, position: int, reference: str) -> tuple[str, ...]:
        """The path in the values that a reference reads at a position; () if it may read something else."""
        if (scope := self.scope_at(position)) is None:
            return ()
        keys = (*(scope.dot if reference[0] != "$" else ()), *filter(None, reference.split(".")[1:]))
        return keys[1:] if keys[:1] == ("Values",) else ()


_STRING: Final = later(r"\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`")
_OF_ROOT: Final = later(r"(?<![\w$.)\]])\.(?:Values|Release|Chart|Capabilities|Files|Template)(?:\.\w+)+()")
"""A field of the root. Its group is empty; in _INCLUDE, the group is the name of a template."""
_INCLUDE: Final = later(r"(?:include|template)[ \t]+\"([^\"\n]+)\"[ \t]+\.(?=[\s)|}-])")
DEFINE: Final = later(r"\{\{-?[ \t]*define[ \t]+\"([^\"\n]+)\"")
_PIPELINE: Final = later(r"\{\{-?\s*(?:with|range)\s+(?:\$\w*\s*(?:,\s*\$\w*\s*)?:=\s*)?([^}]*?)\s*-?\}\}")
_KEYS: Final = later(r"\$?((?:\.\w+)+)")
_OPERAND: Final = later(r"\$?\.(?:Values|Release|Chart|Capabilities|Files)(?:\.\w+)+|\"[^\"]*\"|\b\d+\b")
_NEVER_ROOT: Final = later(
    r"(?:[\s()|]|\b(?:until(?:Step)?|list|tuple|split(?:List)?|keys|sortAlpha|uniq|default|int|add1?|sub|concat|index)\b)*"
)
"""Matches next to an operand of a pipeline whose result cannot be the root."""


def _scoped(text: str) -> Iterator[tuple[int, int, Scope]]:
    """Yield the start, the end and the scope of each action of a template."""
    scope, outer = Scope(), list[Scope]()
    for action in actions_of(text):
        if action.word in ELSE | CLOSES and outer:
            scope = outer.pop()
        if action.word != "!":
            yield action.start, action.end, scope
        if action.word in OPENS | ELSE:
            outer.append(scope)
            opening = text[action.start : action.end]
            scope = Scope((*scope.openings, opening)[:MAX_BLOCKS], *_dot_in(opening, action.word, scope))


def _dot_in(opening: str, word: str, around: Scope) -> tuple[tuple[str, ...], tuple[str, str]]:
    """Return the dot in a block, and the words of `Scope.shown`."""
    if word == "if" or (word == "else" and "with" not in opening):
        return around.dot, around.shown
    unknown = (), ("", "")
    if (pipeline := _PIPELINE.fullmatch(opening)) is None:
        return unknown
    value = pipeline[1]
    item, dot = (("*",), "an item") if word == "range" else ((), "its value")
    shown = opening, dot
    if (keys := _KEYS.fullmatch(value)) is not None:
        is_inner = bool(around.dot) and value[0] != "$"
        path = (*(around.dot if is_inner else ()), *keys[1].split(".")[1:], *item)
        is_known = len(path) <= _DEEPEST and (is_inner or _OPERAND.fullmatch(value))
        return (path, shown) if is_known else unknown
    rest = _OPERAND.sub("", value)
    return (("*",), shown) if rest != value and _NEVER_ROOT.fullmatch(rest) else unknown


class ChartValues:
    """A file of values: the defaults of a chart, or values that override these defaults (`base`)."""

    def __init__(self, file: File, base: ChartValues | None = None) -> None:
        self.file, self.data, self._base = file, as_utf8(readable(file)), base
        self.source = YamlSource(Tree(Document(self.data, file.name)))

    @cached_property
    def _quick(self) -> Any:
        return quick_value(self.source.tree.document)

    @cached_property
    def value(self) -> Any:
        """The values; None if they are invalid."""
        return first_value(self.data, self.file.name) if self._quick is UNUSUAL else self._quick

    @property
    def repeated_keys(self) -> Iterator[FileDiagnostic]:
        return repeated_keys(self.source.tree, "Helm") if self._quick is UNUSUAL else iter(())

    def setting(self, path: Path) -> ChartValues:
        """The file that sets a value: this one, or the base."""
        holder = at(self.value, *path[:-1])
        return self if self._base is None or (isinstance(holder, dict) and path[-1] in holder) else self._base

    def get(self, path: Path) -> Any:
        """Return a value of this file or of the base; None if there is none."""
        return at(self.setting(path).value, *path)

    def keys(self, pattern: re.Pattern[bytes]) -> set[str]:
        """Return the matches of a pattern that may be keys. Does not parse the file."""
        return {key.decode() for key in pattern.findall(b"\n" + self.data)}


def values_in(files: Sequence[File]) -> Sequence[ChartValues]:
    """Return the values in the files of a chart; the defaults first."""
    defaults = [ChartValues(file) for file in files if os.path.basename(file.name) in OF_VALUES][:1]
    return [*defaults, *(ChartValues(file, *defaults) for file in files if file not in (d.file for d in defaults))]


class Chart:
    """A chart: its directory, its templates, and its files of values; see `values_in`."""

    def __init__(self, directory: str, texts: Mapping[str, str], files: Sequence[ChartValues]) -> None:
        self.directory, self.files = directory, files
        self.templates = [ChartText(file, text) for file, text in texts.items()]
        self.defaults = next((each for each in files[:1] if os.path.basename(each.file.name) in OF_VALUES), None)

    @cached_property
    def paths(self) -> Set[str]:
        """The paths of values that templates name."""
        return {path for template in self.templates for path in _ABSOLUTE.findall(template.text)}

    @cached_property
    def _set_fields(self) -> Set[str] | None:
        """The fields of Chart.yaml with a value, in lower case; None if the file is unreadable."""
        content = first_document(os.path.join(self.directory, CHART))
        return {str(key).lower() for key, value in content.items() if value} if isinstance(content, dict) else None

    def sets_all(self, fields: Iterable[str]) -> bool:
        """Report whether Chart.yaml may set all fields, which templates write as `.Chart.AppVersion`."""
        return all(self._set_fields is None or field.lower() in self._set_fields for field in fields)

    def may_set(self, key: str) -> bool:
        """Report whether a file of values, of this chart or of a parent chart, or the values schema contains a key."""
        return _has_key(key, [each.data for each in self.files]) or self.is_set_elsewhere(key)

    def is_set_elsewhere(self, key: str) -> bool:
        """Report whether the values of a parent chart or the values schema contain a key."""
        directory = os.path.abspath(self.directory)
        others = [File(os.path.join(directory, "values.schema.json"))]
        while os.path.basename(parent := os.path.dirname(directory)) == "charts":
            directory = os.path.dirname(parent)
            others += (File(os.path.join(directory, name)) for name in OF_VALUES)
        return _has_key(key, map(readable, others))


def _has_key(key: str, texts: Iterable[bytes]) -> bool:
    return any(mark in text for text in texts for mark in (f"{key}:".encode(), f'"{key}"'.encode()))


_ABSOLUTE: Final = later(r"\.Values\.(\w+(?:\.\w+)*)")


def faults_in_chart(chart: Chart) -> Iterator[FileDiagnostic]:
    """Yield the mistakes in a chart."""
    templates, files = chart.templates, chart.files
    yield from _escaped_quotes(templates)
    yield from (unbalanced := [*_unbalanced(templates)])
    yield from _changing_selectors(templates)
    if not any(_KEY_OF_ROOT.search(each.data) for each in files):
        wrong = {fault.location.file for fault in unbalanced}
        yield from _wrong_dots(chart, [each for each in templates if each.file not in wrong])
    yield from chain.from_iterable(each.repeated_keys for each in files)
    if (values := chart.defaults) is not None:
        yield from _replaced_values(templates, values)
        yield from _texts_as_conditions(templates, values)
        yield from _wrong_entries(templates, values)
        yield from _nil_pointers(chart, values)


_FILES: Final = later(r"\.Files\.(?:Get|Glob|Lines)\b(?:\s+\(?(?:printf\s+)?[\"`]([^\"`\n]{1,300}))?")
_ANY: Final = later(r"%\w|\{[^}]*\}")
_MAX_PATTERNS: Final = 100


def printed_files(texts: Iterable[str]) -> Sequence[str]:
    """Return shell patterns of the files that templates of a chart print with `.Files`; `*` if any may be printed."""
    patterns = set[str]()
    for text in texts:
        found = {match[1] for match in _FILES.finditer(text)}
        named = {_ANY.sub("*", path) for path in found if path}
        patterns |= named
        if None in found and not any("*" in path for path in named):  # otherwise these may be the files of the Glob
            patterns.add("*")
    return [*patterns] if len(patterns) <= _MAX_PATTERNS else ["*"]


_ESCAPED: Final = later(r"\{\{-?[^{}\"`/]*(\\\")")


def _escaped_quotes(templates: Sequence[ChartText]) -> Iterator[FileDiagnostic]:
    """Yield the first action of each template with a backslash before the quote of a string."""
    for template in templates:
        escaped = (match for match in _ESCAPED.finditer(template.text) if template.scope_at(match.start(1)))
        for match in islice(escaped, 1):
            message = "a backslash before the quote of a string: Helm cannot parse the template"
            yield FileDiagnostic("parse-error", message, template.place(*match.span(1)), 'write " without a backslash')


_STRUCTURE: Final = later(r"\{\{-?\s*(if|with|range|define|block|else|end)\b")


def _unbalanced(templates: Sequence[ChartText]) -> Iterator[FileDiagnostic]:
    """Yield the first end without a block, or the last block without an end, of each template without raw strings."""
    for template in [template for template in templates if "`" not in template.text]:
        opened, fix = list[tuple[str, Action]](), "add {{- end }}"
        actions = actions_of(template.text)
        for action in actions if actions and actions[-1].end >= 0 else ():
            match = _STRUCTURE.match(template.text, action.start)
            word = match[1] if match else ""
            if word in ("else", "end") and not opened:
                opened, fix = [(word, action)], "remove it"
                break
            if word == "end":
                opened.pop()
            elif word not in ("", "else"):
                opened.append((word, action))
        for word, action in opened[-1:]:
            message = f"{word} without {'an end' if fix[0] == 'a' else 'a block'}: Helm cannot parse the template"
            yield FileDiagnostic("parse-error", message, template.place(action.start, action.end), fix)


OF_VALUES: Final = ("values.yaml", "values.yml")
_MAX_SHOWN: Final = 60
_IF_OF_CHART: Final = later(r"\{\{-?\s*(?:if|with|range)\s+\$?\.Chart\.(\w+)\s*-?\}\}")
_KEY_OF_ROOT: Final = later(rb"^[ -]*(?:Values|Release|Chart|Capabilities|Files|Template):", re.MULTILINE)


def _wrong_dots(chart: Chart, templates: Sequence[ChartText]) -> Iterator[FileDiagnostic]:
    """Yield the fields of the root that templates read from the dot in `with` or `range`, which lacks them.

    Helm never enters blocks of empty fields of Chart.yaml. Values may be set for each release.
    """
    found = [
        (template, match, scope)
        for template in templates
        for start, end, scope in template.actions
        for pattern in ((_OF_ROOT, _INCLUDE) if scope.dot else ())
        for match in pattern.finditer(template.text, start, end)
        if template.scope_at(match.start()) is not None
    ]
    called = {match[1] for _, match, _ in found if match[1]}
    of_root = _fields_of_root([each for each in templates if not called.isdisjoint(DEFINE.findall(each.text))])
    for template, match, scope in found:
        field, fix = match[0], f"write ${match[0]}"
        if match[1]:
            field, fix = f'{of_root.get(match[1])} for "{match[1]}"', "write $ in place of the dot"
        required = [condition[1] for each in scope.openings if (condition := _IF_OF_CHART.fullmatch(each))]
        if (not match[1] or match[1] in of_root) and chart.sets_all(required):
            opening, dot = cut(" ".join(scope.shown[0].split()), _MAX_SHOWN), scope.shown[1]
            message = f"inside {opening}, the dot is {dot}, without {field}: Helm cannot render the template"
            yield FileDiagnostic("parse-error", message, template.place(*match.span()), fix)


def _fields_of_root(templates: Sequence[ChartText]) -> Mapping[str, str]:
    """Return, for each template that is defined once and always reads a field of the root from its dot, this field."""
    defined, fields = Counter[str](), dict[str, str]()
    for template in templates:
        defined.update(DEFINE.findall(template.text))
        for name, match in template.named(_OF_ROOT):
            fields.setdefault(name, match[0])
    return {name: field for name, field in fields.items() if defined[name] == 1}


_LITERAL: Final = r"([1-9]\d*|true|\"[^\"{}\n]+\")"
_DEFAULTED: Final = later(rf"default {_LITERAL}(?:\s+(\$?(?:\.\w+)+)(?=[\s)}}]))?")
"""`default 1 .Values.x`, or the end of `.Values.x | default 1`."""
_PIPED: Final = later(r"(?:\{\{-?|[(=]|\bint)\s*(\$?(?:\.\w+)+)\s*\|\s*(?:int\s*\|\s*)?\Z")
_MAX_PIPE_LENGTH: Final = 200


def _replaced_values(templates: Sequence[ChartText], values: ChartValues) -> Iterator[FileDiagnostic]:
    """Yield the templates in which `default` replaces 0 or false of the values."""
    for template in templates:
        for match in _DEFAULTED.finditer(template.text):
            start, literal, group = match.start(), match[1], 2 if match[2] else 1
            read = match if match[2] else _PIPED.search(template.text, max(start - _MAX_PIPE_LENGTH, 0), start)
            if read is None:
                continue
            path = template.path_at(read.start(group), read[group])
            value = at(values.value, *path) if path else None
            shown = "false" if value is False else "0"
            is_alike = literal == "true" if value is False else literal.strip('"0').isdigit()
            if isinstance(value, int) and not value and is_alike:  # a text replaces false, which means no text
                message = f"default replaces {field_path(path)} of the values, {shown}, by {literal}"
                fix = f"remove default {literal}, which replaces also what users set to {shown}"
                yield FileDiagnostic("update-without-effect", message, template.place(read.start(), match.end()), fix)


_FALSE_TEXT: Final = later(rb"([\w-]+): [\"'](?:false|no|off)[\"']")
_REFERENCE: Final = later(r"(?<![\w$.)\]])\$?(?:\.\w+)+")
_CONDITION: Final = later(r"\b(?:if|and|or|not)((?:\s+\$?(?:\.\w+)+)+)(?=[\s)}])")


def _texts_as_conditions(templates: Sequence[ChartText], values: ChartValues) -> Iterator[FileDiagnostic]:
    """Yield the values that are the text "false", and that templates read only as conditions."""
    keys = values.keys(_FALSE_TEXT)
    read, tested = Counter[Path](), Counter[Path]()
    for template in templates if keys else ():
        references = (match for match in _REFERENCE.finditer(template.text) if match[0].rpartition(".")[2] in keys)
        read.update(template.path_at(match.start(), match[0]) for match in references)
        conditions = ((match.start(), match[1].split()) for match in _CONDITION.finditer(template.text))
        names = ((position, name) for position, each in conditions for name in each if name.rpartition(".")[2] in keys)
        tested.update(template.path_at(position, name) for position, name in names)
    for path, count in tested.items():
        value = at(values.value, *path) if path and count == read[path] else None
        if isinstance(value, str) and value in ("false", "no", "off"):
            message = f"the text {quote(value)} counts as true: templates read {field_path(path)} only as a condition"
            place = values.source.locate(path, key=True)
            yield FileDiagnostic("update-without-effect", message, place, "write false without quotes")


_NUMBERS: Final = (
    r"(?:min|max)Replicas|minAvailable|maxUnavailable|replicas|(?:container|host|node)Port|backoffLimit|parallelism"
    r"|completions|\w+Seconds|revisionHistoryLimit|runAs(?:User|Group)|fsGroup|hostNetwork|suspend|value"
)
"""Fields whose value is a number or boolean; `value` is a field of a PriorityClass."""
_OF_LISTS: Final = frozenset(
    ("tolerations", "topologySpreadConstraints", "imagePullSecrets", "env", "envFrom", "volumes", "volumeMounts")
)
_SHAPES: Final = _OF_LISTS | {
    *("nodeSelector", "affinity", "resources", "securityContext", "strategy", "labels", "annotations", "matchLabels")
}
"""Fields whose value is a list or mapping."""
_OF_PODS: Final = (
    "tolerations",
    "topologySpreadConstraints",
    "imagePullSecrets",
    "volumes",
    "nodeSelector",
    "affinity",
)
"""Fields beside `containers`."""
_ENTRY: Final = later(
    rf"\n(?P<indent>[ ]*(?:- )?)(?=\w+:\s*\"?\{{\{{)(?P<key>{_NUMBERS}|{'|'.join(sorted(_SHAPES))}):[ ]*\n?[ ]*"
    r"(?P<open>\"?)\{\{-?[ ]*(?P<call>toYaml[ ]|include \"[^\"\n]+\"[ ])?[ ]*(?P<value>\$?(?:\.\w+)+|[.$])[ ]*"
    r"(?:\|[ ]*(?P<pipe>\w+)[ ]*(?P<number>\d{0,3})[ ]*)?-?\}\}(?P<close>\"?)"
)
"""A key, and the action that prints its value with at most one function call or pipe."""
_KINDS: Final = later(
    r"\nkind:[ ]+(Deployment|StatefulSet|DaemonSet|Job|CronJob|Service|PodDisruptionBudget|HorizontalPodAutoscaler"
    r"|PriorityClass)\b"
)


def _wrong_entries(templates: Sequence[ChartText], values: ChartValues) -> Iterator[FileDiagnostic]:
    """Yield the keys whose printed value has the wrong type for Kubernetes, or is not indented below its key."""
    for template in templates:
        for entry in template.entries:
            key = entry["key"]
            is_quoted = entry["pipe"] == "quote" or entry["open"] == '"' == entry["close"]
            if key not in _SHAPES and is_quoted and (key != "value" or not entry["indent"]):
                path = template.path_at(entry.start("value"), entry["value"])
                value = values.get(path) if path else None
                if isinstance(value, int):
                    message = f'{key} is the text "{str(value).lower()}", because of quote: kube-apiserver rejects it'
                    fix = "remove the quotes" if entry["open"] else "remove quote"
                    yield FileDiagnostic("value-rejected", message, template.place(*entry.span("value")), fix)
            elif key in _SHAPES and entry["pipe"] == "nindent":
                yield from _wrong_value(template, entry, values)
            elif key in _SHAPES and entry["call"] == "toYaml " and entry["pipe"] is None:
                path = template.path_at(entry.start("value"), entry["value"])
                if path and isinstance(value := values.get(path), dict | list) and len(value) > 1:
                    message = f"toYaml without nindent: only the first line of {field_path(path)} is below {key}"
                    fix = f"write | nindent {len(entry['indent']) + 2}"
                    yield FileDiagnostic("parse-error", message, template.place(*entry.span("value")), fix)


def _wrong_value(template: ChartText, entry: re.Match[str], values: ChartValues) -> Iterator[FileDiagnostic]:
    """Yield a list where Kubernetes requires a mapping, or vice versa, and a value not indented below its key."""
    key, column, indent = entry["key"], len(entry["indent"]), int(entry["number"] or 0)
    is_list = key in _OF_LISTS
    wanted, other = ("list", "mapping") if is_list else ("mapping", "list")
    path = template.path_at(entry.start("value"), entry["value"]) if entry["call"] == "toYaml " else ()
    if path and isinstance(value := values.get(path), dict if is_list else list) and value:
        message = f"{field_path(path)} is a {other}, but {key} of Kubernetes is a {wanted}: kube-apiserver rejects it"
        place = values.source.locate(path, key=True)
        yield FileDiagnostic("value-rejected", message, place, f"write a {wanted}")
    elif indent < column + (not is_list):
        message, fix = f"nindent {indent} puts the fields beside {key}, not below it", f"write nindent {column + 2}"
        containers = f"\n{' ' * (indent - 2)}containers:"
        if key in _OF_PODS and template.text.find(containers, template.kind_before(entry.start()), entry.start()) >= 0:
            fix = f"indent {key} by {indent - 2}, as containers"
        yield FileDiagnostic("value-rejected", message, template.place(*entry.span("number")), fix)


_LAZY: Final = later(r"\b(?:and|or)\b")


def _nil_pointers(chart: Chart, values: ChartValues) -> Iterator[FileDiagnostic]:
    """Yield the values that templates always read from an empty mapping, a text or a number, so that Helm fails."""
    printed = [template for template in chart.templates if not os.path.basename(template.file).startswith("_")]
    ends = {name: _end_of_mappings(name.split("."), values.value) for name in sorted(chart.paths)}
    for name in [name for name, end in ends.items() if end and not name.startswith("global.")][:MAX_READ]:
        end, value = ends[name], values.get(ends[name])
        key = name.split(".")[len(end) - (value is None)]
        read = next(_always_read(name, printed), None) if not chart.may_set(key) else None
        if read is not None:
            what = "has no value" if value is None else "is no mapping"
            message = f"{field_path(end)} {what}: Helm cannot read .Values.{name}"
            fix = f"set {name} in the values, or test {field_path(end)} before"
            yield FileDiagnostic("parse-error", message, read, fix, severity=Severity.WARNING)


def _always_read(name: str, templates: Iterable[ChartText]) -> Iterator[Location]:
    """Yield the locations at which templates read a value unconditionally."""
    for template in templates:
        match = re.search(rf"(?<![\w)\]])\.Values\.{re.escape(name)}\b", template.text)
        start = match.start() if match else 0
        line = template.text.rfind("\n", 0, start) + 1
        if match and template.scope_at(start) == Scope() and not _LAZY.search(template.text, line, start):
            yield template.place(*match.span())


def _end_of_mappings(keys: Sequence[str], value: Any) -> Path:
    """Return the keys up to a scalar, or to a key that an empty mapping lacks, if further keys follow; else ()."""
    for end, key in enumerate(keys[:-1], 1):
        holder, value = value, at(value, key)
        if not isinstance(value, dict):
            return tuple(keys[:end]) if value is not None or (holder == {} and end > 1) else ()
    return ()


_PRINTED: Final = later(
    r"\{\{-?\s*(?!(?:if|with|else|range|template)\b|\$|[^{}]*\bfromYaml)"
    r"[^{}]*?(?:\.Chart\.(?:App)?Version\b|\binclude\s+\"([^\"\n]+)\")"
)
"""An action that prints the version of the chart, or another template."""


def _changing_selectors(templates: Sequence[ChartText]) -> Iterator[FileDiagnostic]:
    """Yield the selectors that include a template with the version of the chart."""
    found = chain.from_iterable(template.named(_PRINTED) for template in templates)
    printing = grouped((match[1] or _VERSION, name) for name, match in found)
    changing = {*reachable([_VERSION], lambda name: printing.get(name, ()))}
    for template in templates:
        for entry in [entry for entry in template.entries if entry["key"] == "matchLabels" and entry["call"]]:
            included = entry["call"].split('"')[1] if '"' in entry["call"] else ""
            kind = _KINDS.match(template.text, template.kind_before(entry.start()))
            effect = _EFFECTS.get(kind[1]) if kind and len(entry["indent"]) == _OF_SELECTOR else None
            if effect and included in changing:
                message = f"{included} contains the version of the chart: {effect}"
                place, fix = template.place(*entry.span("call")), "include labels without versions"
                yield FileDiagnostic("update-without-effect", message, place, fix, severity=Severity.WARNING)


_VERSION: Final = "the version"
_OF_SELECTOR: Final = 4
"""The column of `matchLabels` in `selector` of `spec`."""
_EFFECTS: Final = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet"), "the selector is immutable, so helm upgrade fails"),
    "PodDisruptionBudget": "Pods without it, or with another version, are not selected",
}


def repeated_keys(tree: Tree, tool: str) -> Iterator[FileDiagnostic]:
    """Yield the duplicate keys of mappings in a document that the named tool reads."""
    with suppress(Fault):
        yield from (
            yaml_diagnostics(tree.document, tree.root, Construction(tree.root).repeated, (), tool) if tree.root else ()
        )
