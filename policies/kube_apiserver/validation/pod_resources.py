"""The resources of a Pod: its containers' resources with API defaults, and their sum.

Sources: pkg/apis/core/v1/defaults.go `SetDefaults_Pod`, component-helpers `resource/helpers.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.copies import replace
from forewarn.policies.kube_apiserver.validation.resources import CPU, MEMORY, is_huge_page, is_pod_level
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import NOTHING, at, text
from forewarn.policies.objects.resource_list import (
    ResourceList,
    add,
    exact_resource_list,
    greatest,
    resource_list,
    rounded,
)
from forewarn.policies.objects.resources import sum_of_containers
from forewarn.policies.quantity import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.quantity import Quantity


BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"
_CONTAINER: Final = 12
"""Units of work to read a container."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container's resources. `actual_…` and `allocated`: the amounts in the container's status; None if absent."""

    name: str
    limits: ResourceList
    requests: ResourceList
    is_sidecar: bool = False
    actual_limits: ResourceList | None = None
    actual_requests: ResourceList | None = None
    allocated: ResourceList | None = None


@dataclass(frozen=True, slots=True)
class PodResources:
    """A Pod's resources with defaults. `has_own`: `spec.resources` exists, even if empty."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    limits: ResourceList
    requests: ResourceList
    overhead: ResourceList
    has_own: bool = False
    resize_infeasible: bool = False

    @property
    def sets_pod_level(self) -> bool:
        """True if the Pod has Pod-level resources (`IsPodLevelResourcesSet`)."""
        return any(is_pod_level(name) for name in (*self.limits, *self.requests))


def read_pod_resources(pod: ApiObject, *, limits_too: bool = False) -> PodResources:
    """Return the resources of a Pod or Pod template with defaults, which stored Pods already have. Raises
    InvalidObject.

    `limits_too`: with the defaults since PodLevelResourcesFixDefaulting. Amounts are rounded last, as in upstream: the
    Pod-level defaults are sums of exact amounts.
    """
    statuses = {
        status.get("name"): status
        for key in ("containerStatuses", "initContainerStatuses")
        for status in _objects(pod, "status", key)
    }
    containers, init_containers = (
        tuple(_container(container, statuses, key) for container in _objects(pod, "spec", key))
        for key in ("containers", "initContainers")
    )
    resources = PodResources(
        containers,
        init_containers,
        limits=exact_resource_list(pod, "spec", "resources", "limits"),
        requests=exact_resource_list(pod, "spec", "resources", "requests"),
        overhead=resource_list(pod, "spec", "overhead"),
        has_own=at(pod, "spec", "resources") is not None,
        resize_infeasible=_is_infeasible(pod),
    )
    return _rounded(_with_defaults(resources, limits_too=limits_too) if resources.has_own else resources)


def container_requests(pod: PodResources) -> ResourceList:
    """The sum of the containers' requests in the spec (`AggregateContainerRequests` without status)."""
    return _aggregate(pod, lambda container: container.requests)


def container_limits(pod: PodResources) -> ResourceList:
    """The sum of the containers' limits in the spec (`AggregateContainerLimits` without status)."""
    return _aggregate(pod, lambda container: container.limits)


def pod_requests(pod: PodResources) -> ResourceList:
    """The requests of the Pod, including the containers' status (`PodRequests` with UseStatusResources)."""

    def effective(container: Container) -> ResourceList:
        if container.actual_requests is None:
            return container.requests
        reported = greatest(container.actual_requests, container.allocated or {})
        return reported if pod.resize_infeasible else greatest(container.requests, reported)

    total = _aggregate(pod, effective) | {name: q for name, q in pod.requests.items() if is_pod_level(name)}
    return add(total, pod.overhead)


def pod_limits(pod: PodResources) -> ResourceList:
    """The limits of the Pod, including the containers' status (`PodLimits` with UseStatusResources)."""

    def effective(container: Container) -> ResourceList:
        if container.actual_limits is None:
            return container.limits
        reported = container.actual_limits
        return reported if pod.resize_infeasible else greatest(container.limits, reported)

    total = _aggregate(pod, effective) | {name: q for name, q in pod.limits.items() if is_pod_level(name)}
    return add(total, {name: q for name, q in pod.overhead.items() if total.get(name)})


