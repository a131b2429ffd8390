"""The kube-controller-manager of recorded scenarios: one actor that processes changes one after the other.

It processes changes in the order in which the API server stores them: for each change first the kubelet, then the PDBs,
then the workload's controller. Events at set times (a Pod has terminated, a delayed sync, garbage collection) follow
after all changes are processed. ReplicaSets and StatefulSets delete no Pods.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.controllers.taint_eviction import collect
from forewarn.policies.kubernetes.controllers.view import CreatePod, DeletePod, controller_of
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, DISRUPTION_BUDGET, REPLICA_SET
from forewarn.policies.prediction.simulation.api_server import Change
from forewarn.policies.prediction.simulation.controller_manager import (
    ControllerManager,
    PodGarbageCollector,
    delay_of,
    termination_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from forewarn.policies.kubernetes.controllers.view import Action, Key, PodState, SetStatus
    from forewarn.policies.prediction.simulation.api_server import ApiServer, ControllerView
    from forewarn.policies.prediction.simulation.clock import Clock, Latencies

    Steps = Generator[float | None, None, None]

ARRIVAL: Final = 1e-3
"""Seconds between an arrival and the reactions to it."""
_SIZED: Final = ("apps/ReplicaSet", "apps/StatefulSet")


class RecordedControllers(ControllerManager):
    """The controllers and kubelets of recorded scenarios."""

    def __init__(self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies) -> None:
        super().__init__(clock, api, view, latencies)
        self._due: deque[Callable[[], Steps]] = deque()
        self._timers: deque[Callable[[], Steps]] = deque()
        self._arriving: list[Change] | None = None
        self._pod_gc = _Collector(self)
        self._task = clock.spawn(self._run())

    def _run(self) -> Steps:
        while True:
            waiting = self._due or self._timers
            if waiting:
                yield from waiting.popleft()()
            else:
                yield None

    def _put(self, due: Callable[[], Steps]) -> None:
        self._due.append(due)
        self._task.wake()

    def put_timer(self, due: Callable[[], Steps]) -> None:
        """Do this when no change waits."""
        self._timers.append(due)
        self._task.wake()

    def start(self) -> None:
        for key in list(self.api.workloads):
            self._count_pods(key)
        self.api.watchers.append(self._handle)
        for state in [state for state in self.api.pods.values() if state.terminating]:
            self._terminate(state)
        for key in self.api.workloads:
            if key[0] != DISRUPTION_BUDGET:
                self._sync_now(key)

    def arrive(self, change: Callable[[], None]) -> None:
        """Put the change first in the queue, and apply it when the queue reaches it."""
        self._due.appendleft(partial(self._arrived, change))
        self._task.wake()

    def _arrived(self, change: Callable[[], None]) -> Steps:
        self._arriving = changes = list[Change]()
        change()
        self._arriving = None
        for each in changes:
            yield from self._deal_with(each)
        yield from self._all_pdbs()
        yield ARRIVAL

    def _pod_changed(self, change: Change) -> None:
        self._pod_written(change)
        self._put(partial(self._deal_with, change))

    def _other_changed(self, change: Change) -> None:
        if self._arriving is not None:
            self._arriving.append(change)
        else:
            self._put(partial(self._deal_with, change))

    _node_changed = _workload_changed = _other_changed

    def _deal_with(self, change: Change) -> Steps:
        old, new = change.old, change.new
        if change.kind == "Pod":
            yield from self._pod(old, new)
        elif change.kind == "Node":
            if new is None:
                self._pod_gc.node_removed()
            for key in self.api.keys_of(DAEMON_SET):
                yield from self._sync(key)
        elif new is None:
            yield from self._workload_deleted(old)
        elif new.key[0] != DISRUPTION_BUDGET:
            if old is None:
                self._count_pods(new.key)
            yield from self._sync(new.key)
            self._wake_controller(new.key)

    def _pod(self, old: PodState | None, new: PodState | None) -> Steps:
        if new is not None and new.terminating and not (old is not None and old.terminating):
            self._terminate(new)
        state = new or old
        assert state is not None
        for key in self.api.pdbs_of(state.pod.namespace, state.pod.labels):
            yield from self._sync(key)
        owner = controller_of(state.pod)
        if owner is None:
            return
        delay = delay_of(self.api, owner)
        if delay:
            self._requeue(owner, self.clock.now + delay)
        else:
            yield from self._sync(owner)
        self._wake_reader(owner)

    def _all_pdbs(self) -> Steps:
        if self._seen != self.api.revision:
            self._seen = self.api.revision
            for key in self.api.keys_of(DISRUPTION_BUDGET):
                if key not in self._idle:
                    yield from self._sync(key)

    def _finished(self, state: PodState) -> float | None:
        return state.finished

    def _terminate(self, state: PodState) -> None:
        ends = self.clock.now + termination_seconds(state)
        key, uid = (state.pod.namespace, state.pod.name), state.pod.uid
        self.terminations[uid] = ends

        def terminated() -> Steps:
            self._terminated(key, uid)
            yield from ()

        self.clock.schedule(ends, partial(self.put_timer, terminated))

    def _are_idle(self, state: PodState) -> bool:
        return False

    def _sync_due(self, key: Key, time: float) -> None:
        if self._delayed.get(key) == time:
            self.put_timer(partial(self._sync_later, key))

    def _sync_now(self, key: Key) -> None:
        self._put(partial(self._sync_later, key))

    def _sync_later(self, key: Key) -> Steps:
        self._delayed.pop(key, None)
        yield from self._sync(key)

    def _sync(self, key: Key) -> Steps:
        """Sync now. A ReplicaSet counts its Pods again after each new Pod."""
        if (actions := self._actions_for(key)) is None:
            return
        yield from self._carry_out(key, actions)
        if key[0] == REPLICA_SET and any(isinstance(action, CreatePod) for action in actions):
            yield from self._sync(key)

    def _carry_out(self, key: Key, actions: Sequence[Action]) -> Steps:
        self.rejections.begin(key, sum(isinstance(action, CreatePod) for action in actions))
        for action in actions:
            sizes_down = isinstance(action, DeletePod) and key[0] in _SIZED
            if not (sizes_down or (isinstance(action, CreatePod) and self.rejections.stops(key))):
                yield from self._apply(action)
        self._schedule_retry(key)

    def _set_status(self, action: SetStatus) -> Steps:
        if action.key[0] == DISRUPTION_BUDGET:
            yield self._written_in("status", action.key)
        self._store_status(action)

    def _written_in(self, verb: str, key: Key) -> float:
        return self.latencies.write("create" if verb == "create" else "update", key[2])

    def _create(self, action: CreatePod) -> Steps:
        if not action.pod.name:
            action = action._replace(pod=replace(action.pod, name=self._name(action)))
        yield from super()._create(action)


class _Collector(PodGarbageCollector):
    """Garbage collection of Pods that deletes a Pod in one write."""

    def __init__(self, manager: RecordedControllers) -> None:
        super().__init__(manager)
        self._actor = manager

    def _run(self) -> None:
        self._actor.put_timer(self.collect)

    def collect(self) -> Steps:
        api = self._manager.api
        pods = api.strays()
        deletes, self._quarantine = collect(pods, api.nodes, self._quarantine, api.seconds)
        for action in sorted(deletes, key=lambda action: self._manager.view.lot(action.name)):
            pod = api.pod(action.namespace, action.name)
            bound = pod is not None and bool(pod.node_name)
            yield from self._manager.delete(action, message="pod garbage collector", disrupted=bound)
        if self._quarantine or any(state.pod.node_name for state in pods):
            self._arrange()
        else:
            self._runs = False
