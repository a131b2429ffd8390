"""The types of outputs about findings, and of the annotation `forewarn.dev/preemption-impact`."""

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from forewarn.policies.documents.head import Head


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


class Finding(TypedDict):
    """A finding.

    `message`: the problem. `remediation`: the fix. `file`: empty in `audit`. `line`: from 1; for a finding about a
    whole object, its first line; 0 without a file. `column`, `endColumn`: from 1, the end exclusive. `field`: path of
    the field. `fingerprint`: stays the same while rule, file, object and field stay the same. `detail`: data of the
    message; the rule determines the keys.
    """

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
    """Numbers of files, objects and findings. `skipped`: objects that forewarn does not check. `suppressed`: suppressed
    findings. `leftOut`: number of skipped files by reason.
    """

    files: int
    objects: int
    errors: int
    warnings: int
    notes: int
    skipped: int
    suppressed: int
    leftOut: dict[str, int]


Difference = Literal["new", "worse", "changed", "better", "gone"]


class ReportChange(NamedTuple):
    """A difference from the earlier report. `what`: the finding or workload."""

    change: Difference
    what: str
    why: str = ""


class Findings(TypedDict):
    """The output of `forewarn lint` and `forewarn audit`. `findings`: sorted by file, line and column. `summary`: their
    numbers. `changes`: with `--since`.
    """

    head: NotRequired[Head]
    version: Literal[1]
    findings: list[Finding]
    summary: FindingsSummary
    changes: NotRequired[list[ReportChange]]


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
    """The output of `forewarn webhook review -o json`, one line for each phase. `findings`: about the object. `review`:
    the AdmissionReview. `verdict`: as in the metrics.
    """

    head: NotRequired[Head]
    version: Literal[1]
    phase: Literal["mutate", "validate"]
    verdict: str
    findings: list[ReviewFinding]
    review: dict[str, Any]
