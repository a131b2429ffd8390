"""The webhook's prediction for a Pod as plain values, and kube-scheduler's decision on the Pod, to compare both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.objects.fields import InvalidObject, at, items, sequence
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.webhook.workload_expectations import WorkloadExpectation, workload_expectation_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.scheduling.schedule_one import Prediction

_LONGEST: Final = 64
FITS, PREEMPTS, PENDING = "fits", "preempts", "pending"
NAMED: Final = 32
"""Maximum nodes or victims of a prediction that are recorded; with more, they are not compared."""
VOLUMES: Final = 64
"""Maximum volumes of a followed Pod; with more, the check would exceed the deadline."""
Rank = tuple[int, int]
"""Priority and start time: preemption treats Pods of one rank on a node alike."""


class Victim(NamedTuple):
    """A victim of preemption. `key`: namespace and name. `rank`: see `rank_of`."""

    uid: str
    key: str
    rank: Rank


class Expectation(NamedTuple):
    """The prediction for one Pod, in plain values that can be pickled.

    `nodes`: the possible nodes; empty if nodes are not compared. `victims`: the victims on `node`, if only one node
    is possible; None if victims are not compared. `whole`: the prediction for the end; None for a controller's Pod.
    """

    uid: str
    outcome: str
    nodes: tuple[str, ...] = ()
    node: str = ""
    victims: tuple[Victim, ...] | None = None
    whole: WorkloadExpectation | None = None

    def __str__(self) -> str:
        where = _or(self.nodes or ((self.node,) if self.node else ()))
        return summary_of(self.outcome, where, () if self.victims is None else self.victims)


class Act(NamedTuple):
    """kube-scheduler's first decision on a Pod."""

    outcome: str
    node: str = ""


def expectation_of(subject: ReviewedObject, impact: Impact | None) -> Expectation | WorkloadExpectation | None:
    """Return the values of a prediction for a later comparison; None without a prediction, or if it cannot be
    compared.

    Only reads what the response has already computed.
    """
    if impact is None:
        return None
    is_pod = subject.object.get("kind") == "Pod"
    if is_pod and subject.operation is not Operation.CREATE:
        return None
    try:
        whole = workload_expectation_of(subject, impact)
    except InvalidObject:
        whole = None
    first = _of_pod(subject, impact) if is_pod else None
    return whole if first is None else first._replace(whole=whole)


def _of_pod(subject: ReviewedObject, impact: Impact) -> Expectation | None:
    uid = at(subject.object, "metadata", "uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= _LONGEST or len(impact.predictions) != 1 or impact.new != 1:
        return None
    prediction = impact.predictions[0]
    volumes = sequence(subject.object, "spec", "volumes")
    if len(volumes) > VOLUMES or any(at(volume, "ephemeral") is not None for volume in volumes):
        return None
    from forewarn.policies.scheduling.filtering import (
        MIN_FEASIBLE_NODES,  # numpy, which a prediction has loaded already
    )

    # On larger clusters the scheduler looks at a random part of the nodes: which one it takes is not compared.
    small = len(prediction.snapshot.node_infos) <= MIN_FEASIBLE_NODES
    if prediction.outcome == FITS:
        feasible = prediction.feasible if small else ()
        return Expectation(uid, FITS, tuple(feasible) if len(feasible) <= NAMED else ())
    if prediction.outcome == PREEMPTS:
        return _preemption(uid, prediction, small)
    return Expectation(uid, PENDING) if prediction.outcome == PENDING else None


def _preemption(uid: str, prediction: Prediction, small: bool) -> Expectation:
    nodes = tuple(prediction.best_nodes) if small else ()
    going = [victim for victim in prediction.victims if not (victim.terminating or victim.preempted)]
    victims = tuple(Victim(v.identity, v.key, rank_of(v)) for v in going) if len(going) <= NAMED else None
    return Expectation(uid, PREEMPTS, nodes if len(nodes) <= NAMED else (), prediction.nominated_node, victims)


def rank_of(pod: Pod) -> Rank:
    """Return (priority, start time) of a Pod, which the comparison uses instead of its name. Not started: -1."""
    return pod.effective_priority, -1 if pod.start_time is None else pod.start_time


def act_of(pod: ApiObject) -> Act | None:
    """Return kube-scheduler's decision, read from the stored Pod; None before a decision. Raises InvalidObject.

    Source: pkg/scheduler/schedule_one.go, `handleSchedulingFailure`: one patch sets the condition and the nominated
    node. A nominated node without the condition is the node of a binding in progress
    (NominatedNodeNameForExpectation).
    """
    node, nominated = at(pod, "spec", "nodeName"), at(pod, "status", "nominatedNodeName")
    if node:
        return Act(FITS, str(node))
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") != "Unschedulable":
                return None
            return Act(PREEMPTS, str(nominated)) if nominated else Act(PENDING)
    return Act(FITS, str(nominated)) if nominated else None


def differs(expected: Expectation, act: Act, victims: Iterable[Victim]) -> bool:
    """Report whether kube-scheduler's decision differs from the prediction. `victims`: the victims on the node of the
    decision.
    """
    if act.outcome != expected.outcome or (expected.nodes and act.node not in expected.nodes):
        return True
    if expected.outcome != PREEMPTS or expected.victims is None or act.node != expected.node:
        return False
    return sorted(v.rank for v in victims) != sorted(v.rank for v in expected.victims)


def summary_of(outcome: str, where: str, victims: Iterable[Victim]) -> str:
    """An outcome as a phrase, for example `stays Pending`."""
    if outcome == FITS:
        return f"runs on {where}" if where else "runs"
    if outcome == PENDING:
        return "stays Pending"
    names = sorted(v.key for v in victims)
    named = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"preempts {named or 'no Pod'} on {where}"


def _or(nodes: tuple[str, ...]) -> str:
    more = f" or {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return " or ".join(nodes[:3]) + more
