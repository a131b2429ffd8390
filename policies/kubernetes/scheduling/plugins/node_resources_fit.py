"""NodeResourcesFit: the Pod's resource requests. Source: upstream `plugins/noderesources/fit.go`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from forewarn.policies.base.metering import FEW, charge
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_extended
from forewarn.policies.kubernetes.objects.devices import DeviceId
from forewarn.policies.kubernetes.objects.pod_resources import NON_ZERO_DEFAULTS
from forewarn.policies.kubernetes.objects.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    ExactAmounts,
    as_resource,
    to_nano,
)
from forewarn.policies.kubernetes.scheduling import arguments
from forewarn.policies.kubernetes.scheduling.devices.claims import extended_resources_of
from forewarn.policies.kubernetes.scheduling.devices.selectors import SelectorError
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    Code,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    Status,
)
from forewarn.policies.kubernetes.scheduling.reasons import LOWER_REQUESTS, FitError, Reason, as_reason, insufficient
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized import node_fit
from forewarn.policies.kubernetes.scheduling.vectorized.scores import ScorePluginInColumns

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import NodeFit
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix

_FULL: Final = 100
_LARGE: Final = 2**50
"""Amounts from which Python's integers are used, so that shares in percent do not overflow."""


class Amounts(NamedTuple):
    """One resource on several nodes, and the resource's weight. Arrays are [node].

    `allocated`, `requested`: the amounts in use, without and with the new Pod. `allocatable`: 0 on nodes where the
    resource does not count.
    """

    allocated: Ints
    requested: Ints
    allocatable: Ints
    weight: int


def requests_of(amounts: ExactAmounts, resources: Sequence[arguments.ResourceWeight]) -> dict[str, int]:
    """Return resource -> requested amount in kube-scheduler's units. Source: `calculatePodResourceRequestList`."""
    requests = as_resource({resource.name: amounts.get(resource.name, 0) for resource in resources})
    base = {CPU: requests.milli_cpu, MEMORY: requests.memory, EPHEMERAL_STORAGE: requests.ephemeral_storage}
    return {r.name: base[r.name] if r.name in base else requests.scalars.get(r.name, 0) for r in resources}


def amounts_on(
    snapshot: Snapshot,
    rows: Rows,
    requests: Mapping[str, int],
    resources: Sequence[arguments.ResourceWeight],
    *,
    non_zero: bool,
) -> list[Amounts]:
    """Return the amounts of the resources on nodes (row numbers): extended resources only if the Pod requests them.

    `non_zero`: Pods without requests for cpu and memory count with defaults. Source: upstream
    `calculateNodeAllocatableRequest`.
    """
    amounts, columns = [], snapshot.columns
    for name, weight in resources:
        if not requests[name] and name not in (CPU, MEMORY, EPHEMERAL_STORAGE):
            continue
        has, used = np.zeros((2, len(rows)), np.int64)
        if name in columns.resources:
            index = columns.resources.index(name)
            in_use = columns.non_zero if non_zero and name in (CPU, MEMORY) else columns.requested
            has, used = columns.allocatable[index, rows], in_use[index, rows]
        if name in snapshot.extended_resources:
            devices = DeviceCount(snapshot)
            for place in np.flatnonzero(has == 0).tolist():
                has[place], used[place] = devices(name, snapshot.node_infos[rows[place]])
        if max(requests[name], has.max(initial=0), used.max(initial=0)) >= _LARGE:
            has, used = has.astype(object), used.astype(object)
        amounts.append(Amounts(used, used + requests[name], has, weight))
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


