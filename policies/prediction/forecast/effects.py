"""The counters of a prediction, and the outcomes of its new Pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.documents.answer import Effects
from forewarn.policies.kubernetes.kinds.registry import JOB
from forewarn.policies.kubernetes.objects.pod_loss import losses_of
from forewarn.policies.prediction.forecast.placement import Applied, Placement, outcomes

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast

PENDING: Final = ("pending", "in-vain")
"""Outcomes of new Pods that stay Pending."""
RUNNING: Final = ("fits", "preempts", "waits")
"""Outcomes of new Pods that run."""


class Predicted:
    """The predictions of new Pods, and what they have in common.

    `groups`: the PodGroups of the Pods, whose Pods count only there. `is_placeholder`: reports whether a Pod only
    reserves capacity.
    """

    def __init__(
        self,
        applied: Applied,
        groups: Sequence[GroupForecast],
        cluster: ClusterSnapshot,
        is_placeholder: Callable[[Pod], bool],
    ) -> None:
        self.applied, self.groups, self.cluster = applied, groups, cluster
        self._is_placeholder = is_placeholder
        self._in_groups = {id(pod) for group in groups for pod in group.pods}
        self._first: dict[str, tuple[Pod, str]] = {}
        for pod, by in self._preemptions():
            if not pod.terminating:
                self._first.setdefault(pod.identity, (pod, by))
        self.victims = [pod for pod, _ in self._first.values() if not is_placeholder(pod)]
        """The Pods that new Pods preempt."""

    @property
    def alone(self) -> list[Prediction]:
        """The predictions of Pods that belong to none of the PodGroups."""
        return [*filter(self.is_alone, self.applied.predictions)]

    @property
    def in_vain(self) -> list[Pod]:
        """The victims whose preemption helps no new Pod."""
        found = {pod.identity for each in (*self.alone, *self._by_old_templates) for pod in each.victims_in_vain}
        return [pod for pod in self.victims if pod.identity in found]

    @property
    def _by_old_templates(self) -> list[Prediction]:
        rollouts = (placement.rollout for placement in self.applied.placed)
        return [each for rollout in rollouts if rollout is not None for each in rollout.by_old_template]

    def is_alone(self, prediction: Prediction) -> bool:
        """Report whether the Pod of a prediction belongs to none of the PodGroups."""
        return id(prediction.pod) not in self._in_groups

    def preemptor_of(self, victim: Pod) -> str:
        """Return the Pod or PodGroup that preempts a victim first."""
        return self._first[victim.identity][1]

    def _preemptions(self) -> Iterator[tuple[Pod, str]]:
        """Yield each victim with its preemptor, also victims that already terminate."""
        before = (each for last in self.alone for each in self.applied.every_prediction_of(last.pod))
        for prediction in (*before, *self.alone, *self._by_old_templates):
            yield from ((victim, prediction.pod.key) for victim in prediction.victims)
        for group in self.groups:
            yield from ((victim, group.id) for victim in group.victims)

    def outcomes_of(self, placement: Placement) -> Counter[str]:
        """Return the number of an object's new Pods by outcome; as "preempted" if a later new Pod preempts them again.

        Without those in PodGroups.
        """
        alone = [each for each in placement.predictions if self.is_alone(each)]
        again = {id(each) for each in alone if self.applied.attempts_of(each).preempted_by}
        counts = Counter(outcomes([each for each in alone if id(each) not in again]))
        counts += Counter({"preempted": len(again)})
        return counts + Counter({name: pods for name, pods in placement.without_prediction.items() if name != "group"})

    def outcomes_of_group(self, group: GroupForecast) -> Counter[str]:
        """Return the number of a PodGroup's Pods by outcome; of one that fits, the Pods without a node stay Pending."""
        left = len(group.pods) - len(group.places) if group.outcome == "fits" else 0
        return Counter({group.outcome: len(group.pods) - left}) + Counter(pending=left)

    def pending_before(self, group: GroupForecast) -> int:
        """Return how many Pods of a PodGroup that stay Pending are Pending already."""
        stored = sum((pod.namespace, pod.name) in self.cluster.waiting_pods for pod in group.pods)
        return min(self.outcomes_of_group(group)["pending"], stored)

    @property
    def outcomes(self) -> Counter[str]:
        """The number of all new Pods by outcome."""
        of_objects = map(self.outcomes_of, self.applied.placed)
        return sum((*of_objects, *map(self.outcomes_of_group, self.groups)), Counter[str]())

    def effects(self, rejected_objects: int = 0) -> Effects:
        """Count the effects. `rejected_objects`: objects that are not predicted."""
        counts, impacts = self.outcomes, [each.rollout or each.following for each in self.applied.placed]
        evicted = {pod.identity: pod for impact in impacts if impact is not None for pod in impact.evicted}
        preempted = [pod for pod in evicted.values() if pod.identity not in self._first]
        placeholders = sum(self._is_placeholder(pod) for pod in preempted)
        violated = {pdb for each in (*self.alone, *self._by_old_templates) for pdb in each.violated_pdbs}
        violated.update(*(group.violated_pdbs(self.cluster.scheduling) for group in self.groups))
        beyond = any(impact is not None and impact.pdb_violations_in_cascade for impact in impacts)
        losses = losses_of(self.victims, self.cluster.workload)
        return Effects(
            victims=len(self.victims),
            preempted=len(self.victims) + len(preempted) - placeholders,
            pending=sum(counts[name] for name in PENDING) - sum(map(self.pending_before, self.groups)),
            rejected=counts["rejected"] + rejected_objects,
            jobs_failed=sum(loss.fails and loss.kind == JOB.rpartition("/")[2] for loss in losses),
            pdbs_violated=max(len(violated), int(beyond)),
            blocked=sum(each.is_blocked_rollout for each in self.applied.placed),
            placeholders=len(self._first) - len(self.victims) + placeholders,
        )
