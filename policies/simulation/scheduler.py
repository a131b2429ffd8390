"""kube-scheduler at work: its loop, its binding cycles, and what it makes of news.

Source: kubernetes `pkg/scheduler/schedule_one.go`, `eventhandlers.go`.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

from policies.profiles import DEFAULT_SCHEDULER
from policies.scheduling.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    CLAIM_ADD,
    CLAIM_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    VOLUME_ADD,
    VOLUME_UPDATE,
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from policies.scheduling.queue.hints import QueueingHints
from policies.scheduling.queue.nominator import Nominator
from policies.scheduling.queue.priority_queue import FLUSH_PERIOD, PriorityQueue
from policies.semantics import DEFAULT
from policies.simulation.api_server import BUDGET, Stored
from policies.simulation.cycle import Rejected, SchedulingAlgorithm, volumes_on
from policies.simulation.preemption_executor import PreemptionExecutor
from policies.simulation.volume_binder import VolumeBinder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from collections.abc import Set as AbstractSet

    from policies.controllers.view import PodState
    from policies.objects.node import Node
    from policies.objects.pod import Pod
    from policies.objects.storage import PersistentVolumeClaim
    from policies.scheduling.plugins.storage_score import PodVolumes
    from policies.scheduling.preemption import Candidate
    from policies.scheduling.queue.pod_info import QueuedPodInfo
    from policies.semantics import Semantics
    from policies.simulation.api_server import ApiServer, Change
    from policies.simulation.clock import Clock
    from policies.simulation.latencies import Latencies
    from policies.simulation.scheduler_cache import SchedulerCache

QUEUE_STARTS: Final = -0.5
"""When the queue's own loops begin, in seconds."""
_UNSCHEDULABLE: Final = "Unschedulable"
_ERROR: Final = "SchedulerError"
_NOTHING_STORED: Final = Stored()
Steps = "Generator[float | None, None, None]"


