"""ImageLocality: prefers nodes that have the Pod's images. Source: upstream
`plugins/imagelocality/image_locality.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.scheduling.framework import MAX_NODE_SCORE, CycleState, Plugin

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod, PodSpec
    from forewarn.policies.kubernetes.scheduling.arrays import Ints, Rows
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix

MIN_THRESHOLD: Final = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD: Final = 1000 * 1024 * 1024


class ImageLocality(Plugin):
    """Scores a node by the size of the Pod's images there, each scaled by the share of nodes that have it."""

    name: ClassVar[str] = "ImageLocality"

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Return 0 to 100 by the scaled size of the images. Upstream `Score`."""
        spec = pod.spec
        total = sum(self._scaled(name, node_info) for name in self._names(spec))
        mounted = len(_mounted(spec)) if self.semantics.image_volumes_raise_the_threshold else 0
        largest = MAX_CONTAINER_THRESHOLD * (spec.container_count + mounted)
        total = min(max(total, MIN_THRESHOLD), largest)
        return MAX_NODE_SCORE * (total - MIN_THRESHOLD) // (largest - MIN_THRESHOLD)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:
        """Return the scores of the nodes, 0 without any of the images; see `Plugin.scores_in_columns`."""
        if not matrix.nodes.anywhere(Node.has_images):
            return 0
        names, state, infos = frozenset(self._names(pod.spec)), CycleState(), self.snapshot.node_infos
        scores = np.zeros(len(rows), np.int64)
        for place in np.flatnonzero(matrix.nodes.where(Node.has_images)[rows]).tolist():
            info = infos[rows[place]]
            if not names.isdisjoint(info.node.images):
                scores[place] = self.score(state, pod, info)
        return scores

    def _names(self, spec: PodSpec) -> list[str]:
        mounted = _mounted(spec) if self.semantics.image_volumes_count_for_locality else ()
        names = (*spec.images, *mounted)
        return [name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names]

    def _scaled(self, name: str, node_info: NodeInfo) -> int:
        """Return the image's bytes times the share of nodes with it; 0 if absent. Upstream `scaledImageScore`."""
        if name not in node_info.node.images:
            return 0
        size, nodes = self.snapshot.image_states[name]
        return int(float(size) * (float(nodes) / float(len(self.snapshot.node_infos))))


def _mounted(spec: PodSpec) -> list[str]:
    return [volume.image for volume in spec.volumes if volume.image]
