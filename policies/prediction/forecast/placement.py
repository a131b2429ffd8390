"""Predict the new Pods of one object, or of several that are applied one after the other; each prediction includes the
Pods before it.

Pods of several objects are predicted in the order of the scheduling queue. kube-scheduler tries each Pod when it is
created. A later Pod may preempt a bound one. An unschedulable Pod is retried after an event for which a plugin's
queueing hint returns true: for example, a Pod that its affinity matches was bound, or a Pod of higher priority took its
nomination. After all objects, victims terminate, and Pods without a node are tried again. Only a simulation includes
the replacements of Pods that the cluster had before. `Predicted` counts the effects of all predictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.documents.answer import Effects
from forewarn.policies.kubernetes.cluster.admission import admitted, counted_by_quotas, counted_by_requests
from forewarn.policies.kubernetes.controllers.changes import arriving, is_ordered, template_while_paused
from forewarn.policies.kubernetes.controllers.deployment import is_paused
from forewarn.policies.kubernetes.controllers.own_pods import (
    MAX_SEQUENTIAL,
    NewPods,
    Same,
    check_template,
    creates_pods_later,
    new_pods,
    pods_of,
    without_missing_claims,
)
from forewarn.policies.kubernetes.controllers.templates import made_of
from forewarn.policies.kubernetes.kinds.registry import JOB, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.kube_apiserver.quota import PODS, Pods, counts, first_rejected, given_back
from forewarn.policies.kubernetes.objects.extent import check_quotas
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, ref_of
from forewarn.policies.kubernetes.objects.pod_loss import losses_of
from forewarn.policies.kubernetes.objects.resources import add, mask
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import Nominator, PriorityQueue, le_priority_pre_check
from forewarn.policies.kubernetes.scheduling.queue.registrations import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    QueueingHints,
)
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.impact import Impact, preempting_in_vain

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.queue.priority_queue import Key, QueuedPodInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast

    QuotasOf = Callable[[str], Sequence[ResourceQuota]]


class ChargedQuotas:
    """The quotas of each namespace, with the use of all Pods so far."""

    def __init__(self, cluster: ClusterSnapshot, quotas_of: QuotasOf | None = None) -> None:
        """Start empty. `quotas_of`: returns a namespace's quotas before these Pods; None: those of the cluster."""
        self.cluster, self._quotas_of = cluster, quotas_of or cluster.quotas_of
        self._now: dict[str, Sequence[ResourceQuota]] = {}

    def admit(self, obj: ApiObject, pods: Sequence[Pod], *, charge: bool = True) -> tuple[int, str]:
        """Return the number of an object's new Pods that all quotas admit, and upstream's message for the next Pod, or
        "". Raises InvalidObject.

        `charge`: charge the quotas for these Pods.
        """
        if not pods or (pods[0].namespace, pods[0].name) in self.cluster.pods:  # the Pod is counted already
            return len(pods), ""
        namespace = pods[0].namespace
        quotas = cached_in(self._now, namespace, lambda: self._stored(namespace))
        if not quotas:
            return len(pods), ""
        template = pod_template_of(obj, POD_TEMPLATE_PATHS)
        is_template = template is not None and template.is_template
        made = made_of(namespace, obj, template.object) if template is not None and is_template else obj
        counted = counted_by_quotas(made, pods[0].priority_class_name, self.cluster)
        later = () if is_template else self.cluster.later_quotas.get((namespace, ref_of(obj).name), ())
        in_force = [quota for quota in quotas if quota.name not in later]
        first, check = first_rejected(counted, in_force, replicas=len(pods))
        if first == 1:
            return 0, check.faults[0].message
        if charge:
            others = [_charged(quota, counted) for quota in quotas if quota.name in later]
            self._now[namespace] = sorted((*check.quotas, *others), key=lambda quota: quota.name)
        return (first - 1, check.faults[0].message) if first else (len(pods), "")

    def release(self, pod: Pod) -> None:
        """Give back the quota that a running Pod uses."""
        namespace = pod.namespace
        if quotas := cached_in(self._now, namespace, lambda: self._stored(namespace)):
            counted = counted_by_requests(pod)
            self._now[namespace] = given_back(quotas, counted, PODS.usage(counted))

    def _stored(self, namespace: str) -> Sequence[ResourceQuota]:
        stored = self._quotas_of(namespace)
        check_quotas(stored)
        return stored


