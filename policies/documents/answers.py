"""The types of outputs, and of parts of outputs, that are not result types."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict


class Head(TypedDict):
    """The head of an answer about a cluster."""

    cluster: Annotated[str, "kubeconfig context or files of the cluster; empty without a cluster"]
    time: Annotated[str, "time of the cluster state; empty if unknown"]
    timeOf: Annotated[
        Literal["read", "newest object", ""],
        "`read`: forewarn read the state at `time`; `newest object`: `time` is the newest timestamp in the state",
    ]
    release: Annotated[str, "Kubernetes release of the predictions, such as 1.36"]
    profile: Annotated[str, "profiles of kube-scheduler"]
    assumes: Annotated[list[str], "what the answer assumes, such as `no LimitRanges`"]


PodState = Literal["pending", "preempted", "terminating", "running", "ended", "gone"]


@dataclass(frozen=True, slots=True)
class CountedReason:
    """A reason, and the number of nodes with this reason."""

    count: int
    reason: str


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
