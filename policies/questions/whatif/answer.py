"""The answer to a what-if question: lost, preempted, Pending and new Pods."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json, optional_in_json
from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.controllers.own_pods import Recreator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.base.documents.answer import Effects, Range
    from forewarn.policies.kubernetes.objects.pod_loss import PodLoss
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import OfOtherScheduler, Outcome, Summary
    from forewarn.policies.questions.whatif.autoscalers import Autoscalers, WorkloadBack, WorstMoment
    from forewarn.policies.questions.whatif.class_change import Ranked
    from forewarn.policies.questions.whatif.interruptions import Interruption
    from forewarn.policies.questions.whatif.new_nodes import NewNodes, PendingDaemonSet
    from forewarn.policies.questions.whatif.occupancy import Occupancy
    from forewarn.policies.questions.whatif.questions import Removal
    from forewarn.policies.questions.whatif.upgrade import DrainBlocker, UpgradedPool, UpgradeRun, UpgradeStep

NO_CLASS: Final = "none"


class BeforeAfter(NamedTuple):
    """A number before and after the change."""

    before: int
    after: int


class WorkloadCount(NamedTuple):
    """A workload, or a Pod without controller: numbers of running and Pending Pods before the change and at the end.

    `workload`: display name, usually `namespace/name`. `message`: kube-scheduler's message for Pending Pods.
    """

    workload: str
    namespace: str
    priority_class: str
    priority: int
    before: Hidden[int]
    after: Hidden[int]
    pending_before: Hidden[int]
    pending: Hidden[int]
    message: str
    again: Hidden[Recreator] = Recreator.CONTROLLER
    """The kind of component that recreates the Pods of the workload."""
    kind: Hidden[str] = ""
    """`group/Kind` of the Pods' controller; of a simulated workload, of the top-level workload."""
    with_node: Hidden[int] = 0
    """The number of DaemonSet Pods on deleted nodes; they need no replacement."""
    failure: str = ""
    """The reason why the Pods' Job fails; "" if it does not."""
    unwanted: Hidden[int] = 0
    """The number of replicas that the change itself removes, and of Pods beyond the replicas at the start."""
    left: Hidden[int] = 0
    """The number of new Pods that another scheduler may bind."""
    succeeded: Hidden[int] = 0
    """The number of Pods that complete during the simulation."""
    surplus: Hidden[int] = 0
    """The number of running Pods at the start beyond the replicas of the workload, which are also unwanted."""
    failures: Hidden[Sequence[str]] = ()
    """The reason of each Job of the workload that fails."""
    constraint: Hidden[str] = ""
    """The constraint with which `constrained` of the Pending Pods fit on no node, whatever its capacity."""
    constrained: Hidden[int] = 0

    @property
    def decrease(self) -> int:
        """How many fewer Pods run, counting new Pods of other schedulers as running; at least 0."""
        return max(self.before - self.after - self.left, 0)

    @property
    def unreplaced(self) -> int:
        """The number of Pods that were Pending before, no longer exist, and are not replaced."""
        gone = self.before + self.pending_before - self.after - self.left - self.pending - self.decrease
        return max(gone, 0) if self.failure or self.again is not Recreator.CONTROLLER else 0

    @property
    def lost(self) -> int:
        """The number of lost Pods, without those of DaemonSets on deleted nodes and those that are not wanted."""
        return max(self.decrease - self.with_node - self.unwanted, 0)

    @property
    def scaled_down(self) -> int:
        """The number of running Pods that the change removes, or that were too many at the start."""
        return self.decrease - self.lost - min(self.decrease, self.with_node) - self.completed

    @property
    def removed(self) -> int:
        """The number of running Pods that the change removes."""
        return max(self.scaled_down - self.surplus, 0)

    @property
    def started(self) -> int:
        """The number of Pods that were Pending before, and run at the end."""
        return max(min(self.pending_before - self.pending, self.after - self.before), 0)

    @property
    def completed(self) -> int:
        """The number of Pods that ran at the start and completed."""
        return min(self.succeeded, self.decrease - self.lost)

    @property
    def more_pending(self) -> int:
        """How many more Pods are Pending at the end than before the change."""
        return max(self.pending - self.pending_before, 0)

    @property
    def is_recreated(self) -> bool:
        """Whether a controller recreates lost Pods."""
        return self.again is Recreator.CONTROLLER

    @property
    def not_started(self) -> int:
        """The number of additional Pending Pods at the end, without replacements of lost Pods."""
        return max(self.pending - self.pending_before - self.lost, 0)

    @in_json
    def running(self) -> BeforeAfter:
        return BeforeAfter(self.before, self.after)

    @in_json
    def pending_(self) -> BeforeAfter:
        return BeforeAfter(self.pending_before, self.pending)

    @in_json
    def replaced_by(self) -> str:
        """`again` as text."""
        return str(self.again)


