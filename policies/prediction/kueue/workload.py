"""What a Workload requests and uses, and its equivalence class. Source: kueue pkg/workload."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, mapping, objects_at
from forewarn.policies.kubernetes.quantity import parse_quantity
from forewarn.policies.prediction.kueue.amount import (
    Amount,
    FlavorResource,
    Quantities,
    add,
    saturated,
    scaled_to,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.prediction.kueue.api import PodSet, PodSetAssignment, Workload


@dataclass(frozen=True, slots=True)
class PodSetResources:
    """The requests of all `count` Pods of a PodSet. `flavors`: empty without quota."""

    name: str
    requests: dict[str, Amount]
    count: int
    flavors: Mapping[str, str] = field(default_factory=dict)

    def scaled_to(self, count: int) -> PodSetResources:
        if self.count in (0, count):
            return self
        return PodSetResources(self.name, scaled_to(self.requests, self.count, count), count, self.flavors)


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


@dataclass(slots=True)
class Info:
    """A Workload in a queue or with quota."""

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

    @property
    def key(self) -> str:
        return self.obj.key

    @property
    def usage(self) -> Quantities:
        """The usage by flavor and resource. Source: `FlavorResourceUsage`."""
        total: Quantities = {}
        for pod_set in self.total_requests:
            for resource, amount in pod_set.requests.items():
                fr = FlavorResource(pod_set.flavors.get(resource, ""), resource)
                total[fr] = add(total.get(fr, 0), amount)
        return total

    def uses(self, frs: set[FlavorResource]) -> bool:
        """Report whether one of the resources was assigned. Source: `WorkloadUsesResources`."""
        return any(
            FlavorResource(flavor, resource) in frs
            for pod_set in self.total_requests
            for resource, flavor in pod_set.flavors.items()
        )

    @property
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
    requests = {name: saturated(amount * count) for name, amount in pod_set.requests.items()}
    return PodSetResources(pod_set.name, requests, count)


def _from_admission(workload: Workload, assigned: PodSetAssignment) -> PodSetResources:
    """Source: `totalRequestsFromAdmission`."""
    total = next((each.count for each in workload.pod_sets if each.name == assigned.name), 0)
    count = total if assigned.count is None else assigned.count
    resources = PodSetResources(assigned.name, dict(assigned.resource_usage), count, assigned.flavors)
    remaining = _count_after_reclaim(workload, assigned.name, total)
    return resources.scaled_to(remaining) if remaining < count else resources


_SHAPE: Final = (
    *("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority", "topologySpreadConstraints"),
    *("overhead", "resourceClaims", "resources"),
)


def _shape(spec: ApiObject) -> list[object]:
    """Return the fields of a Pod on which scheduling depends. Source: kueue pkg/util/pod, `SpecShape`."""
    containers = [
        [(_canonical(mapping(each, "resources", "requests")), each.get("ports")) for each in objects_at(spec, kind)]
        for kind in ("initContainers", "containers")
    ]
    return [*containers, *(spec.get(name) for name in _SHAPE)]


def _canonical(requests: ApiObject) -> dict[str, str]:
    return {name: str(parse_quantity(quantity)) for name, quantity in requests.items()}
