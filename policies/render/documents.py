"""The types of all JSON outputs (`-o json`). `docs/json_schemas.py` writes the JSON Schemas in docs/reference/schemas.

Later releases may add keys. While the version of a document stays the same, no key disappears or changes its meaning.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict


class ObjectReference(TypedDict):
    """An object; the texts are empty if it has no such field."""

    apiVersion: str
    kind: str
    namespace: str
    name: str


class PodLoss(TypedDict):
    """The effect of losing a Pod on the workload `kind` `name`. `condition`: when the effect differs."""

    pod: str
    effect: Literal["fails", "interrupts"]
    kind: str
    name: str
    condition: NotRequired[str]


class Victims(TypedDict):
    """The victims of all preemptions, with the longest grace period. `losses`: the workloads that fail or are
    interrupted.
    """

    count: int
    lowestPriority: int
    highestPriority: int
    placeholders: NotRequired[int]
    pdbViolations: NotRequired[int]
    graceSeconds: NotRequired[int]
    losses: NotRequired[list[PodLoss]]


class PreemptionBy(TypedDict):
    """The preemption by one new Pod. `orAnyOf`: all equally suitable nodes. `byChance`: other victims are possible."""

    victims: list[str]
    moreVictims: NotRequired[int]
    node: NotRequired[str]
    orAnyOf: NotRequired[list[str]]
    moreNodes: NotRequired[int]
    byChance: NotRequired[bool]
    unnamedVictims: NotRequired[int]
    unnamedPriorities: NotRequired[list[int | None]]
    pdbViolations: int


class Cascade(TypedDict, total=False):
    """The fate of the victims of the preemptions. A missing number is 0. `incomplete`: the cascade was not
    predicted.
    """

    incomplete: bool
    replaced: int
    notReplaced: int
    preempted: int
    cascadeDepth: int
    pending: int
    rejectedByQuota: int
    pendingNotEvaluated: int


class Reason(TypedDict):
    """A reason of kube-scheduler with the number of nodes; 0 for a reason that is not about single nodes."""

    reason: str
    nodes: int


class Impact(TypedDict, total=False):
    """The effect of an object's new Pods: the annotation forewarn.dev/preemption-impact, and the details of findings.

    `coarse`: numbers are the lower ends of ranges. `predicted`: number of new Pods with a known outcome.
    `notPredicted`: the reason why kube-scheduler's decision is not modelled, or not shown. Only details of findings
    have `victims`, `reasons`, `expectation` and `basis`.
    """

    coarse: bool
    priority: int
    newPods: int
    predicted: int
    preemptions: list[PreemptionBy]
    morePreemptions: int
    byPendingPods: list[PreemptionBy]
    moreByPendingPods: int
    cascade: Cascade
    byTiming: bool
    pending: int
    incomplete: bool
    rejectedByQuota: int
    notPredicted: str
    assumes: list[str]
    staleCache: bool
    basis: Literal["rollout"]
    victims: Victims
    reasons: list[Reason]
    expectation: str


Detail = TypedDict(
    "Detail",
    {
        "class": str,
        "classes": list[str],
        "count": int,
        "default": str,
        "meant": str,
        "field": str,
        "under": str,
        "minors": list[int],
        "rejection": str,
        "given": int,
        "computed": int | None,
        "value": int,
        "quota": str,
        "resources": list[str],
        "pod": int,
        "old": int,
        "new": int,
        "wanted": int | None,
        "podGroup": str,
        "priority": int,
        "groupPriority": int,
        "minCount": int,
        "pods": int | list[str],
        "workloads": list[str],
    },
    total=False,
)
"""The details of other findings: the rule determines the keys."""


class Finding(TypedDict):
    """A finding. `line`, `column`, `endColumn`: from 1, the end exclusive; 0 without a file."""

    rule: str
    severity: Literal["error", "warning", "note"]
    message: str
    remediation: str
    file: str
    line: int
    column: int
    endColumn: int
    field: str
    fingerprint: str
    object: ObjectReference
    detail: NotRequired[Impact | Detail | dict[str, Any]]


class FindingsSummary(TypedDict):
    """Numbers of files, objects and findings. `leftOut`: number of skipped files by reason."""

    files: int
    objects: int
    errors: int
    warnings: int
    notes: int
    skipped: int
    suppressed: int
    leftOut: dict[str, int]


class Change(TypedDict):
    """A difference from the earlier report. `what`: the finding or workload."""

    change: Literal["new", "worse", "changed", "better", "gone"]
    what: str
    why: NotRequired[str]


class Findings(TypedDict):
    """The output of `forewarn lint` and `forewarn audit`. `changes`: with `--since`."""

    version: Literal[1]
    findings: list[Finding]
    summary: FindingsSummary
    changes: NotRequired[list[Change]]


class ReviewFinding(TypedDict):
    """A finding about the reviewed object, with all names. `action`: what the webhook does."""

    rule: str
    severity: Literal["error", "warning", "note"]
    action: Literal["deny", "warn", "audit", "off"]
    message: str
    remediation: str
    field: str
    object: ObjectReference
    detail: NotRequired[Impact | Detail]


class Review(TypedDict):
    """The output of `forewarn webhook review -o json`, one line for each phase. `review`: the AdmissionReview."""

    version: Literal[1]
    phase: Literal["mutate", "validate"]
    verdict: str
    findings: list[ReviewFinding]
    review: dict[str, Any]


class Status(TypedDict):
    """A status of kube-scheduler's framework."""

    code: str
    plugin: NotRequired[str]
    reasons: list[str]