def rank_of_loss(lost: int, priority: int | None) -> tuple[int, int, int]:
    """Sort key, greater for a worse loss. `lost`: number of replicas; `priority`: the highest of their priorities."""
    return int(lost > 0), priority or 0, lost


class PreemptionPod(NamedTuple):
    """A Pod that preempts or is preempted."""

    pod: str
    workload: str
    priority: int


class Victim(NamedTuple):
    """The Pod that is preempted."""

    pod: str
    workload: str
    namespace: str
    priority_class: str
    priority: int


class Preemption(NamedTuple):
    """A preemption in the simulation. `t`: seconds from the start. `cascade_depth`: from 1.

    `by`: the preemptor as `namespace/name`. `by_workload`, `by_namespace`, `by_class` and `by_priority`: of the
    preemptor. `victim`: the preempted Pod as `namespace/name`. `workload`, `namespace`, `priority_class` and
    `priority`: of the victim.
    """

    t: float
    cascade_depth: int
    node: str
    by: Hidden[str]
    by_workload: Hidden[str]
    by_namespace: Hidden[str]
    by_class: Hidden[str]
    by_priority: Hidden[int]
    victim: Hidden[str]
    workload: Hidden[str]
    namespace: Hidden[str]
    priority_class: Hidden[str]
    priority: Hidden[int]

    @in_json
    def by_(self) -> PreemptionPod:
        return PreemptionPod(self.by, self.by_workload, self.by_priority)

    @in_json
    def victim_(self) -> Victim:
        return Victim(self.victim, self.workload, self.namespace, self.priority_class, self.priority)


class Bound(NamedTuple):
    """The time in seconds at which the last scheduled Pod of a workload was scheduled."""

    workload: str
    namespace: str
    priority_class: str
    t: float


class WithoutChange(NamedTuple):
    """The outcome without the change. `lost`: number of replicas that no longer run at the end."""

    summary: Inlined[Summary]
    lost: int
    lost_by_workload: Hidden[Mapping[str, int]] = MappingProxyType({})

    @property
    def is_quiet(self) -> bool:
        """Whether no Pods are lost, preempted, Pending or rejected."""
        return not (self.lost or self.summary.evictions or self.summary.waiting or self.summary.missing)

    @property
    def effects(self) -> tuple[object, ...]:
        """The effects on the Pods of each workload, for comparisons."""
        return dict(self.lost_by_workload), self.summary.effects


class Ending(NamedTuple):
    """One outcome of several runs."""

    outcome: Inlined[Outcome]
    summary: Summary
    counters: Hidden[Effects]


class Runs(NamedTuple):
    """Runs with random ties and races. `alike`: the number of runs with the counters of the answer, which take at most
    `longest` seconds; the others take up to `others` seconds. `counters`: those that differ between runs.
    """

    total: int
    alike: int
    longest: float
    others: float
    counters: Mapping[str, Range]


class PendingPods(NamedTuple):
    """Numbers of Pending Pods at the end."""

    by_class: Mapping[str, int]
    by_namespace: Mapping[str, int]
    by_workload: Mapping[str, int]


class HealthyPods(NamedTuple):
    """Healthy Pods of a PodDisruptionBudget."""

    healthy: int
    desired: int


class DisruptionBudgets(NamedTuple):
    """PodDisruptionBudgets in the result of a simulation, by `namespace/name`.

    `violatedByPreemption`: the number of violations by preemptions. `tooFewHealthy`: PDBs that have fewer healthy Pods
    than desired at the end of the simulation, and had enough before the change.
    """

    violated_by_preemption: Mapping[str, int]
    too_few_healthy: Mapping[str, HealthyPods]


