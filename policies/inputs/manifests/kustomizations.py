"""Reads kustomizations, and applies their patches to objects, in the order of kustomize.

Sources: kustomize api/internal/target/kusttarget_configplugin.go, api/internal/builtins/PatchTransformer.go,
api/types/selector.go, api/resmap/reswrangler.go (Select).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from forewarn.policies.base.findings import Location, Path, cut, grouped
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import CutShort, charge
from forewarn.policies.inputs.manifests.documents import Document, Fault, as_utf8
from forewarn.policies.inputs.manifests.object_finder import place_of
from forewarn.policies.inputs.manifests.reading import first_value, values
from forewarn.policies.inputs.manifests.yaml.source import Tree, YamlSource
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, mapping_at, ref_of, text_at
from forewarn.policies.kubernetes.objects.patches import MERGE_KEYS, MissingPath, PatchError, json_patched, merged
from forewarn.policies.kubernetes.objects.reviewed_object import NO_SOURCE, FileDiagnostic, ReviewedObject, Source
from forewarn.policies.kubernetes.selectors import one_of

KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
MAX_WORK: Final = 5_000_000
"""The maximum units of work for all patches of an input."""
_COST: Final = 20
"""The units of work of comparing one patch with one object."""
_SIMPLE: Final = later(r"[\w.*/|-]+")
"""Regular expressions in targets that `_matches` evaluates as shell patterns."""
_NAME: Final = later(r"[a-z0-9-]*")
"""A name that contains no characters of regular expressions."""
_TERM: Final = later(r"(!)?([\w./-]+)(?:\s*(=|==|!=)\s*([\w.-]*))?")
_HARMLESS: Final = ("metadata.annotations", "metadata.labels")
"""Fields in which replacements change nothing that rules read."""
_FIELD: Final = later(r"[A-Za-z.]+")
"""The paths of fields in replacements that are checked: without lists and keys with other characters."""
_LABELED: Final = ("includeSelectors", "includeTemplates")
_SELECTING: Final = ("apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet", "apps/DaemonSet")
_WITH_TEMPLATES: Final = (*_SELECTING, "batch/Job")
SCALED: Final = ("apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet", "/ReplicationController")
"""The kinds to which `replicas` applies; kustomize also updates their names in HorizontalPodAutoscalers."""
REMOTE: Final = later(r"\s*(?:git::)?(?:(?:https?|ssh|file)://|[a-z][a-z0-9-]*@|github\.com[:/])", re.IGNORECASE)
"""The start of addresses. Source: kustomize api/internal/git/repospec.go, api/internal/loader/fileloader.go."""
_PATCH_LISTS: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")
_PATCHES: Final = (*_PATCH_LISTS, "replacements", "configurations")
MAX_NAMED: Final = 100_000
"""The maximum number of files and directories that kustomizations name."""
_MAX: Final = 10_000
"""The maximum number of generators and their files in one list."""
_CHANGING: Final = (
    *(*_PATCH_LISTS, "commonLabels", "labels", "namePrefix", "nameSuffix", "namespace", "replacements", "replicas"),
    *("transformers", "configurations"),
)
"""Keys of a kustomization that change fields of objects that rules read."""
_OPEN: Final = frozenset(
    ("generators", "helmcharts", "helmchartinflationgenerator", "components", "transformers", "crds")
)
"""Keys of a kustomization that may add or rename objects, in lower case."""
RESOURCES: Final = ("resources", "bases", "components")
GENERATORS: Final = ("configMapGenerator", "secretGenerator")
_KEYS: Final = {key.casefold(): key for key in (*RESOURCES, *_PATCHES, *_CHANGING, *GENERATORS)}
"""The keys of a kustomization that are read, by their names in lower case: kustomize ignores the case, as Go's decoder
does.
"""


class Kustomization(NamedTuple):
    """A kustomization.yaml, with its `resources`, `components` (which are also resources) and `patches` as real paths.

    `file`: the path as named in the input; "" for a directory relative to the working directory. `affixes`:
    `namePrefix` and `nameSuffix`. `content`: the fields with changes; `names`: as the file writes them, if in another
    case. `remotes`: the addresses of other resources. `entries`: the places of all paths and the paths as written.
    `is_open`: whether it may add objects, rename objects, or change objects of other kustomizations. `data`: the real
    paths of files from which it generates ConfigMaps and Secrets. `given`: the fields as the file writes them.
    """

    directory: str
    resources: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    namespace: str = ""
    file: str = ""
    affixes: tuple[str, str] = ("", "")
    components: tuple[str, ...] = ()
    content: Mapping[str, Any] = {}
    remotes: tuple[str, ...] = ()
    is_open: bool = False
    is_component: bool = False
    data: tuple[str, ...] = ()
    names: Mapping[str, str] = {}
    entries: tuple[tuple[Path, str], ...] = ()
    given: Mapping[str, Any] = {}

    @property
    def overlay(self) -> str:
        """The directory, as in reports."""
        return os.path.dirname(os.path.normpath(self.file)) if self.file else os.path.relpath(self.directory)

    @property
    def has_patches(self) -> bool:
        """Whether the kustomization changes fields of objects."""
        return not self.content.keys().isdisjoint((*_PATCH_LISTS, "replicas"))

    def real(self, path: str) -> str:
        """Return the real path of an entry."""
        return real_in(self.directory, path.replace("\0", ""))


def read_kustomization(text: bytes, path: str, real: Callable[[str], str] = os.path.realpath) -> Kustomization | None:
    """Return the kustomization in a file; None for other or invalid files (the linter reports the error elsewhere).

    `real`: returns the real path of a directory.
    """
    if not isinstance(given := first_value(text, path), dict):
        return None
    content = {_KEYS.get(str(key).casefold(), str(key)): value for key, value in given.items()}
    directory = real(os.path.dirname(path) or os.curdir)
    entries = tuple(_entries_of(content, directory))
    resources, patches, data = (
        tuple(real_in(directory, path) for place, path in entries if place[0] in keys)
        for keys in (RESOURCES, _PATCHES, GENERATORS)
    )
    namespace = content.get("namespace")
    is_component = content.get("kind") == "Component"
    is_open = is_component or b"allowNameChange" in text or _may_write_names(content)
    return Kustomization(
        directory,
        resources,
        patches,
        namespace if isinstance(namespace, str) else "",
        path,
        (text_at(content, "namePrefix"), text_at(content, "nameSuffix")),
        tuple(real_in(directory, str(path).replace("\0", "")) for path in list_at(content, "components")[:MAX_NAMED]),
        {key: content[key] for key in _CHANGING if content.get(key)},
        tuple(_remotes(content, directory)),
        is_open or not _OPEN.isdisjoint(map(str.lower, content)),
        is_component,
        data,
        {key: name for name in map(str, given) if (key := _KEYS.get(name.casefold(), name)) != name},
        entries,
        given,
    )


def _may_write_names(content: dict[str, Any]) -> bool:
    """Report whether `replacements` may change names or namespaces of objects."""
    entries = list_at(content, "replacements")
    targets = [target for entry in entries for target in list_at(entry, "targets")]
    fields = [str(field) for target in targets for field in list_at(target, "fieldPaths")]
    return any(text_at(entry, "path") for entry in entries) or any(
        field.startswith("metadata.name") for field in fields
    )


def _remotes(content: dict[str, Any], directory: str) -> Iterator[str]:
    for entry in (entry for key in RESOURCES for entry in list_at(content, key)[:MAX_NAMED]):
        is_remote = isinstance(entry, str) and REMOTE.match(entry) is not None
        if is_remote and not os.path.lexists(os.path.join(directory, entry.replace("\0", ""))):
            yield entry


def real_in(directory: str, path: str) -> str:
    """Return the real path of an entry. `directory` is real, so only steps of the entry can be links."""
    current = directory
    for step in () if os.path.isabs(path) else path.split(os.sep):
        if step == os.pardir:
            current = os.path.dirname(current)
        elif step not in ("", os.curdir):
            current = os.path.join(current, step)
            if os.path.islink(current):
                return os.path.realpath(os.path.join(directory, path))
    return os.path.realpath(path) if os.path.isabs(path) else current


def _entries_of(content: dict[str, Any], directory: str) -> Iterator[tuple[Path, str]]:
    """Yield the places and local paths in the lists of a kustomization: strings, the `path` of entries, or the `files`
    of generators.

    A text that looks like a URL or an inline patch is a path if a file has this name.
    """
    for key in (*RESOURCES, *_PATCHES, *GENERATORS):
        for number, entry in enumerate(list_at(content, key)[: MAX_NAMED + 1]):
            listed: Iterable[tuple[Path, Any]] = [((key, number), entry)]
            if key in GENERATORS:
                files = enumerate(list_at(entry, "files")[:_MAX])
                listed = (((key, number, "files", index), str(file).rpartition("=")[2]) for index, file in files)
            elif isinstance(entry, dict):
                listed = [((key, number, "path"), entry.get("path"))]
            for place, path in listed:
                if not isinstance(path, str) or not path or "\0" in path:
                    continue
                if ("\n" not in path and "://" not in path) or os.path.lexists(os.path.join(directory, path)):
                    yield place, path


class NotApplied(Exception):
    """Error: a kustomization changes an object in a way that forewarn does not apply."""


class _Deleted(Exception):
    """Signal: a patch deletes the object."""


class _Patch(NamedTuple):
    """Operations of JSON Patch, or strategic merge patches with their sources, and the target of both, if any.

    `name`: of the objects that it may change; "" for several names, or an expression.
    """

    target: Mapping[str, Any] | None
    name: str
    operations: Sequence[Any] = ()
    merges: Sequence[tuple[ApiObject, Source]] = ()
    may_rename: bool = False


class Overlays:
    """The kustomizations of an input. `read`: returns the content of a file with a patch, None if the file is not in
    the input. `merges`: the objects in files of strategic merge patches. Keys are real paths.
    """

    def __init__(
        self,
        kustomizations: Mapping[str, Kustomization],
        read: Callable[[str], bytes | None],
        merges: Mapping[str, Sequence[ReviewedObject]],
    ) -> None:
        self._kustomizations, self._read, self._merges = kustomizations, read, merges
        self._parsed: dict[tuple[str, str], Mapping[str, Sequence[tuple[int, _Patch]]] | None] = {}
        self._values: dict[str, list[Any] | None] = {}
        self._is_cut_short = False
        self.faults: dict[tuple[Location, str], FileDiagnostic] = {}
        """The operations of JSON Patch that kustomize rejects."""
        self.applied = set[int]()
        """The `id`s of the objects in files of patches that change an object."""
        self.not_applied = set[int]()
        """The `id`s of the subjects that kustomizations change in ways that are not applied."""

    def built(self, subject: ReviewedObject, directories: Sequence[str]) -> ReviewedObject | None:
        """Return an object after the changes of kustomizations, the innermost first; None if deleted or in
        `not_applied`.
        """
        state = _State(subject)
        try:
            for directory in directories if not subject.within else ():
                if directory not in self._kustomizations or self._is_cut_short:
                    raise NotApplied
                self._apply(self._kustomizations[directory], state)
        except _Deleted:
            return None
        except (CutShort, Fault, NotApplied, PatchError) as why:
            self._is_cut_short |= isinstance(why, CutShort)
            self.not_applied.add(id(subject))
            return None
        changing = [self._kustomizations[directory] for directory in directories if directory in self._kustomizations]
        if any(kustomization.has_patches for kustomization in changing):
            subject = subject._replace(overlay=changing[-1].overlay)
        if state.object is subject.object:
            return subject
        source = _PatchedSource(subject, state.object, state.merged, state.written)
        return subject._replace(object=state.object, source=source)

    def moving(self, directories: Sequence[str]) -> Kustomization | None:
        """Return the outermost kustomization that sets a namespace; None if none does."""
        changing = (self._kustomizations[each] for each in reversed(directories) if each in self._kustomizations)
        return next((each for each in changing if each.namespace), None)

    def _apply(self, kustomization: Kustomization, state: _State) -> None:
        """Apply one kustomization to an object. Raises NotApplied, PatchError, Fault."""
        charge(_COST * sum(len(list_at(kustomization.content, key)) for key in ("labels", "replacements", "replicas")))
        for key in ("patchesStrategicMerge", "patches"):
            self._patch(kustomization, key, state)
        state.place(kustomization.namespace, *kustomization.affixes)
        common = _LabelSource(EntrySource(kustomization, self._read, ("commonLabels",)))
        state.add_labels(mapping_at(kustomization.content, "commonLabels"), _LABELED[0], common)
        for number, entry in enumerate(list_at(kustomization.content, "labels")):
            if list_at(entry, "fields"):
                raise NotApplied
            scope = next((key for key in _LABELED if at(entry, key) is True), "")
            source = _LabelSource(EntrySource(kustomization, self._read, ("labels", number, "pairs")))
            state.add_labels(mapping_at(entry, "pairs"), scope, source)
        self._patch(kustomization, "patchesJson6902", state)
        for number, entry in enumerate(list_at(kustomization.content, "replicas")):
            count = at(entry, "count")
            if text_at(entry, "name") in state.names and group_kind(state.object) in SCALED and count is not None:
                state.object = {**state.object, "spec": {**mapping_at(state.object, "spec"), "replicas": count}}
                state.written = EntrySource(kustomization, self._read, ("replicas", number))
        if kustomization.content.get("transformers") or self._is_replaced(kustomization, state):
            raise NotApplied

    def _patch(self, kustomization: Kustomization, key: str, state: _State) -> None:
        by_name = self._patches_of(kustomization, key)
        for number, patch in sorted(chain.from_iterable(by_name.get(name, ()) for name in {"", *state.names})):
            charge(_COST)
            is_target = patch.target is not None and state.is_selected(patch.target)
            for value, source in patch.merges:
                if is_target or (patch.target is None and state.has_id(value)):
                    self.applied.add(id(value))
                    state.merge(value, source, patch)
            for index, operation in enumerate(patch.operations if is_target else ()):
                try:
                    state.object = json_patched(state.object, [operation])
                except MissingPath as fault:
                    if not (state.is_partial or fault.name == "read" or fault.missing.endswith(_ADDED)):
                        self._add_fault(fault, kustomization, (key, number), index, state.object)
                    raise
            if is_target and patch.operations:
                state.written = EntrySource(kustomization, self._read, (key, number))
                state.names.append(text_at(state.object, "metadata", "name"))

    def _add_fault(
        self, fault: MissingPath, kustomization: Kustomization, place: Path, index: int, obj: ApiObject
    ) -> None:
        """Record an operation whose path does not exist in an object. `place`, `index`: of the patch and operation."""
        entry = EntrySource(kustomization, self._read, place)
        text = text_at(at(kustomization.content, *place), "patch")
        inline = _InlineSource(text, entry._replace(entry=(*place, "patch")))
        location = inline.locate((index, "path")) if text else entry.locate(("path",))
        key, (first, *others) = fault.missing.rpartition("/")[2], fault.rest or ("",)
        if first and "." in key:
            fix = f"write {'~1'.join((key, *fault.rest))}, because a slash in a key is ~1"
        elif fault.name == "add" and not others and (first == "-" or first.isdecimal()):
            fix = f"write path: {fault.missing}, and a list as value"
        elif fault.name == "add":
            fix = f"add {fault.missing} before, or correct the path"
        else:
            fix = "remove the operation, or correct the path"
        message = f"{ref_of(obj).kind} {cut(ref_of(obj).name, _SHOWN)} has no {fault.missing}: kustomize build fails"
        self.faults.setdefault((location, message), FileDiagnostic("parse-error", message, location, fix))

    def _is_replaced(self, kustomization: Kustomization, state: _State) -> bool:
        """Report whether `replacements` write a value of another object to a field that rules may read."""
        if group_kind(state.object) == registry.FLUX_KUSTOMIZATION:
            return False
        for number, replacement in enumerate(list_at(kustomization.content, "replacements")):
            path = text_at(replacement, "path")
            entries = self._values_in(kustomization, path) if path else [replacement]
            for entry in entries[0] if entries and isinstance(entries[0], list) else entries:
                charge(_COST)
                for index, target in enumerate(list_at(entry, "targets")):
                    fields = [str(field) for field in list_at(target, "fieldPaths")]
                    charge(_COST + len(fields))
                    if state.is_selected(mapping_at(target, "select")) and not all(
                        field.startswith(_HARMLESS) for field in fields
                    ):
                        if not (path or state.is_partial or "reject" in target or at(target, "options", "create")):
                            self._add_absent(
                                kustomization, ("replacements", number, "targets", index), fields, state.object
                            )
                        return True
        return False

    def _add_absent(self, kustomization: Kustomization, place: Path, fields: Sequence[str], obj: ApiObject) -> None:
        """Record the fields of a replacement that an object lacks. `place`: of the target."""
        for index, field in enumerate(fields):
            holder: Any = obj
            steps = field.split(".") if _FIELD.fullmatch(field) and "metadata" not in field else []
            while steps and isinstance(holder, dict) and steps[0] in holder:
                holder = holder[steps.pop(0)]
            if steps and isinstance(holder, dict):
                location = EntrySource(kustomization, self._read, (*place, "fieldPaths", index)).locate(())
                message = f"{ref_of(obj).kind} {cut(ref_of(obj).name, _SHOWN)} has no {field}: kustomize build fails"
                fix = "set options.create: true, or correct the path"
                self.faults.setdefault((location, message), FileDiagnostic("parse-error", message, location, fix))

    def _patches_of(self, kustomization: Kustomization, key: str) -> Mapping[str, Sequence[tuple[int, _Patch]]]:
        """Return the numbered patches by the name of their object; "" for patches of several objects.

        Raises NotApplied.
        """
        place = kustomization.directory, key
        if place not in self._parsed:
            self._parsed[place] = None
            entries = enumerate(list_at(kustomization.content, key))
            patches = [(number, self._patch_of(kustomization, entry, (key, number))) for number, entry in entries]
            self._parsed[place] = grouped((patch.name, (number, patch)) for number, patch in patches)
        if (parsed := self._parsed[place]) is None:
            raise NotApplied
        return parsed

    def _patch_of(self, kustomization: Kustomization, entry: Any, place: Path) -> _Patch:
        """Return a patch from its entry in a kustomization: an object, or a text or path of strategic merge patches.

        Raises NotApplied, Fault.
        """
        is_text = isinstance(entry, str)
        path = entry if is_text and "\n" not in entry else text_at(entry, "path")
        subjects = self._merges.get(kustomization.real(path), ()) if path else ()
        merges: list[tuple[ApiObject, Source]] = [(subject.object, subject.source) for subject in subjects]
        operations: Sequence[Any] = ()
        if not merges:
            text = entry if is_text else text_at(entry, "patch")
            parsed = self._values_in(kustomization, path) if path else _parsed(text.encode(), "")
            operations = next((value for value in parsed[:1] if isinstance(value, list)), ())
            place = place if is_text else (*place, "patch")
            is_one = text and len(parsed) == 1
            source = _InlineSource(text, EntrySource(kustomization, self._read, place)) if is_one else NO_SOURCE
            merges = [(value, source) for value in parsed if isinstance(value, dict)]
        may_rename = any(at(entry, "options", option) is True for option in ("allowNameChange", "allowKindChange"))
        target = at(entry, "target")
        holder = {"metadata": target} if isinstance(target, dict) else merges[0][0] if len(merges) == 1 else {}
        name = text_at(holder, "metadata", "name")
        name = name if _NAME.fullmatch(name) else ""
        return _Patch(target if isinstance(target, dict) else None, name, operations, merges, may_rename)

    def _values_in(self, kustomization: Kustomization, path: str) -> list[Any]:
        """Return the values in a file of a kustomization. Raises NotApplied, Fault."""
        path = kustomization.real(path)
        if path not in self._values:
            self._values[path] = None
            content = self._read(path)
            self._values[path] = None if content is None else _parsed(content, path)
        if (parsed := self._values[path]) is None:
            raise NotApplied
        return parsed


def _parsed(text: bytes, file: str) -> list[Any]:
    return [each.value for each in values(text, file)]


class _State:
    """An object while kustomizations change it. `names`, `namespaces`: the current and all earlier ones."""

    def __init__(self, subject: ReviewedObject) -> None:
        self._subject = subject
        self.object: ApiObject = subject.object
        self.is_partial = subject.is_partial
        self.names = [subject.ref.name]
        self.namespaces = [text_at(subject.object, "metadata", "namespace") or registry.DEFAULT_NAMESPACE]
        self.merged: list[tuple[ApiObject, Source]] = []
        self.written: Source = NO_SOURCE
        """The source of the last JSON Patch or `replicas` entry that changed the object."""

    def place(self, namespace: str, prefix: str, suffix: str) -> None:
        """Add the namespace and the name that a kustomization gives to the object."""
        if namespace:
            self.namespaces.append(namespace)
        if prefix or suffix:
            self.names.append(f"{prefix}{self.names[-1]}{suffix}")

    def add_labels(self, pairs: Mapping[str, Any], scope: str, source: Source) -> None:
        """Add labels to the object; if `scope` is one of `_LABELED`, also to its Pod template, and to its selector.

        Source: kustomize api/internal/konfig/builtinpluginconsts/commonlabels.go.
        """
        metadata = {"metadata": {"labels": pairs}}
        kind, with_selector = group_kind(self.object), scope == _LABELED[0]
        spec: dict[str, Any] = {}
        if scope and kind in _WITH_TEMPLATES:
            spec["template"] = metadata
        if scope and kind == registry.CRON_JOB:
            spec["jobTemplate"] = {**metadata, "spec": {"template": metadata}}
        if with_selector and (kind in _SELECTING or at(self.object, "spec", "selector", "matchLabels")):
            spec["selector"] = {"matchLabels": pairs}
        if pairs:
            added = {**metadata, "spec": spec} if spec else metadata
            self.object = merged(self.object, added) or self.object
            self.merged.append((added, source))

    def has_id(self, patch: ApiObject) -> bool:
        """Report whether a strategic merge patch without a target is for the object."""
        namespace = text_at(patch, "metadata", "namespace") or registry.DEFAULT_NAMESPACE
        is_named = text_at(patch, "metadata", "name") in self.names and namespace in self.namespaces
        return is_named and group_kind(patch) == group_kind(self.object)

    def is_selected(self, target: ApiObject) -> bool:
        """Report whether the target of a patch includes the object. Raises NotApplied."""
        group, _, kind = group_kind(self.object).rpartition("/")
        version = text_at(self.object, "apiVersion").rpartition("/")[2]
        given = (("kind", [kind]), ("group", [group]), ("version", [version]))
        for field, own in (*given, ("name", self.names), ("namespace", self.namespaces)):
            pattern = text_at(target, field)
            if pattern and pattern not in own and not any(_matches(pattern, value) for value in own):
                return False
        return all(
            _has_labels(text_at(target, f"{field}Selector"), mapping_at(self.object, "metadata", f"{field}s"))
            for field in ("label", "annotation")
        )

    def merge(self, value: ApiObject, source: Source, patch: _Patch) -> None:
        """Apply a strategic merge patch. Raises PatchError, _Deleted."""
        group = group_kind(self.object).rpartition("/")[0]
        new = merged(self.object, value, MERGE_KEYS if "." not in group or group.endswith(".k8s.io") else {})
        if new is None:
            raise _Deleted
        if not patch.may_rename:
            own = mapping_at(self.object, "metadata")
            kept = {key: own[key] for key in ("name", "namespace") if key in own}
            metadata = {key: value for key, value in mapping_at(new, "metadata").items() if key not in _IDENTITY}
            new |= {"kind": self.object.get("kind"), "metadata": {**metadata, **kept}}
        self.object = new
        self.merged.append((value, source))


_IDENTITY: Final = ("name", "namespace")
_ADDED: Final = ("/annotations", "/metadata/namespace")
"""Paths that kustomize itself may add to an object before it applies a patch."""
_SHOWN: Final = 40


def _matches(pattern: str, value: str) -> bool:
    """Report whether a regular expression of a target matches a value. Raises NotApplied for one that is not simple."""
    charge(len(pattern))
    inner = pattern.removeprefix("^").removesuffix("$")
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    if not _SIMPLE.fullmatch(inner) or "*" in inner.replace(".*", ""):
        raise NotApplied
    if "|" not in inner and not value.startswith(inner.partition(".")[0]):  # faster than the pattern
        return False
    return one_of((each.replace(".", "?").replace("?*", "*") for each in inner.split("|")), value)


def _has_labels(selector: str, labels: Mapping[str, Any]) -> bool:
    """Report whether labels match a selector such as `app=web,!canary`. Raises NotApplied for sets."""
    charge(len(selector))
    for term in filter(None, map(str.strip, selector.split(","))):
        match = _TERM.fullmatch(term)
        if match is None:
            raise NotApplied
        no, key, operator, value = match.groups()
        has = key in labels if operator is None else labels.get(key) == value
        if has == (no is not None or operator == "!="):
            return False
    return True


class EntrySource(NamedTuple):
    """The source of values that an entry of a kustomization writes: they are located at the entry."""

    kustomization: Kustomization
    read: Callable[[str], bytes | None]
    entry: Path

    def source(self) -> tuple[YamlSource, Path]:
        """Return the source of the kustomization, and the path of the entry there."""
        file, (key, *rest) = self.kustomization.file, self.entry
        content = self.read(self.kustomization.real(os.path.basename(file))) or b""
        return _source_of(content, file), (self.kustomization.names.get(str(key), key), *rest)

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of a value in the entry."""
        source, entry = self.source()
        return source.locate((*entry, *path), key=key)


