"""The quota usage of a Pod (pkg/quota/v1/evaluator/core/pods.go `PodUsageFunc`, `Constraints`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.kube_apiserver.quota.scopes import POD_COUNT
from forewarn.policies.kube_apiserver.validation.pod_resources import pod_limits, pod_requests, read_pod_resources
from forewarn.policies.kube_apiserver.validation.resources import DEVICE_CLASS, REQUESTS, is_extended, is_huge_page
from forewarn.policies.objects.fields import int32, text, timestamp
from forewarn.policies.objects.resource_list import add
from forewarn.policies.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from forewarn.policies.kube_apiserver.validation.pod_resources import PodResources
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_list import ResourceList

_ONE: Final = parse_quantity("1")
_NAMED: Final = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET: Final = frozenset(f"{prefix}{name}" for prefix in ("", REQUESTS, "limits.") for name in _NAMED[:2])


def usage(
    pod: ApiObject, now: float, read: Callable[[ApiObject], PodResources] = read_pod_resources
) -> dict[str, Quantity]:
    """Return the quota usage of a Pod. `now`: seconds since 1970. `read`: returns the Pod's resources. Raises
    InvalidObject.

    A Pod that has ended (by phase, or deletion and grace period) counts only as an object, `count/pods`.
    """
    counted: dict[str, Quantity] = {POD_COUNT: Quantity(_ONE.nano)}
    if not _is_charged(pod, now):
        return counted
    resources = read(pod)
    return add(counted, _by_quota_name(pod_requests(resources), pod_limits(resources)))


def constraints(
    pod: ApiObject, required: Collection[str], read: Callable[[ApiObject], PodResources] = read_pod_resources
) -> str:
    """Return a text about fields that a quota on the resources in `required` needs and the Pod does not have. Raises
    InvalidObject.

    Each container and init container must set limited cpu and memory, unless the Pod has Pod-level resources.
    """
    resources = read(pod)
    if resources.sets_pod_level:
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*resources.containers, *resources.init_containers):
        for name in _MUST_BE_SET.intersection(required) - {*_by_quota_name(container.requests, container.limits)}:
            missing.setdefault(name, set()).add(container.name)
    lines = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items())]
    return f"must specify {'; '.join(lines)}" if lines else ""


def _by_quota_name(requests: ResourceList, limits: ResourceList) -> dict[str, Quantity]:
    """The requests and limits under their names in quotas (`podComputeUsageHelper`)."""
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


def _is_charged(pod: ApiObject, now: float) -> bool:
    """Report whether quotas count a Pod's resources. Source: upstream `QuotaV1Pod`."""
    if text(pod, "status", "phase") in ("Failed", "Succeeded"):
        return False
    deleted = timestamp(pod, "metadata", "deletionTimestamp")
    grace = int32(pod, "metadata", "deletionGracePeriodSeconds")
    return deleted is None or grace is None or now <= deleted + grace
