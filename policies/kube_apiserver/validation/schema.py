"""The Go types of the fields that forewarn reads, for decoding errors as in encoding/json.

Fields that are not listed accept any value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


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
