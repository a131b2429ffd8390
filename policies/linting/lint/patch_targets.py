"""Finds kustomizations that cannot be built, and patches and replacements whose target does not exist."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from glob import glob
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Location, Path, Severity, cut, grouped, nearest_word, quote
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.documents import Document, as_utf8
from forewarn.policies.inputs.manifests.groups import reached
from forewarn.policies.inputs.manifests.kustomizations import (
    GENERATORS,
    KUSTOMIZATIONS,
    RESOURCES,
    SCALED,
    EntrySource,
    Kustomization,
)
from forewarn.policies.inputs.manifests.reading import BROKEN, first_value
from forewarn.policies.inputs.manifests.yaml.source import Tree
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.inputs.sources.git import Ignores, upwards, work_trees
from forewarn.policies.kubernetes.kinds.registry import (
    AUTOSCALER,
    DEFAULT_NAMESPACE,
    DISRUPTION_BUDGET,
    POD_TEMPLATE_PATHS,
    is_namespaced,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import (
    KUSTOMIZATION_STRUCT,
    absent_fields,
    decode_error,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import NO_SOURCE, FileDiagnostic, ReviewedObject
from forewarn.policies.linting.lint.chart_texts import repeated_keys
from forewarn.policies.linting.lint.deployed import is_below, paths_of

if TYPE_CHECKING:
    from forewarn.policies.linting.lint.input import Input

_KINDS: Final = frozenset(kind.rpartition("/")[2] for kind in (*POD_TEMPLATE_PATHS, AUTOSCALER, DISRUPTION_BUDGET))
_NAME: Final = later(r"([a-z0-9-]{0,253})(\.\*)?([a-z0-9-]{0,253})")
"""A name in a target without regular expressions except one `.*`; other targets are not checked."""
_SHOWN: Final = 40
_NEAR: Final = 0.75
_MAX_SUGGESTED: Final = 100
"""Maximum number of entries of a list, and of paths in a run, for which similar names are searched."""
_NOT_LOCAL: Final = later(r"[$<{?@]|//|\.git\b|^github\.com")
"""Text that occurs in addresses and placeholders, but not in local paths."""
_SCRIPTS: Final = (
    *("Makefile", "*/Makefile", "*/*/Makefile", "*.mk", "justfile", "Taskfile.y*ml", ".gitlab-ci.yml"),
    *("*.sh", "*/*.sh", "*/*/*.sh", "scripts/*", "hack/*", "tools/*", ".github/workflows/*"),
)
"""The files of a tree that may create files when it is deployed."""
_MAX_SCRIPTS: Final = 1_000
_CONTENT: Final = later(rb"^(?!---)[^\s#]", re.MULTILINE)
_WRITES: Final = later(
    rb"(?:>|\b(?:tee|cp|mv|mkdir|clone|touch|output|create|open|write_text)\b)[^\n]*|^[\w./$()-]+\.ya?ml[ \t]*:",
    re.MULTILINE,
)
"""Commands that may write the files on the rest of their line, and targets of a Makefile."""
_GENERATED: Final = (".clusterserviceversion.yaml", "/webhook/manifests.yaml")
"""The ends of the paths that operator-sdk and controller-gen write."""
_Namespaces = Mapping[str, Mapping[str, Collection[str]]]
"""The namespaces of objects by their kind and name."""


def unmatched(files: Input) -> Iterator[FileDiagnostic]:
    """Yield the patches and replacements that match no object, in kustomizations whose objects have all been read."""
    by_directory = {kustomization.directory: kustomization for kustomization in files.kustomizations}
    broken = {files.real_path(fault.location.file) for fault in files.diagnostics if fault.rule in BROKEN}
    read = files.files_by_path.keys() - broken
    subjects = grouped((files.real_path(member.file), member.subject) for member in files.members)
    for kustomization in [k for k in by_directory.values() if k.has_patches or "replacements" in k.content]:
        bases = (by_directory[path] for path in reached(kustomization.directory, by_directory) if path in by_directory)
        used = [kustomization, *bases]
        paths = {path for each in used for path in each.resources if path not in by_directory}
        objects = [subject for path in paths for subject in subjects.get(path, ())]
        if objects and paths <= read and not _may_add_or_rename(used):  # some program probably fills empty resources
            namespaces = _namespaces(objects, used)
            yield from _unmatched_in(kustomization, namespaces, files, subjects)
            yield from _uncounted(kustomization, namespaces, files)


def failing(files: Input) -> Iterator[tuple[Kustomization | None, FileDiagnostic]]:
    """Yield the reasons why kustomize does not build kustomizations as written, each with its kustomization if the rest
    of the build is unknown: keys that it drops, circles, Components in wrong lists, and paths that do not exist.
    """
    by_directory = {kustomization.directory: kustomization for kustomization in files.kustomizations}
    paths = _Paths(files, by_directory)
    for kustomization in files.kustomizations:
        file = kustomization.real(os.path.basename(kustomization.file))
        document = Document(as_utf8(files.content(file) or b""), kustomization.file)
        faults = repeated_keys(Tree(document), "kustomize")
        yield from ((kustomization, fault) for fault in faults if fault.severity is not Severity.NOTE)
        for place, entry in kustomization.entries:
            named = by_directory.get(kustomization.real(entry)) if place[0] in RESOURCES else None
            severity = None
            if named is not None and paths.empty_file_in(named.directory) is None:
                why, fix = _why_wrong(kustomization, named, str(place[0]))
            else:
                why, fix, severity = paths.why_absent(kustomization, entry, is_file=place[0] not in RESOURCES)
            if why:
                location = EntrySource(kustomization, files.content, place).locate(())
                message = f"{cut(entry, _SHOWN)} {why}: kustomize build fails"
                fault = FileDiagnostic("parse-error", message, location, fix, severity=severity)
                yield kustomization if named is not None else None, fault
    yield from ((None, fault) for fault in _empty_deployed(files, paths))


def _empty_deployed(files: Input, paths: _Paths) -> Iterator[FileDiagnostic]:
    """Yield the empty kustomizations in directories that Argo CD builds; Flux may add fields to them."""
    directories = {os.path.dirname(path) for path in files.files_by_path if os.path.basename(path) in KUSTOMIZATIONS}
    empty = {path: file for path in sorted(directories) if (file := paths.empty_file_in(path)) is not None}
    deployments = [each for each in files.deployments if empty and isinstance(each, File)]
    named = {os.path.normpath(path.lstrip("/")) for each in deployments for path in paths_of(each)}
    for directory, file in empty.items():
        if os.path.relpath(directory, next(work_trees(directory), os.path.realpath(file.tree))) in named:
            message = "empty, but Argo CD builds this directory: kustomize build fails"
            place, fix = Location(file.name, 1, 1, 1), "list its resources, or remove it"
            yield FileDiagnostic("parse-error", message, place, fix)


class _Paths:
    """The paths that kustomizations name. `directories`: the kustomizations by directory."""

    def __init__(self, files: Input, directories: Mapping[str, Kustomization]) -> None:
        self._files, self._directories = files, directories
        self._searches = iter(range(_MAX_SUGGESTED))
        self._ignored_in, self._written_in = cache(_ignored_in), cache(_written_in)

    def why_absent(
        self, kustomization: Kustomization, entry: str, *, is_file: bool
    ) -> tuple[str, str, Severity | None]:
        """Return why an entry names no file and no directory with a kustomization, the fix, and the severity; "" if it
        does, or is no local path.
        """
        path, why, fix = kustomization.real(entry), "", "create it, or remove the entry"
        if not is_file and (unfit := self._unfit(kustomization, entry)) is not None:
            return unfit
        if path in self._files.files_by_path or _NOT_LOCAL.search(entry):
            return "", "", None
        if is_file or not os.path.isdir(path):
            why = "" if os.path.exists(path) else "does not exist"
        elif not any(os.path.exists(os.path.join(path, name)) for name in KUSTOMIZATIONS):
            why, path = "has no kustomization", os.path.join(path, KUSTOMIZATIONS[0])
        top = next(work_trees(kustomization.directory), None) if why else None
        if top and not os.path.join(path, "").startswith(os.path.join(top, "")):
            why, fix = "is outside of the repository", "write a path in the repository"
        near = self._nearest(entry, kustomization) if why and next(self._searches, None) is not None else None
        fix = f"write {os.path.relpath(near, kustomization.directory)}" if near else fix
        is_created = bool(why) and self._is_created(path, self._files.sources[kustomization.file].tree)
        return why, fix, Severity.NOTE if is_created else None

    def _unfit(self, kustomization: Kustomization, entry: str) -> tuple[str, str, Severity | None] | None:
        """Return why an entry names a kustomization that cannot be a resource, the fix, and the severity."""
        path = kustomization.real(entry)
        named = self._directories.get(os.path.dirname(path))
        if named is not None and _is_file_of(named, path):
            fix = "remove the entry" if named is kustomization else f"write its directory, {os.path.dirname(entry)}"
            return "is a kustomization", fix, None
        file = self.empty_file_in(path)
        severity = Severity.NOTE if file and self._is_created(path, file.tree) else None
        return ("has an empty kustomization", "list its resources, or remove the entry", severity) if file else None

    def empty_file_in(self, directory: str) -> File | None:
        """Return the kustomization of a directory if kustomize reads no field in it, and rejects it as empty.

        Source: kustomize api/types/kustomization.go, CheckEmpty.
        """
        paths = (os.path.join(directory, name) for name in KUSTOMIZATIONS)
        file = next((self._files.files_by_path[path] for path in paths if path in self._files.files_by_path), None)
        named = self._directories.get(directory)
        given = named.given if named else None if file and _CONTENT.search(readable(file)) else {}
        has_fields = given is None or any(given[key] is not None for key in given.keys() - {"apiVersion", "kind"})
        return None if has_fields else file

    def _shifted(self, kustomization: Kustomization, entry: str) -> str | None:
        """Return what an entry names with a `../` less or more at its start; None if that does not exist either."""
        others = (f"../{entry}", entry.removeprefix("../")) if entry.startswith("../") else ()
        paths = (path for path in map(kustomization.real, others) if path != kustomization.directory)
        loaded = {each for each in self._files.files_by_path if is_below(each, kustomization.directory)}
        return next((path for path in paths if path in loaded or path in self._directories), None)

    def _nearest(self, entry: str, kustomization: Kustomization) -> str | None:
        """Return what an entry probably means: a file beside the missing one, or what `../` less or more names; None if
        there is none.
        """
        if (shifted := self._shifted(kustomization, entry)) is not None:
            return shifted
        directory, name = os.path.split(kustomization.real(entry))
        loaded = (each for each in self._files.files_by_path if is_below(each, kustomization.directory))
        here = (each for each in loaded if os.path.dirname(each) == directory)
        listed = {*kustomization.resources}
        beside = {os.path.basename(each): each for each in here if each not in listed}
        return beside.get(nearest_word(name, beside, _NEAR))

    def _is_created(self, path: str, top: str) -> bool:
        """Report whether git ignores a path, a generator of operators writes it, or a Makefile, workflow or script of a
        tree writes a file with its name, files to its directory, or a directory above it that does not exist.
        """
        directory, name = os.path.split(path)
        top = os.path.realpath(top or directory)
        rules = self._ignored_in(directory, top)
        inside = (each for each in upwards(path) if each.startswith(os.path.join(top, "")))
        is_ignored = any(rules.ignore(each, is_directory=each != path) for each in inside)
        written, place = self._written_in(top), os.path.relpath(directory, top)
        # searching the bytes first is much faster, if no script names them
        is_written = place.encode() in written and re.search(
            rf"(?<![\w./-])(?:\./)?{re.escape(place)}/?(?![\w/.-])".encode(), written
        )
        is_named = "." in name and (name.encode() in written or (os.sep in place and is_written))
        absent = os.path.basename([path, *takewhile(lambda each: not os.path.lexists(each), upwards(path))][-1])
        is_made = absent.encode() in written and re.search(
            rf"(?<![\w.-]){re.escape(absent)}(?![\w.-])".encode(), written
        )
        return is_ignored or path.endswith(_GENERATED) or bool(is_named or is_made)


def _is_file_of(kustomization: Kustomization, path: str) -> bool:
    """Report whether a path is the file of a kustomization, which is no resource."""
    is_ours = text_at(kustomization.given, "apiVersion").startswith(_GROUP) or "apiVersion" not in kustomization.given
    is_file = path == kustomization.real(os.path.basename(kustomization.file))
    return is_file and is_ours and not text_at(kustomization.given, "metadata", "name")


def _ignored_in(directory: str, top: str) -> Ignores:
    """Return the ignore rules for a directory; outside of a work tree, those of the .gitignore at the top."""
    return (Ignores.load_inherited(directory, {}) or Ignores.from_directory(top).extended_by(top)).extended_by(
        directory
    )


def _written_in(top: str) -> bytes:
    """Return the lines of a tree's scripts that may write a file, each starting at the command that writes it."""
    found = chain.from_iterable(glob(pattern, root_dir=top) for pattern in _SCRIPTS)
    scripts = islice(dict.fromkeys(found), _MAX_SCRIPTS)
    return b"\n".join(chain.from_iterable(_WRITES.findall(readable(os.path.join(top, each))) for each in scripts))


