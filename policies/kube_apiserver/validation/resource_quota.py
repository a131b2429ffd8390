"""Validation of ResourceQuotas (pkg/apis/core/validation `ValidateResourceQuota`, `ValidateResourceQuotaUpdate`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.object_meta import (
    MAX_FAULTS,
    FieldError,
    Named,
    invalid,
    keyed,
    required,
    validate_object_meta,
    validate_object_meta_update,
)
from forewarn.policies.kube_apiserver.validation.resources import (
    is_standard_quota,
    validate_quantity_value,
    validate_quota_resource_name,
)
from forewarn.policies.metering import each, meter
from forewarn.policies.objects.fields import ApiObject, at
from forewarn.policies.objects.resource_list import resource_list

if TYPE_CHECKING:
    from forewarn.policies.findings import Path

PRIORITY_CLASS_SCOPE: Final = "PriorityClass"
TERMINATING, NOT_TERMINATING = "Terminating", "NotTerminating"
BEST_EFFORT, NOT_BEST_EFFORT = "BestEffort", "NotBestEffort"
CROSS_NAMESPACE_POD_AFFINITY: Final = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS: Final = "VolumeAttributesClass"

_COMPUTE: Final = frozenset({"pods", *(f"{p}{r}" for p in ("", "requests.", "limits.") for r in ("cpu", "memory"))})
_FITTING: Final = {
    TERMINATING: _COMPUTE,
    NOT_TERMINATING: _COMPUTE,
    BEST_EFFORT: frozenset({"pods"}),
    NOT_BEST_EFFORT: _COMPUTE,
    PRIORITY_CLASS_SCOPE: _COMPUTE,
    CROSS_NAMESPACE_POD_AFFINITY: _COMPUTE,
    VOLUME_ATTRIBUTES_CLASS: frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""Scope -> the standard resources that it supports. Every scope supports other resources."""
_ONLY_EXISTS: Final = (TERMINATING, NOT_TERMINATING, BEST_EFFORT, NOT_BEST_EFFORT, CROSS_NAMESPACE_POD_AFFINITY)
_CONFLICTING: Final = ((BEST_EFFORT, NOT_BEST_EFFORT), (TERMINATING, NOT_TERMINATING))
_ONLY_EXISTS_WORDS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_SCOPES: Final[Path] = ("spec", "scopes")
_SELECTOR: Final[Path] = ("spec", "scopeSelector", "matchExpressions")


def validate_resource_quota(obj: ApiObject) -> list[FieldError]:
    """Return all errors of a new quota in upstream's order. The quota must be decodable and have a namespace."""
    return validate_object_meta(obj, namespaced=True, own_generation=True) + validate_quota_spec(obj)


def validate_resource_quota_update(new: ApiObject, old: ApiObject) -> list[FieldError]:
    """All errors of a change of a quota in upstream's order. `scopes` is immutable, scopeSelector is not."""
    errors = validate_object_meta_update(new, old, namespaced=True) + validate_quota_spec(new)
    scopes = at(new, *_SCOPES)
    if set(scopes or ()) != set(at(old, *_SCOPES) or ()):
        errors.append(invalid(_SCOPES, scopes, "field is immutable"))
    return errors


def validate_quota_spec(obj: ApiObject) -> list[FieldError]:
    """The errors of `spec`: resources by name, then scopes, then the selector (`ValidateResourceQuotaSpec`)."""
    errors: list[FieldError] = []
    hard, work = resource_list(obj, "spec", "hard"), meter()
    for name, quantity in sorted(hard.items()):
        if len(errors) >= MAX_FAULTS:
            break
        work.charge(4)
        path, field = ("spec", "hard", name), keyed(("spec", "hard"), name)
        errors += validate_quota_resource_name(name, path, field)
        errors += validate_quantity_value(name, quantity, path, field)
    return errors + _validate_scopes(at(obj, *_SCOPES), hard) + _validate_scope_selector(obj, hard)


