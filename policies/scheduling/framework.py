"""The scheduling framework: statuses, the state of one cycle, and the extension points that are run.

Source: kube-scheduler `framework/interface.go`, kubernetes `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from policies.metering import charge, meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo
    from policies.scheduling.snapshot import Snapshot

MAX_NODE_SCORE: Final = 100
FILTERS: Final = 6
"""Units that the filters of one node cost, less what grows with the pod: each plugin charges that itself."""


class Code(StrEnum):
    """What a plugin says of a pod, or of a pod on a node; success is no Status at all (None)."""

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class Status:
    """Anything but success: why, and which plugin says so."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As recorded answers have it."""
        plugin = {"plugin": self.plugin} if self.plugin else {}
        return {"code": str(self.code), **plugin, "reasons": list(self.reasons)}


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Not now: preemption may help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Not here, whatever pods go."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def failed(*reasons: str) -> Status:
    """The cycle cannot be finished (upstream: an error, retried later)."""
    return Status(Code.ERROR, reasons)


class CycleState:
    """What plugins keep for one cycle, by plugin name, and which of them have nothing to do in it."""

    __slots__ = ("data", "skip_filter", "skip_score")

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def clone(self) -> CycleState:
        """A copy: what has `clone` is copied, the rest is shared."""
        copy = CycleState()
        copy.data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self.data.items()}
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        return copy


class PreFilterResult(NamedTuple):
    """What PreFilter found: `names`, the only nodes worth a look (None: all of them)."""

    names: frozenset[str] | None = None
    status: Status | None = None


class Handle:
    """What plugins see of the world: the snapshot, and the framework that runs them."""

    def __init__(self, snapshot: Snapshot, profile: Iterable[Registered]) -> None:
        self.snapshot = snapshot
        self.framework = Framework(profile, self)


class Plugin:
    """A plugin of a profile; which extension points it has is told by its methods."""

    name: ClassVar[str]

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.snapshot = handle.snapshot


class PreFilterPlugin(Protocol):
    """Looks at the pod, and at all nodes, before the nodes are filtered."""

    name: ClassVar[str]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """SKIP: its Filter has nothing to do in this cycle."""


class PreFilterExtensions(Protocol):
    """Keeps PreFilter's state true while pods are added and removed on trial."""

    name: ClassVar[str]

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        """`added` is on the node now."""

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        """`removed` is no longer on the node."""


class FilterPlugin(Protocol):
    """Whether a node can run the pod."""

    name: ClassVar[str]

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """None: it can."""


class PostFilterPlugin(Protocol):
    """What can be done when no node can run the pod."""

    name: ClassVar[str]

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Any:
        """What it would do."""


class PreScorePlugin(Protocol):
    """Looks at the nodes that passed, before they are scored."""

    name: ClassVar[str]

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """SKIP: its Score has nothing to do in this cycle."""


class ScorePlugin(Protocol):
    """How good a node is for the pod."""

    name: ClassVar[str]

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        """Higher is better; 0 to 100 after NormalizeScore."""


class NormalizeScorePlugin(Protocol):
    """Brings scores of all nodes to 0…100."""

    name: ClassVar[str]

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """Changes `scores` (by node name) in place."""


