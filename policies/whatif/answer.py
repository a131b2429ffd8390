"""The answer to a what-if question: lost, preempted, Pending and new Pods."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from forewarn.policies.controllers.recreated import Recreator
from forewarn.policies.documents import json_of
from forewarn.policies.whatif.class_change import ranked_as_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.objects.pod_loss import PodLoss
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import Summary
    from forewarn.policies.whatif.autoscalers import Autoscalers, WithNewNodes
    from forewarn.policies.whatif.blockers import DrainBlocker
    from forewarn.policies.whatif.class_change import Ranked
    from forewarn.policies.whatif.new_nodes import NewNodes, PendingDaemonSet
    from forewarn.policies.whatif.occupancy import Occupancy
    from forewarn.policies.whatif.upgrade import UpgradeRun

NO_CLASS: Final = "none"


class WorkloadCount(NamedTuple):
    """A workload, or a Pod without controller: numbers of running and Pending Pods before and after the event.

    `message`: kube-scheduler's message for Pending Pods. `workload`: display name, usually `namespace/name`.
    """

    workload: str
    namespace: str
    priority_class: str
    priority: int
    before: int
    after: int
    pending_before: int
    pending: int
    message: str = ""
    again: Recreator = Recreator.CONTROLLER
    """The controller that recreates the Pods of the workload."""
    kind: str = ""
    """`group/Kind` of the Pods' controller; for a simulated workload, of the top-level workload."""
    with_node: int = 0
    """The number of a DaemonSet's Pods on deleted nodes, which need no replacement."""
    failure: str = ""
    """The reason why the Pods' Job fails; "" if it does not."""
    unwanted: int = 0
    """By how many replicas the change itself scales the workload down."""

    @property
    def lost(self) -> int:
        """The decrease in the number of the workload's running Pods; 0 if the number does not decrease."""
        return max(self.before - self.after, 0)

    @property
    def unreplaced(self) -> int:
        """The number of Pods that were Pending before and no longer exist, if no controller replaces them."""
        gone = self.before + self.pending_before - self.after - self.pending - self.lost
        return max(gone, 0) if self.failure or self.again is not Recreator.CONTROLLER else 0

    @property
    def missed(self) -> int:
        """The number of lost Pods, without those of DaemonSets on deleted nodes and those that the change removes."""
        return max(self.lost - self.with_node - self.unwanted, 0)


class Preemption(NamedTuple):
    """A preemption in the simulation. `t`: seconds from the start. `level`: its depth in the cascade, from 1.

    `by`, `by_workload`, `by_namespace`, `by_class` and `by_priority`: the preemptor. `victim`, `workload`, `namespace`,
    `priority_class` and `priority`: the victim. `by`, `victim`: Pods as `namespace/name`.
    """

    t: float
    level: int
    node: str
    by: str
    by_workload: str
    by_namespace: str
    by_class: str
    by_priority: int
    victim: str
    workload: str
    namespace: str
    priority_class: str
    priority: int


class Bound(NamedTuple):
    """The time in seconds at which the last Pod of a workload was scheduled, among those that were scheduled."""

    workload: str
    namespace: str
    priority_class: str
    t: float


class WithoutEvent(NamedTuple):
    """The outcome without the event. `fewer`: number of Pods that no longer run at the end."""

    summary: Summary
    fewer: int


class Runs(NamedTuple):
    """Runs with random ties and races. `alike`: the number of runs like the answer, which take at most `longest`
    seconds; the others take up to `others` seconds.
    """

    total: int
    alike: int
    longest: float
    others: float


