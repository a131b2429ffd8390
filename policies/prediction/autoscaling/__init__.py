"""Autoscalers that add nodes: cluster-autoscaler and Karpenter, behind one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject


NODE_DELAY: Final = 180.0
"""Seconds from a scale-up until the new nodes are ready, by default."""


class NotPredicted(Exception):
    """The error for input that forewarn does not model; its text is the reason."""


class Arrival(NamedTuple):
    """A node that an autoscaler adds. `group`: its node group or NodePool. `node`: the Node without a name. `pods`:
    Pods that caused it, as namespace/name.
    """

    group: str
    node: ApiObject
    pods: tuple[str, ...]