def scores_by_strategy(args: arguments.NodeResourcesFitArgs, amounts: Sequence[Amounts], nodes: int) -> Ints:
    """Return [node]: the scores of a strategy: the weighted mean of the free shares in percent (LeastAllocated), of the
    used shares (MostAllocated), or of `shape` at the used shares, where resources that score 0 do not count.
    """
    total, weights = np.zeros((2, nodes), np.int64)
    points = [
        (point.utilization, point.score * (MAX_NODE_SCORE // arguments.MAX_CUSTOM_PRIORITY_SCORE))
        for point in args.shape
    ]
    for _, requested, has, weight in amounts:
        part = np.minimum(requested, has)
        if args.strategy == arguments.LEAST_ALLOCATED:
            part = has - part
        shares = (part * MAX_NODE_SCORE // np.maximum(has, 1)).astype(np.int64)
        counts = has > 0
        if args.strategy == arguments.REQUESTED_TO_CAPACITY_RATIO:
            shares = np.array([broken_linear(points, used) for used in range(_FULL + 1)])[shares]
            counts = counts & (shares > 0)
        total += np.where(counts, shares * weight, 0)
        weights += np.where(counts, weight, 0)
    if args.strategy == arguments.REQUESTED_TO_CAPACITY_RATIO:
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)
    scores: Ints = total // np.maximum(weights, 1)
    return scores


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


_HALF: Final = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(ScorePluginInColumns):
    """Scores how much the Pod improves the balance of a node's resource utilization."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    args: arguments.NodeResourcesBalancedAllocationArgs

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return 75 for nodes whose balance the Pod does not change, up to 100 if the Pod improves it.

        Before 1.36: the balance with the Pod, 0 to 100. 0 for a Pod that requests none of the resources. Upstream
        `balancedResourceScorer`.
        """
        requests = requests_of(to_nano(pod.spec.resources.total_requests(use_status=True)), self.args.resources)
        if not any(requests.values()):
            return 0

        def scores(rows: Rows) -> Ints:
            amounts = amounts_on(self.snapshot, rows, requests, self.args.resources, non_zero=False)
            with_pod = balance([(amount.requested, amount.allocatable) for amount in amounts], len(rows))
            if not self.semantics.balanced_allocation_scores_the_change:
                return with_pod
            without = balance([(amount.allocated, amount.allocatable) for amount in amounts], len(rows))
            return _HALF + np.trunc((_HALF + with_pod - without) / 2).astype(np.int64)

        return _cached_scores(self, requests, rows, matrix, scores)


def _cached_scores(
    plugin: Plugin, requests: Mapping[str, int], rows: Rows, matrix: PodMatrix, score: Callable[[Rows], Ints]
) -> Ints:
    """Return [index in `rows`]: the scores of nodes, given as row numbers; cached, and updated when nodes change.

    `score`: row numbers -> scores, which depend only on the plugin's arguments, `requests`, the node and its Pods; with
    devices of extended resources, they are not cached.
    """
    if not plugin.snapshot.extended_resources.keys().isdisjoint(requests):
        return score(rows)
    scores, serials = matrix.scores((plugin.name, plugin.args, *requests.items()))
    changed = rows[serials.take(rows) != matrix.serials.take(rows)]
    if len(changed):
        charge(len(changed) // 8)
        scores[changed] = score(changed)
        serials[changed] = matrix.serials[changed]
    return scores.take(rows)


def balance(amounts: Sequence[tuple[Ints, Ints]], nodes: int) -> Ints:
    """Return [node]: 100 minus the standard deviation of the used fractions in percent. `amounts`: (amount in use,
    allocatable amount) of each resource; it counts if the latter is not 0. Source: upstream `balancedResourceScore`.
    """
    fractions = [np.minimum((used / np.maximum(has, 1)).astype(np.float64), 1.0) for used, has in amounts]
    counts = [has > 0 for _, has in amounts]
    number, total, squares = np.zeros((3, nodes))
    for fraction, here in zip(fractions, counts, strict=True):  # one after the other, as Go adds them
        number += here
        total += np.where(here, fraction, 0.0)
    mean = total / np.maximum(number, 1)
    lowest, highest = np.full(nodes, np.inf), np.full(nodes, -np.inf)
    for fraction, here in zip(fractions, counts, strict=True):
        squares += np.where(here, (fraction - mean) * (fraction - mean), 0.0)
        lowest = np.where(here, np.minimum(lowest, fraction), lowest)
        highest = np.where(here, np.maximum(highest, fraction), highest)
    deviation = np.where(number > 2, np.sqrt(squares / np.maximum(number, 1)), 0.0)
    deviation[number == 2] = (highest - lowest)[number == 2] / 2
    scores: Ints = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return scores


_BITS: Final = 60
_NEVER: Final = 1 << 61


class InsufficientResource(NamedTuple):
    """A resource that a node lacks for a Pod: cpu in thousandths, `pods` in Pods, others in units.

    `capacity`: the allocatable amount of the node. Source: upstream `InsufficientResource`.
    """

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return reason_of(self.resource)

    @property
    def unresolvable(self) -> bool:
        return self.resource != "pods" and self.requested > self.capacity

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)


class NodeResourcesFit(ScorePluginInColumns, FilterInColumns):
    """Rejects nodes with insufficient resources; scores nodes by the scoring strategy in the plugin's arguments."""

    name: ClassVar[str] = "NodeResourcesFit"
    reads_one_node: ClassVar[bool] = True
    needs_pre_filter: ClassVar[str] = f'error reading "PreFilterNodeResourcesFit" from cycleState: {NOT_FOUND}'
    args: arguments.NodeResourcesFitArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Do nothing: the requests are part of the Pod's view. Upstream `PreFilter`."""
        return PreFilterResult()

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Return a rejection with all insufficient resources, or None. Upstream `Filter`.

        The rejection is unresolvable if a request exceeds the allocatable amount of the empty node.
        """
        lacking = list(self.insufficient(pod, node_info))
        if not lacking:
            return None
        unresolvable = any(item.unresolvable for item in lacking)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE
        return Status(code, tuple(item.reason for item in lacking))

    def insufficient(self, pod: Pod, node_info: NodeInfo) -> Iterator[InsufficientResource]:
        return insufficient_resources(pod, node_info, self.ignored(pod), self.snapshot.extended_resources)

    def ignored(self, pod: Pod) -> Collection[str]:
        """Return the names of extended resources that the Pod requests and that the filter ignores."""
        names, groups = self.args.ignored_resources, self.args.ignored_resource_groups
        if not names and not groups:
            return ()
        return {
            name
            for name in pod.spec.request.scalars
            if is_extended(name) and (name in names or name.split("/", 1)[0] in groups)
        }

    def in_columns(self, problem: NodeFit) -> None:
        """Add a constraint for each requested resource to `problem`. A request above a node's allocatable amount is
        unresolvable.

        Raises NotValid for very large amounts, and for resources that a DeviceClass provides.
        """
        request, ignored = problem.pod.spec.request, self.ignored(problem.pod)
        if extended_resources_of(problem.pod, problem.snapshot.extended_resources):
            raise NotValid
        wanted = {
            "cpu": request.milli_cpu,
            "memory": request.memory,
            "ephemeral-storage": request.ephemeral_storage,
            "pods": 1,
            **request.scalars,
        }
        columns = problem.snapshot.columns
        for resource, amount in wanted.items():
            charge(1 + problem.row)
            if amount >= node_fit.MAX:
                raise NotValid
            if not amount or resource in ignored:
                continue
            if resource not in columns.resources:
                problem.resolvable = np.zeros_like(problem.possible)
                continue
            index = columns.resources.index(resource)
            present = problem.with_nominated(index)
            limit = columns.allocatable[index] - amount
            if resource != "pods":
                problem.resolvable = problem.resolvable & (limit >= 0)
            problem.demands.append(node_fit.CapacityConstraint(present, limit, resource))

    def rejections_in_columns(self, problem: NodeFit, amounts: node_fit.Present) -> Iterator[node_fit.Rejections]:
        """Yield the rejections with all insufficient resources of each node, in the order of `insufficient_resources`.

        Raises NotValid if the Pod requests more resources than an integer has bits.
        """
        demands = {demand.resource: demand for demand in problem.added[self.name]}
        wanted: list[str] = [name for name in ("pods", "cpu", "memory", "ephemeral-storage") if name in demands]
        ignored = self.ignored(problem.pod)
        wanted += [name for name, amount in problem.pod.spec.request.scalars.items() if amount and name not in ignored]
        if len(wanted) > _BITS:
            raise NotValid
        lacking = np.zeros(len(problem.possible), np.int64)
        for bit, name in enumerate(wanted):
            demand = demands.get(name)
            if demand is None:  # no node has this resource
                lacking |= 1 << bit | _NEVER
                continue
            exceeded = amounts.exceeded(demand)
            lacking |= exceeded.astype(np.int64) << bit
            if name != "pods":
                lacking |= np.where(exceeded & (demand.limit < 0), _NEVER, 0)
        kinds, codes = np.unique(lacking, return_inverse=True)
        statuses = [_insufficient(wanted, bits) for bits in kinds.tolist()]
        yield node_fit.Rejections(np.where(lacking > 0, codes, node_fit.PASSES), statuses)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints:
        """Return the scores of the nodes by the strategy, 0 to 100. Pod-level resources do not count. Upstream `Score`.

        See `Plugin.scores_in_columns`.
        """
        resources = pod.spec.resources
        total = resources.total_requests(use_status=False, skip_pod_level=True, non_missing=NON_ZERO_DEFAULTS)
        requests = requests_of(to_nano(total), self.args.resources)

        def scores(rows: Rows) -> Ints:
            amounts = amounts_on(self.snapshot, rows, requests, self.args.resources, non_zero=True)
            return scores_by_strategy(self.args, amounts, len(rows))

        return _cached_scores(self, requests, rows, matrix, scores)


def insufficient_resources(
    pod: Pod, node_info: NodeInfo, ignored: Collection[str] = (), by_devices: Collection[str] = ()
) -> Iterator[InsufficientResource]:
    """Yield the resources that a node lacks for a Pod. Source: upstream `fitsRequest`.

    `ignored`: resources to skip. `by_devices`: extended resources that DynamicResources provides if the node has none.
    """
    request, allocatable = pod.spec.request, node_info.node.allocatable
    used, capacity = len(node_info.pods), allocatable.allowed_pod_number
    if used + 1 > capacity:
        yield InsufficientResource("pods", 1, used, capacity)
    if 0 < request.milli_cpu > allocatable.milli_cpu - node_info.milli_cpu:
        yield InsufficientResource("cpu", request.milli_cpu, node_info.milli_cpu, allocatable.milli_cpu)
    if 0 < request.memory > allocatable.memory - node_info.memory:
        yield InsufficientResource("memory", request.memory, node_info.memory, allocatable.memory)
    storage, used, capacity = request.ephemeral_storage, node_info.ephemeral_storage, allocatable.ephemeral_storage
    if 0 < storage > capacity - used:
        yield InsufficientResource("ephemeral-storage", storage, used, capacity)
    if len(request.scalars) > FEW:
        charge(len(request.scalars) // 2)
    for name, amount in request.scalars.items():
        used, capacity = node_info.scalars.get(name, 0), allocatable.scalars.get(name, 0)
        if capacity == 0 and name in by_devices:
            continue
        if name not in ignored and 0 < amount > capacity - used:
            yield InsufficientResource(name, amount, used, capacity)


@lru_cache(1024)
def reason_of(resource: str) -> Reason:
    """Return kube-scheduler's reason for an insufficient resource. Source: upstream `fitsRequest`."""
    if resource == "pods":
        return Reason("Too many pods", "maximum number of Pods reached", "add nodes", of_pods=True)
    return Reason(f"Insufficient {resource}", insufficient([resource]), LOWER_REQUESTS, resource=resource)


def lacks_capacity(message: str) -> bool:
    """Report whether kube-scheduler's message says that a node has too little of a resource, or too many Pods."""
    reasons = map(as_reason, message.reasons) if isinstance(message, FitError) else ()
    return any(reason.resource or reason == reason_of("pods") for reason in reasons)


def _insufficient(wanted: Sequence[str], bits: int) -> Status:
    reasons = tuple(reason_of(name) for bit, name in enumerate(wanted) if bits >> bit & 1)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if bits & _NEVER else Code.UNSCHEDULABLE, reasons)