class Upgrade(NamedTuple):
    """The upgrade of all nodes. `surge`: new nodes are added first. `forced`: Pods deleted after the drain timeout."""

    complete: bool
    seconds: float
    least_seconds: float
    surge: bool
    pools: Sequence[UpgradedPool]
    forced: Sequence[str]
    order: Sequence[UpgradeStep]
    not_reached: Sequence[str]


class NotRecreated(NamedTuple):
    """Running Pods whose replacements ResourceQuotas or LimitRanges reject, or the next Pods of a CronJob without
    running Pods.

    `pods`: how many running Pods cannot be recreated, each on its own. `message`: kube-apiserver's, of the last one.
    `by`: the kind of the object that rejects them.
    """

    pods: int
    message: str
    by: str = "ResourceQuota"


class Blocks(NamedTuple):
    """What is blocked after a change, and was not before.

    `recreation`: by workload, the running Pods whose replacements a new or changed ResourceQuota or LimitRange rejects,
    and CronJobs whose next Pods these reject. `drains`: the PDBs that never allow an eviction, or none in the
    steady state; of an upgrade, those that block evictions at its start. `rollouts`: the workloads whose rollout
    Pending or rejected Pods block at the end.
    """

    recreation: Mapping[str, NotRecreated] = MappingProxyType({})
    drains: Sequence[DrainBlocker] = ()
    rollouts: Sequence[str] = ()


