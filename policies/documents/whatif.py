"""The types of the outputs of `whatif`."""

from typing import Any, Literal, NotRequired, TypedDict

from forewarn.policies.documents.findings import PodLoss
from forewarn.policies.documents.head import Head
from forewarn.policies.documents.scale_ups import Autoscalers, WithNewNodes


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


class Preemptor(TypedDict):
    """A Pod that preempts or is preempted."""

    pod: str
    workload: str
    priority: int


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


class ScheduledOnNewNodes(TypedDict):
    """Pods of a workload on new nodes. `first`, `last`: seconds until the first and the last of them is scheduled."""

    workload: str
    priority: int
    pods: int
    first: float
    last: float


class PendingDaemonSet(TypedDict):
    """A DaemonSet with Pending Pods for some nodes. `ranksTooLow`: no Pod on such a node has a lower priority."""

    workload: str
    priority: int
    pods: int
    ranksTooLow: bool


class NewNodes(TypedDict):
    """The new nodes. `scheduled`: the workloads in the order of their first Pods there."""

    nodes: list[str]
    scheduled: list[ScheduledOnNewNodes]
    pendingDaemonSets: list[PendingDaemonSet]


class UpgradeStep(TypedDict):
    """The upgrade of a node; null: the upgrade did not reach this event. `pool`: empty if the node belongs to no
    pool.
    """

    node: str
    pool: str
    startedAt: float | None
    emptiedAt: float | None
    backAt: float | None


class UpgradedPool(TypedDict):
    """The upgrade of a node pool. `nodes`, `upgraded`: numbers of nodes; `seconds`: null if the upgrade is
    incomplete.
    """

    pool: str
    nodes: int
    upgraded: int
    seconds: float | None


class DrainBlocker(TypedDict):
    """A PodDisruptionBudget that allows no disruptions before the upgrade.

    `pods`: the protected Pods on `nodes`. `healthy`, `desired`, `expected`: numbers of Pods in the status. `never`:
    all Pods are required; otherwise, drains wait until enough Pods are healthy.
    """

    budget: str
    pods: list[str]
    nodes: list[str]
    healthy: int
    desired: int
    expected: int
    never: bool


class Upgrade(TypedDict):
    """The upgrade of all nodes. `surge`: new nodes are added first. `forced`: Pods deleted after the drain timeout."""

    complete: bool
    seconds: float
    leastSeconds: float
    surge: bool
    pools: list[UpgradedPool]
    forced: list[str]
    order: list[UpgradeStep]
    notReached: list[str]
    blockers: list[DrainBlocker]


class PriorityClass(TypedDict):
    """A PriorityClass."""

    name: str
    value: int
    global_default: bool
    preemption_policy: str


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


MayPreempt = TypedDict(
    "MayPreempt",
    {"class": str, "workload": str, "before": Any, "duringRollout": Any, "after": Any},
)
"""Whether Pods of a PriorityClass may preempt a workload."""
PreemptionTotal = TypedDict(
    "PreemptionTotal",
    {"class": str, "before": int, "duringRollout": int, "after": int, "workloads": int},
)
"""How many running Pods a Pod of a PriorityClass may preempt, and the number of workloads for which it changes."""


ClassChange = TypedDict(
    "ClassChange",
    {
        "class": str,
        "before": PriorityClass | None,
        "after": PriorityClass | None,
        "workloads": list[ChangedWorkload],
        "mayPreempt": list[MayPreempt],
        "totals": list[PreemptionTotal],
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


class Runs(TypedDict):
    """Runs with random ties and races. `alike`: the number of runs like the answer, which take at most `longest`
    seconds; the others take up to `others` seconds.
    """

    total: int
    alike: int
    longest: float
    others: float


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
    pendingDaemonSets: NotRequired[list[PendingDaemonSet]]
    upgrade: NotRequired[Upgrade]
    withoutChange: NotRequired[SimulationSummary]
    classChange: NotRequired[ClassChange]
    basis: NotRequired[Literal["settled"]]
    timeline: NotRequired[list[Event]]
    runs: NotRequired[int]
    seed: NotRequired[int]
    outcomes: NotRequired[list[Outcome]]
    notes: NotRequired[list[str]]