def pod_qos(pod: ApiObject) -> str:
    """Return the QoS class of a Pod or Pod template; the class in its status takes precedence. Raises InvalidObject.

    Source: pkg/apis/core/v1/helper/qos `GetPodQOS`.
    """
    return text(pod, "status", "qosClass") or compute_pod_qos(read_pod_resources(pod))


def compute_pod_qos(pod: PodResources) -> str:
    """Return the QoS class by the resources of a Pod. Source: pkg/apis/core/v1/helper/qos `ComputePodQOS`."""
    holders = (pod,) if pod.has_own else (*pod.containers, *pod.init_containers)
    pairs = [
        (holder.requests.get(name, ZERO), holder.limits.get(name, ZERO)) for holder in holders for name in (CPU, MEMORY)
    ]
    if not any(request or limit for request, limit in pairs):
        return BEST_EFFORT
    return GUARANTEED if all(limit and request == limit for request, limit in pairs) else BURSTABLE


def _aggregate(pod: PodResources, amounts: Callable[[Container], ResourceList]) -> dict[str, Quantity]:
    return sum_of_containers(
        map(amounts, pod.containers), ((amounts(container), container.is_sidecar) for container in pod.init_containers)
    )


def _container(container: ApiObject, statuses: Mapping[Any, ApiObject], key: str) -> Container:
    limits = exact_resource_list(container, "resources", "limits")
    requests = exact_resource_list(container, "resources", "requests")
    is_sidecar = key == "initContainers" and container.get("restartPolicy") == "Always"
    # The status of an init container that runs to its end does not count.
    status = statuses.get(container.get("name"), NOTHING) if is_sidecar or key == "containers" else NOTHING
    reported = status.get("resources") is not None
    return Container(
        name=container.get("name") or "",
        limits=limits,
        requests=requests | {name: q for name, q in limits.items() if name not in requests},
        is_sidecar=is_sidecar,
        actual_limits=resource_list(status, "resources", "limits") if reported else None,
        actual_requests=resource_list(status, "resources", "requests") if reported else None,
        allocated=resource_list(status, "allocatedResources") if reported else None,
    )


def _with_defaults(pod: PodResources, *, limits_too: bool) -> PodResources:
    """The resources with Pod-level defaults (upstream `defaultHugePagePodLimits` and `defaultPodRequests`).

    `limits_too`: those of upstream `DefaultPodLevelResources`.
    """
    limits = dict(pod.limits)
    if pod.limits or pod.requests:
        huge = {name: q for name, q in container_limits(pod).items() if is_huge_page(name) and name not in pod.requests}
        limits = huge | limits
    requests = dict(pod.requests)
    if limits or (limits_too and requests):
        together = container_requests(pod).items()
        requests |= {n: q for n, q in together if n not in requests and n in (CPU, MEMORY)}
        requests |= {n: q for n, q in limits.items() if n not in requests and is_pod_level(n)}
    return replace(
        pod, limits=limits | _missing_limits(pod, requests, limits) if limits_too else limits, requests=requests
    )


def _missing_limits(pod: PodResources, requests: ResourceList, limits: ResourceList) -> dict[str, Quantity]:
    """The limits of resources that every container limits (upstream `defaultPodLevelLimits`)."""
    sums, containers = container_limits(pod), (*pod.containers, *pod.init_containers)
    return {
        name: max(request, sums[name])
        for name, request in requests.items()
        if name in sums and name not in limits and is_pod_level(name) and all(name in c.limits for c in containers)
    }


def _rounded(pod: PodResources) -> PodResources:
    containers, init_containers = (
        tuple(replace(c, limits=rounded(c.limits), requests=rounded(c.requests)) for c in containers)
        for containers in (pod.containers, pod.init_containers)
    )
    return replace(
        pod,
        containers=containers,
        init_containers=init_containers,
        limits=rounded(pod.limits),
        requests=rounded(pod.requests),
    )


def _is_infeasible(pod: ApiObject) -> bool:
    """True if a resize of the Pod is infeasible (`IsPodResizeInfeasible`)."""
    pending = (c for c in _objects(pod, "status", "conditions") if c.get("type") == "PodResizePending")
    first = next(iter(pending), NOTHING)
    return bool(first.get("reason") == "Infeasible")


def _objects(obj: ApiObject, *path: str) -> Iterable[ApiObject]:
    return (item if item is not None else NOTHING for item in each(at(obj, *path) or (), _CONTAINER))