def _why_wrong(kustomization: Kustomization, named: Kustomization, key: str) -> tuple[str, str]:
    """Return why a kustomization cannot name another one under a key, and the fix; ("", "") if it can.

    Source: kustomize api/internal/loader/fileloader.go, errIfArgEqualOrHigher.
    """
    if os.path.join(kustomization.directory, "").startswith(os.path.join(named.directory, "")):
        return "contains this kustomization", "move one of both to a directory beside the other"
    if kustomization.directory in named.resources:
        return "names this kustomization", "remove the entry here or there"
    if named.is_component is (key == "components"):
        return "", ""
    what, where = ("a", "components") if named.is_component else ("no", "resources")
    return f"is {what} Component", f"list it under {where}"


def _may_add_or_rename(used: Sequence[Kustomization]) -> bool:
    return any(each.remotes or each.is_open for each in used) or sum(any(each.affixes) for each in used) > 1


def _namespaces(objects: Sequence[ReviewedObject], used: Sequence[Kustomization]) -> _Namespaces:
    """Return the namespaces of objects by kind, also with the version as in `v1 Deployment`, and name: the namespaces
    in files, and those that kustomizations set before the first one applies its patches. The name of a template is "".
    """
    prefixes, suffixes = ({each.affixes[end] for each in used} | {""} for end in (0, 1))
    given = {each.namespace for each in used[1:]}
    namespaces: dict[str, dict[str, set[str]]] = {}
    for subject in objects:
        own, name = _namespace_of(subject), "" if subject.is_partial else subject.ref.name
        for form in {f"{prefix}{name}{suffix}" for prefix in prefixes for suffix in suffixes} if name else ("",):
            for kind in (subject.ref.kind, f"{text_at(subject.object, 'apiVersion')} {subject.ref.kind}"):
                namespaces.setdefault(kind.rpartition("/")[2], {}).setdefault(form, {*given}).add(own)
    return namespaces


