"""The scale-ups of cluster-autoscaler in sequence, until no node group helps the remaining Pending Pods.

If upstream depends on the order of a Go map (Pods of equal score, nodes of a snapshot), the order here is the input
order.
"""

from __future__ import annotations

from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.cluster_autoscaler.estimator import NOT_TRIED, group_by_scheduling_properties
from forewarn.policies.autoscaling.cluster_autoscaler.node_group import is_daemon_pod, template_info
from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import Decision, Orchestrator, Settings
from forewarn.policies.autoscaling.cluster_autoscaler.pod_list import filter_out_schedulable
from forewarn.policies.metering import CutShort, metered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.autoscaling.cluster_autoscaler.estimator import EquivalenceGroup, Estimate
    from forewarn.policies.autoscaling.cluster_autoscaler.expanders import Option
    from forewarn.policies.autoscaling.cluster_autoscaler.node_group import NodeGroup
    from forewarn.policies.documents import Hidden
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot

MAX_SCALE_UPS: Final = 100
"""Maximum scale-ups in sequence, as cluster-autoscaler's loop would continue with the remaining Pods."""
MAX_WORK: Final = 20_000_000
"""Maximum units of work for one plan: less than a minute."""


_USUAL: Final = Settings()
LOST: Final = "its nodes would be in what is lost"


class WorkloadOnNodes(NamedTuple):
    """Pods of a workload on new nodes."""

    workload: str
    pods: int
    nodes: int


class NewNodesOfGroup(NamedTuple):
    """A number of new nodes of a group."""

    group: str
    nodes: int


class ScaleUp(NamedTuple):
    """A scale-up of cluster-autoscaler. `options`: in the file's order. `ties`: other groups that are equally suitable,
    of which upstream chooses randomly. `added`: the new nodes, of several groups if similar groups are balanced.
    """

    group: str
    nodes: int
    pods: int
    expander: str
    options: Sequence[Option]
    ties: Sequence[str]
    workloads: Sequence[WorkloadOnNodes]
    added: Sequence[NewNodesOfGroup]
    waste: Hidden[float]


class NoScaleUp(NamedTuple):
    """Pods for which no group adds a node. `reasons`: cluster-autoscaler's message for each group."""

    workload: str
    pods: int
    reasons: Mapping[str, str]


class ScaleUps(NamedTuple):
    """The scale-ups in their order. `lost`: node groups whose nodes would be in what is lost.

    `truncated`: whether the work exceeded a limit, so that further scale-ups are unknown. `not_predicted`: what
    forewarn does not model, or "".
    """

    scale_ups: Sequence[ScaleUp]
    no_scale_up: Sequence[NoScaleUp]
    fit_existing_nodes: int
    lost: Sequence[str]
    truncated: bool
    not_predicted: str


def plan(
    pods: Iterable[Pod],
    snapshot: Snapshot,
    groups: Sequence[NodeGroup],
    daemon_sets: Iterable[ApiObject],
    workload_of: Callable[[Pod], str],
    settings: Settings = _USUAL,
) -> ScaleUps:
    """Return the nodes to add for these Pending Pods. Raises InvalidObject.

    `pods`: including Pods of DaemonSets, which only use existing nodes. `snapshot`: the cluster as cluster-autoscaler
    sees it. `workload_of`: returns the displayed workload of a Pod.
    """
    daemon_sets, pods = list(daemon_sets), list(pods)
    sequence = _Sequence(snapshot, groups, pods, settings)
    cut, unknown = False, ""
    try:
        with metered(lambda: False, MAX_WORK):
            if settings.limits:
                raise NotPredicted("the limits --cores-total and --memory-total are not modelled")
            templates = {
                group.name: template_info(
                    group, daemon_sets, snapshot.semantics, force_daemon_sets=settings.force_daemon_sets
                )
                for group in groups
            }
            while len(sequence.decisions) < MAX_SCALE_UPS and sequence.scale_up(templates):
                pass
    except CutShort:
        cut = True
    except NotPredicted as reason:
        unknown = str(reason)
    expander = ",".join(settings.expanders)
    scale_ups = [_described(decision, chosen, workload_of, expander) for decision, chosen in sequence.decisions]
    not_helped = _not_helped(sequence.unhelped, groups, workload_of)
    lost = [group.name for group in groups if group.blocked == LOST]
    return ScaleUps(scale_ups, not_helped, sequence.fit, lost, cut, unknown)


