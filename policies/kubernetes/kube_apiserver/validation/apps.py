"""Tables of Deployments, ReplicaSets, StatefulSets, DaemonSets and HorizontalPodAutoscalers.

Source: pkg/apis/apps/validation; pkg/apis/autoscaling/validation, and the conversion of version v1. Annotations in
which version v1 keeps metrics of version v2 are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, field_path
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    dns1123_label,
    forbidden,
    invalid,
    not_supported,
    path_segment,
    required,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.pod_fields import STATEFUL_SET_TEMPLATE, STRUCTS, TEMPLATE
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_container_resource_name
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, list_at, mapping_at
from forewarn.policies.kubernetes.objects.workload import DEFAULT_DEADLINE

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.quantity import Quantity
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_Faults = Iterator[FieldError]


def _positive(path: Path, amount: Quantity) -> list[FieldError]:
    return [] if amount.nano > 0 else [invalid(path, str(amount), "must be positive")]


def _api_version(reference: ApiObject, path: Path, _: Semantics, *, has_group: bool = False) -> _Faults:
    """Yield the errors of an apiVersion (`ValidateAPIVersion`)."""
    version = reference.get("apiVersion") or ""
    group, slash, rest = version.partition("/")
    if "/" in rest:
        yield invalid((*path, "apiVersion"), version, f"unexpected GroupVersion string: {version}")
    elif has_group and not (slash and group) and reference.get("kind") != "ReplicationController":
        yield invalid((*path, "apiVersion"), version, "apiVersion must specify API group")


def _targets(*names: str, is_exclusive: bool = True) -> Callable[[ApiObject, Path, Semantics], _Faults]:
    """Return a check that one of these targets is set. `is_exclusive`: whether only one may be set."""

    def faults(source: ApiObject, path: Path, _: Semantics) -> _Faults:
        target, here = mapping_at(source, "target"), (*path, "target")
        given = [name for name in names if target.get(name) is not None]
        if not given:
            yield required((*here, names[0]), f"must set {' or '.join(names)}")
        elif len(given) > 1 and is_exclusive:
            yield forbidden((*here, names[1]), f"may not set both {' and '.join(names)}")

    return faults


_NO_NAME: Final = "must specify a resource name"
_METRIC_STRUCTS: Final = tables.Structs(
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
    name: _METRIC_STRUCTS[f"{name[0].upper()}{name[1:]}MetricSource"]
    for name in ("object", "external", "pods", "resource", "containerResource")
}
"""Field of a source of metrics -> the table of the source, in the order of upstream's checks."""
_METRIC_TYPES: Final = {name[0].upper() + name[1:]: name for name in _SOURCES}