class Candidate(TypedDict):
    """Preemption on one node; the most important victim first."""

    victims: list[str]
    pdbViolations: int


class Explanation(TypedDict):
    """The method of a prediction. `because`: why forewarn ran all plugins on every node; empty if it did not."""

    kubernetes: str
    profile: str
    configuration: str
    because: str


class Considered(TypedDict):
    """Pods for which an autoscaler would scale up, and other Pods by reason."""

    considered: int
    ignored: dict[str, int]


class NodeGroupOption(TypedDict):
    """The nodes that a scale-up of one node group would add. `waste`: idle shares of cpu and memory, added up."""

    group: str
    nodes: int
    pods: int
    waste: float


class WorkloadOnNodes(TypedDict):
    """Pods of a workload on new nodes."""

    workload: str
    pods: int
    nodes: int


class ScaleUp(TypedDict):
    """A scale-up of cluster-autoscaler. `ties`: other groups that are equally suitable."""

    group: str
    nodes: int
    pods: int
    expander: str
    options: list[NodeGroupOption]
    ties: list[str]
    workloads: list[WorkloadOnNodes]


class NoScaleUp(TypedDict):
    """Pods for which no group adds a node. `reasons`: cluster-autoscaler's message for each group."""

    workload: str
    pods: int
    reasons: dict[str, str]


class ScaleUps(TypedDict):
    """The scale-ups in their order."""

    scaleUps: list[ScaleUp]
    noScaleUp: list[NoScaleUp]
    fitExistingNodes: int
    truncated: bool


class Autoscalers(TypedDict):
    """The reaction of autoscalers to Pending Pods."""

    clusterAutoscaler: Considered
    karpenter: Considered
    nodeGroups: NotRequired[ScaleUps]


class PredictedPod(TypedDict):
    """A line of `forewarn predict`: one Pod. `losses`: what fails or is interrupted without the victims."""

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
    autoscalers: NotRequired[Autoscalers]


class OtherPods(TypedDict):
    """A line of `forewarn predict`: new Pods of a workload that have no line of their own."""

    id: str
    outcome: str
    pods: int
    basis: str
    standing: list[str]


class PredictedPodGroup(TypedDict):
    """A line of `forewarn predict`: a PodGroup. `losses`: what fails or is interrupted without the victims."""

    id: str
    outcome: str
    minCount: int
    pods: int
    nodes: dict[str, int]
    victims: list[str]
    losses: NotRequired[list[PodLoss]]
    missing: NotRequired[int]
    message: NotRequired[str]
    standing: list[str]


