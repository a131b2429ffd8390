"""The types of outputs, and of parts of outputs, that are not result types."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from forewarn.policies.documents.findings import PodLoss
from forewarn.policies.documents.head import Head

ReplicasWithClass = TypedDict(
    "ReplicasWithClass",
    {
        "class": str,
        "priority": int,
        "preempts": bool,
        "pods": int,
        "atLeast": bool,
        "nodes": NotRequired[int],
        "quota": NotRequired[int],
    },
)
"""Replicas that would fit with a PriorityClass."""
PodState = Literal["pending", "preempted", "terminating", "running", "ended", "gone"]


class Expectation(TypedDict):
    """The result of one expectation.

    `cases`: number of simulated cases. `case`: the first case that violates the expectation. `failures`: the
    violations. `answer`: this case, as in `whatif`. `notEvaluated`: parts that select no Pod. `notes`: parts that may
    select no Pod.
    """

    name: str
    met: bool
    cases: int
    case: NotRequired[str]
    failures: NotRequired[list[str]]
    timeline: NotRequired[list[str]]
    answer: NotRequired[dict[str, Any]]
    notEvaluated: NotRequired[list[str]]
    notes: NotRequired[list[str]]


class WithoutPreemption(TypedDict):
    """Replicas that fit without preemption. `nodes`, `quota`: as in `Replicas`."""

    pods: int
    atLeast: bool
    nodes: NotRequired[int]
    quota: NotRequired[int]
    byZone: dict[str, int]


class Replicas(TypedDict):
    """Number of replicas that fit. `atLeast`: more replicas may fit.

    `nodes`, `quota`: if a ResourceQuota limits the Pods, the numbers of which `pods` is the smaller.
    """

    pods: int
    atLeast: bool
    nodes: NotRequired[int]
    quota: NotRequired[int]


class GroupReplicas(TypedDict):
    """Replicas for a node group."""

    group: str
    nodes: int
    pods: int
    atLeast: bool
    reason: NotRequired[str]


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


class DaemonSetVictim(TypedDict):
    """A victim that DaemonSet `daemonSet` (`namespace/name`) recreates on the same node only."""

    pod: str
    daemonSet: str
    node: str


class OtherPods(TypedDict):
    """A line of `forewarn predict`: new Pods of a workload that have no separate line. `pods`: their number. `outcome`:
    also "refused" (by a ResourceQuota), "later" or "unknown".
    """

    head: Head
    id: str
    outcome: str
    pods: int
    basis: str
    standing: list[str]


class PredictedPodGroup(TypedDict):
    """A line of `forewarn predict`: a PodGroup.

    `id`: `PodGroup namespace/name`. `pods`: number of new Pods. `nodes`: number of Pods by node. `victims`: Pods to
    preempt. `losses`: what fails or is interrupted without the victims. `missing`: number of Pods that the gang lacks.
    `message`: why it is Pending.
    """

    head: Head
    id: str
    outcome: str
    minCount: int
    pods: int
    nodes: dict[str, int]
    victims: list[str]
    losses: NotRequired[list[PodLoss]]
    daemonSetVictims: NotRequired[list[DaemonSetVictim]]
    missing: NotRequired[int]
    message: NotRequired[str]
    standing: list[str]


class Trouble(TypedDict):
    """A problem of a Pod. `time`: in UTC; absent if unknown."""

    id: str
    time: NotRequired[str]
    message: str
    help: NotRequired[str]


@dataclass(frozen=True, slots=True)
class CountedReason:
    """A reason with the number of nodes."""

    count: int
    reason: str


class PodEnding(TypedDict):
    """A Pod that has ended, with the problems that explain the end, the cause first. `state`: the current state."""

    pod: str
    state: PodState
    troubles: list[Trouble]


class ResolvedPriority(TypedDict):
    """The values that the Priority admission plugin writes into a Pod."""

    priorityClassName: str | None
    priority: int
    preemptionPolicy: str


class DryRun(TypedDict):
    """A line of `forewarn dry-run`: kube-apiserver's answer for one object, and the object that it would store."""

    head: Head
    file: str
    kind: str
    namespace: str
    name: str
    allowed: bool
    code: int
    message: str
    resolved: ResolvedPriority | None
    stored: NotRequired[dict[str, Any]]


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
