"""The simulated kubelets and kube-controller-manager: all components except the scheduler, one write after the other.

They process changes in the order in which the API server stores them: for each change first the kubelet (in recorded
scenarios; otherwise kubelets are independent), then the PDBs, then the workload's controller. Events at set times (a
Pod has terminated, a delayed sync, garbage collection) follow after all changes are processed.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import floor
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.controllers import reconcile
from forewarn.policies.controllers.actions import CreatePod, DeletePod, Requeue, SetStatus
from forewarn.policies.controllers.daemon_set import is_rolled_out, triggers_sync
from forewarn.policies.controllers.view import controller_of
from forewarn.policies.copies import replace
from forewarn.policies.kinds.registry import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.simulation.api_server import Change
from forewarn.policies.simulation.controller_queue import (
    NOT_WATCHED,
    Arrive,
    Collect,
    Due,
    PodFinished,
    Sync,
    delay_of,
    error_message,
    reader_of,
    seconds_to_read,
)
from forewarn.policies.simulation.controller_writes import REVISED, ControllerWrites
from forewarn.policies.simulation.pod_garbage_collector import PodGarbageCollector
from forewarn.policies.simulation.workload_index import PDB

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from forewarn.policies.controllers.actions import Action
    from forewarn.policies.controllers.view import Key, PodState, WorkloadState
    from forewarn.policies.objects.node import Node
    from forewarn.policies.simulation.api_server import ApiServer
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.controller_view import ControllerView
    from forewarn.policies.simulation.latencies import Latencies


TERMINATION_SECONDS: Final = "terminationSeconds"
"""Annotation of a Pod template in a simulation: seconds until a Pod has terminated, if less than its grace period."""


def termination_seconds(state: PodState) -> float:
    """Return the seconds from the deletion of a Pod until it has terminated: the grace period, or less by
    TERMINATION_SECONDS.
    """
    grace = float(state.pod.spec.termination_grace_period)
    template: Mapping[str, Any] = state.template or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        seconds = float(annotations[TERMINATION_SECONDS])
    except (KeyError, TypeError, ValueError):
        return grace
    return seconds if 0 <= seconds < grace else grace  # who writes `nan` or less than nothing has said nothing


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(
        self,
        clock: Clock,
        api: ApiServer,
        view: ControllerView,
        latencies: Latencies,
        due: Callable[[PodFinished], None] | None,
    ) -> None:
        """`due`: in recorded scenarios, called when a Pod has terminated; the callee then calls `pod_terminated`."""
        self._clock, self._api, self._view, self._latencies, self._due = clock, api, view, latencies, due
        self.terminations: dict[str, float] = {}
        """uid of a deleted Pod -> time in simulated seconds at which it has terminated."""

    def pod_deleted(self, state: PodState) -> None:
        """Schedule the removal of a Pod for the time when it has terminated. The kubelet notices the deletion now."""
        uid, key = state.pod.uid, (state.pod.namespace, state.pod.name)
        ends = self._clock.now + termination_seconds(state)
        self.terminations[uid] = ends
        if self._due is not None:
            self._clock.at(ends, partial(self._due, PodFinished(key, uid)))
        else:
            seconds = self._latencies.write("kubelet", state.pod.key)
            self._clock.at(ends + seconds, partial(self.pod_terminated, key, uid))

    def pod_terminated(self, key: tuple[str, str], uid: str) -> None:
        """Remove a Pod from the stored objects."""
        self.terminations.pop(uid, None)
        self._api.remove_pod(key, uid)

    def pod_removed(self, state: PodState) -> None:
        """Store a removed Pod for its Job, with the time at which its kubelet reported the termination. Source:
        pkg/controller/job `getFinishedTime`.
        """
        owner = controller_of(state.pod)
        if owner is not None and owner[0] == JOB and owner in self._api.workloads:
            ended = float(floor(self._api.seconds)) if self._due is None else state.finished
            self._view.keep(owner, replace(state, removed=True, finished=ended))


_CALM: Final = (PDB, DEPLOYMENT, "apps/ReplicaSet", "apps/StatefulSet", "/ReplicationController")
"""Kinds whose sync has no side effect if there is nothing to do; others draw random numbers, or depend on time."""
_SIZED: Final = ("apps/ReplicaSet", "apps/StatefulSet")
ARRIVAL: Final = 1e-3
"""Seconds between an arrival and the reactions to it."""


class ControllerManager(ControllerWrites):
    """One actor of the simulation that processes changes in order, for kubelets and all controllers."""

    def __init__(
        self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies, *, grows_only: bool = False
    ) -> None:
        """Start without pending work.

        `grows_only`: the rules of recorded scenarios: ReplicaSets and StatefulSets delete no Pods, kubelets are part of
        this actor, and Pod garbage collection deletes a Pod in one write.
        """
        super().__init__(clock, api, view, latencies, grows_only=grows_only)
        self._due: deque[Due] = deque()
        self._timers: deque[Due] = deque()
        self._arriving: list[Change] | None = None
        self._delayed: dict[Key, float] = {}
        self._collected: set[Key] = set()
        """Workloads whose dependents are being garbage-collected."""
        self._pod_gc = PodGarbageCollector(self, partial(self._put_timer, Collect()))
        self._idle: set[Key] = set()
        """Objects whose last sync had nothing to do, without a change since."""
        self._rolled_out: set[Key] = set()
        """DaemonSets whose last sync had nothing to do; since then only Pods on removed nodes changed."""
        self._seen = -1
        """The API server's revision at the last update of all PDBs."""
        self._kubelets = Kubelets(clock, api, view, latencies, self._put_timer if grows_only else None)
        self.terminations = self._kubelets.terminations
        self.unreadable: dict[Key, str] = {}
        """Key of an object that its controller cannot read -> the error."""
        self._task = clock.spawn(self._run())

    @property
    def may_try_again(self) -> bool:
        """Whether a workload with rejected Pods waits to retry, and Pods were removed since the rejection."""
        return self.rejections.may_be_over

    def start(self) -> None:
        """Sync every workload, watch changes, and schedule the removal of Pods that are already terminating."""
        for key in list(self.api.workloads):
            self._count_pods(key)
        self.api.watchers.append(self._handle)
        for state in [state for state in self.api.pods.values() if state.terminating]:
            self._kubelets.pod_deleted(state)
        keys = [key for key in self.api.workloads if key[0] != PDB]
        if not self.grows_only:  # as the API server lists them, by namespace and name
            keys.sort(key=lambda key: key[1:])
        self._put(*map(Sync, keys))

    def take_on(self, keys: Sequence[Key]) -> None:
        """Sync workloads that were loaded with their Pods during the simulation. `keys`: of the workloads."""
        for key in keys:
            self._count_pods(key)
        self._set_statuses(key for key in keys if key[0] in REVISED)
        self._put(*(Sync(key) for key in keys))

    def set_statuses(self) -> None:
        """Set the status of every PDB, StatefulSet and DaemonSet before the simulation starts."""
        self._set_statuses([key for kind in (*REVISED, PDB) for key in self.api.keys_of(kind)])

    def _set_statuses(self, keys: Iterable[Key]) -> None:
        for key in keys:
            try:
                actions = reconcile(self.view, key, self.api.seconds)
            except InvalidObject as error:
                self.unreadable[key] = error_message(self.api, key, error)
                continue
            for action in actions:
                if isinstance(action, SetStatus):
                    self.api.set_status(key, action.status)

    def _handle(self, change: Change) -> None:
        if change.kind in NOT_WATCHED:
            return
        if change.kind == "Pod":
            if change.new is change.old and self._are_idle(change.new):
                return
            self._pod_written(change)
        else:
            self._rolled_out.clear()
            if change.kind != "Node":  # no controller of _CALM reads nodes
                self._idle.clear()
        if self._arriving is not None and change.kind != "Pod":
            self._arriving.append(change)
        else:
            self._put(change)

    def _pod_written(self, change: Change) -> None:
        """Record which syncs a change of a Pod makes necessary, and tell the kubelets."""
        old, new = change.old, change.new
        if new is not old:  # PDBs that no longer select the Pod are included
            for state in (old, new):
                if state is not None:
                    self._idle.difference_update(self.api.pdbs_of(state.pod.namespace, state.pod.labels))
        owner = controller_of((new or old).pod)
        if owner in self._rolled_out and not (self._is_lost(old) and self._is_lost(new)):
            self._rolled_out.discard(owner)
        if new is None:
            self._kubelets.pod_removed(old)
        elif not self.grows_only and new.terminating and not (old and old.terminating):
            self._kubelets.pod_deleted(new)

    def _is_lost(self, state: PodState | None) -> bool:
        """Report whether a Pod is on a node that does not exist; True for None (no Pod)."""
        return state is None or bool(state.pod.node_name and state.pod.node_name not in self.api.nodes)

    def arrive(self, change: Callable[[], None]) -> None:
        """Apply a user's change now; controllers process the change after earlier arrivals, before other queued work.

        With `grows_only`, put the change first in the queue, and apply it when the queue reaches it.
        """
        if self.grows_only:
            self._due.appendleft(Arrive(lambda: self._changes_of(change)))
        else:
            changes = self._changes_of(change)
            place = next((place for place, due in enumerate(self._due) if not isinstance(due, Arrive)), len(self._due))
            self._due.insert(place, Arrive(lambda: changes))
        self._task.wake()

    def _changes_of(self, change: Callable[[], None]) -> list[Change]:
        self._arriving = changes = list[Change]()
        change()
        self._arriving = None
        return changes

    def _put(self, *due: Due) -> None:
        self._due.extend(due)
        self._task.wake()

    def _put_timer(self, due: Due) -> None:
        self._timers.append(due)
        self._task.wake()

    # The actor

    def _run(self) -> Generator[float | None, None, None]:
        while True:
            waiting = self._due or self._timers
            if waiting:
                yield from self._deal_with(waiting.popleft())
            else:
                yield None

    def _deal_with(self, due: Due) -> Generator[float | None, None, None]:
        if isinstance(due, Sync):
            self._delayed.pop(due.key, None)
            yield from self._sync(due.key)
        elif isinstance(due, Collect):
            yield from self._pod_gc.collect()
        elif isinstance(due, PodFinished):
            self._kubelets.pod_terminated(due.key, due.uid)
        elif isinstance(due, Arrive):
            yield from self._arrived(due.change)
        elif due.kind == "Pod":
            yield from self._pod_changed(due.old, due.new)
        elif due.kind == "Node":
            yield from self._node_changed(due.old, due.new)
        else:
            yield from self._workload_changed(due.old, due.new)

    def _arrived(self, change: Callable[[], list[Change]]) -> Generator[float | None, None, None]:
        """Apply a user's change (`change`), process the resulting changes before other work, then pause for
        ARRIVAL seconds.
        """
        for what in change():
            yield from self._deal_with(what)
        yield from self._reconcile_all_pdbs()
        yield ARRIVAL

    def _pod_changed(self, old: PodState | None, new: PodState | None) -> Generator[float | None, None, None]:
        if self.grows_only and new is not None and new.terminating and not (old is not None and old.terminating):
            self._kubelets.pod_deleted(new)
        state = new if new is not None else old
        if state is None:
            return
        yield from self._reconcile_pdbs(state)
        owner = controller_of(state.pod)
        if owner is not None:
            yield from self._sync_after(owner)
            self._wake_reader(owner)

    def _node_changed(self, old: Node | None, new: Node | None) -> Generator[float | None, None, None]:
        """Sync the DaemonSets that a changed node affects; in recorded scenarios all DaemonSets, also for a
        deleted node.
        """
        if new is None:
            self._pod_gc.node_removed()
        keys = self.api.keys_of(DAEMON_SET)
        if not self.grows_only:  # upstream `syncNodeUpdate` lists them in the order of a Go map
            keys.sort(key=lambda key: self.view.lot(key[2]))
            keys = [key for key in keys if new is not None and self._triggers_sync(key, old, new)]
        for key in keys:
            yield from self._sync(key)

    def _triggers_sync(self, key: Key, old: Node | None, new: Node) -> bool:
        try:
            return triggers_sync(self.view, key, old, new)
        except InvalidObject:
            return True  # its sync notes why

    def _workload_changed(
        self, old: WorkloadState | None, new: WorkloadState | None
    ) -> Generator[float | None, None, None]:
        if new is None:
            if old is not None and old.controller not in self._collected:
                yield from self._collect_garbage(old.key)
        elif new.key[0] != PDB:
            if old is None:
                self._count_pods(new.key)
            yield from self._sync(new.key)
            self._wake_controller(new.key)

    def _collect_garbage(self, key: Key) -> Generator[float | None, None, None]:
        """Delete the dependents of a deleted workload, the oldest first: Jobs or ReplicaSets with their Pods,
        then its own Pods.
        """
        self.view.forget(key)
        self._collected.add(key)
        for owned in self.api.owned(key):
            self.api.remove_workload(owned.key)
            yield from self._collect_garbage(owned.key)
        self._collected.discard(key)
        for state in self.view.pods_of(key):
            if not state.terminating:
                yield from self.delete(state.pod.namespace, state.pod.name, force=False, message="garbage collector")

    # Budgets

    def _reconcile_pdbs(self, state: PodState) -> Generator[float | None, None, None]:
        """Sync the PDBs that select a Pod."""
        for key in self.api.pdbs_of(state.pod.namespace, state.pod.labels):
            yield from self._sync(key)

    def _reconcile_all_pdbs(self) -> Generator[float | None, None, None]:
        """Sync all PDBs whose status may have changed, for example after the loss of a node."""
        if self._seen == self.api.revision:
            return
        self._seen = self.api.revision
        for key in self.api.keys_of(PDB):
            if key not in self._idle:
                yield from self._sync(key)

    # Workloads

    def _are_idle(self, state: PodState) -> bool:
        """Report whether a sync of the PDBs and controllers of a Pod would do nothing.

        False if a delayed sync is pending, because the sync for this change may be the one that the delay waits for.
        """
        owner = controller_of(state.pod)
        keys = self.api.pdbs_of(state.pod.namespace, state.pod.labels)
        if owner is not None:
            if self.grows_only or delay_of(self.api, owner):
                return False
            reader = reader_of(self.api, owner)
            keys = [*keys, owner] if reader is None else [*keys, owner, reader]
        return self._idle.issuperset(keys)

    def _sync_after(self, key: Key) -> Generator[float | None, None, None]:
        """Sync a workload after a change of one of its Pods: at once, or after a delay that further changes do
        not extend.
        """
        delay = delay_of(self.api, key)
        if not delay:
            yield from self._sync(key)
        else:
            self._requeue(key, self.clock.now + delay)

    def _wake_controller(self, key: Key) -> None:
        """Sync the controller of a workload after a change of the workload, its status or its Pods."""
        state = self.api.workloads.get(key)
        if state is not None and state.controller is not None:
            self._requeue(state.controller, self.clock.now + seconds_to_read(self.api, key))

    def _wake_reader(self, key: Key) -> None:
        """Schedule a sync of the controller of a workload after a change of the workload's Pods, if it reads Pods."""
        if reader_of(self.api, key) is not None:
            self._wake_controller(key)

    def _requeue(self, key: Key, time: float) -> None:
        self._idle.discard(key)
        if not self._delayed.get(key, float("inf")) <= time:
            self._delayed[key] = time
            self.clock.at(time, partial(self._sync_due, key, time))

    def _sync_due(self, key: Key, time: float) -> None:
        if self._delayed.get(key) == time:
            self._put_timer(Sync(key))

    def _sync(self, key: Key) -> Generator[float | None, None, None]:
        if key in self.unreadable:
            return
        try:
            actions = self._reconcile(key)
        except InvalidObject as error:
            self.unreadable[key] = error_message(self.api, key, error)
            return
        yield from self._carry_out(key, actions)
        if self.grows_only and key[0] == REPLICA_SET and any(isinstance(action, CreatePod) for action in actions):
            yield from self._sync(key)  # in the world of the recordings it counts again after each Pod
            return
        if key[0] in _CALM and (not actions or self._only_requeues(key, actions)):
            self._idle.add(key)

    def _only_requeues(self, key: Key, actions: Sequence[Action]) -> bool:
        """Report whether the only action is to requeue the object for a time at which a sync is scheduled already."""
        due = [action.at - self.api.epoch for action in actions if isinstance(action, Requeue) and action.key == key]
        return len(due) == len(actions) and self._delayed.get(key) == min(due)

    def _carry_out(self, key: Key, actions: Sequence[Action]) -> Generator[float | None, None, None]:
        self.rejections.begin(key, sum(isinstance(action, CreatePod) for action in actions))
        for action in actions:
            if self.grows_only and isinstance(action, DeletePod) and key[0] in _SIZED:
                continue
            if not (isinstance(action, CreatePod) and self.rejections.stops(key)):
                yield from self._apply(action)
        self._after(key)

    def _after(self, key: Key) -> None:
        """Schedule a retry with back-off if a quota rejected a Pod of the workload."""
        seconds = self.rejections.back_off(key)
        if seconds is not None:
            self._requeue(key, self.clock.now + seconds)

    def _reconcile(self, key: Key) -> Sequence[Action]:
        """Return the actions of the controller; none for a DaemonSet that is rolled out."""
        if key in self._rolled_out:
            return ()
        actions = reconcile(self.view, key, self.api.seconds)
        if key[0] == DAEMON_SET and not actions and is_rolled_out(self.view, key):
            self._rolled_out.add(key)
        return actions
