"""The ResourceQuota plugin: the quotas that apply to a request, the request's usage, and the check whether it exceeds
them; and the usage that the quota controller writes.

Sources: apiserver `pkg/admission/plugin/resourcequota/controller.go`, `CheckRequest`; kubernetes `pkg/quota/v1`
(evaluator/core/pods.go, generic); pkg/controller/resourcequota/resource_quota_controller.go, `syncResourceQuota`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from forewarn.policies.base.copies import cached_in, replace
from forewarn.policies.base.findings import cut
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.kube_apiserver.validation import object_meta
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
    BEST_EFFORT,
    COMPUTE,
    DEVICE_CLASS,
    PRIORITY_CLASS_SCOPE,
    REQUESTS,
    is_extended,
    is_native,
    pod_qos,
)
from forewarn.policies.kubernetes.objects.fields import PREFERRED, REQUIRED, ApiObject, at, text
from forewarn.policies.kubernetes.objects.pod_resources import OF_QUOTAS, PodResources, read_pod_resources
from forewarn.policies.kubernetes.objects.resources import (
    HUGE_PAGES,
    ResourceList,
    add,
    exceeded,
    is_huge_page,
    mask,
    subtract_to_zero,
    without_zeros,
)
from forewarn.policies.kubernetes.objects.resources import text as amounts_text
from forewarn.policies.kubernetes.options import LimitedResource, ScopeSelector
from forewarn.policies.kubernetes.quantity import ZERO, Quantity, format_units, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota


POD_COUNT: Final = "count/pods"
POD_RESOURCES: Final = COMPUTE | {POD_COUNT, "pods"}

QUOTAS: Final = "ResourceQuotas"
_MAX_NAME_LENGTH: Final = 100
_OF_QUOTA: Final = later("(?:exceeded|failed) quota: ([^,:]+)")
_MISSING: Final = later(r"(?:must specify|;) (\S+) for: ")


class InvalidScope(ValueError):
    """The error if a scope's values are not valid label values, for which upstream fails; with upstream's message."""


def matching_resources(names: Iterable[str]) -> set[str]:
    """Return those of a quota's resources that Pods use (`MatchingResources`)."""
    return {name for name in charging(tuple(names), 0.3) if name in POD_RESOURCES or _is_pod_resource(name)}


def counts(quota: ResourceQuota, pod: ApiObject) -> bool:
    """Report whether a stored Pod is part of a quota's usage; false for a quota with an invalid scope."""
    with suppress(InvalidScope):
        return PODS.matches(quota, pod)
    return False


def is_covered_by(limited: ScopeSelector, quota_scopes: Iterable[ScopeSelector]) -> bool:
    """Report whether a matching scope of a quota covers a limited scope: only the names are compared.

    Source: `UncoveredQuotaScopes`. Thus a quota without limits, or a quota with `NotIn [x]`, covers the scope.
    """
    return any(scope.scope_name == limited.scope_name for scope in quota_scopes)


def matches_scope(selector: ScopeSelector, pod: ApiObject) -> bool:
    """Report whether a Pod matches one scope; unknown scopes match nothing. Raises InvalidScope."""
    match selector.scope_name:
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort":
            return pod_qos(pod) == BEST_EFFORT
        case "NotBestEffort":
            return pod_qos(pod) != BEST_EFFORT
        case "CrossNamespacePodAffinity":
            return _uses_cross_namespace_pod_affinity(pod)
        case "PriorityClass":
            return _matches_class(selector, at(pod, "spec", "priorityClassName") or "")
    return False


