"""Predict the Pods of several objects that are applied one after the other, in the order of the scheduling queue.

kube-scheduler tries each Pod when it is created. A later Pod may preempt a bound one. An unschedulable Pod is retried
after an event for which a plugin's queueing hint returns true: for example, a Pod that its affinity matches was bound,
or a Pod of higher priority took its nomination. Victims do not terminate, so only a simulation includes their
replacements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.controllers.changes import arriving, is_ordered
from forewarn.policies.kubernetes.controllers.new_pods import MAX_SEQUENTIAL, creates_pods_later
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import Nominator, PriorityQueue, le_priority_pre_check
from forewarn.policies.kubernetes.scheduling.queue.registrations import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    QueueingHints,
)
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.placement import (
    ChargedQuotas,
    Placement,
    arriving_in_turn,
    new_pods_of,
    place_pods,
    placement_of,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.queue.priority_queue import Key, QueuedPodInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

_MAX_TRIES: Final = 5
"""Maximum number of attempts for one Pod: many Pods with affinity to each other would be tried for each new Pod."""


@dataclass(slots=True)
class Arrival:
    """A new Pod and its predictions so far.

    `preempted_by`: key of the later Pod that preempts this Pod, or "". `overtaken`: the Pod is nominated to a node, but
    later Pods of higher priority will use the capacity of the victims there.
    """

    pod: Pod
    predictions: list[Prediction] = field(default_factory=list)
    preempted_by: str = ""
    overtaken: bool = False

    @property
    def prediction(self) -> Prediction:
        """The final prediction. For a nominated Pod: the prediction that selected its victims."""
        last = self.predictions[-1]
        if last.outcome == "pending" and last.pod.nominated_node_name:
            return next((p for p in reversed(self.predictions) if p.outcome == "preempts"), last)
        return last


class Attempts(NamedTuple):
    """The attempts to schedule a Pod among several. `attempts`: number of scheduling attempts, if several.
    `preemptedBy`: with several objects, the later Pod that preempts this Pod. `overtaken`: true if later Pods take its
    free capacity.
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

    `placements`: for each object its Placement, or the InvalidObject that explains why there is none. `arrivals`: the
    new Pods by (namespace, name).
    """

    placements: tuple[Placement | InvalidObject, ...]
    arrivals: Mapping[Key, Arrival] = field(default_factory=dict)

    @property
    def placed(self) -> list[Placement]:
        return [placed for placed in self.placements if isinstance(placed, Placement)]

    @property
    def predictions(self) -> list[Prediction]:
        return [prediction for placement in self.placed for prediction in placement.predictions]

    def attempts_of(self, prediction: Prediction) -> Attempts:
        arrival = self.arrivals.get((prediction.pod.namespace, prediction.pod.name))
        if arrival is None:
            return Attempts()
        tries = len(arrival.predictions)
        return Attempts(tries if tries > 1 else None, arrival.preempted_by, arrival.overtaken or None)


def place_in_order(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None = None) -> Applied:
    """Predict the Pods of these objects in order; at most MAX_SEQUENTIAL Pods in all.

    The Pods of a CronJob come after those of all other objects, and each CronJob's without those of the others.
    `replicas`: the number of Pods for each object; None: as the objects say (see `place`).
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
    """The scheduling queue and its loop, without time: victims do not terminate."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._tries = 0
        self._terminating: set[tuple[str, str]] = set()
        """(identity, node) of the victims."""
        self._named: Counter[Key] = Counter()
        self.arrivals: dict[Key, Arrival] = {}
        nominator = Nominator(self._lookup, lambda _before, _after: None)
        hints = QueueingHints.of_profiles(snapshot.semantics)
        self._queue = PriorityQueue(lambda: float(self._tries), nominator, hints)

    def _lookup(self, namespace: str, name: str) -> Pod | None:
        arrival = self.arrivals.get((namespace, name))
        return arrival.pod if arrival else None

    def is_pending(self, pod: Pod) -> bool:
        arrival = self.arrivals[pod.namespace, pod.name]
        return bool(arrival.predictions) and arrival.prediction.outcome == "pending"

    def arrive_in_turn(self, pods: Sequence[Pod], *, one_by_one: bool) -> Sequence[Pod]:
        """Let new Pods `arrive`; return those that do. `one_by_one`: no Pod follows one that stays Pending."""
        arrived: list[Pod] = []
        for pod in pods:
            if (named := self.arrive(pod)) is not None:
                arrived.append(named)
                if one_by_one and self.is_pending(named):
                    break
        return arrived

    def arrive(self, pod: Pod) -> Pod | None:
        """Add a new Pod to the queue and try all active Pods. Return the Pod with a unique name; None if the Pod exists
        already.

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
        self._run()
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
        prediction = Prediction(self.snapshot, info.pod)
        arrival.predictions.append(prediction)
        before, self.snapshot = self.snapshot, prediction.snapshot_after()
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
            # New Pods may be victims, or lose their nomination to the same node.
            for victim in prediction.victims:
                self._terminating.add((victim.identity, victim.node_name))
                victim_arrival = self.arrivals.get((victim.namespace, victim.name))
                if victim_arrival is not None and not victim.terminating:
                    victim_arrival.preempted_by = prediction.pod.key
            node = prediction.node
            stay = {pod.identity for pod in self.snapshot.objects.nominated.get(node, ())}
            for pod in before.objects.nominated.get(node, ()):
                if pod.identity not in stay and (pod.namespace, pod.name) in self.arrivals:
                    self._lose_nomination(pod)

    def _lose_nomination(self, pod: Pod) -> None:
        """Clear the nomination of a Pod. Source: upstream `updatePodInSchedulingQueue`."""
        self._queue.update(pod, replace(pod, nominated_node_name=""))
        self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None, le_priority_pre_check(pod))

    def end_terminations(self) -> None:
        """Predict Pending Pods that fit after the victims terminate, without the replacement Pods of these. Set
        `overtaken` on nominated Pods that will then not fit on their node.

        An overtaken Pod loses the capacity to later Pods of higher priority, but not its nomination, if all victims on
        the node are terminating already.
        """
        nominated = self.snapshot.objects.nominated
        ours = [p for pods in nominated.values() for p in pods if (p.namespace, p.name) in self.arrivals]
        nodes = [info for name in {name for _, name in self._terminating} if (info := self.snapshot.get(name))]
        terminating = [pod for info in nodes for pod in info.pods if (pod.identity, info.name) in self._terminating]
        in_the_end = self.snapshot.with_pods((), terminating)
        for pod in ours:
            feasible = Prediction(in_the_end, pod).feasible
            self.arrivals[pod.namespace, pod.name].overtaken = pod.nominated_node_name not in feasible
        waiting = [each for each in self.arrivals.values() if each.prediction.outcome == "pending"]
        for arrival in sorted(waiting, key=lambda each: -each.pod.effective_priority) if terminating else ():
            prediction = Prediction(in_the_end, arrival.pod)
            if prediction.fits:
                prediction.after_victims = True
                arrival.predictions[-1] = prediction
                in_the_end = prediction.snapshot_after()
