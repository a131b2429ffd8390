"""The type of the output of `classes plan`."""

from typing import Literal, NotRequired, TypedDict

from forewarn.policies.documents.head import Head
from forewarn.policies.documents.whatif import Preemptor, PriorityClass


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

    head: Head
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
