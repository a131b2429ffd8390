"""Validation of the resources and the schedulingGroup of Pods, and of PodGroups and Workloads.

Source: pkg/apis/core/validation, pkg/apis/scheduling.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import decode, tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    MAX_FAULTS,
    FieldError,
    dns1123_subdomain,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    validate_object_meta,
    validate_object_meta_update,
)
from forewarn.policies.kubernetes.objects import priority_class
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, group_kind
from forewarn.policies.kubernetes.releases.minors import PREDICTED_MINORS

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.releases.semantics import Semantics


def validate_scheduling_group(spec: ApiObject) -> list[FieldError]:
    """Return the errors of `schedulingGroup` in a decodable spec (`validateSchedulingGroup`)."""
    group = spec.get("schedulingGroup")
    if group is None:
        return []
    path: Path = ("spec", "schedulingGroup")
    name = group.get("podGroupName")
    if name is None:
        errors = [invalid((*path, "podGroupName"), None, "must specify one of: `podGroupName`")]
    else:
        errors = [invalid((*path, "podGroupName"), name, fault) for fault in dns1123_subdomain(name)]
    if spec.get("evictionResponders"):
        errors.append(forbidden(path, "may not be set when evictionResponders is set"))
    return errors


class Form(Enum):
    """The Go type of a field, which determines when the field is unset."""

    VALUE = "value"
    POINTER = "pointer"
    STRUCT = "struct"
    LIST = "slice"


class Tagged(NamedTuple):
    """A field of a type. `value_type`: the type of the field, or of its items. `checks`: those of the second step.

    `tags`: with their values. Tags of the first step, in this order: `forbidden` (the tag for a feature gate that is
    off), `immutable`, `max_items` (maxItems), `required`, `no_set`, `no_unset` (update=NoSet, NoUnset) and
    `fixed_items` (update=NoAddItem, NoRemoveItem). Other tags: `always` (written even if unset, without omitempty),
    `keyed` (a list whose items have unique names) and `union` (a member of the union of its type).
    """

    value_type: decode.Plain | Tags
    form: Form
    tags: Mapping[str, str]
    checks: tuple[tables.Check, ...]

    def value(self, obj: ApiObject | None, name: str) -> Any:
        """Return the value of the field in an object; Go's zero value if unset."""
        value = None if obj is None else obj.get(name)
        if value is not None or self.form is Form.POINTER:
            return value
        if self.form is Form.VALUE:
            return 0 if isinstance(self.value_type, decode.Plain) and self.value_type.kind == "number" else ""
        return {} if self.form is Form.STRUCT else []

    def is_set(self, obj: ApiObject | None, name: str) -> bool:
        """Report whether an object sets the field."""
        value = self.value(obj, name)
        return self.form is Form.STRUCT or (value is not None if self.form is Form.POINTER else bool(value))


@dataclass(frozen=True, slots=True)
class Tags:
    """A type with its tagged fields, in the order of the Go type. `union`: fields of which exactly one must be set."""

    name: str
    fields: Mapping[str, Tagged] = field(default_factory=dict)
    union: tuple[str, ...] = ()

    def struct(self, package: str) -> decode.Struct:
        """Return the type that decodes objects. `package`: the Go package in error messages."""
        return decode.Struct(
            self.name, {name: _decoded(tagged, package) for name, tagged in self.fields.items()}, package
        )

    def encoded(self, obj: ApiObject | None) -> dict[str, Any]:
        """Return a decoded object as kube-apiserver writes it: only fields of this type, with unset fields as in Go."""
        written = {}
        for name, tagged in self.fields.items():
            value = tagged.value(obj, name)
            if isinstance(tagged.value_type, Tags) and value is not None:
                value_tags = tagged.value_type
                value = (
                    [value_tags.encoded(i) for i in charging(value, 8)]
                    if tagged.form is Form.LIST
                    else value_tags.encoded(value)
                )
            if "always" in tagged.tags or tagged.is_set({name: value}, name):
                written[name] = value
        return written


def _decoded(tagged: Tagged, package: str) -> decode.Type:
    inner = tagged.value_type if isinstance(tagged.value_type, decode.Plain) else tagged.value_type.struct(package)
    return decode.ListOf(inner, f"[]{package}.{inner.name}") if tagged.form is Form.LIST else inner


