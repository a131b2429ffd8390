"""The answers of plugins, and their state during one cycle. Source: kube-scheduler `framework/interface.go`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.scheduling.node_info import NodeInfo

NOT_FOUND: Final = "not found"
"""The error of upstream's CycleState for an absent key."""


class Code(StrEnum):
    """A plugin's answer about a Pod, or about a Pod on a node; success has no Status (None)."""

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class Status:
    """A failure: the reasons, and the plugin."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """True for a rejection; false for an error. Source: upstream `IsRejected`."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def of(self, plugin: str) -> Status:
        """The status with this plugin."""
        return replace(self, plugin=plugin)

    def while_running(self, what: str, plugin: str) -> Status:
        """A fault as the framework reports it: `running "X" filter plugin: …`."""
        return Status(Code.ERROR, (f"{what}: {', '.join(self.reasons)}",), plugin)

    def to_dict(self) -> dict[str, Any]:
        """As recorded answers have it."""
        plugin = {"plugin": self.plugin} if self.plugin else {}
        return {"code": str(self.code), **plugin, "reasons": list(self.reasons)}


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Not now: preemption may help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A status for nodes that preemption cannot help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def failed(*reasons: str) -> Status:
    """The cycle cannot be finished (upstream: an error, retried later)."""
    return Status(Code.ERROR, reasons)


class CycleState:
    """The state of plugins during one cycle, by plugin name, and the plugins with nothing to do."""

    __slots__ = ("data", "in_columns", "skip_filter", "skip_pre_bind", "skip_score")

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.in_columns: Any = None
        """The whole answer in columns (whole_answer.py), if columns apply."""

    def clone(self) -> CycleState:
        """A copy: what has `clone` is copied, the rest is shared."""
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
    """The result of PostFilter. `status` None: it made room on the nominated node. `details`: further results."""

    status: Status | None = None
    nominated_node_name: str = ""
    details: Any = None


class PermitResult(NamedTuple):
    """The result of Permit. None: the Pod may be bound. WAIT: it waits for a number of seconds, at most 15 minutes."""

    status: Status | None = None
    timeout: float = 0.0


class NodeToStatus:
    """Why nodes were rejected; nodes without an entry share one status."""

    def __init__(self, absent: Status | None = None) -> None:
        self.by_node: dict[str, Status] = {}
        self.absent = absent or unresolvable()

    def get(self, name: str) -> Status:
        """The status of a node."""
        return self.by_node.get(name, self.absent)

    def nodes_with(self, code: Code, nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
        """The nodes with this code (upstream `NodesForStatusCode`)."""
        return [node for node in nodes if self.get(node.name).code is code]