def is_scope_valid_for(scope: str, resource: str) -> bool:
    """True if a quota with this scope may limit this resource (`IsResourceQuotaScopeValidForResource`)."""
    return not is_standard_quota(resource) or scope not in _FITTING or resource in _FITTING[scope]


def _unfit(scopes: Iterable[Any], hard: Iterable[str]) -> dict[str, list[str]]:
    """Return scope -> resources that the scope does not support, up to the maximum number of reported errors."""
    unfit_by_scope: dict[str, list[str]] = {}
    for scope in {scope for scope in scopes if isinstance(scope, str)} & _FITTING.keys():
        unfit = (name for name in each(tuple(hard), 0.3) if not is_scope_valid_for(scope, name))
        unfit_by_scope[scope] = list(islice(unfit, MAX_FAULTS))
    return unfit_by_scope


def _validate_scopes(scopes: list[str] | None, hard: Iterable[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    unfit = _unfit(scopes or (), hard)
    for scope in scopes or ():
        if len(errors) >= MAX_FAULTS:
            break
        if scope not in _FITTING:
            errors.append(invalid(_SCOPES, scopes, "unsupported scope"))
        errors += [invalid(_SCOPES, scopes, "unsupported scope applied to resource") for _ in unfit.get(scope, ())]
    conflicts = [pair for pair in _CONFLICTING if {*pair} <= set(scopes or ())]
    return errors + [invalid(_SCOPES, scopes, "conflicting scopes") for _ in conflicts]


def _validate_scope_selector(obj: ApiObject, hard: Iterable[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    expressions = [expression or {} for expression in at(obj, *_SELECTOR) or ()]
    unfit, shown = _unfit((expression.get("scopeName") for expression in expressions), hard), None
    for index, expression in enumerate(each(expressions, 2)):
        if len(errors) >= MAX_FAULTS:
            break
        path = (*_SELECTOR, index)
        scope = expression.get("scopeName") or ""
        if scope not in _FITTING:
            errors.append(invalid((*path, "scopeName"), Named(scope), "unsupported scope", _field("scopeName")))
        if unfit.get(scope):
            shown = shown or _as_go(expressions)  # upstream shows all of them, each time
            fault = invalid((*path, "scopeName"), shown, "unsupported scope applied to resource", _field())
            errors += [fault] * len(unfit[scope])
        errors += _validate_operator(expression, path)
    scopes = {expression.get("scopeName") for expression in expressions}
    conflicts = [pair for pair in _CONFLICTING if {*pair} <= scopes]
    # Upstream shows spec.scopes here, whatever the selector says.
    return errors + [invalid(_SELECTOR, at(obj, *_SCOPES), "conflicting scopes") for _ in conflicts]


def _validate_operator(expression: ApiObject, path: Path) -> list[FieldError]:
    errors = []
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if expression.get("scopeName") in _ONLY_EXISTS and operator != "Exists":
        errors.append(invalid((*path, "operator"), Named(operator), _ONLY_EXISTS_WORDS, _field("operator")))
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required((*path, "values"), detail, _field("values")))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid((*path, "values"), values, detail, _field("values")))
    else:
        detail = "not a valid selector operator"
        errors.append(invalid((*path, "operator"), Named(operator), detail, _field("operator")))
    return errors


def _field(name: str = "") -> str:
    """Return the path of a matchExpression in upstream's messages, which omit the index."""
    return ".".join(("spec", "scopeSelector", "matchExpressions", *([name] if name else [])))


def _as_go(expressions: list[ApiObject]) -> dict[str, Any]:
    """Return the selector as upstream prints it, with the field names of the internal type, which has no JSON tags."""
    shown = [
        {
            "ScopeName": expression.get("scopeName") or "",
            "Operator": expression.get("operator") or "",
            "Values": expression.get("values"),
        }
        for expression in expressions[:MAX_FAULTS]
    ]
    return {"MatchExpressions": shown}
