"""Table of HorizontalPodAutoscalers. Source: pkg/apis/autoscaling/validation, and the conversion of version v1.

Annotations in which version v1 keeps metrics of version v2 are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    dns1123_label,
    forbidden,
    invalid,
    path_segment,
    required,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_container_resource_name
from forewarn.policies.kubernetes.objects.fields import ApiObject, mapping_at

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.quantity import Quantity
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_Faults = Iterator[FieldError]


def _positive(path: Path, amount: Quantity) -> list[FieldError]:
    return [] if amount.nano > 0 else [invalid(path, str(amount), "must be positive")]


def _api_version(reference: ApiObject, path: Path, _: Semantics, *, has_group: bool = False) -> _Faults:
    """`ValidateAPIVersion`."""
    version = reference.get("apiVersion") or ""
    group, slash, rest = version.partition("/")
    if "/" in rest:
        yield invalid((*path, "apiVersion"), version, f"unexpected GroupVersion string: {version}")
    elif has_group and not (slash and group) and reference.get("kind") != "ReplicationController":
        yield invalid((*path, "apiVersion"), version, "apiVersion must specify API group")


def _targets(*names: str, is_exclusive: bool = True) -> Callable[[ApiObject, Path, Semantics], _Faults]:
    """Return the check that one of these targets is set. `is_exclusive`: only one of them."""

    def faults(source: ApiObject, path: Path, _: Semantics) -> _Faults:
        target, here = mapping_at(source, "target"), (*path, "target")
        given = [name for name in names if target.get(name) is not None]
        if not given:
            yield required((*here, names[0]), f"must set {' or '.join(names)}")
        elif len(given) > 1 and is_exclusive:
            yield forbidden((*here, names[1]), f"may not set both {' and '.join(names)}")

    return faults


_NO_NAME: Final = "must specify a resource name"
_STRUCTS: Final = tables.Structs(
    {
        "api-version": _api_version,
        "container": tables.required_text(tables.on_each(dns1123_label), "must specify a container"),
        "container-resource-name": tables.required_text(
            lambda path, name: validate_container_resource_name(name, path), _NO_NAME
        ),
        "external-target": _targets("averageValue", "value"),
        "object-target": _targets("averageValue", "value", is_exclusive=False),
        "pods-target": _targets("averageValue"),
        "positive": _positive,
        "required-segment": tables.required_text(tables.on_each(path_segment)),
        "resource-name": tables.required_text(detail=_NO_NAME),
        "resource-target": _targets("averageUtilization", "averageValue"),
    }
)
_SOURCES: Final = {
    name: _STRUCTS[f"{name[0].upper()}{name[1:]}MetricSource"]
    for name in ("object", "external", "pods", "resource", "containerResource")
}
"""Field of a source of metrics -> its table, in the order of upstream's checks."""
_METRIC_TYPES: Final = {name[0].upper() + name[1:]: name for name in _SOURCES}


def _metric(metric: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    """`validateMetricSpec`, which checks only the first source."""
    kind = metric.get("type") or ""
    yield from tables.supported(*_METRIC_TYPES)((*path, "type"), kind)
    expected, sources = _METRIC_TYPES.get(kind), [name for name in _SOURCES if metric.get(name) is not None]
    for index, name in enumerate(sources):
        faults = [*tables.validate_struct(tables.Struct({name: _SOURCES[name]}), metric, path, semantics)]
        yield from faults if index == 0 else ()
    if expected is not None and expected not in sources:
        yield required((*path, expected), "must populate information for the given metric source")
    for name in sources if len(sources) > 1 else ():
        if name != expected:
            yield forbidden((*path, name), "must populate the given metric source only")


def _policies(rules: ApiObject, path: Path, _: Semantics) -> _Faults:
    if rules.get("policies") is not None and not rules["policies"]:
        yield required((*path, "policies"), "must specify at least one Policy")


def _tolerance(rules: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    amount = tables.quantity(rules, "tolerance") if semantics.autoscalers_have_tolerances else None
    if amount is not None and amount.nano < 0:
        yield invalid((*path, "tolerance"), str(amount), "must be greater than or equal to 0")


def _replicas(spec: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    """`validateHorizontalPodAutoscalerSpec`."""
    lowest, given = 0 if semantics.autoscalers_scale_to_zero else 1, spec.get("minReplicas")
    least, most = 1 if given is None else given, spec.get("maxReplicas") or 0
    if least < lowest:
        yield invalid((*path, "minReplicas"), least, f"must be greater than or equal to {lowest}")
    if most == 0:
        yield required((*path, "maxReplicas"), "must be set and greater than 0")
    elif most < 0:
        yield invalid((*path, "maxReplicas"), most, "must be greater than or equal to 1")
    if most < least:
        yield invalid((*path, "maxReplicas"), most, "must be greater than or equal to `minReplicas`")
    types = {(metric or {}).get("type") for metric in spec.get("metrics") or ()}
    if least == 0 and not types & {"Object", "External"}:
        fault = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden((*path, "metrics"), fault)


_AUTOSCALER: Final = _STRUCTS.extended(
    {
        "metric": _metric,
        "policies": _policies,
        "replicas": _replicas,
        "scaled-api-version": partial(_api_version, has_group=True),
        "tolerance": _tolerance,
    }
)


def _as_internal(autoscaler: ApiObject) -> ApiObject:
    """Return an autoscaler of version v1 with the metric of its target; others as they are."""
    if autoscaler.get("apiVersion") != "autoscaling/v1":
        return autoscaler
    spec: dict[str, Any] = {
        key: value for key, value in mapping_at(autoscaler, "spec").items() if key not in ("metrics", "behavior")
    }
    if isinstance(utilization := spec.get("targetCPUUtilizationPercentage"), int):
        target = {"type": "Utilization", "averageUtilization": utilization}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {**autoscaler, "spec": spec} if "spec" in autoscaler else autoscaler


KINDS: Final = {registry.AUTOSCALER: tables.Kind(_AUTOSCALER, "HorizontalPodAutoscaler", prepared=_as_internal)}
