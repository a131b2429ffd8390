"""NodeResourcesBalancedAllocation: nodes whose cpu and memory fill evenly.

Source: upstream `plugins/noderesources/balanced_allocation.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.objects.resources import CPU, MEMORY, as_resource
from policies.scheduling.framework import MAX_NODE_SCORE, SKIP, CycleState, Plugin, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo


class NodeResourcesBalancedAllocation(Plugin):
    """Scores how much more even the use of cpu and memory becomes with the pod."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        """Upstream `PreScore`: nothing to do for a pod that requests neither."""
        amounts = pod.spec.requests.total(use_status=True)
        request = as_resource({name: amounts.get(name, 0) for name in (CPU, MEMORY)})
        state.data[self.name] = request
        return None if request.milli_cpu or request.memory else SKIP

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Upstream `balancedResourceScorer`: 75 when nothing changes, up to 100 when it gets more even."""
        request, allocatable = state.data[self.name], node_info.node.allocatable
        cpu, memory = node_info.milli_cpu, node_info.memory
        without = _balance((cpu, allocatable.milli_cpu), (memory, allocatable.memory))
        cpu, memory = cpu + request.milli_cpu, memory + request.memory
        with_pod = _balance((cpu, allocatable.milli_cpu), (memory, allocatable.memory))
        half = MAX_NODE_SCORE // 2
        return half + int((half + with_pod - without) / 2)


def _balance(*resources: tuple[int, int]) -> int:
    """100 less the standard deviation of the used fractions, in percent. Source: `balancedResourceScore`."""
    fractions = [min(requested / allocatable, 1.0) for requested, allocatable in resources if allocatable]
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return int((1 - deviation) * float(MAX_NODE_SCORE))
