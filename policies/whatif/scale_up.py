"""The scale-ups of cluster-autoscaler in sequence: each scan counts the nodes that earlier ones added.

If upstream depends on the order of a Go map (Pods of equal score, nodes of a snapshot), the order here is the input
order.
"""

from __future__ import annotations

from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import Arrival, NotPredicted
from forewarn.policies.autoscaling.cluster_autoscaler.autoscaler import ClusterAutoscaler, Scan
from forewarn.policies.autoscaling.cluster_autoscaler.estimator import NOT_TRIED, EquivalenceGroup
from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import Decision, Settings
from forewarn.policies.autoscaling.cluster_autoscaler.pod_list import filter_out_schedulable
from forewarn.policies.metering import CutShort, metered

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from forewarn.policies.autoscaling.cluster_autoscaler.expanders import Option
    from forewarn.policies.autoscaling.cluster_autoscaler.node_group import NodeGroup
    from forewarn.policies.documents import Hidden
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot

LIMIT_REACHED: Final = "further nodes (limit of nodes or rounds reached)"
MAX_SCALE_UPS: Final = 100
"""Maximum scale-ups in sequence."""
MAX_NODES: Final = 2_000
"""Maximum nodes of all scale-ups of one simulation."""
MAX_WORK: Final = 60_000_000
"""Maximum units of work for all scans of one simulation: about a minute."""


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

    `pods`: number of different Pods for which nodes are added. `truncated`: whether the work exceeded a limit, so that
    further scale-ups are unknown. `not_predicted`: what forewarn does not model, or "".
    """

    scale_ups: Sequence[ScaleUp]
    pods: int
    no_scale_up: Sequence[NoScaleUp]
    fit_existing_nodes: int
    lost: Sequence[str]
    truncated: bool
    not_predicted: str


class Scans:
    """Scans in sequence. `added`: number of new nodes by group. `helped`: keys of the Pods for which nodes are added.

    `omitted`: number of nodes that are not added because of a limit.
    """

    def __init__(self, groups: Sequence[NodeGroup], settings: Settings = _USUAL) -> None:
        self.added, self.helped, self.omitted = Counter[str](), set[str](), 0
        self._groups, self._settings, self._work = groups, settings, MAX_WORK
        self._daemon_sets: list[ApiObject] = []
        self._autoscaler: ClusterAutoscaler | None = None
        self._decisions: list[Decision] = []
        self._hints: dict[str, str] = {}
        """Pod -> its node in the last scan."""
        self._last: Scan | None = None
        self._truncated, self.not_predicted = False, ""

    def scan(
        self, pods: Sequence[Pod], snapshot: Snapshot, daemon_sets: list[ApiObject], upcoming: Mapping[str, int]
    ) -> list[Arrival]:
        """Return the nodes that the next scan adds. Raises InvalidObject.

        `pods`: including Pods of DaemonSets, which only use existing nodes. `snapshot`: the cluster as
        cluster-autoscaler sees it. `upcoming`: number of added nodes that are not in it, by group.
        """
        if self.has_ended:
            return []
        try:
            with metered(lambda: False, self._work) as work:
                autoscaler = self._with(daemon_sets, snapshot)
                self._last = scan = autoscaler.decide(pods, snapshot, self.added, upcoming, self._hints)
            self._work = work.left
        except CutShort:
            self._truncated = True
            return []
        except NotPredicted as reason:
            self.not_predicted = str(reason)
            return []
        arrivals = scan.arrivals
        if arrivals and (len(self._decisions) == MAX_SCALE_UPS or self.added.total() + len(arrivals) > MAX_NODES):
            self.omitted, self.not_predicted = len(arrivals), LIMIT_REACHED
            return []
        if arrivals:
            self._decisions.append(scan.decision)
            self.added.update(dict(scan.decision.added))
            self.helped.update(key for arrival in arrivals for key in arrival.pods)
        return arrivals

    def packed(
        self, pods: Sequence[Pod], snapshot: Snapshot, daemon_sets: list[ApiObject], upcoming: Mapping[str, int]
    ) -> Snapshot:
        """Return the cluster with the Pods that fit on existing nodes, for scale-down. Parameters as of `scan`."""
        if not pods and not upcoming:
            return snapshot
        return self._with(daemon_sets, snapshot).packed(pods, snapshot, upcoming, dict(self._hints))[0]

    @property
    def has_begun(self) -> bool:
        """Whether there was a scan."""
        return self._last is not None or self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether further scale-ups are unknown."""
        return self._truncated or bool(self.not_predicted)

    def _with(self, daemon_sets: list[ApiObject], snapshot: Snapshot) -> ClusterAutoscaler:
        if self._autoscaler is None or list(map(id, daemon_sets)) != list(map(id, self._daemon_sets)):
            self._daemon_sets = daemon_sets
            self._autoscaler = ClusterAutoscaler(self._groups, daemon_sets, snapshot.semantics, self._settings)
        return self._autoscaler

    def result(self, workload_of: Callable[[Pod], str], pending: Container[str]) -> ScaleUps:
        """Return the scale-ups of all scans, and the Pods that they do not help. `pending`: keys of Pending Pods."""
        expander, last = ",".join(self._settings.expanders), self._last
        return ScaleUps(
            scale_ups=[_described(decision, workload_of, expander) for decision in self._decisions],
            pods=len(self.helped),
            no_scale_up=_not_helped(last.waiting if last else (), self._groups, workload_of, pending),
            fit_existing_nodes=sum(pod.key in pending for pod in last.fit) if last else 0,
            lost=[group.name for group in self._groups if group.blocked == LOST],
            truncated=self._truncated,
            not_predicted=self.not_predicted,
        )


def plan(
    pods: Iterable[Pod],
    snapshot: Snapshot,
    groups: Sequence[NodeGroup],
    daemon_sets: Iterable[ApiObject],
    workload_of: Callable[[Pod], str],
    settings: Settings = _USUAL,
) -> ScaleUps:
    """Return the nodes to add for these Pending Pods, until no node group helps. Raises InvalidObject.

    The parameters are those of `Scans`. `workload_of`: returns the displayed workload of a Pod.
    """
    pods, scans, daemon_sets = list(pods), Scans(groups, settings), list(daemon_sets)
    while scans.scan(pods, snapshot, daemon_sets, scans.added):
        pass
    return scans.result(workload_of, {pod.key for pod in pods} - scans.helped)


def _not_helped(
    waiting: Iterable[EquivalenceGroup],
    groups: Sequence[NodeGroup],
    workload_of: Callable[[Pod], str],
    pending: Container[str],
) -> list[NoScaleUp]:
    """Return the Pods that no node group helps, by workload and reasons."""
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for equivalence_group in waiting:
        reasons = tuple(equivalence_group.reasons.get(group.name, NOT_TRIED) for group in groups)
        for pod in equivalence_group.pods:
            if pod.key in pending:
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


def _described(decision: Decision, workload_of: Callable[[Pod], str], expander: str) -> ScaleUp:
    used: dict[str, set[str]] = {}
    pods = Counter[str]()
    for pod, node in decision.chosen.placed if decision.chosen else ():
        workload = workload_of(pod)
        used.setdefault(workload, set()).add(node)
        pods[workload] += 1
    workloads = [WorkloadOnNodes(name, pods[name], len(used[name])) for name in sorted(pods)]
    ties = [option.group for option in decision.best[1:]]
    group, nodes, number, waste = decision.best[0]
    added = [*starmap(NewNodesOfGroup, decision.added)]
    return ScaleUp(group, nodes, number, expander, decision.options, ties, workloads, added, waste)
