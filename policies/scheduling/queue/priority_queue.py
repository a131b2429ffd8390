"""The scheduling queue. Source: kubernetes `pkg/scheduler/backend/queue/scheduling_queue.go`, `active_queue.go`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from policies.scheduling.queue.backoff_queue import BackoffQueue
from policies.scheduling.queue.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
    pod_scheduling_properties_change,
)
from policies.scheduling.queue.pod_info import PodHeap, QueuedPodInfo, UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.objects.pod import Pod
    from policies.scheduling.queue.hints import QueueingHints
    from policies.scheduling.queue.nominator import Nominator
    from policies.scheduling.queue.pod_info import Key

MAX_IN_UNSCHEDULABLE_PODS: Final = 300
"""Seconds after its last attempt after which a rejected pod is tried again whatever happened."""
MOST_ATTEMPTS: Final = 5
"""Failed attempts after which the back-off is the longest, by default: 1, 2, 4, 8 and 10 seconds."""
FLUSH_PERIOD: Final = 30
"""Seconds between two looks for such pods."""


class Strategy(IntEnum):
    """What becomes of a rejected pod when something has happened. Source: upstream `queueingStrategy`."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class PreEnqueue(Protocol):
    """A plugin that may keep a pod out of the queue."""

    name: str

    def pre_enqueue(self, pod: Pod) -> bool:
        """Whether the pod may be tried."""


class InFlightEvent(NamedTuple):
    """Something that happened while a pod was being tried."""

    event: ClusterEvent
    old: Any
    new: Any


def priority_sort(info: QueuedPodInfo) -> tuple[int, float]:
    """Highest priority first, then who has waited longest. Source: upstream `PrioritySort.Less`."""
    return -info.pod.effective_priority, info.timestamp


