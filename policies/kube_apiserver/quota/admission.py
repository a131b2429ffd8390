"""Checks if a request exceeds the quotas of its namespace.

Source: apiserver `pkg/admission/plugin/resourcequota/controller.go`, `CheckRequest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING

from forewarn.policies.copies import replace
from forewarn.policies.kube_apiserver.quota.evaluators import PODS, Evaluator, Pods
from forewarn.policies.kube_apiserver.quota.scopes import InvalidScope, is_covered_by
from forewarn.policies.kube_apiserver.validation.pod_resources import read_pod_resources
from forewarn.policies.objects.resource_list import add, exceeded, mask, subtract_to_zero, text, without_zeros
from forewarn.policies.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_list import ResourceList
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.options import LimitedResource, ScopeSelector


class FaultKind(StrEnum):
    """The reason why a request is rejected."""

    MUST_SPECIFY = "must-specify"
    STATUS_UNKNOWN = "status-unknown"
    INVALID_SCOPE = "invalid-scope"
    NEGATIVE_USAGE = "negative-usage"
    UNCOVERED_RESOURCE = "uncovered-resource"
    UNCOVERED_SCOPE = "uncovered-scope"
    EXCEEDED = "exceeded"


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason for a rejection, in upstream's words. `quota`: the name of the quota; "" if no single quota is the
    cause.
    """

    kind: FaultKind
    message: str
    quota: str = ""
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: the errors of the first stage that failed; without errors, the quotas with the added
    usage.
    """

    faults: tuple[Fault, ...]
    quotas: tuple[ResourceQuota, ...]


def check_request(
    obj: ApiObject,
    quotas: Sequence[ResourceQuota],
    limited: Sequence[LimitedResource] = (),
    *,
    old: ApiObject | None = None,
    evaluator: Evaluator = PODS,
) -> Check:
    """Check whether an object, after the Priority plugin, exceeds a quota of its namespace. Raises InvalidObject.

    `quotas`: the namespace's quotas, sorted by name (upstream's order is arbitrary). `limited`: the plugin's
    limitedResources. `old`: the replaced object, whose usage the quotas already include. A limited scope that cannot
    be parsed disables all checks, as upstream.
    """
    try:
        limited_scopes = [scope for entry in limited for scope in evaluator.matching_scopes(entry.match_scopes, obj)]
    except InvalidScope:
        return Check((), tuple(quotas))
    demands: dict[frozenset[str], str] = {}
    if faults := [fault for quota in quotas for fault in _unmet(quota, obj, evaluator, demands)]:
        return Check(tuple(faults), tuple(quotas))
    scopes = [scope for quota in quotas for scope in evaluator.matching_scopes(quota.scope_selectors, obj)]
    interesting = [quota for quota in quotas if evaluator.matches(quota, obj)]
    used = evaluator.usage(obj)
    if negative := sorted(name for name, quantity in used.items() if quantity.nano < 0):
        message = f"quota usage is negative for resource(s): {','.join(negative)}"
        return Check((Fault(FaultKind.NEGATIVE_USAGE, message, resources=tuple(negative)),), tuple(quotas))
    deltas = _deltas(old, interesting, used, evaluator)
    if not any(deltas.values()):
        return Check((), tuple(quotas))
    if faults := _uncovered(used, interesting, scopes, limited, limited_scopes, evaluator):
        return Check(tuple(faults), tuple(quotas))
    return _charge(quotas, deltas)


def first_rejected(
    pod: ApiObject,
    quotas: Sequence[ResourceQuota],
    *,
    replicas: int,
    now: float = 0,
) -> tuple[int, Check]:
    """Return the number of the first rejected Pod of `replicas` equal Pods, from 1 (0 if none), and the last check.

    The check contains the quotas with the usage of the Pods before. Excludes limitedResources, for which all Pods are
    equal: see `uncovered`.
    """
    read = cache(partial(read_pod_resources, pod))
    evaluator = Pods(now, read=lambda _: read())
    check = check_request(pod, quotas, evaluator=evaluator)
    if check.faults or replicas < 1:
        return (1 if check.faults else 0), check
    used = without_zeros(evaluator.usage(pod))
    is_met = [evaluator.matches(quota, pod) for quota in quotas]
    fitting = min([replicas, *(_max_replicas(quota, used) for quota, met in zip(quotas, is_met, strict=True) if met)])
    charged = tuple(_charged(q, used, fitting) if met else q for q, met in zip(quotas, is_met, strict=True))
    if fitting == replicas:
        return 0, Check((), charged)
    return fitting + 1, check_request(pod, charged, evaluator=evaluator)


def uncovered(obj: ApiObject, quotas: Sequence[ResourceQuota], limited: Sequence[LimitedResource]) -> list[Fault]:
    """Return the limitedResources that no quota covers for a Pod, independent of other requirements. Raises
    InvalidObject.

    A quota with invalid scopes covers nothing. An invalid limited scope disables the check.
    """
    readable = [
        quota for quota in quotas if not any(f.kind is FaultKind.INVALID_SCOPE for f in _unmet(quota, obj, PODS, {}))
    ]
    try:
        limited_scopes = [scope for entry in limited for scope in PODS.matching_scopes(entry.match_scopes, obj)]
    except InvalidScope:
        return []
    scopes = [scope for quota in readable for scope in PODS.matching_scopes(quota.scope_selectors, obj)]
    interesting = [quota for quota in readable if PODS.matches(quota, obj)]
    return _uncovered(PODS.usage(obj), interesting, scopes, limited, limited_scopes, PODS)


def _unmet(
    quota: ResourceQuota, obj: ApiObject, evaluator: Evaluator, demands: dict[frozenset[str], str]
) -> Iterable[Fault]:
    """Yield the unmet requirements of a quota that do not depend on usage; none if the quota does not apply to the
    object.

    `demands`: a cache of the object's missing fields by the set of limited resources.
    """
    try:
        evaluator.matching_scopes(quota.scope_selectors, obj)
    except InvalidScope as problem:
        message = f"error matching scopes of quota {quota.name}, err: {problem}"
        yield Fault(FaultKind.INVALID_SCOPE, message, quota.name)
        return
    if not evaluator.matches(quota, obj):
        return
    restricted = evaluator.matching_resources(quota.hard)
    limited = frozenset(restricted)
    if limited not in demands:
        demands[limited] = evaluator.constraints(obj, restricted)
    if missing := demands[limited]:
        yield Fault(FaultKind.MUST_SPECIFY, f"failed quota: {quota.name}: {missing}", quota.name)
    elif restricted - {*quota.used}:
        names = sorted(restricted)
        message = f"status unknown for quota: {quota.name}, resources: {','.join(names)}"
        yield Fault(FaultKind.STATUS_UNKNOWN, message, quota.name, tuple(names))


def _deltas(
    old: ApiObject | None,
    interesting: Sequence[ResourceQuota],
    used: ResourceList,
    evaluator: Evaluator,
) -> dict[str, dict[str, Quantity]]:
    """Return quota name -> usage to add; under "" if no quota applies."""
    if old is None:
        return {name: without_zeros(used) for name in ([quota.name for quota in interesting] or [""])}
    change = without_zeros(subtract_to_zero(used, evaluator.usage(old)))
    if not interesting:
        return {"": change}
    return {q.name: change if evaluator.matches(q, old) else without_zeros(used) for q in interesting}


def _uncovered(
    used: ResourceList,
    interesting: Sequence[ResourceQuota],
    scopes: Sequence[ScopeSelector],
    limited: Sequence[LimitedResource],
    limited_scopes: Sequence[ScopeSelector],
    evaluator: Evaluator,
) -> list[Fault]:
    """The resources that limitedResources limits and no quota covers."""
    restricted = {name for quota in interesting for name in evaluator.matching_resources(quota.hard)}
    parts = [p for entry in limited if _is_about(entry, evaluator) for p in entry.match_contains]
    names = {name for name, quantity in used.items() if quantity.nano > 0 and any(part in name for part in parts)}
    faults = []
    if uncovered := sorted(names - restricted):
        message = f"insufficient quota to consume: {','.join(uncovered)}"
        faults.append(Fault(FaultKind.UNCOVERED_RESOURCE, message, resources=tuple(uncovered)))
    if missing := [scope for scope in limited_scopes if not is_covered_by(scope, scopes)]:
        message = f"insufficient quota to match these scopes: [{' '.join(map(str, missing))}]"
        faults.append(Fault(FaultKind.UNCOVERED_SCOPE, message))
    return faults


def _is_about(entry: LimitedResource, evaluator: Evaluator) -> bool:
    return entry.resource == evaluator.resource and not entry.api_group


def _charge(quotas: Sequence[ResourceQuota], deltas: dict[str, dict[str, Quantity]]) -> Check:
    charged, faults = [], []
    for quota in quotas:
        requested = mask(deltas.get(quota.name) or {}, quota.hard)
        used = add(quota.used, requested)
        if names := exceeded(mask(used, requested), quota.hard):
            message = (
                f"exceeded quota: {quota.name}, requested: {text(mask(requested, names))}, "
                f"used: {text(mask(quota.used, names))}, limited: {text(mask(quota.hard, names))}"
            )
            faults.append(Fault(FaultKind.EXCEEDED, message, quota.name, tuple(names)))
        charged.append(replace(quota, used=used) if requested else quota)
    return Check(tuple(faults), tuple(quotas if faults else charged))


def _max_replicas(quota: ResourceQuota, used: ResourceList) -> int:
    """The number of further objects with this usage that fit within a quota."""
    masked = mask(used, quota.hard)
    free = {name: quota.hard[name].nano - quota.used[name].nano for name in masked if name in quota.used}
    return min((max(free[name], 0) // masked[name].nano for name in free), default=2**63)


def _charged(quota: ResourceQuota, used: ResourceList, count: int) -> ResourceQuota:
    requested = mask(used, quota.hard)
    total = {name: Quantity(quantity.nano * count, quantity.format) for name, quantity in requested.items()}
    return replace(quota, used=add(quota.used, total)) if count else quota
