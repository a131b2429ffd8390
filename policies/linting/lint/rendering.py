"""`forewarn lint --render`: the output of `helm template` and `kustomize build` for a tree.

Only on request, because both tools execute instructions of the tree. The tree itself cannot allow more: helm in
kustomizations, files outside of a kustomization's directory, and the network need an option of the command line, or a
configuration file outside of the tree.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from glob import glob
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl

from forewarn.policies.base.findings import Location, Path, Severity, cut, grouped, plural
from forewarn.policies.inputs.manifests import Fault, first_value, read
from forewarn.policies.inputs.manifests.documents import MAX_DEPTH, Document, as_utf8, indent_of, split
from forewarn.policies.inputs.manifests.groups import (
    KUSTOMIZATIONS,
    REMOTE,
    Kustomization,
    Member,
    reached,
    read_kustomization,
)
from forewarn.policies.inputs.manifests.yaml.grammar import leniently
from forewarn.policies.inputs.manifests.yaml.nodes import Node, Scalar, compose, followed
from forewarn.policies.inputs.sources.files import File, SourceError, find_files, read_file, readable
from forewarn.policies.inputs.sources.git import Ignores, upwards
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE, RELEASE_NAMESPACE, REMOVED
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject, Source
from forewarn.policies.kubernetes.options import ANY_FILE, ENABLE_HELM, NETWORK, Rendering
from forewarn.policies.kubernetes.releases.minors import NEWEST
from forewarn.policies.linting.evaluation.suppressions import ANNOTATION
from forewarn.policies.linting.lint import tools
from forewarn.policies.linting.lint.charts import CHART, Charts
from forewarn.policies.linting.lint.input import RENDERED, Input, Rendered, is_excluded, is_in, wanted_kinds
from forewarn.policies.linting.lint.tools import Outside, Trees, refuse_option
from forewarn.policies.linting.rules.support.rule_text import is_test_file

if TYPE_CHECKING:
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.linting.lint.input import LintRequest, RenderRequest

    _Part = Callable[[str], str]
    _Numbers = Mapping[str, Sequence[int]]


_PLUGINS: Final = frozenset(("generators", "transformers", "validators"))
_LISTS: Final = frozenset(("apiversion", "kind", "metadata", "resources", "bases"))
"""Keys of a kustomization that does not change its objects."""
_DATA: Final = re.compile(r"literals|values(?:inline|local)|(?:common)?(?:annotations|labels)|pairs")
"""Keys of values that name no files."""
_LOADED: Final = re.compile(
    r"resources|bases|components|crds|configurations|replacements|patches(?:strategicmerge|json6902)?|files|envs?|paths?"
    r"|valuesfile|additionalvaluesfiles"
)
"""Keys of values that kustomize loads, also from addresses: `tools.write_gate` prevents downloads of charts."""
_ARGUMENTS: Final = re.compile(
    r"(?:chart|release)?name|(?:release)?namespace|nametemplate|(?:chart)?version|repo|chartrepourl|(?:chart|config|helm)home"
    r"|apiversions|kubeversion|values|valuesfile|additionalvaluesfiles"
)
"""Keys of values that become arguments of helm."""
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/")
"""Directories in which files appear at any time."""
_LONGEST_LINE: Final = 4_096
_SHOWN: Final = 100
_MAX_FILES: Final = 10_000
_MAX_BYTES: Final = 4 << 20
_MAX_TEXTS: Final = 1_000_000


class Refused(Exception):
    """A kustomization that forewarn does not build. `file` and `line`: the position of the reason."""

    def __init__(self, why: str, file: str, line: int) -> None:
        super().__init__(why)
        self.why, self.file, self.line = why, file, line


class Limits(NamedTuple):
    """What kustomizations may do: read files of these trees, and use helm, any file of the trees, the network."""

    trees: Trees
    helm: bool = False
    any_file: bool = False
    network: bool = False


class _PositionedText(NamedTuple):
    """A scalar: its text, the keys above it in lower case, and its line."""

    text: str
    keys: tuple[str, ...]
    line: int


class _Place(NamedTuple):
    """The real path of a file or directory that kustomize reads. `root`: for plugins, the directory of the
    kustomization that uses them.
    """

    path: str
    root: str = ""


class Checker:
    """Checks kustomizations, each file once."""

    def __init__(self) -> None:
        self._reached = cache(lambda limits, place: _Checking(limits, place).reached())

    def check(self, directory: str, limits: Limits) -> None:
        """Raise Refused if kustomize must not build the kustomization in a directory."""
        to_do, seen = [_Place(os.path.realpath(directory))], set[_Place]()
        while to_do:
            place = to_do.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > _MAX_FILES:
                raise Refused(f"more than {_MAX_FILES:,} files and directories", place.path, 1)
            to_do += self._reached(limits, place)


class _Checking:
    """Checks one place."""

    def __init__(self, limits: Limits, place: _Place) -> None:
        self._limits, self._place = limits, place
        self._reached: list[_Place] = []

    def reached(self) -> list[_Place]:
        """Return the places that this one names. Raises Refused."""
        path, root = self._place
        if not os.path.isdir(path):
            self._check_file(path, lambda text: self._check_text(text, root))
        for name in _kustomizations(path):
            self._check_file(os.path.join(path, name), self._check_entry)
        return self._reached

    def _check_file(self, file: str, check_text: Callable[[_PositionedText], None]) -> None:
        line = 1
        try:
            real = self._limits.trees.resolved(file)
            data = read_file(File(real, os.path.dirname(real)), _MAX_BYTES)
            if len(data) > _MAX_BYTES:
                raise Outside(f"larger than {_MAX_BYTES >> 20} MiB")
            for text in _texts(data, file):
                line = text.line
                check_text(text)
        except (Outside, Fault, SourceError) as fault:
            why = fault.problem if isinstance(fault, SourceError) else str(fault)
            raise Refused(why, file, line) from None

    def _check_entry(self, text: _PositionedText) -> None:
        """Check a text of a kustomization."""
        path, root = self._place
        if root and text.keys and text.keys[0] not in _LISTS:
            raise Outside("a directory of generators, transformers or validators may list resources only")
        if not root and _PLUGINS.isdisjoint(text.keys):
            self._check_text(text, path)
            return
        if REMOTE.match(text.text):
            raise Outside(f"{cut(text.text, _SHOWN)}: plugins from an address are not supported")
        for inline in _texts(text.text.encode(), "", text.line - 1):
            if inline.keys:
                self._check_text(inline, root or path)
        self._check_path(text.text, path, root or path)

    def _check_text(self, text: _PositionedText, directory: str) -> None:
        """Check a text whose files are relative to a directory."""
        if any(map(_DATA.fullmatch, text.keys)):
            return
        key = text.keys[-1] if text.keys else ""
        if self._limits.helm and _ARGUMENTS.fullmatch(key):
            refuse_option(text.text)
            if key in ("name", "chartname") and os.pardir in text.text.split("/"):
                raise Outside(f'the name of a chart contains "..": {cut(text.text, _SHOWN)}')
        for entry in (text.text, text.text.partition("=")[2]):
            if _LOADED.fullmatch(key) and REMOTE.match(entry):
                self._check_address(entry)
            self._check_path(entry, directory)

    def _check_address(self, address: str) -> None:
        if not self._limits.network:
            raise Outside(f"{cut(address, _SHOWN)}: network access is off")
        if any(value.startswith("-") for _, value in parse_qsl(address.partition("?")[2])):
            raise Outside(f"{cut(address, _SHOWN)}: the ref is an option of git")
        if self._limits.helm:
            raise Outside(f"{cut(address, _SHOWN)}: addresses are not supported together with --enable-helm")

    def _check_path(self, entry: str, directory: str, root: str = "") -> None:
        """Check a text that may be a path. `root`: see `_Place`."""
        # As kustomize does: "x\n/../../base" is a path too, although no file has such a name.
        path, trees = os.path.normpath(os.path.join(directory, entry)), self._limits.trees
        if not entry or "\0" in path or len(path) > _LONGEST_LINE:
            return
        shown = cut(entry, _SHOWN)
        if _has_line_breaks(path):
            raise Outside(f"{shown}: names of files with line breaks are not supported")
        if self._leads_anywhere(entry, path):
            raise Outside(f"{shown}: outside of the checked directories")
        if not os.path.lexists(path):
            return
        is_directory = os.path.isdir(path)
        if is_directory:
            is_read = bool(_kustomizations(path))
        else:  # kustomize itself reads no other absolute path
            is_read = not os.path.isabs(entry) or self._limits.any_file or trees.surround(path)
        if is_read and not trees.holds(path):
            is_link = os.path.realpath(path) != path
            raise Outside(f"{shown}: {'link leaves' if is_link else 'outside of'} the checked directories")
        if is_read and (root or is_directory):
            self._reached.append(_Place(os.path.realpath(path), root))

    def _leads_anywhere(self, entry: str, path: str) -> bool:
        """True if the target of a path depends on more than the files that exist now."""
        any_file, is_absolute = self._limits.any_file, os.path.isabs(entry)
        # Without load restrictions, kustomize opens an absolute path as it is: ".." then leaves the target of a link.
        if any_file and is_absolute and os.pardir in entry.split("/"):
            return True
        may_open = any_file or not is_absolute
        return may_open and os.path.realpath(path).startswith(_SYSTEM) and not self._limits.trees.holds(path)


def _kustomizations(directory: str) -> list[str]:
    return [name for name in KUSTOMIZATIONS if os.path.lexists(os.path.join(directory, name))]


def _has_line_breaks(path: str) -> bool:
    """True if a path with a line break may lead to a file: kustomize changes the number of line breaks in plugins."""
    before, line_break, _ = path.partition("\n")
    with suppress(OSError):
        return bool(line_break) and any("\n" in name for name in os.listdir(os.path.dirname(before)))
    return False


def _texts(data: bytes, file: str, line: int = 0) -> Iterator[_PositionedText]:
    """Yield the scalars of a file or of a text in its line. Raises Fault."""
    data = as_utf8(data)
    if codecs.BOM_UTF8 in data:  # go-yaml then loses characters of keys, so that "xresources" is read as "resources"
        raise Fault("a second byte order mark is not supported")
    for document in split(data, file, line):
        if isinstance(document, tuple):
            raise document[1]
        root, fault = leniently(compose, document)
        if fault is not None:
            raise fault
        if root is not None:
            yield from _scalars(root, document)


def _scalars(root: Node, document: Document) -> Iterator[_PositionedText]:
    to_do: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    for _ in range(_MAX_TEXTS):
        if not to_do:
            return
        node, keys = to_do.pop()
        node = followed(node)
        if isinstance(node, Scalar):
            if node.tag is not None:  # go-yaml reads "!!str, x" as one tag and a value
                raise Fault(f"tag {node.tag} is not supported")
            yield _PositionedText(node.text, keys, document.line_of(node.start))
        elif len(keys) > MAX_DEPTH:
            raise Fault(f"nested more than {MAX_DEPTH} levels deep")
        elif node.is_mapping:
            for key, value in zip(node.children[::2], node.children[1::2], strict=True):
                name = followed(key)
                to_do += [(key, ()), (value, (*keys, name.text.casefold() if isinstance(name, Scalar) else ""))]
        else:
            to_do += [(inner, keys) for inner in node.children]
    raise Fault(f"more than {_MAX_TEXTS:,} values")


_LONGEST: Final = 2_000
"""Maximum characters of a line that are compared."""


class TemplateLines:
    """Matches lines of helm's output with lines of its template: equal lines, or lines with the same key."""

    def __init__(self, template: str, rendered: bytes, file: str) -> None:
        self._template, self._rendered, self._file = template, rendered, file
        self._indexes: dict[_Part, tuple[_Numbers, _Numbers]] = {}

    @property
    def class_value(self) -> str:
        """The value from which the template takes a PriorityClass; "" without one."""
        value = _CLASS_VALUE.search(self._template)
        return value[1] if value else ""

    def place(self, rendered: Location) -> Location:
        """Return the position in the template; if no unique line matches, the position in the rendered text."""
        lines = self._lines
        if not 0 < rendered.line <= len(lines):
            return rendered
        line = lines[rendered.line - 1][:_LONGEST]
        text = line.strip()
        number = self._same(text, rendered.line, str)
        if number is not None:
            shift = indent_of(self._of_template[number - 1]) - indent_of(line)
            return rendered._replace(
                file=self._file, line=number, column=rendered.column + shift, end_column=rendered.end_column + shift
            )
        number = self._same(text, rendered.line, _key) if _key(text) else None
        if number is None:
            return rendered
        path = self._of_template[number - 1].rstrip()
        start = len(path) - len(path.partition(":")[2].lstrip()) + 1
        return rendered._replace(file=self._file, line=number, column=start, end_column=max(len(path) + 1, start + 1))

    def _same(self, text: str, line: int, part: _Part) -> int | None:
        """Return the number of the template line for a rendered line; None if not unique.

        Equal lines are matched by their order; the only equal line of a template matches all rendered lines of a
        loop. `part`: the part of lines to compare.
        """
        ours, theirs = self._index(part)
        here, there = ours.get(part(text), []), theirs.get(part(text), [])
        if len(here) == len(there) and len(here) <= _FEW:
            return there[here.index(line)]
        is_loop = len(there) == 1 and indent_of(self._of_template[there[0] - 1]) == indent_of(self._lines[line - 1])
        return there[0] if is_loop else None

    def _index(self, part: _Part) -> tuple[_Numbers, _Numbers]:
        """Return part of a line -> line numbers, for the rendered text and for the template."""
        if part not in self._indexes:
            self._indexes[part] = _numbered(self._lines, part), _numbered(self._of_template, part)
        return self._indexes[part]

    @cached_property
    def _lines(self) -> list[str]:
        return self._rendered.decode("utf-8", "replace").split("\n")

    @cached_property
    def _of_template(self) -> list[str]:
        return self._template.split("\n")


