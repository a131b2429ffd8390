"""The Pods that a quota applies to (pkg/quota/v1/evaluator/core/pods.go `podMatchesScopeFunc`, generic `Matches`)."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import (
    MAX_FAULTS,
    FieldError,
    aggregate,
    go_quote,
    invalid,
)
from forewarn.policies.kube_apiserver.validation.names import label_value
from forewarn.policies.kube_apiserver.validation.pod_resources import BEST_EFFORT, pod_qos
from forewarn.policies.kube_apiserver.validation.resource_quota import PRIORITY_CLASS_SCOPE
from forewarn.policies.kube_apiserver.validation.resources import DEVICE_CLASS, HUGE_PAGES, REQUESTS, is_native
from forewarn.policies.metering import FEW, each
from forewarn.policies.objects.fields import at
from forewarn.policies.options import ScopeSelector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota

POD_COUNT: Final = "count/pods"
_COMPUTE: Final = frozenset(
    f"{p}{r}" for p in ("", REQUESTS, "limits.") for r in ("cpu", "memory", "ephemeral-storage")
)
POD_RESOURCES: Final = _COMPUTE | {POD_COUNT, "pods"}
_TERM_KINDS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class InvalidScope(ValueError):
    """A scope's values are not valid label values, so upstream fails; the message is upstream's."""


def matching_resources(names: Iterable[str]) -> set[str]:
    """The resources of a quota that Pods use (`MatchingResources`)."""
    return {name for name in each(tuple(names), 0.3) if name in POD_RESOURCES or _is_pod_resource(name)}


def matches(quota: ResourceQuota, pod: ApiObject) -> bool:
    """Report whether a quota applies to a Pod: it limits a resource of Pods, and all its scopes match. Raises
    InvalidScope.

    Uses `status.hard`, as upstream. `pod`: as stored, after the Priority plugin.
    """
    return bool(matching_resources(quota.hard)) and all(matches_scope(s, pod) for s in quota.scope_selectors)


def matching_scopes(selectors: Iterable[ScopeSelector], pod: ApiObject) -> list[ScopeSelector]:
    """The selectors that a Pod matches (`MatchingScopes`). Raises InvalidScope."""
    return [selector for selector in selectors if matches_scope(selector, pod)]


def is_covered_by(limited: ScopeSelector, quota_scopes: Iterable[ScopeSelector]) -> bool:
    """Report whether a matching scope of a quota covers a limited scope: only the names are compared.

    Source: `UncoveredQuotaScopes`. Thus a quota without limits, or a quota with `NotIn [x]`, covers the scope.
    """
    return any(scope.scope_name == limited.scope_name for scope in quota_scopes)


def matches_scope(selector: ScopeSelector, pod: ApiObject) -> bool:
    """True if a Pod matches one scope; unknown scopes match nothing. Raises InvalidScope."""
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
    _check(selector)
    if selector.operator == "In":
        return bool(class_name) and class_name in selector.values
    if selector.operator == "NotIn":
        return not class_name or class_name not in selector.values
    return not class_name


def _check(selector: ScopeSelector) -> None:
    """Raise InvalidScope for values that are not valid label values (`NewRequirement`). Class names may be longer."""
    problem = _problem_of(selector)
    if problem:
        scope_selector = ScopeSelector(*selector[:2], selector.values[:MAX_FAULTS])
        raise InvalidScope(f"error on matching scope {scope_selector}: failed to parse and convert selector: {problem}")


_KNOWN: Final[OrderedDict[int, tuple[ScopeSelector, str]]] = OrderedDict()
"""Errors of selectors, by identity, because each Pod is compared with the same quotas."""
_MAX_KNOWN: Final = 64


def _problem_of(selector: ScopeSelector) -> str:
    if len(selector.values) <= FEW:
        return _work_out(selector)
    found = _KNOWN.get(id(selector))
    if found is None or found[0] is not selector:
        found = _KNOWN[id(selector)] = selector, _work_out(selector)
        while len(_KNOWN) > _MAX_KNOWN:
            with suppress(KeyError):  # another thread was quicker
                _KNOWN.popitem(last=False)
    return found[1]


def _work_out(selector: ScopeSelector) -> str:
    problem = ""
    if selector.operator not in ("In", "NotIn", "DoesNotExist"):
        problem = f"{go_quote(selector.operator)} is not a valid scope selector operator"
    elif errors := _value_errors(selector):
        problem = aggregate(errors)
    return problem


def _value_errors(selector: ScopeSelector) -> list[FieldError]:
    errors = []
    if selector.operator == "DoesNotExist" and selector.values:
        errors.append(invalid(("values",), selector.values, "values set must be empty for exists and does not exist"))
    elif selector.operator != "DoesNotExist" and not selector.values:
        errors.append(invalid(("values",), None, "for 'in', 'notin' operators, values set can't be empty"))
    for index, value in enumerate(each(selector.values, 1)):
        if len(errors) >= MAX_FAULTS:
            break
        if faults := label_value(value):
            field = f"values[{index}][{PRIORITY_CLASS_SCOPE}]"
            errors.append(invalid(("values", index), value, "; ".join(faults), field))
    return errors


def _uses_cross_namespace_pod_affinity(pod: ApiObject) -> bool:
    for affinity in ("podAffinity", "podAntiAffinity"):
        for kind in _TERM_KINDS:
            for entry in each(at(pod, "spec", "affinity", affinity, kind) or ()):
                term: Any = (entry or {}).get("podAffinityTerm", {}) if kind == _TERM_KINDS[1] else entry
                if term and (term.get("namespaces") or term.get("namespaceSelector") is not None):
                    return True
    return False


def _is_pod_resource(name: str) -> bool:
    if name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES)):
        return True
    return name.startswith(REQUESTS) and (not is_native(name) or name.startswith(REQUESTS + DEVICE_CLASS))
