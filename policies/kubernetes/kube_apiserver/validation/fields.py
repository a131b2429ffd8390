"""Validation of fields of PodDisruptionBudgets, workloads, HorizontalPodAutoscalers and LimitRanges, after defaulting.

Sources: pkg/apis/{policy,apps,batch,autoscaling,core}/validation/validation.go. Not included: most fields of Pod
templates, schedules and time zones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    MAX_FAULTS,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    label_value,
    not_supported,
    path_segment,
    qualified_name,
    required,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_extended, is_huge_page
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    at,
    group_kind,
    int32,
    int64,
    items,
    mapping,
    sequence,
    string_map,
    text,
)
from forewarn.policies.kubernetes.objects.resource_list import resource_list
from forewarn.policies.kubernetes.objects.workload import DEFAULT_DEADLINE, INT64
from forewarn.policies.kubernetes.quantity import InvalidQuantity, Quantity, parse_quantity
from forewarn.policies.kubernetes.selectors import InvalidSelector, parse_label_selector

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path

_Faults = Iterator[FieldError]
_PERCENT: Final = re.compile(r"[0-9]+%")
_ROLLING: Final = "RollingUpdate"


def validate(obj: ApiObject, *, scales_to_zero: bool = False) -> list[FieldError]:
    """Return the errors of an object, at most MAX_FAULTS. Raises InvalidObject for values of a wrong type.

    `scales_to_zero`: whether the feature gate HPAScaleToZero is on.
    """
    kind = group_kind(obj)
    if kind == registry.AUTOSCALER:
        faults = _autoscaler(obj, 0 if scales_to_zero else 1)
    else:
        faults = _VALIDATORS[kind](obj, ("spec",)) if kind in _VALIDATORS else iter(())
    return list(islice(faults, MAX_FAULTS))


def _not_negative(obj: ApiObject, path: Path, *names: str) -> _Faults:
    for name in names:
        value = (int64 if name in INT64 else int32)(obj, *path, name)
        if value is not None and value < 0:
            yield invalid((*path, name), value, "must be greater than or equal to 0")


def _one_of(value: str, path: Path, supported: Sequence[str]) -> _Faults:
    if value not in supported:
        yield not_supported(path, value, supported)


def _int_or_percent(obj: ApiObject, path: Path, *, maximum: int | None = 100) -> _Faults:
    """`ValidatePositiveIntOrPercent`, `IsNotMoreThan100Percent`. `maximum`: of percentages; None: none."""
    value = at(obj, *path)
    if isinstance(value, str):
        if _PERCENT.fullmatch(value) is None:
            yield invalid(path, value, "must be an integer without quotes, or a percentage such as 50%")
        elif maximum is not None and int(value[:-1].lstrip("0")[:_DIGITS] or 0) > maximum:
            yield invalid(path, value, f"must not be greater than {maximum}%")
    elif value is not None and (number := int32(obj, *path)) is not None and number < 0:
        yield invalid(path, number, "must be greater than or equal to 0")


_DIGITS: Final = 10


def _is_zero(value: object) -> bool:
    """`getIntOrPercentValue` is 0."""
    return value == 0 or (isinstance(value, str) and _PERCENT.fullmatch(value) is not None and not value.strip("0%"))


def _selector(obj: ApiObject, path: Path) -> _Faults:
    """`ValidateLabelSelector`."""
    for key, value in string_map(obj, *path, "matchLabels").items():
        for place, faults in ((key, qualified_name(key)), (value, label_value(value))):
            yield from (invalid((*path, "matchLabels"), place, fault) for fault in faults)
    for number, expression in enumerate(items(obj, *path, "matchExpressions")):
        here = (*path, "matchExpressions", number)
        operator, values = text(expression, "operator"), sequence(expression, "values") or ()
        if operator in ("In", "NotIn") and not values:
            yield required((*here, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden((*here, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid((*here, "operator"), operator, "not a valid selector operator")
        key = text(expression, "key")
        yield from (invalid((*here, "key"), key, fault) for fault in qualified_name(key))
        for index, value in enumerate(values):
            faults = label_value(value) if isinstance(value, str) else ["must be a string"]
            yield from (invalid((*here, "values", index), value, fault) for fault in faults)


def _disruption_budget(obj: ApiObject, path: Path) -> _Faults:
    if at(obj, *path, "minAvailable") is not None and at(obj, *path, "maxUnavailable") is not None:
        yield FieldError((*path, "minAvailable"), "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        yield from _int_or_percent(obj, (*path, name))
    yield from _selector(obj, (*path, "selector"))
    if policy := text(obj, *path, "unhealthyPodEvictionPolicy"):
        yield from _one_of(policy, (*path, "unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget"))


def _template(obj: ApiObject, path: Path, restart: Sequence[str] = ("Always",)) -> _Faults:
    spec = (*path, "spec")
    policy = text(obj, *spec, "restartPolicy") or "Always"
    yield from _one_of(policy, (*spec, "restartPolicy"), restart)
    yield from _pod(obj, spec)


def _controller(obj: ApiObject, path: Path) -> _Faults:
    """Return the selector and the template of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    selector, kind = (*path, "selector"), str(obj.get("kind")).lower()
    if at(obj, *selector) is None:
        yield required(selector)
    else:
        yield from _selector(obj, selector)
        if not mapping(obj, *selector, "matchLabels") and not sequence(obj, *selector, "matchExpressions"):
            yield invalid(selector, {}, f"empty selector is invalid for {kind}")
        labels = (*path, "template", "metadata", "labels")
        with_labels = string_map(obj, *labels)
        if not _matches(at(obj, *selector), with_labels):
            yield invalid(labels, dict(with_labels), "`selector` does not match template `labels`")
    yield from _template(obj, (*path, "template"))
    if at(obj, *path, "template", "spec", "activeDeadlineSeconds") is not None:
        field = (*path, "template", "spec", "activeDeadlineSeconds")
        yield forbidden(field, f"activeDeadlineSeconds in {obj.get('kind')} is not Supported")
    yield from _not_negative(obj, path, "replicas", "minReadySeconds")