def _namespace_of(subject: ReviewedObject) -> str:
    """Return the namespace of an object in its file; "" for cluster-scoped ones."""
    own = text_at(subject.object, "metadata", "namespace") or DEFAULT_NAMESPACE
    return own if is_namespaced(group_kind(subject.object)) else ""


def _unmatched_in(
    kustomization: Kustomization, objects: _Namespaces, files: Input, subjects: Mapping[str, Sequence[ReviewedObject]]
) -> Iterator[FileDiagnostic]:
    """Yield the patches and replacements of a kustomization that match none of the objects. `subjects`: the subjects
    of each file.
    """
    ordered = cache(lambda kind: sorted(objects.get(kind, ())))
    for key in ("patches", "patchesStrategicMerge"):
        for number, patch in enumerate(list_at(kustomization.content, key)):
            target = at(patch, "target")
            merges = _merges_in(patch, kustomization, subjects) if target is None else ()
            for merge in merges:
                if group_kind(merge.object) in files.wanted and _is_absent(merge, objects):
                    is_inline = merge.source is NO_SOURCE
                    place = (
                        EntrySource(kustomization, files.content, (key, number)).locate(())
                        if is_inline
                        else merge.locate(("metadata", "name"))
                    )
                    message = f"no {merge.ref.kind} {cut(merge.ref.name, _SHOWN)} to patch: kustomize build fails"
                    known = sorted(filter(None, objects.get(merge.ref.kind, {}).get(merge.ref.name, ())))
                    what = f"namespace: {known[0]}" if known else "the kind and name of an object of this kustomization"
                    yield FileDiagnostic("parse-error", message, place, f"write {what}")
    for path, target in _targets(kustomization.content):
        kind, name = text_at(target, "kind"), text_at(target, "name")
        is_plain = isinstance(target, dict) and not target.keys() - {"group", "version", "kind", "name"}
        version = text_at(target, "version")
        shown = f"{version} {kind}" if version.isalnum() else kind
        if is_plain and kind in _KINDS and not _may_match(name, ordered(shown)):
            what = "patch" if path[0] == "patches" else "replacement"
            message = f"the target {shown} {cut(name, _SHOWN)} matches no object: kustomize ignores the {what}"
            fix = "write the version, kind and name of an object of this kustomization"
            place = EntrySource(kustomization, files.content, path).locate(("name",))
            yield FileDiagnostic("update-without-effect", message, place, fix, severity=Severity.WARNING)