class EndState(NamedTuple):
    """The end of a simulation, compared with its start.

    - `workloads`: those whose number of running Pods changes, or with Pending Pods before or at the end. `preempted`:
      in the order of time.
    - `pdbs`: PDB -> (healthy Pods, desired healthy Pods), if the PDB has too few Pods at the end and had enough before.
    - `notDrained`: by node, the Pods that a drain leaves. `evictionBlockedBy`: by Pod, the PDBs that block its
      eviction.
    - `notSimulated`: what the simulation leaves out, with the reason. `notModelled`: what forewarn does not model.
    - `podLosses`: what fails or is interrupted because it lost a Pod. `newNodes`: the added nodes.
    - `pendingDaemonSets`: with `restart`, DaemonSets with Pending Pods.
    - `rivals`: workloads that may lose replicas, or more of them, instead of others: chance decides which of equal
      victims on several nodes is preempted, or which of equal Pods that are created at the same time stays Pending.
    - `equalVictims`: workloads whose Pods, or more of them, may be preempted instead of those in `preempted`.
    - `mayStayPending`: workloads that have more Pending Pods in other runs with random ties and races.
    - `hasMoreRivals`: whether there may be more of these, because only some are evaluated.
    - `byTiming`: whether what new Pods of a rollout preempt depends on whether old Pods terminate first.
    - `blocks`: what the change blocks. `interruptions`: workloads, without DaemonSets, that have no running Pod for 30
      seconds or longer, or fewer for 2 minutes in all.
    """

    running_before: Hidden[int]
    running_after: Hidden[int]
    workloads: Sequence[WorkloadCount]
    preempted: Sequence[Preemption]
    pdbs: Hidden[Mapping[str, tuple[int, int]]]
    not_drained: Mapping[str, Sequence[str]]
    eviction_blocked_by: Mapping[str, Sequence[str]]
    not_simulated: Sequence[str]
    not_modelled: Sequence[str]
    bound: Hidden[Sequence[Bound]]
    simulation: Hidden[Simulation]
    summary: Hidden[Summary]
    upgrade: Hidden[UpgradeRun | None] = None
    drains_blocked_by: Hidden[Sequence[DrainBlocker]] = ()
    """The PDBs that block drains or an upgrade at the end, and allow no disruptions later."""
    drained: Hidden[Sequence[str]] = ()
    """The nodes of a drain without upgrade, in order."""
    blocks: Blocks = Blocks()
    interruptions: Sequence[Interruption] = ()
    new_nodes: NewNodes | None = None
    pending_daemon_sets: Sequence[PendingDaemonSet] = ()
    pod_losses: Sequence[PodLoss] = ()
    rivals: Sequence[str] = ()
    equal_victims: Sequence[str] = ()
    may_stay_pending: Sequence[str] = ()
    has_more_rivals: bool = False
    by_timing: bool = False
    left: Hidden[Mapping[OfOtherScheduler, int]] = MappingProxyType({})
    """The numbers of new Pods that other schedulers may bind."""

    @in_json
    def steady(self) -> bool:
        """Whether the cluster reached a steady state."""
        return self.summary.steady

    @in_json
    def steady_at(self) -> float:
        """Seconds until the last event of the simulation."""
        return self.summary.steady_at

    @in_json
    def running(self) -> BeforeAfter:
        """Number of running Pods."""
        return BeforeAfter(self.running_before, self.running_after)

    @property
    def lost(self) -> int:
        """Replicas that no longer run, without DaemonSet Pods on lost nodes and Pods that the change removes."""
        return sum(workload.lost for workload in self.workloads)

    @in_json
    def daemon_pods_of_lost_nodes(self) -> int:
        """DaemonSet Pods that are deleted with their nodes."""
        return sum(min(workload.decrease, workload.with_node) for workload in self.workloads)

    @in_json
    def scaled_down(self) -> int:
        """Pods that no longer run because their workload is deleted or scaled down, by the change or before it."""
        return sum(workload.scaled_down for workload in self.workloads)

    @in_json
    def completed(self) -> int:
        """Pods of Jobs that ran at the start and completed."""
        return sum(workload.completed for workload in self.workloads)

    @in_json
    def pending(self) -> PendingPods:
        """Pending Pods at the end."""
        return PendingPods(*(dict(self.count_pending(what)) for what in ("priority_class", "namespace", "workload")))

    @in_json
    def pdbs_(self) -> DisruptionBudgets:
        few = {name: HealthyPods(*counts) for name, counts in sorted(self.pdbs.items())}
        return DisruptionBudgets(self.summary.violated_pdbs, few)

    @in_json
    def rejected_by_quota(self) -> Mapping[str, int]:
        """The Pods that a ResourceQuota rejects, by workload."""
        return self.summary.rejected_by_quota or {}

    @optional_in_json
    def upgrade_(self) -> Upgrade | None:
        """The progress of an upgrade; absent for other changes."""
        if (run := self.upgrade) is None:
            return None
        counts, not_reached = (run.complete, run.seconds, run.least, run.surge), [step.node for step in run.not_reached]
        return Upgrade(*counts, run.pools, [each.pod for each in run.forced], run.steps, not_reached)

    @property
    def blocked(self) -> bool:
        """Whether a drain or an upgrade is incomplete."""
        return bool(self.not_drained) or (self.upgrade is not None and not self.upgrade.complete)

    @property
    def is_cut_short(self) -> bool:
        """Whether the simulated time ended while nodes drained that no PDB blocks for good."""
        return self.blocked and not self.steady and not self.drains_blocked_by

    def count_pending(self, what: str) -> list[tuple[str, int]]:
        """Return (value, number of Pods Pending at the end) by `priority_class`, `namespace` or `workload`, most
        first.
        """
        counted: Counter[str] = Counter()
        for workload in self.workloads:
            if workload.pending:
                counted[getattr(workload, what) or NO_CLASS] += workload.pending
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


class WithNewNodes(NamedTuple):
    """The end of the simulation if autoscalers add or remove nodes. `nodes`: added nodes by node group or NodePool.

    `lost`, `pending`: as in `countersWithNewNodes`. `first_node_at`: seconds until the first node is ready; null if
    nodes are only removed. `nodes_not_simulated`: number of nodes beyond the limit of a simulation. `upgraded`: in an
    upgrade, the number of upgraded nodes. `upgraded_at`: seconds until all nodes are upgraded; absent if they are not.
    `preempted`: in an upgrade, as in `countersWithNewNodes`.
    """

    end: Hidden[EndState]
    nodes: Mapping[str, int]
    first_node_at: float | None
    worst: WorstMoment
    running: int
    lost: int
    pending: int
    steady_at: float
    workloads: Sequence[WorkloadBack]
    nodes_not_simulated: int
    upgraded: int | None = None
    upgraded_at: float | None = None
    preempted: int | None = None


