"""The types of the outputs of `headroom`."""

from typing import Any, NotRequired, TypedDict

from forewarn.policies.documents.head import Head


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
    Pods. `pending`: number of further placeholder Pods that are Pending.
    """

    pods: int
    pending: int
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


class Quota(TypedDict):
    """The ResourceQuota that rejects the Pod after `pods` more, and kube-apiserver's message."""

    pods: int
    quota: str
    message: str


class Headroom(TypedDict):
    """A line of `forewarn headroom`: one object. `podGroup`: only if the object's Pods belong to a PodGroup."""

    head: Head
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
    quota: NotRequired[Quota]
    notes: list[str]
    placeholders: NotRequired[Placeholders]
    capacityBuffers: NotRequired[CapacityBuffers]
