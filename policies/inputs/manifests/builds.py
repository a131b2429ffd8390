"""Finds names in the output of `kustomize build` that refer to no object of the build.

Source: kustomize api/internal/konfig/builtinpluginconsts/namereference.go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Final

from forewarn.policies.base.findings import Path, Severity, cut, grouped
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.inputs.manifests.kustomizations import SCALED, EntrySource, Kustomization
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, mapping_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject

_WITH_CLASSES: Final = (*registry.ROLLED_OUT, registry.JOB, registry.CRON_JOB, registry.POD)
"""The kinds in which kustomize changes names of PriorityClasses."""
_SCALERS: Final = (registry.AUTOSCALER, registry.SCALED_OBJECT)
_MAX_BESIDE: Final = 200
"""Maximum number of objects of a directory that are compared with an object that no kustomization lists."""
_RULE: Final = "update-without-effect"
_SHOWN: Final = 40
_MAX_FILE_LENGTH: Final = 60
Key = tuple[str, str]
"""The `group/Kind` and name of an object."""


class Built(NamedTuple):
    """An object of a build, and the `directories` of the kustomizations that change it, the outermost last; () for an
    object that no kustomization lists. `moving`: the kustomization that sets the namespace.
    """

    subject: ReviewedObject
    file: str
    affixes: tuple[str, str]
    is_reported: bool
    changing: Sequence[str]
    is_deleted: bool
    moving: Kustomization | None = None

    @property
    def key(self) -> Key:
        """The kind and the name in the file."""
        return group_kind(self.subject.object), self.subject.ref.name

    @property
    def built_key(self) -> Key:
        """The kind and the name in the build."""
        kind, name = self.key
        if kind == registry.NAMESPACE:
            return kind, self.moving.namespace if self.moving else name
        prefix, suffix = self.affixes
        return kind, f"{prefix}{name}{suffix}"


class _Reference(NamedTuple):
    """A name in an object. `is_renamed`: whether kustomize updates the name if it renames the named object."""

    built: Built
    key: Key
    path: Path
    is_renamed: bool

    def fault(self, message: str, fix: str) -> FileDiagnostic:
        """Return a problem at the name."""
        subject = self.built.subject
        place = subject.locate(self.path)
        return FileDiagnostic(_RULE, message, place, fix, subject.ref, Severity.WARNING)


def lost_names(
    built: Sequence[Built],
    unread: Sequence[Built],
    kustomizations: Mapping[str, Kustomization],
    read: Callable[[str], bytes | None],
) -> Iterator[FileDiagnostic]:
    """Yield the names whose object a build renames, deletes or does not list, the autoscalers and PodDisruptionBudgets
    of objects of a build that does not list them, and the objects that a build has twice.

    `unread`: objects of kinds that rules do not read. `read`: returns the content of a file by its real path. A file
    that a comment names is left out on purpose.
    """
    builds = grouped((each.changing[-1] if each.changing else "", each) for each in built)
    others = builds.pop("", [])
    builds = {directory: builds[directory] for directory in builds.keys() & kustomizations.keys()}
    kept = [each for each in built if each.changing and not each.is_deleted]
    files = {key: {*own} for key, own in grouped((each.built_key, each.file) for each in kept).items()}
    classes = {each.key: each.built_key[1] for each in kept if each.key[0] == registry.PRIORITY_CLASS}
    known = {*files, *(each.key for each in others)}
    renamed = {key: name for key, name in classes.items() if key not in known}
    twice = _registered_twice([*kept, *unread], kustomizations, read)
    yield from {fault.location: fault for fault in reversed([*twice])}.values()
    for objects in builds.values():
        yield from _lost_in(objects, kustomizations, files, renamed)
    open_others = [each for each in others if each.key not in files]
    unlisted = [*_unlisted_classes(open_others, builds.values()), *_unlisted_limits(open_others, kept)]
    yield from _not_listed(unlisted, kustomizations, read)


def _registered_twice(
    objects: Sequence[Built], kustomizations: Mapping[str, Kustomization], read: Callable[[str], bytes | None]
) -> Iterator[FileDiagnostic]:
    """Yield the objects of builds that have the version, kind, namespace and name of another one in their build.

    Source: kustomize api/resmap/reswrangler.go, Append.
    """
    builds = grouped((each.changing[-1], each) for each in objects if _is_known(each, kustomizations))
    for directory in sorted(builds):
        yield from _registered_twice_in(builds[directory], kustomizations, read)


def _registered_twice_in(
    objects: Sequence[Built], kustomizations: Mapping[str, Kustomization], read: Callable[[str], bytes | None]
) -> Iterator[FileDiagnostic]:
    written, built = dict[tuple[object, ...], Built](), dict[tuple[object, ...], Built]()
    moved = list[tuple[str, tuple[Built, Built]]]()
    for each in sorted(objects, key=lambda each: -len(each.changing)):
        subject = each.subject
        identity = each.built_key, subject.object.get("apiVersion"), subject.namespace
        first = written.setdefault((*identity, each.key, subject.moved[:1]), each)
        if first is each:
            other = built.setdefault(identity, each)
            common = [kustomizations[step] for step in each.changing if step in {*other.changing} & {*kustomizations}]
            inner = next((step.directory for step in common if step.namespace), "")
            if other is not each and inner:
                moved.append((inner, (each, other)))
            continue
        place, there = (one.subject.locate(("metadata", "name")) for one in (each, first))
        if place != there:
            message = "another object of the build has this kind and name: kustomize build fails"
            fix = "remove it" if there.file == place.file else f"remove it here or in {there.file}"
            yield FileDiagnostic("parse-error", message, place, f"{fix}, or write a patch", subject.ref)
    for directory, same in grouped(moved).items():
        yield _made_equal(same, kustomizations[directory], read)


def _is_known(built: Built, kustomizations: Mapping[str, Kustomization]) -> bool:
    """Report whether an object is in the build of a kustomization of the input, and has a known name."""
    steps = [kustomizations[step] for step in built.changing if step in kustomizations]
    may_rename = any((k.is_open and not k.is_component) or "transformers" in k.content for k in steps)
    is_built = bool(built.changing) and built.changing[-1] in kustomizations and not built.is_deleted
    return is_built and bool(built.key[1]) and not (built.subject.within or built.subject.is_partial or may_rename)


def _made_equal(
    pairs: Sequence[tuple[Built, Built]], kustomization: Kustomization, read: Callable[[str], bytes | None]
) -> FileDiagnostic:
    """Return the fault of a kustomization that gives objects the namespace of others with their kind and name.

    Source: kustomize api/filters/namespace/namespace.go; Namespaces get the namespace as their name.
    """
    places = [(each.key, each.subject.locate(("metadata", "name"))) for each in pairs[0]]
    shown = [
        f"{_shown(key)} ({cut(os.path.normpath(place.file), _MAX_FILE_LENGTH)}:{place.line})" for key, place in places
    ]
    what = f"{shown[0]} is equal to {shown[1]}"
    if len(pairs) > 1:
        what = f"{len(pairs)} objects are equal to others: {what}"
    message = f"with namespace: {cut(kustomization.namespace, _SHOWN)}, {what}: kustomize build fails"
    where = EntrySource(kustomization, read, ("namespace",)).locate(())
    return FileDiagnostic("parse-error", message, where, "list only the objects of one namespace")


def _not_listed(
    unlisted: Sequence[tuple[Built, Built]],
    kustomizations: Mapping[str, Kustomization],
    read: Callable[[str], bytes | None],
) -> Iterator[FileDiagnostic]:
    """Yield a warning for each object that an object of a build needs and no kustomization lists. Skips
    templates, and files that the kustomization of their directory names in a comment, or that a kustomization lists
    with a wrong path.
    """
    paths = {path for each in kustomizations.values() for path in (*each.resources, *each.patches)} if unlisted else ()
    named = {os.path.basename(path) for path in paths if not os.path.exists(path)}
    for file, objects in grouped((own.file, (own, user)) for own, user in unlisted).items():
        directory, name = os.path.split(file)
        kustomization = kustomizations.get(os.path.realpath(directory))
        text = read(kustomization.real(os.path.basename(kustomization.file))) if kustomization is not None else None
        is_data = kustomization is not None and os.path.realpath(file) in kustomization.data
        is_mentioned = name in named or (name.encode() in (text or b"") and not is_data)
        is_template = b"{{" in (read(os.path.realpath(file)) or b"")
        for own, user in objects if not (is_mentioned or is_template) else ():
            message = f"no kustomization lists this file, so it has no effect on {_shown(user.key)}"
            place = own.subject.locate(("metadata", "name"))
            yield FileDiagnostic(_RULE, message, place, f"add {name} to resources", own.subject.ref, Severity.WARNING)


def _unlisted_classes(others: Sequence[Built], builds: Iterable[Sequence[Built]]) -> Iterator[tuple[Built, Built]]:
    """Yield the PriorityClasses outside all builds, each with an object of a build in its directory that names it."""
    classes = {
        (os.path.dirname(each.file), each.key): each for each in others if each.key[0] == registry.PRIORITY_CLASS
    }
    for name in chain.from_iterable(map(_open_names, builds)) if classes else ():
        if (own := classes.get((os.path.dirname(name.built.file), name.key))) is not None:
            yield own, name.built


def _unlisted_limits(others: Sequence[Built], kept: Sequence[Built]) -> Iterator[tuple[Built, Built]]:
    """Yield the PDBs and autoscalers outside all builds, each with its workload in a build, from the same directory."""
    by_directory = grouped((os.path.dirname(each.file), each) for each in kept)
    covered = {_aim(each) for each in kept}
    for each in others:
        beside = by_directory.get(os.path.dirname(each.file), ())[:_MAX_BESIDE] if _aim(each) else ()
        workload = next(filter(partial(_aims_at, each), beside), None)
        if workload is not None and _aim(each) not in covered:
            yield each, workload


def _aim(built: Built) -> str:
    """Return the kind and the selector or `scaleTargetRef` of a PDB or autoscaler, as text; "" for other objects."""
    is_budget = built.key[0] == registry.DISRUPTION_BUDGET
    aim = at(built.subject.object, "spec", "selector" if is_budget else "scaleTargetRef")
    return f"{built.key[0]} {aim}" if aim and (is_budget or built.key[0] in _SCALERS) else ""


def _aims_at(built: Built, other: Built) -> bool:
    """Report whether a PDB or autoscaler applies to the workload `other`."""
    obj, path = built.subject.object, registry.POD_TEMPLATE_PATHS.get(other.key[0])
    if built.key[0] in _SCALERS:
        return any(key == other.key[0] and text_at(obj, *name) == other.key[1] for key, name, _ in _references(obj))
    labels = mapping_at(obj, "spec", "selector", "matchLabels").items()
    return (
        bool(labels)
        and path is not None
        and labels <= mapping_at(other.subject.object, *path, "metadata", "labels").items()
    )


def _lost_in(
    objects: Sequence[Built],
    kustomizations: Mapping[str, Kustomization],
    files: Mapping[Key, Set[str]],
    elsewhere: Mapping[Key, str],
) -> Iterator[FileDiagnostic]:
    """Yield the names whose object a build renames or deletes. `files`: of the objects of all builds. `elsewhere`: the
    new names of PriorityClasses that no build has under the old one.
    """
    renamed = {each.key: each.built_key[1] for each in objects if each.key != each.built_key}
    deleted = {each.key: each.file for each in objects if each.is_deleted}
    for name in _open_names(objects) if renamed or deleted or elsewhere else ():
        changing = [kustomizations[step] for step in name.built.changing if step in kustomizations]
        if name.key in deleted and files.get(name.key, set()) <= {deleted[name.key]}:
            message = f"the kustomization {changing[-1].overlay} deletes {_shown(name.key)}, which this object names"
            yield name.fault(message, "remove the name in a patch too, or keep the object")
        elif name.key in renamed and not (name.is_renamed or any("configurations" in k.content for k in changing)):
            yield _not_renamed(name, renamed[name.key], "patch the value to {}, or list the field in configurations")
        elif name.key in elsewhere and name.key not in renamed:
            yield _not_renamed(name, elsewhere[name.key], "write {}, or keep the name of the PriorityClass")


def _not_renamed(name: _Reference, new: str, fix: str) -> FileDiagnostic:
    new = cut(new, _SHOWN)
    return name.fault(f"kustomize renames {_shown(name.key)} to {new}, but not in this field", fix.format(new))


def _shown(key: Key) -> str:
    return f"{key[0].rpartition('/')[2]} {cut(key[1], _SHOWN)}"


def _open_names(objects: Sequence[Built]) -> Iterator[_Reference]:
    """Yield the names in objects of a build that refer to no object of the build."""
    names = {each.built_key for each in objects if not each.is_deleted}
    for each in objects:
        if not each.is_deleted and each.is_reported and not each.subject.is_partial:
            obj = each.subject.object
            for kind, path, is_renamed in _references(obj):
                key = kind, text_at(obj, *path)
                if key[1] and key not in names:
                    yield _Reference(each, key, path, is_renamed)


def _references(obj: ApiObject) -> Iterator[tuple[str, Path, bool]]:
    """Yield the `group/Kind` of each named object, the path of the name, and whether kustomize renames it there."""
    kind = group_kind(obj)
    if kind in registry.POD_TEMPLATE_PATHS:
        spec = (*registry.POD_TEMPLATE_PATHS[kind], "spec")
        yield registry.PRIORITY_CLASS, (*spec, "priorityClassName"), kind in _WITH_CLASSES
    elif kind in _SCALERS:
        target = at(obj, "spec", "scaleTargetRef")
        group = (text_at(target, "apiVersion") or "apps/v1").rpartition("/")[0]
        scaled = f"{group}/{text_at(target, 'kind') or 'Deployment'}"
        yield scaled, ("spec", "scaleTargetRef", "name"), kind == registry.AUTOSCALER and scaled in SCALED
    elif kind == registry.RESOURCE_QUOTA:
        for number, term in enumerate(list_at(obj, "spec", "scopeSelector", "matchExpressions")):
            for index in range(len(list_at(term, "values")) if at(term, "scopeName") == "PriorityClass" else 0):
                values: Path = ("spec", "scopeSelector", "matchExpressions", number, "values")
                yield registry.PRIORITY_CLASS, (*values, index), False