class _LabelSource(NamedTuple):
    """The source of labels that a kustomization adds: they are located at their keys in its entry."""

    entry: EntrySource

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of a label in the kustomization."""
        return self.entry.locate(path[-1:], key=key)


@lru_cache(maxsize=1)
def _source_of(content: bytes, file: str) -> YamlSource:
    """Return the source of a kustomization. The last one is cached, because a file may have thousands of faults."""
    return YamlSource(Tree(Document(as_utf8(content), file)))


class _InlineSource(NamedTuple):
    """The source of a patch that is written inside a kustomization."""

    text: str
    entry: EntrySource

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of a value in the kustomization."""
        place = place_of(self.text, *self.entry.source())
        document = place.moved(Document(f"{self.text}\n".encode(), self.entry.kustomization.file))
        return YamlSource(Tree(document)).locate(path, key=key)


def _has_only_scalars(value: Any) -> bool:
    return isinstance(value, dict) and not any(isinstance(item, dict | list) for item in value.values())


class _PatchedSource:
    """The source of a patched object. Values that a patch sets, or mappings of scalars to which it adds, are located in
    the last such patch, other values in the file of the object.

    `written`: the source of values that are in no object, of JSON Patch or `replicas`.
    """

    def __init__(
        self, subject: ReviewedObject, patched: ApiObject, merges: Sequence[tuple[ApiObject, Source]], written: Source
    ) -> None:
        self._origins = ((subject.object, subject.source), *reversed(merges))
        self._patched, self._written = patched, written

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of a value, or of the nearest parent; in the object's file if unknown."""
        while path and at(self._patched, *path) is None:
            path = path[:-1]
        value = at(self._patched, *path)
        for origin, source in self._origins:
            there = self._path_in(origin, path)
            if len(there) == len(path) and at(origin, *there) == value and source is not NO_SOURCE:
                return source.locate(there, key=key)
        for origin, source in self._origins[1:] if _has_only_scalars(value) else ():
            there = self._path_in(origin, path)
            if len(there) == len(path) and source is not NO_SOURCE:
                return source.locate(there, key=key)
        if self._written is not NO_SOURCE and not isinstance(value, dict | list):
            return self._written.locate(())
        origin, source = self._origins[0]
        return source.locate(self._path_in(origin, path), key=key)

    def _path_in(self, origin: Any, path: Path) -> Path:
        """Return the path in the object or patch, as far as it exists there. Items of lists may have other indexes."""
        there: list[str | int] = []
        patched: Any = self._patched
        for number, step in enumerate(path):
            if isinstance(step, int) and isinstance(origin, list) and isinstance(patched, list) and step < len(patched):
                key = MERGE_KEYS.get(str(path[number - 1]), ("name",))[0]
                item = patched[step]
                name = at(item, key)
                same = (i for i, other in enumerate(origin) if other == item or (name and at(other, key) == name))
                place: Any = next(same, None)
            else:
                place = step if isinstance(origin, dict) and step in origin else None
            if place is None:
                break
            there.append(place)
            origin, patched = origin[place], at(patched, step)
        return tuple(there)
