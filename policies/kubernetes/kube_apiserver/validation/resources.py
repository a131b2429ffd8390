"""Resources of containers and Pods (names, amounts, where they are valid, API defaults, the sum for a Pod), quotas, and
LimitRanges.

Sources: pkg/apis/core/helper, pkg/apis/core/validation, pkg/apis/core/v1/defaults.go `SetDefaults_Pod`,
component-helpers `resource/helpers.go`; for ResourceQuotas `ValidateResourceQuota`, `ValidateResourceQuotaUpdate`; for
LimitRanges `ValidateLimitRange`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import field_path
from forewarn.policies.base.metering import charge, charging, meter
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import decode, tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    MAX_FAULTS,
    FieldError,
    Named,
    duplicate,
    forbidden,
    invalid,
    keyed,
    not_supported,
    qualified_name,
    required,
    validate_object_meta,
    validate_object_meta_update,
)
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    list_at,
    mapping_at,
    ref_of,
    text,
)
from forewarn.policies.kubernetes.objects.pod_resources import Container, PodResources, read_pod_resources
from forewarn.policies.kubernetes.objects.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES,
    MEMORY,
    ResourceList,
    is_huge_page,
    is_pod_level,
    mask,
    resource_list,
)
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.quantity import ZERO, InvalidQuantity, Quantity, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange, LimitRangeItem
    from forewarn.policies.kubernetes.releases.semantics import Semantics


REQUESTS: Final = "requests."
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_DEFAULT_NAMESPACE: Final = "kubernetes.io/"
_CONTAINER: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
COMPUTE: Final = frozenset(f"{prefix}{name}" for prefix in ("", REQUESTS, "limits.") for name in _CONTAINER)
QUOTA_RESOURCES: Final = COMPUTE | _COUNTED | {"requests.storage"}
_STANDARD: Final = QUOTA_RESOURCES | {"storage"}


def is_native(name: str) -> bool:
    """Report whether the name is reserved for Kubernetes (`IsNativeResource`)."""
    return "/" not in name or _DEFAULT_NAMESPACE in name


def is_extended(name: str) -> bool:
    """Report whether the name is an extended resource, such as `nvidia.com/gpu` (`IsExtendedResourceName`)."""
    return not is_native(name) and not name.startswith(REQUESTS) and not qualified_name(f"{REQUESTS}{name}")


def is_device_class(name: str) -> bool:
    """Report whether a resource of quotas counts devices of a DeviceClass (upstream `V1ResourceByDeviceClass`)."""
    return name.endswith(".deviceclass.resource.k8s.io/devices")


def is_standard_quota(name: str) -> bool:
    """Report whether the name is a standard resource of quotas (upstream `IsStandardQuotaResourceName`)."""
    return name in QUOTA_RESOURCES or name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))


def validate_quota_resource_name(name: str, path: Path, field: str) -> list[FieldError]:
    """Return the errors of a resource name in a quota (upstream `ValidateResourceQuotaResourceName`)."""
    errors = validate_resource_name(name, path, field)
    if "/" not in name and not is_standard_quota(name):
        errors.append(invalid(path, Named(name), "must be a standard resource for quota", field))
    return errors


def validate_quantity_value(name: str, value: Quantity, path: Path, field: str) -> list[FieldError]:
    """Return the errors of an amount: negative, or a fraction of a countable resource
    (`ValidateResourceQuantityValue`).
    """
    errors = []
    if value.nano < 0:
        errors.append(invalid(path, str(value), "must be greater than or equal to 0", field))
    if (name in _COUNTED or is_extended(name)) and value.milli_value % 1000:
        errors.append(invalid(path, str(value), "must be an integer", field))
    return errors


def validate_requirements(
    limits: ResourceList, requests: ResourceList, path: Path, *, pod_level: bool = False
) -> list[FieldError]:
    """Return the errors of requests and limits, by name; claims are not checked (`validateResourceRequirements`)."""
    errors: list[FieldError] = []
    charge(5 * (len(limits) + len(requests)))
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, quantity in sorted(amounts.items()):
            errors += _validate_entry(name, quantity, (*path, part), pod_level=pod_level)
            errors += _validate_against_limit(name, quantity, limits.get(name), path) if part == "requests" else []
            errors += _validate_huge_pages(name, quantity, (*path, part))
    names = {*limits, *requests}
    if any(map(is_huge_page, names)) and not names & {CPU, MEMORY}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def validate_limits(pod: PodResources, limit_range: LimitRange) -> Iterator[FieldError]:
    """Yield why a LimitRange rejects a new Pod with defaults (plugin LimitRanger, `PodValidateLimitFunc`)."""
    kinds = (("containers", pod.containers), ("initContainers", pod.init_containers))
    requests = {**pod.container_requests(), **mask(pod.requests, (CPU, MEMORY))}
    limits = {**pod.container_limits(), **mask(pod.limits, (CPU, MEMORY))}
    parts: dict[str, list[tuple[Path, Container]]] = {
        "Container": [(("spec", kind, i), each) for kind, containers in kinds for i, each in enumerate(containers)],
        "Pod": [(("spec",), Container("", limits, requests))],
    }
    for item in limit_range.limits:
        for path, part in parts.get(item.type, ()):
            charge(5 * sum(map(len, item[1:])))
            yield from _violated(item, part, (*path, "resources"))


def _violated(item: LimitRangeItem, part: Container, path: Path) -> Iterator[FieldError]:
    """Yield the requirements that amounts violate (`minConstraint`, `maxConstraint`, `limitRequestRatioConstraint`)."""
    parts, is_one = (("request", part.requests), ("limit", part.limits)), item.type == "Container"
    whose = "" if is_one else " of all containers together"

    def error(problem: str, field: str, name: str, amount: str) -> FieldError:
        place = (*path, f"{field}s", name) if is_one else path
        return FieldError(place, problem, field_path(path), f"set {field}s.{name}{whose} to {amount}")

    for bound, bounds, sign in (("minimum", item.min, 1), ("maximum", item.max, -1)):
        for name, enforced in bounds.items():
            order = [(field, amounts.get(name)) for field, amounts in parts[::sign]]
            why = [
                (field, f", but {field} is {q}")
                for field, q in order
                if q is not None and sign * (q - enforced).nano < 0
            ]
            why[:0] = [(field, f".  No {field} is specified") for field, q in order[:1] if q is None]
            amount = f"{enforced} or {'more' if sign > 0 else 'less'}"
            for field, detail in why[:1]:
                yield error(f"{bound} {name} usage per {item.type} is {enforced}{detail}", field, name, amount)
    for name, enforced in item.max_limit_request_ratio.items():
        start = f"{name} max limit to request ratio per {item.type} is {enforced}, but"
        request, limit = (min(amounts.get(name, ZERO).milli_value, 2**63 - 1) for _, amounts in parts)
        at_most = f"at most {enforced} times requests.{name}"
        if missing := [field for field, amounts in parts if not amounts.get(name)]:
            yield error(f"{start} no {missing[0]} is specified or {missing[0]} is 0", "limit", name, at_most)
        elif limit / request * 1000 > enforced.milli_value:
            yield error(f"{start} provided ratio is {limit / request:f}", "limit", name, at_most)


def _validate_entry(name: str, quantity: Quantity, path: Path, *, pod_level: bool) -> list[FieldError]:
    where, field = (*path, name), keyed(path, name)
    if not pod_level:
        errors = validate_container_resource_name(name, where, field)
    else:
        errors = validate_resource_name(name, where, field)
        if not errors and not is_pod_level(name):
            errors = [not_supported(where, name, (CPU, HUGE_PAGES, MEMORY), field)]
    return errors + validate_quantity_value(name, quantity, where, field)


def validate_container_resource_name(name: str, path: Path, field: str = "") -> list[FieldError]:
    """Return the errors of the name of a container's resource. `field`: upstream's name of the field."""
    errors = validate_resource_name(name, path, field)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            errors.append(invalid(path, Named(name), "must be a standard resource for containers", field))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, Named(name), "doesn't follow extended resource name standard", field))
    return errors


def validate_resource_name(name: str, path: Path, field: str = "") -> list[FieldError]:
    """Return the errors of the name of a resource. `field`: upstream's name of the field."""
    errors = [invalid(path, Named(name), fault, field) for fault in qualified_name(name)]
    if not errors and "/" not in name and name not in _STANDARD and not is_standard_quota(name):
        errors.append(invalid(path, Named(name), "must be a standard resource type or fully qualified", field))
    return errors


