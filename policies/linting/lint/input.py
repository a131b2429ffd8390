"""The input of `forewarn lint`: files, objects, and change sets."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Finding, Location, Severity
from forewarn.policies.base.findings import grouped as by_key
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.groups import Group, Grouping, Member, grouped, matches
from forewarn.policies.inputs.manifests.kustomizations import KUSTOMIZATIONS, Kustomization
from forewarn.policies.inputs.manifests.object_finder import NO_KIND
from forewarn.policies.inputs.manifests.reading import (
    BROKEN,
    Reading,
    identities,
    is_definition,
    is_typed,
    may_be_typed,
    may_conflict,
    named_kinds,
    read,
    readable_values,
)
from forewarn.policies.inputs.manifests.yaml.scalars import FIELD_WANTS
from forewarn.policies.inputs.sources.files import (
    MANIFESTS,
    TEMPLATES,
    File,
    SourceError,
    find_files,
    read_file,
    readable,
    real_directory,
    real_path,
)
from forewarn.policies.inputs.sources.git import upwards
from forewarn.policies.kubernetes.kinds.class_paths import CRD, PRESETS, ClassPath, class_paths_of
from forewarn.policies.kubernetes.kinds.registry import (
    DEFAULT_NAMESPACE,
    DEPLOYERS,
    FLUX_KUSTOMIZATION,
    GROUP_TEMPLATES,
    LINTED,
    ONLY_LINTED,
    POD_GROUP,
    PRIORITY_CLASS,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, Operation, ReviewedObject
from forewarn.policies.kubernetes.selectors import one_of
from forewarn.policies.linting.evaluation.suppressions import Suppression, annotation_suppressions, comment_suppressions
from forewarn.policies.linting.lint.assertions import ASSERTION, assertion_files
from forewarn.policies.linting.lint.charts import CHART

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.linting.lint.chart_texts import Chart, ChartValues
    from forewarn.policies.linting.lint.templates import Engine, Use


TEMPLATE_BRACES: Final = "template-braces"
EXCLUDED: Final = "excluded file"
DANGLING: Final = "link without a target"
UNTYPED: Final = "unreadable file without a kind"
DATA: Final = "data of a ConfigMap or Secret"
TEMPLATE: Final = "template of other kinds"
SUFFIXES: Final = (*MANIFESTS, "kustomization")
"""Suffixes of the names of files to read, in lower case."""
_SKIPPED_DEPLOYERS: Final = frozenset(kind.partition("/")[2] for kind in DEPLOYERS)


def wanted_kinds(config: Config) -> frozenset[str]:
    """Return the `group/Kind` of all objects that the linter checks."""
    return frozenset((*LINTED, *ONLY_LINTED, *config.options.pod_template_paths, *config.options.class_paths))


def is_in(path: str, patterns: Sequence[str]) -> bool:
    """True if a pattern matches a path. Patterns may start with `./`, like paths in reports."""
    return matches(path, _relative(tuple(patterns)))


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """True if `exclude` matches a file or a directory above it: by its path, or without `/` by its name."""
    if not patterns:
        return False
    names, paths = _exclusions(tuple(patterns))
    return any(one_of(names, name) for name in os.path.relpath(path).split(os.sep)) or matches(path, paths)


@lru_cache
def _relative(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.removeprefix("./") for pattern in patterns)


@lru_cache
def _exclusions(patterns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The patterns of names and of paths."""
    names = tuple(pattern.removesuffix("/") for pattern in patterns)
    return names, _relative((*names, *(f"{name}/*" for name in names)))


_MAX_AFFIXES: Final = 100


