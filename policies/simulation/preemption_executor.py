"""Evicts victims in a simulation, concurrently with the scheduling loop.

Source: kubernetes `pkg/scheduler/framework/preemption/executor.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from forewarn.policies.scheduling.evictions import loses_nomination, victims_to_evict
from forewarn.policies.scheduling.status import unresolvable
from forewarn.policies.simulation.api_server import name_of_group

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.status import Status
    from forewarn.policies.simulation.api_server import ApiServer, PodKey
    from forewarn.policies.simulation.clock import Clock, Latencies

PARALLELISM: Final = 16
_CLUSTER: Final = "cluster"


class Preemptor(NamedTuple):
    """A Pod or PodGroup that preempts. `name`: how the timeline refers to it."""

    uid: str
    name: str
    priority: int

    @classmethod
    def of_pod(cls, pod: Pod) -> Preemptor:
        return cls(pod.uid, pod.key, pod.effective_priority)

    @classmethod
    def of_group(cls, group: PodGroup) -> Preemptor:
        return cls(group.uid, name_of_group(group), group.priority)


@dataclass(slots=True)
class _Attempt:
    """The evictions for one preemptor.

    `left`: number of victims that are not deleted yet. `last`: key of the last victim.
    """

    preemptor: Preemptor
    left: int
    last: PodKey


class PreemptionExecutor:
    """Evicts the victims of preemptors. Also the PreEnqueue plugin of DefaultPreemption."""

    name: ClassVar[str] = "DefaultPreemption"

    def __init__(
        self,
        clock: Clock,
        api: ApiServer,
        latencies: Latencies,
        nominated: Callable[[str], Sequence[Pod]],
        group_of: Callable[[Pod], PodGroup | None] = lambda _: None,
    ) -> None:
        """Start without evictions.

        `nominated`: returns the stored Pods that are nominated to a node. `group_of`: returns the PodGroup of a Pod.
        """
        self._clock, self._api, self._latencies, self._nominated = clock, api, latencies, nominated
        self._group_of = group_of
        self._preempting: set[str] = set()
        self._last_victim: dict[str, PodKey] = {}
        """uid of a preemptor whose other victims are deleted -> key of its last victim.

        A Pod that is tried again during its first attempt may have two attempts: the end of the first clears the
        records of both, as in upstream.
        """

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a Pod while evictions for the Pod or its PodGroup are running. Source: upstream
        `IsPodRunningPreemption`.

        Evictions no longer count if all victims but the last are deleted, and the last one is terminating or gone.
        """
        group = self._group_of(pod)
        uid = pod.uid if group is None else group.uid
        if uid not in self._preempting:
            return None
        last = self._last_victim.get(uid)
        victim = None if last is None else self._api.pod(*last)
        if last is None or (victim is not None and not victim.terminating):
            return unresolvable("waiting for the preemption for this pod to be finished")
        return None

    def prepare_candidate(self, candidate: Candidate, preemptor: Pod) -> None:
        self._prepare(candidate.node_name, candidate.victims, Preemptor.of_pod(preemptor))

    def prepare_for_group(self, victims: Sequence[Pod], group: PodGroup) -> None:
        """Evict the victims for a PodGroup on all nodes, the last victim after all others."""
        self._prepare(_CLUSTER, victims, Preemptor.of_group(group))

    def _prepare(self, node: str, pods: Sequence[Pod], preemptor: Preemptor) -> None:
        """Start the evictions of victims that are not terminating. Source: upstream `prepareCandidateAsync`."""
        victims = victims_to_evict(pods)
        if not victims:
            return
        self._preempting.add(preemptor.uid)
        self._clock.spawn(self._run(node, victims, preemptor))

    def _run(self, node: str, victims: list[Pod], preemptor: Preemptor) -> Generator[float | None, None, None]:
        for pod in self._nominated(node):
            if pod.nominated_node_name and loses_nomination(pod, preemptor.priority):
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
        """Evict victims with as many concurrent workers as upstream; continue when all have finished."""
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
        """Set the condition DisruptionTarget of the victim, then delete it. Source: upstream `PreemptPod`.

        The deletion is by name, so it may affect a replacement Pod with the same name.
        """
        key = victim.namespace, victim.name
        if not victim.preempted:
            yield self._latencies.write("patch", victim.key)
            if not self._api.patch_disruption_target(key):
                self._told(attempt)
                return
        yield self._latencies.write("delete", victim.key)
        self._told(attempt)  # who asks for the DELETE hears of it no later than who watches
        self._api.delete_pod(key, "preempted", by=attempt.preemptor.name)

    def _told(self, attempt: _Attempt) -> None:
        attempt.left -= 1
        self._note(attempt)
