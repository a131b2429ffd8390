"""Placeholder Pods reserve capacity, so that a cluster autoscaler provides spare nodes; they are meant to be preempted.

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
    """Report whether a Pod is a placeholder: by the configured labels; by default, by a negative priority and the
    pause image.
    """
    if options.placeholder_pods is not None:
        return options.placeholder_pods.matches(pod.labels)
    images = pod.spec.images
    return pod.effective_priority < 0 and bool(images) and all(map(_PAUSE.fullmatch, images))