def _metric(metric: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    """Yield the errors of a metric (`validateMetricSpec`); only its first source is checked."""
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
    """Yield the errors of minReplicas and maxReplicas (`validateHorizontalPodAutoscalerSpec`)."""
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


_AUTOSCALER: Final = _METRIC_STRUCTS.extended(
    {
        "metric": _metric,
        "policies": _policies,
        "replicas": _replicas,
        "scaled-api-version": partial(_api_version, has_group=True),
        "tolerance": _tolerance,
    }
)


def _as_internal(autoscaler: ApiObject) -> ApiObject:
    """Return an autoscaler of version v1 with its target as a metric; others unchanged."""
    if autoscaler.get("apiVersion") != "autoscaling/v1":
        return autoscaler
    spec: dict[str, Any] = {
        key: value for key, value in mapping_at(autoscaler, "spec").items() if key not in ("metrics", "behavior")
    }
    if isinstance(utilization := spec.get("targetCPUUtilizationPercentage"), int):
        target = {"type": "Utilization", "averageUtilization": utilization}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {**autoscaler, "spec": spec} if "spec" in autoscaler else autoscaler


_ROLLING: Final = "RollingUpdate"
_DEFAULT_AMOUNT: Final = "25%"


def does_not_match(spec: ApiObject, path: Path) -> FieldError:
    """Return the error of template labels that the selector does not match."""
    labels = at(spec, "template", "metadata", "labels") or {}
    here = (*path, "template", "metadata", "labels")
    return invalid(here, dict(labels), "`selector` does not match template `labels`")


def _template(kind: str, table: tables.Struct = TEMPLATE, *, has_selector: bool = True) -> tables.Together:
    """Return the check of the selector and the template of a workload whose Pods always restart.

    `has_selector`: whether the selector is required; an invalid one then hides the errors of the template.
    """

    def faults(spec: ApiObject, path: Path, semantics: Semantics) -> _Faults:
        selector = spec.get("selector")
        if selector is None and has_selector:
            yield required((*path, "selector"))
        elif selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid((*path, "selector"), {}, f"empty selector is invalid for {kind.lower()}")
        of_template = [*tables.validate_struct(tables.Struct({"template": table}), spec, path, semantics)]
        of_template += _running_pod_errors(spec, path, kind) if kind in _REPLICATED else ()
        is_selected = tables.selects(selector, at(spec, "template", "metadata", "labels") or {}, semantics)
        if is_selected is False:
            yield does_not_match(spec, path)
        if is_selected is not None or not has_selector:
            yield from of_template
        else:
            yield invalid((*path, "selector"), selector, tables.INVALID_SELECTOR)
        yield from _running_pod_errors(spec, path, kind) if kind not in _REPLICATED else ()

    return faults


_REPLICATED: Final = ("Deployment", "ReplicaSet")
"""Kinds that `ValidatePodTemplateSpecForReplicaSet` checks."""


def _running_pod_errors(spec: ApiObject, path: Path, kind: str) -> _Faults:
    here: Path = (*path, "template", "spec")
    if (policy := at(spec, "template", "spec", "restartPolicy") or "Always") != "Always":
        yield not_supported((*here, "restartPolicy"), policy, ("Always",))
    if at(spec, "template", "spec", "activeDeadlineSeconds") is not None:
        yield forbidden((*here, "activeDeadlineSeconds"), f"activeDeadlineSeconds in {kind} is not Supported")


def _strategy(name: str, *types: str, rolling: tables.Together) -> tables.Together:
    """Return the check of the update strategy in the field `name`. `rolling`: checks its field rollingUpdate."""

    def faults(spec: ApiObject, path: Path, semantics: Semantics) -> _Faults:
        strategy, here = spec.get(name) or {}, (*path, name)
        kind, given = strategy.get("type") or _ROLLING, strategy.get("rollingUpdate")
        of_type = tables.supported(*types)((*here, "type"), kind)
        yield from (fault._replace(field=field_path(here)) for fault in of_type)
        if kind == _ROLLING:
            yield from rolling(given or {}, (*here, "rollingUpdate"), semantics)
        elif given is not None and kind in types and name == "strategy":
            yield forbidden((*here, "rollingUpdate"), f"may not be specified when strategy `type` is '{kind}'")

    return faults


def _rolling_deployment(rolling: ApiObject, path: Path, _: Semantics) -> _Faults:
    """Yield the errors of rollingUpdate (`ValidateRollingUpdateDeployment`)."""
    amounts = [rolling.get(name) for name in ("maxUnavailable", "maxSurge")]
    unavailable, surge = (_DEFAULT_AMOUNT if amount is None else amount for amount in amounts)
    yield from tables.int_or_percent()((*path, "maxUnavailable"), unavailable)
    yield from tables.int_or_percent(None)((*path, "maxSurge"), surge)
    if tables.scaled(unavailable) == tables.scaled(surge) == 0:
        yield invalid((*path, "maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")


def _rolling_daemon_set(rolling: ApiObject, path: Path, _: Semantics) -> _Faults:
    """Yield the errors of rollingUpdate (`ValidateRollingUpdateDaemonSet`)."""
    given, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    unavailable, surge = 1 if given is None else given, 0 if surge is None else surge
    yield from tables.int_or_percent()((*path, "maxUnavailable"), unavailable)
    yield from tables.int_or_percent()((*path, "maxSurge"), surge)
    if tables.scaled(surge) and tables.scaled(unavailable):
        default = "" if given is not None else " (its default is 1)"
        yield invalid((*path, "maxSurge"), surge, f"may not be set when maxUnavailable is non-zero{default}")
    elif not tables.scaled(surge) and not tables.scaled(unavailable):
        yield required((*path, "maxUnavailable"), "cannot be 0 when maxSurge is 0")


def _rolling_stateful_set(rolling: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    """Yield the errors of rollingUpdate (`validateRollingUpdateStatefulSet`)."""
    if (partition := rolling.get("partition") or 0) < 0:
        yield invalid((*path, "partition"), partition, "must be greater than or equal to 0")
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None and semantics.stateful_sets_have_max_unavailable:  # otherwise the field is dropped
        yield from tables.int_or_percent()((*path, "maxUnavailable"), unavailable)
        if not tables.scaled(unavailable):
            yield invalid((*path, "maxUnavailable"), unavailable, "cannot be 0")


def _on_delete(spec: ApiObject, path: Path, _: Semantics) -> _Faults:
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate") is not None:
        here = (*path, "updateStrategy", "rollingUpdate")
        yield invalid(here, strategy["rollingUpdate"], f"only allowed for updateStrategy '{_ROLLING}'")


def _deadline(spec: ApiObject, path: Path, _: Semantics) -> _Faults:
    given = spec.get("progressDeadlineSeconds")
    deadline = DEFAULT_DEADLINE if given is None else given
    if deadline <= (spec.get("minReadySeconds") or 0):
        yield invalid((*path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def _selects_labels(spec: ApiObject, path: Path, semantics: Semantics) -> _Faults:
    """Yield the errors of the spec of a ReplicationController (`ValidateReplicationControllerSpec`)."""
    if not (selector := spec.get("selector")):
        yield required((*path, "selector"))
    if (template := spec.get("template")) is None:
        yield required((*path, "template"))
        return
    yield from tables.validate_struct(tables.Struct({"template": TEMPLATE}), spec, path, semantics)
    if selector and not selector.items() <= (at(template, "metadata", "labels") or {}).items():
        yield does_not_match(spec, path)
    yield from _running_pod_errors(spec, path, "ReplicationController")


def _with_selector(controller: ApiObject) -> ApiObject:
    """Return a ReplicationController with the labels of its template as selector and labels, if it has none.

    Source: pkg/apis/core/v1/defaults.go, `SetDefaults_ReplicationController`.
    """
    metadata, spec = mapping_at(controller, "metadata"), mapping_at(controller, "spec")
    labels, selector = at(spec, "template", "metadata", "labels"), spec.get("selector")
    if not labels or not isinstance(selector, Mapping | None):
        return controller
    return {
        **controller,
        "metadata": {**metadata, "labels": metadata.get("labels") or labels},
        "spec": {**spec, "selector": selector or labels},
    }


_STRUCTS: Final = STRUCTS.extended(
    {
        "daemon-set-strategy": _strategy("updateStrategy", _ROLLING, "OnDelete", rolling=_rolling_daemon_set),
        "daemon-set-template": _template("DaemonSet", has_selector=False),
        "deadline": _deadline,
        "deployment-strategy": _strategy("strategy", "Recreate", _ROLLING, rolling=_rolling_deployment),
        "deployment-template": _template("Deployment"),
        "on-delete": _on_delete,
        "replica-set-template": _template("ReplicaSet"),
        "selects-labels": _selects_labels,
        "stateful-set-strategy": _strategy("updateStrategy", _ROLLING, "OnDelete", rolling=_rolling_stateful_set),
        "stateful-set-template": _template("StatefulSet", STATEFUL_SET_TEMPLATE),
    }
)


def _with_claims(stateful_set: ApiObject) -> ApiObject:
    """Return a StatefulSet with volumes for its volumeClaimTemplates (`volumesToAddForTemplates`)."""
    spec = mapping_at(stateful_set, "spec")
    pod, claims = at(spec, "template", "spec"), list_at(spec, "volumeClaimTemplates")
    if not claims or not isinstance(pod, Mapping):
        return stateful_set
    volumes = [*list_at(pod, "volumes"), *(at(claim, "metadata") for claim in claims)]
    return {**stateful_set, "spec": {**spec, "template": {**spec["template"], "spec": {**pod, "volumes": volumes}}}}


KINDS: Final = {
    registry.REPLICATION_CONTROLLER: tables.Kind(_STRUCTS, "ReplicationController", prepared=_with_selector),
    registry.REPLICA_SET: tables.Kind(_STRUCTS, "ReplicaSet"),
    registry.DEPLOYMENT: tables.Kind(_STRUCTS, "Deployment"),
    registry.DAEMON_SET: tables.Kind(_STRUCTS, "DaemonSet"),
    registry.STATEFUL_SET: tables.Kind(_STRUCTS, "StatefulSet", name_faults=dns1123_label, prepared=_with_claims),
    registry.AUTOSCALER: tables.Kind(_AUTOSCALER, "HorizontalPodAutoscaler", prepared=_as_internal),
}
