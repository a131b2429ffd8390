"""NodeResourcesFit: room for what the pod requests. Source: upstream `plugins/noderesources/fit.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.metering import FEW, charge
from policies.objects.resources import CPU, MEMORY, NON_ZERO_DEFAULTS, as_resource
from policies.scheduling.framework import MAX_NODE_SCORE, Code, CycleState, Plugin, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo


class NodeResourcesFit(Plugin):
    """Rejects nodes without room; scores those with the most room left highest (LeastAllocated over cpu and memory)."""

    name: ClassVar[str] = "NodeResourcesFit"

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter`: all that is lacking; unresolvable when one request exceeds what the node has at all."""
        lacking = list(insufficient_resources(pod, node_info))
        if not lacking:
            return None
        unresolvable = any(never for _, never in lacking)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE
        return Status(code, tuple(reason for reason, _ in lacking))

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> None:  # noqa: ARG002
        """Upstream `PreScore`. Its scorer knows nothing of pod-level resources (they are never switched on in it)."""
        amounts = pod.spec.requests.total(use_status=False, skip_pod_level=True, non_missing=NON_ZERO_DEFAULTS)
        state.data[self.name] = as_resource({name: amounts.get(name, 0) for name in (CPU, MEMORY)})

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Upstream `leastResourceScorer`."""
        request, allocatable = state.data[self.name], node_info.node.allocatable
        return least_allocated(
            (node_info.non_zero_cpu + request.milli_cpu, allocatable.milli_cpu),
            (node_info.non_zero_memory + request.memory, allocatable.memory),
        )


def insufficient_resources(pod: Pod, node_info: NodeInfo) -> Iterator[tuple[str, bool]]:
    """(reason, whether it would be lacking on the empty node too). Source: upstream `fitsRequest`."""
    request, allocatable = pod.spec.request, node_info.node.allocatable
    if len(node_info.pods) + 1 > allocatable.allowed_pod_number:
        yield "Too many pods", False
    if 0 < request.milli_cpu > allocatable.milli_cpu - node_info.milli_cpu:
        yield "Insufficient cpu", request.milli_cpu > allocatable.milli_cpu
    if 0 < request.memory > allocatable.memory - node_info.memory:
        yield "Insufficient memory", request.memory > allocatable.memory
    if 0 < request.ephemeral_storage > allocatable.ephemeral_storage - node_info.ephemeral_storage:
        yield "Insufficient ephemeral-storage", request.ephemeral_storage > allocatable.ephemeral_storage
    if len(request.scalars) > FEW:
        charge(len(request.scalars) // 2)
    for name, amount in request.scalars.items():
        has = allocatable.scalars.get(name, 0)
        if 0 < amount > has - node_info.scalars.get(name, 0):
            yield f"Insufficient {name}", amount > has


def least_allocated(*resources: tuple[int, int]) -> int:
    """Of (requested, allocatable) pairs: the mean of what stays free, in percent; what nodes lack does not count."""
    scores = [
        0 if requested > allocatable else (allocatable - requested) * MAX_NODE_SCORE // allocatable
        for requested, allocatable in resources
        if allocatable
    ]
    return sum(scores) // len(scores) if scores else 0
