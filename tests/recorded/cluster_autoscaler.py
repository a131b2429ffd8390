"""The answer to a recorded case: the first scale-up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.fields import at, boolean, int32, items, mapping, strings, text
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY, read_resource_list
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.prediction.autoscaling import NotPredicted
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import (
    MAX_NODES,
    EquivalenceGroup,
    group_by_scheduling_properties,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import (
    NodeGroup,
    from_node,
    from_provider,
    is_daemon_pod,
    is_good_template,
    is_ready,
    is_schedulable,
    template_info,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import (
    DEFAULT,
    NOT_READY,
    Decision,
    Orchestrator,
    Priorities,
    Settings,
    balanced,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import (
    filter_out_schedulable,
    is_expendable,
    without_expendable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.resources import ExactAmounts
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import EquivalenceGroup

DEFAULT_CUTOFF: Final = Options().autoscaler_cutoff
_OK_UNREADY: Final = 3
_MAX_UNREADY: Final = 0.45
"""Defaults of --ok-total-unready-count and --max-total-unready-percentage."""
_LISTS: Final = ("nodes", "pods", "daemonsets", "pvcs", "pvs", "storageClasses", "namespaces")


def answer_case(case: ApiObject) -> ApiObject:
    """Return the decision for a case in the form of the recordings. Raises NotPredicted, InvalidObject, ValueError."""
    cutoff = _number(mapping(case, "options"), "expendablePodsPriorityCutoff", DEFAULT_CUTOFF)
    pods = [Pod.from_api(pod) for pod in items(case, "pending")]
    pods = [pod for pod in pods if not (pod.nominated_node_name or pod.terminating)]
    important = [pod for pod in pods if not is_expendable(pod, cutoff)]
    scene = _Scene(case, without_expendable(_snapshot(case), cutoff))
    snapshot, left = filter_out_schedulable(scene.snapshot, important)
    equivalence_groups = group_by_scheduling_properties([pod for pod in left if not is_daemon_pod(pod)])
    unplaced = set(map(id, left))
    return {
        "podsExpendable": _names(pod for pod in pods if is_expendable(pod, cutoff)),
        "podsFitExisting": _names(pod for pod in important if id(pod) not in unplaced),
        "podsOfDaemonSets": _names(filter(is_daemon_pod, left)),
        **_as_dict(scene.decide(snapshot, equivalence_groups), equivalence_groups, scene.groups),
    }


class _Scene:
    """The node groups of a case. `snapshot`: with the nodes on their way."""

    def __init__(self, case: ApiObject, snapshot: Snapshot) -> None:
        self._nodes = {text(node, "metadata", "name"): node for node in items(case, "nodes")}
        self._settings, entries = _settings(case), list(items(case, "groups"))
        self.groups = [_node_group(entry, self._nodes, snapshot) for entry in entries]
        daemon_sets, force = list(items(case, "daemonsets")), self._settings.force_daemon_sets
        self._templates = {
            group.name: template_info(group, daemon_sets, snapshot.semantics, force_daemon_sets=force)
            for group in self.groups
        }
        self._upcoming = {
            group.name: max(group.size - len(strings(entry, "nodes")), 0)
            for group, entry in zip(self.groups, entries, strict=True)
        }
        if sum(self._upcoming.values()) > MAX_NODES:
            raise NotPredicted(f"more than {MAX_NODES} nodes are on their way")
        self.snapshot = snapshot.with_nodes(list(_upcoming(self.groups, self._templates, self._upcoming)))

    def decide(self, snapshot: Snapshot, equivalence_groups: Sequence[EquivalenceGroup]) -> Decision:
        """Return the scale-up; nothing if the cluster has the maximum number of nodes, or too few ready ones.

        Source: `RunOnce`.
        """
        settings, nodes = self._settings, self._nodes.values()
        ready, schedulable = sum(map(is_ready, nodes)), sum(map(is_schedulable, nodes))
        is_stopped = not schedulable or _is_unhealthy(len(nodes), ready, len(nodes))
        if is_stopped or not equivalence_groups or 0 < settings.max_nodes_total <= schedulable:
            return Decision()
        used = _used(self._nodes.values(), self.groups, self._upcoming)
        left = {name: max(limit - used[name], 0) for name, limit in settings.limits.items()}
        orchestrator = LimitedOrchestrator(snapshot, self.groups, self._templates, settings)
        orchestrator.left = left
        return orchestrator.decide(equivalence_groups)


def node_amounts(capacity: ExactAmounts) -> dict[str, int]:
    """Return the cores and bytes that count for limits. Source: `GetNodeCoresAndMemory`."""
    return {name: max(-(-capacity.get(name, 0) // NANO), 0) for name in (CPU, MEMORY)}


class LimitedOrchestrator(Orchestrator):
    """An orchestrator with the limits --cores-total and --memory-total, which only recorded cases have.

    `left`: amount of each limited resource that may still be added.
    """

    left: Mapping[str, int]

    def why_skipped(self, group: NodeGroup) -> str | None:
        if (why := super().why_skipped(group)) or not (exceeded := self._exceeded(group, 1)):
            return why
        return f'exceeded quota: "cluster-wide", resources: {", ".join(exceeded)}'

    def grown(self, group: NodeGroup, new_nodes: int) -> list[tuple[NodeGroup, int]]:
        """Return the numbers that the limits allow together. Source: `capScaleUpsByQuota`."""
        growing = (other for other in self._similar[group.name] if not self._exceeded(other, 1))
        added = []
        for each, wanted in balanced([group, *growing], self._allowed(group, new_nodes)):
            nodes, amounts = self._allowed(each, wanted), node_amounts(each.capacity)
            self.left = {name: left - amounts[name] * nodes for name, left in self.left.items()}
            added += [(each, nodes)] if nodes else []
        return added

    def _exceeded(self, group: NodeGroup, nodes: int) -> list[str]:
        """Return the limited resources of which too little is left for these nodes."""
        amounts = node_amounts(group.capacity)
        return [name for name, left in self.left.items() if amounts[name] > 0 and left < amounts[name] * nodes]

    def _allowed(self, group: NodeGroup, nodes: int) -> int:
        """Return how many of these nodes the limits allow. Source: resourcequotas `checkQuota`."""
        amounts = node_amounts(group.capacity)
        return min([nodes, *(self.left[name] // amounts[name] for name in self._exceeded(group, nodes))])


def _as_dict(
    decision: Decision, equivalence_groups: Sequence[EquivalenceGroup], groups: Sequence[NodeGroup]
) -> dict[str, Any]:
    chosen = decision.chosen
    rejected = [group for group in equivalence_groups if len(group.reasons) == len(groups)]
    return {
        "scaleUps": [{"group": group, "nodes": nodes} for group, nodes in decision.added],
        "options": [
            {
                "group": option.group,
                "nodes": option.nodes,
                "pods": option.pods,
                "similar": decision.similar[option.group],
            }
            for option in decision.options
        ],
        "chosen": chosen.group.name if chosen else "",
        "or": [option.group for option in decision.best[1:]],
        "podsTriggered": _names(pod for pod, _ in chosen.placed) if chosen else [],
        "podsRemainUnschedulable": [{"pods": _names(group.pods), "reasons": group.reasons} for group in rejected],
    }


def _names(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.name if pod.namespace == "default" else pod.key for pod in pods)


def _settings(case: ApiObject) -> Settings:
    options = mapping(case, "options")
    cores, memory = _number(options, "maxCoresTotal"), _number(options, "maxMemoryTotalGiB")
    return Settings(
        expanders=text(options, "expander", default=DEFAULT).split(","),
        balance_similar=boolean(options, "balanceSimilar"),
        ignored_labels=frozenset(strings(options, "balancingIgnoredLabels")),
        max_nodes_total=_number(options, "maxNodesTotal"),
        limits={name: limit for name, limit in ((CPU, cores), (MEMORY, memory << 30)) if limit},
        force_daemon_sets=boolean(options, "forceDaemonSets"),
        priorities=Priorities(text(options, "priorities")) if "priorities" in options else None,
    )


def _number(obj: ApiObject, key: str, default: int = 0) -> int:
    return default if (number := int32(obj, key)) is None else number


def _snapshot(case: ApiObject) -> Snapshot:
    cache = Cache()
    for obj in (obj for key in _LISTS for obj in items(case, key)):
        cache.add(obj)
    for pod in items(case, "pending"):
        if at(pod, "status", "nominatedNodeName"):
            cache.add(pod)
    return cache.snapshot().scheduling


def _is_unhealthy(expected: int, ready: int, total: int) -> bool:
    """Report whether too many of the expected nodes are not ready.

    `total`: number of existing nodes. Source: `IsClusterHealthy`, `IsNodeGroupHealthy`.
    """
    unready = expected - ready
    return unready > _OK_UNREADY and unready > _MAX_UNREADY * total


def _node_group(entry: ApiObject, nodes: Mapping[str, ApiObject], snapshot: Snapshot) -> NodeGroup:
    """Return a group with its template, if possible made of a good node. Source: `MixedTemplateNodeInfoProvider`."""
    name, size, most = text(entry, "name"), _number(entry, "size"), int32(entry, "maxSize")
    members = [member for member in strings(entry, "nodes") if member in snapshot.rows]
    ready = sum(is_ready(nodes[member]) for member in members)
    good = next((nodes[member] for member in members if is_good_template(nodes[member])), None)
    if good is None:
        group = from_provider(name, size, most, mapping(entry, "template"))
    else:
        pods = snapshot.node_infos[snapshot.rows[text(good, "metadata", "name")]].pods
        group = from_node(name, size, most, good, pods)
    expected = min(size, len(members))
    return group._replace(blocked=NOT_READY if _is_unhealthy(expected, ready, len(members)) else "")


def _upcoming(
    groups: Iterable[NodeGroup], templates: Mapping[str, NodeInfo], numbers: Mapping[str, int]
) -> Iterator[NodeInfo]:
    """Yield the nodes on their way, made of the templates. Source: `addUpcomingNodesToClusterSnapshot`."""
    for group in groups:
        for number in range(numbers[group.name]):
            info = templates[group.name].clone()
            info.node = group.new_node(f"upcoming-{number}")
            yield info


def _used(nodes: Iterable[ApiObject], groups: Iterable[NodeGroup], upcoming: Mapping[str, int]) -> Counter[str]:
    """Return the limited resources of all nodes. Source: resourcequotas `calculateUsages`."""
    used = Counter[str]()
    for node in nodes:
        used.update(node_amounts(read_resource_list(node, "status", "capacity")))
    for group in groups:
        amounts = node_amounts(group.capacity)
        used.update({name: amount * upcoming[group.name] for name, amount in amounts.items()})
    return used