class Input:
    """The input of the linter: objects with their files, and data for the summary and excerpts.

    `wanted`: the `group/Kind` of objects to read. `namespace`: of objects that name none.
    """

    def __init__(self, wanted: frozenset[str] = frozenset(), namespace: str = DEFAULT_NAMESPACE) -> None:
        self.wanted, self.namespace = wanted, namespace
        self.members: list[Member] = []
        self.kustomizations: list[Kustomization] = []
        self.directories: dict[str, str] = {}
        """The real paths of directories."""
        self.real_path: Callable[[str], str] = partial(real_path, directories=self.directories)
        self.diagnostics: list[FileDiagnostic] = []
        self.texts: dict[str, bytes] = {}
        self.sources: dict[str, File] = {}
        self.objects = 0
        self.reported: list[str] = []
        self.suppressions: list[Suppression] = []
        self.skipped: Counter[str] = Counter()
        self.left_out: dict[str, str] = {}
        """The skipped files and directories, each with the reason."""
        self.deployments: list[str | File] = []
        """Directories of the repository that Flux deploys, and files with other objects that deploy directories."""
        self.keeps_replicas = False
        """Whether Argo CD does not apply the replicas of a workload."""
        self.chart_templates: list[str] = []
        """Directories of templates of charts."""
        self.engines: dict[str, Engine] = {}
        """The engine of each file that is a template."""
        self.printed_keys = defaultdict[str, set[str]](set)
        """The keys of values that templates of a chart print as PriorityClass names, by the directory of the chart."""
        self.class_names = set[str]()
        """Names of classes that templates define with values that are known only after rendering."""
        self.unread_names = set[str]()
        """Names and labels in files with syntax errors."""
        self.class_uses = Counter[str]()
        """How often files name each PriorityClass."""
        self.with_names: list[tuple[File, bytes, Reading]] = []
        """Files with PriorityClass names."""
        self.files_of: defaultdict[str, list[str]] = defaultdict(list)
        """Names of files with skipped objects that may name a PriorityClass or priority, by kind in any API group."""
        self.defining: list[tuple[File, frozenset[str]]] = []
        """Files with CustomResourceDefinitions, and the `group/Kind`s of these."""
        self.class_paths: dict[str, tuple[ClassPath, ...]] = {}
        """The class fields of these definitions' kinds."""
        self.unreadable: list[Exception] = []
        """The errors of files that could not be read."""

    def report_on(self, name: str, reading: Reading) -> None:
        """Add the counts, diagnostics and suppressions of a text on which findings are reported."""
        self.reported.append(name)
        self.suppressions += comment_suppressions(reading.comments)
        self.suppressions += annotation_suppressions(reading.subjects)
        self.objects += reading.objects
        self.diagnostics += reading.diagnostics
        is_manifest = not _is_of_chart(name)
        self.skipped.update({kind: count for kind, count in reading.skipped.items() if is_manifest or kind != NO_KIND})

    @property
    def omitted(self) -> Counter[str]:
        """Number of skipped files and directories by reason."""
        return Counter(self.left_out.values())

    def files_with(self, kind: str) -> Sequence[str]:
        """Return the names of the files that may name a PriorityClass in objects of a kind, in any API group."""
        return self.files_of.get(kind.rpartition("/")[2], ())

    def leave_out(self, path: str, what: str) -> None:
        """Record a skipped file or directory. `what`: the reason, as in the summary."""
        if what == TEMPLATES and path not in self.left_out:
            self.chart_templates.append(path)
        if what == DANGLING:
            place, fix = Location(path, 1, 1, 2), "remove the link, or create its target"
            found = FileDiagnostic("parse-error", DANGLING, place, fix, severity=Severity.WARNING)
            self.diagnostics.append(found)
        self.left_out[path] = what

    @property
    def defined_classes(self) -> frozenset[str]:
        return frozenset(m.identity[2] for m in self.members if m.identity[0] == PRIORITY_CLASS)

    @property
    def class_values(self) -> dict[str, dict[int, Location]]:
        """The values of each defined PriorityClass, each with the location of the first definition with this value."""
        locations: dict[str, dict[int, Location]] = {}
        for member in self.members:
            kind, _, name = member.identity
            value = member.subject.object.get("value")
            if kind == PRIORITY_CLASS and name and isinstance(value, int) and not isinstance(value, bool):
                locations.setdefault(name, {}).setdefault(value, member.subject.locate(("value",)))
        return locations

    @property
    def renamed_classes(self) -> Iterator[str]:
        """The names that kustomizations give to the PriorityClasses of the input with `namePrefix` and `nameSuffix`."""
        affixes = {kustomization.affixes for kustomization in self.kustomizations}
        for prefix, suffix in islice(affixes - {("", "")}, _MAX_AFFIXES):
            yield from (f"{prefix}{name}{suffix}" for name in self.defined_classes)

    @property
    def subjects(self) -> list[ReviewedObject]:
        return [member.subject for member in self.members if member.reported and member.subject.object]

    def grouping(self, config: Config, *, one: bool = False, limits_stay: bool = True) -> Grouping:
        """Return the objects grouped by change set; adds the patches that kustomize rejects to `diagnostics`.

        `one`: all in one group. `limits_stay`: see `grouped`.
        """
        if one:
            return grouped([member._replace(file="", home=None) for member in self.members])
        grouping = grouped(
            self.members,
            self.kustomizations,
            config.options.groups,
            limits_stay=limits_stay,
            read=self.content,
            unread=self._unread(),
        )
        self.diagnostics += grouping.faults
        return grouping

    def _unread(self) -> Mapping[str, Sequence[Member]]:
        """Return the objects of kinds that rules do not read, by the real paths of files that kustomizations list."""
        paths = {
            path for kustomization in self.kustomizations for path in kustomization.resources
        } & self.files_by_path.keys()
        return {path: [*self._unread_in(self.files_by_path[path])] for path in sorted(paths)}

    def _unread_in(self, file: File) -> Iterator[Member]:
        for obj, source in identities(readable(file), file.name):
            if group_kind(obj) not in self.wanted:
                namespace = text_at(obj, "metadata", "namespace") or self.namespace
                yield Member(ReviewedObject(obj, namespace=namespace, source=source), file.path, reported=False)

    @cached_property
    def files_by_path(self) -> Mapping[str, File]:
        """The files by their real paths."""
        return {self.real_path(file.path): file for file in self.sources.values() if not file.is_stream}

    def content(self, path: str) -> bytes | None:
        """Return the content of a file by its real path; None for files that are not in the input."""
        return readable(self.files_by_path[path]) if path in self.files_by_path else None


