"""NodeResourcesBalancedAllocation: prefers nodes with balanced utilization of their resources.

Source: upstream `plugins/noderesources/balanced_allocation.go`.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.scheduling.arguments import CPU_AND_MEMORY
from forewarn.policies.scheduling.framework import MAX_NODE_SCORE, SKIP, CycleState, Plugin, Status
from forewarn.policies.scheduling.plugins.resource_allocation import DeviceCount, amounts_on, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.arguments import NodeResourcesBalancedAllocationArgs
    from forewarn.policies.scheduling.framework import PluginHandle
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_HALF: Final = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    """Scores how much the Pod improves the balance of a node's resource utilization."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    args: NodeResourcesBalancedAllocationArgs

    def __init__(self, handle: PluginHandle, args: NodeResourcesBalancedAllocationArgs) -> None:
        super().__init__(handle, args)
        self._devices = DeviceCount(self.snapshot)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:  # noqa: ARG002
        """Skip a Pod that requests none of the resources. Upstream `PreScore`."""
        requests = self._requests(pod)
        if not any(requests.values()):
            return SKIP
        state.data[self.name] = requests
        return None

    def _requests(self, pod: Pod) -> dict[str, int]:
        return requests_of(pod.spec.requests.total(use_status=True), self.args.resources)

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Return 75 if the Pod does not change the balance of the node's utilization, up to 100 if the Pod improves it.

        Before 1.36: the balance with the Pod, 0 to 100. Upstream `balancedResourceScorer`.
        """
        if self.name not in state.data and self.pre_score(state, pod, ()) is not None:
            return 0
        requests = state.data[self.name]
        amounts = amounts_on(node_info, requests, self.args.resources, non_zero=False, devices=self._devices)
        with_pod = balance(amount.requested / amount.allocatable for amount in amounts)
        if not self.semantics.balanced_allocation_scores_the_change:
            return with_pod
        without = balance(amount.allocated / amount.allocatable for amount in amounts)
        return _HALF + int((_HALF + with_pod - without) / 2)

    def scores_in_columns(self, pod: Pod, rows: NDArray[np.intp], matrix: PodMatrix) -> NDArray[np.int64] | int | None:
        """Return the scores of the nodes for cpu and memory; None for other arguments.

        See `Plugin.scores_in_columns`.
        """
        if self.args.resources != CPU_AND_MEMORY:
            return None
        requests, columns = tuple(self._requests(pod).values()), self.snapshot.columns
        if not any(requests):
            return 0

        def scores(rows: NDArray[np.intp]) -> NDArray[np.int64]:
            has, used = columns.allocatable[:2, rows], columns.requested[:2, rows]
            with_pod = _balance_in_columns(used + np.array([requests]).T, has)
            if not self.semantics.balanced_allocation_scores_the_change:
                return with_pod
            change = with_pod - _balance_in_columns(used, has)
            return _HALF + np.trunc((_HALF + change) / 2).astype(np.int64)

        return matrix.scores((self.name, requests), rows, scores)


def _balance_in_columns(used: NDArray[np.int64], has: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [node]: the `balance` of two resources. `used`, `has`: [resource, node]."""
    fractions = np.minimum(used / np.maximum(has, 1), 1.0)
    deviation = np.where((has > 0).all(axis=0), np.abs((fractions[0] - fractions[1]) / 2), 0.0)
    scores: NDArray[np.int64] = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return scores


def balance(used: Iterable[float]) -> int:
    """Return 100 minus the standard deviation of the used fractions (0…1) in percent.

    Source: upstream `balancedResourceScore`.
    """
    fractions = [min(fraction, 1.0) for fraction in used]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = _sum(fractions) / len(fractions)
        deviation = sqrt(_sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
    return int((1 - deviation) * float(MAX_NODE_SCORE))


def _sum(numbers: Iterable[float]) -> float:
    """Add numbers one after the other, as Go does; Python's sum compensates rounding since 3.12."""
    total = 0.0
    for number in numbers:
        total += number
    return total
