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


class NewNodesOfGroup(TypedDict):
    """A number of new nodes of a group."""

    group: str
    nodes: int


class ScaleUp(TypedDict):
    """A scale-up of cluster-autoscaler. `ties`: other groups that are equally suitable. `added`: the new nodes, of
    several groups if similar groups are balanced.
    """

    group: str
    nodes: int
    pods: int
    expander: str
    options: list[NodeGroupOption]
    ties: list[str]
    workloads: list[WorkloadOnNodes]
    added: list[NewNodesOfGroup]


class NoScaleUp(TypedDict):
    """Pods for which no group adds a node. `reasons`: cluster-autoscaler's message for each group."""

    workload: str
    pods: int
    reasons: dict[str, str]


class ScaleUps(TypedDict):
    """The scale-ups in their order. `lost`: node groups whose nodes would be in what is lost.

    `notPredicted`: what forewarn does not model, or "".
    """

    scaleUps: list[ScaleUp]
    noScaleUp: list[NoScaleUp]
    fitExistingNodes: int
    lost: list[str]
    truncated: bool
    notPredicted: str


class PodsOfWorkload(TypedDict):
    """A number of Pods of a workload."""

    workload: str
    pods: int


class Launch(TypedDict):
    """Equal nodes that Karpenter adds. `workloads`: whose Pods need these nodes."""

    nodePool: str
    instanceType: str
    nodes: int
    workloads: list[PodsOfWorkload]


class NoLaunch(TypedDict):
    """Pods for which no NodePool adds a node. `reason`: Karpenter's message."""

    workload: str
    pods: int
    reason: str


class Launches(TypedDict):
    """The nodes that Karpenter adds. `notPredicted`: what forewarn does not model, or "".

    An instance type is the cheapest that Karpenter allows.
    """

    launches: list[Launch]
    noLaunch: list[NoLaunch]
    notPredicted: str


class Autoscalers(TypedDict):
    """The reaction of autoscalers to Pending Pods."""

    clusterAutoscaler: Considered
    karpenter: Considered
    nodeGroups: NotRequired[ScaleUps]
    nodePools: NotRequired[Launches]


class WorkloadBack(TypedDict):
    """Running Pods of a workload: before the event, at its worst moment, at the end, and at the end without new nodes.

    `pending`: Pods that stay Pending, for the reason `message`. `at`: seconds until its last Pod was scheduled; null if
    Pods stay Pending.
    """

    workload: str
    before: int
    worst: int
    after: int
    withoutNewNodes: int
    pending: int
    message: str
    at: float | None


class WorstMoment(TypedDict):
    """The lowest number of running Pods, and the seconds until then."""

    running: int
    at: float


class WithNewNodes(TypedDict):
    """The end of the simulation if autoscalers add nodes. `nodes`: by node group or NodePool.

    `fewer`: replicas that do not run at the end. `nodesNotSimulated`: the nodes beyond the limit of a simulation.
    """

    nodes: dict[str, int]
    milliCpu: int
    milliCpuByGroup: dict[str, int]
    firstNodeAt: float
    worst: WorstMoment
    running: int
    fewer: int
    pending: int
    settledAt: float
    workloads: list[WorkloadBack]
    nodesNotSimulated: int
