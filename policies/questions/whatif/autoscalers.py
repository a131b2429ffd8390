"""The Pending Pods for which an autoscaler would add a node, and the scale-ups of cluster-autoscaler in sequence.

kube-scheduler preempts before any autoscaler acts, so an autoscaler does not change the victims, only the outcome of
Pending Pods. Sources: cluster-autoscaler core/utils `FilterOutExpendablePods`, utils/kubernetes
`ArrangePodsBySchedulability`, utils/pod `IsDaemonSetPod`, before 1.36 core/utils `FilterOutExpendableAndSplit`;
Karpenter pkg/utils/pod `IsProvisionable`, `ValidatePersistentVolumeClaims`. If upstream depends on the order of a Go
map (Pods of equal score, nodes of a snapshot), the order here is the input order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.copies import shared_labels
from forewarn.policies.base.findings import brief, described, duration, grouped, listed, plural
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.controllers.view import Key, controller_of, workload_key
from forewarn.policies.kubernetes.kinds.registry import CLAIM, DAEMON_SET
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, ref_of
from forewarn.policies.kubernetes.objects.node import ZONE
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.quantity import cores, gibibytes
from forewarn.policies.kubernetes.scheduling.not_predicted import SCHEDULER_ERROR, missing_claim
from forewarn.policies.prediction.autoscaling import NODE_DELAY, Arrival, NotPredicted
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import NOT_TRIED, EquivalenceGroup
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, is_daemon_pod
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import (
    ClusterAutoscaler,
    Decision,
    Scan,
    Settings,
    without_daemon_pods,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import (
    filter_out_schedulable,
    is_expendable,
    without_expendable,
)
from forewarn.policies.prediction.autoscaling.karpenter.requirements import is_provisionable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents import Hidden, Sparse
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import Option
    from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import Karpenter
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import InstanceType
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import Names


LIMIT_REACHED: Final = "further nodes (limit of nodes or rounds reached)"
MAX_SCALE_UPS: Final = 100
"""Maximum number of scale-ups in sequence."""
MAX_NODES: Final = 2_000
"""Maximum number of nodes of all scale-ups of one simulation."""
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
    """The scale-ups in their order. `lost_groups`: groups that would add nodes to the lost zone or pool.

    `pods`: number of different Pods for which nodes are added. `truncated`: whether the work exceeded a limit, so that
    further scale-ups are unknown. `not_predicted`: what forewarn does not model, or "".
    """

    scale_ups: Sequence[ScaleUp]
    pods: int
    no_scale_up: Sequence[NoScaleUp]
    fit_existing_nodes: int
    lost_groups: Sequence[str]
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
                autoscaler = self._create_autoscaler(daemon_sets, snapshot)
                self._last = scan = autoscaler.decide(pods, snapshot, self.added, upcoming, self._hints)
            self._work = work.remaining
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
        return self._create_autoscaler(daemon_sets, snapshot).packed(pods, snapshot, upcoming, dict(self._hints))[0]

    @property
    def has_begun(self) -> bool:
        """Whether there was a scan."""
        return self._last is not None or self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether further scale-ups are unknown."""
        return self._truncated or bool(self.not_predicted)

    def _create_autoscaler(self, daemon_sets: list[ApiObject], snapshot: Snapshot) -> ClusterAutoscaler:
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
            lost_groups=[group.name for group in self._groups if group.blocked == LOST],
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
    placed = decision.chosen.placed if decision.chosen else ()
    used = sorted(grouped((workload_of(pod), node) for pod, node in placed).items())
    workloads = [WorkloadOnNodes(name, len(on), len({*on})) for name, on in used]
    ties = [option.group for option in decision.best[1:]]
    group, nodes, number, waste = decision.best[0]
    added = [*starmap(NewNodesOfGroup, decision.added)]
    return ScaleUp(group, nodes, number, expander, decision.options, ties, workloads, added, waste)


MAX_ROUNDS: Final = 20
"""Maximum number of rounds: limits let Karpenter launch fewer nodes in a round than needed."""
_MAX_LINES: Final = 20
_NAMED: Final = 5
_MAX_LENGTH: Final = 300
"""Maximum characters of Karpenter's reason for a Pod without a node."""


