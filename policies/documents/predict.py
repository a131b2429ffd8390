"""The types of the outputs of `predict`."""

from typing import Literal, NotRequired, TypedDict

from forewarn.policies.documents.findings import PodLoss
from forewarn.policies.documents.head import Head
from forewarn.policies.documents.scale_ups import Autoscalers


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


class PredictedPod(TypedDict):
    """A line of `forewarn predict`: one Pod. `losses`: what fails or is interrupted without the victims."""

    head: Head
    id: str
    outcome: Literal["fits", "preempts", "pending", "not-predicted"]
    preFilter: NotRequired[Status]
    feasible: list[str]
    statuses: dict[str, Status]
    scores: NotRequired[dict[str, dict[str, int]]]
    eligible: bool
    ineligibleReason: NotRequired[str]
    candidates: dict[str, Candidate]
    dryRunStatuses: NotRequired[dict[str, Status]]
    numCandidates: NotRequired[int]
    selected: list[str]
    nominatedNode: str
    odds: NotRequired[dict[str, float]]
    standing: list[str]
    attempts: NotRequired[int]
    preemptedBy: NotRequired[str]
    overtaken: NotRequired[bool]
    how: NotRequired[Explanation]
    basis: NotRequired[str]
    losses: NotRequired[list[PodLoss]]
    daemonSetVictims: NotRequired[list[DaemonSetVictim]]
    autoscalers: NotRequired[Autoscalers]


class OtherPods(TypedDict):
    """A line of `forewarn predict`: new Pods of a workload that have no line of their own."""

    head: Head
    id: str
    outcome: str
    pods: int
    basis: str
    standing: list[str]


class PredictedPodGroup(TypedDict):
    """A line of `forewarn predict`: a PodGroup. `losses`: what fails or is interrupted without the victims."""

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


PredictLine = PredictedPod | OtherPods | PredictedPodGroup