def is_terminating(pod: ApiObject) -> bool:
    """Report whether a Pod has `activeDeadlineSeconds`, which quotas call terminating (`IsTerminating`)."""
    deadline = at(pod, "spec", "activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _matches_class(selector: ScopeSelector, class_name: str) -> bool:
    """Report whether a PriorityClass scope matches a class name; NotIn and DoesNotExist also match Pods without a
    class.
    """
    if selector.operator == "Exists":
        return bool(class_name)
    # Values must be valid label values (`NewRequirement`). Class names may be longer.
    problem = _problem_of(selector)
    if problem:
        scope_selector = ScopeSelector(*selector[:2], selector.values[: object_meta.MAX_FAULTS])
        raise InvalidScope(f"error on matching scope {scope_selector}: failed to parse and convert selector: {problem}")
    if selector.operator == "In":
        return bool(class_name) and class_name in selector.values
    if selector.operator == "NotIn":
        return not class_name or class_name not in selector.values
    return not class_name


@lru_cache(64)
def _problem_of(selector: ScopeSelector) -> str:
    """Return the error of a selector. Cached, because each Pod is compared with the same quotas."""
    if selector.operator not in ("In", "NotIn", "DoesNotExist"):
        return f"{object_meta.go_quote(selector.operator)} is not a valid scope selector operator"
    errors = _value_errors(selector)
    return object_meta.aggregate(errors) if errors else ""


def _value_errors(selector: ScopeSelector) -> list[object_meta.FieldError]:
    errors = []
    if selector.operator == "DoesNotExist" and selector.values:
        errors.append(
            object_meta.invalid(("values",), selector.values, "values set must be empty for exists and does not exist")
        )
    elif selector.operator != "DoesNotExist" and not selector.values:
        errors.append(object_meta.invalid(("values",), None, "for 'in', 'notin' operators, values set can't be empty"))
    for index, value in enumerate(charging(selector.values, 1)):
        if len(errors) >= object_meta.MAX_FAULTS:
            break
        if faults := object_meta.label_value(value):
            field = f"values[{index}][{PRIORITY_CLASS_SCOPE}]"
            errors.append(object_meta.invalid(("values", index), value, "; ".join(faults), field))
    return errors


def _uses_cross_namespace_pod_affinity(pod: ApiObject) -> bool:
    for affinity in ("podAffinity", "podAntiAffinity"):
        for kind in (REQUIRED, PREFERRED):
            for entry in charging(at(pod, "spec", "affinity", affinity, kind) or ()):
                term: Any = (entry or {}).get("podAffinityTerm", {}) if kind == PREFERRED else entry
                if term and (term.get("namespaces") or term.get("namespaceSelector") is not None):
                    return True
    return False


def _is_pod_resource(name: str) -> bool:
    if name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES)):
        return True
    return name.startswith(REQUESTS) and (not is_native(name) or name.startswith(REQUESTS + DEVICE_CLASS))


_ONE: Final = parse_quantity("1")
_NAMED: Final = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET: Final = frozenset(name for name in COMPUTE if not name.endswith(_NAMED[2]))


def _rename_for_quota(requests: ResourceList, limits: ResourceList) -> dict[str, Quantity]:
    """Return the requests and limits by their names in quotas (`podComputeUsageHelper`)."""
    used = {"pods": _ONE}
    for name in _NAMED:
        if name in requests:
            used[name] = used[f"{REQUESTS}{name}"] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if is_huge_page(name):
            used[name] = used[f"{REQUESTS}{name}"] = quantity
        elif is_extended(name) or name.startswith(DEVICE_CLASS):
            used[f"{REQUESTS}{name}"] = quantity
    return used


@dataclass(frozen=True, slots=True)
class Pods:
    """Quota usage of Pods (upstream `quota.Evaluator`)."""

    resource: str = "pods"

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        return matching_resources(names)

    def matching_scopes(self, selectors: Iterable[ScopeSelector], obj: ApiObject) -> list[ScopeSelector]:
        """Return the selectors that the Pod matches (`MatchingScopes`). Raises InvalidScope."""
        return [selector for selector in selectors if matches_scope(selector, obj)]

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:
        """Report whether a quota applies to a Pod: it limits a resource of Pods, and all its scopes match. Raises
        InvalidScope.

        Uses `status.hard`, as upstream. `obj`: as stored, after the Priority plugin.
        """
        return bool(matching_resources(quota.hard)) and all(matches_scope(s, obj) for s in quota.scope_selectors)

    def constraints(self, obj: ApiObject, required: Collection[str]) -> Mapping[str, Sequence[str]]:
        """Return the fields that a quota on the resources in `required` requires and the Pod lacks, each with the
        containers that lack it. Raises InvalidObject.

        Each container and init container must set limited cpu and memory, unless the Pod has Pod-level resources.
        """
        resources = self.resources(obj)
        if resources.sets_pod_level:
            return {}
        missing: dict[str, set[str]] = {}
        for container in (*resources.containers, *resources.init_containers):
            for name in _MUST_BE_SET.intersection(required) - {
                *_rename_for_quota(container.requests, container.limits)
            }:
                missing.setdefault(name, set()).add(container.name)
        return {name: sorted(containers) for name, containers in sorted(missing.items())}

    def usage(self, obj: ApiObject) -> ResourceList:
        """Return the quota usage of the Pod. Raises InvalidObject.

        A Pod that has terminated counts only as an object, `count/pods`. Source: upstream `QuotaV1Pod`.
        """
        counted: dict[str, Quantity] = {POD_COUNT: Quantity(_ONE.nano)}
        if text(obj, "status", "phase") in ("Failed", "Succeeded"):
            return counted
        resources = self.resources(obj)
        requests = resources.total_requests(use_status=True, counting=OF_QUOTAS)
        return add(counted, _rename_for_quota(requests, resources.total_limits()))

    def resources(self, obj: ApiObject) -> PodResources:
        return read_pod_resources(obj)


