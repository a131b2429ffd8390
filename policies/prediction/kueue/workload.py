"""What a Workload requests and uses, and its equivalence class. Source: kueue pkg/workload."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.cluster.admission import limit_range_defaults
from forewarn.policies.kubernetes.objects import kueue
from forewarn.policies.kubernetes.objects.fields import ApiObject, mapping, objects_at
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources, requests_in_spec
from forewarn.policies.kubernetes.objects.resources import ResourceList, in_nano
from forewarn.policies.kubernetes.quantity import NANO, Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.kubernetes.objects.kueue import Configuration, PodSet, PodSetAssignment, Workload
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange


@dataclass(frozen=True, slots=True)
class PodSetResources:
    """The requests of all `count` Pods of a PodSet. `flavors`: empty without quota."""

    name: str
    requests: dict[str, kueue.Amount]
    count: int
    flavors: Mapping[str, str] = field(default_factory=dict)

    def scaled_to(self, count: int) -> PodSetResources:
        if self.count in (0, count):
            return self
        return PodSetResources(self.name, kueue.scaled_to(self.requests, self.count, count), count, self.flavors)


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The flavors that the last attempt tried: their index by resource, for each PodSet; -1 after the last flavor.

    `generation`: of the ClusterQueue. Source: `AssignmentClusterQueueState`.
    """

    last_tried_flavor_idx: tuple[Mapping[str, int], ...]
    generation: int

    @property
    def has_pending_flavors(self) -> bool:
        return any(index != -1 for indexes in self.last_tried_flavor_idx for index in indexes.values())

    def next_flavor_to_try(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self.last_tried_flavor_idx):
            return 0
        return self.last_tried_flavor_idx[pod_set].get(resource, -1) + 1


@dataclass(eq=False)
class Info:
    """A Workload in a queue or with quota. Only `last_assignment` changes."""

    obj: Workload
    cluster_queue: str
    total_requests: tuple[PodSetResources, ...]
    last_assignment: LastAssignment | None = None

    @classmethod
    def from_workload(cls, workload: Workload, cluster_queue: str) -> Info:
        """Return the Info of a Workload with quota in the ClusterQueue that it has, or of a waiting one."""
        if workload.has_quota and workload.admission is not None:
            requests = tuple(_from_admission(workload, each) for each in workload.admission.pod_sets)
            return cls(workload, workload.admission.cluster_queue, requests)
        return cls(workload, cluster_queue, tuple(_from_pod_set(workload, each) for each in workload.pod_sets))

    @cached_property
    def key(self) -> str:
        return self.obj.key

    @cached_property
    def rank(self) -> tuple[object, ...]:
        """The order of queues: by priority and age. Source: `baseCompareFunc`."""
        return -self.obj.priority, self.obj.queued_since, self.obj.uid, self.key

    @cached_property
    def usage(self) -> kueue.Quantities:
        """The usage by flavor and resource. Source: `FlavorResourceUsage`."""
        total: kueue.Quantities = {}
        for pod_set in self.total_requests:
            for resource, amount in pod_set.requests.items():
                fr = kueue.FlavorResource(pod_set.flavors.get(resource, ""), resource)
                total[fr] = kueue.add(total.get(fr, 0), amount)
        return total

    @cached_property
    def assigned(self) -> frozenset[kueue.FlavorResource]:
        """The resources with an assigned flavor, for `WorkloadUsesResources`."""
        return frozenset(
            kueue.FlavorResource(flavor, resource)
            for pod_set in self.total_requests
            for resource, flavor in pod_set.flavors.items()
        )

    @cached_property
    def scheduling_hash(self) -> str:
        """The equivalence class: Workloads of the same class get the same flavors. Source: `computeSchedulingHash`."""
        shapes = [
            (pod_set.name, _shape(pod_set.spec), resources.count, resources.requests, pod_set.min_count)
            for pod_set, resources in zip(self.obj.pod_sets, self.total_requests, strict=False)
        ]
        return json.dumps([self.obj.priority, shapes], sort_keys=True)


def _count_after_reclaim(workload: Workload, name: str, count: int) -> int:
    """Return the count less Pods that no longer need their quota. Source: `podSetsCountsAfterReclaim`."""
    return count - min(workload.reclaimable_pods.get(name, 0), count)


def _from_pod_set(workload: Workload, pod_set: PodSet) -> PodSetResources:
    count = _count_after_reclaim(workload, pod_set.name, pod_set.count)
    requests = {name: kueue.saturated(amount * count) for name, amount in pod_set.requests.items()}
    return PodSetResources(pod_set.name, requests, count)


