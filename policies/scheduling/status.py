"""Results of plugins, and their state during one cycle. Source: kube-scheduler `framework/interface.go`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.copies import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.documents import Always
    from forewarn.policies.scheduling.node_info import NodeInfo

NOT_FOUND: Final = "not found"
"""The error of upstream's CycleState for a missing key."""


class Code(StrEnum):
    """The result code of a plugin for a Pod, or for a Pod on a node. Success has no Status (None)."""

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class Status:
    """A result other than success: the code, the reasons, and the plugin that returned the status."""

    code: Code
    reasons: Always[tuple[str, ...]] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the status is a rejection, not an error. Source: upstream `IsRejected`."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def of(self, plugin: str) -> Status:
        return replace(self, plugin=plugin)

    def while_running(self, what: str, plugin: str) -> Status:
        """Return an error status with the framework's prefix: `running "X" filter plugin: …`."""
        return Status(Code.ERROR, (f"{what}: {', '.join(self.reasons)}",), plugin)


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a rejection that preemption may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a rejection that preemption cannot resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def failed(*reasons: str) -> Status:
    """Return an error status, which ends the scheduling cycle (upstream retries the Pod later)."""
    return Status(Code.ERROR, reasons)


class CycleState:
    """The state of plugins during one cycle.

    `data`: by plugin name. `skip_filter`, `skip_score`, `skip_pre_bind`: names of plugins that skip these extension
    points.
    """

    __slots__ = ("data", "in_columns", "skip_filter", "skip_pre_bind", "skip_score")

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.in_columns: Any = None
        """The complete answer in columns (`Cycle`), if columns apply."""

    def clone(self) -> CycleState:
        """Return a copy. Values of `data` with a `clone` method are cloned; everything else is shared."""
        copy = CycleState()
        copy.data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self.data.items()}
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        return copy


class PreFilterResult(NamedTuple):
    """The result of PreFilter. `names`: the only nodes to evaluate; None for all."""

    names: frozenset[str] | None = None
    status: Status | None = None


class PostFilterResult(NamedTuple):
    """The result of PostFilter.

    `status` None: the Pod is nominated to the node. `details`: a result specific to the plugin.
    """

    status: Status | None = None
    nominated_node_name: str = ""
    details: Any = None


class PermitResult(NamedTuple):
    """The result of Permit. `status` None: the Pod may be bound.

    With WAIT, the Pod waits for `timeout` seconds, at most 15 minutes.
    """

    status: Status | None = None
    timeout: float = 0.0


class NodeToStatus:
    """The status of each rejected node. Nodes without an entry share the status `absent`."""

    def __init__(self, absent: Status | None = None) -> None:
        self.by_node: dict[str, Status] = {}
        self.absent = absent or unresolvable()

    def get(self, name: str) -> Status:
        """Return the status of a node; `absent` for a node without an entry."""
        return self.by_node.get(name, self.absent)

    def is_unresolvable(self, name: str) -> bool:
        """Report whether preemption cannot help on a node."""
        return self.get(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def nodes_with(self, code: Code, nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
        """Return the nodes whose status has this code (upstream `NodesForStatusCode`)."""
        return [node for node in nodes if self.get(node.name).code is code]
