"""The types of outputs about findings, and of the annotation `forewarn.dev/preemption-impact`."""

from typing import Literal, NamedTuple, NotRequired, TypedDict


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
    controllerUnknown: int
    preempted: int
    cascadeDepth: int
    pending: int
    rejectedByQuota: int
    pendingNotEvaluated: int


class GroupImpact(TypedDict):
    """The outcome for the PodGroup of the new Pods. `missing`: number of Pods that the gang lacks."""

    name: str
    minCount: int
    outcome: str
    pods: NotRequired[int]
    missing: NotRequired[int]
    victims: NotRequired[list[str]]
    moreVictims: NotRequired[int]
    unnamedVictims: NotRequired[int]
    unnamedPriorities: NotRequired[list[int | None]]
    pdbViolations: NotRequired[int]


class Reason(TypedDict):
    """A reason of kube-scheduler with the number of nodes; 0 for a reason that is not about single nodes."""

    reason: str
    nodes: int


class NewNodes(TypedDict):
    """The nodes that autoscalers add for Pending Pods, and the number of Pods that fit on them after `seconds`."""

    nodes: int
    pods: int
    seconds: float
    notPredicted: NotRequired[str]


class Impact(TypedDict, total=False):
    """The effect of an object's new Pods: the annotation forewarn.dev/preemption-impact, and the details of findings.

    `coarse`: numbers are the lower ends of ranges. `byChance`: the numbers depend on the order in which the DaemonSet
    controller visits nodes, or in which controllers use freed quota; they are those of a case with many preemptions.
    `predicted`: number of new Pods with a known outcome. `notPredicted`: the reason why kube-scheduler's decision is
    not modelled, or not shown. Only details of findings have `victims`, `reasons`, `newNodes`, `expectation`
    and `basis`.
    """

    coarse: bool
    priority: int
    newPods: int
    predicted: int
    podGroup: GroupImpact
    preemptions: list[PreemptionBy]
    morePreemptions: int
    byPendingPods: list[PreemptionBy]
    moreByPendingPods: int
    cascade: Cascade
    byTiming: bool
    byChance: bool
    pending: int
    incomplete: bool
    rejectedByQuota: int
    notPredicted: str
    assumes: list[str]
    staleCache: bool
    basis: Literal["rollout"]
    victims: Victims
    reasons: list[Reason]
    newNodes: NewNodes
    expectation: str


Detail = TypedDict(
    "Detail",
    {
        "class": str,
        "classes": list[str],
        "count": int,
        "default": str,
        "directories": list[str],
        "meant": str,
        "field": str,
        "under": str,
        "minors": list[int],
        "rejection": str,
        "given": int | None,
        "computed": int | None,
        "value": int,
        "quota": str,
        "resources": list[str],
        "pod": int,
        "replicas": int,
        "surge": int,
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


Difference = Literal["new", "worse", "changed", "better", "gone"]


class ReportChange(NamedTuple):
    """A difference from the earlier report. `what`: for example, the finding or workload."""

    change: Difference
    what: str
    why: str = ""
