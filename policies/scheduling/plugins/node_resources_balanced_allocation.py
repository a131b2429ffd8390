"""NodeResourcesBalancedAllocation: nodes whose resources fill evenly.

Source: upstream `plugins/noderesources/balanced_allocation.go`.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.scheduling.framework import MAX_NODE_SCORE, SKIP, CycleState, Plugin, Status
from forewarn.policies.scheduling.plugins.resource_allocation import DeviceCount, amounts_on, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import NodeResourcesBalancedAllocationArgs
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.plugin import PluginHandle


class NodeResourcesBalancedAllocation(Plugin):
    """Scores how much more even the use of resources becomes with the pod."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    args: NodeResourcesBalancedAllocationArgs

    def __init__(self, handle: PluginHandle, args: NodeResourcesBalancedAllocationArgs) -> None:
        super().__init__(handle, args)
        self._devices = DeviceCount(self.snapshot)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        """Upstream `PreScore`: nothing to do for a pod that requests none of them."""
        requests = requests_of(pod.spec.requests.total(use_status=True), self.args.resources)
        if not any(requests.values()):
            return SKIP
        state.data[self.name] = requests
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Upstream `balancedResourceScorer`: 75 when nothing changes, up to 100 when it gets more even; in releases
        before 1.36 how even it is then."""
        if self.name not in state.data and self.pre_score(state, pod, ()) is not None:
            return 0
        requests = state.data[self.name]
        amounts = amounts_on(node_info, requests, self.args.resources, non_zero=False, devices=self._devices)
        with_pod = balance(amount.requested / amount.allocatable for amount in amounts)
        if not self.semantics.balanced_allocation_scores_the_change:
            return with_pod
        without = balance(amount.allocated / amount.allocatable for amount in amounts)
        half = MAX_NODE_SCORE // 2
        return half + int((half + with_pod - without) / 2)


def balance(used: Iterable[float]) -> int:
    """100 less the standard deviation of used fractions, in percent. Source: upstream `balancedResourceScore`."""
    fractions = [min(fraction, 1.0) for fraction in used]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = _sum(fractions) / len(fractions)
        deviation = sqrt(_sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
    return int((1 - deviation) * float(MAX_NODE_SCORE))


def _sum(numbers: Iterable[float]) -> float:
    """One after the other, as Go adds; Python's own sum corrects what is rounded since 3.12."""
    total = 0.0
    for number in numbers:
        total += number
    return total