class LintRequest(NamedTuple):
    """What to check, and how.

    `namespace`: of objects that name none. `definitions`: files and directories that are read, but without reporting
    findings on them. `schemas`: files, directories and clusters of which only CustomResourceDefinitions are read.
    `stdin_filename`: name and assumed path of standard input. `gitignore`: skip files that .gitignore excludes.
    `changed`: contents to read instead of those of files, by path. `base`: the commit with which the input is compared;
    `before`: its PriorityClasses.
    """

    paths: Sequence[str]
    config: Config
    namespace: str | None = None
    definitions: Sequence[str] = ()
    schemas: Sequence[str] = ()
    stdin_filename: str = ""
    gitignore: bool = True
    one_apply: bool = False
    changed: Mapping[str, bytes] = {}
    base: str = ""
    before: Mapping[str, Mapping[str, ApiObject]] = {}


def files_of(request: LintRequest, omitted: Callable[[str, str], None]) -> Iterator[File]:
    """Yield the files to check. `omitted`: called with each skipped file or directory, and the reason."""
    listed = list(find_files(request.paths, SUFFIXES, omitted, as_git=request.gitignore))
    assertions = assertion_files(listed)
    for file in listed:
        if os.path.normpath(file.path) in assertions:
            omitted(file.path, ASSERTION)
        elif is_excluded(file.path, request.config.options.exclude):
            omitted(file.path, EXCLUDED)
        elif file.tree and os.path.islink(file.path) and not os.path.exists(file.path):
            omitted(file.path, DANGLING)
        else:
            yield file


def read_input(request: LintRequest) -> Input:
    """Read all files. Unreadable files are recorded in the result."""
    given = Input(wanted_kinds(request.config), request.namespace or DEFAULT_NAMESPACE)
    files = [_as_given(file, request) for file in files_of(request, given.leave_out)]
    for file in files:
        _read(file, given, reported=True)
    if given.kustomizations or given.deployments:
        from forewarn.policies.linting.lint.deployed import deployed_files

        for file in deployed_files(given, request):
            if is_excluded(file.path, request.config.options.exclude):
                given.leave_out(file.path, EXCLUDED)
            else:
                given.left_out.pop(file.path, "")
                _read(_as_given(file, request), given, reported=True, deployed=True)
    for file in find_files(request.definitions):
        if file.name not in given.sources:
            _read(file, given, reported=False)
    if given.kustomizations:
        from forewarn.policies.linting.lint.patch_targets import failing, undecoded, unmatched

        faults = [*failing(given)]
        unknown = {id(kustomization) for kustomization, _ in faults}
        given.kustomizations = [
            each._replace(resources=(), components=(), content={}, is_open=True) if id(each) in unknown else each
            for each in given.kustomizations
        ]
        given.diagnostics = [
            *_manifest_diagnostics(given),
            *undecoded(given),
            *unmatched(given),
            *(fault for _, fault in faults),
        ]
    if request.schemas or given.defining:
        read_by_schema(given, request.config, request.schemas)
    if given.with_names:
        _read_other_names(given)
    return given