_FEW: Final = 100


def _key(text: str) -> str:
    """The text before the colon, such as `- name`; "" for a line without a key."""
    head, colon, _ = text.partition(":")
    return head if colon and "{" not in head and "#" not in head else ""


def _numbered(lines: Sequence[str], part: _Part) -> _Numbers:
    texts = ((part(line[:_LONGEST].strip()), number) for number, line in enumerate(lines, 1))
    return grouped((text, number) for text, number in texts if text)


class TemplateSource(NamedTuple):
    """The source of an object that helm rendered."""

    rendered: Source
    lines: TemplateLines

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The position in the template, or else in the rendered text."""
        return self.lines.place(self.rendered.locate(path, key=key))


class OverlaySource(NamedTuple):
    """The source of an object that kustomize built. `parts`: the objects from which it was built, patches first."""

    rendered: Source
    object: ApiObject
    parts: Sequence[ReviewedObject]

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The position in the first part with the same value, or else in the rendered text."""
        value = at(self.object, *path)
        for part in self.parts if path and value is not None else ():
            if at(part.object, *path) == value or path == ("metadata", "name"):
                return part.source.locate(path, key=key)
        return self.rendered.locate(path, key=key)


class Origins:
    """The objects of kustomizations by kind, to find the parts from which an object was built."""

    def __init__(self, parts: Iterable[ReviewedObject]) -> None:
        self._by_kind = grouped((group_kind(part.object), part) for part in parts if part.ref.name)

    def candidates_for(self, built: ReviewedObject) -> Sequence[ReviewedObject]:
        """Return the objects of which one may be built: those with the longest name that is part of its name."""
        name = built.ref.name
        parts = self._by_kind.get(group_kind(built.object), ())[:_MAX_PARTS]
        by_kind = [part for part in parts if part.ref.name in name]
        longest = max((len(part.ref.name) for part in by_kind), default=0)
        return [part for part in by_kind if len(part.ref.name) == longest]


