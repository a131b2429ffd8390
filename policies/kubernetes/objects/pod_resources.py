"""The resources of a Pod's containers and of the Pod itself, with the API server's defaults, and their sums.

Sources: component-helpers `resource/helpers.go`, pkg/apis/core/v1/defaults.go `SetDefaults_Pod`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    OBJECT,
    ApiObject,
    InvalidObject,
    at,
    json_type,
    mapping,
    ref_of,
    sequence,
    within,
)
from forewarn.policies.kubernetes.objects.resources import (
    CPU,
    MEMORY,
    ResourceList,
    add,
    add_to,
    amounts_at,
    is_huge_page,
    is_pod_level,
    largest_of,
    raise_to,
    rounded,
)
from forewarn.policies.kubernetes.quantity import ZERO, Quantity, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path

NON_ZERO_DEFAULTS: Final = {CPU: parse_quantity("100m"), MEMORY: parse_quantity("200Mi")}
"""The request assumed for a container without requests when nodes are scored.

Source: pkg/scheduler/util/pod_resources.go.
"""

_CONTAINER_WORK: Final = 12
"""Units of work to read a container."""


class Counting(NamedTuple):
    """How a release counts Pods with an in-place resize.

    `pod_level`: whether the status of Pod-level resources counts. `by_pod`: whether the result is the maximum of three
    sums, and not the sum of the maximum for each container.
    """

    pod_level: bool = True
    by_pod: bool = False


USUAL: Final = Counting()
OF_QUOTAS: Final = Counting(pod_level=False)
OTHER_COUNTINGS: Final = (OF_QUOTAS, Counting(True, True), Counting(False, True))


class Running(NamedTuple):
    """The amounts in the kubelet's status of a container or Pod; None if absent.

    `allocated`: `allocatedResources`. `reported`: whether the status has `resources`.
    """

    requests: ResourceList | None = None
    limits: ResourceList | None = None
    allocated: ResourceList | None = None
    reported: bool = False


SILENT: Final = Running()


class Container(NamedTuple):
    """A container's resources. `runs_to_end`: true for an init container that is not a sidecar."""

    name: str
    limits: ResourceList
    requests: ResourceList
    running: Running = SILENT
    runs_to_end: bool = False