def validate_tags(
    tags: Tags, new: ApiObject, old: ApiObject | None, path: Path, *, is_update: bool
) -> list[FieldError]:
    """Return the errors of a new or changed object. `new`, `old`: from `Tags.encoded`; `old` is None on CREATE."""
    errors = _validate_union(tags, new, old, path) if tags.union else []
    for name, tagged in tags.fields.items():
        value, before = tagged.value(new, name), tagged.value(old, name) if old is not None else None
        if old is None or value != before:
            here, is_set = (*path, name), tagged.is_set(new, name)
            first = [*_first_step(tagged, value, before, here, is_set=is_set, is_update=is_update)]
            errors += first or ([*_second_step(tagged, value, before, here, is_update=is_update)] if is_set else [])
    return errors[:MAX_FAULTS]


def _validate_union(tags: Tags, new: ApiObject, old: ApiObject | None, path: Path) -> list[FieldError]:
    """Return the errors of a union (upstream `Union`). An update does not validate unchanged members again."""
    given = [name for name in tags.union if tags.fields[name].is_set(new, name)]
    if old is not None and given == [name for name in tags.union if tags.fields[name].is_set(old, name)]:
        return []
    members = ", ".join(f"`{name}`" for name in tags.union)
    if not given:
        return [invalid(path, "", f"must specify one of: {members}")]
    shown = f"{{{', '.join(given)}}}"
    return [invalid(path, shown, f"must specify exactly one of: {members}")] if len(given) > 1 else []


def _first_step(
    tagged: Tagged, value: Any, old: Any, path: Path, *, is_set: bool, is_update: bool
) -> Iterator[FieldError]:
    """Yield the errors that hide those of the second step. `old`: the value before an update."""
    tags = tagged.tags
    if "forbidden" in tags and is_set:
        yield forbidden(path, "")
    if "immutable" in tags and is_update:
        yield invalid(path, None, "field is immutable")
    if "max_items" in tags and len(value) > (most := int(tags["max_items"])):
        yield too_many(path, len(value), most)
    if "required" in tags and not is_set:
        yield required(path)
    if is_update and "no_set" in tags and old is None and is_set:
        yield invalid(path, None, "field cannot be set once created")
    if is_update and "no_unset" in tags and old is not None and not is_set:
        yield invalid(path, None, "field cannot be cleared once set")
    if is_update and "fixed_items" in tags:
        yield from islice(_items_added_or_removed(value, old or [], path), MAX_FAULTS)


def _items_added_or_removed(value: Any, old: Any, path: Path) -> Iterator[FieldError]:
    names, before = _index_by_name(value), _index_by_name(old)
    for index, item in enumerate(charging(value)):
        if _name(item) not in before:
            yield forbidden((*path, index), "item may not be added")
    for item in charging(old):
        if _name(item) not in names:
            yield forbidden(path, "item may not be removed")


def _second_step(tagged: Tagged, value: Any, old: Any, path: Path, *, is_update: bool) -> Iterator[FieldError]:
    if "keyed" in tagged.tags:
        seen: set[str] = set()
        for index, item in enumerate(value):
            if _name(item) in seen:
                yield duplicate((*path, index), item)
            seen.add(_name(item))
    for check in tagged.checks:
        yield from check(path, value)
    if isinstance(tagged.value_type, decode.Plain):
        return
    if tagged.form is not Form.LIST:
        yield from validate_tags(tagged.value_type, value, old, path, is_update=is_update)
        return
    before = _index_by_name(old or []) if "keyed" in tagged.tags else {}
    for index, item in enumerate(value):
        former = before.get(_name(item))
        if former is None or item != former:
            yield from validate_tags(tagged.value_type, item, former, (*path, index), is_update=is_update)


def _name(item: ApiObject) -> str:
    name: str = item.get("name") or ""
    return name


def _index_by_name(items: Sequence[ApiObject]) -> dict[str, ApiObject]:
    return {_name(item): item for item in reversed(items)}


PREEMPTION_POLICY_GATE: Final = "PodGroupPreemptionPolicy"
_PREEMPTION_GATE: Final = "WorkloadAwarePreemption"


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """A version of the PodGroup and Workload API. `minors`: the minor versions of Kubernetes 1.x that serve it."""

    name: str
    minors: range
    group: Tags
    workload: Tags
    default_mode: Any

    def tags(self, kind: str) -> Tags:
        """Return the tags of the spec of a `group/Kind`."""
        return self.group if kind == registry.POD_GROUP else self.workload


