"""SchedulingGates: Pods with scheduling gates are not scheduled. Source: upstream `plugins/schedulinggates`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.kubernetes.scheduling.event_handlers import SCHEDULING_GATES
from forewarn.policies.kubernetes.scheduling.framework import Plugin, Status, unresolvable

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod


class SchedulingGates(Plugin):
    """Keeps Pods with scheduling gates out of the queue."""

    name: ClassVar[str] = SCHEDULING_GATES

    @staticmethod
    def pre_enqueue(pod: Pod) -> Status | None:
        """Reject a gated Pod. Upstream `PreEnqueue`, whose message names the gates."""
        return unresolvable("waiting for scheduling gates") if pod.spec.gated else None