def _manifest_diagnostics(files: Input) -> Iterator[FileDiagnostic]:
    """Yield the diagnostics, except those about patches without `apiVersion` or `kind`, whose target is elsewhere,
    and about data of ConfigMaps and Secrets, which need not be YAML. kustomize rejects repeated keys in resources.
    """
    patches = {path for kustomization in files.kustomizations for path in kustomization.patches}
    resources = {path for kustomization in files.kustomizations for path in kustomization.resources} - patches
    data = {path for kustomization in files.kustomizations for path in kustomization.data}
    for diagnostic in files.diagnostics:
        path = os.path.realpath(diagnostic.location.file)
        if diagnostic.rule in BROKEN and path in data:
            files.leave_out(diagnostic.location.file, DATA)
        elif diagnostic.effect and path in resources:
            effect = f"kustomize build fails; {diagnostic.effect}"
            yield diagnostic._replace(rule="parse-error", effect=effect, severity=None)
        elif not (diagnostic.is_incomplete and path in patches):
            yield diagnostic


def _as_given(file: File, request: LintRequest) -> File:
    """Return the file with the name and content from the request, if it has any for this file."""
    if request.stdin_filename and file.path == "-":
        file = file._replace(called=request.stdin_filename)
    return file._replace(data=request.changed.get(file.path, file.data))


def _read(file: File, files: Input, *, reported: bool, deployed: bool = False) -> None:
    """Read a file into the input. `reported`: report findings on the file. `deployed`: a tool deploys the file, so it
    is a manifest.
    """
    try:
        content = read_file(file)
    except SourceError as fault:
        files.unreadable.append(fault)
        return
    reading = read(content, file.name, files.wanted, namespace=files.namespace)
    if what := _read_as_text(content, file, files, reading, deployed=deployed):
        files.leave_out(file.path, what)
        return
    if reported and b"riorityClassName" in content:
        _add_names(content, file, files, reading)
    files.sources[file.name] = file
    if not BROKEN.isdisjoint(diagnostic.rule for diagnostic in reading.diagnostics):
        files.unread_names.update(match[1].decode() for match in islice(_NAMING.finditer(content), _MAX_UNREAD))
    if reading.defined:
        files.defining.append((file, reading.defined))
    place = file.called or file.path
    files.members += (Member.from_object(subject, place, reported=reported) for subject in reading.subjects)
    _read_names(content, file, files, reading)
    if not reported:
        return
    files.report_on(file.name, reading)
    for kind in reading.skipped if b"riority" in content or b"preemptionPolicy" in content else ():
        files.files_of[kind.rpartition("/")[2]].append(file.name)
    if file.is_stream:
        files.texts[file.name] = content


_NAMING: Final = later(rb"(?<![A-Za-z])(?:name|app)[\"']?:[ \t]*[\"']?([a-z0-9][a-z0-9.-]{0,252})")
"""Names of objects, and the labels that usually have the same value."""
_MAX_UNREAD: Final = 10_000


def _read_names(content: bytes, file: File, files: Input, reading: Reading) -> None:
    """Record a kustomization, and a file with objects of Argo CD or Flux: they name files to deploy."""
    if os.path.basename(file.path) in KUSTOMIZATIONS:
        from forewarn.policies.inputs.manifests.kustomizations import read_kustomization  # few trees have any

        real = partial(real_directory, directories=files.directories)
        if (kustomization := read_kustomization(content, file.path, real)) is not None:
            files.kustomizations.append(kustomization)
    kinds = {group_kind(subject.object) for subject in reading.subjects}
    if FLUX_KUSTOMIZATION in kinds:
        objects = (s.object for s in reading.subjects if group_kind(s.object) == FLUX_KUSTOMIZATION)
        of_repository = (obj for obj in objects if at(obj, "spec", "sourceRef", "kind") != "OCIRepository")
        files.deployments += filter(None, (text_at(obj, "spec", "path") for obj in of_repository))
    if kinds.intersection(DEPLOYERS) or not _SKIPPED_DEPLOYERS.isdisjoint(reading.skipped):
        files.deployments.append(file)
        files.keeps_replicas |= b"RespectIgnoreDifferences=true" in content and b"replicas" in content


def _read_as_text(content: bytes, file: File, files: Input, reading: Reading, *, deployed: bool) -> str:
    """Add the contents of a template or values file; return why the file is no manifest, "" if it may be one."""
    what = _no_manifest(file.path, reading, content, files.wanted) if file.tree and not deployed else ""
    what = "template of ytt" if file.tree and _OF_YTT.search(content) else what
    files.class_names |= _listed_classes(content, file) if NO_KIND in reading.skipped else set()
    is_template = what != UNTYPED and any(diagnostic.rule == TEMPLATE_BRACES for diagnostic in reading.diagnostics)
    if is_template and file.name not in files.engines:
        from forewarn.policies.linting.lint.templates import engine_of

        files.engines[file.name] = engine_of(content)
        _read_template(content, file, files, {}, set(), reading.subjects)
    return what


