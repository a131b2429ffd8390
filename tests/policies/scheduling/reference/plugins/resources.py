"""NodeResourcesFit and NodeResourcesBalancedAllocation, and the zero that DynamicResources scores without claims."""

import math
from fractions import Fraction
from typing import Any

from tests.policies.scheduling.reference.framework import CannotAnswer, Plugin
from tests.policies.scheduling.reference.node_info import NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import SKIP, SUCCESS, Status, milli, spec, whole
from tests.policies.scheduling.reference.resources import NON_ZERO_DEFAULTS, Options, Resource, pod_requests


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    weight = 1

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        # The preemptor's status is not looked at: it does not run yet.
        return SUCCESS, Resource.of(pod_requests(pod.pod, Options()))

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        short = insufficient_resources(state, node)
        if not short:
            return SUCCESS
        hopeless = any(unresolvable for _, unresolvable in short)
        code = "UnschedulableAndUnresolvable" if hopeless else "Unschedulable"
        return Status(code, tuple(reason for reason, _ in short))

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        # The scorer inside this plugin never hears of pod-level resources: upstream sets the field on the plugin only.
        requests = pod_requests(pod.pod, Options(skip_pod_level=True, non_missing=NON_ZERO_DEFAULTS))
        return SUCCESS, (milli(requests.get("cpu", Fraction(0))), whole(requests.get("memory", Fraction(0))))

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        """LeastAllocated over cpu and memory, both with weight 1."""
        total = weights = 0
        allocatable = (node.allocatable.milli_cpu, node.allocatable.memory)
        for asked, used, capacity in zip(state, node.non_zero_requested, allocatable, strict=True):
            if capacity == 0:
                continue
            requested = used + asked
            total += 0 if requested > capacity else (capacity - requested) * 100 // capacity
            weights += 1
        return total // weights if weights else 0


def insufficient_resources(wanted: Resource, node: NodeInfo) -> list[tuple[str, bool]]:
    """fitsRequest: each reason, and whether the node is too small for it even when empty."""
    short = []
    if len(node.pods) + 1 > node.allocatable.allowed_pods:
        short.append(("Too many pods", False))
    rows = [
        ("cpu", wanted.milli_cpu, node.allocatable.milli_cpu, node.requested.milli_cpu),
        ("memory", wanted.memory, node.allocatable.memory, node.requested.memory),
        (
            "ephemeral-storage",
            wanted.ephemeral_storage,
            node.allocatable.ephemeral_storage,
            node.requested.ephemeral_storage,
        ),
    ]
    for resource, amount in sorted(wanted.scalar.items()):
        rows.append(
            (resource, amount, node.allocatable.scalar.get(resource, 0), node.requested.scalar.get(resource, 0))
        )
    for resource, amount, allocatable, requested in rows:
        if amount > 0 and amount > allocatable - requested:
            short.append((f"Insufficient {resource}", amount > allocatable))
    return short


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    weight = 1
    filters = False

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        requests = pod_requests(pod.pod, Options(use_status=True, resize_pod_level=True))
        wanted = (milli(requests.get("cpu", Fraction(0))), whole(requests.get("memory", Fraction(0))))
        return (SUCCESS, wanted) if any(wanted) else (SKIP, None)

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        allocatable = [node.allocatable.milli_cpu, node.allocatable.memory]
        used = [node.requested.milli_cpu, node.requested.memory]
        after = [u + asked for u, asked in zip(used, state, strict=True)]
        return 50 + (50 + _balance(after, allocatable) - _balance(used, allocatable)) // 2


def _balance(requested: list[int], allocatable: list[int]) -> int:
    """balancedResourceScore: 100 less the standard deviation of the used fractions."""
    fractions = [
        min(1.0, float(r) / float(capacity)) for r, capacity in zip(requested, allocatable, strict=True) if capacity
    ]
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return math.trunc((1 - deviation) * 100.0)


class DynamicResources(Plugin):
    name = "DynamicResources"
    weight = 2

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        if spec(pod.pod).get("resourceClaims"):
            raise CannotAnswer("resource claims are not part of the reference")
        return SKIP, None

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        return 0
