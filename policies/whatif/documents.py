"""The types of the outputs of `whatif`, `headroom` and `predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from forewarn.policies.documents.answers import (
    Candidate,
    DaemonSetVictim,
    Explanation,
    GroupReplicas,
    OtherPods,
    PredictedPodGroup,
    Preemptor,
    PriorityClass,
    Replicas,
    ReplicasWithClass,
    Status,
    WithoutPreemption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.documents.findings import PodLoss
    from forewarn.policies.documents.head import Head
    from forewarn.policies.whatif.answer import Runs
    from forewarn.policies.whatif.autoscalers import Autoscalers, WithNewNodes
    from forewarn.policies.whatif.blockers import DrainBlocker
    from forewarn.policies.whatif.capacity_buffers import Buffers
    from forewarn.policies.whatif.class_change import MayPreempt, PreemptionTotal
    from forewarn.policies.whatif.headroom import PodGroupHeadroom, Quota, Stranded
    from forewarn.policies.whatif.new_nodes import NewNodes, PendingDaemonSet
    from forewarn.policies.whatif.placeholders import Placeholders
    from forewarn.policies.whatif.upgrade import UpgradedPool, UpgradeStep


class BeforeAfter(TypedDict):
    """A number before and after the change."""

    before: int
    after: int


class Standing(TypedDict):
    """A workload that changes or has too few Pods. `message`: why Pods are Pending. `failure`: of a Job. `replacedBy`:
    the controller of the replacement Pods.
    """

    workload: str
    namespace: str
    priorityClass: str
    priority: int
    running: BeforeAfter
    pending: BeforeAfter
    message: str
    failure: NotRequired[str]
    replacedBy: str


class PendingPods(TypedDict):
    """Numbers of Pending Pods at the end."""

    byClass: dict[str, int]
    byNamespace: dict[str, int]
    byWorkload: dict[str, int]


class Victim(TypedDict):
    """The Pod that is preempted."""

    pod: str
    workload: str
    namespace: str
    priorityClass: str
    priority: int


class SimulatedPreemption(TypedDict):
    """A preemption. `t`: seconds from the start."""

    t: float
    cascadeDepth: int
    node: str
    by: Preemptor
    victim: Victim


class HealthyPods(TypedDict):
    """Healthy Pods of a PodDisruptionBudget."""

    healthy: int
    desired: int


class DisruptionBudgets(TypedDict):
    """PodDisruptionBudgets in the result of a simulation, by `namespace/name`.

    `violatedByPreemption`: the number of violations by preemptions. `tooFewHealthy`: PDBs that have fewer healthy Pods
    than desired at the end of the simulation, and had enough before the change.
    """

    violatedByPreemption: dict[str, int]
    tooFewHealthy: dict[str, HealthyPods]


class Upgrade(TypedDict):
    """The upgrade of all nodes. `surge`: new nodes are added first. `forced`: Pods deleted after the drain timeout."""

    complete: bool
    seconds: float
    leastSeconds: float
    surge: bool
    pools: Sequence[UpgradedPool]
    forced: Sequence[str]
    order: Sequence[UpgradeStep]
    notReached: list[str]
    blockers: Sequence[DrainBlocker]


class NewPodPriority(TypedDict):
    """The priority of new Pods."""

    priority: int
    preemptionPolicy: str


class NewPodPriorities(TypedDict):
    """The priority of new Pods before and after the change; null: admission rejects the Pods."""

    before: NewPodPriority | None
    after: NewPodPriority | None


class ChangedWorkload(TypedDict):
    """A workload whose new Pods change. `running`: number of running Pods by priority."""

    workload: str
    newPods: NewPodPriorities
    running: dict[str, int]


ClassChange = TypedDict(
    "ClassChange",
    {
        "class": str,
        "before": PriorityClass | None,
        "after": PriorityClass | None,
        "workloads": list[ChangedWorkload],
        "mayPreempt": "Sequence[MayPreempt]",
        "totals": "Sequence[PreemptionTotal]",
    },
)
"""The effect of a changed PriorityClass."""


class SimulationSummary(TypedDict):
    """The result of a simulation."""

    preempted: int
    cascadeDepth: int
    byWorkload: dict[str, int]
    byNamespace: dict[str, int]
    byPriorityClass: dict[str, int]
    pending: dict[str, int]
    rejectedByQuota: NotRequired[dict[str, int]]
    newPods: int
    newPodsRunning: int
    violatedPDBs: dict[str, int]
    settled: bool
    settledAt: float
    stopped: NotRequired[str]
    fewer: NotRequired[int]


class Event(TypedDict):
    """An event of a simulation."""

    t: float
    event: str
    group: NotRequired[str]
    pod: NotRequired[str]
    node: NotRequired[str]
    by: NotRequired[str]
    status: NotRequired[str]
    reason: NotRequired[str]
    message: NotRequired[str]


class Outcome(TypedDict):
    """One outcome of several runs. `count`: number of runs with this outcome."""

    count: int
    timeline: list[Event]
    final: dict[str, Any]
    pending: list[str]
    endedAt: float
    stopped: NotRequired[str]
    summary: SimulationSummary


class WhatIf(TypedDict):
    """The output of `forewarn whatif`.

    `change`: the question. `settled`, `settledAt`: whether and when the cluster reached a steady state.
    `typicalOf`: the runs that the shown one represents. `running`: number of running Pods. `fewer`: replicas that
    no longer run, without DaemonSet Pods on lost nodes and Pods that the change removes. `daemonPodsOfLostNodes`,
    `scaledDown`: numbers of these Pods. `workloads`: those that change or have too few Pods. `pending`: Pending
    Pods at the end. `withNewNodes`: the cluster after new nodes have arrived. `preempted`: in the order of time.
    `podLosses`: what fails or is interrupted without one of its Pods. `rejectedByQuota`: by workload, Pods that a
    ResourceQuota rejects. `notDrained`: by node, the Pods that stay. `evictionBlockedBy`: by Pod, the PDBs that
    block its eviction. `notSimulated`: Pods that forewarn cannot create. `notModelled`, `notes`: limits of the
    answer. `newPods`: workloads that stay as they are, if a PriorityClass in an applied file changes the priority of
    their new Pods. `newNodes`: with `add`. `pendingDaemonSets`: with `restart`. `upgrade`: with `upgrade`.
    `withoutChange`: what happens anyway, if the cluster was not settled. `classChange`: with `class`. `basis`: of an
    apply. `timeline`: with `--timeline`. `runs`, `seed`, `outcomes`: in the second object of `events --runs`.
    """

    head: Head
    change: str
    settled: bool
    settledAt: float
    typicalOf: NotRequired[Runs]
    running: BeforeAfter
    fewer: int
    daemonPodsOfLostNodes: int
    scaledDown: int
    workloads: list[Standing]
    pending: PendingPods
    autoscalers: Autoscalers
    withNewNodes: NotRequired[WithNewNodes]
    preempted: list[SimulatedPreemption]
    podLosses: NotRequired[list[PodLoss]]
    pdbs: DisruptionBudgets
    rejectedByQuota: dict[str, int]
    notDrained: dict[str, list[str]]
    evictionBlockedBy: dict[str, list[str]]
    notSimulated: list[str]
    notModelled: list[str]
    newPods: NotRequired[list[ChangedWorkload]]
    newNodes: NotRequired[NewNodes]
    pendingDaemonSets: NotRequired[Sequence[PendingDaemonSet]]
    upgrade: NotRequired[Upgrade]
    withoutChange: NotRequired[SimulationSummary]
    classChange: NotRequired[ClassChange]
    basis: NotRequired[Literal["settled"]]
    timeline: NotRequired[list[Event]]
    runs: NotRequired[int]
    seed: NotRequired[int]
    outcomes: NotRequired[list[Outcome]]
    notes: NotRequired[list[str]]


class Headroom(TypedDict):
    """A line of `forewarn headroom`: one object.

    `podGroup`: only if the object's Pods belong to a PodGroup. `priority`, `priorityClass`: of the object's Pods.
    `withoutPreemption`, `withPreemption`: replicas that fit. `byClass`: replicas that would fit with each
    PriorityClass. `reasons`: number of nodes for each reason why no more replicas fit. `stranded`: unusable free
    capacity. `nodeGroups`: replicas for each node group. `quota`: the ResourceQuota that rejects further Pods.
    `placeholders`: with `--placeholders`. `capacityBuffers`: if the cluster has CapacityBuffers.
    """

    head: Head
    object: str
    podGroup: NotRequired[PodGroupHeadroom]
    priority: int
    priorityClass: str
    withoutPreemption: WithoutPreemption
    withPreemption: Replicas
    byClass: list[ReplicasWithClass]
    reasons: dict[str, int]
    stranded: Sequence[Stranded]
    nodeGroups: NotRequired[list[GroupReplicas]]
    quota: NotRequired[Quota]
    notes: list[str]
    placeholders: NotRequired[Placeholders]
    capacityBuffers: NotRequired[Buffers]


class PredictedPod(TypedDict):
    """A line of `forewarn predict`: one Pod.

    `id`: `namespace/name`. `preFilter`: the status of PreFilter, if it rejected the Pod. `feasible`: nodes that pass
    all filters. `statuses`: the other nodes, with the plugin and reasons. `scores`: of several feasible nodes, the
    weighted scores by plugin, and the `total`. `eligible`, `ineligibleReason`: whether the Pod may preempt, and why
    not. `candidates`: nodes on which preemption helps. `numCandidates`: their number, if kube-scheduler does not
    evaluate all. `dryRunStatuses`: nodes on which preemption does not help, with the reason. `selected`: nodes that
    kube-scheduler may choose. `nominatedNode`: the first of these by name, if the Pod preempts. `odds`: with
    more than 100 nodes, their probabilities. `standing`: why the prediction is uncertain. `attempts`: number of
    scheduling attempts, if several. `preemptedBy`: with several objects, the later Pod that preempts this Pod.
    `overtaken`: true if later Pods take its free capacity. `how`: with `--explain`. `basis`: `missing-replicas`, or
    `rollout` for the new Pods of a rollout. `losses`: what fails or is interrupted without the victims.
    `daemonSetVictims`: victims that return on the same node only. `autoscalers`: for a Pending Pod; the line of the
    last one contains `nodeGroups` for all.
    """

    head: Head
    id: str
    outcome: Literal["fits", "preempts", "pending", "not-predicted"]
    preFilter: NotRequired[Status]
    feasible: list[str]
    statuses: dict[str, Status]
    scores: NotRequired[dict[str, dict[str, int]]]
    eligible: bool
    ineligibleReason: NotRequired[str]
    candidates: dict[str, Candidate]
    dryRunStatuses: NotRequired[dict[str, Status]]
    numCandidates: NotRequired[int]
    selected: list[str]
    nominatedNode: str
    odds: NotRequired[dict[str, float]]
    standing: list[str]
    attempts: NotRequired[int]
    preemptedBy: NotRequired[str]
    overtaken: NotRequired[bool]
    how: NotRequired[Explanation]
    basis: NotRequired[str]
    losses: NotRequired[list[PodLoss]]
    daemonSetVictims: NotRequired[list[DaemonSetVictim]]
    autoscalers: NotRequired[Autoscalers]


PredictLine = PredictedPod | OtherPods | PredictedPodGroup
