"""Predict the new Pods of one object one after the other; each prediction includes the Pods before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forewarn.policies.base.copies import cached_in
from forewarn.policies.kubernetes.cluster.admission import admitted, counted_by_quotas, counted_by_requests
from forewarn.policies.kubernetes.controllers.changes import arriving, is_ordered, template_while_paused
from forewarn.policies.kubernetes.controllers.deployment import is_paused
from forewarn.policies.kubernetes.controllers.new_pods import (
    MAX_SEQUENTIAL,
    NewPods,
    Same,
    check_template,
    new_pods,
    without_missing_claims,
)
from forewarn.policies.kubernetes.controllers.own_pods import pods_of
from forewarn.policies.kubernetes.controllers.templates import made_of
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.kube_apiserver.quota import PODS, Pods, counts, first_rejected, given_back
from forewarn.policies.kubernetes.objects.extent import check_quota_extent, check_quotas
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, ref_of
from forewarn.policies.kubernetes.objects.resource_list import add, mask
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.impact import Impact, preempting_in_vain

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota


class ChargedQuotas:
    """The quotas of each namespace, with the use of all Pods so far."""

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self._cluster = cluster
        self._now: dict[str, Sequence[ResourceQuota]] = {}

    def admit(self, obj: ApiObject, pods: Sequence[Pod], *, charge: bool = True) -> tuple[int, str]:
        """Return the number of an object's new Pods that all quotas admit, and upstream's message for the next Pod, or
        "". Raises InvalidObject.

        `charge`: charge the quotas for these Pods.
        """
        if not pods or (pods[0].namespace, pods[0].name) in self._cluster.pods:  # it is counted already
            return len(pods), ""
        namespace = pods[0].namespace
        quotas = cached_in(self._now, namespace, lambda: self._stored(namespace))
        if not quotas:
            return len(pods), ""
        template = pod_template_of(obj, POD_TEMPLATE_PATHS)
        is_template = template is not None and template.is_template
        made = made_of(namespace, obj, template.object) if template is not None and is_template else obj
        counted = counted_by_quotas(made, pods[0].priority_class_name, self._cluster)
        later = () if is_template else self._cluster.later_quotas.get((namespace, ref_of(obj).name), ())
        in_force = [quota for quota in quotas if quota.name not in later]
        first, check = first_rejected(counted, in_force, replicas=len(pods))
        if first == 1:
            return 0, check.faults[0].message
        if charge:
            others = [_charged(quota, counted) for quota in quotas if quota.name in later]
            self._now[namespace] = sorted((*check.quotas, *others), key=lambda quota: quota.name)
        return (first - 1, check.faults[0].message) if first else (len(pods), "")

    def release(self, pod: Pod) -> None:
        """Give back what a running Pod uses."""
        namespace, counted = pod.namespace, counted_by_requests(pod)
        quotas = cached_in(self._now, namespace, lambda: self._stored(namespace))
        self._now[namespace] = given_back(quotas, counted, PODS.usage(counted))

    def _stored(self, namespace: str) -> list[ResourceQuota]:
        stored = self._cluster.quotas_of(namespace)
        check_quotas(len(stored))
        for quota in stored:
            check_quota_extent(quota.spec, quota.name)
        return stored


def _charged(quota: ResourceQuota, pod: ApiObject) -> ResourceQuota:
    """Return the quota with the use of a Pod that the quota does not limit."""
    used = add(quota.used, mask(Pods().usage(pod), quota.hard)) if counts(quota, pod) else quota.used
    return replace(quota, used=used)


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
    """The message with which a ResourceQuota rejects a Pod, also of `rollout`; "" without rejected Pods."""
    later: int = 0
    """New Pods, besides those of `rollout`, that an ordered StatefulSet creates after Pending or rejected ones run."""
    none: str = ""
    """Why `wanted` is 0."""
    rollout: Impact | None = None
    """The impact of the rollout if the object changes a stored workload's Pod template; `predictions` then omits new
    Pods that fit.
    """

    following: Impact | None = None
    """What follows the preemptions, if the outcomes are those of `predictions`."""

    @property
    def without_prediction(self) -> dict[str, int]:
        """The number of new Pods that `predictions` omits, by outcome: "rejected" by a quota, "later"; of a rollout
        "fits", or `Impact.rest`.
        """
        if self.rollout is None:
            return dict(Counter(rejected=self.rejected, later=self.later) + Counter())
        return dict(self.rollout.other_outcomes + Counter())

    @property
    def frees_quota(self) -> bool:
        return self.rejected > 0 and any(v.namespace == p.pod.namespace for p in self.predictions for v in p.victims)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of new Pods by outcome: those in `predictions` (see the function `outcomes`) and in
        `without_prediction`.
        """
        return dict(Counter(outcomes(self.predictions)) + Counter(self.without_prediction))

    @property
    def is_blocked(self) -> bool:
        """Whether Pods that stay Pending, or that a quota rejects, block a rollout or the Pods `later`."""
        impact = self.rollout
        if impact is None:
            return bool(self.later)
        return self.is_blocked_rollout or bool(impact.after_rejected or (impact.rest == "later" and impact.pending))

    @property
    def is_blocked_rollout(self) -> bool:
        return self.rollout is not None and self.rollout.is_blocked_rollout

    @property
    def basis(self) -> str:
        """What the counts include: "rollout", "missing-replicas", or "" for all Pods of the object."""
        return "rollout" if self.rollout is not None else "missing-replicas" if self.existing else ""


