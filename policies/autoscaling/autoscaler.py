"""What all autoscalers share: the interface `Autoscaler`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot

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


class Autoscaler(Protocol):
    """An autoscaler with its node groups."""

    def scan(
        self, pending: Sequence[Pod], snapshot: Snapshot, now: float, upcoming: Sequence[Arrival] = ()
    ) -> Sequence[Arrival]:
        """Return the nodes that one scan adds. Raises NotPredicted."""
        ...