PredictLine = PredictedPod | OtherPods | PredictedPodGroup


class BeforeAfter(TypedDict):
    """A number before and after the change."""

    before: int
    after: int


class Standing(TypedDict):
    """A workload that changes or has too few Pods."""

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

ClassChange = TypedDict(
    "ClassChange",
    {
        "class": str,
        "before": PriorityClass | None,
        "after": PriorityClass | None,
        "workloads": list[ChangedWorkload],
        "mayPreempt": list[MayPreempt],
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
    assumptions: NotRequired[list[str]]
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
    """The output of `forewarn whatif`."""

    change: str
    settled: bool
    settledAt: float
    running: BeforeAfter
    fewer: int
    daemonPodsOfLostNodes: int
    workloads: list[Standing]
    pending: PendingPods
    autoscalers: Autoscalers
    preempted: list[SimulatedPreemption]
    podLosses: NotRequired[list[PodLoss]]
    pdbs: DisruptionBudgets
    rejectedByQuota: dict[str, int]
    notDrained: dict[str, list[str]]
    evictionBlockedBy: dict[str, list[str]]
    notSimulated: list[str]
    assumptions: NotRequired[list[str]]
    notModelled: list[str]
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


class Shard(TypedDict):
    """The part of a divided run, for `forewarn whatif merge`.

    `of`: number of questions of the whole run; `cluster`: digest of the cluster; `asked`: the other options that
    identify the run.
    """

    index: int
    count: int
    of: int
    cluster: str
    asked: dict[str, Any]


class NeededNodes(TypedDict):
    """Nodes that cluster-autoscaler would add, by group."""

    nodes: dict[str, int]
    noScaleUp: int
    truncated: bool


class SweepRow(TypedDict):
    """The effect of one case."""

    case: str
    fewer: int
    pending: int
    preempted: int
    violatedPDBs: int
    settledAt: float
    settled: bool
    nodeGroups: NotRequired[NeededNodes]


class RunningAndPending(TypedDict):
    """Numbers of Pods."""

    running: int
    pending: int


class Sweep(TypedDict):
    """The output of `forewarn whatif --each`. The first row is the case with the worst effect."""

    version: Literal[1]
    sweep: str
    before: RunningAndPending
    rows: list[SweepRow]
    withoutChange: NotRequired[SweepRow]
    notes: NotRequired[list[str]]
    shard: NotRequired[Shard]


class EvictionPlace(TypedDict):
    """A Pod in the order of eviction. `tied`: the kubelet may also evict this Pod before the previous one."""

    pod: str
    priority: int | None
    used: NotRequired[int]
    requested: NotRequired[int]
    exceeds: NotRequired[bool | None]
    tied: bool
    reason: str


class KubeletAdmission(TypedDict):
    """Admission of a critical Pod by the kubelet."""

    pod: str
    insufficient: Any
    rejected: Any
    preempted: list[str]


class ShutdownGroup(TypedDict):
    """Pods that terminate together at a graceful shutdown."""

    priority: int
    seconds: int
    pods: list[str]


class NodePressure(TypedDict):
    """The output of `forewarn whatif pressure`."""

    node: str
    order: NotRequired[list[EvictionPlace]]
    never: NotRequired[list[str]]
    admission: NotRequired[KubeletAdmission]
    shutdown: NotRequired[list[ShutdownGroup]]


class ResizedPod(TypedDict):
    """The result of an in-place resize of one Pod.

    `evicted`: Pods that the kubelet evicts for a critical Pod. `preempted`: Pods that kube-scheduler preempts.
    `inTheWay`: Pods that use the missing resources. `insufficient`: the missing amounts of resources, cpu in
    thousandths, memory in bytes. `dependsOn`: settings of the kubelet that change the verdict.
    """

    pod: str
    node: str
    verdict: Literal["accepted", "deferred", "infeasible", "rejected", "not-evaluated"]
    reason: str
    insufficient: dict[str, int]
    evicted: list[str]
    preempted: list[str]
    inTheWay: list[str]
    dependsOn: list[str]


class Resize(TypedDict):
    """The output of `forewarn whatif resize`."""

    pods: list[ResizedPod]
    notes: list[str]


class WithoutPreemption(TypedDict):
    """Replicas that fit without preemption."""

    pods: int
    atLeast: bool
    byZone: dict[str, int]


class Replicas(TypedDict):
    """Number of replicas that fit. `atLeast`: more replicas may fit."""

    pods: int
    atLeast: bool


ReplicasWithClass = TypedDict(
    "ReplicasWithClass", {"class": str, "priority": int, "preempts": bool, "pods": int, "atLeast": bool}
)
"""Replicas that would fit with a PriorityClass."""


class Stranded(TypedDict):
    """Free capacity that no replica can use."""

    insufficient: list[str]
    nodes: int
    milliCpu: int
    memory: int


class GroupReplicas(TypedDict):
    """Replicas for a node group."""

    group: str
    nodes: int
    pods: int
    atLeast: bool
    reason: NotRequired[str]


class PodGroupHeadroom(TypedDict):
    """PodGroups that fit. `pods`: size of a group; `withoutPreemption`, `withPreemption`: numbers of groups."""

    name: str
    pods: int
    minCount: int
    withoutPreemption: int
    withPreemption: int


class ExistingPlaceholders(TypedDict):
    """Placeholder Pods that the Pods may preempt. `reserve`: number of Pods that fit only by preempting placeholder
    Pods.
    """

    pods: int
    reserve: int
    terminationSeconds: int


class NewPlaceholders(TypedDict):
    """Placeholder Pods to create, with the requests of each. An empty `priorityClass`: no suitable class exists."""

    pods: int
    fitNow: int
    milliCpu: int
    memory: int
    priorityClass: str
    priority: int


class PlaceholderPool(TypedDict):
    """Pods that fit in a node pool: in `free` capacity, and in capacity `reserved` by placeholder Pods."""

    pool: str
    free: int
    reserved: int


class PlaceholderNodes(TypedDict):
    """The number of new nodes of a node group for placeholder Pods that do not fit; null: more than the group can
    add.
    """

    group: str
    nodes: int | None


class Placeholders(TypedDict):
    """Placeholder Pods for `wanted` Pods. `obstacle`: why placeholder Pods do not help; empty if they help.

    `capacityBuffer`: a CapacityBuffer instead of placeholder Pods; null for objects without a scale subresource.
    """

    wanted: int
    existing: ExistingPlaceholders
    create: NewPlaceholders
    pools: list[PlaceholderPool]
    nodeGroups: list[PlaceholderNodes]
    obstacle: str
    capacityBuffer: dict[str, Any] | None


class BufferTarget(TypedDict):
    """The workload or PodTemplate of a CapacityBuffer; empty strings if there is none."""

    kind: str
    name: str


class CapacityBuffer(TypedDict):
    """A CapacityBuffer. `replicas`: desired; null if only a percentage or limits are set. `problem`: may be empty."""

    name: str
    target: BufferTarget
    replicas: int | None
    provisioned: int
    problem: str


class OtherBuffers(TypedDict):
    """The number of CapacityBuffers of other workloads, and of their provisioned replicas."""

    buffers: int
    provisioned: int


class CapacityBuffers(TypedDict):
    """The CapacityBuffers for an object, and their provisioned replicas. `needed`: with `--placeholders`.

    `incomplete`: present if more CapacityBuffers exist than forewarn reads.
    """

    buffers: list[CapacityBuffer]
    provisioned: int
    needed: NotRequired[int]
    incomplete: NotRequired[bool]
    others: OtherBuffers


class Headroom(TypedDict):
    """A line of `forewarn headroom`: one object. `podGroup`: only if the object's Pods belong to a PodGroup."""

    object: str
    podGroup: NotRequired[PodGroupHeadroom]
    priority: int
    priorityClass: str
    withoutPreemption: WithoutPreemption
    withPreemption: Replicas
    byClass: list[ReplicasWithClass]
    reasons: dict[str, int]
    stranded: list[Stranded]
    nodeGroups: NotRequired[list[GroupReplicas]]
    notes: list[str]
    placeholders: NotRequired[Placeholders]
    capacityBuffers: NotRequired[CapacityBuffers]


class Requested(TypedDict):
    """A number of Pods and the sum of their requests: CPU in thousandths, memory in bytes."""

    pods: int
    milliCpu: int
    memory: int


class NewPodsOfClass(TypedDict):
    """Whether new Pods of a PriorityClass may preempt."""

    preempt: bool


PreemptablePods = TypedDict("PreemptablePods", {"class": str, "value": int, "pods": int})
"""Running Pods with a lower priority, by PriorityClass and value."""

PriorityLevel = TypedDict(
    "PriorityLevel",
    {
        "class": str,
        "value": int,
        "globalDefault": bool,
        "newPods": NewPodsOfClass | None,
        "running": Requested,
        "pending": int,
        "couldDisplace": Requested,
        "mayPreempt": list[PreemptablePods],
    },
)
"""A PriorityClass (empty: none) with a priority value. `newPods`: null if new Pods do not get this value."""


class Classes(TypedDict):
    """The output of `forewarn classes`. `allocatable`: of all nodes. `classes`: the highest value first."""

    allocatable: Requested
    classes: list[PriorityLevel]


class WorkloadReference(TypedDict):
    """A workload. `kind`: `group/Kind`."""

    kind: str
    namespace: str
    name: str


class StepPreemption(TypedDict):
    """A preemption in a step."""

    by: Preemptor
    victim: Preemptor


class ClassStep(TypedDict):
    """A step of a change of PriorityClasses, with its start and end in seconds.

    `priority`: of the new Pods of `workloads`. `newPods`: their number. `pending`: number of Pending Pods at the end of
    the step. `unfinished`: workloads whose rollout does not finish.
    """

    action: Literal["create", "default", "recreate", "delete", "apply", "restart"]
    classes: list[PriorityClass]
    workloads: list[WorkloadReference]
    priority: NotRequired[int]
    startedAt: float
    endedAt: float
    newPods: int
    pending: int
    unfinished: list[str]
    preempted: list[StepPreemption]


class OtherOrder(TypedDict):
    """The order of steps that was not chosen. `neverFirst`: classes with preemptionPolicy Never are created first."""

    neverFirst: bool
    preempted: int
    unfinished: list[str]


class RunningByPriority(TypedDict):
    """A workload with the number of its running Pods by priority."""

    workload: str
    running: dict[str, int]


class ClassPlan(TypedDict):
    """The output of `forewarn classes plan`.

    `alternative`: null if the first order preempts no Pods. `preemptedBefore`: number of Pods that Pending Pods preempt
    before the first step; `steps` does not contain them. `keepPriority`: workloads that a restart does not replace.
    `rejected`: workloads whose PriorityClass does not exist afterwards. `violatedPDBs`: number of preemptions beyond
    the allowed disruptions.
    """

    preempted: int
    complete: bool
    pendingBefore: int
    preemptedBefore: int
    alternative: OtherOrder | None
    steps: list[ClassStep]
    keepPriority: list[RunningByPriority]
    rejected: list[RunningByPriority]
    settled: bool
    stopped: NotRequired[str]
    violatedPDBs: dict[str, int]
    ignored: list[str]
    notModelled: list[str]
    assumptions: list[str]


class Expectation(TypedDict):
    """The result of one expectation."""

    name: str
    met: bool
    cases: int
    case: NotRequired[str]
    failures: NotRequired[list[str]]
    timeline: NotRequired[list[str]]
    answer: NotRequired[dict[str, Any]]
    notEvaluated: NotRequired[list[str]]
    notes: NotRequired[list[str]]


class Expectations(TypedDict):
    """The output of `forewarn test`."""

    version: Literal[1]
    expectations: list[Expectation]
    shard: NotRequired[Shard]


class Trouble(TypedDict):
    """A problem of a Pod. `time`: in UTC; absent if unknown."""

    id: str
    time: NotRequired[str]
    message: str
    help: NotRequired[str]


class CountedReason(TypedDict):
    """A reason with the number of nodes."""

    count: int
    reason: str


PodState = Literal["pending", "preempted", "terminating", "running", "ended", "gone"]


class Why(TypedDict):
    """The output of `forewarn why` for a Pod. `missing`: what forewarn could not read, for example Events."""

    id: str
    state: PodState
    priority: NotRequired[int]
    node: NotRequired[str]
    nominatedNode: NotRequired[str]
    troubles: list[Trouble]
    nodes: list[CountedReason]
    reported: dict[str, str]
    missing: list[str]


class PodEnding(TypedDict):
    """A Pod that has ended, with the problems that explain the end, the cause first. `state`: the current state."""

    pod: str
    state: PodState
    troubles: list[Trouble]


class WorkloadWhy(TypedDict):
    """The output of `forewarn why` for a workload. `states`: number of Pods by state.

    `notExplained`: number of Pods beyond the limit. `missing`: what forewarn could not read, for example Events.
    """

    id: str
    kind: str
    states: dict[str, int]
    pending: list[str]
    endings: list[PodEnding]
    notExplained: int
    missing: list[str]


class Amounts(TypedDict):
    """CPU in thousandths, memory in bytes."""

    milliCpu: int
    memory: int


PreemptingClass = TypedDict("PreemptingClass", {"class": str, "priority": int, "moreThan": Amounts, "upTo": Amounts})
"""A PriorityClass whose Pods may preempt a workload, if their requests are above `moreThan` and at most `upTo`."""


class EvictedFirst(TypedDict):
    """Number of nodes on which the kubelet evicts the Pods first, and of all nodes with Pods of the workload."""

    nodes: int
    of: int


class PreemptedTogether(TypedDict):
    """A PodGroup with the disruption mode `all`: kube-scheduler preempts all its Pods together."""

    podGroup: str
    priority: int
    preemptedPods: int
    nodes: int


class WorkloadRisk(TypedDict):
    """The risks of a workload."""

    workload: str
    namespace: str
    priorityClass: str
    priority: int
    pods: int
    classesAbove: int
    mayBePreemptedBy: list[PreemptingClass]
    losesReplicasWith: dict[str, int]
    refusedByQuota: dict[str, int]
    evictedFirstOn: EvictedFirst
    podLosses: NotRequired[list[PodLoss]]
    podGroups: NotRequired[list[PreemptedTogether]]


class Losses(TypedDict):
    """Numbers of zones and nodes."""

    zones: int
    nodes: int


class Unfinished(TypedDict):
    """A simulation that ended before a steady state. `at`: simulated seconds. `stopped`: the reason."""

    stopped: str
    at: float


class Risk(TypedDict):
    """The output of `forewarn risk`. `changes`: with `--since`."""

    workloads: list[WorkloadRisk]
    simulated: Losses
    total: Losses
    notPredicted: list[str]
    assumptions: NotRequired[list[str]]
    notModelled: list[str]
    unfinished: dict[str, Unfinished]
    changes: NotRequired[list[Change]]


class OneOfSeveralClusters(TypedDict):
    """A cluster, with the report of the command about it, or the reason why there is none.

    `source`: the context or snapshot. `status`: the exit status of the command for this cluster alone. `rank`: numbers
    that are larger for a worse cluster. `row`: the cells of the table by column.
    """

    cluster: str
    source: str
    status: int
    rank: NotRequired[list[int]]
    row: NotRequired[dict[str, str | int]]
    report: NotRequired[Findings | Risk | Classes | list[Headroom]]
    reason: NotRequired[str]


class SeveralClusters(TypedDict):
    """The output of a command about several clusters, the worst cluster first."""

    version: Literal[1]
    command: Literal["audit", "classes", "headroom", "risk"]
    clusters: list[OneOfSeveralClusters]


class ResolvedPriority(TypedDict):
    """The values that the Priority admission plugin writes into a Pod."""

    priorityClassName: str | None
    priority: int
    preemptionPolicy: str


class DryRun(TypedDict):
    """A line of `forewarn dry-run`: kube-apiserver's answer for one object, and the object that it would store."""

    file: str
    kind: str
    namespace: str
    name: str
    allowed: bool
    code: int
    message: str
    resolved: ResolvedPriority | None
    stored: NotRequired[dict[str, Any]]


class Example(TypedDict):
    """An example of a rule."""

    heading: str
    manifest: str


class Rule(TypedDict):
    """A line of `forewarn explain`: one rule. An empty `severity`: the linter does not use the rule; an empty
    `action`: the webhook does not.
    """

    rule: str
    kinds: list[str]
    severity: str
    action: str
    what: str
    why: str
    details: str
    fix: str
    examples: list[Example]


class ReleaseChange(TypedDict):
    """A difference from the previous Kubernetes minor. Only changes of a preview have `source` and `modelled`.

    `source`: pull request or enhancement. `modelled`: whether predictions include the change.
    """

    where: str
    what: str
    source: NotRequired[str]
    modelled: NotRequired[bool]


class PatchChange(TypedDict):
    """A difference of patch releases earlier than `before`."""

    before: str
    where: str
    what: str


class Unfixed(TypedDict):
    """A bug of Kubernetes without a release that fixes it."""

    pullRequest: int | str
    where: str
    what: str


class Release(TypedDict):
    """A Kubernetes minor version. `checkedWith`: the patch release that forewarn was tested against; null for a
    preview.
    """

    release: str
    checkedWith: str | None
    changes: list[ReleaseChange]
    earlierPatchReleases: list[PatchChange]
    unfixed: list[Unfixed]
    featureGates: dict[str, bool]


class PluginAt(TypedDict):
    """A plugin at an extension point."""

    name: str
    weight: NotRequired[int]


class Profile(TypedDict):
    """A scheduler profile."""

    schedulerName: str
    percentageOfNodesToScore: int
    plugins: dict[str, list[PluginAt]]
    pluginConfig: dict[str, Any]
    notKnown: list[str]
    withoutColumns: Any


class Scheduler(TypedDict):
    """The output of `forewarn info scheduler`."""

    source: str
    release: str
    podInitialBackoffSeconds: float
    podMaxBackoffSeconds: float
    profiles: list[Profile]
    extenders: list[Any]


class AccuracyExample(TypedDict):
    """A prediction and the actual result. `at`: seconds since 1970."""

    result: str
    pod: NotRequired[str]
    workload: NotRequired[str]
    predicted: str
    happened: str
    at: float
    change: NotRequired[str]


class WorkloadAccuracy(TypedDict):
    """The results for workloads."""

    results: dict[str, int]
    open: int
    notJudged: dict[str, int]
    examples: list[AccuracyExample]


class Accuracy(TypedDict):
    """The output of `forewarn webhook accuracy`."""

    results: dict[str, int]
    open: int
    notCompared: int
    examples: list[AccuracyExample]
    workloads: WorkloadAccuracy


class Check(TypedDict):
    """A line of the report of the doctor."""

    area: str
    check: str
    status: str
    message: str
    fix: str


class Checks(TypedDict):
    """The output of `forewarn webhook doctor`."""

    checks: list[Check]


class ClassOnNode(TypedDict):
    """The Pods of a PriorityClass on a node. An empty `priorityClass`: Pods without a class."""

    priorityClass: str
    priority: int
    pods: int


class UiNode(TypedDict):
    """A node. `milliCpu` and `memory` (bytes): allocatable."""

    name: str
    pool: str
    zone: str
    cordoned: bool
    milliCpu: int
    memory: int
    classes: list[ClassOnNode]


class UiCluster(TypedDict):
    """The nodes of the Cluster page of `forewarn ui`, by name."""

    nodes: list[UiNode]


class EditableObject(TypedDict):
    """An object of a manifest, with the fields that the Predict page can change. `container`: the first container."""

    kind: str
    namespace: str
    name: str
    replicas: int | None
    priorityClass: str
    container: str
    cpu: str
    memory: str


class UiVictim(TypedDict):
    """A victim. `by`: the preemptor."""

    pod: str
    workload: str
    priorityClass: str
    priority: int
    node: str
    by: str


class UiPrediction(TypedDict):
    """The answer of the Predict page of `forewarn ui`.

    `outcomes`: the number of new Pods by outcome, as in `predict`. `lines`: the text of `predict`. `manifest`: the
    manifest with changes. `command`: the equivalent shell command. `nodes`: data of the drawing, whose format can
    change.
    """

    objects: list[EditableObject]
    manifest: str
    command: str
    outcomes: dict[str, int]
    lines: list[str]
    faults: list[str]
    victims: list[UiVictim]
    nodes: dict[str, Any]


class UiDecision(TypedDict):
    """A decision of the webhook. `at`: seconds since 1970. `resource`: group, version and name.

    Without the permission to list everything, `user` is null, and `rules`, `messages` and `withheld` are empty.
    `withheld`: full texts that the requester did not see.
    """

    at: float
    resource: list[str]
    kind: str
    namespace: str
    name: str
    operation: str
    user: str | None
    dryRun: bool
    verdict: str
    rules: dict[str, str]
    messages: list[str]
    withheld: list[str]


class UiWarnings(TypedDict):
    """The page "Accuracy and warnings" of the webhook. `accuracy`: as `webhook accuracy`, or null without permission.

    `complete`: false if forewarn did not review the permissions for all decisions.
    """

    decisions: list[UiDecision]
    complete: bool
    accuracy: dict[str, Any] | None


class UiFault(TypedDict):
    """The reason why `forewarn ui` has no answer."""

    error: str


DOCUMENTS: Final[dict[str, tuple[str, Any]]] = {
    "lint": ("`lint` and `audit`", Findings),
    "predict": ("each line of `predict`", PredictLine),
    "whatif": ("`whatif`", WhatIf),
    "whatif-each": ("`whatif --each`", Sweep),
    "whatif-pressure": ("`whatif pressure`", NodePressure),
    "whatif-resize": ("`whatif resize`", Resize),
    "headroom": ("each line of `headroom`", Headroom),
    "classes": ("`classes`", Classes),
    "classes-plan": ("`classes plan`", ClassPlan),
    "test": ("`test`", Expectations),
    "why": ("`why`", Why | WorkloadWhy),
    "risk": ("`risk`", Risk),
    "several-clusters": ("`audit`, `classes`, `headroom` and `risk` about several clusters", SeveralClusters),
    "dry-run": ("each line of `dry-run`", DryRun),
    "explain": ("each line of `explain`", Rule),
    "info-releases": ("`info releases`", list[Release]),
    "info-scheduler": ("`info scheduler`", Scheduler),
    "webhook-review": ("each line of `webhook review -o json`", Review),
    "webhook-accuracy": ("`webhook accuracy`", Accuracy),
    "webhook-doctor": ("`webhook doctor`", Checks),
    "ui-cluster": ("the Cluster page of `ui`", UiCluster),
    "ui-predict": ("the Predict page of `ui`", UiPrediction),
    "ui-warnings": ("the page Accuracy and warnings of the webhook", UiWarnings),
    "ui-error": ("an error of `ui`", UiFault),
    "preemption-impact": ("the annotation `forewarn.dev/preemption-impact`", Impact),
}
"""Name of a JSON Schema -> the output that it describes, and its type."""
VERSION: Final = 1
"""The version of all schemas. It changes if a key disappears or changes its meaning."""
