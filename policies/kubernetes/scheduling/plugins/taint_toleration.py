"""TaintToleration: taints and tolerations. Source: upstream `plugins/tainttoleration`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.objects.node import (
    PREFER_NO_SCHEDULE,
    Node,
    tolerations_tolerate_taint,
    untolerated_taint,
)
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_NODE_SCORE,
    NOT_FOUND,
    CycleState,
    StaticFilter,
    StaticFilterPlugin,
    Status,
    default_normalized,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.reasons import Reason
from forewarn.policies.kubernetes.scheduling.vectorized.scores import ScorePluginInColumns

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Toleration
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.arrays import Ints, Mask, Rows
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import NodeTables, PodMatrix

ADD_TOLERATION: Final = "add a toleration"
REASON: Final = unresolvable(Reason("node(s) had untolerated taint(s)", "untolerated taint", ADD_TOLERATION))


class TaintToleration(ScorePluginInColumns, StaticFilterPlugin):
    """Rejects nodes by untolerated NoSchedule and NoExecute taints; scores fewer PreferNoSchedule taints higher."""

    name: ClassVar[str] = "TaintToleration"
    pre_filters_deferred_resizes: ClassVar[bool] = True
    needs_pre_score: ClassVar[str] = f'failed to read "PreScoreTaintToleration" from cycleState: {NOT_FOUND}'

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Reject a node with an untolerated taint. Upstream `Filter`."""
        taints = node_info.node.taints
        return REASON if taints and untolerated_taint(taints, pod.spec.tolerations) else None

    def static_filter(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the node passes, with any Pods on it."""
        tolerations = pod.spec.tolerations
        return lambda node: not node.taints or untolerated_taint(node.taints, tolerations) is None

    def static_filter_in_columns(self, pod: Pod) -> StaticFilter:
        """Return `static_filter` for all nodes at once, called once for all nodes with equal taints."""
        return StaticFilter(self.static_filter(pod), in_columns=partial(self._passing, pod))

    def _passing(self, pod: Pod, nodes: NodeTables) -> Mask:
        passes, result = self.static_filter(pod), ~nodes.where(Node.has_taints)
        taints, results = nodes.known_nodes(), dict[object, bool]()
        for row in charging(np.flatnonzero(~result).tolist(), 0.2):
            node = taints[row]
            if node.taints not in results:
                results[node.taints] = passes(node)
            result[row] = results[node.taints]
        return result

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes; see `Plugin.scores_in_columns`."""
        spec, nodes = pod.spec, matrix.nodes
        if not nodes.anywhere(Node.has_prefer_no_schedule) or not nodes.where(Node.has_prefer_no_schedule)[rows].any():
            return MAX_NODE_SCORE
        count = partial(untolerated_preferences, spec.tolerations)
        return default_normalized(nodes.values("avoided", spec, count, int)[rows], reverse=True)


def untolerated_preferences(tolerations: Sequence[Toleration], node: Node) -> int:
    """Return the number of untolerated taints. Source: upstream `countIntolerableTaintsPreferNoSchedule`."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerations_tolerate_taint(tolerations, taint)
        for taint in node.taints
    )