class PodsOfWorkload(NamedTuple):
    """A number of Pods of a workload."""

    workload: str
    pods: int


class Launch(NamedTuple):
    """Equal nodes that Karpenter adds. `workloads`: whose Pods need these nodes."""

    node_pool: str
    instance_type: str
    nodes: int
    workloads: Sequence[PodsOfWorkload]


class NoLaunch(NamedTuple):
    """Pods for which no NodePool adds a node. `reason`: Karpenter's message."""

    workload: str
    pods: int
    reason: str


class Launches(NamedTuple):
    """The nodes that Karpenter adds. `not_predicted`: what forewarn does not model, or "".

    An instance type is the cheapest that Karpenter allows.
    """

    launches: Sequence[Launch]
    no_launch: Sequence[NoLaunch]
    not_predicted: str
    arrivals: Hidden[Sequence[Arrival]]

    @property
    def not_helped(self) -> int:
        """The number of Pods for which no NodePool adds a node."""
        return sum(item.pods for item in self.no_launch)


def launch(
    karpenter: Karpenter, pods: Sequence[Pod], snapshot: Snapshot, workload_of: Callable[[Pod], str]
) -> Launches:
    """Return the nodes that Karpenter launches until no further node helps."""
    arrivals: list[Arrival] = []
    errors: dict[str, str] = {}
    try:
        for _ in range(MAX_ROUNDS):
            more, errors = karpenter.decide(pods, snapshot, arrivals)
            arrivals += more
            if not more:
                break
    except NotPredicted as reason:
        return Launches([], [], str(reason), [])
    return launches_of(arrivals, errors, {pod.key: workload_of(pod) for pod in pods})


def launches_of(
    arrivals: Sequence[Arrival], errors: Mapping[str, str], workloads: Mapping[str, str], not_predicted: str = ""
) -> Launches:
    """Return the launches of nodes. `errors`: Pod -> why it gets no node. `workloads`: Pod -> displayed workload."""
    left = Counter((workloads[key], brief(why, _MAX_LENGTH)) for key, why in errors.items())
    no_launch = [NoLaunch(workload, number, why) for (workload, why), number in left.items()]
    return Launches(_merge_launches(arrivals, workloads), no_launch, not_predicted, arrivals)


def _merge_launches(arrivals: Sequence[Arrival], workloads: Mapping[str, str]) -> list[Launch]:
    label = "node.kubernetes.io/instance-type"
    alike = grouped(((each.group, str(at(each.node, "metadata", "labels", label))), each.pods) for each in arrivals)
    pods = {kind: Counter(workloads[key] for keys in nodes for key in keys) for kind, nodes in alike.items()}
    return [Launch(*kind, len(alike[kind]), [*starmap(PodsOfWorkload, pods[kind].items())]) for kind in alike]