_MAX_PARTS: Final = 1_000


_SOURCE: Final = re.compile(rb"^# Source: ([^\n/]+)/([^\n]+?)\r?$", re.MULTILINE)
_SEPARATOR: Final = re.compile(rb"^---[ \t]*(?:#[^\n]*)?\r?\n", re.MULTILINE)
_SUPPRESSES: Final = (b"forewarn:", ANNOTATION.encode())
_COMPONENT: Final = re.compile(rb"^kind:[ \t]*[\"']?Component\b", re.MULTILINE)
"""A part of other kustomizations: it patches what only they contain."""
_API_VERSIONS: Final = sorted({f"{new.replacement}/{old.rpartition('/')[2]}" for old, new in REMOVED.items()})
"""Kinds with versions for which charts ask, and of which helm without a cluster knows only the versions."""
_DEPENDENCIES: Final = re.compile(r"missing in charts/ directory: (.+)")
_CLASS_NAME: Final = re.compile(rb"riorityClassName[\"']?: *[\"']?([\w.-]{1,253})")
_CLASS_VALUE: Final = re.compile(r"\.Values\.([\w.]{0,200}riorityClass(?:Name)?)\b")
_FIX: Final = "make the command succeed, or exclude the directory"
_GENERATED: Final = "is missing: "
_WEBHOOK_MANIFESTS: Final = os.path.join(os.sep, "webhook", "manifests.yaml")
"""What `controller-gen webhook` writes below the directory of a project of Kubebuilder (book.kubebuilder.io)."""
_FIXES: Final = {
    "network access is off": "pass --render-network, or exclude the directory",
    "link leaves the checked directories": "replace the link by the file, or check the directory to which it leads",
    "outside of the checked directories": "check the directory that contains it, too",
    "must specify --enable-helm": "pass --kustomize-flag=--enable-helm",
    **dict.fromkeys(
        ("helm pull is not allowed", "HelmChartInflationGenerator"),
        "download the chart with `kustomize build --enable-helm`, and pass --kustomize-flag=--enable-helm",
    ),
    "is not in or below": f"pass --kustomize-flag={ANY_FILE}",
    "external plugins disabled": "exclude the directory: forewarn runs no plugins",
    _GENERATED: "generate it before --render, or exclude the directory",
    "execution error at": "set the chart's values in `render` of the configuration, or exclude the directory",
    "not defined": _FIX,
    "at <": "set the chart's values in `render` of the configuration, or exclude the directory",
    "no such file or directory": "add the file, or exclude the directory",
}
"""Parts of errors, and the fix."""
_MISSING: Final = re.compile(r"\b(?:lstat|open|stat) (\S+): no such file or directory")
_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[/:]\S*|[0-9]+")
"""Parts of an error that differ between directories with one cause: names, paths, positions."""
_MESSAGE: Final = 300
"""Maximum characters of a tool's message in a finding."""


