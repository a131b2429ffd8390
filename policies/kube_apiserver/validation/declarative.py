"""Validation by tags on the fields of Go types (`+k8s:immutable`, `+k8s:unionMember` …), as upstream's validation-gen
does.

The checks of a field run in two steps: if a check of the first step fails, kube-apiserver skips the second step and
the type of the field. Unchanged fields of an update are not checked again. Source: apimachinery `pkg/api/validate`,
kubernetes `pkg/apis/*/zz_generated.validations.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.decode import ListOf, Plain, Struct
from forewarn.policies.kube_apiserver.validation.field_errors import (
    MAX_FAULTS,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from forewarn.policies.metering import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.findings import Path
    from forewarn.policies.kube_apiserver.validation.decode import Type
    from forewarn.policies.objects.fields import ApiObject

    Check = Callable[[Path, Any], list[FieldError]]


class Form(Enum):
    """The Go type of a field, which determines when the field is unset."""

    VALUE = "value"
    POINTER = "pointer"
    STRUCT = "struct"
    LIST = "slice"


@dataclass(frozen=True, slots=True)
class Tagged:
    """A field of a type, with its tags. `value_type`: the type of the field, or of its items.

    `always`: written even if unset (without omitempty). `forbidden`: the tag for a feature gate that is off.
    `immutable`, `max_items` (maxItems), `is_required`, `may_be_set` and `may_be_unset` (update=NoSet, NoUnset) and
    `items_are_fixed` (update=NoAddItem, NoRemoveItem) belong to the first step, in this order. `is_keyed`: a list whose
    items have unique names. `checks`: of the second step.
    """

    value_type: Plain | Tags
    form: Form = Form.POINTER
    always: bool = False
    forbidden: bool = False
    immutable: bool = False
    max_items: int | None = None
    is_required: bool = False
    may_be_set: bool = True
    may_be_unset: bool = True
    items_are_fixed: bool = False
    is_keyed: bool = False
    checks: tuple[Check, ...] = ()

    def value(self, obj: ApiObject | None, name: str) -> Any:
        """Return the value of the field in an object; Go's zero value if unset."""
        value = None if obj is None else obj.get(name)
        if value is not None or self.form is Form.POINTER:
            return value
        if self.form is Form.VALUE:
            return 0 if isinstance(self.value_type, Plain) and self.value_type.kind == "number" else ""
        return {} if self.form is Form.STRUCT else []

    def is_set(self, obj: ApiObject | None, name: str) -> bool:
        """True if an object sets the field."""
        value = self.value(obj, name)
        return self.form is Form.STRUCT or (value is not None if self.form is Form.POINTER else bool(value))


@dataclass(frozen=True, slots=True)
class Tags:
    """A type with its tagged fields, in the order of the Go type. `union`: fields of which exactly one must be set."""

    name: str
    fields: Mapping[str, Tagged] = field(default_factory=dict)
    union: tuple[str, ...] = ()

    def struct(self, package: str) -> Struct:
        """The type for decoding. `package`: the Go package in error messages."""
        return Struct(self.name, {name: _decoded(tagged, package) for name, tagged in self.fields.items()}, package)

    def encoded(self, obj: ApiObject | None) -> dict[str, Any]:
        """Return a decoded object as kube-apiserver writes it: only fields of this type, unset ones as in Go."""
        written = {}
        for name, tagged in self.fields.items():
            value = tagged.value(obj, name)
            if isinstance(tagged.value_type, Tags) and value is not None:
                value_tags = tagged.value_type
                value = (
                    [value_tags.encoded(i) for i in each(value, 8)]
                    if tagged.form is Form.LIST
                    else value_tags.encoded(value)
                )
            if tagged.always or tagged.is_set({name: value}, name):
                written[name] = value
        return written


def _decoded(tagged: Tagged, package: str) -> Type:
    inner = tagged.value_type if isinstance(tagged.value_type, Plain) else tagged.value_type.struct(package)
    return ListOf(inner, f"[]{package}.{inner.name}") if tagged.form is Form.LIST else inner