_OF_YTT: Final = later(rb"^[ \t]*#@ ?(?:load\(|def |overlay/|data/|library/)|: #@ ", re.MULTILINE)


def _listed_classes(content: bytes, file: File) -> set[str]:
    """The names in the list `priorityClasses` of a values file, from which a template creates PriorityClasses."""
    found = readable_values(content, file.name) if b"priorityClasses:" in content else ()
    listed = [item for value in found for item in list_at(value, "priorityClasses")]
    return {name for item in listed if isinstance(name := at(item, "name"), str) and at(item, "value") is not None}


_USE: Final = later(
    rb"priorityClassName(?<![^\s\"'{,-]priorityClassName)[\"']?:"
    rb"[ \t]*[\"']?([a-z0-9][a-z0-9.-]{0,252})[\"']?[ \t]*(?:[,}#]|\r?$)",
    re.MULTILINE,
)


def _count_uses(content: bytes, files: Input) -> None:
    """Count the PriorityClass names in a file."""
    files.class_uses.update(name.decode() for name in _USE.findall(content))


def _add_names(content: bytes, file: File, files: Input, reading: Reading) -> None:
    """Add the PriorityClass names in a file. Names outside of objects that rules read are only added later."""
    if file.name not in files.engines:  # otherwise counted with its template
        _count_uses(content, files)
    _count_variable(content, file, files, reading)
    is_all_read = len(reading.subjects) == reading.objects and not reading.diagnostics
    if not is_all_read or any(s.within or group_kind(s.object) in (*PRESETS, *ONLY_LINTED) for s in reading.subjects):
        files.with_names.append((file, content, reading))


def _read_other_names(files: Input) -> None:
    """Add the PriorityClass names outside of the objects that rules read."""
    from forewarn.policies.linting.lint.templates import other_names

    subjects: dict[str, list[ReviewedObject]] = {file.called or file.path: [] for file, _, _ in files.with_names}
    for member in files.members:
        if member.file in subjects:
            subjects[member.file].append(member.subject)
    for file, content, reading in files.with_names:
        place = file.called or file.path
        is_json = content.lstrip()[:1] in (b"{", b"[")
        is_template = any(diagnostic.rule == TEMPLATE_BRACES for diagnostic in reading.diagnostics)
        if not (is_json or is_template or is_definition(content) or _is_of_chart(file.path)):
            files.members += (Member(s, file.path) for s in other_names(content, file.name, subjects[place]))


def _is_of_chart(path: str) -> bool:
    """Report whether a file is a values file of a chart, which `read_templates` reads, or its Chart.yaml."""
    directory, name = os.path.split(path)
    is_named = name.startswith("values") or name == "Chart.yaml"
    return is_named and os.path.isdir(os.path.join(directory, "templates"))


_VARIABLE: Final = later(rb"riorityClassName[\"']?[ \t]*:[^\n]{0,120}?[{$@%]")


def _count_variable(content: bytes, file: File, files: Input, reading: Reading) -> None:
    """Record a manifest with a variable as PriorityClass name, whose value is unknown."""
    if not reading.subjects or _VARIABLE.search(content) is None:
        return
    from forewarn.policies.linting.lint.templates import engine_of, has_variable_class

    if has_variable_class(content):
        files.engines.setdefault(file.name, engine_of(content))


def read_templates(files: Input, request: LintRequest) -> None:
    """Read the templates and values of unrendered charts, for checks that need no rendering.

    Unreadable templates give one diagnostic per directory.
    """
    files.wanted, read, values_of = wanted_kinds(request.config), {*files.reported}, _values_by_chart(files)
    charts: list[Chart] = []
    printed = dict[str, Sequence[str]]()
    directories = {os.path.realpath(path): path for path in reversed(files.chart_templates)}.values()
    found = find_files(directories, ("",), files.leave_out, as_git=request.gitignore)
    for directory, templates in groupby(found, lambda file: file.tree):
        chart = os.path.dirname(directory)
        ignored = _ignored_by_helm(chart)
        used: dict[str, Use] = {}
        defining, texts = set[str](), dict[str, str]()
        for file in templates:
            if file.name in read or os.path.basename(file.path) == _NOTES:
                continue
            if any(one_of(ignored, name) for name in os.path.relpath(file.path, chart or os.curdir).split(os.sep)):
                files.leave_out(file.path, EXCLUDED)
            elif not is_excluded(file.path, request.config.options.exclude):
                _read_chart_template(file, files, used, defining, texts)
        if texts or chart in values_of:
            from forewarn.policies.linting.lint.chart_limits import contradicting_limits
            from forewarn.policies.linting.lint.chart_texts import Chart, faults_in_chart, printed_files, values_in

            values = values_in(values_of.get(chart, []))
            for each in values:
                _read_values(each, files, used, defining)
            charts.append(Chart(chart, texts, values))
            files.diagnostics += (*faults_in_chart(charts[-1]), *contradicting_limits(charts[-1]))
            printed[os.path.realpath(chart)] = printed_files(texts.values())
    umbrellas = [each for each in values_of if os.path.isfile(os.path.join(each, CHART))]
    for chart in [each for each in umbrellas if not os.path.isdir(os.path.join(each, "templates"))]:
        from forewarn.policies.linting.lint.chart_texts import Chart, faults_in_chart, values_in

        charts.append(Chart(chart, {}, values_in(values_of.get(chart, []))))
        files.diagnostics += faults_in_chart(charts[-1])
    if charts:
        from forewarn.policies.linting.lint.unread_values import unread_values

        files.diagnostics += unread_values(charts, files)
    _read_printed(files, printed)
    if files.engines:
        from forewarn.policies.linting.lint.templates import merge_by_directory

        files.diagnostics = list(merge_by_directory(files.diagnostics, files.engines))