class _Sequence:
    """Scale-ups in sequence. `fit`: number of Pods that fit on existing nodes. `unhelped`: the Pods left."""

    def __init__(
        self, snapshot: Snapshot, groups: Sequence[NodeGroup], pods: Sequence[Pod], settings: Settings
    ) -> None:
        self.decisions: list[tuple[Decision, Estimate]] = []
        self.fit = 0
        self.unhelped = group_by_scheduling_properties(without_daemon_pods(pods))
        self._snapshot, self._groups, self._waiting = snapshot, groups, pods
        self._tried = Counter[str]()
        self._settings = settings

    def scale_up(self, templates: Mapping[str, NodeInfo]) -> bool:
        """Decide on the next scale-up and add its nodes; return whether more may follow."""
        waiting = without_daemon_pods(self._waiting)
        self._snapshot, left = filter_out_schedulable(self._snapshot, self._waiting)
        self._waiting = without_daemon_pods(left)
        self.fit += len(waiting) - len(self._waiting)
        self.unhelped = group_by_scheduling_properties(self._waiting)
        if not self.unhelped:
            return False
        orchestrator = Orchestrator(self._snapshot, self._groups, templates, self._settings, {}, self._tried)
        decision = orchestrator.decide(self.unhelped)
        if not decision.added or decision.chosen is None:
            return False
        self._add(decision.chosen, dict(decision.added), templates)
        self.decisions.append((decision, decision.chosen))
        return bool(self._waiting)

    def _add(self, chosen: Estimate, added: Mapping[str, int], templates: Mapping[str, NodeInfo]) -> None:
        """Add the nodes of a scale-up. If they are not those of the estimate, the next scale-up places the Pods."""
        if added == {chosen.group.name: chosen.nodes}:
            self._snapshot = chosen.after()
            placed = {id(pod) for pod, _ in chosen.placed}
            self._waiting = [pod for pod in self._waiting if id(pod) not in placed]
            for equivalence_group in self.unhelped:
                equivalence_group.pods = [pod for pod in equivalence_group.pods if id(pod) not in placed]
        else:
            self._snapshot = self._snapshot.with_nodes(list(self._new_nodes(added, templates)))
        self._tried.update({**added, chosen.group.name: max(chosen.added, added.get(chosen.group.name, 0))})
        self._groups = [group._replace(size=group.size + added.get(group.name, 0)) for group in self._groups]

    def _new_nodes(self, added: Mapping[str, int], templates: Mapping[str, NodeInfo]) -> Iterator[NodeInfo]:
        for group in self._groups:
            for number in range(added.get(group.name, 0)):
                info = templates[group.name].clone()
                info.node = group.new_node(self._tried[group.name] + number)
                yield info


def _not_helped(
    equivalence_groups: Iterable[EquivalenceGroup], groups: Sequence[NodeGroup], workload_of: Callable[[Pod], str]
) -> list[NoScaleUp]:
    """Return the Pods that no node group helps, by workload and reasons."""
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for equivalence_group in equivalence_groups:
        reasons = tuple(equivalence_group.reasons.get(group.name, NOT_TRIED) for group in groups)
        for pod in equivalence_group.pods:
            counts[workload_of(pod), reasons] += 1
    names = [group.name for group in groups]
    return [
        NoScaleUp(workload, count, dict(zip(names, why, strict=True)))
        for (workload, why), count in sorted(counts.items())
    ]


def without_schedulable(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[Snapshot, list[Pod]]:
    """Return the result of `filter_out_schedulable`, or the input if it takes more than MAX_WORK."""
    try:
        with metered(lambda: False, MAX_WORK):
            return filter_out_schedulable(snapshot, pods)
    except CutShort:
        return snapshot, list(pods)


def without_daemon_pods(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not is_daemon_pod(pod)]


def _described(decision: Decision, chosen: Estimate, workload_of: Callable[[Pod], str], expander: str) -> ScaleUp:
    used: dict[str, set[str]] = {}
    pods = Counter[str]()
    for pod, node in chosen.placed:
        workload = workload_of(pod)
        used.setdefault(workload, set()).add(node)
        pods[workload] += 1
    workloads = [WorkloadOnNodes(name, pods[name], len(used[name])) for name in sorted(pods)]
    ties = [option.group for option in decision.best[1:]]
    group, nodes, number, waste = decision.best[0]
    added = [*starmap(NewNodesOfGroup, decision.added)]
    return ScaleUp(group, nodes, number, expander, decision.options, ties, workloads, added, waste)