_NO_INSTANCE_TYPES: Final = "no new nodes of Karpenter (not predicted without instance types)"
_DAEMON: Final = "owned by a DaemonSet"
_NOT_TRIED: Final = "not marked Unschedulable"
_NOMINATED: Final = "nominated to a node"
_NO_CLAIM: Final = "its PersistentVolumeClaim does not exist"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Autoscaling:
    """The settings of autoscalers. `cutoff`: cluster-autoscaler's --expendable-pods-priority-cutoff.

    `groups`: the node groups; empty if none are known. `settings`: flags of cluster-autoscaler. `karpenter`: with its
    NodePools and `instance_types`, if both are known. `node_delay`: seconds from a scale-up to the new nodes; None if
    no nodes arrive in simulations. `has_node_pools`: whether the cluster has NodePools. `scale_down`: whether
    cluster-autoscaler removes nodes in simulations. `unmodelled_of_karpenter`: its flags that have no effect here.
    """

    cutoff: int = Options().autoscaler_cutoff
    groups: Sequence[NodeGroup] = ()
    settings: Settings = field(default_factory=Settings)
    node_delay: float | None = NODE_DELAY
    instance_types: Sequence[InstanceType] = ()
    karpenter: Karpenter | None = None
    has_node_pools: bool = False
    scale_down: bool = False
    unmodelled_of_karpenter: Sequence[str] = ()

    def __repr__(self) -> str:
        groups, delay = plural(len(self.groups), "node group"), self.node_delay
        arrival = "no new nodes" if delay is None else f"new nodes after {duration(delay)}"
        return described(self, f"{groups}{', Karpenter' if self.karpenter else ''}; {arrival}; cutoff {self.cutoff}")

    @property
    def grows(self) -> bool:
        """Whether forewarn knows node groups, or NodePools with instance types."""
        return bool(self.groups or self.karpenter)

    @property
    def is_off(self) -> bool:
        """Whether no nodes are to be added, and no node groups are given."""
        return self.node_delay is None and not self.grows

    @property
    def assumes(self) -> Sequence[str]:
        """What simulations assume about nodes that autoscalers add and remove, as phrases."""
        if self.node_delay is None:
            return ()
        of_karpenter = ["consolidation, drift or expiration"] * bool(self.karpenter or self.has_node_pools)
        why = self.no_scale_down if self.scale_down else ""
        removals = listed(["scale-down"] * bool(self.groups and not self.removes_nodes and not why) + of_karpenter)
        clauses = [f"no scale-down (not predicted: {why})"] if why else []
        clauses += [f"no {removals} (not predicted)"] if removals else []
        if self.removes_nodes:
            least = duration(self.settings.scale_down.unneeded_time)
            clauses.insert(0, f"cluster-autoscaler removes nodes that are not needed for {least}")
        return (*self.assumes_of_arrivals, *clauses)

    @property
    def removes_nodes(self) -> bool:
        """Whether cluster-autoscaler removes nodes in simulations."""
        return self.scale_down and bool(self.groups) and not self.no_scale_down

    @property
    def no_scale_down(self) -> str:
        """Why the scale-down of cluster-autoscaler is not simulated, or ""."""
        settings = self.settings.scale_down
        if self.groups and all(group.members is None for group in self.groups):
            return "the node templates do not name the nodes of groups"
        return settings.not_predicted if settings.enabled else "--scale-down-enabled is false"

    @property
    def assumes_of_arrivals(self) -> Sequence[str]:
        """Clauses about the nodes that arrive."""
        if self.node_delay is None:
            return ()
        names = [group.name for group in self.groups][:_NAMED]
        names += [f"{len(self.groups) - _NAMED} more groups"] if len(self.groups) > _NAMED else []
        ready = f"nodes of {', '.join([*names, *['Karpenter'] * bool(self.karpenter)])} ready "
        ready += f"{duration(self.node_delay)} after a scale-up"
        is_unknown = self.has_node_pools and self.karpenter is None
        clauses = [ready] if self.grows else []
        if self.groups and (flags := self.settings.unmodelled):
            which = listed([f"--{flag}" for flag in flags], _NAMED)
            clauses.append(f"no effect of {which} of cluster-autoscaler (not modelled)")
        if self.unmodelled_of_karpenter:
            clauses.append(f"no effect of {listed([*self.unmodelled_of_karpenter])} of Karpenter (not modelled)")
        return (*clauses, *([_NO_INSTANCE_TYPES] if is_unknown else ()))

    def after(self, lost: Sequence[tuple[str, str]]) -> Autoscaling:
        """Return the settings after the loss of all nodes with these labels: node groups of such nodes do not grow."""
        if not lost:
            return self
        return replace(
            self,
            groups=[_remaining_group(group, dict(lost)) for group in self.groups],
            karpenter=self.karpenter and self.karpenter.without_offerings(dict(lost)),
        )


NO_GROUPS: Final = Autoscaling()


def _remaining_group(group: NodeGroup, lost: Mapping[str, str]) -> NodeGroup:
    """Return a node group after the loss of all nodes with these labels: it grows in the zones that are left."""
    if any(group.node.labels.get(key) != value for key, value in lost.items()):
        return group
    left = [zone for zone in group.zones if zone != lost.get(ZONE)]
    if lost.keys() != {ZONE} or not left:
        return group._replace(blocked=LOST)
    return group._replace(node=replace(group.node, labels=shared_labels({**group.node.labels, ZONE: left[0]})))


