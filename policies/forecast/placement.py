"""Predict the new Pods of one object one after the other; each prediction includes the Pods before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forewarn.policies.cluster.admission import admitted
from forewarn.policies.controllers.new_pods import (
    MAX_SEQUENTIAL,
    NewPods,
    new_pods,
    without_missing_claims,
)
from forewarn.policies.controllers.pod_sequences import Same
from forewarn.policies.forecast.quotas import ChargedQuotas
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.objects.fields import InvalidObject, ref_of
from forewarn.policies.objects.workload import pod_template_of
from forewarn.policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class Placement:
    """The predictions for an object's new Pods, in order.

    `wanted`: desired number of Pods. `existing`: number of existing Pods. `without_claims`: whether missing
    PersistentVolumeClaims were ignored.
    """

    name: str
    predictions: tuple[Prediction, ...]
    wanted: int = 1
    existing: int = 0
    without_claims: bool = False
    omitted: int = 0
    """New Pods beyond the limit."""
    rejected: int = 0
    """New Pods that ResourceQuotas reject, besides those of `rollout`."""
    rejection: str = ""
    """The message with which a ResourceQuota rejects the first of them."""
    ahead: int | None = 0
    """Number of Pending Pods before this Pending Pod in the queue, which the prediction ignores; None for more than
    MAX_PENDING.
    """
    rollout: Impact | None = None
    """The impact of the rollout if the object changes a stored workload's Pod template; `predictions` then omits new
    Pods that fit.
    """

    @property
    def without_prediction(self) -> dict[str, int]:
        """The number of new Pods that `predictions` omits, by outcome: "refused" by a quota; of a rollout also "fits",
        or `Impact.rest`.
        """
        if self.rollout is None:
            return {"refused": self.rejected} if self.rejected else {}
        rest = self.rollout.new - self.rollout.predicted - self.rollout.rejected
        found = (("fits", self.rollout.fitting), ("refused", self.rollout.rejected), (self.rollout.rest, rest))
        return {outcome: count for outcome, count in found if outcome and count > 0}

    @property
    def frees_quota(self) -> bool:
        """Whether quotas reject Pods, and victims of the same namespace free quota."""
        return self.rejected > 0 and any(v.namespace == p.pod.namespace for p in self.predictions for v in p.victims)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of new Pods by outcome: those in `predictions` (see the function `outcomes`) and in
        `without_prediction`.
        """
        return dict(Counter(outcomes(self.predictions)) + Counter(self.without_prediction))

    @property
    def basis(self) -> str:
        """What the counts include: "rollout", "missing-replicas", or "" for all Pods of the object."""
        return "rollout" if self.rollout is not None else "missing-replicas" if self.existing else ""


def place(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> Placement:
    """Predict the new Pods of a Pod or workload. `replicas`: replaces the number of Pods in the object, unless None.

    Raises InvalidObject for an unreadable template or an unknown PriorityClass.
    """
    new, name = new_pods_of(cluster, obj, replicas)
    admitted_pods, rejection = ChargedQuotas(cluster).admit(obj, new.pods)
    existing, evaluated = max(new.wanted - len(new.pods), 0), min(admitted_pods, MAX_SEQUENTIAL)
    predictions = place_pods(cluster, new.pods[:evaluated])
    rejected = len(new.pods) - admitted_pods
    return Placement(
        name,
        predictions,
        new.wanted,
        existing,
        new.without_claims,
        omitted=admitted_pods - evaluated,
        rejected=rejected,
        rejection=rejection,
    )


def new_pods_of(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> tuple[NewPods, str]:
    """Return the new Pods of a Pod or workload before any prediction, and the display name of the object.

    Arguments and errors: see `place`.
    """
    ref = ref_of(obj, "default")
    template = pod_template_of(obj, POD_TEMPLATE_PATHS)
    if template is None:
        raise InvalidObject("no Pod template found", ref=ref)
    if template.is_template:
        return new_pods(cluster, obj, template.object, replicas), str(ref)
    return _single(cluster, admitted(obj, cluster), 1 if replicas is None else replicas), str(ref)


def _single(cluster: ClusterSnapshot, pod: Pod, count: int) -> NewPods:
    """Return the new Pods of a bare Pod.

    A Pod that already uses a node counts as existing. `count`: desired number of copies.
    """
    present = cluster.pods.get((pod.namespace, pod.name))
    if present is not None and not present.terminal:
        if cluster.node_of(present):
            return NewPods(max(count, 1), Same(pod, max(count - 1, 0)))
        pod = replace(pod, uid=present.uid, nominated_node_name=present.nominated_node_name)
    whole = without_missing_claims(pod, cluster)
    return NewPods(count, Same(whole, max(count, 0)), whole is not pod)


def place_pods(cluster: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[Prediction, ...]:
    """Predict Pods one after the other.

    Each prediction includes the Pods before: bound, or nominated while their victims terminate.
    """
    predictions: list[Prediction] = []
    for pod in pods:
        snapshot = predictions[-1].snapshot_after() if predictions else cluster.scheduling
        predictions.append(Prediction(snapshot, pod))
    return tuple(predictions)


def outcomes(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Count the Pods by `Prediction.outcome`; as "waits" if all victims of a Pod are already terminating, and as
    "in-vain" if a Pod preempts and stays Pending, which are two predictions.
    """
    counts = Counter("waits" if waits_for_victims(prediction) else prediction.outcome for prediction in predictions)
    preempting, pending = ({p.pod.uid for p in predictions if p.outcome == each} for each in ("preempts", "pending"))
    in_vain = len(preempting & pending - {""})
    counts -= Counter({"preempts": in_vain, "pending": in_vain})
    return dict(counts + Counter({"in-vain": in_vain}))


def waits_for_victims(prediction: Prediction) -> bool:
    """Report whether a Pod preempts, but all its victims are already terminating."""
    return prediction.outcome == "preempts" and all(victim.terminating for victim in prediction.victims)
