"""The types of the outputs of `risk`."""

from typing import NotRequired, TypedDict

from forewarn.policies.documents.findings import Change, PodLoss
from forewarn.policies.documents.head import Head


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
    """The output of `forewarn risk`. `changes`: with `--since`. `withoutLoss`: workload -> replicas lost anyway."""

    head: Head
    workloads: list[WorkloadRisk]
    simulated: Losses
    total: Losses
    withoutLoss: NotRequired[dict[str, int]]
    notPredicted: list[str]
    notModelled: list[str]
    unfinished: dict[str, Unfinished]
    changes: NotRequired[list[Change]]
