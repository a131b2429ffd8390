"""ImageLocality: prefers nodes that have the Pod's images. Source: upstream
`plugins/imagelocality/image_locality.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from forewarn.policies.scheduling.framework import MAX_NODE_SCORE, CycleState, Plugin

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.node_info import NodeInfo

MIN_THRESHOLD: Final = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD: Final = 1000 * 1024 * 1024


class ImageLocality(Plugin):
    """Scores a node by the size of the Pod's images on the node, each scaled by the share of nodes that have the
    image.
    """

    name: ClassVar[str] = "ImageLocality"

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Return 0 to 100 by the scaled size of the images. Upstream `Score`."""
        spec, semantics = pod.spec, self.semantics
        mounted = tuple(volume.image for volume in spec.volumes if volume.image)
        names = (*spec.images, *mounted) if semantics.image_volumes_count_for_locality else spec.images
        total = sum(self._scaled(normalized_image_name(name), node_info) for name in names)
        sources = spec.container_count + (len(mounted) if semantics.image_volumes_raise_the_threshold else 0)
        largest = MAX_CONTAINER_THRESHOLD * sources
        total = min(max(total, MIN_THRESHOLD), largest)
        return MAX_NODE_SCORE * (total - MIN_THRESHOLD) // (largest - MIN_THRESHOLD)

    def _scaled(self, name: str, node_info: NodeInfo) -> int:
        """Return the image size in bytes times the share of nodes with the image; 0 if the node does not have it.

        Upstream `scaledImageScore`.
        """
        if name not in node_info.node.images:
            return 0
        size, nodes = self.snapshot.image_states[name]
        return int(float(size) * (float(nodes) / float(len(self.snapshot.node_infos))))


def normalized_image_name(name: str) -> str:
    """Return the image name, with `:latest` appended if the name has no tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