class Waiting(NamedTuple):
    """A Pod without a node. `tried`: whether kube-scheduler has marked the Pod Unschedulable."""

    pod: Pod
    tried: bool = True


class Considered(NamedTuple):
    """The number of Pending Pods that an autoscaler considers for a scale-up, and of the others by reason."""

    considered: int
    ignored: Mapping[str, int]
    pending: Hidden[int]

    def count_helped(self, helped: int, by_all: int) -> Considered:
        """Also count the Pods for which nodes were added. `helped`: by this autoscaler; `by_all`: by all of them."""
        return self._replace(considered=self.considered + helped, pending=self.pending + by_all)


class RemovedNode(NamedTuple):
    """A node that cluster-autoscaler removes. `at`: seconds until then. `evicted`: number of Pods that it evicts.
    `expendable`: number of Pods below the cutoff, which are deleted with the node.
    """

    node: str
    group: str
    at: float
    evicted: int
    expendable: int


class ScaleDowns(NamedTuple):
    """The scale-down of cluster-autoscaler until the end of the simulation.

    `removed`: in the order of time. `deleting`: nodes that are being removed at the end. `kept`: number of other nodes
    by the reason why they stay. `failed`: node -> why its removal failed. `not_predicted`: why further removals are
    unknown, or "".
    """

    removed: Sequence[RemovedNode]
    deleting: Sequence[str]
    kept: Mapping[str, int]
    failed: Mapping[str, str]
    not_predicted: str


class DaemonRequests(NamedTuple):
    """A DaemonSet, and what one of its Pods requests, such as `2 cpu`."""

    daemon_set: str
    priority: int
    requests: Sequence[str]


class DaemonOverhead(NamedTuple):
    """A workload for whose Pods an autoscaler would add a node without DaemonSets of lower priority."""

    workload: str
    requests: Sequence[str]
    daemon_sets: Sequence[DaemonRequests]


class Autoscalers(NamedTuple):
    """The reaction of autoscalers to Pending Pods.

    `node_groups`: of cluster-autoscaler; None without node groups. `node_pools`: of Karpenter; None without NodePools
    and instance types. `scale_down`: of cluster-autoscaler; None if scale-down is not simulated. `are_off`: no nodes
    are to be added, and no node groups are given. `overhead`: the DaemonSets that are the reason for no new node.
    """

    cluster_autoscaler: Considered
    karpenter: Considered
    node_groups: ScaleUps | None = None
    node_pools: Launches | None = None
    scale_down: ScaleDowns | None = None
    are_off: Hidden[bool] = False
    overhead: Sparse[Sequence[DaemonOverhead]] = ()

    @property
    def added(self) -> Counter[str]:
        """The number of new nodes by node group and NodePool."""
        nodes = Counter[str]()
        for scale_up in self.node_groups.scale_ups if self.node_groups else ():
            nodes.update(dict(scale_up.added))
        for each in self.node_pools.launches if self.node_pools else ():
            nodes[each.node_pool] += each.nodes
        return nodes

    @property
    def not_helped(self) -> set[str]:
        """The workloads for whose Pods no node group and no NodePool adds a node."""
        by_group = {each.workload for each in self.node_groups.no_scale_up} if self.node_groups else set[str]()
        by_pool = {each.workload for each in self.node_pools.no_launch} if self.node_pools else set[str]()
        return by_group | by_pool


class WorkloadBack(NamedTuple):
    """The number of running Pods of a workload: before the change, at its worst moment, at the end, and at the end
    without new nodes.

    `pending`: number of Pods that are Pending at the end. `message`: why they are Pending, or why the Job fails. `at`:
    seconds until its last Pod was scheduled; null if `message` has a reason, or if no Pod was scheduled.
    """

    workload: str
    before: int
    worst: int
    after: int
    without_new_nodes: int
    pending: int
    message: str
    at: float | None
    pending_without_new_nodes: Hidden[int] = 0


class WorstMoment(NamedTuple):
    """The lowest number of running Pods, and the seconds until then."""

    running: int
    at: float