@dataclass(frozen=True, slots=True)
class RepeatedPods(Pods):
    """Evaluates Pods as `Pods` does, but reads each Pod once. The objects must exist as long as this."""

    read: dict[int, PodResources] = field(default_factory=dict)

    def resources(self, obj: ApiObject) -> PodResources:
        return cached_in(self.read, id(obj), lambda: read_pod_resources(obj))


PODS: Final = Pods()


class FaultKind(StrEnum):
    """The reason why a request is rejected."""

    MUST_SPECIFY = "must-specify"
    STATUS_UNKNOWN = "status-unknown"
    INVALID_SCOPE = "invalid-scope"
    NEGATIVE_USAGE = "negative-usage"
    UNCOVERED_RESOURCE = "uncovered-resource"
    UNCOVERED_SCOPE = "uncovered-scope"
    EXCEEDED = "exceeded"


class Excess(NamedTuple):
    """The amounts of an exceeded resource."""

    requested: Quantity
    used: Quantity
    limited: Quantity


class ExceededQuota(str):
    """Upstream's message about an exceeded quota. `amounts`: exceeded resource -> its amounts."""

    quota: str
    amounts: Mapping[str, Excess]

    def __new__(cls, quota: str, amounts: Mapping[str, Excess]) -> Self:
        """Make the message from the name of the quota and the amounts."""
        requested, used, limited = (
            amounts_text({name: excess[place] for name, excess in amounts.items()}) for place in range(3)
        )
        message = super().__new__(
            cls, f"exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}"
        )
        message.quota, message.amounts = quota, amounts
        return message

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments of `__new__`, with which other processes copy the message."""
        return self.quota, self.amounts

    @property
    def short(self) -> str:
        """The message in forewarn's words: `exceeded quota batch: 1,971 + 1 of 900 pods`."""
        amounts = (
            f"{format_units(used)} + {format_units(requested)} of {format_units(limited)} {name}"
            for name, (requested, used, limited) in self.amounts.items()
        )
        return f"exceeded quota {self.quota}: {', '.join(amounts)}"

    @property
    def excess(self) -> ResourceList:
        """How much the usage with the request exceeds the limits."""
        return {name: used + requested - limited for name, (requested, used, limited) in self.amounts.items()}


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason for a rejection, in upstream's words. `quota`: its name; "" if no single quota is the cause.
    `missing`: required field -> the containers that lack it.
    """

    kind: FaultKind
    message: str
    quota: str = ""
    resources: tuple[str, ...] = ()
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """The errors of the first stage that failed; without errors, the quotas with the request's usage added."""

    faults: tuple[Fault, ...]
    quotas: tuple[ResourceQuota, ...]


def is_exceeded_more(message: str, before: str) -> bool:
    """Report whether a request is rejected that was not before, or exceeds a limit by more. Both: "" or messages."""
    if not (isinstance(message, ExceededQuota) and isinstance(before, ExceededQuota)):
        return bool(message) and not before
    old = before.excess if before.quota == message.quota else {}
    return any(amount > old.get(name, ZERO) for name, amount in message.excess.items())


def quota_in(message: str) -> str:
    """Return the name of the quota in upstream's message about a rejection; "" if it names none."""
    found = _OF_QUOTA.match(message)
    return found[1] if found else ""