def _validate_against_limit(name: str, request: Quantity, limit: Quantity | None, path: Path) -> list[FieldError]:
    overcommit = is_native(name) and not is_huge_page(name)
    where, field = (*path, "requests", name), field_path((*path, "requests"))
    if limit is None:
        detail = "Limit must be set for non overcommitable resources"
        return [] if overcommit else [required((*path, "limits"), detail)]
    if not overcommit and request != limit:
        error = invalid(where, str(request), f"must be equal to {name} limit of {limit}", field)
        return [error._replace(fix=f"set requests.{name} and limits.{name} to the same amount")]
    if limit < request:
        error = invalid(where, str(request), f"must be less than or equal to {name} limit of {limit}", field)
        fix = f"set requests.{name} to {limit} or less, or limits.{name} to {request} or more"
        return [error._replace(fix=fix)]
    return []


def _validate_huge_pages(name: str, quantity: Quantity, path: Path) -> list[FieldError]:
    """Return the error of an amount that is no multiple of a huge page (`validateResourceQuantityHugePageValue`)."""
    if not is_huge_page(name):
        return []
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES))
    except InvalidQuantity:
        page = Quantity(0)
    if page.nano > 0 and page.milli_value % 1000 == 0 and quantity.value % page.value == 0:
        return []
    detail = f"{quantity} is not positive integer multiple of {name}"
    return [invalid((*path, name), str(quantity), detail, keyed(path, name))]


BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"


def pod_qos(pod: ApiObject) -> str:
    """Return the QoS class, from the status if it is set. Raises InvalidObject. Source: helper/qos `GetPodQOS`."""
    return text(pod, "status", "qosClass") or compute_pod_qos(read_pod_resources(pod))


def compute_pod_qos(pod: PodResources) -> str:
    """Return the QoS class that follows from a Pod's resources. Source: pkg/apis/core/v1/helper/qos `ComputePodQOS`."""
    holders = (pod,) if pod.has_own else (*pod.containers, *pod.init_containers)
    pairs = [(each.requests.get(name, ZERO), each.limits.get(name, ZERO)) for each in holders for name in (CPU, MEMORY)]
    if not any(request or limit for request, limit in pairs):
        return BEST_EFFORT
    return GUARANTEED if all(limit and request == limit for request, limit in pairs) else BURSTABLE


PRIORITY_CLASS_SCOPE: Final = "PriorityClass"
TERMINATING, NOT_TERMINATING = "Terminating", "NotTerminating"
NOT_BEST_EFFORT: Final = "NotBestEffort"
CROSS_NAMESPACE_POD_AFFINITY: Final = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS: Final = "VolumeAttributesClass"

_QUOTA_COMPUTE: Final = frozenset(name for name in COMPUTE if not name.endswith(EPHEMERAL_STORAGE)) | {"pods"}
_ONLY_EXISTS: Final = (TERMINATING, NOT_TERMINATING, BEST_EFFORT, NOT_BEST_EFFORT, CROSS_NAMESPACE_POD_AFFINITY)
_FITTING: Final = {
    **dict.fromkeys((*_ONLY_EXISTS, PRIORITY_CLASS_SCOPE), _QUOTA_COMPUTE),
    BEST_EFFORT: frozenset({"pods"}),
    VOLUME_ATTRIBUTES_CLASS: frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""Scope -> the standard resources that it supports. Every scope supports all other resources."""
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
    """Return all errors of a change of a quota in upstream's order. `scopes` is immutable, scopeSelector is not."""
    errors = validate_object_meta_update(new, old, namespaced=True) + validate_quota_spec(new)
    scopes = at(new, *_SCOPES)
    if set(scopes or ()) != set(at(old, *_SCOPES) or ()):
        errors.append(invalid(_SCOPES, scopes, "field is immutable"))
    return errors


def validate_quota_spec(obj: ApiObject) -> list[FieldError]:
    """Return the errors of `spec`: resources by name, then scopes, then the selector (`ValidateResourceQuotaSpec`)."""
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
    """Report whether a quota with this scope may limit this resource (`IsResourceQuotaScopeValidForResource`)."""
    return not is_standard_quota(resource) or scope not in _FITTING or resource in _FITTING[scope]


def _unfit(scopes: Iterable[Any], hard: Iterable[str]) -> dict[str, list[str]]:
    """Return scope -> the resources that it does not support, up to the maximum number of reported errors."""
    unfit_by_scope: dict[str, list[str]] = {}
    for scope in {scope for scope in scopes if isinstance(scope, str)} & _FITTING.keys():
        unfit = (name for name in charging(tuple(hard), 0.3) if not is_scope_valid_for(scope, name))
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


_EXPRESSION: Final = "spec.scopeSelector.matchExpressions"
"""The path of a matchExpression in upstream's messages, which omit the index."""


def _validate_scope_selector(obj: ApiObject, hard: Iterable[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    expressions = [expression or {} for expression in at(obj, *_SELECTOR) or ()]
    unfit, shown = _unfit((expression.get("scopeName") for expression in expressions), hard), None
    for index, expression in enumerate(charging(expressions, 2)):
        if len(errors) >= MAX_FAULTS:
            break
        path = (*_SELECTOR, index)
        scope = expression.get("scopeName") or ""
        if scope not in _FITTING:
            errors.append(invalid((*path, "scopeName"), Named(scope), "unsupported scope", f"{_EXPRESSION}.scopeName"))
        if unfit.get(scope):
            shown = shown or _as_go(expressions)  # upstream shows all expressions in each error
            fault = invalid((*path, "scopeName"), shown, "unsupported scope applied to resource", _EXPRESSION)
            errors += [fault] * len(unfit[scope])
        errors += _validate_operator(expression, path)
    scopes = {expression.get("scopeName") for expression in expressions}
    conflicts = [pair for pair in _CONFLICTING if {*pair} <= scopes]
    # Upstream shows spec.scopes here, even for an error of the selector.
    return errors + [invalid(_SELECTOR, at(obj, *_SCOPES), "conflicting scopes") for _ in conflicts]


def _validate_operator(expression: ApiObject, path: Path) -> list[FieldError]:
    errors = []
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if expression.get("scopeName") in _ONLY_EXISTS and operator != "Exists":
        errors.append(invalid((*path, "operator"), Named(operator), _ONLY_EXISTS_WORDS, f"{_EXPRESSION}.operator"))
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required((*path, "values"), detail, f"{_EXPRESSION}.values"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid((*path, "values"), values, detail, f"{_EXPRESSION}.values"))
    else:
        detail = "not a valid selector operator"
        errors.append(invalid((*path, "operator"), Named(operator), detail, f"{_EXPRESSION}.operator"))
    return errors


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


_BY_ITSELF: Final = "correct requests and limits"


def fault_of_resources(pod: ApiObject, whole: ApiObject, limit_ranges: Sequence[LimitRange] = ()) -> FieldError | None:
    """Return the first error of the requests and limits in a new Pod, with a fix; None for a stored Pod, or one that
    cannot be decoded.

    `whole`: the Pod with defaults of the LimitRanges.
    """
    if at(pod, "metadata", "uid") or decode.decode_fault({**pod, "kind": "Pod"}, decode.POD_STRUCT):
        return None
    if errors := validate_resources(whole):
        if whole is pod or validate_resources(pod):
            return errors[0]._replace(fix=_fix_of(errors[0], pod))
        return _default_error(errors, pod, whole, limit_ranges)
    violations = _violations(whole, limit_ranges)
    if (error := next(violations, None)) is None:
        return None
    others = [other.fix for other in islice(violations, MAX_FAULTS) if other.field == error.field]
    return error._replace(fix=", ".join(dict.fromkeys([error.fix, *others])))


def _fix_of(error: FieldError, pod: ApiObject) -> str:
    """Return how to correct the requests and limits of a Pod: extended resources and huge pages need limits."""
    own = mapping_at(pod, *error.path[:-1])
    missing = [name for name in mapping_at(own, "requests") if name not in mapping_at(own, "limits")]
    names = [name for name in missing if is_huge_page(name) or not is_native(name)]
    return f"set {names[0]} in limits" if names and error.path[-1] == "limits" else error.fix or _BY_ITSELF


def _violations(whole: ApiObject, limit_ranges: Sequence[LimitRange]) -> Iterator[FieldError]:
    """Yield the errors of a Pod in LimitRanges, with the names of the LimitRanges."""
    resources = read_pod_resources(whole) if limit_ranges else PodResources()
    for limit_range in limit_ranges:
        for error in validate_limits(resources, limit_range):
            yield error._replace(text=f"{error.text} (LimitRange {limit_range.name})")


def _default_error(
    errors: Sequence[FieldError], pod: ApiObject, whole: ApiObject, limit_ranges: Sequence[LimitRange]
) -> FieldError:
    """Return the first error of requests above default limits. The fix sets limits, if no LimitRange rejects these."""
    with_limits = {**whole["spec"]}
    for kind in with_limits.keys() & {"containers", "initContainers"}:
        with_limits[kind] = []
        for own, each in zip(list_at(pod, "spec", kind), list_at(whole, "spec", kind), strict=True):
            defaults, own_requests = mapping_at(each, "resources", "limits"), mapping_at(own, "resources", "requests")
            limits = {**defaults, **own_requests, **mapping_at(own, "resources", "limits")}
            resources = {**mapping_at(each, "resources"), "limits": limits}
            with_limits[kind].append({**each, "resources": resources})
    same = [error for error in errors if error.field == errors[0].field and at(whole, *error.path) is not None]
    names = [f"limits.{error.path[-1]} to {at(whole, *error.path)} or more" for error in same]
    fix = f"set {', '.join(names)}" if names else "set limits in the container"
    if (error := next(_violations({**whole, "spec": with_limits}, limit_ranges), None)) is not None:
        fix = f"lower requests.{same[0].path[-1]}, and {error.fix}" if same else error.fix
    return errors[0]._replace(text=f"{errors[0].text} (LimitRange default)", fix=fix)


def check_resources(obj: ApiObject) -> None:
    """Raise InvalidObject for invalid requests or limits of a Pod or Pod template. Ignores other kinds."""
    template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
    pod: ApiObject = {"spec": template.spec} if template is not None else NOTHING
    if template is not None and (error := fault_of_resources(pod, pod)):
        raise InvalidObject(
            error.text, template.at(*error.path[1:]), ref_of(obj, registry.DEFAULT_NAMESPACE), error.fix
        )


def validate_resources(pod: ApiObject) -> list[FieldError]:
    """Return the errors of the requests and limits in a decodable Pod, without other errors."""
    resources = read_pod_resources(pod)
    read = (("containers", resources.containers), ("initContainers", resources.init_containers))
    errors = [
        error
        for kind, containers in read
        for index, each in enumerate(containers)
        for error in validate_requirements(each.limits, each.requests, ("spec", kind, index, "resources"))
    ]
    return errors + (validate_pod_level(resources) if resources.has_own else [])


def validate_pod_level(resources: PodResources) -> list[FieldError]:
    """Return the errors of Pod-level resources (upstream `validatePodResources`)."""
    path = ("spec", "resources")
    errors = validate_requirements(resources.limits, resources.requests, path, pod_level=True)
    huge_pages = {name: limit for name, limit in resources.container_limits().items() if is_huge_page(name)}
    sums = (("requests", resources.requests, resources.container_requests()), ("limits", resources.limits, huge_pages))
    for part, given, needed in sums:
        for name, together in sorted(needed.items()):
            if name in given and given[name] < together:
                detail = f"must be greater than or equal to aggregate container {part} of {together}"
                where = (*path, part)
                errors.append(invalid((*where, name), str(given[name]), detail, keyed(where, name)))
    return errors + _validate_under_pod(resources)


def _validate_under_pod(resources: PodResources) -> list[FieldError]:
    errors = []
    for index, container in enumerate(resources.containers):
        for name, limit in sorted(container.limits.items()):
            most = resources.limits.get(name)
            if most is not None and most < limit:
                field = f"spec.resources.containers[{index}][{name}].limits"
                where = ("spec", "containers", index, "resources", "limits", name)
                errors.append(invalid(where, str(limit), f"must be less than or equal to pod limits of {most}", field))
    return errors


_Faults = Iterator[FieldError]
_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_NAMES: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ORDERED: Final = (
    ("min", "max", "min"), ("min", "defaultRequest", "defaultRequest"), ("min", "default", "default"),
    ("defaultRequest", "max", "defaultRequest"), ("defaultRequest", "default", "defaultRequest"),
    ("default", "max", "default"),
)  # fmt: skip
"""(field of the lower amount, field of the higher amount, field that upstream names in the error)."""
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
