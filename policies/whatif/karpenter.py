"""Karpenter in a simulation: its rounds, and the nodes that it launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.karpenter.autoscaler import is_provisionable
from forewarn.policies.autoscaling.karpenter.topology import Choices
from forewarn.policies.copies import replace
from forewarn.policies.simulation.scenario import read_node
from forewarn.policies.simulation.scheduler import UNSCHEDULABLE
from forewarn.policies.whatif.autoscalers import LIMIT_REACHED, lacks_claim, launches_of
from forewarn.policies.whatif.new_nodes import MAX_NODES, MAX_ROUNDS, arrivals_of, namer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from forewarn.policies.autoscaling.autoscaler import Arrival
    from forewarn.policies.autoscaling.karpenter.autoscaler import Karpenter
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.simulation.api_server import Change
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import Names
    from forewarn.policies.whatif.autoscalers import Launches
    from forewarn.policies.whatif.new_nodes import NewNode

IDLE: Final = 1.0
"""Seconds without another Pending Pod that end a batch. Source: --batch-idle-duration."""
BATCH: Final = 10.0
"""Maximum seconds of a batch. Source: --batch-max-duration."""
RETRY: Final = 10.0
"""Seconds until Karpenter considers a Pending Pod again. Source: `PodController.Reconcile`."""
_MAX_DECISIONS: Final = 200
"""Maximum rounds of Karpenter in a simulation."""
_JITTER: Final = 1.0
"""Maximum seconds by which a node is late in randomized runs."""
_STEP: Final = 10.0
"""Seconds of a step while no node is launched."""


class KarpenterRounds:
    """A round of Karpenter's provisioner follows each batch of Pods that kube-scheduler marks Unschedulable, and all
    Pods that stay Pending are considered again every RETRY seconds.

    Source: provisioning/batcher.go, controller.go.
    """

    def __init__(
        self, simulation: Simulation, karpenter: Karpenter, delay: float, random: Random | None = None
    ) -> None:
        """`delay`: seconds from the launch of a node until it is ready. `random`: for delays, for the order of equal
        Pods, which upstream takes from random UIDs, and for choices of upstream without an order.
        """
        self._simulation, self._karpenter, self._delay = simulation, karpenter, delay
        self._random, self._uids = random, dict[str, str]()
        self.launched: list[tuple[NewNode, Arrival]] = []
        self.errors: Mapping[str, str] = {}
        """Pod -> why the last round found no node."""
        self.omitted = 0
        """Number of nodes that were not launched because of a limit."""
        self.not_predicted = ""
        self._waiting: dict[tuple[str, str], str] = {}
        """Key -> uid of Pods that were marked Unschedulable."""
        self._batch: set[str] = set()
        self._opened = self._last = 0.0
        self._retries = self._delivers = self._stopped = False
        self._changed = True
        self._decisions = self.launches = 0
        self._name_of = namer(simulation.api.nodes)
        simulation.api.watchers.append(self._handle)
        for state in [state for state in simulation.api.pods.values() if state.pod.uid in simulation.api.conditions]:
            self._consider(state.pod)

    @property
    def lead(self) -> float:
        """Seconds from the first Pending Pod to the first node, at least."""
        return IDLE + self._delay

    def stop(self) -> None:
        """Launch no more nodes."""
        self._stopped = True

    def deliver(self) -> None:
        """Let nodes arrive from now on."""
        self._delivers = True
        self._simulation.add(arrivals_of(node for node, _ in self.launched))

    def run_to_first_node(self) -> bool:
        """Run up to the time at which the first node can arrive, or to the end; false if no node is launched."""
        clock, ended, step = self._simulation.clock, False, min(max(self._delay, IDLE), _STEP)
        while not ended and not self.launched:
            ended = self._simulation.run(max(clock.now, clock.next_time or 0.0) + step)
        if self.launched and not ended:
            self._simulation.run(min(at for (_, _, at), _ in self.launched))
        return bool(self.launched)

    def result(self, names: Names) -> Launches:
        """The nodes of all rounds, and the Pods that stay Pending, at this time of the simulation."""
        origins = self._simulation.timeline.origins
        pending = {pod.key for pod in self._provisionable()}
        errors = {key: why for key, why in self.errors.items() if key in pending}
        keys = {key for _, arrival in self.launched for key in arrival.pods} | errors.keys()
        workloads = {key: names.of(origins[key].workload) for key in keys}
        return launches_of([arrival for _, arrival in self.launched], errors, workloads, self.not_predicted)

    def helped(self) -> int:
        """The number of Pods for which nodes were launched, without those that are Pending at this time."""
        pending = {pod.key for pod in self._provisionable()}
        return len({key for _, arrival in self.launched for key in arrival.pods} - pending)

    def _handle(self, change: Change) -> None:
        self._changed = True
        if change.kind == "Pod" and change.new is not None and not self._stopped:
            self._consider(change.new.pod)

    def _consider(self, pod: Pod) -> None:
        if self._is_provisionable(pod) and not self._stopped:
            self._waiting[pod.namespace, pod.name] = pod.uid
            self._trigger(pod.uid)

    def _is_provisionable(self, pod: Pod) -> bool:
        if pod.node_name or self._simulation.api.conditions.get(pod.uid, ("", ""))[0] != UNSCHEDULABLE:
            return False
        return not pod.terminal and is_provisionable(pod)

    def _trigger(self, uid: str) -> None:
        clock = self._simulation.clock
        if uid in self._batch:
            return
        if not self._batch:
            self._opened = clock.now
            clock.at(clock.now + IDLE, self._close)
        if not self._retries:
            self._retries = True
            clock.at(clock.now + RETRY, self._retry)
        self._last = clock.now
        self._batch.add(uid)

    def _close(self) -> None:
        clock, due = self._simulation.clock, min(self._last + IDLE, self._opened + BATCH)
        if clock.now < due:
            clock.at(due, self._close)
            return
        self._batch.clear()
        if not self._stopped:
            self._decide()

    def _retry(self) -> None:
        clock, pods = self._simulation.clock, self._provisionable()
        self._retries = bool(pods) and not self._stopped
        if self._retries:
            clock.at(clock.now + RETRY, self._retry)
        for pod in pods if self._retries and self._changed else ():
            self._trigger(pod.uid)

    def _provisionable(self) -> list[Pod]:
        """The Pods that Karpenter considers, with the time of their creation."""
        found = []
        for key, uid in [*self._waiting.items()]:
            state = self._simulation.api.pods.get(key)
            if state is None or state.pod.uid != uid or state.pod.node_name:
                del self._waiting[key]
            elif self._is_provisionable(state.pod):
                found.append(replace(state.pod, created=int(state.created)))
        return found

    def _decide(self) -> None:
        snapshot, now = self._simulation.cache.snapshot(), self._simulation.clock.now
        pods = [self._in_order(pod) for pod in self._provisionable() if not lacks_claim(pod, snapshot.objects)]
        if not pods:
            return None
        self._changed = False
        self._decisions += 1
        upcoming = [arrival for (_, node, at), arrival in self.launched if at > now]
        try:
            more, self.errors = self._karpenter.decide(pods, snapshot, upcoming, Choices(self._random))
        except NotPredicted as reason:
            return self._give_up(str(reason))
        self.launches += bool(more)
        if self._decisions > _MAX_DECISIONS or self.launches > MAX_ROUNDS or len(self.launched) + len(more) > MAX_NODES:
            self.omitted = len(more)
            return self._give_up(LIMIT_REACHED)
        return self._launch(more)

    def _launch(self, launched: Sequence[Arrival]) -> None:
        ready = self._simulation.clock.now + self._delay
        for arrival in launched:
            metadata = {**arrival.node["metadata"], "name": self._name_of(f"karpenter-{arrival.group}")}
            late = self._random.uniform(0, _JITTER) if self._random else 0.0
            node = arrival.group, read_node({**arrival.node, "metadata": metadata}), ready + late
            self.launched.append((node, arrival))
            self._changed = True
            if self._delivers:
                self._simulation.add(arrivals_of([node]))

    def _in_order(self, pod: Pod) -> Pod:
        """Return the Pod with a random UID if the order of Pods is random."""
        if self._random is None:
            return pod
        return replace(pod, uid=self._uids.setdefault(pod.uid, f"{self._random.random():.12f}"))

    def _give_up(self, reason: str) -> None:
        self.not_predicted, self._stopped = reason, True
