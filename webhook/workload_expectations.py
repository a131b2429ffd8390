"""The webhook's prediction for the rollout of a workload as plain values, for a later comparison."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import POD
from forewarn.policies.objects.fields import group_kind, has_controller, int32

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.scheduling.schedule_one import Prediction

_LONGEST: Final = 253
_MAX_QUIET: Final = 300.0
KINDS_FOLLOWED: Final = {
    "apps/Deployment": "Deployment",
    "apps/StatefulSet": "StatefulSet",
    "apps/ReplicaSet": "ReplicaSet",
    "apps/DaemonSet": "DaemonSet",
    "batch/Job": "Job",
}
"""The workloads whose Pods are followed: `group/Kind` -> kind."""
MAX_WORKLOADS: Final = 64
MAX_PODS: Final = 500
"""Maximum number of new Pods of one workload that are followed."""
NAMED: Final = 32
"""Maximum number of victims that are recorded by name."""
QUIET: Final = 13.0
"""Seconds without an event after which a rollout counts as complete: more than kube-scheduler's longest back-off."""
SLOW: Final = 40.0
"""Seconds to wait while the result differs from the prediction, because controllers may lag."""
Key = tuple[str, str, str]
"""Namespace, kind and name of a top-level workload."""


class Lost(NamedTuple):
    """A victim of preemption: `namespace/name`, and priority value."""

    key: str
    priority: int


class WorkloadExpectation(NamedTuple):
    """The prediction for one workload, in plain values that can be pickled.

    `placed`: number of new Pods that get a node in the end; `pending`: number of the other new Pods. `victims`: Pods
    that new or previously Pending Pods preempt; None if there are too many. `lost`: the number of victims. `more`:
    number of Pods that the victims' replacements preempt; None if unknown. `timing`: the prediction depends on
    timing or chance; `ties`: several nodes or Pods tie; `assumes`: assumptions of the prediction. `quiet`: seconds
    without an event after which the rollout counts as complete. `rejected`: number of new Pods that quotas reject.
    """

    key: Key
    placed: int
    pending: int
    victims: tuple[Lost, ...] | None = ()
    lost: int = 0
    more: int | None = 0
    timing: bool = False
    ties: bool = False
    assumes: str = ""
    incomplete: bool = False
    quiet: float = QUIET
    rejected: int = 0

    @property
    def new(self) -> int:
        return self.placed + self.pending

    def __str__(self) -> str:
        preempted = preempted_pods(self.lost, () if self.victims is None else self.victims)
        more = f" and {self.more} more by replacements" if self.more else ""
        rejected = f", {self.rejected} rejected by quotas" if self.rejected else ""
        return f"{self.placed} placed, {self.pending} Pending{rejected}, {preempted}{more}"

    def agrees(self, placed: int, pending: int, victims: Sequence[Lost], let_in: int = 0) -> bool:
        """Report whether a rollout has the predicted numbers of Pods and, except for ties, the predicted victims.

        `victims`: victims that had a node before the request; `let_in`: number of victims that got a node after the
        request.
        """
        if (placed, pending) != (self.placed, self.pending) or len(victims) < self.lost:
            return False
        if self.more is not None and not len(victims) <= self.lost + self.more <= len(victims) + let_in:
            return False
        predicted = Counter(victim.priority for victim in self.victims or ())
        return predicted <= Counter(victim.priority for victim in victims)


def workload_expectation_of(subject: ReviewedObject, impact: Impact) -> WorkloadExpectation | None:
    """The comparable part of the prediction for a workload or Pod; None for other kinds.

    Pods and ReplicaSets of controllers belong to the top-level workload. Raises InvalidObject.
    """
    kind = (KINDS_FOLLOWED | {POD: "Pod"}).get(group_kind(subject.object))
    ref = subject.ref
    if (
        impact.group is not None
        or kind is None
        or not 0 < len(ref.name) <= _LONGEST
        or (kind in ("ReplicaSet", "Pod") and has_controller(subject.object))
    ):
        return None
    preempting = (*impact.preempting, *impact.by_waiting)
    victims = _victims(preempting, impact.let_in)
    more: int | None = 0
    if victims:
        more = impact.aftermath.preempted if impact.aftermath is not None and impact.aftermath.known else None
    lost = tuple(Lost(v.key, v.effective_priority) for v in victims.values()) if len(victims) <= NAMED else None
    return WorkloadExpectation(
        (subject.effective_namespace, kind, ref.name),
        impact.fitting + sum(p.outcome in ("fits", "preempts") for p in impact.predictions),
        impact.pending,
        lost,
        len(victims),
        more,
        impact.by_timing or bool(impact.by_chance),
        any(p.may_be_others or p.may_be_elsewhere or len(p.best_nodes) > 1 for p in preempting),
        "; ".join(impact.assumes)[:_LONGEST],
        impact.is_incomplete or bool(impact.why_not),
        QUIET + min(max(int32(subject.object, "spec", "minReadySeconds") or 0, 0), _MAX_QUIET),
        impact.rejected,
    )


def _victims(preempting: Iterable[Prediction], let_in: Container[str]) -> dict[str, Pod]:
    """Return the predicted victims by identity, without new Pods of the rollout and Pods that already terminate.

    `let_in`: identities of the new Pods.
    """
    every = (victim for prediction in preempting for victim in prediction.victims)
    return {v.identity: v for v in every if not (v.terminating or v.preempted) and v.identity not in let_in}


def workload_of(pod: Pod) -> Key:
    """The top-level workload of a Pod: the Deployment of a ReplicaSet's Pod, or the Pod itself.

    Source: pkg/controller/deployment, `getNewReplicaSet`: a ReplicaSet's name is the Deployment's name with the hash in
    the label of its Pods.
    """
    if pod.owner is None:
        return pod.namespace, "Pod", pod.name
    name, hash_ = pod.owner.name, pod.labels.get("pod-template-hash", "")
    kind = KINDS_FOLLOWED.get(pod.owner_kind, pod.owner_kind)
    if kind == "ReplicaSet" and hash_ and name.endswith(f"-{hash_}"):
        return pod.namespace, "Deployment", name.removesuffix(f"-{hash_}")
    return pod.namespace, kind, name


def preempted_pods(count: int, victims: Iterable[Lost]) -> str:
    """A phrase with the number of preempted Pods and up to three names."""
    if not count:
        return "no Pod preempted"
    named = sorted(victim.key for victim in victims)[:3]
    more = f"{count - len(named)} more" if count > len(named) else ""
    return f"preempts {', '.join(named)}{' and ' if named and more else ''}{more}"