def _uncounted(kustomization: Kustomization, objects: _Namespaces, files: Input) -> Iterator[FileDiagnostic]:
    """Yield the `replicas` entries of a kustomization that name no object that kustomize scales."""
    names = set(chain.from_iterable(objects.get(kind.rpartition("/")[2], ()) for kind in SCALED))
    is_known = "configurations" not in kustomization.content and "" not in names and files.wanted.issuperset(SCALED)
    for number, entry in enumerate(list_at(kustomization.content, "replicas") if is_known else ()):
        if (name := text_at(entry, "name")) and name not in names:
            place = EntrySource(kustomization, files.content, ("replicas", number)).locate(("name",))
            message = f"no workload {cut(name, _SHOWN)} for replicas: kustomize build fails"
            yield FileDiagnostic("parse-error", message, place, "write the name of a workload, or remove the entry")


def _targets(content: ApiObject) -> Iterator[tuple[Path, Any]]:
    """Yield the targets of the patches and replacements of a kustomization, with their paths."""
    for number, patch in enumerate(list_at(content, "patches")):
        yield ("patches", number, "target"), at(patch, "target")
    for number, replacement in enumerate(list_at(content, "replacements")):
        for index, target in enumerate(list_at(replacement, "targets")):
            yield ("replacements", number, "targets", index, "select"), at(target, "select")