class PendingPods(NamedTuple):
    """The Pending Pods of a cluster, and what autoscalers read.

    `daemon_sets`: raises InvalidObject later if a template is invalid. `workload_of`: returns the display name of a
    Pod's workload. `admission`: converts the object of a new Pod.
    """

    waiting: Sequence[Waiting]
    snapshot: Snapshot
    daemon_sets: Sequence[ApiObject] = ()
    workload_of: Callable[[Pod], str] = lambda pod: pod.key
    admission: Callable[[ApiObject], Pod] = Pod.from_api

    @classmethod
    def from_simulation(cls, simulation: Simulation, names: Names) -> PendingPods:
        """Return the Pods that are Pending at the end of a simulation. `names`: display names of workloads."""
        api, origins = simulation.api, simulation.timeline.origins
        daemon_sets = [api.workloads[key].object for key in api.keys_of(DAEMON_SET)]
        return cls(
            [*waiting_pods(simulation)],
            simulation.cache.snapshot(),
            daemon_sets,
            lambda pod: names.name_of(origins[pod.key].workload),
            simulation.world.admission,
        )

    @classmethod
    def from_predictions(cls, predictions: Sequence[Prediction], cluster: ClusterSnapshot) -> PendingPods:
        """Return the Pods that stay Pending in sequential predictions."""
        waiting = [Waiting(p.pod, tried=not p.error) for p in predictions if p.outcome == "pending"]
        end = predictions[-1].final_snapshot() if waiting else cluster.scheduling
        daemon_sets = [workload.object for key, workload in sorted(cluster.workloads.items()) if key[0] == DAEMON_SET]
        return cls(waiting, end, daemon_sets, cluster.top_workload_of, partial(admitted, snapshot=cluster))

    def without(self, pod: Pod, daemon_sets: Collection[Key]) -> PendingPods:
        """Return the same cluster with `pod` as its only Pending Pod, and without these DaemonSets."""
        objects = self.snapshot.objects
        workloads = {key: view for key, view in objects.workloads.items() if key not in daemon_sets}
        return self._replace(
            waiting=[Waiting(pod)],
            snapshot=self.snapshot.with_node_infos(replace(objects, workloads=workloads), {}),
            daemon_sets=[obj for obj in self.daemon_sets if workload_key(obj) not in daemon_sets],
        )


_MAX_WORKLOADS: Final = 3
"""Maximum number of workloads whose overhead is computed: each takes a round of the autoscaler and one for each
DaemonSet.
"""
_MAX_DAEMON_SETS: Final = 20


def with_overhead(reaction: Autoscalers, pending: PendingPods, autoscaling: Autoscaling) -> Autoscalers:
    """Add the DaemonSets whose Pods take so much of a new node that no autoscaler adds one for a Pod. Raises
    InvalidObject.

    Autoscalers expect the Pods of DaemonSets on each new node, and preempt none of them. kube-scheduler would preempt
    those of lower priority.
    """
    pods = {pending.workload_of(each.pod): each.pod for each in pending.waiting} if reaction.not_helped else {}
    not_helped = [(name, pods[name]) for name in sorted(reaction.not_helped) if name in pods]
    every = ((workload_key(obj), _pod_of(obj, pending.admission)) for obj in pending.daemon_sets if not_helped)
    daemons = {key: pod for key, pod in every if pod is not None and _requests(pod)}

    def is_helped(pod: Pod, without: Collection[Key]) -> bool:
        groups = [
            group._replace(example=[each for each in group.example if controller_of(each) not in without])
            if group.example
            else group
            for group in autoscaling.groups
        ]
        return bool(autoscalers(pending.without(pod, without), replace(autoscaling, groups=groups)).added)

    found = []
    for workload, pod in not_helped[:_MAX_WORKLOADS]:
        lower = [key for key, each in daemons.items() if each.effective_priority < pod.effective_priority]
        largest = sorted(lower, key=lambda key: _size(daemons[key]))[-_MAX_DAEMON_SETS:]
        if causes := _reasons(pod, largest, is_helped):
            rows = [("/".join(key[1:]), daemons[key].effective_priority, _requests(daemons[key])) for key in causes]
            found.append(DaemonOverhead(workload, _requests(pod), [*starmap(DaemonRequests, rows)]))
    return reaction._replace(overhead=found)