def _charged(quota: ResourceQuota, pod: ApiObject) -> ResourceQuota:
    """Return the quota with the usage of a Pod added, without a check of the limits."""
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
    """Number of new Pods beyond the limit."""
    rejected: int = 0
    """Number of new Pods that ResourceQuotas reject, besides those of `rollout`."""
    rejection: str = ""
    """The message with which a ResourceQuota rejects a Pod, including one of `rollout`; "" without rejected Pods."""
    later: int = 0
    """New Pods, besides those of `rollout`, that an ordered StatefulSet creates when Pending or rejected ones run."""
    none: str = ""
    """Why `wanted` is 0."""
    rollout: Impact | None = None
    """The impact of the rollout if the object changes a stored workload's Pod template; `predictions` then omits new
    Pods that fit.
    """

    following: Impact | None = None
    """The impact with what follows the preemptions, if `predictions` has the same outcomes."""

    @property
    def without_prediction(self) -> dict[str, int]:
        """The number of new Pods that `predictions` omits, by outcome: "rejected" by a quota or "later"; for a rollout
        also "fits" and `Impact.rest`.
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
    """Return how many of these Pods the controller creates: an ordered StatefulSet creates none after a rejection."""
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
    """Return the new Pods for a bare Pod; a Pod that uses a node exists already. `count`: desired copies."""
    present = cluster.pods.get((pod.namespace, pod.name))
    if present is not None and not present.terminal:
        if cluster.node_of(present):
            return NewPods(max(count, 1), Same(pod, max(count - 1, 0)))
        pod = replace(pod, uid=present.uid, nominated_node_name=present.nominated_node_name)
    whole = without_missing_claims(pod, cluster)
    return NewPods(count, Same(whole, max(count, 0)), whole is not pod)


def place_pods(cluster: ClusterSnapshot, pods: Iterable[Pod], *, one_by_one: bool = False) -> tuple[Prediction, ...]:
    """Predict Pods one after the other. Earlier Pods are bound, or nominated while their victims terminate.

    `one_by_one`: stop at the first Pod that stays Pending.
    """
    predictions: list[Prediction] = []
    for pod in pods:
        snapshot = predictions[-1].snapshot_after() if predictions else cluster.scheduling
        predictions.append(Prediction(snapshot, pod))
        if one_by_one and predictions[-1].outcome == "pending":
            break
    return tuple(predictions)


def outcomes(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Count the Pods by `Prediction.outcome`, with two more outcomes: "waits" if all victims of a Pod are already
    terminating, and "in-vain" if a Pod preempts and stays Pending, which has two predictions.
    """
    counts = Counter("waits" if waits_for_victims(prediction) else prediction.outcome for prediction in predictions)
    in_vain = len(preempting_in_vain(predictions))
    counts -= Counter({"preempts": in_vain, "pending": in_vain})
    return dict(counts + Counter({"in-vain": in_vain}))


def waits_for_victims(prediction: Prediction) -> bool:
    """Report whether a Pod waits for the capacity of terminating Pods, and preempts no others."""
    is_late = prediction.outcome == "preempts" and all(victim.terminating for victim in prediction.victims)
    return is_late or prediction.after_victims


_MAX_TRIES: Final = 5
"""Maximum number of attempts for one Pod: many Pods with affinity to each other would be tried for each new Pod."""


@dataclass(slots=True)
class Arrival:
    """A new Pod and its predictions so far.

    `preempted_by`: key of the later Pod that preempts this Pod, if no controller replaces it, or "". `overtaken`:
    whether the Pod is nominated to a node where later Pods of higher priority use the capacity of its victims.
    """

    pod: Pod
    predictions: list[Prediction] = field(default_factory=list)
    preempted_by: str = ""
    overtaken: bool = False

    @property
    def waits(self) -> bool:
        """Whether the Pod, or its replacement, has no node and may get one."""
        return bool(self.preempted_by and self.pod.owner) or self.predictions[-1].outcome in ("preempts", "pending")

    @property
    def prediction(self) -> Prediction:
        """The final prediction; for a Pod that is nominated to its node, the one that selected its victims."""
        last = self.predictions[-1]
        node = last.pod.nominated_node_name
        if not node or last.clears_nomination or (last.fits and last.node != node):
            return last
        return next((p for p in reversed(self.predictions) if p.outcome == "preempts" and p.node == node), last)


class Attempts(NamedTuple):
    """The attempts to schedule a Pod among several. `attempts`: number of scheduling attempts if there are several.
    `preemptedBy`: with several objects, the later Pod that preempts this Pod, if no controller replaces it.
    `overtaken`: true if later Pods take its free capacity.
    """

    attempts: int | None = None
    preempted_by: str = ""
    overtaken: bool | None = None


