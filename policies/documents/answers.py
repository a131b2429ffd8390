"""The types of outputs, and of parts of outputs, that are not result types."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict


class Head(TypedDict):
    """The head of an answer about a cluster."""

    cluster: Annotated[str, "kubeconfig context, or the files; empty without a cluster"]
    time: Annotated[str, "time of the cluster state; empty if unknown"]
    timeOf: Annotated[
        Literal["read", "newest object", ""],
        "`read`: `time` is when forewarn read the state; `newest object`: `time` is the newest timestamp in it",
    ]
    release: Annotated[str, "Kubernetes release of the predictions, such as 1.36"]
    profile: Annotated[str, "profiles of kube-scheduler"]
    assumes: Annotated[
        list[str], "what the answer assumes because the cluster state lacks it, such as `no LimitRanges`"
    ]


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
    """Replicas for a node group. `podsWithoutQuota`, `quota`: both limits of `pods`, if a ResourceQuota applies."""

    group: str
    nodes: int
    pods: int
    atLeast: bool
    podsWithoutQuota: NotRequired[int]
    quota: NotRequired[int]
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
