"""Tables of the fields of a kind with their Go types and checks (fields.json), and the function that applies them to
metadata and `spec` of new objects after defaulting; the fix of each error.

The names of checks are upstream's. Fields without an entry in a table are not checked. pod_fields.py names what is not
checked in Pods and Pod templates; claim templates of StatefulSets are not checked either. Sources:
pkg/apis/*/validation/validation.go of policy, apps, batch, autoscaling, core, scheduling and admissionregistration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, field_path
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import decode
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    MAX_FAULTS,
    FieldError,
    dns1123_label,
    dns1123_subdomain,
    forbidden,
    invalid,
    label_value,
    not_supported,
    path_segment,
    port_name,
    qualified_name,
    required,
    validate_labels,
    validate_object_meta,
)
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    OBJECT,
    ApiObject,
    InvalidObject,
    at,
    boolean,
    group_kind,
    int32,
    int64,
    json_type,
    ref_of,
    sequence,
    string_map,
    text,
    within,
)
from forewarn.policies.kubernetes.objects.resources import amounts_at, resource_list
from forewarn.policies.kubernetes.objects.workload import lacks_images, pod_template_of
from forewarn.policies.kubernetes.selectors import parse_label_selector

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.quantity import Quantity
    from forewarn.policies.kubernetes.releases.semantics import Semantics

    Check = Callable[[Path, Any], Iterable[FieldError]]
    Together = Callable[[ApiObject, Path, Semantics], Iterable[FieldError]]


class Field(NamedTuple):
    """A field without nested fields. `read`: reads it from its object by name; raises InvalidObject.

    `default`: the value that kube-apiserver uses for an absent field or ""; None: an absent field is not checked.
    """

    read: Callable[..., Any]
    check: Check | None = None
    default: Any = None


class Struct(NamedTuple):
    """An object. `together`: checks of several fields; they run if all types are right.

    `is_value`: whether the Go field is no pointer, so that an absent object has all its fields unset.
    """

    fields: Mapping[str, Part]
    together: tuple[Together, ...] = ()
    is_value: bool = False


class Items(NamedTuple):
    """A list of objects."""

    item: Struct


Part = Field | Struct | Items


def validate_struct(struct: Struct, obj: ApiObject, path: Path, semantics: Semantics) -> Iterator[FieldError]:
    """Yield the errors of an object at `path`. Raises InvalidObject for values of a wrong type."""
    charge(1 + len(obj))
    for name, part in struct.fields.items():
        value, here = obj.get(name), (*path, name)
        if isinstance(part, Field):
            value = _read(part, obj, path, name) if value is not None else None
            value = part.default if part.default is not None and value in (None, "") else value
            if value is not None and part.check is not None:
                yield from part.check(here, value)
        elif isinstance(part, Struct):
            if value is not None or part.is_value:
                yield from validate_struct(part, _object(value, here), here, semantics)
        elif value is not None:
            for index, item in enumerate(charging(_read(_LIST, obj, path, name), 1)):
                yield from validate_struct(part.item, _object(item, (*here, index)), (*here, index), semantics)
    for together in struct.together:
        yield from together(obj, path, semantics)


def _read(part: Field, obj: ApiObject, path: Path, name: str) -> Any:
    try:
        return part.read(obj, name)
    except InvalidObject as error:
        raise error.at((*path, *error.path)) from None


def _object(value: Any, path: Path) -> ApiObject:
    if value is not None and not isinstance(value, OBJECT):
        raise InvalidObject(f"must be an object, not {json_type(value)}", path)
    return value or {}


def _texts(obj: ApiObject, name: str) -> list[str]:
    """Return a list of strings, with "" for null. Raises InvalidObject."""
    values = ["" if value is None else value for value in sequence(obj, name)]
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidObject(f"must be a string, not {json_type(value)}", (name, index))
    return values


def quantity(obj: ApiObject, name: str) -> Quantity | None:
    """Return an amount; None if it is absent or null. Raises InvalidObject."""
    return None if obj.get(name) is None else amounts_at({name: {"": obj[name]}}, name)[""]


def _int_or_string(obj: ApiObject, name: str) -> int | str | None:
    """Return an IntOrString. Raises InvalidObject."""
    return text(obj, name) if isinstance(obj.get(name), str) else int32(obj, name)


def _numbers(obj: ApiObject, name: str) -> list[int]:
    """Return a list of 32-bit integers, with 0 for null. Raises InvalidObject."""
    return [int32({name: value}, name) or 0 for value in sequence(obj, name)]


def on_each(check: Callable[[str], Iterable[str]]) -> Check:
    """Return the check of a string. `check`: returns the errors of the string."""
    return lambda path, value: [invalid(path, value, fault) for fault in check(value)]


def allow_empty(check: Callable[[str], Iterable[str]]) -> Check:
    """Return the check of a string that may be empty. `check`: returns the errors of other strings."""
    return lambda path, value: [invalid(path, value, fault) for fault in check(value)] if value else ()


def check_range(least: int, limit: int) -> Check:
    """Return the check that a number is within these bounds."""
    return lambda path, value: (
        () if least <= value <= limit else [invalid(path, value, f"must be from {least} to {limit}")]
    )


def check_minimum(least: int) -> Check:
    """Return the check of a minimum (`ValidateNonnegativeField`, `ValidatePositiveField`)."""
    detail = f"must be greater than or equal to {least}"
    return lambda path, value: [invalid(path, value, detail)] if value < least else ()


def check_maximum(limit: int) -> Check:
    """Return the check of a maximum (`+k8s:maximum`)."""
    detail = f"must be less than or equal to {limit}"
    return lambda path, value: [invalid(path, value, detail)] if value > limit else ()


def supported(*values: str) -> Check:
    """Return the check that a value is one of these."""

    def check(path: Path, value: str) -> list[FieldError]:
        if value in values:
            return []
        return [
            not_supported(path, value, values) if value else required(path, f"supported values: {', '.join(values)}")
        ]

    return check


def one_of(*values: str) -> Check:
    """Return the check that a value is one of these (`+k8s:enum`), which the message lists in this order."""
    return lambda path, value: () if value in values else [not_supported(path, value, values)]


def required_text(check: Check | None = None, detail: str = "") -> Check:
    """Return the check of a string that must not be empty. `check`: for others. `detail`: of the error for ""."""

    def validate(path: Path, value: str) -> Iterable[FieldError]:
        if not value:
            return [required(path, detail)]
        return check(path, value) if check is not None else ()

    return validate


def validate_key(path: Path, key: str, field: str = "") -> list[FieldError]:
    """Return the errors of a qualified name. `field`: upstream's name of the field."""
    return [invalid(path, key, fault, field) for fault in qualified_name(key)] if key else [required(path, field=field)]


