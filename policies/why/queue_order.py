"""Predict a Pending Pod after the Pending Pods before it in the scheduling queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.findings import listed, plural
from forewarn.policies.forecast.placement import place_pods
from forewarn.policies.forecast.waiting import MAX_PENDING, before_in_queue, queue_key
from forewarn.policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod


class InQueue(NamedTuple):
    """The prediction for a Pod, and those for the Pods before it in the queue.

    `is_alone`: the Pod is not among the first MAX_PENDING, so no Pod before it is included.
    """

    prediction: Prediction
    before: tuple[Prediction, ...] = ()
    is_alone: bool = False

    @property
    def note(self) -> str:
        """The Pods before the Pod that affect its prediction; "" without such Pods."""
        if self.is_alone:
            return f"predicted alone: not one of the first {MAX_PENDING} Pending Pods of the queue"
        scheduled = [each.pod.key for each in self.before if each.outcome in ("fits", "preempts")]
        if not scheduled:
            return ""
        are = plural(len(scheduled), "Pending Pod is", "Pending Pods are")
        return f"{are} scheduled first: {listed(scheduled, 3)}"

    def as_if(self, pod: Pod) -> Prediction:
        """The prediction for the same Pod with a higher priority, which is earlier in the queue."""
        snapshots = (each.snapshot for each in self.before if queue_key(pod) < queue_key(each.pod))
        return Prediction(next(snapshots, self.prediction.snapshot), pod)


def predicted_in_queue(cluster: ClusterSnapshot, pod: Pod) -> InQueue:
    """The prediction for a Pending Pod, in the order of `pending_in_order`; a nominated Pod is before all others."""
    ahead = before_in_queue(cluster, pod)
    if ahead is None or pod.nominated_node_name:
        return InQueue(Prediction(cluster.scheduling, pod), is_alone=ahead is None)
    *before, prediction = place_pods(cluster, [*ahead.pods, pod])
    return InQueue(prediction, tuple(before))
