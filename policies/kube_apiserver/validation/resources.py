"""Resource names and amounts, and where they are valid (pkg/apis/core/helper, pkg/apis/core/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.kube_apiserver.validation.field_errors import (
    FieldError,
    Named,
    forbidden,
    invalid,
    keyed,
    not_supported,
    required,
)
from forewarn.policies.kube_apiserver.validation.names import qualified_name
from forewarn.policies.metering import charge
from forewarn.policies.quantity import InvalidQuantity, Quantity, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.findings import Path
    from forewarn.policies.objects.resource_list import ResourceList

CPU, MEMORY, EPHEMERAL_STORAGE = "cpu", "memory", "ephemeral-storage"
HUGE_PAGES: Final = "hugepages-"
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
_COMPUTE: Final = frozenset(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _CONTAINER)
_QUOTA: Final = _COMPUTE | _COUNTED | {"requests.storage"}
_STANDARD: Final = _QUOTA | {"storage"}


def is_huge_page(name: str) -> bool:
    """True for huge pages (upstream `IsHugePageResourceName`)."""
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """True if the name is reserved for Kubernetes (`IsNativeResource`)."""
    return "/" not in name or _DEFAULT_NAMESPACE in name


def is_extended(name: str) -> bool:
    """True for an extended resource such as `nvidia.com/gpu` (`IsExtendedResourceName`)."""
    return not is_native(name) and not name.startswith(REQUESTS) and not qualified_name(f"{REQUESTS}{name}")


def is_pod_level(name: str) -> bool:
    """True if Pod-level resources support the resource (`IsSupportedPodLevelResource`)."""
    return name in (CPU, MEMORY) or is_huge_page(name)


def is_standard_quota(name: str) -> bool:
    """True for a standard resource of quotas (upstream `IsStandardQuotaResourceName`)."""
    return name in _QUOTA or name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))


def validate_quota_resource_name(name: str, path: Path, field: str) -> list[FieldError]:
    """The errors of a resource name in a quota (upstream `ValidateResourceQuotaResourceName`)."""
    errors = _validate_resource_name(name, path, field)
    if "/" not in name and not is_standard_quota(name):
        errors.append(invalid(path, Named(name), "must be a standard resource for quota", field))
    return errors


def validate_quantity_value(name: str, value: Quantity, path: Path, field: str) -> list[FieldError]:
    """The errors of an amount: negative, or a fraction of a countable resource (`ValidateResourceQuantityValue`)."""
    errors = []
    if value.nano < 0:
        errors.append(invalid(path, str(value), "must be greater than or equal to 0", field))
    if (name in _COUNTED or is_extended(name)) and value.milli_value % 1000:
        errors.append(invalid(path, str(value), "must be an integer", field))
    return errors


def validate_requirements(
    limits: ResourceList, requests: ResourceList, path: Path, *, pod_level: bool = False
) -> list[FieldError]:
    """The errors of a container's or Pod's requests and limits, by name (`validateResourceRequirements`).

    Does not check claims.
    """
    errors: list[FieldError] = []
    charge(5 * (len(limits) + len(requests)))
    for name, quantity in sorted(limits.items()):
        errors += _validate_entry(name, quantity, (*path, "limits"), pod_level=pod_level)
        errors += _validate_huge_pages(name, quantity, (*path, "limits"))
    for name, quantity in sorted(requests.items()):
        errors += _validate_entry(name, quantity, (*path, "requests"), pod_level=pod_level)
        errors += _validate_against_limit(name, quantity, limits.get(name), path)
        errors += _validate_huge_pages(name, quantity, (*path, "requests"))
    names = {*limits, *requests}
    if any(map(is_huge_page, names)) and not names & {CPU, MEMORY}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def _validate_entry(name: str, quantity: Quantity, path: Path, *, pod_level: bool) -> list[FieldError]:
    where, field = (*path, name), keyed(path, name)
    errors = _validate_resource_name(name, where, field)
    if pod_level:
        if not errors and not is_pod_level(name):
            errors = [not_supported(where, name, (CPU, HUGE_PAGES, MEMORY), field)]
    elif "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            errors.append(invalid(where, Named(name), "must be a standard resource for containers", field))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(where, Named(name), "doesn't follow extended resource name standard", field))
    return errors + validate_quantity_value(name, quantity, where, field)


def _validate_resource_name(name: str, path: Path, field: str) -> list[FieldError]:
    errors = [invalid(path, Named(name), fault, field) for fault in qualified_name(name)]
    if not errors and "/" not in name and name not in _STANDARD and not is_standard_quota(name):
        errors.append(invalid(path, Named(name), "must be a standard resource type or fully qualified", field))
    return errors


def _validate_against_limit(name: str, request: Quantity, limit: Quantity | None, path: Path) -> list[FieldError]:
    overcommit = is_native(name) and not is_huge_page(name)
    where = (*path, "requests")
    if limit is None:
        detail = "Limit must be set for non overcommitable resources"
        return [] if overcommit else [required((*path, "limits"), detail)]
    if not overcommit and request != limit:
        return [invalid(where, str(request), f"must be equal to {name} limit of {limit}")]
    if limit < request:
        return [invalid(where, str(request), f"must be less than or equal to {name} limit of {limit}")]
    return []


def _validate_huge_pages(name: str, quantity: Quantity, path: Path) -> list[FieldError]:
    """The error of a fraction of a huge page (`validateResourceQuantityHugePageValue`)."""
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