class _Found(NamedTuple):
    """The charts and kustomizations of a tree by directory, each with the file that defines it."""

    charts: dict[str, str]
    kustomizations: dict[str, tuple[str, Kustomization]]
    components: set[str]
    """The directories of kustomizations that only others can build."""

    def tops(self) -> Iterator[str]:
        """Yield the directories of the kustomizations that are no part of others."""
        bases = {path for _, k in self.kustomizations.values() for path in k.resources}
        for directory, (_, kustomization) in self.kustomizations.items():
            if kustomization.directory not in bases and directory not in self.components:
                yield directory


class _Text(NamedTuple):
    """The output of a tool: its name in findings, and the path of its template ("" if unknown)."""

    name: str
    data: bytes
    template: str = ""


class _Renderer:
    """Adds the output of helm and kustomize to an input."""

    def __init__(self, files: Input, request: LintRequest, allowed: RenderRequest) -> None:
        self._given, self._config, self._namespace = files, request.config, request.namespace or ""
        self._allowed = {*allowed.flags, *([NETWORK] if allowed.network else [])}
        self._is_trusted = bool(allowed.config) and not tools.is_of_checkout(allowed.config, request.paths)
        self._trees, self._variables = tools.Trees.from_paths(request.paths), tuple(allowed.variables)
        self._checkout = tools.Trees.from_paths([*request.paths, allowed.checkout or os.curdir])
        self._checker, self._path = Checker(), tools.safe_path(self._checkout)
        self._wanted = wanted_kinds(request.config)
        self._failures = defaultdict[str, list[tuple[str, tools.Failure]]](list)

    def settings(self, directory: str) -> Rendering:
        """Return the rendering settings for a directory; the option `-n` sets the default namespace."""
        renderings = self._config.options.rendering
        rendering = next((r for r in renderings if is_in(directory, r.paths)), Rendering(()))
        return rendering._replace(namespace=rendering.namespace or self._namespace)

    def report_ignored(self) -> None:
        """Add a finding for each permission that only the checked tree gives."""
        entries = () if self._is_trusted else self._config.options.rendering
        for permission in (permission for entry in entries for permission in entry.permissions):
            if permission.name not in self._allowed:
                what = "render[].network" if permission.name == NETWORK else permission.name
                option = "--render-network" if permission.name == NETWORK else f"--kustomize-flag={permission.name}"
                message = f"{what} ignored: a file of the checked tree cannot allow it"
                fix = f"pass {option}, or a configuration file outside of the tree (-c)"
                place = Location(os.path.relpath(permission.file), permission.line, 1, 2)
                self._given.diagnostics.append(FileDiagnostic("parse-error", message, place, fix))

    def helm(self, directory: str, ci_values: str = "") -> tools.Job:
        """The helm command for a chart. `ci_values`: a values file that the chart has for its own tests."""
        settings = self.settings(directory)
        given = [f"--namespace={settings.namespace or RELEASE_NAMESPACE}", f"--kube-version={self._version}"]
        given.append(f"--api-versions={','.join(_API_VERSIONS)}")
        release = (settings.release,) if settings.release else ()
        names = [ci_values] if ci_values else settings.values

        def arguments(files: str) -> list[str]:
            stage = tools.Stage(self._trees, files)
            values = [f"--values={stage.values(os.path.join(directory, name))}" for name in names]
            sets = [f"--set={value}" for value in settings.set]
            return [*release, stage.chart(directory), *given, *values, *sets]

        return self._job(directory, "helm", "template", arguments)

    def kustomize(self, directory: str) -> tools.Job | tools.Failure:
        """The kustomize command for a kustomization; a Failure for one that must not be built."""
        path, allowed = os.path.abspath(directory), set(self._allowed)
        if self._is_trusted:
            allowed |= {permission.name for permission in self.settings(directory).permissions}
        network, helm = NETWORK in allowed, ENABLE_HELM in allowed
        try:
            self._checker.check(path, Limits(self._trees, helm, ANY_FILE in allowed, network))
        except Refused as refused:
            return tools.Failure(refused.why, refused.file, refused.line)

        def arguments(files: str) -> list[str]:
            flags = sorted(allowed - {NETWORK})
            if helm:
                gate = os.path.join(files, "helm")
                tools.write_gate(gate, tools.find_program("helm", self._checkout) or "helm", self._trees)
                flags += [f"--helm-kube-version={self._version}", f"--helm-command={gate}"]
            return [path, *flags]

        program, command = "kustomize", "build"
        if not tools.find_program(program, self._checkout):
            program, command = "kubectl", "kustomize"
        return self._job(directory, program, command, arguments)._replace(network=network)

    def _job(self, directory: str, program: str, command: str, arguments: Callable[[str], Sequence[str]]) -> tools.Job:
        path = tools.find_program(program, self._checkout)
        return tools.Job(directory, program, command, arguments, path, self._path, self._variables)

    @property
    def _version(self) -> str:
        return f"1.{self._config.options.minor or NEWEST}.0"

    def fail(self, file: str, failure: tools.Failure) -> None:
        """Record a directory that cannot be rendered."""
        if generated := _generated(failure.why):
            self._failures[_GENERATED].append((file, failure._replace(why=generated)))
            return
        known = "missing in charts/" if _DEPENDENCIES.search(failure.why) else _fix_of(failure.why)
        self._failures[known or _VARIES.sub("", failure.why.rpartition(": ")[2])].append((file, failure))

    def report_failures(self) -> None:
        """Add a finding for each cause of failures, at the first directory that fails for it."""
        charts = Charts()
        for cause, failures in self._failures.items():
            failures.sort(key=lambda failed: (_is_part_or_test(failed[0]), charts.is_deprecated(failed[0])))
            file, failure = failures[0]
            severity = Severity.NOTE if cause == _GENERATED or _is_part_or_test(file) else Severity.WARNING
            message = failure.why
            fix = _fix_of(message) or _FIX
            if (missing := _DEPENDENCIES.search(message)) is not None:
                message = f"missing in charts/: {missing[1]}"
                fix = f"run `helm dependency build {os.path.dirname(file)}`"
            others = plural(len(failures) - 1, "more directory", "more directories")
            more = f" (and {others})" if len(failures) > 1 else ""
            message, fix = cut(f"cannot render: {message}", _MESSAGE) + more, cut(fix, _MESSAGE)
            if failure.file not in ("", os.path.realpath(file)):
                start = os.path.join(os.curdir, "") if file.startswith(os.curdir) else ""
                file = start + os.path.relpath(failure.file, os.path.realpath(os.curdir))
            place = Location(file, failure.line, 1, 2)
            directories = tuple(os.path.dirname(other) for other, _ in failures[1:])
            found = FileDiagnostic("parse-error", message, place, fix, severity=severity, others=directories)
            self._given.diagnostics.append(found)

    def take_charts(self, charts: dict[str, str], jobs: Sequence[tools.Job]) -> None:
        """Render charts and add their objects. `charts`: directory -> the file for findings about failures."""
        failures, again = dict[str, tools.Failure](), list[tools.Job]()
        for job, result in tools.run(jobs):
            if not isinstance(result, tools.Failure):
                self._take_chart(job.directory, result)
            elif name := self._ci_values(job.directory):
                failures[job.directory] = result
                again.append(self.helm(job.directory, name))
            else:
                self.fail(charts[job.directory], result)
        for job, result in tools.run(again):
            if isinstance(result, tools.Failure):
                self.fail(charts[job.directory], failures[job.directory])
            else:
                self._take_chart(job.directory, result)

    def _ci_values(self, directory: str) -> str:
        """The first values file for tests of a chart without settings, by the convention of chart-testing; or ""."""
        settings = self.settings(directory)
        is_set = settings.values or settings.set
        return "" if is_set else min(glob("ci/*-values.yaml", root_dir=directory), default="")

    def _take_chart(self, directory: str, data: bytes) -> None:
        """Add the objects of a rendered chart. Without a setting for the namespace, RELEASE_NAMESPACE stands for it."""
        exclude, printed = self._config.options.exclude, set[str]()
        for text in _by_template(directory, data):
            printed.add(os.path.normpath(text.template))
            if exclude and text.template and is_excluded(text.template, exclude):
                continue
            lines = self._lines(text, directory)
            settings = self.settings(directory)
            subjects = self._take(text, settings.namespace or RELEASE_NAMESPACE)
            if lines is not None:
                value = "" if settings.values or settings.set else lines.class_value
                subjects = [s._replace(source=TemplateSource(s.source, lines), class_value=value) for s in subjects]
            self._add(directory, subjects)
        names = frozenset(name.decode() for name in _CLASS_NAME.findall(data))
        self._given.add_rendered(directory, Rendered(frozenset(printed), names))

    def _lines(self, text: _Text, directory: str) -> TemplateLines | None:
        """Return rendered lines -> template lines; None if unreadable, or if suppressions need rendered lines."""
        if not text.template or any(word in text.data for word in _SUPPRESSES) or not self._trees.holds(text.template):
            return None
        file = File(text.template, directory)
        if not (template := readable(file)):
            return None
        self._given.sources[text.template] = file
        return TemplateLines(template.decode("utf-8", "replace"), text.data, text.template)

    def take_overlay(self, directory: str, data: bytes, origins: Origins) -> None:
        """Add the objects of a rendered kustomization. `origins`: finds the parts of each object."""
        text = _Text(f"{directory} {RENDERED}", data)
        subjects = self._take(text, self.settings(directory).namespace or DEFAULT_NAMESPACE)
        self._add(directory, [_traced(subject, origins) for subject in subjects])

    def _take(self, text: _Text, namespace: str) -> list[ReviewedObject]:
        """Return the objects in a rendered text, and add its counts, diagnostics and suppressions to the input."""
        reading, given = read(text.data, text.name, self._wanted, namespace=namespace), self._given
        given.texts[text.name] = text.data
        given.report_on(text.name, reading)
        return list(reading.subjects)

    def _add(self, directory: str, subjects: Sequence[ReviewedObject]) -> None:
        place = os.path.join(directory, RENDERED)
        self._given.members += (Member.from_object(subject, place) for subject in subjects)


