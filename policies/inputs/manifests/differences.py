"""Compares two versions of manifests: the changes that affect priority, quotas and disruption budgets.

Objects are matched by directory and identity; an object that moves to another directory without a change is no
difference.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from forewarn.policies.base.findings import ObjectRef, cut, field_path
from forewarn.policies.inputs.manifests.deploy_order import is_recreated, position_of
from forewarn.policies.inputs.manifests.object_finder import items_of
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class_update
from forewarn.policies.kubernetes.kube_apiserver.validation.workload import validate_workload_update
from forewarn.policies.kubernetes.objects.fields import NOTHING, OBJECT, ApiObject, InvalidObject, at, group_kind
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.kubernetes.objects.pod_resources import requests_in_spec
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.quantity import Format, Quantity
from forewarn.policies.kubernetes.releases.semantics import Semantics

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.groups import Identity, Member
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    registry.PRIORITY_CLASS: ("value", "globalDefault", "preemptionPolicy"),
    registry.RESOURCE_QUOTA: ("spec.hard", "spec.scopes", "spec.scopeSelector"),
    registry.LIMIT_RANGE: ("spec.limits",),
    registry.DISRUPTION_BUDGET: (
        *("spec.minAvailable", "spec.maxUnavailable"),
        *("spec.selector", "spec.unhealthyPodEvictionPolicy"),
    ),
}
"""Fields of kinds without Pods that affect priority, admission or preemption."""
_OF_WORKLOADS: Final = ("replicas", "parallelism", "completions", "suspend", "schedule", "strategy", "updateStrategy")
_OF_PODS: Final = (
    *("priorityClassName", "priority", "preemptionPolicy", "schedulerName", "nodeName", "nodeSelector", "affinity"),
    *("tolerations", "topologySpreadConstraints", "terminationGracePeriodSeconds"),
)
TEMPLATE: Final = "template"
"""The field name for a change of a Pod template that only replaces the Pods, such as another image."""
IMMUTABLE: Final = "immutable"
"""The field name for changed immutable fields of an object that no tool recreates."""
_MAX_LENGTH: Final = 120
"""Maximum characters of a value."""


class ChangedField(NamedTuple):
    """A field with its value in both versions; "" if absent. `name[]`: elements of a list that only one version has."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.name == TEMPLATE:
            return "new Pod template"
        if self.name == IMMUTABLE:
            return f"rejected unless it is deleted first (immutable: {self.after})"
        absent = ("added", "removed") if self.name.endswith("[]") else ("unset", "unset")
        return f"{self.name} {self.before or absent[0]} → {self.after or absent[1]}"


class ChangedObject(NamedTuple):
    """An object that differs. `directory`: of its file, or of its chart or kustomization."""

    directory: str
    kind: str
    namespace: str
    name: str
    operation: Literal["created", "changed", "deleted"]
    fields: Sequence[ChangedField]

    @property
    def identity(self) -> tuple[str, str, str]:
        """The kind, namespace and name."""
        return self.kind, self.namespace, self.name

    @property
    def is_restart(self) -> bool:
        """Whether the change replaces Pods, and affects scheduling in no other way."""
        return [field.name for field in self.fields] == [TEMPLATE]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Difference(NamedTuple):
    """An object that differs, in both versions; None if absent."""

    changed: ChangedObject
    before: ReviewedObject | None
    after: ReviewedObject | None


def differences(before: Version, after: Version, differs: Callable[[str], bool]) -> list[Difference]:
    """Return the differences, sorted by directory and identity. `differs`: whether a directory can have any."""
    old, new = (
        {place: subject for place, subject in _index_by_place(version).items() if differs(place[0])}
        for version in (before, after)
    )
    gone = {_content(old[place]): place for place in old.keys() - new}
    for place in new.keys() - old:
        if (origin := gone.pop(_content(new[place]), None)) is not None:
            old[place] = old.pop(origin)
    places = sorted(old.keys() | new)
    return [difference for place in places if (difference := _difference(place[0], old.get(place), new.get(place)))]


def supporting(before: Version, after: Version) -> list[Difference]:
    """Return the new and changed objects that Pods of the new version may need, such as claims and Namespaces."""
    old, new = _index_by_place(before, _SUPPORTING), _index_by_place(after, _SUPPORTING)
    return [
        Difference(ChangedObject(place[0], *new[place].ref[1:], "created", ()), None, new[place])
        for place in sorted(new)
        if place not in old or old[place].object != new[place].object
    ]


