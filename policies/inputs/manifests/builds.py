"""Names in objects that `kustomize build` leaves without their object.

Source: kustomize api/internal/konfig/builtinpluginconsts/namereference.go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Path, Severity, cut, grouped
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.kustomizations import Kustomization
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_SCALED: Final = (registry.DEPLOYMENT, registry.STATEFUL_SET, registry.REPLICA_SET, registry.REPLICATION_CONTROLLER)
"""The kinds whose names kustomize changes in HorizontalPodAutoscalers."""
_WITH_CLASSES: Final = (*registry.ROLLED_OUT, registry.JOB, registry.CRON_JOB, registry.POD)
"""The kinds in which kustomize changes names of PriorityClasses."""
_RULE: Final = "update-without-effect"
_SHOWN: Final = 40
Key = tuple[str, str]
"""The `group/Kind` and name of an object."""


class Built(NamedTuple):
    """An object of a build, changed by the kustomizations of these directories, the outermost one last; () for an
    object that no kustomization lists.
    """

    subject: ReviewedObject
    file: str
    affixes: tuple[str, str]
    is_reported: bool
    changing: Sequence[str]
    is_deleted: bool

    @property
    def key(self) -> Key:
        """The kind and the name in the file."""
        return group_kind(self.subject.object), self.subject.ref.name

    @property
    def built_key(self) -> Key:
        """The kind and the name in the build."""
        prefix, suffix = self.affixes
        return self.key[0], f"{prefix}{self.key[1]}{suffix}"


class _Reference(NamedTuple):
    """A name in an object. `is_renamed`: whether kustomize changes the name with that of the named object."""

    built: Built
    key: Key
    path: Path
    is_renamed: bool

    def fault(self, message: str, fix: str) -> FileDiagnostic:
        """Return a problem at the name."""
        subject = self.built.subject
        place = subject.locate(self.path)
        return FileDiagnostic(_RULE, message, place, fix, subject.ref, Severity.WARNING)


def lost_names(built: Sequence[Built], kustomizations: Mapping[str, Kustomization]) -> Iterator[FileDiagnostic]:
    """Yield the names whose object a build renames, deletes or does not list."""
    builds = grouped((each.changing[-1] if each.changing else "", each) for each in built)
    classes = (each for each in builds.pop("", ()) if each.key[0] == registry.PRIORITY_CLASS)
    unlisted = {(os.path.dirname(each.file), each.key): each for each in classes}
    kept = (each for each in built if each.changing and not each.is_deleted)
    files = {key: {*own} for key, own in grouped((each.built_key, each.file) for each in kept).items()}
    for directory in builds.keys() & kustomizations.keys():
        yield from _lost_in(builds[directory], kustomizations, files)
        for name in _open_names(builds[directory]) if unlisted else ():
            own = unlisted.get((os.path.dirname(name.built.file), name.key))
            if own is not None and name.key not in files:
                message = f"{_shown(name.built.key)} names this object, but no kustomization lists the file"
                fix = f"add {os.path.basename(own.file)} to resources"
                place = own.subject.locate(("metadata", "name"))
                yield FileDiagnostic(_RULE, message, place, fix, own.subject.ref, Severity.WARNING)


def _lost_in(
    objects: Sequence[Built], kustomizations: Mapping[str, Kustomization], files: Mapping[Key, Set[str]]
) -> Iterator[FileDiagnostic]:
    """Yield the names whose object a build renames or deletes. `files`: of the objects of all builds."""
    renamed = {each.key: each.built_key[1] for each in objects if each.key != each.built_key}
    deleted = {each.key: each.file for each in objects if each.is_deleted}
    for name in _open_names(objects) if renamed or deleted else ():
        changing = [kustomizations[step] for step in name.built.changing if step in kustomizations]
        if name.key in deleted and files.get(name.key, set()) <= {deleted[name.key]}:
            message = f"the kustomization {changing[-1].overlay} deletes {_shown(name.key)}, which this object names"
            yield name.fault(message, "remove the name in a patch too, or keep the object")
        elif name.key in renamed and not (name.is_renamed or any("configurations" in k.content for k in changing)):
            yield from _not_renamed(name, renamed[name.key])


def _not_renamed(name: _Reference, new: str) -> Iterator[FileDiagnostic]:
    fix = f"patch the value to {cut(new, _SHOWN)}, or list the field in configurations"
    yield name.fault(f"kustomize renames {_shown(name.key)} to {cut(new, _SHOWN)}, but not in this field", fix)


def _shown(key: Key) -> str:
    return f"{key[0].rpartition('/')[2]} {cut(key[1], _SHOWN)}"


def _open_names(objects: Sequence[Built]) -> Iterator[_Reference]:
    """Yield the names in objects of a build that are not those of objects of the build."""
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
    elif kind in (registry.AUTOSCALER, registry.SCALED_OBJECT):
        target = at(obj, "spec", "scaleTargetRef")
        group = (text_at(target, "apiVersion") or "apps/v1").rpartition("/")[0]
        scaled = f"{group}/{text_at(target, 'kind') or 'Deployment'}"
        yield scaled, ("spec", "scaleTargetRef", "name"), kind == registry.AUTOSCALER and scaled in _SCALED
    elif kind == registry.RESOURCE_QUOTA:
        for number, term in enumerate(list_at(obj, "spec", "scopeSelector", "matchExpressions")):
            for index in range(len(list_at(term, "values")) if at(term, "scopeName") == "PriorityClass" else 0):
                values: Path = ("spec", "scopeSelector", "matchExpressions", number, "values")
                yield registry.PRIORITY_CLASS, (*values, index), False
