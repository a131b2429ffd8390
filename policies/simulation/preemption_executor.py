"""Evictions beside the scheduling loop. Source: kubernetes `pkg/scheduler/framework/preemption/executor.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.preemption import Candidate
    from policies.simulation.api_server import ApiServer, PodKey
    from policies.simulation.clock import Clock
    from policies.simulation.latencies import Latencies

PARALLELISM: Final = 16


@dataclass(slots=True)
class _Attempt:
    """Evictions for one pod. `left`: how many victims are not told to end yet; `last`: the one who goes last."""

    preemptor: Pod
    left: int
    last: PodKey


class PreemptionExecutor:
    """Which pods are having others evicted, and the writes that it takes. It is DefaultPreemption's PreEnqueue too."""

    name = "DefaultPreemption"

    def __init__(
        self, clock: Clock, api: ApiServer, latencies: Latencies, nominated: Callable[[str], Sequence[Pod]]
    ) -> None:
        """`nominated`: the pods that are nominated to a node, as they are stored."""
        self._clock, self._api, self._latencies, self._nominated = clock, api, latencies, nominated
        self._preempting: set[str] = set()
        self._last_victim: dict[str, PodKey] = {}
        """Of a pod whose other victims are told to end. A pod that is tried again before its first attempt is through
        may have two attempts: the first to end clears what both have noted, as upstream's does."""

    def pre_enqueue(self, pod: Pod) -> bool:
        """Not while its own evictions are under way; they are over when all but the last victim are told to end, and
        that one is ending too, for another pod maybe.

        Source: upstream `IsPodRunningPreemption`.
        """
        if pod.uid not in self._preempting:
            return True
        last = self._last_victim.get(pod.uid)
        if last is None:
            return False
        victim = self._api.pod(*last)
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
        attempt = _Attempt(preemptor, len(victims), (last.namespace, last.name))
        self._note(attempt)
        if first:
            yield from self._in_parallel(first, attempt)
        yield from self._preempt_pod(last, attempt)
        self._preempting.discard(preemptor.uid)
        self._last_victim.pop(preemptor.uid, None)

    def _note(self, attempt: _Attempt) -> None:
        if attempt.left == 1:
            self._last_victim[attempt.preemptor.uid] = attempt.last

    def _in_parallel(self, victims: list[Pod], attempt: _Attempt) -> Generator[float | None, None, None]:
        """By as many workers as upstream has; goes on when all are through."""
        waiting = victims[::-1]
        workers = [self._clock.spawn(self._worker(waiting, attempt)) for _ in victims[:PARALLELISM]]
        for worker in workers:
            while not worker.done:
                worker.then_wake = self._clock.running
                yield None

    def _worker(self, waiting: list[Pod], attempt: _Attempt) -> Generator[float | None, None, None]:
        while waiting:
            yield from self._preempt_pod(waiting.pop(), attempt)

    def _preempt_pod(self, victim: Pod, attempt: _Attempt) -> Generator[float | None, None, None]:
        """Upstream `PreemptPod`: say why, then DELETE; by name, so it may be a successor of that name."""
        key = victim.namespace, victim.name
        if not victim.preempted:
            yield self._latencies.write("patch", victim.key)
            if not self._api.patch_disruption_target(key):
                self._told(attempt)
                return
        yield self._latencies.write("delete", victim.key)
        self._told(attempt)  # who asks for the DELETE hears of it no later than who watches
        self._api.delete_pod(key, "preempted", by=attempt.preemptor.key)

    def _told(self, attempt: _Attempt) -> None:
        attempt.left -= 1
        self._note(attempt)
