"""Selects the wanted objects in a file, also in Lists, in other objects, and in YAML text of their fields."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, Protocol

from forewarn.policies.base.findings import Location, Path, quote
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.documents import Document
from forewarn.policies.inputs.manifests.yaml.source import YamlSource
from forewarn.policies.kubernetes.kinds import class_paths, registry
from forewarn.policies.kubernetes.objects.fields import at, group_kind, list_at, ref_of, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject, Source


class Place(NamedTuple):
    """The position of an embedded text: offsets of its lines and columns; or `at`, one location for the whole text."""

    line: int = 0
    indent: int = 0
    at: Location | None = None

    def moved(self, document: Document) -> Document:
        """A document of the embedded text, at its position in the file."""
        return Document(document.data, document.file, document.line + self.line, document.column, self.indent, self.at)


class ExpandedSource(NamedTuple):
    """The source of an object whose embedded texts have been replaced by their parsed values."""

    outer: Source
    texts: dict[Path, Source]

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The position of the value at `path`, inside or outside an embedded text."""
        for end in range(len(path) - 1, 0, -1):
            if (inner := self.texts.get(path[:end])) is not None:
                return inner.locate(path[end:], key=key)
        return self.outer.locate(path, key=key)


def place_of(text: str, source: Source, path: Path) -> Place:
    """Return the position of an embedded text at a path.

    Only lines of a literal block (`|`) in YAML are lines of the file; for other text, `at` is the location of the
    value.
    """
    at = source.locate(path)
    if not isinstance(source, YamlSource) or source.tree.document.at is not None:
        return Place(at=at)
    document = source.tree.document
    lines, header = document.lines, at.line - document.line - 1
    begin = at.column - 1 - document.indent - (document.column if header == 0 else 0)
    own = text.split("\n")
    first = next((number for number, line in enumerate(own) if line.strip()), 0)
    number = header + 1 + first
    if number >= len(lines) or lines[header][begin : begin + 1] != "|":
        return Place(at=at)
    line = lines[number].rstrip("\r")
    blank = line[: len(line) - len(own[first])]
    if blank.strip(" ") or not line.endswith(own[first]):
        return Place(at=at)
    return Place(at.line, document.indent + len(blank))


_VARIABLE: Final = later(r"\$\{\{?(?P<name>\w+)\}\}?|\$\([\w.\-]+\)|\{\{.*\}\}", re.DOTALL)
"""OpenShift: `${X}` in a string, `${{X}}` for any value; Tekton: `$(tt.params.x)`; OCM policies: `{{ … }}`."""
_STRING: Final = later(r"\$\{\w+\}")
_NAME_KEYS: Final = frozenset(("name", "generateName", "namespace"))
_DEEPEST: Final = 100
_UNKNOWN: Final = object()


class Parameters:
    """Parameters of an object with their defaults. Results are cached, because YAML aliases may repeat one value very
    often.
    """

    def __init__(self, holder: dict[str, Any]) -> None:
        items = [parameter for parameter in list_at(holder, "parameters") if isinstance(parameter, dict)]
        self._defaults = {item.get("name"): item["value"] for item in items if isinstance(item.get("value"), str)}
        self._done: dict[int, Any] = {}

    def applied(self, value: Any, depth: int = 0) -> Any:
        """Return the value with parameters replaced; the same object if there are none."""
        if depth > _DEEPEST or not isinstance(value, dict | list):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = self._applied(value, depth)
        return self._done[id(value)]

    def _applied(self, value: dict[Any, Any] | list[Any], depth: int) -> Any:
        items = dict(value.items() if isinstance(value, dict) else enumerate(value))
        applied = {
            key: self._text(key, item) if isinstance(item, str) else self.applied(item, depth + 1)
            for key, item in items.items()
        }
        if all(new is old for new, old in zip(applied.values(), items.values(), strict=True)):
            return value
        if isinstance(value, list):
            return list(applied.values())
        return {key: item for key, item in applied.items() if item is not _UNKNOWN}

    def _text(self, key: object, text: str) -> Any:
        match = _VARIABLE.fullmatch(text) if text[:1] in ("$", "{") else None
        if match is None:
            return text
        default = self._defaults.get(match["name"])
        if _STRING.fullmatch(text):
            return text if default is None else default
        if default is not None:
            with suppress(ValueError, RecursionError):
                return json.loads(default)
            return default
        return text if isinstance(key, int) or class_paths.is_class_key(key) or key in _NAME_KEYS else _UNKNOWN


