"""Finds values that no template of a chart reads: in its files of values, and in objects of Argo CD and Flux."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache, reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, field_path, listed
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.destinations import releases_in
from forewarn.policies.inputs.manifests.kustomizations import EntrySource
from forewarn.policies.inputs.manifests.reading import FileTexts, first_value, sourced_values
from forewarn.policies.inputs.manifests.yaml.source import YamlSource
from forewarn.policies.inputs.sources.files import File, find_files, readable
from forewarn.policies.inputs.sources.git import upwards
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic
from forewarn.policies.linting.lint.chart_texts import DEFINE, MAX_READ, Chart, ChartText, ChartValues
from forewarn.policies.linting.lint.charts import REQUIRED
from forewarn.policies.linting.rules.support.names import is_misspelt

if TYPE_CHECKING:
    from forewarn.policies.linting.lint.input import Input

_MAX_UNREAD: Final = 100
"""Maximum number of values of a file that no template names for which similar keys are searched."""
_MAX_NODES: Final = 200
_MAX_SIMILAR: Final = 100
_ANCHOR: Final = later(rb"(?::|-)[ ]+&\w")
_INDEXED: Final = later(r"\b(?:index|hasKey|get)\s+\$?\.Values((?:\s+\"[^\"\n]+\")+)(?=\s*[\s)|}])")
"""Keys of the root of the values that an action reads by their names."""
_WHOLE: Final = later(r"\.Values(?![\w.])|\b(?:include|template)\s+(?!\(print\s+\$?\.Template\.BasePath)[^\s\"]")
"""Text in an action that may read any value."""
_TPL: Final = later(r"\btpl\b")
_CALL: Final = later(r"\b(?:include|template)\s+\"([^\"\n]+)\"")
_SPECIFIC: Final = later(r"(?=.{8})[a-z]+[A-Z]\w*|affinity|replicas|resources|tolerations")
"""Keys that name one setting, wherever they are; unlike `enabled` and `name`."""
_OF_DEPENDENCIES: Final = [
    (key,)
    for key in (
        *("affinity", "autoscaling", "nodeSelector", "pdb", "podDisruptionBudget", "priorityClassName", "replicaCount"),
        *("replicas", "resources", "tolerations", "topologySpreadConstraints"),
    )
]
"""The paths of values that most charts read, if they are at the root."""
_DOT: Final = later(r"(?<!\\)\.")
_EMPTY: Final[tuple[Any, ...]] = (None, "", {}, [])


class _Reads:
    """The values that a chart reads."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart

    @cached_property
    def is_known(self) -> bool:
        """Whether the templates of the chart name all values that they read."""
        text = "\n".join([template.text for template in self.chart.templates])
        may_read_files = ".Files" in text and _TPL.search(text)
        is_whole = not may_read_files and {*_CALL.findall(text)} <= {*DEFINE.findall(text)}
        return is_whole and not any(map(_reads_any, self.chart.templates))

    @cached_property
    def paths(self) -> Set[str]:
        """The paths that templates read."""
        indexed = (keys for template in self.chart.templates for keys in _INDEXED.findall(template.text))
        return {*self.chart.paths, *(".".join(re.findall(r'"([^"]+)"', keys)) for keys in indexed)}

    @cached_property
    def keys(self) -> Mapping[str, set[str]]:
        """The keys that templates read, by the path of the mapping that contains them."""
        keys = defaultdict[str, set[str]](set)
        for path in self.paths:
            while path:
                path, _, key = path.rpartition(".")
                keys[path].add(key)
        return keys

    @cached_property
    def only(self) -> Mapping[str, Path]:
        """The paths whose last key no other path has, by this key."""
        count = Counter(path.rpartition(".")[2] for path in self.chart.paths)
        paths = (tuple(path.split(".")) for path in self.chart.paths)
        return {path[-1]: path for path in paths if count[path[-1]] == 1}

    @cached_property
    def _data(self) -> Sequence[bytes]:
        """The content of the files that may read values: templates, also of parent charts, and values."""
        directory = os.path.abspath(self.chart.directory)
        charts = [directory]
        while os.path.basename(parent := os.path.dirname(directory)) == "charts":
            charts.append(directory := os.path.dirname(parent))
        directories = filter(os.path.isdir, (os.path.join(each, "templates") for each in charts))
        return [*map(readable, find_files(directories, ("",))), *(each.data for each in self.chart.files)]

    @cached_property
    def dependencies(self) -> Sequence[Any]:
        """The charts on which the chart depends, as Chart.yaml and requirements.yaml list them."""
        paths = [os.path.join(self.chart.directory, name) for name in REQUIRED]
        texts = [(readable(path), path) for path in paths if os.path.isfile(path)]
        lists = [first_value(text, path) for text, path in texts if b"dependencies:" in text]
        return [item for value in lists for item in list_at(value, "dependencies")]

    @cached_property
    def dependency_keys(self) -> Mapping[str, str]:
        """The key of the values of each dependency by its name: the alias, if all of this name have one."""
        named = {(text_at(each, "name"), text_at(each, "alias")): None for each in self.dependencies}
        return {name: name if (name, "") in named else alias for name, alias in named}

    def may_read(self, path: Path) -> bool:
        """Report whether a template, a text with template actions, or another chart may read a value."""
        key, first = re.escape(str(path[-1])).encode(), str(path[0])
        word = re.compile(rb"[.\"'`]%b(?![\w-])" % key)
        inside = os.path.join(self.chart.directory, "charts")
        names = os.listdir(inside) if os.path.isdir(inside) else []
        is_of_dependency = any(name.startswith(first) for name in names) or self.is_of_dependency(first)
        return is_of_dependency or any(word.search(each) for each in self._data)

    def is_of_dependency(self, key: str) -> bool:
        """Report whether the entry of a dependency contains a key at the root of the values."""
        return re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", str(self.dependencies)) is not None

    def names(self, key: str) -> bool:
        """Report whether a template or the condition of a dependency names a key at the root of the values."""
        texts = [template.text for template in self.chart.templates]
        return f"{key}." in str(self.dependencies) or any(f".Values.{key}" in t or f'"{key}"' in t for t in texts)

    def place(self, path: Path) -> tuple[str, str]:
        """Return where a template reads the value at a path or below, and what it reads; ("", "") if none does."""
        pattern = re.compile(rf"\.Values\.({re.escape(field_path(path))}\b[\w.]*)")
        for template in self.chart.templates:
            match = pattern.search(template.text)
            if match and template.scope_at(match.start()):
                where = f"{os.path.basename(template.file)}:{template.place(*match.span()).line}"
                return where, match[1]
        return "", ""