class _New(NamedTuple):
    """The new Pods of an object, and its Placement without predictions. `is_later`: see `creates_pods_later`."""

    placement: Placement
    pods: Sequence[Pod]
    is_later: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of applying objects in order.

    `placements`: one entry per object, its Placement or the InvalidObject that explains why there is none. `arrivals`:
    the new Pods by (namespace, name).
    """

    placements: tuple[Placement | InvalidObject, ...]
    arrivals: Mapping[Key, Arrival] = field(default_factory=dict)

    @property
    def placed(self) -> list[Placement]:
        return [placed for placed in self.placements if isinstance(placed, Placement)]

    @property
    def predictions(self) -> list[Prediction]:
        return [prediction for placement in self.placed for prediction in placement.predictions]

    def every_prediction_of(self, pod: Pod) -> Sequence[Prediction]:
        """Return the predictions of a new Pod in the order of the attempts; empty with a single object."""
        arrival = self.arrivals.get((pod.namespace, pod.name))
        return arrival.predictions if arrival else ()

    def attempts_of(self, prediction: Prediction) -> Attempts:
        arrival = self.arrivals.get((prediction.pod.namespace, prediction.pod.name))
        if arrival is None:
            return Attempts()
        tries = sum(not each.after_victims for each in arrival.predictions)
        return Attempts(tries if tries > 1 else None, arrival.preempted_by, arrival.overtaken or None)


def place_in_order(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None = None) -> Applied:
    """Predict the Pods of these objects in order; at most MAX_SEQUENTIAL Pods in all.

    The Pods of a CronJob come after those of all other objects, and their prediction ignores other CronJobs.
    `replicas`: the number of Pods for each object; None: as specified in the objects (see `place`).
    """
    scheduler = _Scheduler(cluster.scheduling)
    placed: dict[int, _New | InvalidObject] = {}
    left, quotas = MAX_SEQUENTIAL, ChargedQuotas(cluster)
    for index, obj in sorted(enumerate(objects), key=lambda item: creates_pods_later(item[1])):
        is_later = creates_pods_later(obj)
        try:
            new, name = new_pods_of(cluster, obj, replicas)
            pods = arriving(cluster, obj, new.pods)
            count, rejection = quotas.admit(obj, pods, charge=False)
            arrive = arriving_in_turn(obj, len(pods), count)
        except InvalidObject as fault:
            placed[index] = fault
            continue
        pods = pods[: min(left, count)]
        if not is_later:
            pods = scheduler.arrive_in_turn(pods, one_by_one=is_ordered(obj))
            if is_ordered(obj) and pods and scheduler.is_pending(pods[-1]):
                arrive, count, rejection = len(pods), len(pods), ""
            quotas.admit(obj, new.pods[:count])
        left -= len(pods)
        placement = placement_of(name, new, arrive, count, len(pods))
        placed[index] = _New(replace(placement, rejection=rejection), pods, is_later)
    scheduler.end_terminations()
    in_the_end = cluster.scheduled_as(scheduler.snapshot)
    in_order = [placed[index] for index in range(len(objects))]
    return Applied(tuple(_with_predictions(in_order, scheduler.arrivals, in_the_end)), scheduler.arrivals)


def _with_predictions(
    placed: Sequence[_New | InvalidObject], arrivals: dict[Key, Arrival], in_the_end: ClusterSnapshot
) -> Iterator[Placement | InvalidObject]:
    """Yield the placements with the predictions of their Pods. `in_the_end`: the cluster with all Pods that arrive."""
    for item in placed:
        if isinstance(item, InvalidObject):
            yield item
        elif item.is_later:
            yield replace(item.placement, predictions=place_pods(in_the_end, item.pods))
        else:
            predictions = (arrivals[pod.namespace, pod.name].prediction for pod in item.pods)
            yield replace(item.placement, predictions=tuple(predictions))


class _Scheduler:
    """The scheduling queue and its loop, without time: victims terminate in `end_terminations`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._tries = 0
        self._terminating: set[tuple[str, str]] = set()
        """(identity, node) of the victims."""
        self._named: Counter[Key] = Counter()
        self.arrivals: dict[Key, Arrival] = {}
        nominator = Nominator(self._lookup, lambda _before, _after: None)
        hints = QueueingHints.from_profiles(snapshot.semantics)
        self._queue = PriorityQueue(lambda: float(self._tries), nominator, hints)

    def _lookup(self, namespace: str, name: str) -> Pod | None:
        arrival = self.arrivals.get((namespace, name))
        return arrival.pod if arrival else None

    def is_pending(self, pod: Pod) -> bool:
        arrival = self.arrivals[pod.namespace, pod.name]
        return bool(arrival.predictions) and arrival.prediction.outcome == "pending"

    def arrive_in_turn(self, pods: Sequence[Pod], *, one_by_one: bool) -> Sequence[Pod]:
        """Let new Pods `arrive`; return those that do. `one_by_one`: stop at the first Pod that stays Pending.

        Pods that a controller creates all together are tried later, by priority.
        """
        arrived: list[Pod] = []
        for pod in pods:
            if (named := self.arrive(pod)) is not None:
                arrived.append(named)
                if one_by_one or not pod.owner_kind:
                    self._run()
                if one_by_one and self.is_pending(named):
                    break
        return arrived

    def arrive(self, pod: Pod) -> Pod | None:
        """Add a new Pod to the queue. Return the Pod with a unique name; None if the Pod exists already.

        Pods with generated names, and repeated Pods of `replicas`, get a number.
        """
        key = pod.namespace, pod.name
        self._named[key] += 1
        number = self._named[key]
        if number > 1:
            if pod.uid == self.arrivals[key].pod.uid and not pod.name.endswith("*"):
                return None
            pod = replace(pod, name=f"{pod.name}+{number}")
        self.arrivals[pod.namespace, pod.name] = Arrival(pod)
        self._queue.add(pod)
        return pod

    def _run(self) -> None:
        while (info := self._queue.pop()) is not None:
            for member in info.members:
                self._tries += 1
                self._try(member)

    def _try(self, info: QueuedPodInfo) -> None:
        arrival = self.arrivals[info.key]
        if len(arrival.predictions) >= _MAX_TRIES:
            self._queue.done(info.pod)
            return
        before, prediction = self.snapshot, self._predict(arrival, info.pod)
        if prediction.outcome == "not-predicted":
            self._queue.done(info.pod)
        elif prediction.fits:
            self._queue.done(info.pod)
            bound = self.snapshot.bound(info.pod, prediction.node)
            self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, bound)
        else:
            info.unschedulable_plugins = set(prediction.rejecting_plugins)
            info.pod = prediction.pod_after
            self._queue.add_unschedulable_if_not_present(info)
            # New Pods may lose their nomination to the same node.
            node = prediction.node
            stay = {pod.identity for pod in self.snapshot.objects.nominated.get(node, ())}
            for pod in before.objects.nominated.get(node, ()):
                if pod.identity not in stay and (pod.namespace, pod.name) in self.arrivals:
                    self._lose_nomination(pod)

    def _predict(self, arrival: Arrival, pod: Pod) -> Prediction:
        """Predict a Pod, and record its victims, which may be new Pods."""
        prediction = Prediction(self.snapshot, pod)
        arrival.predictions.append(prediction)
        self.snapshot = prediction.snapshot_after()
        for victim in prediction.victims:
            self._terminating.add((victim.identity, victim.node_name))
            new = self.arrivals.get((victim.namespace, victim.name))
            if new is not None and not victim.terminating:
                new.preempted_by = prediction.pod.key
        return prediction

    def _lose_nomination(self, pod: Pod) -> None:
        """Clear the nomination of a Pod. Source: upstream `updatePodInSchedulingQueue`."""
        self._queue.update(pod, replace(pod, nominated_node_name=""))
        self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None, le_priority_pre_check(pod))

    def end_terminations(self) -> None:
        """Try all active Pods, let all victims terminate, and predict the Pods without a node again, until none of them
        preempts others.

        Ignores replacements of victims that are not new Pods. Sets `overtaken` on nominated Pods that do not fit on
        their node.
        """
        self._run()
        while self._terminating:
            nodes = [info for name in {name for _, name in self._terminating} if (info := self.snapshot.get(name))]
            victims = [pod for info in nodes for pod in info.pods if (pod.identity, info.name) in self._terminating]
            self._terminating.clear()
            self.snapshot = self.snapshot.with_pods((), victims)
            waiting = [each for each in self.arrivals.values() if each.waits]
            for arrival in sorted(waiting, key=lambda each: -each.pod.effective_priority):
                self._retry(arrival)

    def _retry(self, arrival: Arrival) -> None:
        """Predict a new Pod, or its replacement, after victims have terminated."""
        node = arrival.predictions[-1].pod_after.nominated_node_name
        nominated = self.snapshot.objects.nominated.get(node, ())
        pod = next((pod for pod in nominated if pod.identity == arrival.pod.identity), None)
        prediction = self._predict(arrival, pod or replace(arrival.pod, nominated_node_name=""))
        arrival.preempted_by, prediction.after_victims = "", prediction.fits
        arrival.overtaken |= pod is not None and prediction.node != node


