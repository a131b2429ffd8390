"""kube-scheduler's cycles of PodGroups in a simulation, the Pods that wait at Permit, and the writes of conditions.

Source: kubernetes `pkg/scheduler/schedule_one_podgroup.go`, plugin GangScheduling (`PreEnqueue`, `Permit`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from forewarn.policies.scheduling.plugins.gang_scheduling import GangScheduling
from forewarn.policies.scheduling.pod_group_cycle import schedule_pod_group
from forewarn.policies.scheduling.pod_groups import CLAIMS, unmodelled_fields
from forewarn.policies.scheduling.queue.events import POD_GROUP_ADD, POD_GROUP_DELETE, POD_GROUP_UPDATE
from forewarn.policies.scheduling.status import Code, unresolvable
from forewarn.policies.simulation.api_server import Condition
from forewarn.policies.simulation.cycle import NotPredicted, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.scheduling.pod_group_cycle import PodGroupResult
    from forewarn.policies.scheduling.pod_group_preemption import GroupPreemption
    from forewarn.policies.scheduling.queue.pod_info import QueuedPodGroupInfo, QueuedPodInfo
    from forewarn.policies.scheduling.queue.priority_queue import PriorityQueue
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.status import Status
    from forewarn.policies.simulation.api_server import ApiServer
    from forewarn.policies.simulation.clock import Clock, Latencies, Task
    from forewarn.policies.simulation.cycle import SchedulingAlgorithm
    from forewarn.policies.simulation.scheduler_cache import SchedulerCache

PERMIT_TIMEOUT: Final = 300.0
"""Seconds that a Pod waits at Permit for the other Pods of its PodGroup."""
_REASONS: Final = {None: "Scheduled", Code.UNSCHEDULABLE: "Unschedulable", Code.ERROR: "SchedulerError"}


class WaitingPods:
    """The Pods that wait at Permit. Source: upstream `waitingPodsMap`."""

    def __init__(self) -> None:
        self._answers: dict[str, str | None] = {}
        """uid -> None while the Pod waits, "" if it is allowed, otherwise the reason for its rejection."""
        self._tasks: dict[str, Task] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._answers

    def add(self, uid: str) -> None:
        self._answers[uid] = None

    def answer(self, uid: str, why: str = "") -> None:
        """End the waiting of a Pod: allow the Pod (`why` ""), or reject it. Only the first call for a Pod counts."""
        if self._answers.get(uid, "") is None:
            self._answers[uid] = why
            if uid in self._tasks:
                self._tasks[uid].wake()

    def wait(self, uid: str, task: Task | None) -> Generator[float | None, None, str]:
        """Wait until a Pod is allowed (returns "") or rejected (returns the reason).

        `task`: the waiting actor, which is woken.
        """
        while (why := self._answers[uid]) is None:
            if task is not None:
                self._tasks[uid] = task
            yield None
        self._tasks.pop(uid, None)
        del self._answers[uid]
        return why


class Loop(Protocol):
    """The part of the simulated Scheduler that PodGroupScheduling uses."""

    clock: Clock
    api: ApiServer
    cache: SchedulerCache
    latencies: Latencies
    algorithm: SchedulingAlgorithm
    queue: PriorityQueue

    def assume(self, info: QueuedPodInfo, node: str) -> None:
        """Treat a Pod as bound to this node from now on."""

    def bind(self, info: QueuedPodInfo, node: str) -> None:
        """Bind a Pod concurrently with the loop."""

    def fail(self, info: QueuedPodInfo, result: Rejected) -> Callable[[], None] | None:
        """Requeue a rejected Pod. Returns a function that stores the Pod's new status; None if the status does
        not change.
        """

    def preempt_for_group(self, preemption: GroupPreemption, group: PodGroup) -> None:
        """Evict the victims of the preemption for a PodGroup."""

    def take_next(self) -> None:
        """Pop the next Pod or PodGroup for the loop, before informers report the last write."""


class PodGroupScheduling:
    """Runs the scheduling cycles of PodGroups for one simulated scheduler. Also the PreEnqueue plugin of
    GangScheduling.
    """

    name: ClassVar[str] = GangScheduling.name

    def __init__(self, scheduler: Loop) -> None:
        self._of = scheduler
        self.waiting = WaitingPods()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a Pod if its PodGroup is missing or has fewer than minCount Pods. Source: upstream `PreEnqueue`."""
        cache, name = self._of.cache, pod.spec.pod_group
        if not name:
            return None
        group = cache.group_of(pod)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        if group.missing(cache.group_states.count((group.namespace, name))):
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def schedule_one(self, info: QueuedPodGroupInfo) -> Generator[float | None, None, None]:
        """Run the cycle of a PodGroup. Source: upstream `scheduleOnePodGroup`."""
        of = self._of
        yield of.latencies.cycle(info.group.key)
        for member in list(info.members):
            if member.pod.terminating or of.cache.is_assumed(member.pod):
                of.queue.done(member.pod)
                info.members.remove(member)
        snapshot = of.cache.snapshot()
        key = info.group.namespace, info.group.name
        group = snapshot.objects.pod_groups.get(key)
        if not info.members or group is None:
            for member in info.members:
                of.fail(member, Rejected(f'podgroup "{info.group.name}" not found', nominated="", error=True))
            self._over(info, None)
            return
        pods = [member.pod for member in info.members]
        _check_modelled(group, pods, snapshot)
        scheduled, order = of.cache.group_states.scheduled(key), of.cache.node_tree.list()
        result = schedule_pod_group(snapshot, group, pods, scheduled, of.algorithm.place, order)
        if result.preemption is not None:
            of.preempt_for_group(result.preemption, group)
        yield from self._submit(info, group, result)

    def handle(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Handle a change of a PodGroup; None: it did not exist or no longer exists."""
        cache, queue = self._of.cache, self._of.queue
        if queue.groups is None:
            if new is not None:
                cache.put_pod_group(new)  # whose Pods are not predicted, unless the gate is off
        elif new is None:
            if old is not None:
                cache.remove_pod_group(old)
                queue.groups.delete_group(old)
                queue.move_all_to_active_or_backoff_queue(POD_GROUP_DELETE, old, None)
        elif old is None:
            cache.put_pod_group(new)
            queue.groups.add_group(new)
            queue.move_all_to_active_or_backoff_queue(POD_GROUP_ADD, None, new)
        elif old is not new:
            cache.put_pod_group(new)
            queue.groups.update_group(new)
            queue.move_all_to_active_or_backoff_queue(POD_GROUP_UPDATE, old, new)

    def _submit(
        self, info: QueuedPodGroupInfo, group: PodGroup, result: PodGroupResult
    ) -> Generator[float | None, None, None]:
        """Bind the Pods of a PodGroup after its cycle, or write their conditions, one after the other.

        The loop waits for each write, and continues before the informers report the write. Source: upstream
        `submitPodGroupAlgorithmResult`.
        """
        of = self._of
        store: Callable[[], None] | None = None
        for member, status in zip(list(info.members), result.members, strict=True):
            if result.code is None and status.node:
                self._assume(member, status.node, group)
                continue
            rejected = Rejected(status.message, status.plugins, status.nominated, error=status.error)
            patch = of.fail(member, rejected)
            if patch is not None:
                if store is not None:
                    store()
                yield of.latencies.write("patch", member.pod.key)
                store = patch
        condition = Condition("True" if result.code is None else "False", _REASONS[result.code], result.message)
        earlier = of.api.pod_groups.condition(group)
        if condition != earlier and not (earlier.status == "True" and condition.status != "True"):
            if store is not None:
                store()
            yield of.latencies.write("patch", group.key)
            store = partial(of.api.pod_groups.set_condition, (group.namespace, group.name), condition)
        self._over(info, result.tried_code)
        if store is not None:
            of.take_next()
            store()

    def _over(self, info: QueuedPodGroupInfo, code: Code | None) -> None:
        assert self._of.queue.groups is not None
        self._of.queue.groups.add_attempted(info, code)

    def _assume(self, member: QueuedPodInfo, node: str, group: PodGroup) -> None:
        """Assume a Pod on its node. The Pod waits at Permit until minCount Pods of its PodGroup are scheduled.

        Source: upstream `prepareForBindingCycle`, GangScheduling `Permit`.
        """
        of, uid = self._of, member.pod.uid
        of.assume(member, node)
        scheduled = of.cache.group_states.scheduled((group.namespace, group.name))
        if group.missing(len(scheduled)):
            self.waiting.add(uid)
            why = f"rejected due to timeout after waiting 5m0s at plugin {self.name}"
            of.clock.at(of.clock.now + PERMIT_TIMEOUT, partial(self.waiting.answer, uid, why))
        else:
            for pod in scheduled:
                self.waiting.answer(pod.uid)
        of.bind(member, node)


def _check_modelled(group: PodGroup, pods: list[Pod], snapshot: Snapshot) -> None:
    """Raise NotPredicted for a PodGroup with unsupported fields, or with volumes or devices to bind."""
    why = unmodelled_fields(group)
    has_claims = any(pod.spec.claims_devices or pod.spec.has_storage for pod in pods)
    if why := why or (CLAIMS if has_claims and _has_open_claims(pods, snapshot) else ""):
        raise NotPredicted(f"not predicted: PodGroup {group.key}: {why}")


def _has_open_claims(pods: list[Pod], snapshot: Snapshot) -> bool:
    claims = snapshot.objects.claims
    for pod in pods:
        if pod.spec.claims_devices:
            return True
        for volume in pod.spec.volumes:
            name = volume.claim_of(pod.name)
            claim = claims.get((pod.namespace, name)) if name else None
            if name and (claim is None or not claim.fully_bound):
                return True
    return False
