"""Score plugins that score all nodes at once, even if the framework runs the plugins one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from forewarn.policies.kubernetes.scheduling.framework import SKIP, CycleState, Plugin, Status
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pod_matrix_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo


class ScorePluginInColumns(Plugin):
    """A plugin whose `scores_in_columns` supports every Pod. PreScore computes the normalized scores of the nodes."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Score these nodes; skip a Pod for which the plugin has no scores."""
        rows = np.fromiter((self.snapshot.rows[info.name] for info in nodes), np.intp, len(nodes))
        with self.snapshot.derived.locked():
            scores = self.scores_in_columns(pod, rows, pod_matrix_of(self.snapshot))
        if isinstance(scores, int) and not scores:
            return SKIP
        values = np.broadcast_to(np.asarray(scores), len(nodes)).tolist()
        state.data[self.name] = dict(zip((info.name for info in nodes), values, strict=True))
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        if self.name not in state.data:  # PreScore of the plugin is not in the profile
            self.pre_score(state, pod, self.snapshot.node_infos)
        scores: dict[str, int] = state.data.setdefault(self.name, {})
        return scores.get(node_info.name, 0)