_PLAIN: Final = {"string": decode.Plain("string", "string"), "int32": decode.Plain("number", "int32")}
_TAGS: Final = "pod_group_tags.json"
"""The file with the types: version -> struct -> field -> its Go type, and its tags with values."""


class _Types(NamedTuple):
    """The types of a version. `structs`: by name, as in the file; None for an object without known fields."""

    version: str
    structs: Mapping[str, Mapping[str, str] | None]

    def tags(self, name: str) -> Tags:
        """Return the struct with this name."""
        fields = {field: self._tagged(text) for field, text in (self.structs[name] or {}).items()}
        return Tags(name, fields, tuple(field for field, tagged in fields.items() if "union" in tagged.tags))

    def _tagged(self, text: str) -> Tagged:
        name, *words = text.split()
        tags = dict(word.partition("=")[::2] for word in words)
        checks = tuple(tables.TAGS[tag](value) for tag, value in tags.items() if tag in tables.TAGS)
        value_type = self._type(name.lstrip("*[]"))
        form = Form.LIST if name[0] == "[" else Form.POINTER if name[0] == "*" else Form.VALUE
        form = Form.STRUCT if form is Form.VALUE and isinstance(value_type, Tags) else form
        return Tagged(value_type, form, tags, checks)

    def _type(self, name: str) -> decode.Plain | Tags:
        if self.structs.get(name) is not None:
            return self.tags(name)
        kind = "object" if name in self.structs else "string"
        return _PLAIN.get(name) or decode.Plain(kind, f"{self.version}.{name}")


@cache
def group_versions() -> Mapping[str, GroupVersion]:
    """Return apiVersion -> version of PodGroups and Workloads."""
    with open(os.path.join(os.path.dirname(__file__), _TAGS), encoding="utf-8") as file:
        structs = json.load(file)
    versions = {}
    for names, own in structs["versions"].items():
        for name in names.split():
            types = _Types(name, {**structs["common"], **own})
            specs = types.tags("PodGroupSpec"), types.tags("WorkloadSpec")
            removed = registry.REMOVED_BY_SUPPORTED.get(f"scheduling.k8s.io/{name}/PodGroup")
            minors = range(36, removed.minor) if removed else range(37, PREDICTED_MINORS.stop)
            mode: Any = "Pod" if name == "v1alpha2" else {"single": {}}
            versions[f"scheduling.k8s.io/{name}"] = GroupVersion(name, minors, *specs, mode)
    return versions


@cache
def group_struct(api_version: str, kind: str) -> decode.Struct:
    """Return the type of the objects of a `group/Kind`, for decoding."""
    version = group_versions()[api_version]
    fields = {"metadata": decode.OBJECT_META, "spec": version.tags(kind).struct(version.name)}
    return decode.Struct(kind.rpartition("/")[2], fields, version.name)


def group_decode_error(obj: ApiObject) -> FieldError | None:
    """Return the decoding error of a PodGroup or Workload; None if decodable. Its version must be known."""
    return decode.decode_error(obj, group_struct(obj["apiVersion"], group_kind(obj)))


def admission_gates(obj: ApiObject, semantics: Semantics) -> tuple[bool, bool]:
    """Return (whether the Priority plugin sets the priority of PodGroups, whether it sets their preemption policy)."""
    if obj["apiVersion"] == "scheduling.k8s.io/v1alpha2":
        return semantics.enabled(_PREEMPTION_GATE), False
    return True, semantics.enabled(PREEMPTION_POLICY_GATE)


def defaulted_group(obj: ApiObject, semantics: Semantics) -> dict[str, Any]:
    """Return the spec of a decodable PodGroup or Workload with kube-apiserver's defaults."""
    version = group_versions()[obj["apiVersion"]]
    spec = version.tags(group_kind(obj)).encoded(obj.get("spec") or NOTHING)
    if group_kind(obj) != registry.POD_GROUP:
        return spec
    defaults = {"disruptionMode": version.default_mode}
    if "preemptionPolicy" in version.group.fields and semantics.enabled(PREEMPTION_POLICY_GATE):
        defaults["preemptionPolicy"] = priority_class.PREEMPT_LOWER_PRIORITY
    return version.group.encoded({**defaults, **spec})