class Answer(NamedTuple):
    """The answer to a what-if question.

    - `change`: the change as text. `typicalOf`: if chance decides, the runs that this one represents.
    - `after`: the end of the simulation, without nodes that autoscalers add or remove. `withNewNodes`: the end with
      these. `autoscalers`: the reaction of autoscalers to Pending Pods.
    - `withoutChange`: what happens anyway, if the cluster was not settled.
    - `newPods`: workloads that stay as they are, if a PriorityClass in an applied file changes the priority of their
      new Pods. `replicas`: of all HorizontalPodAutoscalers, at their maximum. `removal`: with `remove`.
    """

    change: str
    after: Inlined[EndState]
    autoscalers: Autoscalers
    without_change: WithoutChange | None = None
    occupancy: Hidden[Occupancy | None] = None
    typical_of: Runs | None = None
    with_new_nodes: WithNewNodes | None = None
    new_pods: Sequence[Ranked] = ()
    replicas: BeforeAfter | None = None
    removal: Removal | None = None
    reprioritized: Hidden[Sequence[Ranked]] = ()
    """The workloads that the change itself changes, and whose new Pods get another priority or preemptionPolicy."""
    placeholders: Hidden[Sequence[str]] = ()
    """The affected workloads that consist of placeholder Pods."""
    placeholder_pods: Hidden[int] = 0
    """The number of running Pods at the start that only reserve capacity."""
    exceeded_quotas: Hidden[Mapping[str, str]] = MappingProxyType({})
    """The ResourceQuotas (`namespace/name`) that are exceeded at the start: the worst resource, `1,682 of 900 pods`."""
    restart_alone: Hidden[Effects | None] = None
    """The effects of the restarts after a class change, if they do harm, without the change."""
    alike: Hidden[tuple[int, int] | None] = None
    """The number of runs with these effects, and of all, if random ties and races are simulated."""

    @property
    def title(self) -> str:
        """The change, and the runs with these effects."""
        if self.alike is None:
            return self.change
        alike, runs = self.alike
        return f"{self.change}, as in {f'all {runs}' if alike == runs else f'{alike} of {runs}'} runs"

    @property
    def is_zone_lost(self) -> bool:
        """Whether the change is the loss of a zone."""
        return self.change.startswith("zone ")

    @optional_in_json
    def incomplete(self) -> bool | None:
        """Whether a limit of the simulation may have changed the answer."""
        return self.after.summary.is_incomplete or self.end.after.summary.is_incomplete or None

    @property
    def upgrade_answer(self) -> Answer:
        """The answer with new nodes, if new nodes arrive during an upgrade; otherwise this answer."""
        is_grown = self.after.upgrade is not None and self.with_new_nodes is not None and self.with_new_nodes.nodes
        return self.end if is_grown else self

    @property
    def end(self) -> Answer:
        """The answer with `with_new_nodes` as its end; this answer if autoscalers change no nodes."""
        if self.with_new_nodes is None:
            return self
        return self._replace(after=self.with_new_nodes.end._replace(simulation=self.after.simulation))

    @property
    def outages(self) -> Sequence[Interruption]:
        """The interruptions without placeholder Pods."""
        return [each for each in self.after.interruptions if each.workload not in self.placeholders]

    @property
    def is_as_without(self) -> bool:
        """Whether each workload has the same lost, preempted and Pending Pods without the change."""
        without, after, summary = self.without_change, self.after, self.after.summary
        failed = any(each.failure for each in after.workloads)
        blocks = after.blocked or any(after.blocks)
        if without is None or self.outages or after.pdbs or failed or blocks or summary.new_pods_pending:
            return False
        lost = {each.workload: each.lost for each in after.workloads if each.lost}
        return (lost, summary.effects) == without.effects

    @property
    def count_over_quota(self) -> Counter[str]:
        """The number of Pods that ResourceQuotas reject because of the change, by workload."""
        before = self.without_change.summary.rejected_by_quota if self.without_change else None
        return Counter(self.after.rejected_by_quota) - Counter(before)


def pairs(preemptions: Iterable[Preemption]) -> list[tuple[tuple[str, int, str, int], list[Preemption]]]:
    """Return the preemptions grouped by (preemptor, priority, victim, priority): victims of the highest priority first,
    then the largest group.
    """
    found = grouped(((each.by_workload, each.by_priority, each.workload, each.priority), each) for each in preemptions)
    return sorted(found.items(), key=lambda item: (-item[0][3], -len(item[1]), item[0]))
