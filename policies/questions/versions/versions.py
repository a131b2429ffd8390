"""The manifests of two versions: git revisions, or directories."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from filecmp import cmp
from functools import cache, cached_property
from glob import escape
from itertools import islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import listed, plural, reachable, with_fix
from forewarn.policies.inputs.manifests.differences import Version, fields_about_pods, other_objects
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.groups import kustomized
from forewarn.policies.inputs.manifests.kustomizations import KUSTOMIZATIONS
from forewarn.policies.inputs.manifests.object_finder import items_of
from forewarn.policies.inputs.manifests.reading import scalars_in, values
from forewarn.policies.inputs.sources.files import MANIFESTS, MissingFile, SourceError, find_files, read_file
from forewarn.policies.inputs.sources.git import GITIGNORE, CodeOwners, Ignores
from forewarn.policies.inputs.sources.revisions import Repository, working_repository
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.policies.linting.lint.input import Input, LintRequest, read_input
from forewarn.policies.questions.versions.rendering import RENDERED, RenderRequest, Unrendered, render

if TYPE_CHECKING:
    from forewarn.policies.linting.config.model import Config


ALSO: Final = "; also in "
CHART_VALUES: Final = "values of a chart"
"""The end of a note, with the names of other directories that have the same problem."""
_MAX_DIRECTORIES: Final = 20
_MAX_STEPS: Final = 10_000
_MAX_TEXTS: Final = 1_000_000
_HASH: Final = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")


class Side(NamedTuple):
    """One of the two versions. `name`: for people. `root`: its directory."""

    name: str
    root: str


class Versions(NamedTuple):
    """Both versions. `changed`: the relative paths of files that differ."""

    base: Side
    head: Side
    changed: Sequence[str]


@contextmanager
def versions(base: str, head: str) -> Iterator[Versions]:
    """The two versions, until the block ends. Raises SourceError.

    `base`: a directory or git revision; "": the merge base with the main branch. `head`: "": the working tree, or
    the working directory if `base` is a directory.
    """
    if base and os.path.isdir(base) and (not head or os.path.isdir(head)):
        head = head or os.curdir
        yield Versions(Side(base, base), Side(head, head), list(_differing(base, head)))
        return
    with working_repository() as repository, TemporaryDirectory(prefix="forewarn-") as private:
        try:
            first = repository.commit(base) if base else repository.merge_base(head or "HEAD")
        except SourceError:
            if base and os.path.isdir(base):
                fix = "pass two directories, or two git revisions"
                raise MissingFile(head, f"no directory, but {base} is one", fix=fix) from None
            raise
        private = os.path.realpath(private)
        before = _written(repository, first, base or "merge base", os.path.join(private, "base"))
        if not head:
            changed = _differing(before.root, repository.top, as_git=True)
            yield Versions(before, Side("working tree", repository.top), list(changed))
            return
        second = repository.commit(head)
        after = _written(repository, second, head, os.path.join(private, "head"))
        yield Versions(before, after, repository.changed(first, second))


def _written(repository: Repository, commit: str, name: str, directory: str) -> Side:
    os.mkdir(directory)
    repository.write(commit, directory)
    short = _HASH.sub(r"\1", name)
    return Side(short if commit.startswith(name) else f"{short} ({commit[:10]})", directory)


def _differing(base: str, head: str, *, as_git: bool = False) -> Iterator[str]:
    """Yield the relative paths of files and links that differ. `as_git`: without those in `head` that git ignores."""
    before = {*_paths(base)}
    for path in [*before, *(path for path in _paths(head, as_git=as_git) if path not in before)]:
        if not _same(os.path.join(base, path), os.path.join(head, path)):
            yield path


def _paths(root: str, *, as_git: bool = False) -> Iterator[str]:
    """Yield the relative paths of the files and links below a directory, as git sees them: without other repositories.

    `as_git`: without those that git ignores.
    """
    rules = {root: Ignores.load_inherited(root, {}) if as_git else None}
    for directory, names, files in os.walk(root):
        ignores = rules.pop(directory)
        if ignores is not None and GITIGNORE in files:
            ignores = ignores.extended_by(directory)
        for is_directory, entries in ((True, names), (False, files)):
            for name in [name for name in entries if name != ".git"]:
                path = os.path.join(directory, name)
                below = ignores and ignores.rules_for(path, is_directory=is_directory)
                if ignores is not None and below is None:
                    continue
                if not is_directory or os.path.islink(path):
                    yield os.path.relpath(path, root)
                elif not os.path.lexists(os.path.join(path, ".git")):
                    rules[path] = below
        names[:] = [name for name in names if os.path.join(directory, name) in rules]


def _same(one: str, other: str) -> bool:
    with suppress(OSError):  # one version lacks the file, or a link is broken
        if not os.path.isdir(one) and not os.path.isdir(other):
            return cmp(one, other, shallow=False)
    return os.path.islink(one) and os.path.islink(other) and os.readlink(one) == os.readlink(other)


def check_paths(paths: Iterable[str], *sides: Side) -> None:
    """Raise MissingFile for a path that no version has."""
    for path in paths:
        if not any(os.path.exists(os.path.join(side.root, path)) for side in sides):
            raise MissingFile(path, f"no such file or directory in {' or '.join(side.name for side in sides)}")


def read_version(
    side: Side, request: LintRequest, rendering: RenderRequest | None, changed: Sequence[str]
) -> tuple[Version, list[str]]:
    """Read and render the objects of a version; also return sentences about what could not be read.

    `request.paths`: relative to the version, all of it if empty. `rendering`: None to render nothing. `changed`: files
    that differ; only what depends on one of them is rendered.
    """
    root = os.path.realpath(side.root)
    paths = [os.path.join(side.root, path) for path in request.paths or [""]]
    config = _relative_config(side.root, request.config)
    request = request._replace(paths=[path for path in paths if os.path.exists(path)], config=config)
    given = read_input(request._replace(namespace=request.namespace or DEFAULT_NAMESPACE))
    failures = list[Unrendered]()
    if rendering is not None:
        real = [os.path.join(root, path) for path in changed]
        failures = render(given, request, rendering, lambda directory: _is_affected(directory, real))
    snapshots = {member.file for member in given.members if _is_running(member.subject.object)}
    members, unpatched, *_ = kustomized(given.members, {k.directory: k for k in given.kustomizations}, given.content)
    version = Version([member for member in members if member.file not in snapshots], side.root)
    notes = [*_unread(given, root, {*changed}, snapshots), *_unrendered(failures, root)]
    more = f"{plural(unpatched, 'object')} not compared: patches that forewarn does not apply"
    return version, [*notes, more] if unpatched else notes


def _unread(files: Input, root: str, differing: set[str], snapshots: Iterable[str]) -> Iterator[str]:
    """Yield sentences about differing files that are not compared."""
    for fault in files.unreadable:
        if not isinstance(fault, SourceError) or not os.path.isabs(fault.file):
            yield str(fault)
            continue
        directory, name = os.path.split(fault.file)  # the file itself may be a link
        path = os.path.relpath(os.path.join(os.path.realpath(directory), name), root)
        if path in differing:
            yield f"{path}: {with_fix(fault.problem, fault.fix)}"
    for diagnostic in files.diagnostics:
        where = _inside(root, diagnostic.location.file)
        if diagnostic.rule == "parse-error" and (where in differing or where.endswith(RENDERED)):
            yield f"{where}:{diagnostic.location.line}: {diagnostic.message}"
    templates = {_inside(root, name) for name in files.engines}
    yield from (f"{path}: a template, not compared" for path in sorted(templates & differing))
    paths = [_inside(root, file) for file in snapshots]
    yield from (f"{path}: a cluster snapshot" for path in sorted(differing.intersection(paths)))


def _unrendered(failures: Iterable[Unrendered], root: str) -> Iterator[str]:
    """Yield why charts and kustomizations are not rendered."""
    for failure in failures:
        others = [_inside(root, other) for other in failure.others]
        also = f"{ALSO}{listed(others, _MAX_DIRECTORIES)}" if others else ""
        where = f"{_inside(root, failure.file)}:{failure.line}"
        yield f"{where}: cannot render: {failure.why}. Fix: {failure.fix}{also}"


def _inside(root: str, file: str) -> str:
    """Return the path of a file relative to the root of its version."""
    return os.path.relpath(os.path.realpath(file), root)


def _is_running(obj: Any) -> bool:
    """Whether an object is a Pod on a node, with its status: from a cluster, and not from a manifest."""
    return at(obj, "kind") == "Pod" and bool(at(obj, "spec", "nodeName")) and at(obj, "status", "phase") is not None


def _relative_config(root: str, config: Config) -> Config:
    """Return a configuration whose patterns of paths are relative to the root of a version."""
    prefix = os.path.join(escape(os.path.normpath(root)), "")

    def scope_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
        return tuple(prefix + pattern.removeprefix("./") for pattern in patterns)

    options = config.options
    given = [pattern.removesuffix("/") for pattern in options.exclude]
    names = [f"*/{pattern}" for pattern in given if "/" not in pattern]
    return config._replace(options=options._replace(exclude=scope_patterns([*given, *names])))


def may_differ(pair: Versions) -> Callable[[str], bool]:
    """Return whether the objects of a directory may differ: the directory depends on a changed file, or only one
    version has it. Whether a base is read unrendered or as part of other kustomizations depends on all kustomizations
    that name it, also in other directories.
    """

    roots = [os.path.realpath(side.root) for side in (pair.base, pair.head)]
    changed = [[os.path.join(root, path) for path in pair.changed] for root in roots]

    @cache
    def differs(directory: str) -> bool:
        places = [os.path.join(root, directory) for root in roots]
        return not all(map(os.path.isdir, places)) or any(map(_is_affected, places, changed))

    return differs


def not_compared(base: Side, head: Side, changed: Iterable[str], within: Sequence[str]) -> list[str]:
    """Return the changed objects that `differences` does not compare, as `PATH: KIND NAMESPACE/NAME`, sorted.

    `within`: the paths to compare, all if empty.
    """
    result, prefixes = [], tuple(os.path.join(os.path.normpath(path), "") for path in within)
    for path in sorted(changed):
        if path.endswith(MANIFESTS) and (not prefixes or f"{path}{os.sep}".startswith(prefixes)):
            old, new = (_others(os.path.join(side.root, path)) for side in (base, head))
            result += [f"{path}: {name}" for name in sorted(old.keys() | new) if old.get(name, []) != new.get(name, [])]
    return result


def _others(path: str) -> Mapping[str, list[Any]]:
    with suppress(SourceError, Fault, ValueError, RecursionError):  # the comparison reports the error
        texts = [value for value, _ in values(read_file(path), path)]
        if any(_is_running(obj) for text in texts for obj in (items_of(text) or [text])):
            return {}
        if _VALUES.search(os.path.basename(path)) and not _is_rendered(path):
            return {CHART_VALUES: fields_about_pods(texts)}
        return other_objects(texts)
    return {}


_VALUES: Final = re.compile(r"(^|[-._])values([-._].*)?\.ya?ml$")


def _is_rendered(path: str) -> bool:
    """Report whether a file contains values for rendering a chart."""
    directory, name = os.path.split(path)
    return name == "values.yaml" and os.path.isfile(os.path.join(directory, "Chart.yaml"))


def manifests(root: str) -> Iterator[tuple[str, bytes]]:
    """Yield the relative path and contents of each file of manifests."""
    for file in find_files([root], as_git=True):
        with suppress(SourceError):  # the comparison reports the error
            yield os.path.relpath(file.path, root), read_file(file)


class Owners:
    """The owners of namespaces in a version: the owners of the files with objects in the namespace."""

    def __init__(self, version: Version, namespace_of: Callable[[ApiObject, str], str]) -> None:
        """Read CODEOWNERS. `namespace_of`: the namespace of an object in a directory of the version."""
        self._members, self._top = version.members, os.path.realpath(version.root)
        self._owners, self._namespace_of = CodeOwners(version.root), namespace_of

    @cached_property
    def _files(self) -> Mapping[str, set[str]]:
        files = defaultdict[str, set[str]](set)
        for member in self._members:
            file = os.path.relpath(os.path.realpath(member.file), self._top)
            files[self._namespace_of(member.subject.object, os.path.dirname(file))].add(file)
        return files

    @cache  # noqa: B019  (as long as the answer)
    def first_owners(self, namespace: str) -> str:
        """Return the first owners as text; "" if there are none."""
        files = islice(sorted(self._files.get(namespace, ())), _MAX_FILES)
        counts = Counter(owner for file in files for owner in self._owners.owners_of(file))
        return listed([owner for owner, _ in counts.most_common()])


_MAX_FILES: Final = 50


def _is_affected(directory: str, changed: Sequence[str]) -> bool:
    """Report whether a chart or kustomization may depend on one of these files (real paths).

    Every text in a kustomization that is the path of a file or directory counts as a dependency, because generators,
    transformers and plugins name files in their own fields.
    """
    prefixes = [os.path.join(place, "") for place in _places(directory)]
    return any(f"{path}{os.sep}".startswith(prefix) for path in changed for prefix in prefixes)


def _places(directory: str) -> set[str]:
    """The directory, and the files and directories that its kustomization names, directly or through other
    kustomizations.
    """
    return set(islice(reachable([os.path.realpath(directory)], _named_by), _MAX_STEPS))


def _named_by(directory: str) -> Iterator[str]:
    for path in (os.path.join(directory, name) for name in KUSTOMIZATIONS):
        for text in _texts(path) if os.path.isfile(path) else ():
            if 0 < len(text) < 1_000 and "\0" not in text:
                named = os.path.realpath(os.path.join(directory, text))
                yield from [named] if os.path.exists(named) else []


def _texts(path: str) -> Iterator[str]:
    """Yield all strings in a file of YAML; none if it cannot be read, because it cannot be rendered either."""
    with suppress(Fault, SourceError):
        for value in list(values(read_file(path), path)):
            yield from (text for _, text in scalars_in(value.value, _MAX_TEXTS) if isinstance(text, str))