def render(
    files: Input, request: LintRequest, allowed: RenderRequest, concerned: Callable[[str], bool] | None = None
) -> None:
    """Render charts and kustomizations; their output replaces their files in the input.

    A failure gives a finding, and the files remain in the input. `concerned`: tells for a directory whether to render
    it; None: all.
    """
    directories = _found(request.paths, request.config, as_git=request.gitignore)
    if concerned is not None:
        for directory in [directory for directory in directories.charts if not concerned(directory)]:
            del directories.charts[directory]
    renderer = _Renderer(files, request, allowed)
    renderer.report_ignored()
    tops = [directory for directory in directories.tops() if concerned is None or concerned(directory)]
    kustomizes = list(_jobs_of_kustomizations(tops, directories, renderer))
    charts = [renderer.helm(directory) for directory in directories.charts]
    absent = dict.fromkeys(job.program for job in (*charts, *kustomizes) if not job.program_path)
    files.unreadable += [SourceError("--render", f"{program} is {_why_absent(program)}") for program in absent]
    renderer.take_charts(directories.charts, [job for job in charts if job.program not in absent])
    _take_overlays(files, directories, [job for job in kustomizes if job.program not in absent], renderer)
    renderer.report_failures()


def _fix_of(why: str) -> str:
    return next((fix for part, fix in _FIXES.items() if part in why), "")