def _reads_any(template: ChartText) -> bool:
    """Report whether a template may read values that it does not name."""
    named = {match.start(1) for match in _INDEXED.finditer(template.text)}
    found = (match for match in _WHOLE.finditer(template.text) if match.end() not in named)
    return any(template.scope_at(match.start()) for match in found)


class _Settings(NamedTuple):
    """Values for a chart. `is_default`: whether they are its defaults. `directory`: of the chart, if an object sets
    them. `is_certain`: whether they are certainly for this chart.
    """

    value: Any
    source: YamlSource
    is_default: bool = False
    directory: str = ""
    is_certain: bool = False


def unread_values(charts: Sequence[Chart], files: Input) -> Iterator[FileDiagnostic]:
    """Yield the values that nothing reads. In files of values, only those for which a template reads a similar key, or
    the same key of another mapping, that has no value, and those that are for dependencies.
    """
    known = {os.path.realpath(chart.directory): _Reads(chart) for chart in charts if chart.defaults}
    for reads in known.values():
        for values in reads.chart.files[:MAX_READ]:
            is_default = values is reads.chart.defaults
            yield from _unread_of(_Settings(values.value, values.source, is_default), reads)
        yield from _misnamed_dependencies(reads)
    for kustomization in files.kustomizations if known else ():
        home = text_at(kustomization.given, "helmGlobals", "chartHome") or "charts"
        for number, entry in enumerate(list_at(kustomization.given, "helmCharts")):
            name = text_at(entry, "name")
            source, path = EntrySource(kustomization, files.content, ("helmCharts", number)).source()
            if reads_there := known.get(kustomization.real(os.path.join(home, name))):
                yield from _unread_in(_Release(kustomization.given, source, path), name, reads_there)
    for file in [each for each in files.deployments if known and isinstance(each, File)]:
        for obj, source in sourced_values(readable(file), file.name):
            for directory, path in releases_in(obj) if isinstance(obj, dict) else ():
                directory = os.path.normpath(directory.strip("/"))
                if reads_there := _chart_at(directory, file.path, known):
                    yield from _unread_in(_Release(obj, source, path), directory, reads_there)


