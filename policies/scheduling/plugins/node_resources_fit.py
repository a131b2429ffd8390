"""NodeResourcesFit: the Pod's resource requests. Source: upstream `plugins/noderesources/fit.go`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from forewarn.policies.kube_apiserver.validation.resources import is_extended
from forewarn.policies.metering import FEW, charge
from forewarn.policies.objects.resources import NON_ZERO_DEFAULTS
from forewarn.policies.scheduling.arguments import CPU_AND_MEMORY, LEAST_ALLOCATED
from forewarn.policies.scheduling.devices.claims import extended_resources_of
from forewarn.policies.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    Code,
    CycleState,
    FilterInColumns,
    Plugin,
    PreFilterResult,
    Status,
)
from forewarn.policies.scheduling.plugins.resource_allocation import DeviceCount, amounts_on, requests_of, scorer
from forewarn.policies.scheduling.reasons import Reason
from forewarn.policies.scheduling.vectorized.constraints import MAX, CapacityConstraint, NotValid
from forewarn.policies.scheduling.vectorized.node_fit import PASSES, Present, Rejections

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import NodeResourcesFitArgs
    from forewarn.policies.scheduling.framework import PluginHandle
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.vectorized.node_fit import NodeFit
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix


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


class NodeResourcesFit(Plugin, FilterInColumns):
    """Rejects nodes with insufficient resources; scores nodes by the scoring strategy in the plugin's arguments."""

    name: ClassVar[str] = "NodeResourcesFit"
    needs_pre_filter: ClassVar[str] = f'error reading "PreFilterNodeResourcesFit" from cycleState: {NOT_FOUND}'
    args: NodeResourcesFitArgs

    def __init__(self, handle: PluginHandle, args: NodeResourcesFitArgs) -> None:
        super().__init__(handle, args)
        self._score = scorer(args.strategy, args.shape)
        self._devices = DeviceCount(self.snapshot)

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
            if amount >= MAX:
                raise NotValid
            if not amount or resource in ignored:
                continue
            if resource not in columns.resources:
                problem.resolvable = np.zeros_like(problem.possible)
                continue
            index = columns.resources.index(resource)
            present = problem.with_nominated(columns.requested[index], resource)
            limit = columns.allocatable[index] - amount
            if resource != "pods":
                problem.resolvable = problem.resolvable & (limit >= 0)
            problem.demands.append(CapacityConstraint(present, limit, resource))

    def rejections_in_columns(self, problem: NodeFit, amounts: Present) -> Iterator[Rejections]:
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
            if demand is None:  # no node has any of it
                lacking |= 1 << bit | _NEVER
                continue
            exceeded = amounts.exceeded(demand)
            lacking |= exceeded.astype(np.int64) << bit
            if name != "pods":
                lacking |= np.where(exceeded & (demand.limit < 0), _NEVER, 0)
        kinds, codes = np.unique(lacking, return_inverse=True)
        statuses = [_insufficient(wanted, bits) for bits in kinds.tolist()]
        yield Rejections(np.where(lacking > 0, codes, PASSES), statuses)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> None:  # noqa: ARG002
        """Sum the Pod's requests for Score; Pod-level resources do not count. Upstream `PreScore`."""
        state.data[self.name] = self._scored_requests(pod)

    def _scored_requests(self, pod: Pod) -> dict[str, int]:
        amounts = pod.spec.requests.total(use_status=False, skip_pod_level=True, non_missing=NON_ZERO_DEFAULTS)
        return requests_of(amounts, self.args.resources)

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Return the score by the strategy, 0 to 100. Upstream `Score`."""
        if self.name not in state.data:
            self.pre_score(state, pod, ())
        requests = state.data[self.name]
        return self._score(amounts_on(node_info, requests, self.args.resources, non_zero=True, devices=self._devices))

    def scores_in_columns(self, pod: Pod, rows: NDArray[np.intp], matrix: PodMatrix) -> NDArray[np.int64] | None:
        """Return the scores of the nodes by the strategy LeastAllocated for cpu and memory; None for other arguments.

        See `Plugin.scores_in_columns`. Upstream `leastResourceScorer`.
        """
        if self.args.strategy != LEAST_ALLOCATED or self.args.resources != CPU_AND_MEMORY:
            return None
        requests, columns = tuple(self._scored_requests(pod).values()), self.snapshot.columns

        def least_allocated(rows: NDArray[np.intp]) -> NDArray[np.int64]:
            has = columns.allocatable[:2, rows]
            used = columns.non_zero[:, rows] + np.array([requests]).T
            free = np.where(used > has, 0, has - used) * MAX_NODE_SCORE // np.maximum(has, 1)
            scores: NDArray[np.int64] = free.sum(axis=0) // np.maximum(np.count_nonzero(has, axis=0), 1)
            return scores

        return matrix.scores((self.name, requests), rows, least_allocated)


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
    return Reason(f"Insufficient {resource}", f"insufficient {resource}", "lower requests", resource=resource)


def _insufficient(wanted: Sequence[str], bits: int) -> Status:
    reasons = tuple(reason_of(name) for bit, name in enumerate(wanted) if bits >> bit & 1)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if bits & _NEVER else Code.UNSCHEDULABLE, reasons)
