"""What pods ask for: component-helpers/resource.PodRequests, and framework.Resource."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from tests.policies.scheduling.reference.objects import (
    Obj,
    containers,
    init_containers,
    milli,
    quantity,
    restartable,
    spec,
    status,
    whole,
)

ResourceList: TypeAlias = dict[str, Fraction]

# schedutil.DefaultMilliCPURequest and DefaultMemoryRequest: what scoring assumes of a container that asks for nothing.
NON_ZERO_DEFAULTS: Mapping[str, Fraction] = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 1024 * 1024)}


def resource_list(given: Mapping[str, str | int | float] | None) -> ResourceList:
    return {name: quantity(value) for name, value in (given or {}).items()}


def add_to(total: ResourceList, more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def raise_to(total: ResourceList, other: Mapping[str, Fraction]) -> None:
    """maxResourceList."""
    for name, value in other.items():
        if name not in total or value > total[name]:
            total[name] = value


def is_pod_level_resource(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def pod_level_requests(pod: Obj) -> ResourceList:
    """The supported part of spec.resources.requests."""
    given = resource_list((spec(pod).get("resources") or {}).get("requests"))
    return {name: value for name, value in given.items() if is_pod_level_resource(name)}


def is_resize_infeasible(pod: Obj) -> bool:
    for condition in status(pod).get("conditions") or []:
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def effective_requests(pod: Obj, wanted: ResourceList, actuated: ResourceList, allocated: ResourceList) -> ResourceList:
    """determineEffectiveRequests."""
    result = dict(actuated) if is_resize_infeasible(pod) else dict(wanted)
    for other in (actuated, allocated):
        raise_to(result, other)
    return result


@dataclass(frozen=True)
class Options:
    """PodResourcesOptions, as far as the default profile sets them."""

    use_status: bool = False
    resize_pod_level: bool = False
    skip_pod_level: bool = False
    non_missing: Mapping[str, Fraction] = field(default_factory=dict)


def container_requests(pod: Obj, container: Obj, statuses: Mapping[str, Obj], options: Options) -> ResourceList:
    requests = resource_list((container.get("resources") or {}).get("requests"))
    found = statuses.get(container.get("name", ""))
    if found is not None and found.get("resources") is not None:
        actuated = resource_list(found["resources"].get("requests"))
        requests = effective_requests(pod, requests, actuated, resource_list(found.get("allocatedResources")))
    return {**options.non_missing, **requests}


def aggregate_container_requests(pod: Obj, options: Options) -> ResourceList:
    statuses: dict[str, Obj] = {}
    if options.use_status:
        for kind in ("containerStatuses", "initContainerStatuses"):
            statuses.update({found.get("name", ""): found for found in status(pod).get(kind) or []})
    total: ResourceList = {}
    for container in containers(pod):
        add_to(total, container_requests(pod, container, statuses, options))
    sidecars: ResourceList = {}
    highest: ResourceList = {}
    for container in init_containers(pod):
        if restartable(container):
            requests = container_requests(pod, container, statuses, options)
            add_to(total, requests)
            add_to(sidecars, requests)
            use = dict(sidecars)
        else:
            use = container_requests(pod, container, {}, options)
            add_to(use, sidecars)
        raise_to(highest, use)
    raise_to(total, highest)
    return total


def pod_requests(pod: Obj, options: Options) -> ResourceList:
    """PodRequests: exact quantities by resource name."""
    total = aggregate_container_requests(pod, options)
    pod_level = {} if options.skip_pod_level else pod_level_requests(pod)
    if pod_level:
        effective = pod_level
        actual = status(pod).get("resources")
        if options.use_status and options.resize_pod_level and actual is not None:
            wanted = resource_list((spec(pod).get("resources") or {}).get("requests"))
            allocated = resource_list(status(pod).get("allocatedResources"))
            effective = effective_requests(pod, wanted, resource_list(actual.get("requests")), allocated)
        for name in pod_level:
            total[name] = effective.get(name, Fraction(0))
    add_to(total, resource_list(spec(pod).get("overhead")))
    return total


def is_scalar(name: str) -> bool:
    """schedutil.IsScalarResourceName."""
    native = "/" not in name or "kubernetes.io/" in name
    extended = not native and not name.startswith("requests.")
    return extended or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


@dataclass
class Resource:
    """framework.Resource: cpu in thousandths, everything else in whole units."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pods: int = 0
    scalar: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, requests: ResourceList) -> "Resource":
        made = cls()
        for name, value in requests.items():
            if name == "cpu":
                made.milli_cpu = milli(value)
            elif name == "memory":
                made.memory = whole(value)
            elif name == "pods":
                made.allowed_pods = whole(value)
            elif name == "ephemeral-storage":
                made.ephemeral_storage = whole(value)
            elif is_scalar(name):
                made.scalar[name] = whole(value)
        return made

    def add(self, other: "Resource", sign: int) -> None:
        self.milli_cpu += sign * other.milli_cpu
        self.memory += sign * other.memory
        self.ephemeral_storage += sign * other.ephemeral_storage
        for name, value in other.scalar.items():
            self.scalar[name] = self.scalar.get(name, 0) + sign * value

    def clone(self) -> "Resource":
        return Resource(self.milli_cpu, self.memory, self.ephemeral_storage, self.allowed_pods, dict(self.scalar))


def non_zero_requests(pod: Obj, requests: ResourceList, options: Options) -> tuple[int, int]:
    """The cpu (thousandths) and memory (bytes) that scoring counts for a pod on a node: PodInfo.CalculateResource."""
    missing: Mapping[str, Fraction] = NON_ZERO_DEFAULTS
    if pod_level_requests(pod):
        missing = {name: value for name, value in NON_ZERO_DEFAULTS.items() if name not in requests}
    if missing:
        requests = pod_requests(pod, Options(options.use_status, options.resize_pod_level, non_missing=missing))
    return milli(requests.get("cpu", Fraction(0))), whole(requests.get("memory", Fraction(0)))
