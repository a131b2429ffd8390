"""Tables of Deployments, ReplicaSets, StatefulSets and DaemonSets. Source: pkg/apis/apps/validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Path, field_path
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    dns1123_label,
    forbidden,
    invalid,
    not_supported,
    required,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.pod_fields import STATEFUL_SET_TEMPLATE, STRUCTS, TEMPLATE
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, mapping_at
from forewarn.policies.kubernetes.objects.workload import DEFAULT_DEADLINE

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_Faults = Iterator[FieldError]
_ROLLING: Final = "RollingUpdate"
_DEFAULT_AMOUNT: Final = "25%"


def does_not_match(spec: ApiObject, path: Path) -> FieldError:
    """Return the error of template labels that the selector does not match."""
    labels = at(spec, "template", "metadata", "labels") or {}
    here = (*path, "template", "metadata", "labels")
    return invalid(here, dict(labels), "`selector` does not match template `labels`")


def _template(kind: str, table: tables.Struct = TEMPLATE, *, has_selector: bool = True) -> tables.Together:
    """Return the check of the selector and the template of a workload whose Pods always restart.

    `has_selector`: the selector is required, and an invalid one hides the errors of the template.
    """

    def faults(spec: ApiObject, path: Path, semantics: Semantics) -> _Faults:
        selector = spec.get("selector")
        if selector is None and has_selector:
            yield required((*path, "selector"))
        elif selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid((*path, "selector"), {}, f"empty selector is invalid for {kind.lower()}")
        of_template = [*tables.validate_struct(tables.Struct({"template": table}), spec, path, semantics)]
        of_template += _of_running_pods(spec, path, kind) if kind in _REPLICATED else ()
        is_selected = tables.selects(selector, at(spec, "template", "metadata", "labels") or {}, semantics)
        if is_selected is False:
            yield does_not_match(spec, path)
        if is_selected is not None or not has_selector:
            yield from of_template
        else:
            yield invalid((*path, "selector"), selector, tables.INVALID_SELECTOR)
        yield from _of_running_pods(spec, path, kind) if kind not in _REPLICATED else ()

    return faults


_REPLICATED: Final = ("Deployment", "ReplicaSet")
"""Kinds that `ValidatePodTemplateSpecForReplicaSet` is for."""


def _of_running_pods(spec: ApiObject, path: Path, kind: str) -> _Faults:
    here: Path = (*path, "template", "spec")
    if (policy := at(spec, "template", "spec", "restartPolicy") or "Always") != "Always":
        yield not_supported((*here, "restartPolicy"), policy, ("Always",))
    if at(spec, "template", "spec", "activeDeadlineSeconds") is not None:
        yield forbidden((*here, "activeDeadlineSeconds"), f"activeDeadlineSeconds in {kind} is not Supported")


def _strategy(name: str, *types: str, rolling: tables.Together) -> tables.Together:
    """Return the check of the update strategy in the field `name`. `rolling`: of its field rollingUpdate."""

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
    """`ValidateRollingUpdateDeployment`."""
    amounts = [rolling.get(name) for name in ("maxUnavailable", "maxSurge")]
    unavailable, surge = (_DEFAULT_AMOUNT if amount is None else amount for amount in amounts)
    yield from tables.int_or_percent()((*path, "maxUnavailable"), unavailable)
    yield from tables.int_or_percent(None)((*path, "maxSurge"), surge)
    if tables.scaled(unavailable) == tables.scaled(surge) == 0:
        yield invalid((*path, "maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")


def _rolling_daemon_set(rolling: ApiObject, path: Path, _: Semantics) -> _Faults:
    """`ValidateRollingUpdateDaemonSet`."""
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
    """`validateRollingUpdateStatefulSet`."""
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
    """`ValidateReplicationControllerSpec`."""
    if not (selector := spec.get("selector")):
        yield required((*path, "selector"))
    if (template := spec.get("template")) is None:
        yield required((*path, "template"))
        return
    yield from tables.validate_struct(tables.Struct({"template": TEMPLATE}), spec, path, semantics)
    if selector and not selector.items() <= (at(template, "metadata", "labels") or {}).items():
        yield does_not_match(spec, path)
    yield from _of_running_pods(spec, path, "ReplicationController")


def _with_selector(controller: ApiObject) -> ApiObject:
    """Return a ReplicationController with the selector and the labels of its template, if it has none of its own.

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
KINDS: Final = {
    registry.REPLICATION_CONTROLLER: tables.Kind(_STRUCTS, "ReplicationController", prepared=_with_selector),
    registry.REPLICA_SET: tables.Kind(_STRUCTS, "ReplicaSet"),
    registry.DEPLOYMENT: tables.Kind(_STRUCTS, "Deployment"),
    registry.DAEMON_SET: tables.Kind(_STRUCTS, "DaemonSet"),
    registry.STATEFUL_SET: tables.Kind(_STRUCTS, "StatefulSet", name_faults=dns1123_label),
}
