"""Pods that only keep room free, so that a cluster autoscaler has nodes ready: to lose one is what it is for.

Source: cluster-autoscaler's FAQ, "How can I configure overprovisioning with Cluster Autoscaler?".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.options import Options

_PAUSE: Final = re.compile(r"(?:.*/)?pause(?:-[a-z0-9]+)?(?:[:@].*)?", re.DOTALL)


def is_placeholder(pod: Pod, options: Options) -> bool:
    """Whether it is one: by the labels that the configuration names, else by a negative priority and its images."""
    if options.placeholder_pods is not None:
        return options.placeholder_pods.matches(pod.labels)
    images = pod.spec.images
    return pod.effective_priority < 0 and bool(images) and all(map(_PAUSE.fullmatch, images))
