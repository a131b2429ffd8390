"""The input of `forewarn lint`: files, objects, and change sets."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.commands.assertion_files import ASSERTION, assertion_files
from forewarn.policies.evaluation.suppressions import of_annotations, of_comments
from forewarn.policies.kinds.registry import (
    DEFAULT_NAMESPACE,
    GROUP_TEMPLATES,
    LINTED,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
)
from forewarn.policies.manifests import BROKEN, NO_KIND, is_typed, named_kinds, read
from forewarn.policies.manifests.groups import Grouping, Member, grouped, matches
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.reviewed_object import FileDiagnostic, Operation, ReviewedObject
from forewarn.policies.sources import SourceError, find_files, read_file
from forewarn.policies.sources.files import TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.commands.lint_templates import Engine
    from forewarn.policies.config.model import Config
    from forewarn.policies.evaluation.suppressions import Suppression
    from forewarn.policies.findings import ObjectRef
    from forewarn.policies.kinds.class_paths import ClassPath
    from forewarn.policies.manifests import Reading
    from forewarn.policies.manifests.groups import Group, Kustomization
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.sources.files import File

TEMPLATE_BRACES: Final = "template-braces"
EXCLUDED: Final = "excluded file"
UNTYPED: Final = "unreadable file without a kind"
TEMPLATE: Final = "template of other kinds"
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def wanted_kinds(config: Config) -> frozenset[str]:
    """Return the `group/Kind` of all objects that the linter checks."""
    return frozenset((*LINTED, *config.options.pod_template_paths, *config.options.class_paths))


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """True if `exclude` matches a file. Patterns may start with `./`, like paths in reports."""
    return any(matches(path, pattern.removeprefix("./")) for pattern in patterns)


_MAX_AFFIXES: Final = 100


class Rendered(NamedTuple):
    """The output of a rendered chart: its templates with output, and the PriorityClass names in the output."""

    templates: frozenset[str]
    names: frozenset[str]


class Input:
    """The input of the linter: objects with their files, and data for the summary and excerpts."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.kustomizations: list[Kustomization] = []
        self.diagnostics: list[FileDiagnostic] = []
        self.texts: dict[str, bytes] = {}
        self.sources: dict[str, File] = {}
        self.objects = 0
        self.reported: list[str] = []
        self.suppressions: list[Suppression] = []
        self.skipped: Counter[str] = Counter()
        self.omitted: Counter[str] = Counter()
        self.chart_templates: list[str] = []
        """Directories of templates of charts."""
        self.rendered: dict[str, Rendered] = {}
        """The rendered charts by directory."""
        self.engines: dict[str, Engine] = {}
        """The engine of each file that is a template."""
        self.class_names = set[str]()
        """Names of classes that templates define with values that only rendering can tell."""
        self.class_uses = Counter[str]()
        """How often files name each PriorityClass."""
        self.with_names: list[tuple[File, bytes, Reading]] = []
        """Files with PriorityClass names."""
        self.files_of: defaultdict[str, list[File]] = defaultdict(list)
        """Files with skipped objects, by kind."""
        self.defining: list[tuple[File, frozenset[str]]] = []
        """Files with CustomResourceDefinitions, and the `group/Kind`s of these."""
        self.class_paths: dict[str, tuple[ClassPath, ...]] = {}
        """The class fields of these definitions' kinds."""
        self.unreadable: list[Exception] = []
        """Why files could not be read."""

    def leave_out(self, path: str, what: str) -> None:
        """Count a skipped file or directory. `what`: the reason, as in the summary."""
        self.omitted[what] += 1
        if what == TEMPLATES:
            self.chart_templates.append(path)

    def add_rendered(self, chart: str, rendered: Rendered) -> None:
        """Record that a chart was rendered: its templates, and those of subcharts, no longer count as skipped."""
        self.rendered[chart] = rendered
        self.omitted[TEMPLATES] -= sum(path.startswith(chart + os.sep) for path in self.chart_templates)
        self.omitted += Counter()  # without what is 0

    def rendered_of(self, templates: str) -> Rendered | None:
        """The output of the chart that contains a directory of templates; None if it was not rendered."""
        return next((found for chart, found in self.rendered.items() if templates.startswith(chart + os.sep)), None)

    @property
    def defined_classes(self) -> frozenset[str]:
        """The names of all PriorityClasses that the input defines."""
        return frozenset(m.identity[2] for m in self.members if m.identity[0] == PRIORITY_CLASS)

    @property
    def renamed_classes(self) -> Iterator[str]:
        """The names that kustomizations give to the PriorityClasses of the input with `namePrefix` and `nameSuffix`."""
        affixes = {kustomization.affixes for kustomization in self.kustomizations}
        for prefix, suffix in islice(affixes - {("", "")}, _MAX_AFFIXES):
            yield from (f"{prefix}{name}{suffix}" for name in self.defined_classes)

    @property
    def subjects(self) -> list[ReviewedObject]:
        """The objects whose findings are reported."""
        return [member.subject for member in self.members if member.reported and member.subject.object]

    def grouping(self, config: Config, *, one: bool = False, limits_stay: bool = True) -> Grouping:
        """Return the objects grouped by change set. `one`: all in one group. `limits_stay`: see `grouped`."""
        if one:
            return grouped([member._replace(file="", home=None) for member in self.members])
        return grouped(self.members, self.kustomizations, config.options.groups, limits_stay=limits_stay)


