"""DynamicResources: devices. Pods that claim some are not predicted; for others nothing happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policies.scheduling.framework import (
    SKIP,
    CycleState,
    NodeToStatus,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    Status,
    unschedulable,
)
from policies.scheduling.status import NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.pod import Pod
    from policies.objects.pod_spec import PodSpec
    from policies.scheduling.node_info import NodeInfo
    from policies.semantics import Semantics


class DynamicResources(Plugin):
    """Present for its place in the profile and its score of 0."""

    name: ClassVar[str] = "DynamicResources"
    needs_pre_filter: ClassVar[str] = NOT_FOUND
    makes_room_in_columns: ClassVar[bool | None] = False

    @classmethod
    def not_in(cls, semantics: Semantics) -> frozenset[str]:
        """It has a score since 1.35."""
        return frozenset() if semantics.devices_are_scored else frozenset({"score"})

    def pre_enqueue(self, pod: Pod) -> Status | None:  # noqa: ARG002
        """Upstream `PreEnqueue` of a pod without claims."""
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Upstream `PreFilter` of a pod without claims."""
        return PreFilterResult(status=SKIP)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:  # noqa: ARG002
        """Upstream `Filter` of a pod without claims."""
        return None

    @staticmethod
    def beyond_columns(spec: PodSpec) -> bool:
        """Columns are for pods without claims."""
        return spec.claims_devices

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:  # noqa: ARG002
        """Upstream `PostFilter` of a pod without claims: no claim to let go."""
        return PostFilterResult(unschedulable())

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Upstream `Reserve` of a pod without claims."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Upstream `Unreserve` of a pod without claims."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Upstream `PreBindPreFlight` of a pod without claims."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Upstream `PreBind` of a pod without claims."""
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Upstream `Score` of a pod without claims."""
        return 0
