"""The scores of nodes for a Pod, computed with numpy for all nodes at once.

The result equals that of running each Score plugin on each node (tests compare them). Source: kubernetes
`pkg/scheduler/framework/runtime/framework.go` (`RunScorePlugins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.framework import Code, CycleState, run_score_plugin
from forewarn.policies.scheduling.vectorized.constraints import NotValid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix


class Scores:
    """The scores of nodes for a Pod, by its profile. Hold the lock `snapshot.derived.locked()` while you use Scores."""

    def __init__(self, framework: Framework, pod: Pod, matrix: PodMatrix) -> None:
        """Raises NotValid if the numpy implementation does not support a Score plugin of the profile."""
        self._framework, self.pod, self.matrix = framework, pod, matrix
        if not framework.scores_in_columns:
            raise NotValid

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return np.zeros(len(rows), np.int64) + sum(worth for _, worth in self._weighted(rows))

    def by_plugin(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
        """Return plugin -> [index in `rows`] weighted score, without plugins that score 0 on all nodes.

        `rows`: row numbers of the nodes to score. Raises NotValid.
        """
        found = {name: np.broadcast_to(np.asarray(worth), len(rows)) for name, worth in self._weighted(rows)}
        return {name: worth for name, worth in found.items() if worth.any()}

    def _weighted(self, rows: NDArray[np.intp]) -> Iterator[tuple[str, NDArray[np.int64] | int]]:
        """Yield (plugin, weighted scores) in the order of the profile; an integer for all nodes. Raises NotValid."""
        charge(len(rows) // 8)
        weights = self._framework.profile.weights
        for plugin in self._framework.scores:
            worth = plugin.scores_in_columns(self.pod, rows, self.matrix)
            yield plugin.name, weights[plugin.name] * (self._of_each_node(plugin, rows) if worth is None else worth)

    def _of_each_node(self, plugin: Any, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Return the scores of a plugin that runs on each node. Raises NotValid if the plugin fails."""
        state, nodes = CycleState(), [self._framework.snapshot.node_infos[row] for row in rows.tolist()]
        has_pre_score = plugin.name in self._framework.profile.at("preScore")
        status = plugin.pre_score(state, self.pod, nodes) if has_pre_score else None
        if status is not None:
            if status.code is Code.SKIP:
                return 0
            raise NotValid
        scores = run_score_plugin(plugin, state, self.pod, nodes)
        return np.fromiter(scores.values(), np.int64, len(nodes))