def rejecting(messages: Collection[tuple[str, str]]) -> str:
    """Return what rejects Pods: `quota shop/a (must specify requests.cpu)`, without a name if there are several quotas.
    `messages`: upstream's with their namespaces.
    """
    quotas = {(namespace, quota_in(message)) for namespace, message in messages}
    missing = {", ".join(_MISSING.findall(message)) for _, message in messages}
    why = f" (must specify {', '.join(missing)})" if len(missing) == 1 and all(missing) else ""
    return f"quota {cut('/'.join(*quotas), _MAX_NAME_LENGTH)}{why}" if len(quotas) == 1 and all(*quotas) else QUOTAS


def check_request(obj: ApiObject, quotas: Sequence[ResourceQuota], *, evaluator: Pods = PODS) -> Check:
    """Check whether a new object, after the Priority plugin, exceeds a quota of its namespace. Raises InvalidObject.

    `quotas`: the namespace's quotas, sorted by name (upstream's order is arbitrary). Excludes limitedResources: see
    `uncovered`.
    """
    demands: dict[frozenset[str], Mapping[str, Sequence[str]]] = {}
    if faults := [fault for quota in quotas for fault in _static_faults(quota, obj, evaluator, demands)]:
        return Check(tuple(faults), tuple(quotas))
    used = evaluator.usage(obj)
    if negative := sorted(name for name, quantity in used.items() if quantity.nano < 0):
        message = f"quota usage is negative for resource(s): {','.join(negative)}"
        return Check((Fault(FaultKind.NEGATIVE_USAGE, message, resources=tuple(negative)),), tuple(quotas))
    used = without_zeros(used)
    return _charge(quotas, {quota.name: used for quota in quotas if evaluator.matches(quota, obj)})


def first_rejected(pod: ApiObject, quotas: Sequence[ResourceQuota], *, replicas: int) -> tuple[int, Check]:
    """Return the number of the first rejected Pod of `replicas` equal Pods, from 1 (0 if none), and the last check.

    The check contains the quotas with the usage of the preceding Pods.
    """
    evaluator = RepeatedPods()
    check = check_request(pod, quotas, evaluator=evaluator)
    if check.faults or replicas < 1:
        return (1 if check.faults else 0), check
    used = without_zeros(evaluator.usage(pod))
    is_met = [PODS.matches(quota, pod) for quota in quotas]
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
        quota
        for quota in quotas
        if not any(f.kind is FaultKind.INVALID_SCOPE for f in _static_faults(quota, obj, PODS, {}))
    ]
    try:
        limited_scopes = [scope for entry in limited for scope in PODS.matching_scopes(entry.match_scopes, obj)]
    except InvalidScope:
        return []
    return _uncovered(obj, readable, limited, limited_scopes, PODS)


def _static_faults(
    quota: ResourceQuota, obj: ApiObject, evaluator: Pods, demands: dict[frozenset[str], Mapping[str, Sequence[str]]]
) -> Iterable[Fault]:
    """Yield the unmet requirements of a quota that do not depend on usage; none if the quota does not apply to the
    object.

    `demands`: a cache: set of limited resources -> missing fields of the object.
    """
    try:
        evaluator.matching_scopes(quota.scope_selectors, obj)
    except InvalidScope as problem:
        yield Fault(FaultKind.INVALID_SCOPE, f"error matching scopes of quota {quota.name}, err: {problem}", quota.name)
        return
    if not evaluator.matches(quota, obj):
        return
    restricted = evaluator.matching_resources(quota.hard)
    limited = frozenset(restricted)
    if limited not in demands:
        demands[limited] = evaluator.constraints(obj, restricted)
    if missing := demands[limited]:
        message = f"failed quota: {quota.name}: {must_specify(missing)}"
        yield Fault(FaultKind.MUST_SPECIFY, message, quota.name, missing=missing)
    elif restricted - {*quota.used}:
        names = sorted(restricted)
        message = f"status unknown for quota: {quota.name}, resources: {','.join(names)}"
        yield Fault(FaultKind.STATUS_UNKNOWN, message, quota.name)


def must_specify(missing: Mapping[str, Sequence[str]]) -> str:
    """Return upstream's text about missing fields, by field with the containers that lack it."""
    return "must specify " + "; ".join(f"{name} for: {','.join(names)}" for name, names in missing.items())