def read_input(
    paths: Sequence[str],
    config: Config,
    namespace: str,
    context: Sequence[str] = (),
    stdin_name: str = "",
    *,
    as_git: bool = True,
    definitions: Sequence[str] = (),
    every_definition: bool = False,
) -> Input:
    """Read all files. Unreadable files are recorded in the result.

    `context`: files that are read, but without reporting findings on them. `stdin_name`: name and assumed path of
    standard input. `as_git`: skip files that .gitignore excludes. `definitions`: files and directories of which only
    CustomResourceDefinitions are read. `every_definition`: also those of kinds that no file uses.
    """
    given, wanted = Input(), wanted_kinds(config)
    exclude, files = config.options.exclude, []
    listed = list(find_files(paths, omitted=given.leave_out, as_git=as_git))
    assertions = assertion_files(listed)
    for file in listed:
        if os.path.normpath(file.path) in assertions:
            given.leave_out(file.path, ASSERTION)
        elif is_excluded(file.path, exclude):
            given.leave_out(file.path, EXCLUDED)
        else:
            files.append(file._replace(called=stdin_name) if stdin_name and file.path == "-" else file)
    ahead: dict[str, Reading] = {}
    if len(files) > 1:
        from forewarn.policies.commands.lint_ahead import read_ahead

        ahead = read_ahead(files, wanted, namespace)
    for file in files:
        _read(file, given, wanted, namespace, reported=True, reading=ahead.pop(file.path, None))
    for file in find_files(context):
        if file.name not in given.sources:
            _read(file, given, wanted, namespace, reported=False)
    if definitions or given.defining:
        from forewarn.policies.commands.lint_schemas import read_by_schema

        read_by_schema(given, config, namespace, definitions, every=every_definition)
    if given.with_names:
        _read_other_names(given)
    return given


def _read(
    file: File,
    given: Input,
    wanted: frozenset[str],
    namespace: str,
    *,
    reported: bool,
    reading: Reading | None = None,
) -> None:
    """Read a file into the input. `reading`: the contents if already known. `reported`: report findings on the file."""
    content = b""
    if reading is None:
        try:
            content = read_file(file)
        except SourceError as fault:
            given.unreadable.append(fault)
            return
        reading = read(content, file.name, wanted, namespace=namespace)
        what = _no_manifest(reading, content, wanted) if file.tree else ""
        if what != UNTYPED and any(diagnostic.rule == TEMPLATE_BRACES for diagnostic in reading.diagnostics):
            from forewarn.policies.commands.lint_templates import engine_of

            given.engines[file.name] = engine_of(content)
            _read_template(content, file, given, wanted, namespace, set(), set(), reading.subjects)
        if what:
            given.leave_out(file.path, what)
            return
    if reported and b"riorityClassName" in content:
        _count_uses(content, given)
        _count_variable(content, file, given, reading)
        given.with_names.append((file, content, reading))
    given.sources[file.name] = file
    if reading.defined:
        given.defining.append((file, reading.defined))
    place = file.called or file.path
    given.members += (Member.of(subject, place, reported=reported) for subject in reading.subjects)
    if os.path.basename(file.path) in KUSTOMIZATIONS:
        from forewarn.policies.manifests.groups import read_kustomization  # few trees have any

        if (kustomization := read_kustomization(content, file.path)) is not None:
            given.kustomizations.append(kustomization)
    if not reported:
        return
    given.reported.append(file.name)
    given.suppressions += of_comments(reading.comments)
    given.suppressions += of_annotations(reading.subjects)
    given.objects += reading.objects
    given.diagnostics += reading.diagnostics
    given.skipped.update(reading.skipped)
    for kind in reading.skipped:
        given.files_of[kind].append(file)
    if file.is_stream:
        given.texts[file.name] = content