NO_KIND: Final = "objects without a kind"
CLASS_KIND: Final = "PriorityClass"
CLASS_VERSION: Final = "scheduling.k8s.io/v1"
_NEAR: Final = 0.8
_MAX_TYPE_LENGTH: Final = 200
_NESTED_LISTS: Final = 20
_MAX_CHECKED: Final = 100
_MAX_NESTED: Final = 10_000
"""Maximum number of objects or texts in one object."""
_NESTED_TEXTS: Final = 3
_OWN_KINDS: Final = frozenset(kind.rpartition("/")[2] for kind in (*registry.LINTED, *registry.POD_TEMPLATE_PATHS))
"""Names of Kubernetes kinds, to tell manifests from other programs' files."""
_ROOT_FIELDS: Final = frozenset((
    "apiVersion", "kind", "metadata", "spec", "status", "data", "binaryData", "stringData", "immutable", "type",
    "value", "globalDefault", "description", "preemptionPolicy",
))  # fmt: skip
"""Fields at the root of Kubernetes objects. `install-config.yaml` of OpenShift has others, and no kind."""
CLASS_WORD: Final = "riorityClass"
"""A part of each text that names or defines a PriorityClass."""
_WORDS: Final = (CLASS_WORD, registry.SCHEDULER_CONFIGURATION.rpartition("/")[2])
"""Parts of the texts in ConfigMaps that are read."""


_GROUP: Final = later(rb"\n  group:[ ]*[\"']?([\w.-]+)")
_NAMES: Final = later(rb"\n  names:[ ]*\n(?:    [^\n]*\n){0,100}?    kind:[ ]*[\"']?(\w+)")


class Texts(Protocol):
    """Parses YAML text in a field of an object."""

    def manifests(self, text: str, source: Source, path: Path, finder: ObjectFinder) -> None:
        """Pass the objects in an embedded text to the finder. `path`: the field that contains the text."""

    def values(self, text: str, source: Source, path: Path) -> tuple[Any, Source]:
        """Parse an embedded text into its value and source; the value is None for text that is not YAML."""