def _from_admission(workload: Workload, assigned: PodSetAssignment) -> PodSetResources:
    """Source: `totalRequestsFromAdmission`."""
    total = next((each.count for each in workload.pod_sets if each.name == assigned.name), 0)
    count = total if assigned.count is None else assigned.count
    resources = PodSetResources(assigned.name, dict(assigned.resource_usage), count, assigned.flavors)
    remaining = _count_after_reclaim(workload, assigned.name, total)
    return resources.scaled_to(remaining) if remaining < count else resources


def with_adjusted_resources(
    workload: Workload, limit_ranges: Sequence[LimitRange], configuration: Configuration
) -> Workload:
    """Return a waiting Workload with the default resources of its namespace, and with those that the configuration
    excludes or transforms. Raises InvalidObject.

    Source: `handlePodLimitRange`, `applyResourceTransformations`. Unlike kube-apiserver, Kueue prefers default requests
    to own limits.
    """
    changes = configuration.excluded_prefixes or configuration.transformations
    if not limit_ranges and not changes:
        return workload
    defaults = dict(zip(("requests", "limits"), limit_range_defaults(limit_ranges), strict=True))
    pod_sets = []
    for pod_set in workload.pod_sets:
        spec = dict(pod_set.spec)
        for kind in _CONTAINERS if limit_ranges else ():
            spec[kind] = [
                {**each, "resources": {k: {**v, **mapping(each, "resources", k)} for k, v in defaults.items()}}
                for each in objects_at(spec, kind)
            ]
        requests = _transformed(in_nano(requests_in_spec({"kind": "Pod", "spec": spec})), configuration)
        amounts = {name: kueue.amount_from_quantity(name, Quantity(nano)) for name, nano in requests.items()}
        pod_sets.append(replace(pod_set, spec=spec, requests=amounts))
    return replace(workload, pod_sets=tuple(pod_sets))


def _transformed(requests: Mapping[str, int], configuration: Configuration) -> dict[str, int]:
    excluded = configuration.excluded_prefixes
    kept = {name: nano for name, nano in requests.items() if not name.startswith(excluded)} if excluded else requests
    result: dict[str, int] = {}
    for name, nano in kept.items():
        transformation = configuration.transformations.get(name)
        if transformation is None:
            result[name] = nano
            continue
        if transformation.multiply_by is not None and transformation.multiply_by in kept:
            nano = _product(nano, kept[transformation.multiply_by])
        for output, factor in transformation.outputs.items():
            result[output] = result.get(output, 0) + _product(nano, factor)
        if transformation.is_retained:
            result[name] = nano
    return result


def _product(one: int, other: int) -> int:
    return -(-one * other // NANO)


def resources_fault(workload: Workload, limit_ranges: Sequence[LimitRange]) -> str | None:
    """Return why Kueue does not try a Workload: its requests exceed limits, or LimitRanges reject its Pods; None if
    they do not. Raises InvalidObject. Source: `ValidateResources`, `ValidateLimitRange`.
    """
    items = [item for limit_range in limit_ranges for item in limit_range.limits]
    for pod_set in workload.pod_sets:
        pod = read_pod_resources({"kind": "Pod", "spec": pod_set.spec}, use_status=False, accept_negative=False)
        for container in (*pod.init_containers, *pod.containers):
            requests, limits = container.requests, container.limits
            if _greater(requests, limits):
                return "resources validation failed: requests must not exceed its limits"
            largest = {**requests, **{name: max(amount, requests[name]) for name, amount in limits.items()}}
            smallest = {**requests, **{name: min(amount, requests[name]) for name, amount in limits.items()}}
            for item in items:
                if item.type == "Container" and (_greater(largest, item.max) or _greater(item.min, smallest)):
                    return _UNSATISFIED
        total = pod.total_requests(use_status=False)
        for item in items:
            if item.type == "Pod" and (_greater(total, item.max) or _greater(item.min, total)):
                return _UNSATISFIED
    return None


def _greater(amounts: ResourceList, others: ResourceList) -> bool:
    return any(amount > others.get(name, amount) for name, amount in amounts.items())


_UNSATISFIED: Final = "resources didn't satisfy LimitRange constraints"
_CONTAINERS: Final = ("initContainers", "containers")
_SHAPE: Final = (
    *("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority", "topologySpreadConstraints"),
    *("overhead", "resourceClaims", "resources"),
)


def _shape(spec: ApiObject) -> list[object]:
    """Return the fields of a Pod on which scheduling depends. Source: kueue pkg/util/pod, `SpecShape`."""
    containers = [
        [(_canonical(mapping(each, "resources")), each.get("ports")) for each in objects_at(spec, kind)]
        for kind in _CONTAINERS
    ]
    return [*containers, *(spec.get(name) for name in _SHAPE)]


def _canonical(resources: ApiObject) -> dict[str, str]:
    requests = {**mapping(resources, "limits"), **mapping(resources, "requests")}
    return {name: str(parse_quantity(quantity)) for name, quantity in requests.items()}
