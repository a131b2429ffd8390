"""The types of the output of `predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from forewarn.policies.documents.answers import (
    Candidate,
    DaemonSetVictim,
    Explanation,
    OtherPods,
    PredictedPodGroup,
    Status,
)

if TYPE_CHECKING:
    from forewarn.policies.documents.findings import PodLoss
    from forewarn.policies.documents.head import Head
    from forewarn.policies.whatif.autoscalers import Autoscalers


class PredictedPod(TypedDict):
    """A line of `forewarn predict`: one Pod.

    `id`: `namespace/name`. `preFilter`: the status of PreFilter, if it rejected the Pod. `feasible`: nodes that pass
    all filters. `statuses`: the other nodes, with the plugin and reasons. `scores`: of several feasible nodes, the
    weighted scores by plugin, and the `total`. `eligible`, `ineligibleReason`: whether the Pod may preempt, and why
    not. `candidates`: nodes on which preemption helps. `numCandidates`: their number, if kube-scheduler does not
    evaluate all. `dryRunStatuses`: nodes on which preemption does not help, with the reason. `selected`: nodes that
    kube-scheduler may choose. `nominatedNode`: the first of these by name, if the Pod preempts. `odds`: with
    more than 100 nodes, their probabilities. `standing`: why the prediction is uncertain. `attempts`: number of
    scheduling attempts, if several. `preemptedBy`: with several objects, the later Pod that preempts this Pod.
    `overtaken`: true if later Pods take its free capacity. `how`: with `--explain`. `basis`: `missing-replicas`, or
    `rollout` for the new Pods of a rollout. `losses`: what fails or is interrupted without the victims.
    `daemonSetVictims`: victims that return on the same node only. `autoscalers`: for a Pending Pod; the line of the
    last one contains `nodeGroups` for all.
    """

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


PredictLine = PredictedPod | OtherPods | PredictedPodGroup