class ObjectFinder:
    """Collects the wanted objects among values as subjects, and counts other objects.

    `texts` parses embedded text. `depth`: current nesting of embedded texts. `within`: the object that contains the
    values.
    """

    def __init__(self, wanted: Collection[str], namespace: str, texts: Texts, depth: int = 0, within: str = "") -> None:
        self._wanted, self._namespace, self._texts, self._depth = wanted, namespace, texts, depth
        self._within = within
        self.subjects: list[ReviewedObject] = []
        self.defined: set[str] = set()
        """The `group/Kind` of each CRD in the file that may have fields for classes; "" for a kind that only decoding
        can show.
        """
        self.objects = 0
        self.skipped: Counter[str] = Counter()
        self.is_of_another_product = False
        """Whether the file has an object without `apiVersion` whose kind does not exist in Kubernetes."""

    def fork(self) -> ObjectFinder:
        return ObjectFinder(self._wanted, self._namespace, self._texts, self._depth, self._within)

    def merge(self, other: ObjectFinder) -> None:
        """Append the results of another finder."""
        self.subjects += other.subjects
        self.defined |= other.defined
        self.objects += other.objects
        self.skipped += other.skipped
        self.is_of_another_product |= other.is_of_another_product

    def wants(self, api_version: str, kind: str, data: bytes = b"") -> bool:
        """Report whether to parse objects of this type: wanted kinds, Lists, and kinds that contain other objects.

        `data`: the document. Some kinds are parsed only if the document contains such a word, because few of their
        objects do.
        """
        group_and_kind = group_kind({"apiVersion": api_version, "kind": kind})
        if group_and_kind == class_paths.CONFIG_MAP:
            return any(word.encode() in data for word in _WORDS)
        if group_and_kind in (*class_paths.RELEASE_NAMESPACES, class_paths.CRD):
            return CLASS_WORD.encode() in data and (group_and_kind != class_paths.CRD or group_and_kind in self._wanted)
        wanted = kind.endswith("List") or group_and_kind in self._wanted or group_and_kind in class_paths.MANIFESTS
        wanted = wanted or registry.removed_version(api_version, kind) is not None
        return wanted or intended_type(api_version, kind) is not None

    def define(self, data: bytes) -> None:
        """Record the kind that a CustomResourceDefinition defines, without parsing it: it may be very long."""
        if CLASS_WORD.encode() in data:
            group, kind = _GROUP.search(data), _NAMES.search(data)
            self.defined.add(f"{group[1].decode()}/{kind[1].decode()}" if group and kind else "")

    def skip(self, kind: str) -> None:
        """Count an object of a kind that no rule reads."""
        self.objects += 1
        self.skipped[kind] += 1

    def take(self, value: Any, source: Callable[[Path], Source]) -> list[FileDiagnostic]:
        """Process a value of the file; return its problems. `source` returns the source of the value at a path."""
        return list(self._take(value, source, (), self._within))

    def _take(
        self, value: Any, source: Callable[[Path], Source], prefix: Path, within: str
    ) -> Iterator[FileDiagnostic]:
        kind = group_kind(value) if isinstance(value, dict) else ""
        if kind in class_paths.RELEASE_NAMESPACES and kind in self._wanted:
            self._release(value, kind, source(prefix), within)
        elif kind in self._wanted and _is_sync_patch(value):
            self.skip(value["kind"])
        elif kind in self._wanted:
            self._keep(value, kind, source(prefix), within)
        elif (kind in class_paths.MANIFESTS or kind == class_paths.CONFIG_MAP) and len(prefix) < 2 * _NESTED_LISTS:
            yield from self._nested(value, kind, source, prefix)
        elif (items := items_of(value)) is not None and len(prefix) < 2 * _NESTED_LISTS:
            for index, item in enumerate(items):
                yield from self._take(item, source, (*prefix, "items", index), within)
        elif items is not None:
            yield FileDiagnostic(
                "parse-error", f"Lists nested more than {_NESTED_LISTS} deep", source(prefix).locate(()), "use one List"
            )
        else:
            if kind == class_paths.CRD:
                self.defined.add(f"{at(value, 'spec', 'group')}/{at(value, 'spec', 'names', 'kind')}")
            if not within:
                yield from self._incomplete(value, source(prefix))
            name = value.get("kind") if isinstance(value, dict) else None
            self.skip(name if isinstance(name, str) and name else NO_KIND)

    def _keep(self, value: dict[str, Any], kind: str, source: Source, within: str) -> None:
        self.objects += 1
        namespace = (text_at(value, "metadata", "namespace") or self._namespace) if registry.is_namespaced(kind) else ""
        self.subjects.append(ReviewedObject(value, namespace=namespace, source=source, within=within))

    def _nested(
        self, value: dict[str, Any], kind: str, source: Callable[[Path], Source], prefix: Path
    ) -> Iterator[FileDiagnostic]:
        before = len(self.subjects)
        within, parameters = str(ref_of(value, self._namespace)), Parameters(value)
        for number, (where, manifest) in enumerate(_nested_at(value, class_paths.MANIFESTS.get(kind, ()))):
            if number >= _MAX_NESTED:
                message = f"more than {_MAX_NESTED} objects in one: forewarn skips the rest"
                yield FileDiagnostic("parse-error", message, source(prefix).locate(()), "split the object into several")
                break
            applied = parameters.applied(manifest)
            if isinstance(applied, dict) and not _is_only_compared(value, where) and not _is_part_of_a_class(applied):
                yield from self._take(applied, source, (*prefix, *where), within)
        if self._depth < _NESTED_TEXTS and kind == class_paths.CONFIG_MAP:
            finder = ObjectFinder(self._wanted, self._namespace, self._texts, self._depth + 1, within)
            for where, text in _texts_of(value, kind):
                self._texts.manifests(text, source(prefix), where, finder)
            self.subjects += finder.subjects
        if len(self.subjects) > before:
            self.objects += 1
        else:
            self.skip(value["kind"])

    def _release(self, value: dict[str, Any], kind: str, source: Source, within: str) -> None:
        """Process a chart's release (such as a HelmRelease), whose values, also in text, may name PriorityClasses."""
        sources: dict[Path, Source] = {}
        for where, text in _texts_of(value, kind):
            chart_values, inner = self._texts.values(text, source, where)
            if isinstance(chart_values, dict):
                value, sources[where] = _replace_at(value, where, chart_values), inner
        if any(True for path in class_paths.PRESETS[kind] for _ in class_paths.found_at(value, path.steps)):
            self._keep(value, kind, ExpandedSource(source, sources) if sources else source, within)
        else:
            self.skip(value["kind"])

    def _incomplete(self, value: Any, source: Source) -> Iterator[FileDiagnostic]:
        if isinstance(value, str | list):
            yield from self._no_object(value, source)
        if not isinstance(value, dict):
            return
        kind, api_version = value.get("kind"), value.get("apiVersion")
        if (right := intended_type(api_version, kind)) is not None:
            yield _unknown_kind(value, right, source)
            return
        if (removed := registry.removed_version(api_version, kind)) is not None:
            message, where = removed.problem(api_version, kind), source.locate(("apiVersion",))
            yield FileDiagnostic("removed-api-version", message, where, removed.fix, ref_of(value))
            return
        has_name = any(text_at(value, "metadata", field) for field in ("name", "generateName"))  # else a patch
        if has_name and not api_version and isinstance(kind, str) and kind in _OWN_KINDS:
            where, lacks, has = source.locate(("kind",)), "apiVersion", f"kind {kind}"
        elif api_version and not kind and has_name and value.keys() <= _ROOT_FIELDS:
            where, lacks, has = source.locate(("apiVersion",)), "kind", f"apiVersion {api_version}"
        else:
            self.is_of_another_product |= has_name and not api_version and isinstance(kind, str)
            return
        message = f"object with {has} has no {lacks}: kubectl rejects it"
        yield FileDiagnostic("parse-error", message, where, f"add `{lacks}:`", is_incomplete=True)

    def _no_object(self, value: str | list[Any], source: Source) -> Iterator[FileDiagnostic]:
        """Yield the error for plain text or a list of Kubernetes objects; other lists belong to other programs."""
        if isinstance(value, str) and value.startswith(("<#", "</#")):
            message = "directive of FreeMarker: this is a template, not a manifest"
            yield FileDiagnostic("template-braces", message, source.locate(()), "render it with FreeMarker first")
        elif isinstance(value, str):
            fix = "write a Kubernetes object, or exclude the file"
            yield FileDiagnostic("parse-error", "plain text, not an object: kubectl rejects it", source.locate(()), fix)
        elif any(isinstance(item, dict) and group_kind(item) in self._wanted for item in value[:_MAX_CHECKED]):
            fix = "separate the objects with ---, or wrap them in kind: List, items:"
            yield FileDiagnostic("parse-error", "a list of objects: kubectl rejects it", source.locate(()), fix)


