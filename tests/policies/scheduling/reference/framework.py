"""The scheduling framework: plugins, the cycle's state, and how the extension points are run."""

import copy
from typing import Any

from tests.policies.scheduling.reference.node_info import Cluster, NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import SKIP, SUCCESS, Obj, Status, unresolvable


class CannotAnswer(Exception):
    """The scheduling cycle fails with an error, or needs what the reference does not know."""


class Plugin:
    """A plugin with every extension point doing nothing. State is what PreFilter returned, cloned with the cycle."""

    name = ""
    weight = 0
    filters = True

    def __init__(self, cluster: Cluster):
        self.cluster = cluster

    def pre_filter(self, pod: PodInfo) -> tuple[Status, Any]:
        """The status and the state of the cycle."""
        return SUCCESS, None

    def node_names(self, pod: PodInfo) -> set[str] | None:
        """PreFilterResult: the only nodes that can do; None is all."""
        return None

    def update_state(self, state: Any, other: PodInfo, node: Obj, sign: int) -> None:
        """PreFilterExtensions: AddPod (1) and RemovePod (-1)."""

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS

    def pre_score(self, pod: PodInfo, nodes: list[NodeInfo]) -> tuple[Status, Any]:
        return SUCCESS, None

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        raise NotImplementedError

    def normalize(self, state: Any, scores: dict[str, int]) -> dict[str, int]:
        return scores


class Cycle:
    """One scheduling cycle: the pod, the plugins in their order and their states."""

    def __init__(self, cluster: Cluster, pod: PodInfo, plugins: list[Plugin]):
        self.cluster = cluster
        self.pod = pod
        self.plugins = plugins
        self.states: dict[str, Any] = {}
        self.skipped: set[str] = set()

    def clone(self) -> "Cycle":
        made = Cycle(self.cluster, self.pod, self.plugins)
        made.states = {name: copy.copy(state) for name, state in self.states.items()}
        made.skipped = self.skipped
        return made

    def run_pre_filter(self) -> tuple[Status, set[str] | None, list[str]]:
        """RunPreFilterPlugins: the status, the nodes left (None: all) and the plugins that left some out."""
        names: set[str] | None = None
        restricting: list[str] = []
        for plugin in self.plugins:
            status, state = plugin.pre_filter(self.pod)
            if status == SKIP:
                self.skipped.add(plugin.name)
                continue
            if not status.ok:
                if status.code == "Error":
                    raise CannotAnswer(f"running PreFilter plugin {plugin.name}: {status.reasons}")
                return Status(status.code, status.reasons, plugin.name), None, restricting
            self.states[plugin.name] = state
            only = plugin.node_names(self.pod)
            if only is not None:
                restricting.append(plugin.name)
                names = only if names is None else names & only
            if names is not None and not names:
                return unresolvable(f"node(s) didn't satisfy plugin {restricting[0]}"), names, restricting
        return SUCCESS, names, restricting

    def update(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """RunPreFilterExtensionAddPod and RunPreFilterExtensionRemovePod."""
        for plugin in self.plugins:
            if plugin.name not in self.skipped:
                plugin.update_state(self.states.get(plugin.name), other, node.node, sign)

    def run_filter(self, node: NodeInfo) -> Status:
        """RunFilterPlugins: the first plugin that fails has the say."""
        for plugin in self.plugins:
            if not plugin.filters or plugin.name in self.skipped:
                continue
            status = plugin.filter(self.states.get(plugin.name), self.pod, node)
            if not status.ok:
                return Status(status.code, status.reasons, plugin.name)
        return SUCCESS

    def with_nominated_pods(self, node: NodeInfo) -> tuple[bool, "Cycle", NodeInfo]:
        """addGENominatedPods: nominated pods of equal or higher priority are taken to be there."""
        others = self.cluster.nominated.get(node.name, [])
        if not others:
            return False, self, node
        cycle, info, added = self.clone(), node.clone(), False
        for other in others:
            if other.priority >= self.pod.priority and other.uid != self.pod.uid:
                info.add_pod(other)
                cycle.update(other, info, 1)
                added = True
        return added, cycle, info

    def run_filter_with_nominated_pods(self, node: NodeInfo) -> Status:
        """RunFilterPluginsWithNominatedPods: the node must do both with them and without them."""
        status = SUCCESS
        added = False
        for turn in range(2):
            cycle, info = self, node
            if turn == 0:
                added, cycle, info = self.with_nominated_pods(node)
            elif not added or not status.ok:
                break
            status = cycle.run_filter(info)
            if status.code == "Error":
                return status
        return status

    def run_score(self, nodes: list[NodeInfo]) -> dict[str, dict[str, int]]:
        """RunPreScorePlugins and RunScorePlugins: by node, each plugin's weighted score and their total."""
        result: dict[str, dict[str, int]] = {node.name: {"total": 0} for node in nodes}
        for plugin in self.plugins:
            if not plugin.weight:
                continue
            status, state = plugin.pre_score(self.pod, nodes)
            if status == SKIP:
                continue
            if not status.ok:
                raise CannotAnswer(f"running PreScore plugin {plugin.name}: {status.reasons}")
            scores = {node.name: plugin.score(state, self.pod, node) for node in nodes}
            for name, score in plugin.normalize(state, scores).items():
                if not 0 <= score <= 100:
                    raise CannotAnswer(f"plugin {plugin.name} returns an invalid score {score}")
                result[name][plugin.name] = score * plugin.weight
                result[name]["total"] += score * plugin.weight
        return result


def default_normalize_score(scores: dict[str, int], *, reverse: bool) -> dict[str, int]:
    """helper.DefaultNormalizeScore up to 100."""
    highest = max([0, *scores.values()])
    if highest == 0:
        return dict.fromkeys(scores, 100) if reverse else scores
    scaled = {name: 100 * score // highest for name, score in scores.items()}
    return {name: 100 - score for name, score in scaled.items()} if reverse else scaled