def _reasons(pod: Pod, daemon_sets: list[Key], is_helped: Callable[[Pod, Collection[Key]], bool]) -> Sequence[Key]:
    """Return the DaemonSets without which a Pod gets a node; empty if it then gets none, either."""
    if not daemon_sets or not is_helped(pod, daemon_sets):
        return []
    causes = daemon_sets
    for each in daemon_sets:  # a DaemonSet with small requests may not be a reason
        others = [key for key in causes if key != each]
        causes = others if others and is_helped(pod, others) else causes
    return causes


def _pod_of(daemon_set: ApiObject, admission: Callable[[ApiObject], Pod]) -> Pod | None:
    """Return a Pod of a DaemonSet; None if admission rejects it."""
    try:
        return admission(made_of(ref_of(daemon_set).namespace, daemon_set, template_of(daemon_set)))
    except InvalidObject:
        return None


def _size(pod: Pod) -> tuple[int, int]:
    request = pod.spec.request
    return request.milli_cpu, request.memory


def _requests(pod: Pod) -> list[str]:
    """The requests as phrases, such as `2 cpu`."""
    cpu, memory = _size(pod)
    return [f"{cores(cpu)} cpu"] * bool(cpu) + [f"{gibibytes(memory)} memory"] * bool(memory)


def explained(pending: PendingPods, autoscaling: Autoscaling) -> Autoscalers:
    """Return the autoscalers' reaction to Pending Pods, with the reasons for no new node. Raises InvalidObject."""
    return with_overhead(autoscalers(pending, autoscaling), pending, autoscaling)


def autoscalers(pending: PendingPods, autoscaling: Autoscaling) -> Autoscalers:
    """Return the autoscalers' reaction to Pending Pods. Raises InvalidObject for an invalid template of a DaemonSet."""
    waiting, snapshot, cutoff, workload_of = pending.waiting, pending.snapshot, autoscaling.cutoff, pending.workload_of
    reasons = [(item.pod, _why_ignored(item, snapshot, cutoff)) for item in waiting]
    of_ca = Counter(why for _, why in reasons if why)
    pods = [pod for pod, why in reasons if not why]
    daemons = [pod for pod, why in reasons if why == _DAEMON]
    # A Pod that never preempts may fit where Pods below the cutoff run, which other Pods preempt.
    if pods and (autoscaling.groups or any(pod.preemption_policy == PREEMPT_NEVER for pod in pods)):
        before = len(pods)
        snapshot, pods, daemons = _as_seen(snapshot, pods, daemons, cutoff)
        of_ca[f"fits without Pods below cutoff {cutoff}"] = before - len(pods)
    of_ca[""] = len(pods)
    to_scale = None
    if pods and autoscaling.groups:
        groups, settings = autoscaling.groups, autoscaling.settings
        to_scale = plan([*pods, *daemons], snapshot, groups, pending.daemon_sets, workload_of, settings)
    reasons_of_karpenter = [(item.pod, _why_ignored(item, snapshot)) for item in waiting]
    of_karpenter = Counter(why for _, why in reasons_of_karpenter)
    taken = [pod for pod, why in reasons_of_karpenter if not why]
    launches = launch(autoscaling.karpenter, taken, snapshot, workload_of) if taken and autoscaling.karpenter else None
    by_ca, by_karpenter = _considered(of_ca, len(waiting)), _considered(of_karpenter, len(waiting))
    return Autoscalers(by_ca, by_karpenter, to_scale, launches, are_off=autoscaling.is_off)


def without_help(reaction: Autoscalers) -> Iterator[str]:
    """Yield sentences about Pending Pods that no number of nodes helps."""
    plan, by_why = reaction.node_groups, Counter[str](reaction.cluster_autoscaler.ignored)
    for left in plan.no_scale_up if plan else ():
        by_why[f"{left.workload}: {', '.join(left.reasons.values())}"] += left.pods
    for why, pods in by_why.most_common(_MAX_LINES):
        if pods:
            yield f"no number of these nodes helps {plural(pods, 'Pending Pod')}: {brief(why, _MAX_LENGTH)}"
    if len(by_why) > _MAX_LINES:
        yield f"no number of these nodes helps Pods of {len(by_why) - _MAX_LINES} more workloads"
    yield from not_predicted(reaction)