_PERCENT: Final = later(r"[0-9]+%")
_INTEGER: Final = later(r"[+-]?[0-9]{1,18}")
_DIGITS: Final = 10


def scaled(value: int | str | None) -> int:
    """Return the number in an IntOrString, or the number of its percentage (`getIntOrPercentValue`)."""
    if not isinstance(value, str):
        return value or 0
    digits = value[:-1] if _PERCENT.fullmatch(value) else value if _INTEGER.fullmatch(value) else "0"
    return int(digits.lstrip("0")[:_DIGITS] or 0)


def int_or_percent(maximum: int | None = 100) -> Check:
    """Return `ValidatePositiveIntOrPercent` with `IsNotMoreThan100Percent`. `maximum`: percentage; None: no limit."""

    def check(path: Path, value: int | str) -> Iterator[FieldError]:
        if not isinstance(value, str):
            yield from check_minimum(0)(path, value)
        elif _PERCENT.fullmatch(value) is None:
            yield invalid(path, value, "must be an integer without quotes, or a percentage such as 50%")
        elif maximum is not None and scaled(value) > maximum:
            yield invalid(path, value, f"must not be greater than {maximum}%")

    return check


def repeated(items: Sequence[ApiObject | None], name: str) -> Iterator[tuple[int, str]]:
    """Yield (position, value) of each object whose field has the same value as in an earlier object."""
    seen = set[str]()
    for index, item in enumerate(items):
        value = (item or {}).get(name)
        if value and value in seen:
            yield index, value
        seen.add(value or "")


