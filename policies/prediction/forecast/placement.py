"""Predict the new Pods of one object, or of several that are applied one after the other; each prediction includes the
Pods before it.

kube-scheduler tries each Pod when it is created. A later Pod may preempt a bound one. Pods that are Pending in the end,
or that later Pods deprive of the capacity of their victims, are tried again. Victims do not terminate before, so only a
simulation includes their replacements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
    creates_pods_later,
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
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


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
        namespace = pod.namespace
        if quotas := cached_in(self._now, namespace, lambda: self._stored(namespace)):
            counted = counted_by_requests(pod)
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
    return _Turns(cluster, replicas).place(obj)


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


def place_pods(snapshot: Snapshot, pods: Iterable[Pod], *, one_by_one: bool = False) -> tuple[Prediction, ...]:
    """Predict Pods in turn, each with those before it: bound, or nominated while their victims terminate.

    `one_by_one`: no Pod follows one that stays Pending.
    """
    predictions: list[Prediction] = []
    for pod in pods:
        predictions.append(Prediction(predictions[-1].snapshot_after() if predictions else snapshot, pod))
        if one_by_one and predictions[-1].outcome == "pending":
            break
    return tuple(predictions)


def outcomes(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Count the Pods by `Prediction.outcome`; as "waits" if all victims of a Pod are already terminating, and as
    "in-vain" if a Pod preempts and stays Pending, which are two predictions.
    """
    in_vain = preempting_in_vain(predictions)
    last = {prediction.pod.identity: prediction for prediction in predictions}
    found = ("waits" if waits_for_victims(each) else each.outcome for pod, each in last.items() if pod not in in_vain)
    return dict(Counter(found) + Counter({"in-vain": len(in_vain)}))


def waits_for_victims(prediction: Prediction) -> bool:
    """Report whether a Pod needs capacity of terminating Pods, and preempts no others."""
    is_late = prediction.outcome == "preempts" and all(victim.terminating for victim in prediction.victims)
    return is_late or prediction.after_victims


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of applying objects in order.

    `placements`: for each object its Placement, or the InvalidObject that explains why there is none.
    """

    placements: tuple[Placement | InvalidObject, ...]

    @property
    def placed(self) -> list[Placement]:
        return [placed for placed in self.placements if isinstance(placed, Placement)]

    @property
    def predictions(self) -> list[Prediction]:
        return [prediction for placement in self.placed for prediction in placement.predictions]


def place_in_order(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None = None) -> Applied:
    """Predict the Pods of these objects in order; at most MAX_SEQUENTIAL Pods in all.

    The Pods of a CronJob come after those of all other objects, and each CronJob's without those of the others.
    `replicas`: the number of Pods for each object; None: as the objects say (see `place`).
    """
    turns = _Turns(cluster, replicas)
    placed: dict[int, Placement | InvalidObject] = {}
    for index, obj in sorted(enumerate(objects), key=lambda item: creates_pods_later(item[1])):
        try:
            placed[index] = turns.place(obj)
        except InvalidObject as fault:
            placed[index] = fault
    last = turns.last_predictions() if len(objects) > 1 else {}
    return Applied(tuple(_with_last(placed[index], last) for index in range(len(objects))))


def _with_last(
    placement: Placement | InvalidObject, last: Mapping[int, Sequence[Prediction]]
) -> Placement | InvalidObject:
    """Return a placement with the predictions of `last_predictions`."""
    if isinstance(placement, InvalidObject):
        return placement
    predictions = chain.from_iterable(last.get(id(each), (each,)) for each in placement.predictions)
    return replace(placement, predictions=tuple(predictions))


class _Turns:
    """The Pods of several objects, each predicted with those before it. `replicas`: see `place`."""

    def __init__(self, cluster: ClusterSnapshot, replicas: int | None) -> None:
        self._cluster, self._replicas = cluster, replicas
        self._quotas, self._left = ChargedQuotas(cluster), MAX_SEQUENTIAL
        self._named: dict[tuple[str, str], list[Pod]] = {}
        self._predictions: list[Prediction] = []

    def _snapshot(self) -> Snapshot:
        """Return the Snapshot after all Pods so far. Victims do not terminate."""
        return self._predictions[-1].snapshot_after() if self._predictions else self._cluster.scheduling

    def place(self, obj: ApiObject) -> Placement:
        """Predict the new Pods of the next object. Raises InvalidObject."""
        new, name = new_pods_of(self._cluster, obj, self._replicas)
        pods = arriving(self._cluster, obj, new.pods)
        count, rejection = self._quotas.admit(obj, pods, charge=False)
        arriving_pods = self._with_own_names(pods[: min(count, self._left)])
        predictions = place_pods(self._snapshot(), arriving_pods, one_by_one=is_ordered(obj))
        if is_ordered(obj) and predictions and predictions[-1].outcome == "pending":
            pods, count, rejection = pods[: len(predictions)], len(predictions), ""
        self._left -= len(predictions)
        if predictions and not creates_pods_later(obj):
            self._quotas.admit(obj, pods[:count])
            self._predictions += predictions
        placement = placement_of(name, new, arriving_in_turn(obj, len(pods), count), count, len(predictions))
        return replace(placement, predictions=predictions, rejection=rejection)

    def _with_own_names(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Yield these Pods, without Pods of earlier objects. Those with generated or repeated names get a number."""
        for pod in pods:
            named = self._named.setdefault((pod.namespace, pod.name), [])
            if not named or pod.uid != named[0].uid or pod.name.endswith("*"):
                named.append(pod)
                yield replace(pod, name=f"{pod.name}+{len(named)}") if len(named) > 1 else pod

    def last_predictions(self) -> dict[int, Sequence[Prediction]]:
        """Return id of a prediction -> predictions in its place, by what later Pods change; without CronJobs.

        A Pending Pod may fit beside later Pods, or after all victims have terminated, without the replacement Pods of
        these. A Pod that preempts, and then loses the capacity to later Pods, is tried again.
        """
        victims = [victim for each in self._predictions for victim in each.victims]
        evicted, last = {victim.identity for victim in victims}, dict[int, Sequence[Prediction]]()
        snapshot = self._snapshot()
        ended = without(snapshot, victims)
        nominated = {pod.identity: pod for pods in snapshot.objects.nominated.values() for pod in pods}
        tried = [each for each in self._predictions if each.outcome in ("pending", "preempts")]
        for each in sorted(tried, key=lambda each: -each.pod.effective_priority):
            pod = nominated.get(each.pod.identity, each.pod)
            again = Prediction(ended, pod)
            if each.outcome == "preempts":
                if pod.identity not in evicted and pod.nominated_node_name not in again.feasible:
                    last[id(each)] = each, again
            elif again.fits:
                beside = Prediction(snapshot, pod)
                again = beside if beside.fits else again
                again.after_victims = not beside.fits
                last[id(each)] = (again,)
                snapshot, ended = (one.with_pods([one.bound(pod, again.node)], ()) for one in (snapshot, ended))
        return last


def without(snapshot: Snapshot, deleted: Sequence[Pod]) -> Snapshot:
    """Return the Snapshot without these Pods, found by identity and node."""
    gone = {(pod.node_name, pod.identity) for pod in deleted}
    infos = [info for name in {name for name, _ in gone} if (info := snapshot.get(name)) is not None]
    return snapshot.with_pods((), [pod for info in infos for pod in info.pods if (pod.node_name, pod.identity) in gone])
