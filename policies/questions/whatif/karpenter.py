"""Karpenter in a simulation: its rounds, and the nodes that it launches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.prediction.autoscaling import Arrival, NotPredicted
from forewarn.policies.prediction.autoscaling.karpenter.requirements import is_provisionable
from forewarn.policies.prediction.autoscaling.karpenter.topology import Choices
from forewarn.policies.prediction.simulation.scenario import read_node
from forewarn.policies.questions.whatif.autoscalers import LIMIT_REACHED, MAX_NODES, Launches, lacks_claim, launches_of
from forewarn.policies.questions.whatif.new_nodes import Rounds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from random import Random

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import Karpenter
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import Names

IDLE: Final = 1.0
"""Seconds without another Pending Pod that end a batch. Source: --batch-idle-duration."""
BATCH: Final = 10.0
"""Maximum seconds of a batch. Source: --batch-max-duration."""
RETRY: Final = 10.0
"""Seconds until Karpenter considers a Pending Pod again. Source: `PodController.Reconcile`."""
_MAX_DECISIONS: Final = 200
"""Maximum number of rounds of Karpenter in a simulation."""
_MAX_LAUNCHES: Final = 50
"""Maximum number of rounds of Karpenter that launch nodes."""


class KarpenterRounds(Rounds):
    """A round of Karpenter's provisioner follows each batch of Pods that kube-scheduler marks Unschedulable, and all
    Pods that stay Pending are considered again every RETRY seconds.

    Source: provisioning/batcher.go, controller.go.
    """

    autoscaler = "node_pools"

    def __init__(
        self, simulation: Simulation, karpenter: Karpenter, delay: float, random: Random | None = None
    ) -> None:
        """`random`: for delays, for the order of equal Pods, which upstream takes from random UIDs, and for choices of
        upstream without an order.
        """
        self.errors: Mapping[str, str] = {}
        """Pod -> why the last round found no node."""
        self._karpenter, self._uids = karpenter, dict[str, str]()
        self._batch: set[str] = set()
        self._opened = self._last = 0.0
        self._retries = False
        self._decisions = self.launches = 0
        super().__init__(simulation, delay, random)

    def result(self, names: Names, pending: Collection[str]) -> Launches | None:
        """The nodes of all rounds, and the Pods that stay Pending; None if there was no round."""
        if not self._decisions:
            return None
        origins = self._simulation.timeline.origins
        errors = {key: why for key, why in self.errors.items() if key in pending}
        keys = {key for _, arrival in self.launched for key in arrival.pods} | errors.keys()
        workloads = {key: names.name_of(origins[key].workload) for key in keys}
        return launches_of([arrival for _, arrival in self.launched], errors, workloads, self.not_predicted)

    def _takes(self, pod: Pod) -> bool:
        return super()._takes(pod) and is_provisionable(pod)

    def _trigger(self, uid: str) -> None:
        clock = self._simulation.clock
        if uid in self._batch:
            return
        if not self._batch:
            self._opened = clock.now
            clock.schedule(clock.now + IDLE, self._close)
        if not self._retries:
            self._retries = True
            clock.schedule(clock.now + RETRY, self._retry)
        self._last = clock.now
        self._batch.add(uid)

    def _close(self) -> None:
        clock, due = self._simulation.clock, min(self._last + IDLE, self._opened + BATCH)
        if clock.now < due:
            clock.schedule(due, self._close)
            return
        self._batch.clear()
        if not self._stopped:
            self._decide()

    def _retry(self) -> None:
        clock, pods = self._simulation.clock, self._provisionable()
        self._retries = bool(pods) and not self._stopped
        if self._retries:
            clock.schedule(clock.now + RETRY, self._retry)
        for pod in pods if self._retries and self._changed else ():
            self._trigger(pod.uid)

    def _provisionable(self) -> list[Pod]:
        """The Pods that Karpenter considers, with the time of their creation."""
        return [replace(state.pod, created=int(state.created)) for state in self._pending()]

    def _decide(self) -> None:
        snapshot = self._simulation.cache.snapshot()
        pods = [self._randomize_order(pod) for pod in self._provisionable() if not lacks_claim(pod, snapshot.objects)]
        if not pods:
            return None
        self._changed = False
        self._decisions += 1
        try:
            more, self.errors = self._karpenter.decide(pods, snapshot, self._upcoming(), Choices(self._random))
        except NotPredicted as reason:
            return self._give_up(str(reason))
        self.launches += bool(more)
        nodes = len(self.launched) + len(more)
        if self._decisions > _MAX_DECISIONS or self.launches > _MAX_LAUNCHES or nodes > MAX_NODES:
            self.omitted = len(more)
            return self._give_up(LIMIT_REACHED)
        return self._launch(map(self._named, more))

    def _named(self, arrival: Arrival) -> tuple[str, Node, Arrival]:
        metadata = {**arrival.node["metadata"], "name": self._name_of(f"karpenter-{arrival.group}")}
        return arrival.group, read_node({**arrival.node, "metadata": metadata}), arrival

    def _randomize_order(self, pod: Pod) -> Pod:
        """Return the Pod with a random UID if the order of Pods is random."""
        if self._random is None:
            return pod
        return replace(pod, uid=self._uids.setdefault(pod.uid, f"{self._random.random():.12f}"))