def _is_part_or_test(file: str) -> bool:
    """Report whether a Chart.yaml is below another chart, or a file in a directory for tests or examples."""
    directory = os.path.dirname(file) if os.path.basename(file) == CHART else ""
    above = islice(upwards(directory), 1, None)
    return any(os.path.isfile(os.path.join(path, CHART)) for path in above) or is_test_file(file)


def _generated(why: str) -> str:
    """Return the message for a missing file in a tool's error that another tool generates; otherwise ""."""
    missing = _MISSING.search(why)
    path = os.path.realpath(missing[1]) if missing else ""
    if path.endswith(_WEBHOOK_MANIFESTS):
        return f"{os.path.relpath(path)} {_GENERATED}controller-gen writes it"
    rules = Ignores.above(path) if path else None
    while rules is not None and not os.path.lexists(os.path.join(path, ".git")):
        if rules.ignore(path, is_directory=True):
            return f"{os.path.relpath(path)} {_GENERATED}.gitignore names it, so it is generated"
        path = os.path.dirname(path)
    return ""


def _take_overlays(files: Input, directories: _Found, jobs: Sequence[tools.Job], renderer: _Renderer) -> None:
    """Build kustomizations; their objects replace their files in the input."""
    by_directory = {k.directory: k for _, k in directories.kustomizations.values()}
    real = {m.file: os.path.realpath(m.file) for m in files.members} if jobs else {}
    by_file = grouped((real[member.file], member.subject) for member in (files.members if jobs else ()))
    replaced, rendered = set[str](), set[str]()
    for job, result in tools.run(jobs):
        file, top = directories.kustomizations[job.directory]
        if isinstance(result, tools.Failure):
            renderer.fail(file, result)
            continue
        used = reached(top.directory, by_directory)
        parts = (subject for path in used for subject in by_file.get(path, ()))
        renderer.take_overlay(job.directory, result, Origins(parts))
        replaced.update(used)
        rendered |= {top.directory, *(path for path in used if path in by_directory)}
    if rendered:
        _replace(files, real, replaced, rendered)