class Answer(NamedTuple):
    """The answer to a what-if question.

    - `standings`: the workloads whose numbers change, or that have too few Pods.
    - `pdbs`: PDB -> (healthy Pods, desired healthy Pods), if the PDB has too few Pods at the end and had enough before.
    - `without_event`: the outcome without the event, if the cluster is not in a steady state.
    - `stuck`: node that was not drained -> its remaining Pods. `forbidden`: such a Pod -> the PDBs that block its
      eviction. `upgrade`: the progress of an upgrade.
    - `unread`: objects that their controllers cannot process, with the reason. `not_modelled`: parts of the answer that
      forewarn does not model.
    - `autoscalers`: the reaction of autoscalers to the Pods that are Pending at the end.
    """

    title: str
    running_before: int
    running_after: int
    standings: Sequence[WorkloadCount]
    preemptions: Sequence[Preemption]
    pdbs: Mapping[str, tuple[int, int]]
    stuck: Mapping[str, Sequence[str]]
    forbidden: Mapping[str, Sequence[str]]
    unread: Sequence[str]
    not_modelled: Sequence[str]
    bound: Sequence[Bound]
    simulation: Simulation
    summary: Summary
    without_event: WithoutEvent | None
    autoscalers: Autoscalers
    occupancy: Occupancy | None = None
    upgrade: UpgradeRun | None = None
    drained: Sequence[str] = ()
    """The nodes of a drain without upgrade, in order."""
    blockers: Sequence[DrainBlocker] = ()
    """The PDBs that block drains of an upgrade at the start."""
    new_nodes: NewNodes | None = None
    """The added nodes; None without any."""
    starved: Sequence[PendingDaemonSet] = ()
    """If a workload is restarted: DaemonSets with Pending Pods."""
    losses: Sequence[PodLoss] = ()
    """What fails or is interrupted because a Pod of it is lost."""
    runs: Runs | None = None
    """If races decide how long it takes: several runs, of which this answer is a typical one."""
    arrived: WithNewNodes | None = None
    """The end if cluster-autoscaler adds nodes; None without node groups, or if it adds none."""
    new_pods: Sequence[Ranked] = ()
    """The workloads that stay as they are and whose new Pods change priority, because a PriorityClass changes."""
    placeholders: Sequence[str] = ()
    """The preempted workloads whose Pods only reserve capacity."""

    @property
    def fewer(self) -> int:
        """Number of Pods that no longer run, without DaemonSet Pods of deleted nodes and Pods that the change removes:
        the key figure of a sweep.
        """
        return sum(standing.missed for standing in self.standings)

    @property
    def with_nodes(self) -> int:
        """Number of DaemonSet Pods that were deleted with their nodes."""
        return sum(min(standing.lost, standing.with_node) for standing in self.standings)

    @property
    def scaled_down(self) -> int:
        """Number of Pods that no longer run because the change scales down or deletes their workload."""
        return sum(standing.lost - standing.missed for standing in self.standings) - self.with_nodes

    @property
    def over_quota(self) -> int:
        """Number of Pods that ResourceQuotas reject because of the event."""
        before = {row.group: row.pods for row in self.without_event.summary.missing} if self.without_event else {}
        return sum(max(row.pods - before.get(row.group, 0), 0) for row in self.summary.missing)

    @property
    def blocked(self) -> bool:
        """Whether a node was not drained or upgraded."""
        return bool(self.stuck) or (self.upgrade is not None and not self.upgrade.complete)

    def count_pending(self, what: str) -> list[tuple[str, int]]:
        """Return (value, number of Pods Pending at the end) by `priority_class`, `namespace` or `workload`, most
        first.
        """
        counted: Counter[str] = Counter()
        for standing in self.standings:
            if standing.pending:
                counted[getattr(standing, what) or NO_CLASS] += standing.pending
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def pairs(preemptions: Iterable[Preemption]) -> list[tuple[tuple[str, int, str, int], list[Preemption]]]:
    """Return the preemptions grouped by (preemptor, priority, victim, priority): victims of the highest priority first,
    then the largest group.
    """
    found: dict[tuple[str, int, str, int], list[Preemption]] = {}
    for preemption in preemptions:
        found.setdefault(
            (preemption.by_workload, preemption.by_priority, preemption.workload, preemption.priority), []
        ).append(preemption)
    return sorted(found.items(), key=lambda item: (-item[0][3], -len(item[1]), item[0]))


def as_dict(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {
        "change": answer.title,
        "settled": answer.summary.settled,
        "settledAt": answer.summary.settled_at,
        **({"typicalOf": answer.runs} if answer.runs else {}),
        "running": {"before": answer.running_before, "after": answer.running_after},
        "fewer": answer.fewer,
        "daemonPodsOfLostNodes": answer.with_nodes,
        "scaledDown": answer.scaled_down,
        "workloads": [
            {
                "workload": s.workload,
                "namespace": s.namespace,
                "priorityClass": s.priority_class,
                "priority": s.priority,
                "running": {"before": s.before, "after": s.after},
                "pending": {"before": s.pending_before, "after": s.pending},
                "message": s.message,
                **({"failure": s.failure} if s.failure else {}),
                "replacedBy": str(s.again),
            }
            for s in answer.standings
        ],
        "pending": {
            name: dict(answer.count_pending(what))
            for name, what in (("byClass", "priority_class"), ("byNamespace", "namespace"), ("byWorkload", "workload"))
        },
        "autoscalers": answer.autoscalers,
        **({"withNewNodes": answer.arrived} if answer.arrived else {}),
        "preempted": [
            {
                "t": p.t,
                "cascadeDepth": p.level,
                "node": p.node,
                "by": {"pod": p.by, "workload": p.by_workload, "priority": p.by_priority},
                "victim": {
                    "pod": p.victim,
                    "workload": p.workload,
                    "namespace": p.namespace,
                    "priorityClass": p.priority_class,
                    "priority": p.priority,
                },
            }
            for p in answer.preemptions
        ],
        **({"podLosses": answer.losses} if answer.losses else {}),
        "pdbs": {
            "violatedByPreemption": answer.summary.violated_pdbs,
            "tooFewHealthy": {name: {"healthy": h, "desired": d} for name, (h, d) in sorted(answer.pdbs.items())},
        },
        "rejectedByQuota": {each.group: each.pods for each in answer.summary.missing},
        "notDrained": dict(sorted(answer.stuck.items())),
        "evictionBlockedBy": dict(sorted(answer.forbidden.items())),
        "notSimulated": answer.unread,
        "notModelled": answer.not_modelled,
        **({"newPods": [*map(ranked_as_dict, answer.new_pods)]} if answer.new_pods else {}),
        **({} if answer.new_nodes is None else {"newNodes": answer.new_nodes}),
        **({"pendingDaemonSets": answer.starved} if answer.starved else {}),
    }
    if answer.upgrade is not None:
        document["upgrade"] = {**answer.upgrade.to_dict(), "blockers": answer.blockers}
    if answer.without_event is not None:
        document["withoutChange"] = answer.without_event.summary.to_dict() | {"fewer": answer.without_event.fewer}
    return cast("dict[str, Any]", json_of(document))