def _merges_in(
    patch: Any, kustomization: Kustomization, subjects: Mapping[str, Sequence[ReviewedObject]]
) -> Sequence[ReviewedObject]:
    """Return the strategic merge patches in the file or inline text of an entry; inline patches have no source."""
    path = patch if isinstance(patch, str) and "\n" not in patch else text_at(patch, "path")
    if path:
        return subjects.get(kustomization.real(path), ())
    value = first_value((patch if isinstance(patch, str) else text_at(patch, "patch")).encode(), "")
    return [ReviewedObject(value)] if isinstance(value, dict) else ()


def _is_absent(merge: ReviewedObject, objects: _Namespaces) -> bool:
    """Report whether there is no object with the kind, name and namespace of a strategic merge patch."""
    named, name = objects.get(merge.ref.kind, {}), merge.ref.name
    return bool(name) and "" not in named and _namespace_of(merge) not in named.get(name, ())


def _may_match(target: str, names: Sequence[str]) -> bool:
    """Report whether the name in a target may match an object. `names`: the sorted names of objects."""
    start, is_open, end = target.partition(".*")
    if "" in names[:1] or not target or not _NAME.fullmatch(target):
        return True
    near = names[bisect_left(names, start) : bisect_left(names, f"{start}~")]
    return any(name == target or (is_open and len(name) >= len(start + end) and name.endswith(end)) for name in near)


