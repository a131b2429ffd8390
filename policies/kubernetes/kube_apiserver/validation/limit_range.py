"""Table of LimitRanges. Source: pkg/apis/core/validation, `ValidateLimitRange`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    keyed,
    qualified_name,
    required,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
    is_native,
    validate_container_resource_name,
    validate_resource_name,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, mapping_at
from forewarn.policies.kubernetes.objects.resource_list import ResourceList, resource_list
from forewarn.policies.kubernetes.objects.resources import is_huge_page

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.quantity import Quantity
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_Faults = Iterator[FieldError]
_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_NAMES: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ORDERED: Final = (
    ("min", "max", "min"), ("min", "defaultRequest", "defaultRequest"), ("min", "default", "default"),
    ("defaultRequest", "max", "defaultRequest"), ("defaultRequest", "default", "defaultRequest"),
    ("default", "max", "default"),
)  # fmt: skip
"""Pairs of fields of which the first must not be greater, and the field that upstream names."""
_MAX_MILLI: Final = (2**63 - 1) // 1000


def _items(spec: ApiObject, path: Path, _: Semantics) -> _Faults:
    types = set[str]()
    for number, item in enumerate([each or {} for each in spec.get("limits") or ()]):
        here, kind = (*path, "limits", number), item.get("type") or ""
        faults = qualified_name(kind)
        if not faults and "/" not in kind and kind not in _TYPES:
            faults = [f"must be a standard limit type ({', '.join(_TYPES)}) or fully qualified"]
        yield from (invalid((*here, "type"), kind, fault) for fault in faults)
        if kind in types:
            yield duplicate((*here, "type"), kind)
        types.add(kind)
        yield from _item(item, here, kind)


def _item(item: ApiObject, path: Path, kind: str) -> _Faults:
    amounts = {name: resource_list(item, name) for name in _NAMES}
    if kind == "Container":  # upstream `SetDefaults_LimitRangeItem`
        amounts["default"] = {**amounts["max"], **amounts["default"]}
        amounts["defaultRequest"] = {**amounts["min"], **amounts["default"], **amounts["defaultRequest"]}
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            if amounts[name]:
                yield forbidden((*path, name), "may not be specified when `type` is 'Pod'")
            amounts[name] = {}
    if kind == "PersistentVolumeClaim" and "storage" not in {**amounts["min"], **amounts["max"]}:
        fault = "either minimum or maximum storage value is required, but neither was provided"
        yield required((*path, "limits"), fault)
    validate = validate_container_resource_name if kind in ("Pod", "Container") else validate_resource_name
    for name in _NAMES:
        for resource in amounts[name]:
            yield from validate(resource, (*path, name, resource), keyed((*path, name), resource))
    for resource in dict.fromkeys(key for name in _NAMES for key in amounts[name]):
        yield from _order(amounts, path, resource)
        yield from _ratio(amounts, path, resource)


def _order(amounts: Mapping[str, ResourceList], path: Path, resource: str) -> _Faults:
    for low, high, name in _ORDERED:
        less, more = amounts[low].get(resource), amounts[high].get(resource)
        if less is not None and more is not None and less > more:
            fault = f"{low} value {less} is greater than {high} value {more}"
            yield invalid((*path, name, resource), str(less), fault, keyed((*path, name), resource))
    request, limit = (amounts[name].get(resource) for name in ("defaultRequest", "default"))
    is_overcommitted = is_native(resource) and not is_huge_page(resource)
    if not is_overcommitted and request is not None and limit is not None and request != limit:
        fault = f"default value {limit} must equal to defaultRequest value {request} in {resource}"
        field = keyed((*path, "defaultRequest"), resource)
        yield invalid((*path, "defaultRequest", resource), str(request), fault, field)


def _ratio(amounts: Mapping[str, ResourceList], path: Path, resource: str) -> _Faults:
    ratio, low, high = (amounts[name].get(resource) for name in ("maxLimitRequestRatio", "min", "max"))
    if ratio is None:
        return
    here, field = (*path, "maxLimitRequestRatio", resource), keyed((*path, "maxLimitRequestRatio"), resource)
    if ratio.milli_value < 1000:
        yield invalid(here, str(ratio), f"ratio {ratio} is less than 1", field)
    if low is not None and high is not None and _is_above(ratio, low, high):
        yield invalid(here, str(ratio), f"ratio {ratio} is greater than max/min", field)


def _is_above(ratio: Quantity, low: Quantity, high: Quantity) -> bool:
    """Report whether a ratio is greater than that of two amounts, as float64."""
    is_precise = max(ratio.value, low.value, high.value) < _MAX_MILLI
    value, least, most = (each.milli_value if is_precise else each.value for each in (ratio, low, high))
    if not least:
        return False  # the quotient is infinite or not a number
    return value / (1000 if is_precise else 1) > most / least


def _with_name(limit_range: ApiObject) -> ApiObject:
    """Return a LimitRange with a name; kube-apiserver generates one."""
    metadata = mapping_at(limit_range, "metadata")
    return limit_range if metadata.get("name") else {**limit_range, "metadata": {**metadata, "name": "generated"}}


KINDS: Final = {
    registry.LIMIT_RANGE: tables.Kind(tables.Structs({"limits": _items}), "LimitRange", prepared=_with_name)
}