_USE: Final = re.compile(
    rb"(?:^|[\s\"'{,-])priorityClassName[\"']?:[ \t]*[\"']?([a-z0-9][a-z0-9.-]{0,252})[\"']?[ \t]*(?:[,}#]|\r?$)",
    re.MULTILINE,
)


def _count_uses(content: bytes, given: Input) -> None:
    """Count the PriorityClass names in a file."""
    given.class_uses.update(name.decode() for name in _USE.findall(content))


def _read_other_names(given: Input) -> None:
    """Add the PriorityClass names that stand outside of the objects that rules read."""
    from forewarn.policies.commands.lint_templates import other_names

    subjects: dict[str, list[ReviewedObject]] = {file.called or file.path: [] for file, _, _ in given.with_names}
    for member in given.members:
        if member.file in subjects:
            subjects[member.file].append(member.subject)
    for file, content, reading in given.with_names:
        place = file.called or file.path
        is_json = content.lstrip()[:1] in (b"{", b"[")
        is_template = any(diagnostic.rule == TEMPLATE_BRACES for diagnostic in reading.diagnostics)
        if not (is_json or is_template or b"CustomResourceDefinition" in content or _is_of_chart(file.path)):
            given.members += (Member(s, file.path) for s in other_names(content, file.name, subjects[place]))


def _is_of_chart(path: str) -> bool:
    """Report whether a file is a values file of a chart, which `read_templates` reads."""
    directory, name = os.path.split(path)
    return name.startswith("values") and os.path.isdir(os.path.join(directory, "templates"))


_VARIABLE: Final = re.compile(rb"riorityClassName[\"']?[ \t]*:[^\n]{0,120}?[{$@%]")


def _count_variable(content: bytes, file: File, given: Input, reading: Reading) -> None:
    """Record a manifest with a variable as PriorityClass name, whose value is unknown."""
    if not reading.subjects or _VARIABLE.search(content) is None:
        return
    from forewarn.policies.commands.lint_templates import engine_of, has_variable_class

    if has_variable_class(content):
        given.engines.setdefault(file.name, engine_of(content))


def read_templates(given: Input, config: Config, namespace: str, *, as_git: bool) -> None:
    """Read the templates and values of unrendered charts, for checks that need no rendering.

    For rendered charts, reads only the templates without output. Unreadable templates give one diagnostic per
    directory.
    """
    wanted, exclude = wanted_kinds(config), config.options.exclude
    for directory in {os.path.realpath(path): path for path in reversed(given.chart_templates)}.values():
        used, defining, rendered = set[str](), set[str](), given.rendered_of(directory)
        for file in find_files([directory], _TEMPLATE_FILES, as_git=as_git):
            is_printed = rendered and (is_helper(file.path) or os.path.normpath(file.path) in rendered.templates)
            if not is_printed and not is_excluded(file.path, exclude):
                _read_chart_template(file, given, wanted, namespace, used, defining)
        for file in _values_of(os.path.dirname(directory), given):
            _read_values(file, given, used, defining, rendered.names if rendered else frozenset())
    if given.engines:
        from forewarn.policies.commands.lint_templates import by_directory

        given.diagnostics = list(by_directory(given.diagnostics, given.engines))


def is_helper(path: str) -> bool:
    """Report whether a template file has no output of its own, because other templates include it."""
    return path.endswith(".tpl") or os.path.basename(path).startswith("_")


_TEMPLATE_FILES: Final = (".yaml", ".yml", ".tpl")


def _values_of(chart: str, given: Input) -> Iterator[File]:
    """Yield the values files of a chart that were read."""
    try:
        names = sorted(os.listdir(chart))
    except OSError:
        return
    for name in names:
        file = given.sources.get(os.path.join(chart, name))
        if file is not None and name.startswith("values"):
            yield file


