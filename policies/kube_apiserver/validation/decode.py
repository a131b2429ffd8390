"""Decoding of an object as in the API server, with the errors of encoding/json, and the Go types of its fields.

Fields that are not listed in the types accept any value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut
from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, go_quote
from forewarn.policies.metering import charge, each, meter
from forewarn.policies.objects.bounded import is_omitted
from forewarn.policies.objects.fields import json_type
from forewarn.policies.quantity import InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject


class Plain(NamedTuple):
    """A string, boolean or whole number. `kind`: the JSON type; `name`: the Go type."""

    kind: str
    name: str


class Parsed(NamedTuple):
    """A Go type with its own decoding (`UnmarshalJSON`). `name`: the Go type."""

    name: str


class ListOf(NamedTuple):
    """A slice. `name`: the Go name of the slice type."""

    item: Type
    name: str


class MapOf(NamedTuple):
    """A map from strings. `name`: the Go name of the map type."""

    value: Type
    name: str


class Struct(NamedTuple):
    """A struct. `name`: without package; `package`: as in error messages."""

    name: str
    fields: Mapping[str, Type]
    package: str = "v1"


Type = Plain | Parsed | ListOf | MapOf | Struct
"""The type of a field."""

_STRING: Final = Plain("string", "string")
_BOOL: Final = Plain("bool", "bool")
_INT32: Final = Plain("number", "int32")
_INT64: Final = Plain("number", "int64")
_QUANTITY: Final = Parsed("quantity")
_TIME: Final = Parsed("time")
_STRINGS: Final = ListOf(_STRING, "[]string")
_LABELS: Final = MapOf(_STRING, "map[string]string")
_RESOURCES: Final = MapOf(_QUANTITY, "v1.ResourceList")


def _named(name: str) -> Plain:
    return Plain("string", f"v1.{name}")


def _list(item: Struct) -> ListOf:
    return ListOf(item, f"[]{item.package}.{item.name}")


_OWNER: Final = Struct(
    "OwnerReference",
    {
        **dict.fromkeys(("apiVersion", "kind", "name"), _STRING),
        "uid": Plain("string", "types.UID"),
        **dict.fromkeys(("controller", "blockOwnerDeletion"), _BOOL),
    },
)
OBJECT_META: Final = Struct(
    "ObjectMeta",
    {
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "resourceVersion"), _STRING),
        "uid": Plain("string", "types.UID"),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INT64),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("labels", "annotations"), _LABELS),
        "ownerReferences": _list(_OWNER),
        "finalizers": _STRINGS,
    },
)
_HEADER: Final[Mapping[str, Type]] = {"metadata": OBJECT_META}

PRIORITY_CLASS_STRUCT: Final = Struct(
    "PriorityClass",
    {
        **_HEADER,
        "value": _INT32,
        "globalDefault": _BOOL,
        "description": _STRING,
        "preemptionPolicy": _named("PreemptionPolicy"),
    },
)

_REQUIREMENT: Final = Struct(
    "ScopedResourceSelectorRequirement",
    {"scopeName": _named("ResourceQuotaScope"), "operator": _named("ScopeSelectorOperator"), "values": _STRINGS},
)
_QUOTA_SPEC: Final = Struct(
    "ResourceQuotaSpec",
    {
        "hard": _RESOURCES,
        "scopes": ListOf(_named("ResourceQuotaScope"), "[]v1.ResourceQuotaScope"),
        "scopeSelector": Struct("ScopeSelector", {"matchExpressions": _list(_REQUIREMENT)}),
    },
)
RESOURCE_QUOTA_STRUCT: Final = Struct(
    "ResourceQuota",
    {**_HEADER, "spec": _QUOTA_SPEC, "status": Struct("ResourceQuotaStatus", {"hard": _RESOURCES, "used": _RESOURCES})},
)

_REQUIREMENTS: Final = Struct("ResourceRequirements", {"limits": _RESOURCES, "requests": _RESOURCES})
_CONTAINER: Final = Struct(
    "Container",
    {
        **dict.fromkeys(("name", "image"), _STRING),
        "resources": _REQUIREMENTS,
        "restartPolicy": _named("ContainerRestartPolicy"),
    },
)
_TERM: Final = Struct("PodAffinityTerm", {"namespaces": _STRINGS, "namespaceSelector": Struct("LabelSelector", {})})
_WEIGHTED: Final = Struct("WeightedPodAffinityTerm", {"weight": _INT32, "podAffinityTerm": _TERM})
_TERMS: Final[Mapping[str, Type]] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _list(_TERM),
    "preferredDuringSchedulingIgnoredDuringExecution": _list(_WEIGHTED),
}
_AFFINITY: Final = Struct(
    "Affinity",
    {"podAffinity": Struct("PodAffinity", _TERMS), "podAntiAffinity": Struct("PodAntiAffinity", _TERMS)},
)
_TOLERATION: Final = Struct(
    "Toleration",
    {
        **dict.fromkeys(("key", "value"), _STRING),
        "operator": _named("TolerationOperator"),
        "effect": _named("TaintEffect"),
        "tolerationSeconds": _INT64,
    },
)
_POD_SPEC: Final = Struct(
    "PodSpec",
    {
        **dict.fromkeys(("priorityClassName", "nodeName", "schedulerName", "serviceAccountName"), _STRING),
        "priority": _INT32,
        "preemptionPolicy": _named("PreemptionPolicy"),
        "restartPolicy": _named("RestartPolicy"),
        "containers": _list(_CONTAINER),
        "initContainers": _list(_CONTAINER),
        "resources": _REQUIREMENTS,
        "overhead": _RESOURCES,
        **dict.fromkeys(("activeDeadlineSeconds", "terminationGracePeriodSeconds"), _INT64),
        "nodeSelector": _LABELS,
        "affinity": _AFFINITY,
        "tolerations": _list(_TOLERATION),
        "schedulingGates": _list(Struct("PodSchedulingGate", {"name": _STRING})),
        "schedulingGroup": Struct("PodSchedulingGroup", {"podGroupName": _STRING}),
    },
)
_CONTAINER_STATUS: Final = Struct(
    "ContainerStatus", {"name": _STRING, "resources": _REQUIREMENTS, "allocatedResources": _RESOURCES}
)
_CONDITION: Final = Struct("PodCondition", {"type": _named("PodConditionType"), "reason": _STRING})
_POD_STATUS: Final = Struct(
    "PodStatus",
    {
        "phase": _named("PodPhase"),
        "qosClass": _named("PodQOSClass"),
        "conditions": _list(_CONDITION),
        "containerStatuses": _list(_CONTAINER_STATUS),
        "initContainerStatuses": _list(_CONTAINER_STATUS),
    },
)
POD_STRUCT: Final = Struct("Pod", {**_HEADER, "spec": _POD_SPEC, "status": _POD_STATUS})


_BITS: Final = {"int32": 2**31, "int64": 2**63}
_FIELD: Final = 2
"""Units of work to decode a field of a struct."""
_RFC3339: Final = "2006-01-02T15:04:05Z07:00"


def decode_fault(obj: ApiObject, struct: Struct) -> FieldError | None:
    """Return the error for which an object cannot be decoded; None if it can.

    The first error in the order of the text; but an invalid quantity or time precedes wrong types.
    """
    first = None
    for fault, parsing in _decode(obj, struct, (), struct.name, ""):
        if parsing:
            return fault
        first = first or fault
    return first


def _decode(value: Any, kind: Type, path: Path, holder: str, field: str) -> Iterator[tuple[FieldError, bool]]:
    """Yield errors, each with true if the error ends decoding.

    `holder`: the innermost struct. `field`: Go's path from the root.
    """
    if isinstance(kind, Parsed):
        yield from _parse(value, kind, path, holder, field)
    elif value is None or is_omitted(value):
        return
    elif isinstance(kind, Plain):
        yield from _plain(value, kind, path, holder, field)
    elif isinstance(kind, ListOf):
        if not isinstance(value, list | tuple):
            yield _mismatch(json_type(value), kind.name, path, holder, field), False
        else:
            for index, item in enumerate(each(value, 1)):
                yield from _decode(item, kind.item, (*path, index), holder, field)
    elif not isinstance(value, Mapping):
        name = kind.name if isinstance(kind, MapOf) else f"{kind.package}.{kind.name}"
        yield _mismatch(json_type(value), name, path, holder, field), False
    elif isinstance(kind, MapOf):
        work = meter()
        for key, entry in value.items():
            work.charge(2)
            yield from _decode(entry, kind.value, (*path, key), holder, field)
    else:
        charge(_FIELD * len(value))
        for key, entry in value.items():
            if key in kind.fields:
                inner = f"{field}.{key}" if field else str(key)
                yield from _decode(entry, kind.fields[key], (*path, key), kind.name, inner)


def _plain(value: Any, kind: Plain, path: Path, holder: str, field: str) -> Iterator[tuple[FieldError, bool]]:
    given = json_type(value)
    if given != kind.kind:
        yield _mismatch(given, kind.name, path, holder, field), False
    elif kind.kind == "number" and not (isinstance(value, int) and -_BITS[kind.name] <= value < _BITS[kind.name]):
        yield _mismatch(f"number {cut(str(value), 64)}", kind.name, path, holder, field), False


def _parse(value: Any, kind: Parsed, path: Path, holder: str, field: str) -> Iterator[tuple[FieldError, bool]]:
    if kind.name == "quantity":
        try:
            parse_quantity(value)
        except InvalidQuantity as problem:
            yield FieldError(path, str(problem)), True
    elif value is not None and not isinstance(value, str):
        yield _mismatch(json_type(value), "string", path, holder, field), True
    elif value and not _is_time(value):
        text = f"parsing time {go_quote(cut(value, 64))} as {go_quote(_RFC3339)}: cannot parse"
        yield FieldError(path, text), True


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and text[10:11] == "T"
    except ValueError:
        return False


def _mismatch(given: str, name: str, path: Path, holder: str, field: str) -> FieldError:
    return FieldError(path, f"json: cannot unmarshal {given} into Go struct field {holder}.{field} of type {name}")