class PodResources(NamedTuple):
    """A Pod's resources with defaults. `has_own`: `spec.resources` exists, even if empty.

    `infeasible`: whether the requested in-place resize is infeasible.
    """

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    limits: ResourceList = NOTHING
    requests: ResourceList = NOTHING
    overhead: ResourceList = NOTHING
    running: Running = SILENT
    has_own: bool = False
    infeasible: bool = False

    @property
    def sets_pod_level(self) -> bool:
        """True if the Pod has Pod-level resources (`IsPodLevelResourcesSet`)."""
        return any(map(is_pod_level, (*self.limits, *self.requests)))

    @property
    def resizing(self) -> bool:
        """Whether the kubelet's status has resources, so that the requests may differ between releases."""
        running = (self.running, *(container.running for container in (*self.containers, *self.init_containers)))
        return self.infeasible or any(status != SILENT for status in running)

    def container_requests(self) -> dict[str, Quantity]:
        """Return the sum of the containers' requests in the spec (`AggregateContainerRequests` without status)."""
        return self._sum(_requests)

    def container_limits(self) -> dict[str, Quantity]:
        """Return the sum of the containers' limits in the spec (`AggregateContainerLimits` without status)."""
        return self._sum(_limits)

    def total_requests(
        self,
        *,
        use_status: bool,
        counting: Counting = USUAL,
        skip_pod_level: bool = False,
        non_missing: ResourceList = NOTHING,
    ) -> dict[str, Quantity]:
        """Return the requests of the whole Pod. Source: component-helpers `PodRequests`.

        `use_status`: include resources that the kubelet has allocated in a resize. `counting`: of the release.
        `skip_pod_level`: ignore Pod-level requests. `non_missing`: requests for containers without them.
        """
        if not use_status:
            total = self._sum(_requests, non_missing)
        elif counting.by_pod:
            # The maximum of the sums. Source: component-helpers since 1.37, `AggregateContainerRequests`.
            actual, allocated = self.running.requests, self.running.allocated
            if not counting.pod_level or actual is None or allocated is None:
                actual, allocated = self._sum(self._actual, non_missing), self._sum(self._allocated, non_missing)
            spec = {} if self.infeasible else self._sum(_requests, non_missing)
            total = largest_of((spec, actual, allocated))
        else:
            total = self._sum(self._effective_requests, non_missing)
        if not skip_pod_level and self.sets_pod_level:
            requests, running = self.requests, self.running
            if use_status and counting.pod_level and running.reported:
                requests = self._effective(self.requests, running.requests, running.allocated)
                if not counting.by_pod:
                    requests = {name: requests.get(name, ZERO) for name in self.requests}
            total |= pod_level(requests)
        return add(total, self.overhead)

    def total_limits(self) -> dict[str, Quantity]:
        """Return the limits of the whole Pod, including those in the status (`PodLimits` with UseStatusResources)."""
        total = self._sum(self._effective_limits) | pod_level(self.limits)
        return add(total, {name: quantity for name, quantity in self.overhead.items() if total.get(name)})

    def _sum(
        self, amounts: Callable[[Container], ResourceList], missing: ResourceList = NOTHING
    ) -> dict[str, Quantity]:
        """Return the sum for containers and sidecars, or the largest need of an init container if that is more.

        `amounts`: of a container. `missing`: amounts for containers without them. Source: component-helpers
        `AggregateContainerRequests`, `AggregateContainerLimits`.
        """
        total: dict[str, Quantity] = {}
        for container in self.containers:
            add_to(total, {**missing, **amounts(container)})
        sidecars: dict[str, Quantity] = {}
        largest: dict[str, Quantity] = {}
        for container in self.init_containers:
            use = {**missing, **amounts(container)}
            if not container.runs_to_end:
                add_to(total, use)
                add_to(sidecars, use)
                raise_to(largest, sidecars)
            else:
                add_to(use, sidecars)
                raise_to(largest, use)
        raise_to(total, largest)
        return total

    def _effective_requests(self, container: Container) -> ResourceList:
        """Return the maximum of spec and status. Source: component-helpers up to 1.36 `determineEffectiveRequests`."""
        running = container.running
        if not running.reported or container.runs_to_end:
            return container.requests
        return self._effective(container.requests, running.requests, running.allocated)

    def _effective_limits(self, container: Container) -> ResourceList:
        if not container.running.reported or container.runs_to_end:
            return container.limits
        return self._effective(container.limits, container.running.limits)

    def _effective(self, spec: ResourceList, *status: ResourceList | None) -> dict[str, Quantity]:
        return largest_of(amounts for amounts in (None if self.infeasible else spec, *status) if amounts is not None)

    def _allocated(self, container: Container) -> ResourceList:
        if container.running.allocated is not None:
            return container.running.allocated
        return NOTHING if self.infeasible else container.requests

    def _actual(self, container: Container) -> ResourceList:
        actual = container.running.requests
        return self._allocated(container) if actual is None else actual


def _requests(container: Container) -> ResourceList:
    return container.requests


def _limits(container: Container) -> ResourceList:
    return container.limits


def pod_level(amounts: ResourceList) -> dict[str, Quantity]:
    """Return only the amounts that may be set for the Pod as a whole."""
    return {name: quantity for name, quantity in amounts.items() if is_pod_level(name)}


def requests_in_spec(pod: ApiObject) -> dict[str, Quantity]:
    """Return the requests of a new Pod. Raises InvalidObject, also for negative amounts."""
    return read_pod_resources(pod, use_status=False, accept_negative=False).total_requests(use_status=False)


