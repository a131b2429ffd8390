"""DefaultBinder: binds a Pod to its node. Source: upstream `plugins/defaultbinder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from forewarn.policies.kubernetes.scheduling.framework import CycleState, Plugin, Status

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod


class DefaultBinder(Plugin):
    """Binds every Pod."""

    name: ClassVar[str] = "DefaultBinder"

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Return None (success): forewarn does not know the response of the API server. Upstream `Bind`."""
        return None