def _chart_at(directory: str, file: str, charts: Mapping[str, _Reads]) -> _Reads | None:
    """Return the chart that an object in a file names; the directory is relative to some directory above the file."""
    above = reversed([*upwards(os.path.dirname(os.path.realpath(file)))])
    found = (charts.get(os.path.normpath(os.path.join(each, directory))) for each in above)
    return next(filter(None, found), None)


class _Release(NamedTuple):
    """An object that deploys a chart, its source, and the path of its settings of Helm."""

    object: ApiObject
    source: YamlSource
    path: Path

    @property
    def settings(self) -> Iterator[_Settings]:
        """The values in the object."""
        for key in ("values", "valuesObject", "valuesInline"):
            value, path = at(self.object, *self.path, key), (*self.path, key)
            if isinstance(value, str):
                texts = FileTexts(self.source.tree.document.file)
                value, inner = texts.values(value, self.source, path)
                yield _Settings(value, inner if isinstance(inner, YamlSource) else self.source)
            elif value is not None:
                yield _Settings(value, self._source_at(path))
        for number, parameter in enumerate(list_at(self.object, *self.path, "parameters")[:_MAX_NODES]):
            steps = _DOT.split(text_at(parameter, "name").partition("[")[0])
            value = reduce(lambda inner, step: {step: inner}, reversed(steps), at(parameter, "value"))
            yield _Settings(value, self._source_at((*self.path, "parameters", number, "name")))

    def _source_at(self, path: Path) -> YamlSource:
        return self.source._replace(prefix=(*self.source.prefix, *path))


def _unread_in(release: _Release, directory: str, reads: _Reads) -> Iterator[FileDiagnostic]:
    """Yield the values with which an object deploys a chart, and which nothing reads."""
    every = [each for each in release.settings if isinstance(each.value, dict)]
    is_certain = any(not reads.keys[""].isdisjoint(each.value) for each in every)
    for settings in every:
        yield from _unread_of(settings._replace(directory=directory, is_certain=is_certain), reads)
    top = os.path.normpath(reads.chart.directory)
    for name in list_at(release.object, *release.path, "valueFiles")[:MAX_READ]:
        path = os.path.normpath(os.path.join(top, str(name)))
        if path.startswith(os.path.join(top, "")) and os.path.isfile(path):
            values = ChartValues(File(path, top))
            yield from _unread_of(_Settings(values.value, values.source, is_certain=True), reads)


def _unread_of(settings: _Settings, reads: _Reads) -> Iterator[FileDiagnostic]:
    """Yield the values that nothing reads, with what their author probably meant."""
    is_read = reads.is_known and not _ANCHOR.search(settings.source.tree.document.data)
    defaults = None if settings.is_default or settings.directory else reads.chart.defaults
    for path, value in islice(_unnamed(settings.value, reads), _MAX_UNREAD) if is_read else ():
        if defaults is not None and at(defaults.value, *path) is not None:
            continue
        own, wanted = _meant(path, value, settings, reads)
        is_of_dependency = path in _OF_DEPENDENCIES and reads.dependencies and not reads.chart.templates
        is_of_interest = wanted or (value not in _EMPTY and (settings.is_certain or is_of_dependency))
        if not is_of_interest or reads.may_read(path):
            continue
        where, read = reads.place(wanted) if wanted else ("", "")
        if where or not wanted:
            message, fix = _problem(settings, own, wanted, f"{where} reads {read}")
            if is_of_dependency:
                fix = f"move it below the name of its chart: {listed([*reads.dependency_keys.values()])}"
            yield FileDiagnostic("update-without-effect", message, settings.source.locate(own, key=True), fix)


def _problem(settings: _Settings, own: Path, wanted: Path, reader: str) -> tuple[str, str]:
    """Return the problem and the fix for an unread value. `wanted`: the path that a reader reads; () for none."""
    what = f"nothing in {settings.directory} reads" if settings.directory else "nothing reads"
    if not wanted:
        return f"{what} {field_path(own)}", "remove it, or read it in a template"
    fix = f"write {wanted[-1]}" if own[:-1] == wanted[:-1] else f"move the value to {field_path(wanted)}"
    if settings.is_default:
        reader, fix = f"{reader}, which has no value", f"{fix}, or .Values.{field_path(own)} in the template"
    return f"{what} {field_path(own)}: {reader}", fix