def read_pod_resources(
    pod: ApiObject, *, use_status: bool = True, limits_too: bool = False, accept_negative: bool = True
) -> PodResources:
    """Return the resources of a Pod or Pod template with defaults, which stored Pods already have. Raises
    InvalidObject.

    `limits_too`: with the defaults since PodLevelResourcesFixDefaulting. `accept_negative`: as kube-apiserver
    before validation. Amounts are rounded last, as in upstream: the Pod-level defaults are sums of exact amounts.
    """
    read = partial(amounts_at, accept_negative=accept_negative)
    statuses: dict[str, Running] = {}
    for key in ("containerStatuses", "initContainerStatuses") if use_status else ():
        for path, status in _objects(pod, "status", key):
            with within(pod, *path):
                statuses[str(status.get("name"))] = _running(status, read)
    containers: dict[str, list[Container]] = {"containers": [], "initContainers": []}
    for key, together in containers.items():
        for path, container in _objects(pod, "spec", key):
            with within(pod, *path):
                limits, requests = (read(container, "resources", part) for part in ("limits", "requests"))
            running = statuses.get(str(container.get("name")), SILENT)
            runs_to_end = key == "initContainers" and container.get("restartPolicy") != "Always"
            name = str(container.get("name") or "")
            together.append(Container(name, limits, {**limits, **requests}, running, runs_to_end))
    # Source: `IsPodResizeInfeasible`.
    pending = (c for _, c in _objects(pod, "status", "conditions") if c.get("type") == "PodResizePending")
    resources = PodResources(
        containers=tuple(containers["containers"]),
        init_containers=tuple(containers["initContainers"]),
        limits=read(pod, "spec", "resources", "limits"),
        requests=read(pod, "spec", "resources", "requests"),
        overhead=rounded(read(pod, "spec", "overhead")),
        running=_running(mapping(pod, "status"), read) if use_status else SILENT,
        has_own=at(pod, "spec", "resources") is not None,
        infeasible=use_status and next(pending, NOTHING).get("reason") == "Infeasible",
    )
    return _rounded(_with_defaults(resources, limits_too=limits_too) if resources.has_own else resources)


def _objects(pod: ApiObject, *path: str) -> Iterator[tuple[Path, ApiObject]]:
    """Yield the objects of a list with their paths. A null object is empty, as in Go's decoder."""
    for index, item in enumerate(charging(sequence(pod, *path), _CONTAINER_WORK)):
        if item is not None and not isinstance(item, OBJECT):
            raise InvalidObject(f"must be an object, not {json_type(item)}", (*path, index), ref_of(pod))
        yield (*path, index), item or NOTHING


def _running(status: ApiObject, read: Callable[..., ResourceList]) -> Running:
    keys = (("resources", "requests"), ("resources", "limits"), ("allocatedResources",))
    requests, limits, allocated = (None if at(status, *key) is None else rounded(read(status, *key)) for key in keys)
    return Running(requests, limits, allocated, status.get("resources") is not None)


def _with_defaults(pod: PodResources, *, limits_too: bool) -> PodResources:
    """Return the resources with Pod-level defaults (upstream `defaultHugePagePodLimits` and `defaultPodRequests`).

    `limits_too`: those of upstream `DefaultPodLevelResources`.
    """
    limits = dict(pod.limits)
    if pod.limits or pod.requests:
        together = pod.container_limits().items()
        limits = {name: q for name, q in together if is_huge_page(name) and name not in pod.requests} | limits
    requests = dict(pod.requests)
    if limits or (limits_too and requests):
        together = pod.container_requests().items()
        requests |= {n: q for n, q in together if n not in requests and n in (CPU, MEMORY)}
        requests |= {n: q for n, q in pod_level(limits).items() if n not in requests}
    limits = limits | _missing_limits(pod, requests, limits) if limits_too else limits
    return pod._replace(limits=limits, requests=requests)


def _missing_limits(pod: PodResources, requests: ResourceList, limits: ResourceList) -> dict[str, Quantity]:
    """Return the limits of resources that every container limits (upstream `defaultPodLevelLimits`)."""
    sums, containers = pod.container_limits(), (*pod.containers, *pod.init_containers)
    return {
        name: max(request, sums[name])
        for name, request in pod_level(requests).items()
        if name in sums and name not in limits and all(name in container.limits for container in containers)
    }


def _rounded(pod: PodResources) -> PodResources:
    containers, init_containers = (
        tuple(c._replace(limits=rounded(c.limits), requests=rounded(c.requests)) for c in containers)
        for containers in (pod.containers, pod.init_containers)
    )
    limits, requests = rounded(pod.limits), rounded(pod.requests)
    return pod._replace(containers=containers, init_containers=init_containers, limits=limits, requests=requests)