def _nested_at(value: dict[str, Any], paths: Iterable[class_paths.ClassPath]) -> Iterator[tuple[Path, Any]]:
    return chain.from_iterable(class_paths.found_at(value, path.steps) for path in paths)


def _texts_of(value: dict[str, Any], kind: str) -> Iterator[tuple[Path, str]]:
    texts = _nested_at(value, class_paths.TEXTS.get(kind, ()))
    return (
        text for text in islice(texts, _MAX_NESTED) if isinstance(text[1], str) and any(w in text[1] for w in _WORDS)
    )


def _is_only_compared(value: dict[str, Any], where: Path) -> bool:
    """Report whether an object inside another object is never created, because a policy forbids it or Crossplane only
    observes it.

    Source: config-policy-controller ComplianceType; provider-kubernetes ObjectSpec, crossplane-runtime
    ManagementPolicies.
    """
    holder = at(value, *where[:-1])
    compliance = holder.get("complianceType") if isinstance(holder, dict) else None
    policies = at(value, "spec", "managementPolicies") or at(value, "spec", "managementPolicy")
    return str(compliance).lower() == "mustnothave" or policies in (["Observe"], "Observe")


def _is_sync_patch(value: dict[str, Any]) -> bool:
    """Report whether the value is a patch of Hive. Source: hive apis/hive/v1/syncset_types.go, SyncObjectPatch."""
    return "patch" in value and "metadata" not in value and ("patchType" in value or "applyMode" in value)


def _is_part_of_a_class(manifest: dict[str, Any]) -> bool:
    """Report whether a manifest is a PriorityClass without value, such as a policy about its other fields."""
    return group_kind(manifest) == registry.PRIORITY_CLASS and "value" not in manifest