def not_predicted(reaction: Autoscalers) -> Iterator[str]:
    """Yield sentences about new nodes that forewarn does not predict."""
    plan, launches = reaction.node_groups, reaction.node_pools
    if plan is not None and (plan.truncated or plan.not_predicted):
        yield f"number of nodes not predicted: {plan.not_predicted or 'the estimate takes too long'}"
    if launches is not None and launches.not_predicted:
        yield f"nodes of Karpenter not predicted: {launches.not_predicted}"


def seen_by_cluster_autoscaler(pods: Iterable[Pod], snapshot: Snapshot, cutoff: int) -> tuple[list[Pod], Snapshot]:
    """Return the Unschedulable Pods that cluster-autoscaler considers, with those of DaemonSets, and the cluster as it
    sees it.
    """
    taken = [pod for pod in pods if _why_ignored(Waiting(pod), snapshot, cutoff) in ("", _DAEMON)]
    return taken, without_expendable(snapshot, cutoff)


def _as_seen(
    snapshot: Snapshot, pods: list[Pod], daemons: list[Pod], cutoff: int
) -> tuple[Snapshot, list[Pod], list[Pod]]:
    """Return the Snapshot without Pods below the cutoff, and the Pods that do not fit in their place. `daemons`: Pods
    of DaemonSets, which also use existing nodes.
    """
    seen = without_expendable(snapshot, cutoff)
    if seen is snapshot:
        return snapshot, pods, daemons
    seen, left = without_schedulable(seen, [*pods, *daemons])
    return seen, without_daemon_pods(left), [pod for pod in left if is_daemon_pod(pod)]


def cutoff_reason(cutoff: int) -> str:
    """The reason why cluster-autoscaler ignores an expendable Pod."""
    return f"priority below cutoff {cutoff}"


def waiting_pods(simulation: Simulation) -> Iterator[Waiting]:
    """Yield the Pods without a node at this time of a simulation; not those of other schedulers."""
    tried = {event.pod for event in simulation.timeline.events if event.event == "unschedulable"}
    for state in simulation.api.pods.values():
        if simulation.scheduler.is_pending(state):
            reason, _ = simulation.api.conditions.get(state.pod.uid, ("", ""))
            yield Waiting(state.pod, state.pod.key in tried and reason != SCHEDULER_ERROR)


def _considered(counts: Counter[str], pending: int) -> Considered:
    return Considered(counts[""], {why: count for why, count in sorted(counts.items()) if why and count}, pending)


def _why_ignored(waiting: Waiting, snapshot: Snapshot, cutoff: int | None = None) -> str:
    """Return why an autoscaler ignores a Pending Pod; "" if it does not. `cutoff`: of cluster-autoscaler; None for
    Karpenter.
    """
    pod, nominated, is_karpenter = waiting.pod, waiting.pod.nominated_node_name, cutoff is None
    is_passed_over = is_karpenter or nominated in snapshot.rows
    causes = {
        _NOT_TRIED: not waiting.tried,
        cutoff_reason(cutoff or 0): cutoff is not None and is_expendable(pod, cutoff),
        _NOMINATED: nominated and (is_passed_over or snapshot.semantics.every_nominated_pod_is_passed_over),
        _NO_CLAIM: lacks_claim(pod, snapshot.objects),  # VolumeBinding rejects the Pod on each template
        _DAEMON: not is_provisionable(pod) if is_karpenter else is_daemon_pod(pod),
    }
    return next((why for why, holds in causes.items() if holds), "")


def lacks_claim(pod: Pod, objects: ClusterObjects) -> bool:
    """Report whether a PersistentVolumeClaim of the Pod does not exist, so that no new node helps."""
    return CLAIM not in objects.unlisted and bool(missing_claim(pod, objects))