def place(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> Placement:
    """Predict the new Pods of a Pod or workload. `replicas`: replaces the number of Pods in the object, unless None.

    Raises InvalidObject for an unreadable template or an unknown PriorityClass.
    """
    new, name = new_pods_of(cluster, obj, replicas)
    pods = arriving(cluster, obj, new.pods)
    admitted_pods, rejection = ChargedQuotas(cluster).admit(obj, pods)
    predictions = place_pods(cluster, pods[: min(admitted_pods, MAX_SEQUENTIAL)], one_by_one=is_ordered(obj))
    if is_ordered(obj) and predictions and predictions[-1].outcome == "pending":
        pods, admitted_pods, rejection = pods[: len(predictions)], len(predictions), ""
    arrive = arriving_in_turn(obj, len(pods), admitted_pods)
    placement = placement_of(name, new, arrive, admitted_pods, len(predictions))
    return replace(placement, predictions=predictions, rejection=rejection)


def arriving_in_turn(obj: ApiObject, arrive: int, admitted_pods: int) -> int:
    """Return how many of these Pods the controller creates: an ordered StatefulSet none after a rejected one."""
    return min(arrive, admitted_pods + 1) if is_ordered(obj) else arrive


def placement_of(name: str, new: NewPods, arrive: int, admitted_pods: int, evaluated: int) -> Placement:
    """Return a Placement without predictions. `arrive`: how many of the new Pods the controller creates."""
    existing, later = max(new.wanted - len(new.pods), 0), len(new.pods) - arrive
    omitted, rejected = admitted_pods - evaluated, arrive - admitted_pods
    return Placement(name, (), new.wanted, existing, new.without_claims, omitted, rejected, later=later, none=new.none)


def new_pods_of(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> tuple[NewPods, str]:
    """Return (the new Pods before any prediction, the object's display name). Arguments and errors: see `place`."""
    ref = ref_of(obj, "default")
    template = pod_template_of(obj, POD_TEMPLATE_PATHS)
    if template is None:
        raise InvalidObject("no Pod template found", ref=ref)
    if template.is_template and replicas is None and group_kind(obj) == "apps/Deployment" and is_paused(obj):
        own, stored = tuple(pods_of(cluster, obj)), cluster.workload(group_kind(obj), ref.namespace, ref.name)
        template = template_while_paused(cluster, obj, stored and stored.object, own, POD_TEMPLATE_PATHS)
        if template is None:
            return NewPods(len(own), (), none="paused"), str(ref)
    check_template(obj, cluster)
    if template.is_template:
        return new_pods(cluster, obj, template.object, replicas), str(ref)
    return _single(cluster, admitted(obj, cluster), 1 if replicas is None else replicas), str(ref)


def _single(cluster: ClusterSnapshot, pod: Pod, count: int) -> NewPods:
    """Return the new Pods of a bare Pod, which exists already if it uses a node. `count`: desired copies."""
    present = cluster.pods.get((pod.namespace, pod.name))
    if present is not None and not present.terminal:
        if cluster.node_of(present):
            return NewPods(max(count, 1), Same(pod, max(count - 1, 0)))
        pod = replace(pod, uid=present.uid, nominated_node_name=present.nominated_node_name)
    whole = without_missing_claims(pod, cluster)
    return NewPods(count, Same(whole, max(count, 0)), whole is not pod)


def place_pods(cluster: ClusterSnapshot, pods: Iterable[Pod], *, one_by_one: bool = False) -> tuple[Prediction, ...]:
    """Predict Pods in turn, each with those before it: bound, or nominated while their victims terminate.

    `one_by_one`: no Pod follows one that stays Pending.
    """
    predictions: list[Prediction] = []
    for pod in pods:
        snapshot = predictions[-1].snapshot_after() if predictions else cluster.scheduling
        predictions.append(Prediction(snapshot, pod))
        if one_by_one and predictions[-1].outcome == "pending":
            break
    return tuple(predictions)


def outcomes(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Count the Pods by `Prediction.outcome`; as "waits" if all victims of a Pod are already terminating, and as
    "in-vain" if a Pod preempts and stays Pending, which are two predictions.
    """
    counts = Counter("waits" if waits_for_victims(prediction) else prediction.outcome for prediction in predictions)
    in_vain = len(preempting_in_vain(predictions))
    counts -= Counter({"preempts": in_vain, "pending": in_vain})
    return dict(counts + Counter({"in-vain": in_vain}))


def waits_for_victims(prediction: Prediction) -> bool:
    """Report whether a Pod needs capacity of terminating Pods, and preempts no others."""
    is_late = prediction.outcome == "preempts" and all(victim.terminating for victim in prediction.victims)
    return is_late or prediction.after_victims