def _why_absent(program: str) -> str:
    return "only in a checked directory, and not run" if shutil.which(program) else "not installed"


def _jobs_of_kustomizations(tops: Iterable[str], directories: _Found, renderer: _Renderer) -> Iterator[tools.Job]:
    """Yield the kustomize commands; kustomizations that must not be built become findings."""
    for directory in tops:
        job = renderer.kustomize(directory)
        if isinstance(job, tools.Failure):
            renderer.fail(directories.kustomizations[directory][0], job)
        else:
            yield job


def _replace(files: Input, real: dict[str, str], replaced: set[str], rendered: set[str]) -> None:
    """Remove the files of rendered kustomizations. `replaced`: real paths of files. `rendered`: directories."""
    names = {file for file, path in real.items() if path in replaced}
    files.members = [m for m in files.members if m.file not in names]
    files.kustomizations = [k for k in files.kustomizations if k.directory not in rendered]
    files.suppressions = [s for s in files.suppressions if s.object is None or s.location.file not in names]


def _traced(subject: ReviewedObject, origins: Origins) -> ReviewedObject:
    """Return a built object with its positions in patches and bases; with suppressions, in the rendered text."""
    if at(subject.object, "metadata", "annotations", ANNOTATION) is not None:
        return subject
    return subject._replace(source=OverlaySource(subject.source, subject.object, origins.candidates_for(subject)))