class NodeToStatus:
    """Why nodes were rejected; nodes that are not in it have one status in common."""

    def __init__(self, absent: Status | None = None) -> None:
        self.by_node: dict[str, Status] = {}
        self.absent = absent or unresolvable()

    def get(self, name: str) -> Status:
        """The status of a node."""
        return self.by_node.get(name, self.absent)

    def nodes_with(self, code: Code, nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
        """The nodes with this code (upstream `NodesForStatusCode`)."""
        return [node for node in nodes if self.get(node.name).code is code]


class Registered(NamedTuple):
    """A plugin of a profile and the weight of its score."""

    make: Callable[[Handle], Plugin]
    weight: int = 1


class Framework:
    """The plugins of one profile over one Snapshot; runs the extension points in the profile's order."""

    def __init__(self, profile: Iterable[Registered], handle: Handle) -> None:
        plugins = [(registered.make(handle), registered.weight) for registered in profile]
        self.handle = handle
        self.weights: Mapping[str, int] = {plugin.name: weight for plugin, weight in plugins}
        made = [plugin for plugin, _ in plugins]
        self.pre_filters: list[PreFilterPlugin] = _having(made, "pre_filter")
        self.filters: list[FilterPlugin] = _having(made, "filter")
        self.extensions: list[PreFilterExtensions] = _having(made, "remove_pod")
        self.post_filters: list[PostFilterPlugin] = _having(made, "post_filter")
        self.pre_scores: list[PreScorePlugin] = _having(made, "pre_score")
        self.scores: list[ScorePlugin] = _having(made, "score")
        self.normalizers: list[NormalizeScorePlugin] = _having(made, "normalize_score")

    def run_pre_filter_plugins(self, state: CycleState, pod: Pod) -> tuple[PreFilterResult, tuple[str, ...]]:
        """What all plugins leave, and which of them restrict the nodes. Source: upstream `RunPreFilterPlugins`."""
        nodes = self.handle.snapshot.node_infos
        names: frozenset[str] | None = None
        with_nodes: list[str] = []
        rejected: Status | None = None
        for plugin in self.pre_filters:
            result = plugin.pre_filter(state, pod, nodes)
            if result.status is SKIP:
                state.skip_filter.add(plugin.name)
                continue
            if result.status is not None:
                status = replace(result.status, plugin=plugin.name)
                if status.code is not Code.UNSCHEDULABLE:
                    return PreFilterResult(None, status), ()
                rejected = status
                continue
            if result.names is None:
                continue
            with_nodes.append(plugin.name)
            names = result.names if names is None else names & result.names
            if not names:
                return PreFilterResult(names, unresolvable(_unsatisfied(with_nodes))), tuple(with_nodes)
        return PreFilterResult(names, rejected), tuple(with_nodes)

    def run_filter_plugins(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """The first plugin that rejects the node decides. Source: upstream `RunFilterPlugins`."""
        for plugin in self.filters:
            if plugin.name in state.skip_filter:
                continue
            status = plugin.filter(state, pod, node_info)
            if status is not None:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def run_filter_plugins_with_nominated_pods(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """With the pods that are nominated to the node, then without. Source: `RunFilterPluginsWithNominatedPods`."""
        nominated = self._ge_nominated_pods(pod, node_info)
        if nominated:
            state_out, node_info_out = state.clone(), node_info.clone()
            charge(len(nominated) * FILTERS)
            for other in nominated:
                node_info_out.add_pod(other)
                self.run_add_pod(state_out, pod, other, node_info_out)
            status = self.run_filter_plugins(state_out, pod, node_info_out)
            if status is not None:
                return status
        return self.run_filter_plugins(state, pod, node_info)

    def _ge_nominated_pods(self, pod: Pod, node_info: NodeInfo) -> list[Pod]:
        nominated = self.handle.snapshot.nominated_pods(node_info.name)
        if not nominated:
            return []
        priority, identity = pod.effective_priority, pod.identity
        return [p for p in nominated if p.effective_priority >= priority and p.identity != identity]

    def run_add_pod(self, state: CycleState, pod: Pod, added: Pod, node_info: NodeInfo) -> None:
        """Source: upstream `RunPreFilterExtensionAddPod`."""
        for plugin in self.extensions:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod, added, node_info)

    def run_remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node_info: NodeInfo) -> None:
        """Source: upstream `RunPreFilterExtensionRemovePod`."""
        for plugin in self.extensions:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod, removed, node_info)

    def run_post_filter_plugins(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Any:
        """What the first plugin makes of it. Source: upstream `RunPostFilterPlugins`."""
        return next((plugin.post_filter(state, pod, statuses) for plugin in self.post_filters), None)

    def run_pre_score_plugins(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Source: upstream `RunPreScorePlugins`."""
        for plugin in self.pre_scores:
            status = plugin.pre_score(state, pod, nodes)
            if status is SKIP:
                state.skip_score.add(plugin.name)
            elif status is not None:
                return replace(status, plugin=plugin.name)
        return None

    def run_score_plugins(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, dict[str, int]]:
        """Weighted scores by node and plugin, and their `total`. Source: upstream `RunScorePlugins`."""
        work = meter()
        table: dict[str, dict[str, int]] = {node.name: {} for node in nodes}
        normalizers = {plugin.name: plugin for plugin in self.normalizers}
        for plugin in self.scores:
            if plugin.name in state.skip_score:
                continue
            scores = {}
            for node in nodes:
                work.charge(1)
                scores[node.name] = plugin.score(state, pod, node)
            if plugin.name in normalizers:
                normalizers[plugin.name].normalize_score(state, pod, scores)
            for name, score in scores.items():
                table[name][plugin.name] = score * self.weights[plugin.name]
        for row in table.values():
            row["total"] = sum(row.values())
        return table


def _having(plugins: Iterable[Plugin], method: str) -> list[Any]:
    """The plugins that have an extension point, told by its method."""
    return [plugin for plugin in plugins if hasattr(plugin, method)]


def default_normalize_score(scores: dict[str, int], *, reverse: bool) -> None:
    """Bring scores from 0…max to 0…100, or 100…0. Source: upstream `helper.DefaultNormalizeScore`."""
    largest = max(scores.values(), default=0)
    for name, score in scores.items():
        scaled = MAX_NODE_SCORE * score // largest if largest > 0 else 0
        scores[name] = MAX_NODE_SCORE - scaled if reverse else scaled


def _unsatisfied(plugins: list[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
