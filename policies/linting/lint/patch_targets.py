"""Patches of kustomizations whose target matches no object, which kustomize ignores, and Components in wrong lists."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Severity, cut
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.documents import Document, as_utf8
from forewarn.policies.inputs.manifests.groups import reached
from forewarn.policies.inputs.manifests.kustomizations import KUSTOMIZATIONS, RESOURCES, EntrySource, Kustomization
from forewarn.policies.inputs.manifests.reading import first_value
from forewarn.policies.inputs.manifests.yaml.source import Tree, YamlSource
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

if TYPE_CHECKING:
    from forewarn.policies.linting.lint.input import Input

_KINDS: Final = frozenset(kind.rpartition("/")[2] for kind in POD_TEMPLATE_PATHS)
_NAME: Final = later(r"([a-z0-9-]{0,253})(\.\*)?([a-z0-9-]{0,253})")
"""A name in a target without regular expressions except one `.*`; other targets are not checked."""
_SHOWN: Final = 40


def unmatched(files: Input) -> Iterator[FileDiagnostic]:
    """Yield the patches without a target, of kustomizations all of whose objects are read."""
    by_directory = {kustomization.directory: kustomization for kustomization in files.kustomizations}
    by_path, identities = files.by_path, _identities(files)
    for directory in [k.directory for k in by_directory.values() if k.content]:
        used = [by_directory[directory]]
        used += (by_directory[path] for path in reached(directory, by_directory) if path in by_directory)
        paths = {path for each in used for path in each.resources if path not in by_directory}
        if paths and paths <= by_path.keys() and not _may_add_or_rename(used):
            objects = {identity for path in paths for identity in identities.get(path, ())}
            for path in {os.path.join(directory, name) for name in KUSTOMIZATIONS} & by_path.keys():
                yield from _unmatched_in(by_path[path], objects, used)


def misplaced(files: Input) -> Iterator[FileDiagnostic]:
    """Yield the Components that kustomizations name as resources, and the other kustomizations named as components."""
    components = {kustomization.directory: kustomization.is_component for kustomization in files.kustomizations}
    for kustomization in files.kustomizations:
        if not any(components.get(path, False) or path in kustomization.components for path in kustomization.resources):
            continue
        data = files.content(kustomization.real(os.path.basename(kustomization.file))) or b""
        for key in RESOURCES:
            for number, entry in enumerate(list_at(first_value(data, ""), key)):
                path = kustomization.real(entry) if isinstance(entry, str) else ""
                if path in components and components[path] is not (key == "components"):
                    what, where = ("a", "components") if components[path] else ("no", "resources")
                    place = EntrySource(kustomization, files.content, (key, number)).locate(())
                    message = f"{cut(entry, _SHOWN)} is {what} Component: kustomize build fails"
                    yield FileDiagnostic("parse-error", message, place, f"list it under {where}")


def _may_add_or_rename(used: Sequence[Kustomization]) -> bool:
    return any(each.remotes or each.is_open for each in used) or sum(any(each.affixes) for each in used) > 1


def _identities(files: Input) -> Mapping[str, Collection[tuple[str, str]]]:
    """Return the kind and the name of the objects of each file by its real path; patches have the name ""."""
    identities: dict[str, set[tuple[str, str]]] = {}
    for member in files.members:
        identity = member.subject.ref.kind, "" if member.subject.is_partial else member.subject.ref.name
        identities.setdefault(files.real_path(member.file), set()).add(identity)
    return identities


def _unmatched_in(
    file: File, objects: Collection[tuple[str, str]], used: Sequence[Kustomization]
) -> Iterator[FileDiagnostic]:
    """Yield the patches of a file whose target is none of the objects; none if a program fills empty resources."""
    data = as_utf8(readable(file))
    content = first_value(data, file.path) if objects and b"target" in data else None
    source = None
    for number, kind, name in _targets(content) if isinstance(content, dict) else ():
        if not any(_matches(kind, name, each, used) for each in objects):
            source = source or YamlSource(Tree(Document(data, file.name)))
            place = source.locate(("patches", number, "target", "name"))
            message = f"the target {kind} {cut(name, _SHOWN)} matches no object: kustomize ignores the patch"
            fix = "write the kind and name of an object of this kustomization"
            yield FileDiagnostic("update-without-effect", message, place, fix, severity=Severity.WARNING)


def _targets(content: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Yield the number, kind and name of each target of a patch that names a workload."""
    for number, patch in enumerate(list_at(content, "patches")):
        target = patch.get("target") if isinstance(patch, dict) else None
        if isinstance(target, dict) and not target.keys() - {"group", "version", "kind", "name"}:
            kind, name = text_at(target, "kind"), text_at(target, "name")
            if kind in _KINDS and name and _NAME.fullmatch(name):
                yield number, kind, name


def _matches(kind: str, name: str, identity: tuple[str, str], used: Sequence[Kustomization]) -> bool:
    """Report whether a target matches an object by its name, or by the one that prefixes give it."""
    start, is_open, end = name.partition(".*")
    if identity[0] != kind:
        return False
    prefixes, suffixes = ({each.affixes[end] for each in used} | {""} for end in (0, 1))
    forms = (f"{prefix}{identity[1]}{suffix}" for prefix in prefixes for suffix in suffixes)
    if not identity[1]:
        return True
    if not is_open:
        return name in forms
    return any(len(form) >= len(start + end) and form.startswith(start) and form.endswith(end) for form in forms)