def _found(paths: Sequence[str], config: Config, *, as_git: bool) -> _Found:
    """Return all kustomizations, and the charts, except charts in the charts/ directory of another chart."""
    result = _Found({}, {}, set())
    named = (CHART, *KUSTOMIZATIONS)
    for file in find_files(paths, tuple(name.lower() for name in named), as_git=as_git):
        directory, name = os.path.split(file.path)
        if not file.tree or name not in named or is_excluded(file.path, config.options.exclude):
            continue
        text = readable(file)
        if name == CHART:
            if _is_application(text, file.path) and not _is_dependency(directory, result.charts):
                result.charts[directory] = file.path
        elif (kustomization := read_kustomization(text, file.path)) is not None:
            result.kustomizations[directory] = file.path, kustomization
            if _COMPONENT.search(text):
                result.components.add(directory)
    return result


def _is_dependency(directory: str, charts: dict[str, str]) -> bool:
    """Report whether a chart is in another's charts/ directory. `charts`: found so far; parents are found first."""
    steps = map(os.path.split, islice(upwards(directory), 1, None))
    return any(step == "charts" and parent in charts for parent, step in steps)


def _is_application(text: bytes, path: str) -> bool:
    """True if a chart can be rendered; library charts cannot."""
    chart = first_value(text, path)
    return isinstance(chart, dict) and chart.get("type") != "library"


def _by_template(directory: str, data: bytes) -> Iterator[_Text]:
    """Yield helm's output by template."""

    def name_of(part: bytes) -> str:
        source = _SOURCE.search(part)
        inside = source[2].decode("utf-8", "replace") if source else ""
        return os.path.join(directory, *(step for step in inside.split("/") if step not in ("", ".", "..")))

    by_source = grouped((name_of(part), part) for part in _SEPARATOR.split(data) if part.strip())
    for name, parts in by_source.items():
        yield _Text(f"{name} {RENDERED}", b"---\n".join(parts), "" if name == directory else name)