def validate_tags(
    tags: Tags, new: ApiObject, old: ApiObject | None, path: Path, *, is_update: bool
) -> list[FieldError]:
    """Return all errors of a new object, or of a change.

    `new`, `old`: results of `Tags.encoded`; `old` is None on CREATE.
    """
    errors = _validate_union(tags, new, old, path) if tags.union else []
    for name, tagged in tags.fields.items():
        value, before = tagged.value(new, name), tagged.value(old, name) if old is not None else None
        if old is None or value != before:
            errors += _Given(tagged, value, before, (*path, name), is_update).errors(tagged.is_set(new, name))
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


@dataclass(frozen=True, slots=True)
class _Given:
    """The new or changed value of a field. `old`: the value before an update."""

    tagged: Tagged
    value: Any
    old: Any
    path: Path
    is_update: bool

    def errors(self, is_set: bool) -> list[FieldError]:
        """Return all errors of the field. `is_set`: the new object sets the field."""
        first = list(self._first_step(is_set))
        return first if first or not is_set else list(self._second_step())

    def _first_step(self, is_set: bool) -> Iterator[FieldError]:
        tagged = self.tagged
        if tagged.forbidden and is_set:
            yield forbidden(self.path, "")
        if tagged.immutable and self.is_update:
            yield invalid(self.path, None, "field is immutable")
        if tagged.max_items is not None and len(self.value) > tagged.max_items:
            yield too_many(self.path, len(self.value), tagged.max_items)
        if tagged.is_required and not is_set:
            yield required(self.path)
        if self.is_update and not tagged.may_be_set and self.old is None and is_set:
            yield invalid(self.path, None, "field cannot be set once created")
        if self.is_update and not tagged.may_be_unset and self.old is not None and not is_set:
            yield invalid(self.path, None, "field cannot be cleared once set")
        if self.is_update and tagged.items_are_fixed:
            yield from islice(self._items_added_or_removed(), MAX_FAULTS)

    def _items_added_or_removed(self) -> Iterator[FieldError]:
        names, before = _by_name(self.value), _by_name(self.old or [])
        for index, item in enumerate(each(self.value)):
            if _name(item) not in before:
                yield forbidden((*self.path, index), "item may not be added")
        for item in each(self.old or []):
            if _name(item) not in names:
                yield forbidden(self.path, "item may not be removed")

    def _second_step(self) -> Iterator[FieldError]:
        tagged = self.tagged
        if tagged.is_keyed:
            seen: set[str] = set()
            for index, item in enumerate(self.value):
                if _name(item) in seen:
                    yield duplicate((*self.path, index), item)
                seen.add(_name(item))
        for check in tagged.checks:
            yield from check(self.path, self.value)
        if isinstance(tagged.value_type, Plain):
            return
        if tagged.form is not Form.LIST:
            yield from validate_tags(tagged.value_type, self.value, self.old, self.path, is_update=self.is_update)
            return
        before = _by_name(self.old or []) if tagged.is_keyed else {}
        for index, item in enumerate(self.value):
            old = before.get(_name(item))
            if old is None or item != old:
                yield from validate_tags(tagged.value_type, item, old, (*self.path, index), is_update=self.is_update)


def _name(item: ApiObject) -> str:
    name: str = item.get("name") or ""
    return name


def _by_name(items: Sequence[ApiObject]) -> dict[str, ApiObject]:
    return {_name(item): item for item in reversed(items)}


def at_least(least: int) -> Check:
    """The check of `+k8s:minimum`."""
    detail = f"must be greater than or equal to {least}"
    return lambda path, value: [invalid(path, value, detail)] if value < least else []


def maximum(most: int) -> Check:
    """The check of `+k8s:maximum`."""
    detail = f"must be less than or equal to {most}"
    return lambda path, value: [invalid(path, value, detail)] if value > most else []


def one_of(*values: str) -> Check:
    """The check of `+k8s:enum`; the values are in the order of the message."""
    return lambda path, value: [] if value in values else [not_supported(path, value, values)]


def formed(faults: Callable[[str], list[str]]) -> Check:
    """Return the check of `+k8s:format`. `faults`: returns the errors of a text."""
    return lambda path, value: [invalid(path, value, fault) for fault in faults(value)]


STRING: Final = Plain("string", "string")
INT32: Final = Plain("number", "int32")