PENDING: Final = ("pending", "in-vain")
"""Outcomes of new Pods that stay Pending."""
RUNNING: Final = ("fits", "preempts", "waits")
"""Outcomes of new Pods that run."""


class Predicted:
    """The predictions of new Pods, and totals over them.

    `groups`: the PodGroups of the Pods, whose Pods count only in these. `is_placeholder`: reports whether a Pod only
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
        found = {
            pod.identity for each in (*self.alone, *self._old_template_predictions) for pod in each.victims_in_vain
        }
        return [pod for pod in self.victims if pod.identity in found]

    @property
    def _old_template_predictions(self) -> list[Prediction]:
        rollouts = (placement.rollout for placement in self.applied.placed)
        return [each for rollout in rollouts if rollout is not None for each in rollout.by_old_template]

    def is_alone(self, prediction: Prediction) -> bool:
        """Report whether the Pod of a prediction belongs to none of the PodGroups."""
        return id(prediction.pod) not in self._in_groups

    def preemptor_of(self, victim: Pod) -> str:
        """Return the Pod or PodGroup that preempts a victim first."""
        return self._first[victim.identity][1]

    def _preemptions(self) -> Iterator[tuple[Pod, str]]:
        """Yield each victim with its preemptor, including victims that already terminate."""
        before = (each for last in self.alone for each in self.applied.every_prediction_of(last.pod))
        for prediction in (*before, *self.alone, *self._old_template_predictions):
            yield from ((victim, prediction.pod.key) for victim in prediction.victims)
        for group in self.groups:
            yield from ((victim, group.id) for victim in group.victims)

    def outcomes_of(self, placement: Placement) -> Counter[str]:
        """Return the number of an object's new Pods by outcome, which is "preempted" if a later new Pod preempts them.

        Pods in PodGroups do not count.
        """
        alone = [each for each in placement.predictions if self.is_alone(each)]
        again = {id(each) for each in alone if self.applied.attempts_of(each).preempted_by}
        counts = Counter(outcomes([each for each in alone if id(each) not in again]))
        counts += Counter({"preempted": len(again)})
        return counts + Counter({name: pods for name, pods in placement.without_prediction.items() if name != "group"})

    def outcomes_of_group(self, group: GroupForecast) -> Counter[str]:
        """Return the number of a PodGroup's Pods by outcome; if it fits, its Pods without a node count as Pending."""
        left = len(group.pods) - len(group.places) if group.outcome == "fits" else 0
        return Counter({group.outcome: len(group.pods) - left}) + Counter(pending=left)

    def pending_before(self, group: GroupForecast) -> int:
        """Return how many Pods of a PodGroup that stay Pending were Pending at the start."""
        stored = sum((pod.namespace, pod.name) in self.cluster.waiting_pods for pod in group.pods)
        return min(self.outcomes_of_group(group)["pending"], stored)

    @property
    def outcomes(self) -> Counter[str]:
        """The number of all new Pods by outcome."""
        of_objects = map(self.outcomes_of, self.applied.placed)
        return sum((*of_objects, *map(self.outcomes_of_group, self.groups)), Counter[str]())

    def effects(self) -> Effects:
        """Count the effects, without objects that are not predicted."""
        counts, impacts = self.outcomes, [each.rollout or each.following for each in self.applied.placed]
        evicted = {pod.identity: pod for impact in impacts if impact is not None for pod in impact.evicted}
        preempted = [pod for pod in evicted.values() if pod.identity not in self._first]
        placeholders = sum(self._is_placeholder(pod) for pod in preempted)
        violated = {pdb for each in (*self.alone, *self._old_template_predictions) for pdb in each.violated_pdbs}
        violated.update(*(group.violated_pdbs(self.cluster.scheduling) for group in self.groups))
        beyond = any(impact is not None and impact.pdb_violations_in_cascade for impact in impacts)
        losses = losses_of(self.victims, self.cluster.workload)
        return Effects(
            victims=len(self.victims),
            preempted=len(self.victims) + len(preempted) - placeholders,
            pending=sum(counts[name] for name in PENDING) - sum(map(self.pending_before, self.groups)),
            rejected=counts["rejected"],
            jobs_failed=sum(loss.fails and loss.kind == JOB.rpartition("/")[2] for loss in losses),
            pdbs_violated=max(len(violated), int(beyond)),
            blocked=sum(each.is_blocked_rollout for each in self.applied.placed),
            placeholders=len(self._first) - len(self.victims) + placeholders,
        )