def _read_chart_template(
    file: File, given: Input, wanted: frozenset[str], namespace: str, used: set[str], defining: set[str]
) -> None:
    """Read a file in a chart's templates directory; without braces, it is a plain manifest."""
    from forewarn.policies.commands.lint_templates import HELM

    try:
        content = read_file(file)
    except SourceError as fault:
        given.unreadable.append(fault)
        return
    if b"{{" in content or is_helper(file.path):
        given.engines[file.name] = HELM
        given.sources[file.name] = file
        _read_template(content, file, given, wanted, namespace, used, defining)
    else:
        _read(file, given, wanted, namespace, reported=True)


def _read_template(
    content: bytes,
    file: File,
    given: Input,
    wanted: frozenset[str],
    namespace: str,
    used: set[str],
    defining: set[str],
    read_before: Sequence[ReviewedObject] = (),
) -> None:
    """Add the objects of an unrendered template.

    Adds to `used` the value keys that the template uses as class names, to `defining` those in definitions of
    classes. `read_before`: objects of the file that are not templates.
    """
    from forewarn.policies.commands.lint_templates import definition_in, keys_of, literal_names
    from forewarn.policies.manifests.templates import outline

    found = outline(content, file.name, wanted, namespace, read_before)
    given.diagnostics += found.diagnostics
    given.members += (Member(subject, file.path) for subject in (*found.complete, *found.partial))
    if b"riorityClass" not in content:
        return
    _count_uses(content, given)
    text = content.decode("utf-8", "replace")
    lines = text.split("\n")
    for subject in found.partial:
        if group_kind(subject.object) == PRIORITY_CLASS:
            definition = definition_in(lines, subject)
            given.members += (Member(ReviewedObject(each), file.path, reported=False) for each in definition.classes)
            given.class_names |= definition.names
            defining |= definition.keys
    given.members += (Member(s, file.path) for s in literal_names(text, file.name, found.complete))
    used |= keys_of(text)


def _read_values(file: File, given: Input, used: set[str], defining: set[str], printed: Collection[str] = ()) -> None:
    """Add the PriorityClass names in a chart's values.

    `used`, `defining`: see `_read_template`. `printed`: names that the chart's checked output contains.
    """
    from forewarn.policies.commands.lint_templates import class_of_value, names_in_values

    try:
        content = read_file(file)
    except SourceError:
        return  # it was reported when it was read
    for key, subject in names_in_values(content, file.name, used | defining):
        if key in defining:
            given.class_names.add(class_of_value(subject))
        elif class_of_value(subject) not in printed:
            given.members.append(Member(subject, file.path))


def _no_manifest(reading: Reading, content: bytes, wanted: frozenset[str]) -> str:
    """Return why an unreadable file is not a manifest, as a type of skipped file; "" if the file may be a manifest."""
    broken = {diagnostic.rule for diagnostic in reading.diagnostics} & BROKEN
    if not broken or reading.objects > reading.skipped.get(NO_KIND, 0):
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
    kind, ref = group_kind(subject.object), subject.ref
    old: ApiObject | None = None
    if subject.old is not None:
        return subject
    if cluster is not None and kind == PRIORITY_CLASS and ref.name in cluster.priority_classes:
        old = cluster.priority_classes[ref.name].to_api()
    elif cluster is not None and kind == POD:
        pod = cluster.pods.get((ref.namespace, ref.name))
        old = pod.to_api() if pod else None
    elif cluster is not None and kind == RESOURCE_QUOTA:
        quota = cluster.resource_quotas.get((ref.namespace, ref.name))
        old = quota.to_api() if quota else None
    elif cluster is not None and kind in (POD_GROUP, GROUP_TEMPLATES):
        old = _stored_group(kind, ref, cluster)
    return subject if old is None else subject._replace(operation=Operation.UPDATE, old=old)


def _stored_group(kind: str, ref: ObjectRef, cluster: ClusterSnapshot) -> ApiObject | None:
    """The stored PodGroup or Workload as an API object; None if it does not exist."""
    groups = cluster.objects.pod_groups if kind == POD_GROUP else cluster.objects.group_templates
    group = groups.get((ref.namespace or DEFAULT_NAMESPACE, ref.name))
    return group.to_api() if group else None