def new_objects(version: Version, kinds: Container[str]) -> list[Difference]:
    """Return the objects of these `group/Kind` as if they were new."""
    return [
        Difference(ChangedObject(directory, *subject.ref[1:], "created", ()), None, subject)
        for directory, _, subject in _members(version, kinds)
    ]


class Version(NamedTuple):
    """One of the two versions: its objects, and its directory."""

    members: Sequence[Member]
    root: str


_Place = tuple[str, "Identity"]


def _index_by_place(version: Version, kinds: Container[str] | None = None) -> dict[_Place, ReviewedObject]:
    members = _members(version, _KINDS if kinds is None else kinds)
    return {(directory, identity): subject for directory, identity, subject in members}


def _members(version: Version, kinds: Container[str]) -> Iterator[tuple[str, Identity, ReviewedObject]]:
    root = os.path.realpath(version.root)
    for member in version.members:
        if member.reported and not member.subject.is_partial and group_kind(member.subject.object) in kinds:
            yield os.path.relpath(os.path.abspath(member.directory), root), member.identity, member.subject


def other_objects(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the objects that `differences` does not compare and that can change Pods: name -> fields about Pods.

    These are objects of GitOps tools, and other objects with a field that can be about Pods.
    """
    result: dict[str, list[Any]] = {}
    pending = list(values)
    while pending:
        obj = pending.pop()
        if (items := items_of(obj)) is not None:
            pending += items
        elif isinstance(obj, OBJECT) and _is_other(obj) and (fields := _fields_of(obj)):
            names = (at(obj, "metadata", key) for key in ("namespace", "name"))
            result[f"{obj['kind']} {'/'.join(str(name) for name in names if name)}"] = fields
    return result


def _fields_of(obj: ApiObject) -> list[Any]:
    is_of_tool = _TOOL.match(group_kind(obj)) is not None
    return fields_about_pods({key: obj[key] for key in obj if key != "metadata"}, _OF_TOOLS if is_of_tool else ())


_TOOL: Final = re.compile(r"argoproj\.io/|[\w.-]+\.fluxcd\.io/|helm\.")
"""Groups of GitOps tools."""
_OF_TOOLS: Final = ("chart", "targetRevision", "destination", "valueFiles", "valuesFrom")


def _is_other(obj: ApiObject) -> bool:
    kind = group_kind(obj)
    return bool(kind) and kind not in _IGNORED and not kind.startswith("kustomize.config.k8s.io/")


def fields_about_pods(value: Any, more: Container[str] = ()) -> list[Any]:
    """Return the path and value of each field of an object, or of a chart's values, that can be about Pods.

    `more`: further keys.
    """
    fields: list[Any] = []
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, inner = stack.pop()
        if isinstance(inner, OBJECT):
            about = {
                key
                for key in inner
                if key in _ABOUT_PODS or key in more or (key == "resources" and isinstance(inner[key], OBJECT))
            }
            fields += [(*path, key, inner[key]) for key in inner if key in about]
            stack += [((*path, key), child) for key, child in inner.items() if key not in about]
        elif isinstance(inner, list):
            stack += [((*path, number), child) for number, child in enumerate(inner)]
    return fields


_ABOUT_PODS: Final = frozenset(
    (
        *("priorityClassName", "priorityClass", "replicas", "replicaCount", "minReplicas", "maxReplicas"),
        *("requests", "limits", "cpu", "memory"),
    )
)
_KINDS: Final = frozenset((*_FIELDS, *registry.POD_TEMPLATE_PATHS, registry.POD, registry.NAMESPACE))
_SUPPORTING: Final = frozenset(registry.APPLIED) - _KINDS | {registry.NAMESPACE}
_IGNORED: Final = _KINDS | {"apiextensions.k8s.io/CustomResourceDefinition", "/PersistentVolumeClaim"}


def _content(subject: ReviewedObject) -> tuple[ObjectRef, str]:
    return subject.ref, repr(facts_of(subject.object))


def _difference(directory: str, before: ReviewedObject | None, after: ReviewedObject | None) -> Difference | None:
    fields = changed_fields(before.object if before else {}, after.object if after else {})
    subject = after or before
    if before and after:
        fields += tuple(_template_changes(before.object, after.object, fields))
    if subject is None or (not fields and ((before and after) or group_kind(subject.object) == registry.NAMESPACE)):
        return None
    ref, operation = subject.ref, _OPERATIONS[before is not None, after is not None]
    return Difference(ChangedObject(directory, ref.kind, ref.namespace, ref.name, operation, fields), before, after)


def _template_changes(before: ApiObject, after: ApiObject, fields: Iterable[ChangedField]) -> Iterator[ChangedField]:
    kind, is_replaced, paths = group_kind(after), is_recreated(after), ", ".join(_immutable(before, after))
    if paths and not is_replaced:
        yield ChangedField(IMMUTABLE, "", cut(paths, _MAX_LENGTH))
        return
    is_same = at(before, "spec", "template") == at(after, "spec", "template") and not paths
    has_new_pods = kind in registry.ROLLED_OUT or (kind == registry.JOB and is_replaced)
    is_of_pods = any(re.split(r"[.[]", field.name)[0] not in _OF_WORKLOADS for field in fields)
    if has_new_pods and not (is_same or is_of_pods):
        yield ChangedField(TEMPLATE, "", "changed")


def _immutable(before: ApiObject, after: ApiObject) -> Iterator[str]:
    """Yield the changed immutable fields."""
    with suppress(InvalidObject):
        if group_kind(after) == registry.PRIORITY_CLASS:
            new, old = map(PriorityClass.from_api, (after, before))
            yield from (field_path(fault.path) for fault in validate_priority_class_update(new, old))
        else:
            yield from (field_path(fault.path) for fault in validate_workload_update(after, before, Semantics()))


def changed_fields(before: ApiObject, after: ApiObject) -> tuple[ChangedField, ...]:
    """Return the fields that matter for priority and differ; {} for an absent object."""
    return tuple(_changed(facts_of(before), facts_of(after)))


_OPERATIONS: Final[Mapping[tuple[bool, bool], Literal["created", "changed", "deleted"]]] = {
    (False, True): "created",
    (True, True): "changed",
    (True, False): "deleted",
}


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ChangedField]:
    for name in dict.fromkeys((*old, *new)):
        one, other = old.get(name), new.get(name)
        if isinstance(one, OBJECT) and isinstance(other, OBJECT):
            yield from (
                ChangedField(f"{name}.{field.name}", field.before, field.after) for field in _changed(one, other)
            )
        elif one != other:
            yield _changed_value(name, one, other)


def _changed_value(name: str, one: Any, other: Any) -> ChangedField:
    if isinstance(one, list) and isinstance(other, list):
        elements = _elements(one, other), _elements(other, one)
        if any(elements):  # otherwise only the order differs
            return ChangedField(f"{name}[]", *elements)
    return ChangedField(name, _text(one), _text(other))


def _elements(one: Sequence[Any], other: Sequence[Any]) -> str:
    """Return the elements that only the first list has, as text."""
    others = {json.dumps(item, sort_keys=True, default=str) for item in other}
    items = [item for item in one if json.dumps(item, sort_keys=True, default=str) not in others]
    return cut(", ".join(map(_text, items)), _MAX_LENGTH)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, OBJECT) and all(isinstance(inner, (str, int, float)) for inner in value.values()):
        return cut(", ".join(f"{name} {inner}" for name, inner in value.items()), _MAX_LENGTH)
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), _MAX_LENGTH)


def facts_of(obj: ApiObject) -> dict[str, Any]:
    """Return the fields of an object that affect priority, admission or preemption, and the requests of its Pods."""
    kind = group_kind(obj)
    if kind == registry.NAMESPACE:
        return _present([(DEFAULT_CLASS_ANNOTATION, at(obj, "metadata", "annotations", DEFAULT_CLASS_ANNOTATION))])
    if kind in _FIELDS:
        return _present((name.removeprefix("spec."), at(obj, *name.split("."))) for name in _FIELDS[kind])
    facts = _present((name, at(obj, "spec", name)) for name in _OF_WORKLOADS)
    try:
        template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
        if template is None:
            return facts
        facts |= _present((name, template.spec.get(name)) for name in _OF_PODS)
        total = requests_in_spec(template.object)
        requests = {name: str(Quantity(amount.nano, _notation(name))) for name, amount in sorted(total.items())}
        facts |= {"requests": requests} if requests else {}
    except InvalidObject as fault:
        facts["invalid"] = str(fault).partition(": quantities must match")[0]
    if position_of(obj) is None:
        facts["hook"] = "that an apply does not run"
    return facts


def _notation(resource: str) -> Format:
    return Format.BINARY_SI if resource in ("memory", "ephemeral-storage") else Format.DECIMAL_SI


def _present(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None and value != NOTHING}
