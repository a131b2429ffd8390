"""The allocatable and allocated amounts of nodes, for the resources that a profile scores.

Source: upstream `plugins/noderesources/resource_allocation.go`, `least_allocated.go`, `most_allocated.go`,
`requested_to_capacity_ratio.go`, `plugins/helper/shape_score.go`.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.objects.devices import DeviceId
from forewarn.policies.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, as_resource
from forewarn.policies.scheduling.arguments import (
    LEAST_ALLOCATED,
    MAX_CUSTOM_PRIORITY_SCORE,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
)
from forewarn.policies.scheduling.devices.selectors import SelectorError
from forewarn.policies.scheduling.framework import MAX_NODE_SCORE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.objects.resources import ResourceList
    from forewarn.policies.scheduling.arguments import ResourceWeight, ShapePoint
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot

_FULL: Final = 100


class Amount(NamedTuple):
    """The amounts of one resource on one node (allocated, allocated with the new Pod, allocatable), and the
    weight of the resource.
    """

    allocated: int
    requested: int
    allocatable: int
    weight: int


def requests_of(amounts: ResourceList, resources: Sequence[ResourceWeight]) -> dict[str, int]:
    """Return resource -> requested amount in kube-scheduler's units. Upstream `calculatePodResourceRequestList`."""
    requests = as_resource({resource.name: amounts.get(resource.name, 0) for resource in resources})
    base = {CPU: requests.milli_cpu, MEMORY: requests.memory, EPHEMERAL_STORAGE: requests.ephemeral_storage}
    return {r.name: base[r.name] if r.name in base else requests.scalars.get(r.name, 0) for r in resources}


def amounts_on(
    node_info: NodeInfo,
    requests: Mapping[str, int],
    resources: Sequence[ResourceWeight],
    *,
    non_zero: bool,
    devices: Callable[[str, NodeInfo], tuple[int, int]],
) -> list[Amount]:
    """Return the amounts of the resources of a node that count: extended resources only if the Pod requests them.

    `non_zero`: Pods without requests for cpu and memory count with defaults. `devices`: see `DeviceCount`. Source:
    upstream `calculateNodeAllocatableRequest`.
    """
    amounts = []
    has = node_info.node.allocatable
    for name, weight in resources:
        requested = requests[name]
        if name == CPU:
            allocatable, allocated = has.milli_cpu, node_info.non_zero_cpu if non_zero else node_info.milli_cpu
        elif name == MEMORY:
            allocatable, allocated = has.memory, node_info.non_zero_memory if non_zero else node_info.memory
        elif name == EPHEMERAL_STORAGE:
            allocatable, allocated = has.ephemeral_storage, node_info.ephemeral_storage
        elif not requested:
            continue
        else:
            allocatable, allocated = has.scalars.get(name, 0), node_info.scalars.get(name, 0)
            if not allocatable:
                allocatable, allocated = devices(name, node_info)
        if allocatable:
            amounts.append(Amount(allocated, allocated + requested, allocatable, weight))
    return amounts


class DeviceCount:
    """Counts the devices of a node that provide an extended resource, and those of them that are in use.

    Upstream counts the devices of all slices of the node, including those that its allocator skips (older generations,
    incomplete pools, taints). Source: upstream `calculateDRAResourceTotals`.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._scored = snapshot.semantics.devices_of_resources_are_scored

    def __call__(self, resource: str, node_info: NodeInfo) -> tuple[int, int]:
        """Return (devices, devices in use); (0, 0) without a DeviceClass for the resource, or if a selector fails."""
        device_class = self._snapshot.extended_resources.get(resource) if self._scored else None
        if device_class is None:
            return 0, 0
        node, match = node_info.node, self._snapshot.device_selectors.match
        score = used = 0
        for part, device in self._snapshot.device_pools.reached_from(node.labels, node.name):
            try:
                matches = match(device_class.selectors, part.driver, device)
            except SelectorError:
                return 0, 0
            score += matches
            used += matches and self._snapshot.devices_in_use.has(DeviceId(part.driver, part.pool, device.name))
        return score, used


def least_allocated(amounts: Sequence[Amount]) -> int:
    """Return the score of the strategy LeastAllocated: the weighted mean of the free shares in percent."""
    return _mean(
        amounts,
        [
            0 if a.requested > a.allocatable else (a.allocatable - a.requested) * MAX_NODE_SCORE // a.allocatable
            for a in amounts
        ],
    )


def most_allocated(amounts: Sequence[Amount]) -> int:
    """Return the score of the strategy MostAllocated: the weighted mean of the used shares in percent."""
    return _mean(amounts, [min(a.requested, a.allocatable) * MAX_NODE_SCORE // a.allocatable for a in amounts])


def _mean(amounts: Sequence[Amount], scores: Sequence[int]) -> int:
    weights = sum(amount.weight for amount in amounts)
    return sum(score * a.weight for score, a in zip(scores, amounts, strict=True)) // weights if weights else 0


def requested_to_capacity_ratio(shape: Sequence[ShapePoint]) -> Callable[[Sequence[Amount]], int]:
    """Return the function of the strategy RequestedToCapacityRatio: amounts -> weighted mean of `shape` at the
    utilization.

    Resources that score 0 do not count.
    """
    points = [(point.utilization, point.score * (MAX_NODE_SCORE // MAX_CUSTOM_PRIORITY_SCORE)) for point in shape]

    def score(amounts: Sequence[Amount]) -> int:
        total = weights = 0
        for _, requested, allocatable, weight in amounts:
            used = _FULL if requested > allocatable else requested * _FULL // allocatable
            value = broken_linear(points, used)
            if value > 0:
                total, weights = total + value * weight, weights + weight
        return floor(total / weights + 0.5) if weights else 0

    return score


def broken_linear(points: Sequence[tuple[int, int]], x: int) -> int:
    """Return the value at `x` of the piecewise linear function through `points` (x, value); constant outside of the
    points.

    Integers, rounded towards zero as in Go. Source: `helper.BuildBrokenLinearFunction`.
    """
    for index, (right, value) in enumerate(points):
        if x <= right:
            if index == 0:
                return value
            left, before = points[index - 1]
            rise, run = (value - before) * (x - left), right - left
            return before + (rise // run if rise >= 0 else -(-rise // run))
    return points[-1][1]


def scorer(strategy: str, shape: Sequence[ShapePoint]) -> Callable[[Sequence[Amount]], int]:
    """Return the function of a scoring strategy: amounts on a node -> score."""
    if strategy == REQUESTED_TO_CAPACITY_RATIO:
        return requested_to_capacity_ratio(shape)
    return {LEAST_ALLOCATED: least_allocated, MOST_ALLOCATED: most_allocated}[strategy]