class SchedulingGates:
    """PreEnqueue of the plugin of that name."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> bool:
        """Not while a gate is left."""
        return not pod.spec.gated


class Scheduler:
    """One scheduler. `choose`, `tie`: as SchedulingAlgorithm has them; `semantics`: its release and configuration."""

    def __init__(
        self,
        clock: Clock,
        api: ApiServer,
        cache: SchedulerCache,
        latencies: Latencies,
        choose: Callable[[Sequence[str]], str],
        tie: Callable[[Sequence[str]], str] | None = None,
        semantics: Semantics = DEFAULT,
    ) -> None:
        self._names, self._announces = semantics.scheduler_names, semantics.coming_bindings_are_announced
        self._binder = VolumeBinder(clock, api, cache, latencies, semantics)
        self._clock, self._api, self._cache, self._latencies = clock, api, cache, latencies
        self._algorithm = SchedulingAlgorithm(cache.node_tree, choose, tie)
        self.nominator = Nominator(api.pod, cache.nominate)
        executor = PreemptionExecutor(clock, api, latencies, self._nominated)
        self._executor = executor
        gates = (SchedulingGates(), executor)
        waits, hints = seconds_of_backoff(semantics), QueueingHints.of_profiles(semantics)
        self.queue = PriorityQueue(lambda: clock.now, self.nominator, hints, gates, backoff=waits)
        self.broken_budgets: dict[str, int] = {}
        """`namespace/name` of a disruption budget -> how many pods were evicted that it did not allow."""
        self.before_preemption: Callable[[Candidate, Pod], None] | None = None
        """Told of each preemption before anybody is evicted: whom, and for which pod."""
        self._flush_due = self._backoff_due = float("inf")
        self._taken: QueuedPodInfo | None = None
        """The pod that the loop went on to."""
        api.watchers.append(self.handle)
        self._loop = clock.spawn(self._run())

    def _nominated(self, node: str) -> list[Pod]:
        """The pods of the queue that are nominated to a node, as they are stored. Source: `nominatedPodToInfo`: of one
        that is being tried upstream knows the name alone."""
        infos = (self.queue.get(pod) for pod in self.nominator.pods_for_node(node))
        return [info.pod for info in infos if info is not None]

    # The loop

    def _run(self) -> Generator[float | None, None, None]:
        while True:
            info, self._taken = self._taken or self.queue.pop(), None
            if info is None:
                self._arrange_flushes()
                yield None
            elif self._cache.is_assumed(info.pod):
                self.queue.done(info.pod)
            else:
                yield from self._schedule_one(info)

    def _schedule_one(self, info: QueuedPodInfo) -> Generator[float | None, None, None]:
        yield self._latencies.cycle(info.pod.key)
        snapshot = self._cache.snapshot()
        result = self._algorithm.schedule_pod(snapshot, info.pod)
        if isinstance(result, Rejected):
            if result.candidate is not None:
                for name, count in result.broken:
                    self.broken_budgets[name] = self.broken_budgets.get(name, 0) + count
                if self.before_preemption is not None:
                    self.before_preemption(result.candidate, info.pod)
                self._executor.prepare_candidate(result.candidate, info.pod)
            yield from self._handle_failure(info, result, in_loop=True)
            return
        volumes = volumes_on(snapshot, info.pod, result.node)
        self._cache.assume(info.pod, result.node)
        if volumes is not None:
            self._binder.assume(volumes, result.node)
        self.nominator.delete(info.pod)
        self.queue.done(info.pod)
        self._clock.spawn(self._bind(info, result.node, volumes))

    def _bind(self, info: QueuedPodInfo, node: str, volumes: PodVolumes | None) -> Generator[float | None, None, None]:
        """The binding cycle, beside the loop."""
        pod, message = info.pod, ""
        if volumes is not None:
            if self._announces and pod.nominated_node_name != node:
                yield self._latencies.write("patch", pod.key)
                self._api.patch_pod_status((pod.namespace, pod.name), None, node)
            message = yield from self._binder.bind(pod, node, volumes)
        if not message:
            yield self._latencies.write("bind", pod.key)
            if self._api.bind(pod, node):
                return
            message = f"binding rejected: pod {pod.key} is being deleted or gone"
        if volumes is not None:
            self._binder.revert(volumes)
        if self._cache.forget(pod):
            self._move(ASSIGNED_POD_DELETE, pod.bound_to(node, {}), None)
        yield from self._handle_failure(info, Rejected(message, nominated="", error=True))

    def _handle_failure(
        self, info: QueuedPodInfo, result: Rejected, *, in_loop: bool = False
    ) -> Generator[float | None, None, None]:
        """Source: upstream `handleSchedulingFailure`: back to the queue first, then the pod's status.

        The loop waits for the write, and takes the next pod before the informers bring the news of it.
        """
        info.unschedulable_plugins, info.pending_plugins = set(result.plugins), set()
        stored = self._api.pod(info.pod.namespace, info.pod.name)
        if stored is not None and not stored.node_name:
            if stored.uid != info.pod.uid:
                self.queue.done(info.pod)
                return
            info.pod = stored
            self.queue.add_unschedulable_if_not_present(info)
            self._woken()
        else:
            self.queue.done(info.pod)
        pod = info.pod
        self.nominator.add(pod, result.nominated)
        self._api.timeline.add("unschedulable", pod.key, message=result.message)
        condition = (_ERROR if result.error else _UNSCHEDULABLE, result.message)
        told = self._api.stored.get(pod.uid, _NOTHING_STORED).condition == condition
        nominates = result.nominated is not None and result.nominated != pod.nominated_node_name
        if told and not nominates:
            return
        yield self._latencies.write("patch", pod.key)
        if in_loop:
            self._taken = self.queue.pop()
        self._api.patch_pod_status((pod.namespace, pod.name), condition, result.nominated if nominates else None)

    # News

    def handle(self, change: Change) -> None:
        """Something was stored."""
        if change.kind == "Pod":
            if not (change.new or change.old).pod.terminal:
                self._handle_pod(change.old, change.new)
        elif change.kind == "Node":
            self._handle_node(change.old, change.new)
        elif change.kind == "Claim":
            self._handle_claim(change.old, change.new)
        elif change.kind == "Volume":
            self._cache.put_volume(change.new)
            self._move(VOLUME_ADD if change.old is None else VOLUME_UPDATE, change.old, change.new)
        elif change.new is None:
            self._cache.remove_workload(change.old)
        elif change.kind != "Status" or change.new.key[0] == BUDGET:  # of others plugins read no status
            self._cache.put_workload(change.new)
        self._woken()

    def _handle_pod(self, old: PodState | None, new: PodState | None) -> None:
        """Pods that have ended are not in upstream's informer."""
        if new is None:
            if old is not None:
                self._pod_gone(old.pod)
        elif old is None:
            self._pod_came(new.pod)
        elif old.pod.node_name:
            self._bound_pod_changed(old.pod, new.pod)
        elif new.pod.node_name:
            self._cache.add_pod(new.pod)
            self._move(ASSIGNED_POD_ADD, None, new.pod)
            self.queue.delete(old.pod)
        elif is_responsible_for(old.pod, self._names):
            self._waiting_pod_changed(old.pod, new.pod)

    def _pod_came(self, pod: Pod) -> None:
        if pod.node_name:
            self._cache.add_pod(pod)
            self._move(ASSIGNED_POD_ADD, None, pod)
        elif is_responsible_for(pod, self._names):
            self.queue.add(pod)

    def _pod_gone(self, pod: Pod) -> None:
        if pod.node_name:
            self._cache.remove_pod(pod)
            self._move(ASSIGNED_POD_DELETE, pod, None)
            return
        self.queue.delete(pod)
        if self._cache.is_assumed(pod):
            self._cache.forget(pod)
            self._move(ASSIGNED_POD_DELETE, pod, None)
        elif pod.nominated_node_name:
            self._move(ASSIGNED_POD_DELETE, pod, None, _up_to(pod))

    def _bound_pod_changed(self, old: Pod, new: Pod) -> None:
        self._cache.add_pod(new)
        for event in pod_scheduling_properties_change(new, old):
            self._move(event, old, new)

    def _waiting_pod_changed(self, old: Pod, new: Pod) -> None:
        """Source: upstream `updatePodInSchedulingQueue`."""
        if self._cache.is_assumed(new):
            return
        self.queue.update(old, new)
        if old.nominated_node_name and old.nominated_node_name != new.nominated_node_name:
            self._move(ASSIGNED_POD_DELETE, old, None, _up_to(old))

    def _handle_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._move(NODE_DELETE, old, None)
                self._cache.remove_node(old.name)
            return
        self._cache.put_node(new)
        events = [NODE_ADD] if old is None else node_scheduling_properties_change(new, old)
        for event in events:
            self._move(event, old, new)

    def _handle_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._cache.put_claim(new)
            self._move(CLAIM_ADD if old is None else CLAIM_UPDATE, old, new)
        elif old is not None:
            self._cache.remove_claim(old)

    def _move(self, event: Any, old: Any, new: Any, check: Callable[[Pod], bool] | None = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, check)

    # Time

    def _woken(self) -> None:
        """Let the loop look, where it would find a pod, or has to arrange for another look. One at work does."""
        if not self._loop.parked:
            return
        if self.queue.has_next or self._backoff_to_arrange() is not None or self._flush_is_to_arrange():
            self._loop.wake()

    def _arrange_flushes(self) -> None:
        """See to it that the queue looks again when the next pod is due: upstream looks at every whole second, and
        every 30 s."""
        now, due = self._clock.now, self._backoff_to_arrange()
        if due is not None:
            self._backoff_due = max(due, floor(now) + 1.0)
            self._clock.at(self._backoff_due, self._flush_backoff)
        if self._flush_is_to_arrange():
            rounds = floor((now - QUEUE_STARTS) / FLUSH_PERIOD) + 1
            oldest = min(info.timestamp for info in self.queue.unschedulable.values()) + 300
            rounds = max(rounds, ceil((oldest - QUEUE_STARTS) / FLUSH_PERIOD))
            self._flush_due = QUEUE_STARTS + FLUSH_PERIOD * rounds
            self._clock.at(self._flush_due, self._flush_unschedulable)

    def _backoff_to_arrange(self) -> float | None:
        """When the first pod's back-off is over, where nothing is arranged for that."""
        due = self.queue.backoff.first_completed()
        return None if due is None or self._clock.now <= self._backoff_due <= due + 1 else due + 1

    def _flush_is_to_arrange(self) -> bool:
        return bool(self.queue.unschedulable) and not self._clock.now < self._flush_due < float("inf")

    def _flush_backoff(self) -> None:
        self._backoff_due = float("inf")
        self.queue.flush_backoff_completed()
        self._woken()

    def _flush_unschedulable(self) -> None:
        self._flush_due = float("inf")
        self.queue.flush_unschedulable_leftover()
        self._woken()


def is_responsible_for(pod: Pod, names: AbstractSet[str] = frozenset((DEFAULT_SCHEDULER,))) -> bool:
    """Whether it is a pod of this scheduler, whose profiles have these names, and nothing in it is beyond what is
    modelled. Source: `responsibleForPod`."""
    return (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in names and not pod.spec.claims_devices


def seconds_of_backoff(semantics: Semantics) -> tuple[float, float]:
    """(podInitialBackoffSeconds, podMaxBackoffSeconds)."""
    configured = semantics.scheduler
    if configured is None:
        return 1, 10
    return configured.pod_initial_backoff_seconds, configured.pod_max_backoff_seconds


def _up_to(pod: Pod) -> Callable[[Pod], bool]:
    """Pods of this one's priority and below. Source: upstream `getLEPriorityPreCheck`."""
    return lambda other: other.effective_priority <= pod.effective_priority