class PriorityQueue:
    """Pods that wait to be tried, wait a while, or wait for something to happen."""

    def __init__(
        self,
        now: Callable[[], float],
        nominator: Nominator,
        hints: QueueingHints,
        gates: Iterable[PreEnqueue] = (),
        less: Callable[[QueuedPodInfo], Any] = priority_sort,
        backoff: tuple[float, float] = (1, 10),
    ) -> None:
        """`now`: seconds. `gates`: the profile's PreEnqueue plugins. `backoff`: seconds, the first and the longest."""
        self._now, self.nominator, self._hints, self._gates = now, nominator, hints, {g.name: g for g in gates}
        self.active = PodHeap(less)
        self.backoff = BackoffQueue(now, less, *backoff)
        self.unschedulable = UnschedulablePods()
        self._in_flight: dict[str, list[InFlightEvent]] = {}

    # What the scheduling loop does

    def pop(self) -> QueuedPodInfo | None:
        """The next pod to try, from the back-off queue where no other is due; None where nobody waits for a try."""
        info = self.active.pop() or self.backoff.pop()
        if info is not None:
            info.attempts += 1
            self._in_flight[info.pod.identity] = []
        return info

    @property
    def has_next(self) -> bool:
        """Whether `pop` gives a pod."""
        return bool(self.active) or self.backoff.has_next

    def done(self, pod: Pod) -> None:
        """The pod is not being tried any longer."""
        self._in_flight.pop(pod.identity, None)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> None:
        """A pod comes back from an attempt that failed; what happened meanwhile counts."""
        key = info.key
        try:
            if key in self.unschedulable or self.active.get(key) or self.backoff.get(key):
                return
            if info.is_rejected:
                info.unschedulable_count += 1
                info.consecutive_errors = 0
            else:
                info.consecutive_errors += 1
            info.timestamp, info.backoff_expiration = self._now(), None
            self._requeue(info, self._of_what_happened(info), None)
        finally:
            self.done(info.pod)

    def _of_what_happened(self, info: QueuedPodInfo) -> Strategy:
        """Source: upstream `determineSchedulingHintForInFlightPod`."""
        if not info.is_rejected:
            return Strategy.AFTER_BACKOFF
        events = self._in_flight.get(info.pod.identity)
        if events is None:
            return Strategy.AFTER_BACKOFF
        return max((self._is_pod_worth_requeuing(info, *event) for event in events), default=Strategy.SKIP)

    def draw_attempts(self, draw: Callable[[int], int]) -> None:
        """Give each Pod that waits some earlier attempts, which no cluster snapshot has: its back-off depends on them.

        `draw`: a number below this one. From MOST_ATTEMPTS on, the back-off is the longest.
        """
        for info in self.active:
            info.unschedulable_count = draw(MOST_ATTEMPTS)

    # What comes of the API server's news

    def add(self, pod: Pod) -> None:
        """A new pod."""
        self._to_active(QueuedPodInfo(pod, self._now()), UNSCHEDULED_POD_ADD)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod that waits, or is being tried, has changed."""
        events = pod_scheduling_properties_change(new, old)
        in_flight = self._in_flight.get(new.identity)
        if in_flight is not None:
            in_flight.extend(InFlightEvent(event, old, new) for event in events)
            return
        key = old.namespace, old.name
        if self._update_waiting(key, old, new):
            return
        info = self.unschedulable.get(key)
        if info is None:
            self._to_active(QueuedPodInfo(new, self._now()), UNSCHEDULED_POD_UPDATE)
            return
        info.pod = new
        self.nominator.update(old, new)
        for event in events:
            if self._requeue(info, self._is_pod_worth_requeuing(info, event, old, new), event):
                break

    def _update_waiting(self, key: Key, old: Pod, new: Pod) -> bool:
        """Where the pod waits for its turn: whether it does."""
        info = self.active.get(key)
        if info is not None:
            info.pod = new
            self.active.put(info)
        else:
            info = self.backoff.get(key)
            if info is None:
                return False
            info.pod = new
            self.backoff.update(key)
        self.nominator.update(old, new)
        return True

    def delete(self, pod: Pod) -> None:
        """A pod has gone, or was bound."""
        self.nominator.delete(pod)
        key = pod.namespace, pod.name
        if self.active.take(key) is None and self.backoff.delete(key) is None:
            self.unschedulable.take(key)

    def get(self, pod: Pod) -> QueuedPodInfo | None:
        """The pod of this name, None where it is not in, or is being tried."""
        key = pod.namespace, pod.name
        return self.active.get(key) or self.unschedulable.get(key) or self.backoff.get(key)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Try these pods at once, or again once they are back."""
        for pod in pods:
            key = pod.namespace, pod.name
            info = self.unschedulable.get(key)
            from_backoff = info is None
            if info is None:
                info = self.backoff.delete(key)
            if info is not None and self._to_active(info, FORCE_ACTIVATE, from_backoff=from_backoff):
                continue
            in_flight = self._in_flight.get(pod.identity)
            if in_flight is not None:
                in_flight.append(InFlightEvent(FORCE_ACTIVATE, None, pod))

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, check: Callable[[Pod], bool] | None = None
    ) -> None:
        """Something has happened: try those again that wait for it. `check`: only pods for which it holds."""
        if not event.is_wild_card and not self._hints.of(event):
            return
        waiting: Iterable[QueuedPodInfo] = ()
        if event.is_wild_card or self.unschedulable.may_be_woken_by(self._hints.of(event).keys()):
            waiting = [info for info in self.unschedulable.values() if check is None or check(info.pod)]
        self._move(waiting, event, old, new)

    def _move(self, infos: Iterable[QueuedPodInfo], event: ClusterEvent, old: Any, new: Any) -> None:
        """Source: upstream `movePodsToActiveOrBackoffQueue`."""
        interested = None if event.is_wild_card else self._hints.of(event).keys()
        for info in infos:
            if interested is not None and info.rejected_by_others_than(interested):
                continue
            if info.gated and not any(registered.covers(event) for registered in info.gating_events):
                continue
            strategy = self._is_pod_worth_requeuing(info, event, old, new)
            if strategy is not Strategy.SKIP:
                self.unschedulable.take(info.key)
                self._requeue(info, strategy, event)
        for events in self._in_flight.values():
            events.append(InFlightEvent(event, old, new))

    # What comes of time

    def flush_backoff_completed(self) -> None:
        """Upstream does so at every whole second."""
        for info in self.backoff.pop_all_completed():
            self._to_active(info, None, from_backoff=True)

    def flush_unschedulable_leftover(self) -> None:
        """Upstream does so every FLUSH_PERIOD."""
        now = self._now()
        due = [i for i in self.unschedulable.values() if now - i.timestamp > MAX_IN_UNSCHEDULABLE_PODS]
        if due:
            self._move(due, UNSCHEDULABLE_TIMEOUT, None, None)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """All pods but those that are being tried."""
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable.values()

    # Its own parts

    def _requeue(self, info: QueuedPodInfo, strategy: Strategy, event: ClusterEvent | None) -> bool:
        """Whether it waits for its turn now. Source: upstream `requeuePodWithQueueingStrategy`."""
        if strategy is Strategy.SKIP:
            self.unschedulable[info.key] = info
            return False
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_pod_backing_off(info):
            return self._to_backoff(info)
        return self._to_active(info, event)

    def _to_active(self, info: QueuedPodInfo, event: ClusterEvent | None, *, from_backoff: bool = False) -> bool:
        """Source: upstream `moveToActiveQ`; who comes from the back-off queue was let into that."""
        key = info.key
        if not from_backoff and not self._pass_gates(info):
            if self.active.get(key) is None and self.backoff.get(key) is None:
                self.unschedulable[key] = info
            return False
        self.unschedulable.take(key)
        self.backoff.delete(key)
        self.active.put(info)
        if event in (UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE):
            self.nominator.add(info.pod)
        return True

    def _to_backoff(self, info: QueuedPodInfo) -> bool:
        """Source: upstream `moveToBackoffQ`."""
        if not self._pass_gates(info):
            self.unschedulable[info.key] = info
            return False
        self.unschedulable.take(info.key)
        self.backoff.add(info)
        return True

    def _pass_gates(self, info: QueuedPodInfo) -> bool:
        """Source: upstream `runPreEnqueuePlugins`: the plugin that kept it out is asked first."""
        first = [self._gates[info.gating_plugin]] if info.gating_plugin in self._gates else []
        for gate in (*first, *(gate for gate in self._gates.values() if gate not in first)):
            if not gate.pre_enqueue(info.pod):
                info.unschedulable_plugins.add(gate.name)
                info.gating_plugin, info.gating_events = gate.name, self._hints.events_of(gate.name)
                return False
        info.gating_plugin = ""
        return True

    def _is_pod_worth_requeuing(self, info: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Source: upstream `isPodWorthRequeuing`."""
        rejected, pending = info.unschedulable_plugins, info.pending_plugins
        if not rejected and not pending:
            return Strategy.AFTER_BACKOFF
        if event.is_wild_card:
            return Strategy.SKIP if new is not None and new.identity != info.pod.identity else Strategy.AFTER_BACKOFF
        found = Strategy.SKIP
        for plugin, hints in self._hints.of(event).items():
            if (plugin in rejected or plugin in pending) and any(hint(info.pod, old, new) for hint in hints):
                if plugin in pending:
                    return Strategy.IMMEDIATELY
                if not pending:
                    return Strategy.AFTER_BACKOFF
                found = Strategy.AFTER_BACKOFF
        return found
