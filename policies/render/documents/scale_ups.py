"""The types of the reaction of autoscalers to Pending Pods, in `predict` and `whatif`."""

from typing import NotRequired, TypedDict


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
    """The scale-ups in their order. `lost`: node groups whose nodes would be in what is lost."""

    scaleUps: list[ScaleUp]
    noScaleUp: list[NoScaleUp]
    fitExistingNodes: int
    lost: list[str]
    truncated: bool


class Autoscalers(TypedDict):
    """The reaction of autoscalers to Pending Pods."""

    clusterAutoscaler: Considered
    karpenter: Considered
    nodeGroups: NotRequired[ScaleUps]