def validate_group(
    obj: ApiObject, spec: ApiObject, old: ApiObject | None, semantics: Semantics
) -> tuple[list[FieldError], dict[str, Any]]:
    """Return all errors of a PodGroup or Workload in upstream's order, and the spec that kube-apiserver stores.

    `spec`: includes defaults and the resolved priority. `old`: the stored object, None on CREATE; both objects must be
    decodable.
    """
    kind, version = group_kind(obj), group_versions()[obj["apiVersion"]]
    before = None if old is None else defaulted_group({**old, "apiVersion": obj["apiVersion"]}, semantics)
    tags, dropped = version.tags(kind), _dropped(version, kind, spec, before, semantics)
    encoded = tags.encoded(dropped)
    if old is None:
        errors = validate_object_meta(obj, namespaced=True)
    else:
        errors = validate_object_meta_update(obj, old, namespaced=True)
    if kind != registry.POD_GROUP and "compositePodGroupTemplates" in tags.fields:
        # Source: `validateWorkloadPriority`.
        given = [(t.get("priorityClassName"), t.get("priority")) for t in charging(encoded["podGroupTemplates"])]
        several = any(priority != given[0] for priority in given)
        errors += [invalid(("spec",), None, "detected multiple priority configurations")] if several else []
    required = _with_gates(version, kind, semantics)
    return errors + validate_tags(required, encoded, before, ("spec",), is_update=old is not None), encoded


_OF_OTHER_GATES: Final = (
    "schedulingConstraints", "resourceClaims", "parentCompositePodGroupName", "compositePodGroupTemplates",
)  # fmt: skip
_OF_PREEMPTION: Final = ("disruptionMode", "priorityClassName", "priority")


def _gated(version: GroupVersion, semantics: Semantics) -> tuple[str, ...]:
    policy = () if semantics.enabled(PREEMPTION_POLICY_GATE) else ("preemptionPolicy",)
    preemption = () if version.name != "v1alpha2" or semantics.enabled(_PREEMPTION_GATE) else _OF_PREEMPTION
    return (*_OF_OTHER_GATES, *policy, *preemption)


def _dropped(
    version: GroupVersion, kind: str, spec: ApiObject, old: ApiObject | None, semantics: Semantics
) -> ApiObject:
    """Return the spec without fields of disabled gates that are not stored; templates by position (`dropDisabled…`)."""
    gated = _gated(version, semantics)
    kept = {key: value for key, value in spec.items() if key not in gated or (old or NOTHING).get(key) is not None}
    if kind == registry.POD_GROUP or not isinstance(templates := spec.get("podGroupTemplates"), list):
        return kept
    before = (old or NOTHING).get("podGroupTemplates") or []
    stored = [*before[: len(templates)], *[NOTHING] * (len(templates) - len(before))]
    kept["podGroupTemplates"] = [
        {key: value for key, value in template.items() if key not in gated or was.get(key) is not None}
        for template, was in zip(templates, stored, strict=True)
    ]
    return kept


def _with_gates(version: GroupVersion, kind: str, semantics: Semantics) -> Tags:
    """Return the tags of a spec with the feature gates applied: fields of disabled gates are forbidden."""
    gated = {*_gated(version, semantics)} - {*_OF_OTHER_GATES}

    def off(name: str, tagged: Tagged) -> Tagged:
        unless = ("required", "immutable") if name in _OF_PREEMPTION else ("required",)
        tags = {tag: value for tag, value in tagged.tags.items() if tag not in unless}
        return tagged._replace(tags={**tags, "forbidden": ""})

    def with_gates(tags: Tags) -> Tags:
        fields = {name: off(name, tagged) if name in gated else tagged for name, tagged in tags.fields.items()}
        return replace(tags, fields=fields)

    gated_tags = with_gates(version.tags(kind))
    templates = gated_tags.fields.get("podGroupTemplates")
    if templates is None or not isinstance(templates.value_type, Tags):
        return gated_tags
    fields = {**gated_tags.fields, "podGroupTemplates": templates._replace(value_type=with_gates(templates.value_type))}
    return replace(gated_tags, fields=fields)
