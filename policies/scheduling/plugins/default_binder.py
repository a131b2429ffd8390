"""DefaultBinder: tells the API server where a pod runs. Source: upstream `plugins/defaultbinder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.scheduling.framework import CycleState, Plugin, Status

if TYPE_CHECKING:
    from policies.objects.pod import Pod


class DefaultBinder(Plugin):
    """Binds every pod."""

    name: ClassVar[str] = "DefaultBinder"

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Upstream `Bind`: what the API server says of it is not known here; it takes the pod."""
        return None
