"""The types of the outputs of `whatif pressure` and `whatif resize`."""

from typing import Literal, NotRequired, TypedDict

from forewarn.policies.documents.head import Head


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
    """Admission of a critical Pod by the kubelet.

    `insufficient`: the missing amounts of resources, cpu in thousandths, memory in bytes. `reason` and `message`: those
    in the status of a rejected Pod.
    """

    pod: str
    insufficient: dict[str, int]
    rejected: bool
    reason: str
    message: str
    preempted: list[str]


class ShutdownGroup(TypedDict):
    """Pods that terminate together at a graceful shutdown."""

    priority: int
    seconds: int
    pods: list[str]


class NodePressure(TypedDict):
    """The output of `forewarn whatif pressure`."""

    head: Head
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

    head: Head
    pods: list[ResizedPod]
    notes: list[str]