def _values_by_chart(files: Input) -> Mapping[str, list[File]]:
    """Return the files of values by their directory."""
    named = [name for name in files.sources if os.path.basename(name).startswith("values")]
    return by_key((os.path.dirname(name), files.sources[name]) for name in named if not name.endswith(".schema.json"))


def _read_printed(files: Input, printed: Mapping[str, Sequence[str]]) -> None:
    """Read the files with syntax errors that are templates and parts of other files: the errors prove nothing there.

    `printed`: patterns of the files that a chart prints, by the real path of the chart.
    """
    from forewarn.policies.linting.lint.templates import HELM

    parts = set[str]()
    broken = {diagnostic.location.file for diagnostic in files.diagnostics if diagnostic.rule == "parse-error"}
    read = defaultdict[str, list[ReviewedObject]](list)
    for member in files.members if broken and printed else ():
        read[member.file].append(member.subject)
    for name in sorted(broken) if printed else ():
        file, path = files.sources.get(name), os.path.realpath(name)
        chart = next((above for above in upwards(os.path.dirname(path)) if above in printed), None)
        if file is None or chart is None or not one_of(printed[chart], os.path.relpath(path, chart)):
            continue
        content = readable(file)
        if b"{{" in content and not path.startswith(os.path.join(chart, "templates", "")):
            parts.add(name)
            if name not in files.engines:
                files.engines[name] = HELM
                _read_template(content, file, files, {}, set(), read[file.path])
    files.diagnostics = [d for d in files.diagnostics if d.rule != "parse-error" or d.location.file not in parts]


def _ignored_by_helm(chart: str) -> Sequence[str]:
    """Return the patterns of names in .helmignore; none if it has exceptions. Ignores patterns of paths."""
    text = readable(File(os.path.join(chart, ".helmignore"), chart)).decode("utf-8", "replace")
    patterns = [line.strip().removesuffix("/") for line in text.split("\n")]
    has_exceptions = any(each.startswith("!") for each in patterns)
    return [] if has_exceptions else [each for each in patterns if each and each[0] != "#" and "/" not in each]


_NOTES: Final = "NOTES.txt"
_TEMPLATES: Final = f"{os.sep}templates{os.sep}"
_OTHER_TEXT: Final = later(r"\.(?!ya?ml|json|k8s)[a-z0-9]+\.tpl$")
"""Names of templates whose text is part of another file, such as `_test.sh.tpl`."""


def is_helper(path: str) -> bool:
    """Report whether a template file prints nothing itself, because it only defines templates for others."""
    return path.endswith(".tpl") or os.path.basename(path).startswith("_")


def _read_chart_template(
    file: File, files: Input, used: dict[str, Use], defining: set[str], texts: dict[str, str]
) -> None:
    """Read a file in a chart's templates directory; without braces, it is a plain manifest. Adds others to `texts`."""
    from forewarn.policies.linting.lint.templates import HELM

    try:
        content = read_file(file)
    except SourceError as fault:
        files.unreadable.append(fault)
        return
    if content.startswith(b"#!") or _OTHER_TEXT.search(os.path.basename(file.path)):
        files.leave_out(file.path, TEMPLATE)
    elif (b"{{" in content or is_helper(file.path)) and not may_conflict(content):
        files.engines[file.name] = HELM
        files.sources[file.name] = file
        texts[file.name] = content.decode("utf-8", "replace")
        _read_template(content, file, files, used, defining)
    else:
        _read(file, files, reported=True)