def _unnamed(values: Any, reads: _Reads) -> Iterator[tuple[Path, Any]]:
    """Yield the paths and values that no template names: of a mapping without a named value, only the mapping."""
    to_do: list[tuple[Path, Any]] = [((), values)]
    while to_do:
        path, value = to_do.pop()
        name = ".".join(map(str, path))
        if path and name not in reads.keys and name not in reads.paths:
            yield path, value
        elif isinstance(value, dict) and (not path or name not in reads.paths):
            to_do += (((*path, key), inner) for key, inner in reversed(value.items()))


def _meant(path: Path, value: Any, settings: _Settings, reads: _Reads) -> tuple[Path, Path]:
    """Return the path of an unread value, or of a value below, and the path without a value that its author probably
    meant; () for none.
    """
    name, holder = str(path[-1]), path[:-1]
    for key in islice(sorted(reads.keys.get(".".join(map(str, holder)), ())), _MAX_SIMILAR):
        wanted = (*holder, key)
        is_holder = ".".join(map(str, wanted)) in reads.keys and not isinstance(value, dict | None)
        if key != name and not is_holder and _is_similar(name, key) and _is_unset(wanted, settings, reads.chart):
            return path, wanted
    for own, inner in islice(_walk_values(path, value), _MAX_NODES) if path[0] != "global" else ():
        wanted = reads.only.get(str(own[-1]), ())
        is_meant = wanted not in ((), own) and _SPECIFIC.fullmatch(str(own[-1])) and inner not in _EMPTY
        if is_meant and _is_unset(wanted, settings, reads.chart):
            return own, wanted
    return path, ()


def _walk_values(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield a value and all values of mappings in it, with their paths."""
    to_do = [(path, value)]
    while to_do:
        path, value = to_do.pop()
        yield path, value
        if isinstance(value, dict):
            to_do += (((*path, key), inner) for key, inner in reversed(value.items()))


def _is_unset(path: Path, settings: _Settings, chart: Chart) -> bool:
    """Report whether values do not set a value; of defaults, whether no other file of the chart sets it either."""
    if not settings.is_default:
        return at(settings.value, *path) is None
    return all(at(each.value, *path) in _EMPTY for each in chart.files) and not chart.is_set_elsewhere(str(path[-1]))


def _is_similar(key: str, other: str) -> bool:
    """Report whether authors often mistake a key for another one: case, separators, plural, suffix Name, initials."""
    initials = {_initials(key), _initials(other)}
    return _is_alike(key, other) or is_misspelt(key, other, edits=1) or not initials.isdisjoint((key, other))


def _initials(key: str) -> str:
    """Return the initials of the words of a key: pdb of podDisruptionBudget; "" for less than three words."""
    words = _WORD.findall(key)
    return "".join(word[0] for word in words).lower() if len(words) > 2 else ""


_WORD: Final = later(r"[A-Z]?[a-z]+")


def _is_alike(key: str, other: str) -> bool:
    """Report whether keys differ only in what authors often mistake: case, separators, and either a plural `s` or the
    suffix Name: secretName is not secrets.
    """
    one, two = _plain(key), _plain(other)
    return (
        one == two
        or one.removesuffix("s") == two.removesuffix("s")
        or one.removesuffix("name") == two.removesuffix("name")
    )


@lru_cache(maxsize=1024)  # every key is compared with the same dependencies
def _plain(key: str) -> str:
    return key.replace("-", "").replace("_", "").lower()


def _misnamed_dependencies(reads: _Reads) -> Iterator[FileDiagnostic]:
    """Yield the values below the name of a dependency that has an alias, or below a name similar to a dependency."""
    values, aliases = reads.chart.files[0], reads.dependency_keys
    own = values.value if isinstance(values.value, dict) and aliases else {}
    used = {*aliases.values()}
    absent = sorted(used - own.keys())[:_MAX_SIMILAR]
    used.add("global")
    for key in [key for key, value in own.items() if isinstance(value, dict) and key not in used]:
        near = (name for name in absent if _is_alike(name, key) or is_misspelt(key, name))
        wanted = aliases.get(key) or next(near, "")
        if wanted and not reads.names(key):
            what = f"the dependency has the {'alias' if key in aliases else 'name'} {wanted}"
            place = values.source.locate((key,), key=True)
            yield FileDiagnostic("update-without-effect", f"no chart reads {key}: {what}", place, f"write {wanted}")