def _matches(selector: object, labels: Mapping[str, str]) -> bool:
    try:
        parsed = parse_label_selector(selector)  # type: ignore[arg-type]  # raises for other types
    except InvalidSelector:
        return True
    return parsed is None or parsed.empty or parsed.matches(labels)


def _deployment(obj: ApiObject, path: Path) -> _Faults:
    yield from _controller(obj, path)
    strategy, rolling = (*path, "strategy"), (*path, "strategy", "rollingUpdate")
    kind = text(obj, *strategy, "type") or _ROLLING
    yield from _one_of(kind, (*strategy, "type"), ("Recreate", _ROLLING))
    if kind == "Recreate" and at(obj, *rolling) is not None:
        yield forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")
    if kind == _ROLLING:
        yield from _int_or_percent(obj, (*rolling, "maxUnavailable"))
        yield from _int_or_percent(obj, (*rolling, "maxSurge"), maximum=None)
        if _is_zero(at(obj, *rolling, "maxUnavailable")) and _is_zero(at(obj, *rolling, "maxSurge")):
            yield invalid((*rolling, "maxUnavailable"), 0, "may not be 0 when `maxSurge` is 0")
    yield from _not_negative(obj, path, "progressDeadlineSeconds", "revisionHistoryLimit")
    deadline = int32(obj, *path, "progressDeadlineSeconds")
    deadline = DEFAULT_DEADLINE if deadline is None else deadline
    if deadline <= (int32(obj, *path, "minReadySeconds") or 0):
        yield invalid((*path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def _daemon_set(obj: ApiObject, path: Path) -> _Faults:
    yield from _controller(obj, path)
    yield from _not_negative(obj, path, "revisionHistoryLimit")
    strategy, rolling = (*path, "updateStrategy"), (*path, "updateStrategy", "rollingUpdate")
    kind = text(obj, *strategy, "type") or _ROLLING
    yield from _one_of(kind, (*strategy, "type"), (_ROLLING, "OnDelete"))
    if kind != _ROLLING:
        return
    for name in ("maxUnavailable", "maxSurge"):
        yield from _int_or_percent(obj, (*rolling, name))
    unavailable, surge = at(obj, *rolling, "maxUnavailable"), at(obj, *rolling, "maxSurge")
    has_surge = surge is not None and not _is_zero(surge)
    if has_surge and not _is_zero(unavailable):
        default = "" if unavailable is not None else " (its default is 1)"
        yield invalid((*rolling, "maxSurge"), surge, f"may not be set when maxUnavailable is non-zero{default}")
    elif not has_surge and unavailable is not None and _is_zero(unavailable):
        yield required((*rolling, "maxUnavailable"), "cannot be 0 when maxSurge is 0")


def _stateful_set(obj: ApiObject, path: Path) -> _Faults:
    yield from _controller(obj, path)
    management = text(obj, *path, "podManagementPolicy") or "OrderedReady"
    yield from _one_of(management, (*path, "podManagementPolicy"), ("OrderedReady", "Parallel"))
    strategy, rolling = (*path, "updateStrategy"), (*path, "updateStrategy", "rollingUpdate")
    kind = text(obj, *strategy, "type") or _ROLLING
    yield from _one_of(kind, (*strategy, "type"), (_ROLLING, "OnDelete"))
    if kind == "OnDelete" and at(obj, *rolling) is not None:
        yield invalid(rolling, at(obj, *rolling), "only allowed for updateStrategy 'RollingUpdate'")
    if kind == _ROLLING:
        yield from _not_negative(obj, rolling, "partition")
        yield from _int_or_percent(obj, (*rolling, "maxUnavailable"))
    yield from _not_negative(obj, (*path, "ordinals"), "start")


def _job(obj: ApiObject, path: Path) -> _Faults:
    """`validateJobSpec`."""
    counts = "parallelism completions activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished backoffLimitPerIndex"
    yield from _not_negative(obj, path, *counts.split(), "maxFailedIndexes")
    mode = text(obj, *path, "completionMode") or "NonIndexed"
    yield from _one_of(mode, (*path, "completionMode"), ("NonIndexed", "Indexed"))
    completions, most_failed = (int32(obj, *path, name) for name in ("completions", "maxFailedIndexes"))
    per_index = int32(obj, *path, "backoffLimitPerIndex")
    if most_failed is not None and per_index is None:
        yield required((*path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    if mode == "Indexed":
        if completions is None:
            yield required((*path, "completions"), "when completion mode is Indexed")
        elif most_failed is not None and most_failed > completions:
            yield invalid((*path, "maxFailedIndexes"), most_failed, "must be less than or equal to completions")
    for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if mode != "Indexed" and at(obj, *path, name) is not None:
            yield invalid((*path, name), at(obj, *path, name), "requires indexed completion mode")
    has_policy = at(obj, *path, "podFailurePolicy") is not None
    restart, field = (*path, "template", "spec", "restartPolicy"), text(obj, *path, "template", "spec", "restartPolicy")
    if field in ("", "Always"):
        yield required(restart, 'valid values: "OnFailure", "Never"')
    elif has_policy and field == "OnFailure":
        yield invalid(restart, field, 'only "Never" is supported when podFailurePolicy is specified')
    else:
        yield from _one_of(field, restart, ("OnFailure", "Never"))
    if has_policy:
        yield from _pod_failure_policy(obj, path)
    if replacement := text(obj, *path, "podReplacementPolicy"):
        supported = ("Failed",) if has_policy else ("Failed", "TerminatingOrFailed")
        yield from _one_of(replacement, (*path, "podReplacementPolicy"), supported)
    yield from _pod(obj, (*path, "template", "spec"))


def _pod_failure_policy(obj: ApiObject, path: Path) -> _Faults:
    pod = (*path, "template", "spec")
    containers = [*items(obj, *pod, "containers"), *items(obj, *pod, "initContainers")]
    names = {text(container, "name") for container in containers}
    rules = (*path, "podFailurePolicy", "rules")
    for number, rule in enumerate(items(obj, *rules)):
        here, action = (*rules, number), text(rule, "action")
        if action == "FailIndex" and at(obj, *path, "backoffLimitPerIndex") is None:
            yield invalid((*here, "action"), action, "requires the backoffLimitPerIndex to be set")
        yield from _one_of(action, (*here, "action"), ("Count", "FailIndex", "FailJob", "Ignore"))
        codes, conditions = at(rule, "onExitCodes"), list(items(rule, "onPodConditions"))
        if (codes is None) is not bool(conditions):
            both = "specifying both onExitCodes and onPodConditions is not supported"
            yield invalid(
                here, "", both if conditions else "specifying one of onExitCodes and onPodConditions is required"
            )
        if codes is not None:
            yield from _exit_codes(rule, (*here, "onExitCodes"), names)
        for index, condition in enumerate(conditions):
            place, kind = (*here, "onPodConditions", index), text(condition, "type")
            yield from (invalid((*place, "type"), kind, fault) for fault in qualified_name(kind))
            status = text(condition, "status") or "True"
            yield from _one_of(status, (*place, "status"), ("False", "True", "Unknown"))


def _exit_codes(rule: ApiObject, path: Path, names: set[str]) -> _Faults:
    operator, container = text(rule, "onExitCodes", "operator"), text(rule, "onExitCodes", "containerName")
    yield from _one_of(operator, (*path, "operator"), ("In", "NotIn"))
    if container and container not in names:
        fault = "must be one of the container or initContainer names in the pod template"
        yield invalid((*path, "containerName"), container, fault)
    values = [value for value in sequence(rule, "onExitCodes", "values") or () if isinstance(value, int)]
    if not values:
        yield invalid((*path, "values"), values, "at least one value is required")
    if operator == "In" and 0 in values:
        yield invalid((*path, "values", values.index(0)), 0, "must not be 0 for the In operator")
    if len(set(values)) < len(values):
        yield duplicate((*path, "values"), values)
    if values != sorted(values):
        yield invalid((*path, "values"), values, "must be ordered")


def _cron_job(obj: ApiObject, path: Path) -> _Faults:
    schedule = text(obj, *path, "schedule")
    if not schedule:
        yield required((*path, "schedule"))
    elif "TZ" in schedule:
        fault = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid((*path, "schedule"), schedule, fault)
    elif not schedule.startswith("@") and len(schedule.split()) != _CRON_FIELDS:
        yield invalid((*path, "schedule"), schedule, f"expected exactly {_CRON_FIELDS} fields")
    limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    yield from _not_negative(obj, path, *limits)
    if policy := text(obj, *path, "concurrencyPolicy"):
        yield from _one_of(policy, (*path, "concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
    yield from _job(obj, (*path, "jobTemplate", "spec"))


_CRON_FIELDS: Final = 5


def _pod(obj: ApiObject, path: Path) -> _Faults:
    """Return the tolerations of a Pod (`ValidateTolerations`)."""
    for number, toleration in enumerate(items(obj, *path, "tolerations")):
        here = (*path, "tolerations", number)
        key, operator, value, effect = (text(toleration, name) for name in ("key", "operator", "value", "effect"))
        if key:
            yield from (invalid((*here, "key"), key, fault) for fault in qualified_name(key))
        elif operator != "Exists":
            fault = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid((*here, "operator"), operator, fault)
        if at(toleration, "tolerationSeconds") is not None and effect != "NoExecute":
            fault = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid((*here, "effect"), effect, fault)
        if operator in ("", "Equal"):
            yield from (invalid((*here, "value"), value, fault) for fault in label_value(value))
        elif operator == "Exists" and value:
            yield invalid((*here, "value"), value, "value must be empty when `operator` is 'Exists'")
        elif operator not in ("Exists", "Lt", "Gt"):  # Lt and Gt: a feature gate decides
            yield not_supported((*here, "operator"), operator, ("Equal", "Exists"))
        if effect:
            yield from _one_of(effect, (*here, "effect"), ("NoSchedule", "PreferNoSchedule", "NoExecute"))


def _stand_alone_pod(obj: ApiObject, path: Path) -> _Faults:
    if restart := text(obj, *path, "restartPolicy"):
        yield from _one_of(restart, (*path, "restartPolicy"), ("Always", "OnFailure", "Never"))
    yield from _pod(obj, path)


def _autoscaler(obj: ApiObject, lowest: int) -> _Faults:
    """`validateHorizontalPodAutoscalerSpec`."""
    path: Path = ("spec",)
    least, most = int32(obj, *path, "minReplicas"), int32(obj, *path, "maxReplicas") or 0
    if least is not None and least < lowest:
        yield invalid((*path, "minReplicas"), least, f"must be greater than or equal to {lowest}")
    if most == 0:
        yield required((*path, "maxReplicas"), "must be set and greater than 0")
    elif most < 0:
        yield invalid((*path, "maxReplicas"), most, "must be greater than or equal to 1")
    if most < (1 if least is None else least) and most != 0:
        yield invalid((*path, "maxReplicas"), most, "must be greater than or equal to `minReplicas`")
    yield from _reference(obj, (*path, "scaleTargetRef"))
    if str(obj.get("apiVersion")) != "autoscaling/v2":
        return
    for number, metric in enumerate(items(obj, *path, "metrics")):
        yield from _metric(metric, (*path, "metrics", number))
    for direction in ("scaleUp", "scaleDown"):
        if at(obj, *path, "behavior", direction) is not None:
            yield from _scaling_rules(obj, (*path, "behavior", direction))


def _reference(obj: ApiObject, path: Path) -> _Faults:
    """`ValidateCrossVersionObjectReference`."""
    for name in ("kind", "name"):
        value = text(obj, *path, name)
        if not value:
            yield required((*path, name))
        yield from (invalid((*path, name), value, fault) for fault in path_segment(value))


_METRICS: Final = {
    "Object": "object", "Pods": "pods", "Resource": "resource", "External": "external",
    "ContainerResource": "containerResource",
}  # fmt: skip
"""Type of a metric -> its field."""


def _metric(metric: ApiObject, path: Path) -> _Faults:
    """`validateMetricSpec`."""
    kind = text(metric, "type")
    yield from _one_of(kind, (*path, "type"), (*_METRICS,))
    expected = _METRICS.get(kind)
    if expected and at(metric, expected) is None:
        yield required((*path, expected), "must populate information for the given metric source")
    for name in _METRICS.values():
        if at(metric, name) is not None and expected and name != expected:
            yield forbidden((*path, name), "must populate the given metric source only")
    if expected and at(metric, expected) is not None:
        yield from _metric_source(metric, path, expected)


def _metric_source(metric: ApiObject, path: Path, expected: str) -> _Faults:
    """Return the errors of the name and the target of a metric. `expected`: the field of its type."""
    here, target = (*path, expected), (*path, expected, "target")
    names = {"resource": ("name",), "containerResource": ("name", "container")}.get(expected, ())
    yield from (required((*here, name)) for name in names if not text(metric, expected, name))
    if not names and not text(metric, expected, "metric", "name"):
        yield required((*here, "metric", "name"), "must specify a metric name")
    yield from _one_of(text(metric, expected, "target", "type"), (*target, "type"), _TARGETS)
    has = {
        name
        for name in ("value", "averageValue", "averageUtilization")
        if at(metric, expected, "target", name) is not None
    }
    accepted = _ACCEPTED[expected]
    if not has & {*accepted}:
        yield required((*target, accepted[0]), f"must set {' or '.join(accepted)}")
    elif len(has & {*accepted}) > 1 and expected != "object":
        yield forbidden((*target, accepted[-1]), f"may not set both {' and '.join(accepted)}")
    utilization = int32(metric, expected, "target", "averageUtilization")
    if utilization is not None and utilization < 1:
        yield invalid((*target, "averageUtilization"), utilization, "must be greater than 0")
    for name in has & {"value", "averageValue"}:
        if (amount := _quantity(at(metric, expected, "target", name))) is not None and amount.nano <= 0:
            yield invalid((*target, name), amount, "must be positive")


_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_ACCEPTED: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("resource", "containerResource"), ("averageUtilization", "averageValue")),
    **dict.fromkeys(("external", "object"), ("averageValue", "value")),
    "pods": ("averageValue",),
}


def _quantity(value: object) -> Quantity | None:
    try:
        return parse_quantity(str(value))
    except InvalidQuantity:
        return None


def _scaling_rules(obj: ApiObject, path: Path) -> _Faults:
    """`validateScalingRules`."""
    window = int32(obj, *path, "stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _HOUR:
        yield invalid((*path, "stabilizationWindowSeconds"), window, f"must be from 0 to {_HOUR}")
    if select := text(obj, *path, "selectPolicy"):
        yield from _one_of(select, (*path, "selectPolicy"), ("Disabled", "Max", "Min"))
    if at(obj, *path, "policies") == []:
        yield required((*path, "policies"), "must specify at least one Policy")
    for number, policy in enumerate(items(obj, *path, "policies")):
        here = (*path, "policies", number)
        yield from _one_of(text(policy, "type"), (*here, "type"), ("Percent", "Pods"))
        value, seconds = int32(policy, "value") or 0, int32(policy, "periodSeconds") or 0
        if value <= 0:
            yield invalid((*here, "value"), value, "must be greater than zero")
        if not 0 < seconds <= _LONGEST_PERIOD:
            yield invalid((*here, "periodSeconds"), seconds, f"must be from 1 to {_LONGEST_PERIOD}")


_HOUR: Final = 3600
_LONGEST_PERIOD: Final = 1800


def _limit_range(obj: ApiObject, path: Path) -> _Faults:
    """`ValidateLimitRange`."""
    types = set[str]()
    for number, item in enumerate(items(obj, *path, "limits")):
        here, kind = (*path, "limits", number), text(item, "type")
        if "/" not in kind:
            yield from _one_of(kind, (*here, "type"), ("Pod", "Container", "PersistentVolumeClaim"))
        if kind in types:
            yield duplicate((*here, "type"), kind)
        types.add(kind)
        if kind == "Pod":
            for name in ("default", "defaultRequest"):
                if at(item, name):
                    yield forbidden((*here, name), "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not any("storage" in mapping(item, name) for name in ("min", "max")):
            fault = "either minimum or maximum storage value is required, but neither was provided"
            yield required((*here, "limits"), fault)
        yield from _limits(item, here)


_ORDERED: Final = (
    ("min", "max"), ("min", "defaultRequest"), ("min", "default"),
    ("defaultRequest", "max"), ("defaultRequest", "default"), ("default", "max"),
)  # fmt: skip
"""Pairs of fields of a LimitRange of which the first must not be greater."""


def _limits(item: ApiObject, path: Path) -> _Faults:
    names = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    amounts = {name: resource_list(item, name) for name in names}
    for resource in dict.fromkeys(key for name in names for key in amounts[name]):
        yield from (invalid((*path, "max"), resource, fault) for fault in qualified_name(resource))
        for low, high in _ORDERED:
            less, more = amounts[low].get(resource), amounts[high].get(resource)
            if less is not None and more is not None and less > more:
                field = low if low != "min" else high if high != "max" else low
                yield invalid((*path, field, resource), less, f"{low} value {less} is greater than {high} value {more}")
        ratio = amounts["maxLimitRequestRatio"].get(resource)
        if ratio is not None and ratio < parse_quantity("1"):
            yield invalid((*path, "maxLimitRequestRatio", resource), ratio, f"ratio {ratio} is less than 1")
        request, limit = amounts["defaultRequest"].get(resource), amounts["default"].get(resource)
        is_whole = is_extended(resource) or is_huge_page(resource)
        if is_whole and request is not None and limit is not None and request != limit:
            fault = f"default value {limit} must equal to defaultRequest value {request} in {resource}"
            yield invalid((*path, "defaultRequest", resource), request, fault)


_VALIDATORS: Final[Mapping[str, Callable[[ApiObject, Path], _Faults]]] = {
    registry.DISRUPTION_BUDGET: _disruption_budget,
    registry.DEPLOYMENT: _deployment,
    registry.REPLICA_SET: _controller,
    registry.STATEFUL_SET: _stateful_set,
    registry.DAEMON_SET: _daemon_set,
    registry.JOB: _job,
    registry.CRON_JOB: _cron_job,
    registry.POD: _stand_alone_pod,
    registry.LIMIT_RANGE: _limit_range,
}
