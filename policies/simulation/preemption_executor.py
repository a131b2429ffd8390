"""Evictions beside the scheduling loop. Source: kubernetes `pkg/scheduler/framework/preemption/executor.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.preemption import Candidate
    from policies.simulation.api_server import ApiServer, PodKey
    from policies.simulation.clock import Clock
    from policies.simulation.latencies import Latencies

PARALLELISM: Final = 16


class PreemptionExecutor:
    """Which pods are having others evicted, and the writes that it takes. It is DefaultPreemption's PreEnqueue too."""

    name = "DefaultPreemption"

    def __init__(
        self, clock: Clock, api: ApiServer, latencies: Latencies, nominated: Callable[[str], Sequence[Pod]]
    ) -> None:
        """`nominated`: the pods that are nominated to a node, as they are stored."""
        self._clock, self._api, self._latencies, self._nominated = clock, api, latencies, nominated
        self._preempting: set[str] = set()
        self._left: dict[str, int] = {}
        """How many of a pod's victims are not told to end yet, once it is at that."""
        self._last_victim: dict[str, PodKey] = {}

    def pre_enqueue(self, pod: Pod) -> bool:
        """Not while its own evictions are under way; they are over when all but the last victim are told to end, and
        that one is ending too, for another pod maybe.

        Source: upstream `IsPodRunningPreemption`.
        """
        if pod.uid not in self._preempting:
            return True
        if self._left.get(pod.uid, 2) > 1:
            return False
        victim = self._api.pod(*self._last_victim[pod.uid])
        return victim is None or victim.terminating

    def prepare_candidate(self, candidate: Candidate, preemptor: Pod) -> None:
        """Evict the victims, the last one alone. Source: upstream `prepareCandidateAsync`."""
        victims = [victim for victim in candidate.victims if not victim.terminating]
        if not victims:
            return
        self._preempting.add(preemptor.uid)
        self._clock.spawn(self._run(candidate.node_name, victims, preemptor))

    def _run(self, node: str, victims: list[Pod], preemptor: Pod) -> Generator[float | None, None, None]:
        for pod in self._nominated(node):
            if pod.effective_priority < preemptor.effective_priority and pod.nominated_node_name:
                yield self._latencies.write("patch", pod.key)
                self._api.patch_pod_status((pod.namespace, pod.name), None, "")
        *first, last = victims
        self._left[preemptor.uid] = len(victims)
        self._last_victim[preemptor.uid] = last.namespace, last.name
        if first:
            yield from self._in_parallel(first, preemptor)
        yield from self._preempt_pod(last, preemptor)
        self._preempting.discard(preemptor.uid)
        del self._left[preemptor.uid], self._last_victim[preemptor.uid]

    def _in_parallel(self, victims: list[Pod], preemptor: Pod) -> Generator[float | None, None, None]:
        """By as many workers as upstream has; goes on when all are through."""
        waiting = victims[::-1]
        workers = [self._clock.spawn(self._worker(waiting, preemptor)) for _ in victims[:PARALLELISM]]
        for worker in workers:
            while not worker.done:
                worker.then_wake = self._clock.running
                yield None

    def _worker(self, waiting: list[Pod], preemptor: Pod) -> Generator[float | None, None, None]:
        while waiting:
            yield from self._preempt_pod(waiting.pop(), preemptor)

    def _preempt_pod(self, victim: Pod, preemptor: Pod) -> Generator[float | None, None, None]:
        """Upstream `PreemptPod`: say why, then DELETE; by name, so it may be a successor of that name."""
        key = victim.namespace, victim.name
        if not victim.preempted:
            yield self._latencies.write("patch", victim.key)
            if not self._api.patch_disruption_target(key):
                self._left[preemptor.uid] -= 1
                return
        yield self._latencies.write("delete", victim.key)
        self._left[preemptor.uid] -= 1  # who asks for the DELETE hears of it no later than who watches
        self._api.delete_pod(key, "preempted", by=preemptor.key)