def merge_value_findings(findings: list[Finding], files: Input) -> list[Finding]:
    """Return the findings without duplicates about one value (`value: yes`): the error replaces the warning about its
    spelling.

    In files of kustomize, which reads a string there, the warning replaces the error. In other files, a boolean for a
    boolean field is right.
    """
    findings = _merge_repeated_keys(findings)
    switches = [f for f in findings if f.rule == "ambiguous-value"]
    if not switches:
        return findings
    texts = _texts_of_kustomize(switches, files)
    repeats = {(f.location, f.rule) for f in switches if FIELD_WANTS in f.message and f.location not in texts}
    wrong = {f.location: f.message for f in findings if f.rule == "value-rejected"}
    for place in {f.location for f in switches} & wrong.keys():
        is_of_text = place in texts and wrong[place].endswith("of type string")
        repeats.add((place, "value-rejected" if is_of_text else "ambiguous-value"))
    kept = (f for f in findings if (f.location, f.rule) not in repeats)
    return [_kustomize_finding(f) if f.rule == "ambiguous-value" and f.location in texts else f for f in kept]


def _merge_repeated_keys(findings: list[Finding]) -> list[Finding]:
    """Return the findings with an error about each repeated key whose second value lacks a required field, in place of
    the one about the field, which is below the first key.
    """
    twice = {f.location for f in findings if f.rule == "duplicate-key"}
    lost = {f.location for f in findings if f.rule == "value-rejected" and _REQUIRED in f.message} & twice
    kept = (f for f in findings if f.rule != "value-rejected" or f.location not in lost)
    return [f._replace(severity=Severity.ERROR) if f.location in lost else f for f in kept]


def _texts_of_kustomize(switches: Sequence[Finding], files: Input) -> set[Location]:
    """Return the positions of booleans that kustomize reads as strings."""
    of_kustomize = {path for k in files.kustomizations for path in (*k.resources, *k.patches)}
    return {f.location for f in switches if _BOOLEAN in f.message and os.path.realpath(f.file) in of_kustomize}


def _kustomize_finding(finding: Finding) -> Finding:
    return finding.as_note._replace(text=finding.text._replace(problem=f"{finding.text.problem}, as kustomize does"))


_REQUIRED: Final = ": Required value"
_BOOLEAN: Final = " as the boolean "


def _read_template(
    content: bytes,
    file: File,
    files: Input,
    used: dict[str, Use],
    defining: set[str],
    before: Sequence[ReviewedObject] = (),
) -> None:
    """Add the objects of an unrendered template.

    Adds to `used` the value keys that the template uses as class names, to `defining` those in definitions of
    classes. `before`: objects of the file that are not templates.
    """
    from forewarn.policies.inputs.manifests.templates import outline
    from forewarn.policies.linting.lint.templates import keys_of, keys_of_name, literal_names, printed_keys_of

    outlined = outline(content, file.name, files.wanted, files.namespace, before)
    files.diagnostics += outlined.diagnostics
    files.members += (Member(subject, file.path) for subject in (*outlined.complete, *outlined.partial))
    text = content.decode("utf-8", "replace")
    if not is_helper(file.path):
        from forewarn.policies.linting.lint.template_blocks import faults_in

        files.diagnostics += faults_in(text, file.name)
    if b"riorityClass" not in content:
        return
    _count_uses(content, files)
    lines = text.split("\n")
    for subject in outlined.partial:
        obj = subject.object
        if group_kind(obj) != PRIORITY_CLASS:
            continue
        if not subject.ref.name:
            defining |= keys_of_name(lines, subject)
        elif obj.get("value") is None or obj.get("preemptionPolicy", "") is None:
            files.class_names.add(subject.ref.name)
        else:
            files.members.append(Member(ReviewedObject(obj), file.path, reported=False))
    files.members += (Member(s, file.path) for s in literal_names(text, file.name, outlined.complete))
    chart, _, name = file.path.partition(_TEMPLATES)
    for key, use in keys_of(text, f"templates/{name}" if name else file.path).items():
        used.setdefault(key, use)
    files.printed_keys[chart] |= printed_keys_of(text)


def _read_values(values: ChartValues, files: Input, used: Mapping[str, Use], defining: set[str]) -> None:
    """Add the class names in a chart's values. `used`, `defining`: see `_read_template`."""
    from forewarn.policies.linting.lint.templates import NO_USE, maps_in_values, names_in_values

    path = values.file.path
    maps = maps_in_values(values, files.printed_keys[os.path.dirname(path)])
    files.members += (Member(subject, path) for subject in maps)
    for key, name, subject in names_in_values(values, {**dict.fromkeys(defining, NO_USE), **used}):
        if key in defining:
            files.class_names.add(name)
        else:
            files.members.append(Member(subject, path))