_LIST: Final = Field(sequence)
TEXT: Final = Field(text)
INVALID_SELECTOR: Final = "invalid label selector"
"""The error of a selector in addition to the errors of its fields."""


def _selector_requirement(expression: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of a requirement in a label selector (`ValidateLabelSelectorRequirement`)."""
    yield from _values_for_operator(expression, path, ())
    yield from validate_label_values(expression, path)


def _values_for_operator(expression: ApiObject, path: Path, single: Sequence[str]) -> Iterator[FieldError]:
    """Yield the error of a wrong number of values. `single`: operators that require one value."""
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required((*path, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden((*path, "values"), detail)
    elif operator not in single:
        yield invalid((*path, "operator"), operator, "not a valid selector operator")
    elif len(values) != 1:
        yield required((*path, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")


def validate_label_values(expression: ApiObject, path: Path) -> Iterator[FieldError]:
    """Yield the errors of the values of a requirement."""
    for index, value in enumerate(charging(expression.get("values") or (), 1)):
        yield from (invalid((*path, "values", index), value, fault) for fault in label_value(value or ""))


def validate_node_requirement(expression: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of a node selector requirement, except its values (`ValidateNodeSelectorRequirement`)."""
    yield from _values_for_operator(expression, path, ("Gt", "Lt"))


_FORMATS: Final[Mapping[str, Callable[[str], Iterable[str]]]] = {
    "label": dns1123_label,
    "port-name": port_name,
    "qualified-name": qualified_name,
    "segment": path_segment,
    "subdomain": dns1123_subdomain,
}
TAGS: Final[Mapping[str, Callable[[str], Check]]] = {
    "each": lambda name: on_each(_FORMATS[name]),
    "enum": lambda values: supported(*values.split(",")),
    "format": lambda name: allow_empty(_FORMATS[name]),
    "key": lambda _: validate_key,
    "labels": lambda _: lambda path, labels: validate_labels(labels, path),
    "maximum": lambda limit: check_maximum(int(limit)),
    "minimum": lambda least: check_minimum(int(least)),
    "one_of": lambda values: one_of(*values.split(",")),
    "percent": lambda _: int_or_percent(),
    "range": lambda limits: check_range(*map(int, limits.split(".."))),
}
_READERS: Final[Mapping[str, Callable[..., Any]]] = {
    "[]int32": _numbers,
    "[]string": _texts,
    "ResourceList": resource_list,
    "bool": boolean,
    "int32": int32,
    "int64": int64,
    "intOrString": _int_or_string,
    "list": sequence,
    "map[string]string": string_map,
    "quantity": quantity,
    "string": text,
}


@lru_cache(maxsize=2)
def _table(name: str) -> Mapping[str, Any]:
    """Return a table beside this module.

    fields.json: by struct and field, the field's Go type, and its tags with their values. `default`: see `Field`.
    `check`: a check of a module. `+checks` instead of a field: checks of the whole struct. fixes.json: part of a
    message -> fix; the first match applies.
    """
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        table: Mapping[str, Any] = json.load(file)
    return table


class Structs:
    """The structs of fields.json. `checks`: name -> function for `check=NAME` on a field and `+checks` on a struct."""

    def __init__(self, checks: Mapping[str, Any], made: Mapping[str, Struct] = NOTHING) -> None:
        self.checks, self.made = checks, {**made}

    def extended(self, checks: Mapping[str, Any]) -> Structs:
        """Return the structs with these additional checks."""
        return Structs({**self.checks, **checks}, self.made)

    def __getitem__(self, name: str) -> Struct:
        """Return the struct with this name."""
        if name not in self.made:
            fields = dict(_table("fields.json")[name])
            together = fields.pop("+checks", "").split()
            parts = {key: self._part(text) for key, text in fields.items()}
            self.made[name] = Struct(parts, tuple(self.checks[each] for each in together))
        return self.made[name]

    def _part(self, text: str) -> Part:
        kind, *words = text.split()
        tags = dict(word.partition("=")[::2] for word in words)
        if kind not in _READERS:
            struct = self[kind.lstrip("[]*")]
            return Items(struct) if kind[0] == "[" else struct._replace(is_value=kind[0] != "*")
        default: Any = tags.pop("default", None)
        default = int(default) if default and kind in ("int32", "intOrString") else default
        checks = [self.checks[value] if tag == "check" else TAGS[tag](value) for tag, value in tags.items()]
        return Field(_READERS[kind], checks[0] if checks else None, default)


STRUCTS: Final = Structs({"label-selector-requirement": _selector_requirement})
SELECTOR: Final = STRUCTS["LabelSelector"]
"""The struct that `ValidateLabelSelector` checks."""


def selects(selector: ApiObject | None, labels: Mapping[str, str | None], semantics: Semantics) -> bool | None:
    """Report whether a selector matches labels; no selector matches none. None for an invalid selector."""
    if selector is None:
        return False
    if any(validate_struct(SELECTOR, selector, (), semantics)):
        return None
    expressions = [
        {**expression, "values": [value or "" for value in expression.get("values") or ()]}
        for expression in selector.get("matchExpressions") or ()
    ]
    parsed = parse_label_selector({"matchLabels": string_map(selector, "matchLabels"), "matchExpressions": expressions})
    return parsed is None or parsed.matches({key: value or "" for key, value in labels.items()})


class Kind(NamedTuple):
    """How a kind is validated. `name`: that of its struct. `name_faults`: returns the errors of a name. `prepared`:
    returns an object as kube-apiserver validates it.
    """

    structs: Structs
    name: str
    namespaced: bool = True
    name_faults: Callable[[str], list[str]] = dns1123_subdomain
    prepared: Callable[[ApiObject], ApiObject] = dict
    metadata_last: bool = False
    """Whether kube-apiserver validates metadata only if all other fields are valid."""

    def validate(self, obj: ApiObject, semantics: Semantics) -> Iterator[FieldError]:
        """Yield the errors of an object with decodable metadata. Raises InvalidObject."""
        obj = self.prepared(obj)
        of_fields = list(islice(validate_struct(self.structs[self.name], obj, (), semantics), MAX_FAULTS))
        if not (of_fields and self.metadata_last):
            yield from validate_object_meta(obj, namespaced=self.namespaced, name_faults=self.name_faults)
        yield from of_fields


NO_FIX: Final = "correct this field"


def fix_of(fault: FieldError) -> str:
    """Return the fix of an error; NO_FIX if the error itself says what is permitted."""
    return next((fix for part, fix in _table("fixes.json").items() if part in fault.text), NO_FIX)


def _both_amounts(spec: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        fault = "minAvailable and maxUnavailable cannot be both set"
        yield FieldError((*path, "minAvailable"), fault, field_path(path))


_STRUCTS: Final = STRUCTS.extended({"both-amounts": _both_amounts})
_DISRUPTION_BUDGETS: Final = Kind(_STRUCTS, "PodDisruptionBudget", name_faults=path_segment, metadata_last=True)


_MODULES: Final = {
    registry.POD: "pod_fields",
    registry.JOB: "batch",
    registry.CRON_JOB: "batch",
    registry.AUTOSCALER: "apps",
    registry.LIMIT_RANGE: "resources",
    registry.REPLICATION_CONTROLLER: "apps",
    registry.REPLICA_SET: "apps",
    **dict.fromkeys(registry.ROLLED_OUT, "apps"),
    **dict.fromkeys(registry.WEBHOOK_CONFIGURATIONS, "admissionregistration"),
}
"""`group/Kind` -> the module with its table, which is imported on first use, so that the linter starts faster."""
KINDS: Final = frozenset((registry.DISRUPTION_BUDGET, *_MODULES))
"""`group/Kind` of the kinds with tables. Other modules validate PriorityClasses and ResourceQuotas."""


def _kind_of(kind: str) -> Kind:
    """Return how one of KINDS is validated."""
    if kind == registry.DISRUPTION_BUDGET:
        return _DISRUPTION_BUDGETS
    found: Kind = import_module(f"{__package__}.{_MODULES[kind]}").KINDS[kind]
    return found


_VERSIONS: Final = ("v1", "v2")
"""Versions of these kinds that kube-apiserver serves."""
_METADATA: Final = decode.Struct("Object", {"metadata": decode.OBJECT_META})


def validate(obj: ApiObject, semantics: Semantics) -> list[FieldError]:
    """Return the errors of a new object, at most MAX_FAULTS; none for a kind or version that is not checked.

    Raises InvalidObject for values of a wrong type.
    """
    if group_kind(obj) not in KINDS or obj["apiVersion"].rpartition("/")[2] not in _VERSIONS:
        return []
    if (fault := decode.decode_error(obj, _METADATA)) is not None:
        raise InvalidObject(fault.text, fault.path, ref_of(obj))
    metadata = obj.get("metadata") or {}
    if not metadata.get("namespace"):
        obj = {**obj, "metadata": {**metadata, "namespace": registry.DEFAULT_NAMESPACE}}
    with within(obj):
        return list(islice(_kind_of(group_kind(obj)).validate(obj, semantics), MAX_FAULTS))


def check(obj: ApiObject, semantics: Semantics, stored: ApiObject | None = None) -> None:
    """Raise InvalidObject for the first error of an object, with a fix.

    Ignores errors of the Priority plugin, names that kube-apiserver generates, missing images of a redacted object, and
    errors that the stored object has too.
    """
    template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
    ignored = (*_OF_PRIORITY, "image", "mountPath") if template and lacks_images(template) else _OF_PRIORITY
    with within(obj):
        known = set(_faults_of(stored, semantics)) if stored else ()
        for fault in _faults_of(obj, semantics):
            is_generated = fault.path == ("metadata", "name") and at(obj, "metadata", "generateName")
            if not (is_generated or fault.path[-1] in ignored or is_repeated(obj, fault) or fault in known):
                raise InvalidObject(without_examples(fault), fault.path, fix=fix_of(fault))


def is_repeated(obj: ApiObject, fault: FieldError) -> bool:
    """Report whether another error of the object is about the same fault."""
    is_of_default = fault.path[:2] in _WITH_DEFAULTS and at(obj, *fault.path) is None
    needs_selector = _OF_SELECTOR in fault.text and at(obj, "spec", "selector") is None
    return needs_selector or (is_of_default and not fault.text.startswith("Required"))


_WITH_DEFAULTS: Final = (("metadata", "labels"), ("spec", "limits"))
"""Fields of Jobs and LimitRanges that kube-apiserver also sets from other fields."""
_OF_SELECTOR: Final = "`selector` does not match"


def without_examples(fault: FieldError) -> str:
    """Return the text of an error without examples and regular expressions."""
    return fault.text.partition(" (e.g. ")[0]


def _faults_of(obj: ApiObject, semantics: Semantics) -> Iterable[FieldError]:
    if group_kind(obj) == registry.RESOURCE_QUOTA:
        from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_quota_spec

        fault = decode.decode_error(obj, decode.RESOURCE_QUOTA_STRUCT)
        return validate_quota_spec(obj) if fault is None else [fault]
    return validate(obj, semantics)


_OF_PRIORITY: Final = ("priorityClassName", "preemptionPolicy")