def undecoded(files: Input) -> Iterator[FileDiagnostic]:
    """Yield the fields that kustomize does not have, the first value of each kustomization with a wrong type for
    kustomize, and wrong versions.

    Source: kustomize api/types/kustomization.go, Unmarshal and EnforceFields.
    """
    for kustomization in files.kustomizations:
        given, kind = kustomization.given, kustomization.given.get("kind") or "Kustomization"
        version = given.get("apiVersion") or _GROUP
        if not str(version).startswith(_GROUP):
            continue
        faults = [
            (path, f"unknown field {quote(cut(str(path[-1]), _SHOWN))}", f"write {near}" if near else "remove it")
            for path, struct in absent_fields(given, KUSTOMIZATION_STRUCT)
            for near in [nearest_word(str(path[-1]), sorted(struct.fields), _NEAR)]
        ]
        fault = decode_error(given, KUSTOMIZATION_STRUCT)
        value = at(given, *fault.path) if fault else None
        if fault and not (isinstance(value, str) and _NOT_LOCAL.search(value)):
            faults.append((fault.path, fault.text, fault.fix))
        wanted = f"{_GROUP}{_VERSIONS.get(kind, '')}"
        if at(given, "spec", "sourceRef") is not None:
            text = "kustomize has no spec.sourceRef, but Flux has"
            faults = [(("apiVersion",), text, "write kustomize.toolkit.fluxcd.io/v1")]
        elif kind not in _VERSIONS:
            faults.append((("kind",), f"kind {quote(str(kind))}", "write kind: Kustomization, or Component"))
        elif version not in (_GROUP, wanted):
            faults.append((("apiVersion",), f"apiVersion for {kind} should be {wanted}", f"write {wanted}"))
        for path, text, fix in chain(faults, _without_base(kustomization, files)):
            location = EntrySource(kustomization, files.content, path).locate((), key=True)
            yield FileDiagnostic("parse-error", f"{text}: kustomize build fails", location, fix)


_GROUP: Final = "kustomize.config.k8s.io/"
_VERSIONS: Final = {"Kustomization": "v1beta1", "Component": "v1alpha1"}


def _without_base(kustomization: Kustomization, files: Input) -> Iterator[tuple[Path, str, str]]:
    """Yield the place, the problem and the fix of generators and inline JSON patches that change nothing they name."""
    for number, patch in enumerate(list_at(kustomization.given, "patches")):
        if text_at(patch, "patch").lstrip().startswith("- op:") and at(patch, "target") is None:
            yield ("patches", number), "a JSON patch without a target", "set target.kind and target.name"
    data = [files.content(path) for path in kustomization.resources]
    is_known = not (kustomization.is_open or kustomization.remotes or None in data)
    for key, kind in zip(GENERATORS, (b"ConfigMap", b"Secret"), strict=True):
        for number, entry in enumerate(list_at(kustomization.given, key) if is_known else ()):
            if at(entry, "behavior") in ("merge", "replace") and not any(kind in each for each in data if each):
                message = f"no {kind.decode()} {cut(text_at(entry, 'name'), _SHOWN)} to {entry['behavior']}"
                yield (key, number, "behavior"), message, "remove behavior, or list a resource with this name"