def _no_manifest(file: str, reading: Reading, content: bytes, wanted: frozenset[str]) -> str:
    """Return why an unreadable file is not a manifest, as a type of skipped file; "" if the file may be a manifest."""
    broken = {diagnostic.rule for diagnostic in reading.diagnostics} & BROKEN
    if not broken or reading.objects > reading.skipped.get(NO_KIND, 0):
        return ""
    is_kustomization = os.path.basename(file) in KUSTOMIZATIONS
    if reading.others_read and (may_be_typed(content) or is_kustomization):
        return ""
    if is_kustomization and "parse-error" in broken:
        return ""
    named = named_kinds(content)
    if not named or not is_typed(content):
        return UNTYPED
    ours = {"", *(kind.rpartition("/")[2] for kind in wanted)}
    is_ours = any(kind in ours or kind.endswith("List") for kind in named)
    return "" if is_ours or "parse-error" in broken else TEMPLATE


def as_updates(group: Group, cluster: ClusterSnapshot | None) -> Group:
    """Return the group as kubectl would send it to this cluster: objects that the cluster has become updates."""
    if cluster is None:
        return group
    sent = {id(subject): as_update(subject, cluster) for subject in group.subjects}
    evaluated = tuple(sent.get(id(subject), subject) for subject in group.evaluated)
    return group._replace(subjects=tuple(sent.values()), evaluated=evaluated)


def as_update(subject: ReviewedObject, cluster: ClusterSnapshot | None) -> ReviewedObject:
    """Return the subject as kubectl would send it: an update if the cluster has the object."""
    if cluster is None or subject.old is not None:
        return subject
    kind, ref = group_kind(subject.object), subject.ref
    namespace = ref.namespace or (DEFAULT_NAMESPACE if kind in (POD_GROUP, GROUP_TEMPLATES) else "")
    old = cluster.stored(kind, namespace, ref.name)
    return subject if old is None else subject._replace(operation=Operation.UPDATE, old=old)


def read_by_schema(files: Input, config: Config, more: Sequence[str]) -> None:
    """Add the objects of custom kinds whose definition is in the input, or in `more` files and named sources.

    Kinds with built-in or configured paths are unchanged.
    """
    defining = [*files.defining, *((file, frozenset(("",))) for file in find_files(filter(os.path.exists, more)))]
    done = {*config.options.class_paths, *config.options.pod_template_paths}
    for file, kinds in defining:
        if any(kind not in done and (not kind or files.files_with(kind)) for kind in kinds):
            _add_paths(file, files, done)
    if more and files.files_of:
        from forewarn.policies.inputs.sources.cluster import objects_of

        for definition in chain.from_iterable(objects_of(source, "definitions") for source in more):
            kind, paths = class_paths_of(definition)
            if paths and kind not in done and files.files_with(kind):
                files.class_paths[kind] = paths
    for name in dict.fromkeys(name for kind in files.class_paths for name in files.files_with(kind)):
        _add(files.sources[name], files)


def _add_paths(file: File, files: Input, done: set[str]) -> None:
    """Record the PriorityClass paths of the kinds that a file defines; add these kinds to `done`."""
    for definition in _definitions(file):
        kind, paths = class_paths_of(definition)
        if paths and kind not in done:
            files.class_paths[kind] = paths
        done.add(kind)


def with_schemas(config: Config, files: Input) -> Config:
    """Return the configuration with the PriorityClass paths from definitions in the input."""
    paths = {**config.options.class_paths, **files.class_paths}
    return config._replace(options=config.options._replace(class_paths=paths)) if files.class_paths else config


def _definitions(file: File) -> Iterator[ApiObject]:
    content = readable(file)
    if b"CustomResourceDefinition" in content:
        yield from (subject.object for subject in read(content, file.name, frozenset((CRD,)), again=True).subjects)


def _add(file: File, files: Input) -> None:
    """Read a file again, only for the kinds whose definition was found."""
    content = files.texts.get(file.name) or readable(file)
    reading = read(content, file.name, files.class_paths, namespace=files.namespace, again=True)
    place = file.called or file.path
    for subject in reading.subjects:
        files.members.append(Member.from_object(subject, place))
        files.skipped[str(subject.object["kind"])] -= 1
    files.skipped += type(files.skipped)()  # drops counts of 0
    files.suppressions += annotation_suppressions(reading.subjects)