def _uncovered(
    obj: ApiObject,
    quotas: Sequence[ResourceQuota],
    limited: Sequence[LimitedResource],
    limited_scopes: Sequence[ScopeSelector],
    evaluator: Pods,
) -> list[Fault]:
    scopes = [scope for quota in quotas for scope in evaluator.matching_scopes(quota.scope_selectors, obj)]
    interesting = [quota for quota in quotas if evaluator.matches(quota, obj)]
    restricted = {name for quota in interesting for name in evaluator.matching_resources(quota.hard)}
    about = [entry for entry in limited if entry.resource == evaluator.resource and not entry.api_group]
    parts = [part for entry in about for part in entry.match_contains]
    used = evaluator.usage(obj)
    names = {name for name, quantity in used.items() if quantity.nano > 0 and any(part in name for part in parts)}
    faults = []
    if uncovered := sorted(names - restricted):
        message = f"insufficient quota to consume: {','.join(uncovered)}"
        faults.append(Fault(FaultKind.UNCOVERED_RESOURCE, message, resources=tuple(uncovered)))
    if missing := [scope for scope in limited_scopes if not is_covered_by(scope, scopes)]:
        message = f"insufficient quota to match these scopes: [{' '.join(map(str, missing))}]"
        faults.append(Fault(FaultKind.UNCOVERED_SCOPE, message))
    return faults


def _charge(quotas: Sequence[ResourceQuota], deltas: Mapping[str, ResourceList]) -> Check:
    charged, faults = [], []
    for quota in quotas:
        requested = mask(deltas.get(quota.name) or {}, quota.hard)
        used = add(quota.used, requested)
        if names := exceeded(mask(used, requested), quota.hard):
            amounts = {name: Excess(requested[name], quota.used.get(name, ZERO), quota.hard[name]) for name in names}
            faults.append(Fault(FaultKind.EXCEEDED, ExceededQuota(quota.name, amounts), quota.name, tuple(names)))
        charged.append(replace(quota, used=used) if requested else quota)
    return Check(tuple(faults), tuple(quotas if faults else charged))


def _max_replicas(quota: ResourceQuota, used: ResourceList) -> int:
    masked = mask(used, quota.hard)
    free = {name: quota.hard[name].nano - quota.used[name].nano for name in masked if name in quota.used}
    return min((max(free[name], 0) // masked[name].nano for name in free), default=2**63)


def _charged(quota: ResourceQuota, used: ResourceList, count: int) -> ResourceQuota:
    requested = mask(used, quota.hard)
    total = {name: Quantity(quantity.nano * count, quantity.format) for name, quantity in requested.items()}
    return replace(quota, used=add(quota.used, total)) if count else quota


def given_back(quotas: Iterable[ResourceQuota], pod: ApiObject, used: ResourceList) -> tuple[ResourceQuota, ...]:
    """Return the quotas, with these amounts subtracted from those that count the Pod."""
    return tuple(
        replace(quota, used=subtract_to_zero(quota.used, mask(used, quota.hard))) if counts(quota, pod) else quota
        for quota in quotas
    )


_COUNTING: Final = 50
"""Units of work to read a Pod and to compare it with a quota."""


def recalculated(quota: ResourceQuota, pods: Iterable[ApiObject], evaluator: Pods = PODS) -> ResourceQuota:
    """Return the quota with the usage of `pods`, which are those of its namespace, as after a full sync.

    Terminal Pods do not count.
    """
    current = replace(quota, hard=quota.spec_hard or quota.hard)
    used = dict.fromkeys(current.hard, ZERO)
    if not evaluator.matching_resources(current.hard):
        return replace(current, used=used)
    for pod, count in _equal(pods):
        charge(_COUNTING + len(quota.scope_selectors))
        for name, amount in mask(evaluator.usage(pod), used).items() if counts(current, pod) else ():
            used[name] = used[name] + Quantity(amount.nano * count, amount.format)
    return replace(current, used=used)


def _equal(pods: Iterable[ApiObject]) -> Iterable[tuple[ApiObject, int]]:
    """Return the Pods, and how often each object occurs."""
    times: dict[int, tuple[ApiObject, int]] = {}
    for pod in pods:
        times[id(pod)] = pod, times.get(id(pod), (pod, 0))[1] + 1
    return times.values()