def _replace_at(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    copy: Any = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = _replace_at(value[path[0]], path[1:], new)
    return copy


def _unknown_kind(value: dict[str, Any], intended: tuple[str, str], source: Source) -> FileDiagnostic:
    """Return kubectl's error for an object whose type is probably a typo of the `intended` one."""
    kind, api_version = value["kind"], value["apiVersion"]
    right_version, right_kind = intended
    field, right = ("kind", right_kind) if kind != right_kind else ("apiVersion", right_version)
    message = f"no matches for kind {quote(kind)} in version {quote(api_version)}; did you mean {quote(right)}?"
    fix = f"write apiVersion: {right_version} and kind: {right_kind}"
    return FileDiagnostic("unknown-kind", message, source.locate((field,)), fix, ref_of(value))


def intended_type(api_version: object, kind: object) -> tuple[str, str] | None:
    """The apiVersion and kind of the PriorityClass or workload for which an unknown type is probably a typo.

    A dissimilar API group with a dot may exist: Kueue has WorkloadPriorityClasses.
    """
    return _intended(api_version, kind) if isinstance(api_version, str) and isinstance(kind, str) else None


_WORKLOADS: Final = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), "apps/v1"),
    **dict.fromkeys(("CronJob", "Job"), "batch/v1"),
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
    **dict.fromkeys(("ScaledObject", "ScaledJob"), "keda.sh/v1alpha1"),
    **{each.partition("/")[2]: "admissionregistration.k8s.io/v1" for each in registry.WEBHOOK_CONFIGURATIONS},
}
_OTHER_GROUPS: Final = ("apps", "batch", "policy", "autoscaling", "autoscaling.k8s.io", "keda.sh")


@lru_cache(maxsize=1024)
def _intended(api_version: str, kind: str) -> tuple[str, str] | None:
    if len(kind) + len(api_version) > _MAX_TYPE_LENGTH:
        return None
    if _is_almost_a_class(api_version, kind):
        return CLASS_VERSION, CLASS_KIND
    group, right = api_version.rpartition("/")[0], _WORKLOADS.get(kind)
    if right is None:
        words = {name.lower(): name for name, version in _WORKLOADS.items() if version.startswith(f"{group}/")}
        name = words.get(kind.lower()) or words.get(kind.lower().removesuffix("s"))
        name = name or words.get(f"{kind.lower().replace('admission', '').removesuffix('configuration')}configuration")
        name = name or next((right for right in words.values() if _is_misspelt(kind, right)), None)
        return (_WORKLOADS[name], name) if name else None
    own = right.partition("/")[0]
    is_wrong = group in _OTHER_GROUPS or api_version == "v1" or ("." not in group and group and _is_near(group, own))
    return (right, kind) if is_wrong and group != own else None


def _is_almost_a_class(api_version: str, kind: str) -> bool:
    if kind[:1] not in "pP" or "prio" not in kind.lower():
        return False
    group = api_version.rpartition("/")[0]
    if f"{group}/{kind}" == registry.PRIORITY_CLASS:
        return False
    own_group = "." in group and not _is_near(group, CLASS_VERSION.partition("/")[0])
    return not own_group and _is_near(kind, CLASS_KIND)


def _is_near(word: str, right: str) -> bool:
    from difflib import SequenceMatcher  # only when something is wrong

    return SequenceMatcher(None, word.lower(), right.lower()).ratio() >= _NEAR


def _is_misspelt(kind: str, right: str) -> bool:
    """Report whether a kind is spelt almost like `right`, and is not a kind with another meaning."""
    return kind not in _OTHER_KINDS and abs(len(kind) - len(right)) < _FEW and _is_near(kind, right)


_OTHER_KINDS: Final = frozenset(
    f"{kind}{end}" for kind in (*_WORKLOADS, "ControllerRevision") for end in ("", "List", "Status", "Spec")
)
_FEW: Final = 3


def items_of(value: Any) -> list[Any] | None:
    """The items of a List or typed list, with their types filled in; None for other values."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List"):
        return None
    items = value.get("items")
    return [filled_in(item, value) for item in items] if isinstance(items, list) else None


def filled_in(item: Any, parent: dict[str, Any]) -> Any:
    """An item of a typed list with apiVersion and kind filled in. Source: apimachinery unstructured, decodeToList."""
    if not isinstance(item, dict) or item.get("kind") or item.get("apiVersion"):
        return item
    kind = parent.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or kind == "List":
        return item
    return {**item, "apiVersion": parent.get("apiVersion"), "kind": kind.removesuffix("List")}
