"""The simulated kubelets and kube-controller-manager: all components except the scheduler.

Sources: kubernetes `cmd/kube-controller-manager/app` (numbers of workers), client-go `util/workqueue` (only one worker
processes an object at a time; changes during the sync result in one more sync), `pkg/controller/replicaset`
(`slowStartBatch`), `pkg/controller/podgc`, `pkg/controller/tainteviction`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, groupby
from math import floor, log2
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.base.findings import ObjectRef, duration, listed, plural
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.cluster.admission import missing_tolerations
from forewarn.policies.kubernetes.controllers import SYNC_DELAY, reconcile, taint_eviction
from forewarn.policies.kubernetes.controllers.daemon_set import DaemonSetStatus, is_rolled_out, triggers_sync
from forewarn.policies.kubernetes.controllers.deployment import is_recreate
from forewarn.policies.kubernetes.controllers.own_pods import Recreator, again, has_lost_owner
from forewarn.policies.kubernetes.controllers.persistent_volume import missing_claims, sync_unbound_claim
from forewarn.policies.kubernetes.controllers.stateful_set import StatefulSetStatus, ordinal_of, start_ordinal
from forewarn.policies.kubernetes.controllers.templates import pod_of_template, template_of
from forewarn.policies.kubernetes.controllers.view import (
    CreateClaim,
    CreatePod,
    CreateWorkload,
    DeletePod,
    DeleteWorkload,
    ReleasePod,
    Report,
    Requeue,
    SetClaimOwner,
    SetStatus,
    UpdateConflict,
    UpdateWorkload,
    WorkloadState,
    controller_of,
)
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    JOB,
    STATEFUL_SET,
)
from forewarn.policies.kubernetes.kube_apiserver.quota import rejecting
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, text, timestamp
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, Node, NodeSelector, NodeSelectorTerm
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from forewarn.policies.kubernetes.objects.volumes import driver_of_provisioner
from forewarn.policies.kubernetes.objects.workload import replica_failure
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import COPIED_VOLUMES, IMMEDIATE_VOLUMES
from forewarn.policies.kubernetes.selectors import Requirement
from forewarn.policies.prediction.simulation.api_server import ApiServer, Change, ControllerView, PodKey, claims_of
from forewarn.policies.prediction.simulation.clock import BY_WORKLOAD, Clock, Latencies, Steps
from forewarn.policies.prediction.simulation.pod_limit import PodLimit

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import Action, Key, PodState
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects


_BACK_OFF: Final = (0.005, 1000.0)
"""(first, longest) back-off in seconds; it doubles with each failure."""
_JOB_BACK_OFF: Final = (1.0, 60.0)
_MAX_DOUBLINGS: Final = 20
_REPORTED_WAIT: Final = 10.0
"""The shortest time in seconds from a rejection to a successful retry that is reported."""


class RejectedWorkload(NamedTuple):
    """A workload whose new Pods a quota rejects.

    `failures`: consecutive failed syncs, those before time 0 estimated. `missing`: Pods that the last sync could not
    create. `message`: that of the quota. `given_back`, `at`: `Quotas.given_back` and the time at the last sync.
    `quotas`: those of the namespace at the last sync.
    """

    failures: float
    missing: int
    message: str
    given_back: int
    at: float
    quotas: Sequence[ResourceQuota]


def _back_off_of(key: Key) -> tuple[float, float]:
    """Return the (first, longest) back-off of a workload in seconds."""
    return _JOB_BACK_OFF if key[0] == JOB else _BACK_OFF


class Rejections:
    """The workloads whose last sync failed because a quota rejected a Pod, and the running syncs."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._syncs: dict[Key, _Sync] = {}
        self._now: dict[Key, RejectedWorkload] = {}
        self._failing: dict[Key, float] = {}
        """Workload that has not been synced yet -> seconds for which syncs failed before time 0."""
        self.ever: set[tuple[str, str]] = set()
        """(kind, `namespace/name`) of the top workloads with a Pod that a quota has rejected."""
        self.delaying: dict[tuple[str, str], str] = {}
        """(kind, `namespace/name`) of the top workload -> the quota that delayed one of its Pods."""

    def load(self) -> None:
        """Read how long syncs have failed before time 0: since the condition ReplicaFailure.

        Only a successful sync resets the back-off. As it doubles, a retry is due at the latest after as long as syncs
        have failed. If lastTransitionTime is missing, or later than time 0, this is unknown, and the longest back-off
        applies. Source: pkg/controller/replicaset `SetCondition`, `processNextWorkItem`.
        """
        for key, state in self._api.workloads.items():
            with suppress(InvalidObject):
                if (condition := replica_failure(state.object)) is not None:
                    self._failing[key] = _BACK_OFF[1]
                    since = timestamp(condition, "lastTransitionTime")
                    if since is not None and since <= self._api.epoch:
                        self._failing[key] = self._api.epoch - since

    def begin(self, key: Key, wanted: int) -> None:
        """Begin a sync that creates `wanted` Pods."""
        if self._api.quotas is not None:
            self._syncs[key] = _Sync(wanted)

    def rejected(self, key: Key, message: str) -> None:
        """Record that a quota rejected a Pod in the current sync."""
        sync = self._syncs.get(key)
        if sync is None:
            return
        if key not in self._now and not sync.message:
            self.ever.add(self._workload(key))
            self._api.timeline.add("refused", message=f"{self.group(key)}: {message}")
        sync.message = message

    def created(self, key: Key, stored: bool) -> None:
        """Record that the current sync sent a Pod. `stored`: whether the API server created the Pod."""
        sync, before = self._syncs.get(key), self._now.get(key)
        if sync is None or not stored:
            return
        sync.created += 1
        if sync.created == 1 and before is not None and (seconds := self._api.seconds - before.at) >= _REPORTED_WAIT:
            quota = self.delaying[self._workload(key)] = rejecting([(key[1], before.message)])
            text = f"{self.group(key)}: retry {duration(round(seconds))} after the last rejection by {quota}"
            self._api.timeline.add("retried", message=text)

    def stops(self, key: Key) -> bool:
        """Report whether the current sync creates no more Pods, because a quota rejected one."""
        sync = self._syncs.get(key)
        return sync is not None and bool(sync.message)

    def back_off(self, key: Key) -> float | None:
        """End the current sync: return the seconds until the retry, or None if no quota rejected a Pod."""
        sync, before, failing = self._syncs.pop(key, None), self._now.get(key), self._failing.pop(key, 0.0)
        if sync is None or not sync.message:
            self._now.pop(key, None)
            return None
        first, _ = _back_off_of(key)
        failures = before.failures if before is not None else log2(max(failing, first) / first)
        missing, now = sync.wanted - sync.created, self._api.seconds
        return self._retry_after(key, RejectedWorkload(failures, missing, sync.message, 0, now, ()))

    def repeat(self, key: Key, write: Callable[[], float]) -> float | None:
        """Reject the Pods of a workload again, and return the seconds until the next retry. Return None if the quotas
        have changed since the last sync, so that only a sync can decide. `write`: returns the seconds of the rejected
        write.
        """
        last, quotas = self._now.get(key), self._api.quotas
        if last is None or quotas is None or last.quotas is not quotas.now.get(key[1]):
            return None
        seconds = write()
        return seconds + self._retry_after(key, last._replace(at=self._api.seconds + seconds))

    def _retry_after(self, key: Key, rejected: RejectedWorkload) -> float:
        """Record one more failed sync of a workload; return the seconds until the retry."""
        assert self._api.quotas is not None
        given_back, quotas = self._api.quotas.given_back, self._api.quotas.now.get(key[1], ())
        first, longest = _back_off_of(key)
        failures = rejected.failures
        self._now[key] = rejected._replace(failures=failures + 1, given_back=given_back, quotas=quotas)
        return float(min(first * 2 ** min(failures, _MAX_DOUBLINGS), longest))

    def is_rejected(self, key: Key) -> bool:
        """Report whether the previous sync of the workload failed because of a quota."""
        return key in self._now

    def group(self, key: Key) -> str:
        """Return `namespace/name` of the top workload: the controller of this workload, or the workload itself."""
        return self._workload(key)[1]

    def _workload(self, key: Key) -> tuple[str, str]:
        state = self._api.workloads.get(key)
        kind, *names = state.controller if state is not None and state.controller else key
        return kind, "/".join(names)

    @property
    def may_be_over(self) -> bool:
        """Whether quotas may admit more since the last rejection (`Quotas.given_back`), so that a retry may succeed."""
        quotas = self._api.quotas
        return quotas is not None and any(
            value.given_back < quotas.given_back for key, value in self._now.items() if key in self._api.workloads
        )

    def rejected_workloads(self) -> Iterator[tuple[tuple[str, str], RejectedWorkload]]:
        """Yield ((kind, `namespace/name`) of the top workload, RejectedWorkload) of existing workloads, unordered."""
        return ((self._workload(key), value) for key, value in self._now.items() if key in self._api.workloads)


class _Sync:
    """One sync of a workload: how many Pods to create, how many are created, and the message of a rejection."""

    __slots__ = ("created", "message", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted, self.created, self.message = wanted, 0, ""


REVISED: Final = ("apps/StatefulSet", DAEMON_SET)
"""Kinds with ControllerRevision objects."""
_MANY: Final = 500
_SYNC_SECONDS_PER_POD: Final = 25e-6
"""Seconds to read one Pod; counts only for a workload with very many Pods."""
_NOT_WATCHED: Final = ("Status", "Claim", "Volume", "PodGroup")
"""Kinds of changes that controllers ignore."""


def delay_of(api: ApiServer, key: Key) -> float:
    """Return the seconds between a change of a Pod and the sync of its workload."""
    return SYNC_DELAY.get(key[0], 0.0) + seconds_to_read(api, key)


def seconds_to_read(api: ApiServer, key: Key) -> float:
    """Return the seconds that a controller needs to read the Pods of a workload; 0 unless there are very many."""
    count = len(api.by_controller.get(key, ()))
    return count * _SYNC_SECONDS_PER_POD if count > _MANY else 0.0


def reader_of(api: ApiServer, key: Key) -> Key | None:
    """Return a ReplicaSet's Deployment if it reads Pods, or None. Source: pkg/controller/deployment `deletePod`."""
    state = api.workloads.get(key)
    above = None if state is None or state.controller is None else api.workloads.get(state.controller)
    return above.key if above is not None and above.key[0] == DEPLOYMENT and is_recreate(above.object) else None


def _with_name(api: ApiServer, key: Key, error: InvalidObject) -> InvalidObject:
    """Return the error, with the name of the top workload if the invalid object is a Pod without a name."""
    if error.ref is not None and error.ref.name:
        return error
    state = api.workloads.get(key)
    kind, namespace, name = (state and state.controller) or key
    ref = ObjectRef("", kind.rpartition("/")[2], namespace, name)
    return error.at(error.path, ref)


FIRST_COLLECTION: Final = 5.7
"""Seconds until the first garbage collection of Pods."""


class PodGarbageCollector:
    """Runs rounds of Pod garbage collection after a node was removed, until no Pod is on a node that does not exist."""

    def __init__(self, manager: ControllerManager) -> None:
        self._manager = manager
        self._quarantine: Mapping[str, float] = {}
        self._runs = False
        self._collected_for = 0.0
        """Seconds that all rounds have taken so far: a round begins one period after the end of the previous round."""

    def node_removed(self) -> None:
        """Start the rounds of garbage collection, unless they are running."""
        if not self._runs:
            self._runs = True
            self._arrange()

    def _arrange(self) -> None:
        clock, first = self._manager.clock, FIRST_COLLECTION + self._collected_for
        rounds = max(-(-(clock.now - first) // taint_eviction.CHECK_PERIOD), 0)
        time = first + taint_eviction.CHECK_PERIOD * rounds
        clock.schedule(time if time > clock.now else time + taint_eviction.CHECK_PERIOD, self._run)

    def _run(self) -> None:
        self._manager.clock.spawn(self.collect())

    def collect(self) -> Steps:
        """Run one round of garbage collection, and schedule the next round if needed."""
        manager, begun = self._manager, self._manager.clock.now
        api, pods = manager.api, manager.api.strays()
        deletes, self._quarantine = taint_eviction.collect(pods, api.nodes, self._quarantine, api.seconds)
        for action in sorted(deletes, key=lambda action: manager.view.lot(action.name)):
            # the phase is written first. Source: `markFailedAndDeletePod`
            yield manager.latencies.write("patch", f"{action.namespace}/{action.name}")
            pod = api.pod(action.namespace, action.name)
            bound = pod is not None and bool(pod.node_name)
            yield from manager.delete(action, message="pod garbage collector", disrupted=bound)
        # Source: `wait.UntilWithContext`, whose period begins after the function returns
        self._collected_for += manager.clock.now - begun
        if self._quarantine or any(state.pod.node_name for state in pods):
            self._arrange()
        else:
            self._runs = False


TERMINATION_SECONDS: Final = "terminationSeconds"
"""Annotation of a Pod template in a simulation: seconds until a Pod has terminated, if less than its grace period."""


def termination_seconds(state: PodState) -> float:
    """Return the seconds from the deletion of a Pod until it has terminated: its grace period, or TERMINATION_SECONDS
    if shorter.
    """
    grace = float(state.pod.spec.termination_grace_period)
    template: Mapping[str, Any] = state.template or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        seconds = float(annotations[TERMINATION_SECONDS])
    except (KeyError, TypeError, ValueError):
        return grace
    return seconds if 0 <= seconds < grace else grace  # ignores nan and negative numbers


_CALM: Final = (DISRUPTION_BUDGET, DEPLOYMENT, "apps/ReplicaSet", "apps/StatefulSet", "/ReplicationController")
"""Kinds whose sync has no effect if there is nothing to do; other kinds draw random numbers or depend on time."""
_REPEATING: Final = ("apps/ReplicaSet", "/ReplicationController", JOB)
"""Kinds for which a sync that only creates Pods repeats itself as long as nothing changes."""
_WORKERS: Final = {DISRUPTION_BUDGET: 1, DAEMON_SET: 2}
_USUAL_WORKERS: Final = 5
_APART: Final = 1e-5
"""Maximum seconds, with random latencies, between reading the clock and setting a timer from it."""
_SHARED: Final = (DEPLOYMENT, "apps/ReplicaSet", DISRUPTION_BUDGET)
"""Kinds whose objects have several writers: several controllers, or evictions."""
_AT_ONCE: Final = ("apps/ReplicaSet", "/ReplicationController", DAEMON_SET, JOB)
"""Kinds whose Pods are created in batches, and deleted all together."""


class ControllerManager:
    """The kubelets, and kube-controller-manager with a queue and several workers for each kind of object.

    Garbage collection runs concurrently.
    """

    def __init__(self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies) -> None:
        self.clock, self.api, self.view, self.latencies = clock, api, view, latencies
        self.rejections = Rejections(api)
        self.limit = PodLimit(api)
        self.terminations: dict[str, float] = {}
        """uid of a deleted Pod -> time in simulated seconds at which it has terminated."""
        self.unreadable: dict[Key, InvalidObject] = {}
        """Key of an object that its controller cannot read -> the error."""
        self._pod_gc = PodGarbageCollector(self)
        self._numbers: dict[Key, int] = {}
        """Number of Pods that each workload has created so far."""
        self._unnamed = 0
        self._queues: dict[str, deque[Key]] = defaultdict(deque)
        self._busy = Counter[str]()
        """Kind -> number of busy workers."""
        self._queued: set[Key] = set()
        self._worked_on: set[Key] = set()
        self._delayed: dict[Key, float] = {}
        self._collected: set[Key] = set()
        """Workloads whose dependents are being garbage-collected."""
        self._idle: set[Key] = set()
        """Objects whose last sync had nothing to do, without a change since."""
        self._repeating: set[Key] = set()
        """Workloads whose last sync only tried to create Pods, without a change since."""
        self._rolled_out: set[Key] = set()
        """DaemonSets whose last sync had nothing to do; since then only Pods on removed nodes changed."""
        self._seen = -1
        """The API server's revision at the last update of all PDBs."""

    def start(self) -> None:
        """Sync every workload, watch changes, and schedule the removal of Pods that are already terminating."""
        for key in list(self.api.workloads):
            self._count_pods(key)
        self.limit.start()
        self.api.watchers += [self._handle, self.limit.handle]
        for state in [state for state in self.api.pods.values() if state.terminating]:
            self._terminate(state)
        self.rejections.load()
        keys = [key for key in self.api.workloads if key[0] != DISRUPTION_BUDGET]
        if not self.view.draws:  # as the API server lists them, by namespace and name
            keys.sort(key=lambda key: key[1:])
        for key in keys:
            self._sync_now(key)

    def take_on(self, keys: Sequence[Key]) -> None:
        """Sync workloads that were loaded with their Pods during the simulation. `keys`: those of the workloads."""
        for key in keys:
            self._count_pods(key)
        self._set_statuses(key for key in keys if key[0] in REVISED)
        for key in keys:
            self._sync_now(key)

    def set_statuses(self) -> None:
        """Set the status of every PDB, StatefulSet and DaemonSet before the simulation starts."""
        self._set_statuses([key for kind in (*REVISED, DISRUPTION_BUDGET) for key in self.api.keys_of(kind)])

    def _set_statuses(self, keys: Iterable[Key]) -> None:
        for key in keys:
            try:
                actions = reconcile(self.view, key, self.api.seconds)
            except InvalidObject as error:
                self.unreadable[key] = _with_name(self.api, key, error)
                continue
            for action in actions:
                if isinstance(action, SetStatus):
                    self.api.set_status(key, action.status)

    def arrive(self, change: Callable[[], None]) -> None:
        """Apply a user's change now. All controllers process the change immediately.

        Syncs all PDBs whose status may have changed, for example after the loss of a node.
        """
        change()
        if self._seen == self.api.revision:
            return
        self._seen = self.api.revision
        for key in self.api.keys_of(DISRUPTION_BUDGET):
            if key not in self._idle:
                self._enqueue(key)

    def _handle(self, change: Change) -> None:
        if change.kind in _NOT_WATCHED:
            return
        if change.kind == "Pod":
            if not (change.new is change.old and self._are_idle(change.new)):
                self._pod_changed(change)
            return
        self._rolled_out.clear()
        if change.kind == "Node":  # no controller of _CALM reads nodes
            self._node_changed(change)
        else:
            self._idle.clear()
            self._workload_changed(change)

    # Pods

    def _pod_changed(self, change: Change) -> None:
        self._pod_written(change)
        old, new = change.old, change.new
        if new is not None and new.terminating and not (old and old.terminating):
            self._terminate(new)
        state = new or old
        for key in self.api.pdbs_of(state.pod.namespace, state.pod.labels):
            self._enqueue(key)
        owner = controller_of(state.pod)
        if owner is not None:
            delay = delay_of(self.api, owner)
            if delay:
                self._requeue(owner, self.clock.now + delay)
            else:
                self._enqueue(owner)
            self._wake_reader(owner)

    def _pod_written(self, change: Change) -> None:
        """Record which syncs a change of a Pod requires, and keep a removed Pod for its Job."""
        old, new = change.old, change.new
        if new is not old:  # PDBs that no longer select the Pod are included
            for state in (old, new):
                if state is not None:
                    self._idle.difference_update(self.api.pdbs_of(state.pod.namespace, state.pod.labels))
        state = new or old
        owner = controller_of(state.pod)
        if owner in self._rolled_out and not (self._is_lost(old) and self._is_lost(new)):
            self._rolled_out.discard(owner)
        if new is None and owner is not None and owner[0] == JOB and owner in self.api.workloads:
            self.view.keep(owner, replace(state, removed=True, finished=self._finished(state)))

    def _finished(self, state: PodState) -> float | None:  # noqa: ARG002 - recordings have the time of the Pod
        """Return when the kubelet reported that a removed Pod ended. Source: pkg/controller/job `getFinishedTime`."""
        return float(floor(self.api.seconds))

    def _terminate(self, state: PodState) -> None:
        """Schedule the removal of a Pod for the time when it has terminated. The kubelet notices the deletion now."""
        ends = self.clock.now + termination_seconds(state)
        self.terminations[state.pod.uid] = ends
        ends += self.latencies.write("kubelet", state.pod.key)
        self.clock.schedule(ends, partial(self._terminated, (state.pod.namespace, state.pod.name), state.pod.uid))

    def _terminated(self, key: PodKey, uid: str) -> None:
        self.terminations.pop(uid, None)
        self.api.remove_pod(key, uid)

    def _is_lost(self, state: PodState | None) -> bool:
        """Report whether a Pod is on a node that does not exist; True for None (no Pod)."""
        return state is None or bool(state.pod.node_name and state.pod.node_name not in self.api.nodes)

    # Nodes and workloads

    def _node_changed(self, change: Change) -> None:
        """Sync the DaemonSets that a changed node affects."""
        old, new = change.old, change.new
        if new is None:
            self._pod_gc.node_removed()
        # upstream `syncNodeUpdate` lists them in the order of a Go map
        for key in sorted(self.api.keys_of(DAEMON_SET), key=lambda key: self.view.lot(key[2])):
            if new is not None and self._triggers_sync(key, old, new):
                self._enqueue(key)

    def _triggers_sync(self, key: Key, old: Node | None, new: Node) -> bool:
        try:
            return triggers_sync(self.view, key, old, new)
        except InvalidObject:
            return True  # the sync records the error

    def _workload_changed(self, change: Change) -> None:
        new = change.new
        if new is None:
            self.clock.spawn(self._workload_deleted(change.old))
        elif new.key[0] != DISRUPTION_BUDGET:
            if change.old is None:
                self._count_pods(new.key)
            self._enqueue(new.key)
            self._wake_controller(new.key)

    def _workload_deleted(self, old: WorkloadState | None) -> Steps:
        if old is not None and old.controller not in self._collected:
            yield from self._collect_garbage(old.key)

    def _collect_garbage(self, key: Key) -> Steps:
        """Delete a workload's dependents, oldest first: Jobs or ReplicaSets with their Pods, then its Pods."""
        pods = [*self.api.by_controller.get(key, {}).values()]
        self.view.forget(key)
        self._collected.add(key)
        for owned in self.api.owned(key):
            self.api.remove_workload(owned.key)
            yield from self._collect_garbage(owned.key)
        self._collected.discard(key)
        for state in pods:
            if not state.terminating:
                yield from self.delete(DeletePod(state.pod.namespace, state.pod.name), message="garbage collector")

    # Queues and workers

    def _are_idle(self, state: PodState) -> bool:
        """Report whether a sync of the PDBs and controllers of a Pod would do nothing.

        False if a delayed sync is pending, because the sync for this change may be the one that the delay waits for.
        """
        owner = controller_of(state.pod)
        keys = self.api.pdbs_of(state.pod.namespace, state.pod.labels)
        if owner is not None:
            if delay_of(self.api, owner):
                return False
            reader = reader_of(self.api, owner)
            keys = [*keys, owner] if reader is None else [*keys, owner, reader]
        return self._idle.issuperset(keys)

    def _wake_controller(self, key: Key) -> None:
        """Sync the controller of a workload after a change of the workload, its status or its Pods."""
        state = self.api.workloads.get(key)
        if state is not None and state.controller in self.api.workloads:
            self._requeue(state.controller, self.clock.now + seconds_to_read(self.api, key))

    def _wake_reader(self, key: Key) -> None:
        """Schedule a sync of the controller of a workload after a change of the workload's Pods, if it reads Pods."""
        if reader_of(self.api, key) is not None:
            self._wake_controller(key)

    def _requeue(self, key: Key, time: float, *, repeats: bool = False) -> None:
        """Schedule a sync. `repeats`: whether nothing has changed for the workload."""
        self._idle.discard(key)
        if not repeats:
            self._repeating.discard(key)
        if not self._delayed.get(key, float("inf")) <= time:
            self._delayed[key] = time
            self.clock.schedule(time, partial(self._sync_due, key, time))

    def _sync_due(self, key: Key, time: float) -> None:
        if self._delayed.get(key) != time:
            return
        seconds = self.rejections.repeat(key, partial(self._rejected_write, key)) if key in self._repeating else None
        if seconds is None:
            self._sync_now(key)
        else:
            del self._delayed[key]
            self._requeue(key, self.clock.now + seconds, repeats=True)

    def _rejected_write(self, key: Key) -> float:
        self._unnamed += 1
        return self.latencies.write("create", f"{key[1]}/{self._unnamed}")

    def _sync_now(self, key: Key) -> None:
        self._delayed.pop(key, None)
        self._enqueue(key)

    def _enqueue(self, key: Key) -> None:
        """Add an object to the queue of its kind, unless it is queued already; start a worker if one is free."""
        self._idle.discard(key)
        self._repeating.discard(key)
        if key in self._queued:
            return
        kind, queue = key[0], self._queues[key[0]]
        self._queued.add(key)
        queue.append(key)
        if key not in self._worked_on and self._busy[kind] < _WORKERS.get(kind, _USUAL_WORKERS):
            self._busy[kind] += 1
            self.clock.spawn(self._work(kind, queue))

    def _work(self, kind: str, queue: deque[Key]) -> Steps:
        """Run a worker until the queue is empty, or contains only objects that other workers are processing."""
        while (key := self._next(queue)) is not None:
            self._queued.discard(key)
            self._worked_on.add(key)
            yield from self._sync(key)
            if kind == DISRUPTION_BUDGET:
                yield 0.0  # a Pod may have thousands of PDBs: the sync of each counts as a step
            self._worked_on.discard(key)
        self._busy[kind] -= 1

    def _next(self, queue: deque[Key]) -> Key | None:
        """Remove and return the first queued object that no other worker is processing, or None."""
        key = next((key for key in queue if key not in self._worked_on), None)
        if key is not None:
            queue.remove(key)
        return key

    def _sync(self, key: Key) -> Steps:
        if (actions := self._actions_for(key)) is None:
            return
        if key[0] in _REPEATING and {*map(type, actions)} == {CreatePod}:
            self._repeating.add(key)
        yield from self._carry_out(key, actions)
        if key[0] in _CALM and (not actions or self._only_requeues(key, actions)):
            self._idle.add(key)

    def _actions_for(self, key: Key) -> Sequence[Action] | None:
        """Return the actions of the controller; None for an object that it cannot read."""
        if key in self.unreadable:
            return None
        try:
            return self.limit.limit_actions(key, self._reconcile(key))
        except InvalidObject as error:
            self.unreadable[key] = _with_name(self.api, key, error)
            return None

    def _only_requeues(self, key: Key, actions: Sequence[Action]) -> bool:
        """Report whether the only action is to requeue the object for a time at which a sync is scheduled already."""
        due = [action.at - self.api.epoch for action in actions if isinstance(action, Requeue) and action.key == key]
        return len(due) == len(actions) and self._delayed.get(key) == min(due)

    def _reconcile(self, key: Key) -> Sequence[Action]:
        """Return the actions of the controller; none for a DaemonSet that is rolled out."""
        if key in self._rolled_out:
            return ()
        actions = reconcile(self.view, key, self.api.seconds)
        if key[0] == DAEMON_SET and not actions and is_rolled_out(self.view, key):
            self._rolled_out.add(key)
        return actions

    # Writes

    def _carry_out(self, key: Key, actions: Sequence[Action]) -> Steps:
        if not actions:
            self.rejections.begin(key, 0)
            self._schedule_retry(key)
            return
        if key[0] in REVISED and self._is_revised(key, actions):
            yield self._written_in("create", key)  # the ControllerRevision
        self.rejections.begin(key, sum(isinstance(action, CreatePod) for action in actions))
        read, failed = self._read(key), False
        for batch in self._batches(key, actions):
            first = batch[0]
            if read and isinstance(first, SetStatus | UpdateWorkload | UpdateConflict):
                if not failed or isinstance(first, SetStatus):
                    failed = not (yield from self._written(key, first, read))
                if failed and not (isinstance(first, UpdateWorkload) and first.may_fail):
                    self._requeue(key, self.clock.now)
                    return
            elif isinstance(first, Requeue) and first.key[0] != CRON_JOB:
                self._requeue(first.key, first.at - self.api.epoch)
            elif not isinstance(first, CreatePod) or not self.rejections.stops(key):
                yield from self._together(batch)
        if self.rejections.stops(key) and key[0] in ("apps/ReplicaSet", "/ReplicationController"):
            yield from self._write_failure(key, actions)
        self._schedule_retry(key)

    def _read(self, key: Key) -> dict[Key, WorkloadState]:
        """Return the objects that a sync reads and that other clients also write."""
        if key[0] not in _SHARED:
            return {}
        state = self.api.workloads.get(key)
        return {} if state is None else {item.key: item for item in (state, *self.api.owned(key))}

    def _written(
        self, key: Key, action: SetStatus | UpdateWorkload | UpdateConflict, read: dict[Key, WorkloadState]
    ) -> Generator[float | None, None, bool]:
        """Execute a write, and return whether the API server accepts it. `read`: the objects as the sync has read them.

        A sync does not read a Deployment again after writing its status, so its next status is rejected. So is the
        status of a PDB after an eviction. A ReplicaSet's controller retries a status write once, over any change.
        Source: `getNewReplicaSet`, `syncRolloutStatus`, `updateReplicaSetStatus`, `writePdbStatus`.
        """
        verb = "status" if isinstance(action, SetStatus) else "update"
        yield self._written_in(verb, action.key)
        state = self.api.workloads.get(action.key)
        changed = state is None or state is not read.get(action.key)
        if isinstance(action, UpdateConflict) or (changed and key[0] in (DEPLOYMENT, DISRUPTION_BUDGET)):
            return False
        if isinstance(action, SetStatus):
            if changed:
                yield self._written_in(verb, action.key)
            self._store_status(action)
        elif state is not None:
            self.api.put_workload(replace(state, object=action.object))
            read[action.key] = self.api.workloads[action.key]
        return True

    def _write_failure(self, key: Key, actions: Sequence[Action]) -> Steps:
        """Write the failure to create a Pod to the status of a ReplicaSet. As every status change, the write triggers a
        sync.

        Source: pkg/controller/replicaset `calculateStatus` (ReplicaFailure), `updateRS`.
        """
        written = any(isinstance(action, SetStatus) for action in actions)
        if not written and self.rejections.is_rejected(key):
            return  # the status contains the failure already
        if not written:
            yield self._written_in("status", key)
        self._enqueue(key)

    def _schedule_retry(self, key: Key) -> None:
        """Schedule a retry with back-off if a quota rejected a Pod of the workload."""
        seconds = self.rejections.back_off(key)
        if seconds is not None:
            self._requeue(key, self.clock.now + seconds, repeats=True)

    def _is_revised(self, key: Key, actions: Sequence[Action]) -> bool:
        """Report whether a StatefulSet or DaemonSet has a new template, which needs a ControllerRevision."""
        state = self.api.workloads.get(key)
        new = next((action.status for action in actions if isinstance(action, SetStatus)), None)
        old = None if state is None else state.status
        if isinstance(old, StatefulSetStatus) and isinstance(new, StatefulSetStatus):
            return old.update != new.update
        return isinstance(old, DaemonSetStatus) and isinstance(new, DaemonSetStatus) and old.revision != new.revision

    def _batches(self, key: Key, actions: Sequence[Action]) -> Iterator[Sequence[Action]]:
        """Yield the actions in batches of concurrent writes. Each batch has actions of one type.

        An ordered StatefulSet has at most one action for a new Pod.
        """
        for what, group in groupby(actions, type):
            alike: list[Any] = list(group)
            if what is CreatePod and key[0] in (*_AT_ONCE, STATEFUL_SET):
                # The size of batches doubles. Those of a StatefulSet contain existing Pods. Source: `slowStartBatch`
                numbers = map(self._number, alike) if key[0] == STATEFUL_SET else count(1)
                for _, batch in groupby(zip(numbers, alike, strict=False), lambda item: item[0].bit_length()):
                    yield [action for _, action in batch]
            elif what is DeletePod and key[0] in _AT_ONCE:
                yield alike
            else:
                yield from ([action] for action in alike)

    def _number(self, action: CreatePod) -> int:
        """Return the number of a StatefulSet's new Pod, from 1."""
        state = self.api.workloads.get(action.owner)
        return ordinal_of(action.pod.name, action.owner[2]) + 1 - (start_ordinal(state.object) if state else 0)

    def _together(self, actions: Sequence[Action]) -> Steps:
        """Execute the writes concurrently; continue after all of them.

        The order of concurrent writes is undefined. Here, it is the order of Go on one processor, which starts with the
        last goroutine, as in the reference scheduler.
        """
        if len(actions) == 1:
            yield from self._apply(actions[0])
            return
        yield from self.clock.join([self.clock.spawn(self._apply(action)) for action in (actions[-1], *actions[:-1])])

    def _apply(self, action: Action) -> Steps:
        if isinstance(action, CreatePod):
            yield from self._create(action)
        elif isinstance(action, DeletePod):
            change = BY_WORKLOAD if action.owner is not None else ""
            yield from self.delete(action, message=_requester(action.owner), change=change)
        elif isinstance(action, CreateClaim):
            yield from self._create_claim(action.claim)
        elif isinstance(action, SetClaimOwner):
            yield self.latencies.write("update", f"{action.namespace}/{action.name}")
            claim = self.api.storage.claim((action.namespace, action.name))
            if claim is not None:
                self.api.storage.put_claim(replace(claim, owner=action.owner))
        elif isinstance(action, SetStatus):
            yield from self._set_status(action)
        elif isinstance(action, ReleasePod):
            self.view.release(action.key, action.uid)
        elif isinstance(action, Requeue):  # the order of CronJobs that are due at the same time is random
            late = _APART * self.view.lot(action.key[2]) if action.key[0] == CRON_JOB else 0.0
            self._requeue(action.key, action.at + late - self.api.epoch)
        elif isinstance(action, Report) and action.key[0] == JOB and action.reason == "Failed":
            self.api.timeline.add("jobFailed", message=f"{action.key[1]}/{action.key[2]}: {action.message}")
        elif isinstance(action, CreateWorkload):
            yield from self._create_workload(action)
        elif isinstance(action, DeleteWorkload):
            yield self._written_in("delete", action.key)
            self.api.remove_workload(action.key)

    def _set_status(self, action: SetStatus) -> Steps:
        yield self._written_in("status", action.key)
        self._store_status(action)
        if action.key[0] == JOB:  # the status of the Job wakes its controller. Source: `updateJob`
            self._requeue(action.key, self.clock.now + SYNC_DELAY[JOB])

    def _written_in(self, verb: str, key: Key) -> float:
        """Return how many seconds it takes to write a workload or PDB. `verb`: the request."""
        return self.latencies.write(verb, f"{key[1]}/{key[2]}")

    def _store_status(self, action: SetStatus) -> None:
        self.api.set_status(action.key, action.status)
        self._wake_controller(action.key)

    def _create_workload(self, action: CreateWorkload) -> Steps:
        metadata = action.object["metadata"]
        key = (group_kind(action.object), text(metadata, "namespace"), text(metadata, "name"))
        yield self._written_in("create", key)
        if key not in self.api.workloads:
            now = float(int(self.api.seconds))
            self.api.put_workload(WorkloadState(key, action.object, created=now, controller=action.owner))

    def _create_claim(self, claim: PersistentVolumeClaim) -> Steps:
        if claim.key in self.api.storage.unlisted:
            return
        yield self.latencies.write("create", "/".join(claim.key))
        if self.api.storage.claim(claim.key) is None:
            self.api.storage.put_claim(claim)

    def _create(self, action: CreatePod) -> Steps:
        for claim in action.claims:
            yield from self._create_claim(claim)
        name = action.pod.key
        if not action.pod.name:
            self._unnamed += 1
            name = f"{action.owner[1]}/{self._unnamed}"
        takes = self.latencies.replacement if action.owner[0] in REVISED else partial(self.latencies.write, "create")
        yield takes(name)
        self._store(action.pod, action)
        for owner in action.claim_owners:
            yield from self._apply(owner)

    def _store(self, pod: Pod, action: CreatePod) -> None:
        """Store a new Pod, if its workload still exists and no quota rejects the Pod."""
        key = action.owner
        state = self.api.workloads.get(key)
        if state is None:
            return
        rejection = self.api.rejection(pod, action.template)
        if rejection:
            self.rejections.rejected(key, rejection)
            return
        owner = pod.owner or Owner(key[0].rpartition("/")[2], key[2], text(state.object, "metadata", "uid"))
        pod = replace(pod, name=pod.name or self._name(action), owner=owner)
        self.rejections.created(key, self.api.create_pod(pod, action.template))

    def _name(self, action: CreatePod) -> str:
        if action.owner[0] == DAEMON_SET:
            return self._free_name(action.owner[1], f"{action.owner[2]}-{action.pod.spec.node_affinity.only_node}")
        number = self._numbers[action.owner] = self._numbers.get(action.owner, 0) + 1
        return f"{action.generate_name.removesuffix('-')}-{number}"

    def _free_name(self, namespace: str, name: str) -> str:
        """Return the name, with a number if it is in use, as during a DaemonSet's rollout with surge."""
        free, number = name, 1
        while (namespace, free) in self.api.pods:
            charge()  # a snapshot may contain Pods with any names
            number += 1
            free = f"{name}-{number}"
        return free

    def _count_pods(self, key: Key) -> None:
        self._numbers[key] = len(self.api.by_controller.get(key, {}))

    def delete(self, action: DeletePod, *, message: str, change: str = "", disrupted: bool = False) -> Steps:
        """Delete a Pod, after the duration of a write. See `ApiServer.delete_pod`."""
        yield self.latencies.write("delete", f"{action.namespace}/{action.name}")
        key, force = (action.namespace, action.name), action.force
        self.api.delete_pod(key, "deleted", message=message, change=change, force=force, disrupted=disrupted)


def _requester(owner: Key | None) -> str:
    return "pod garbage collector" if owner is None else f"{owner[0].rpartition('/')[2]} {owner[2]}"


_MAX_NAMED: Final = 3
_RELEASED: Final = "Released"


class Recreation:
    """Watches Pods, and recreates removed ones with the same name for controllers that are not simulated."""

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies) -> None:
        self._clock, self._api, self._latencies = clock, api, latencies

    def handle(self, change: Change) -> None:
        """Recreate a removed Pod if its controller is known but not simulated (see `ApiServer.recreated`)."""
        if change.kind != "Pod" or change.new is not None or change.old.pod.terminal:
            return
        pod: Pod = change.old.pod
        if pod.owner is None or controller_of(pod) in self._api.workloads:
            return
        if again(pod, self._api.recreated, is_there=False) is Recreator.CONTROLLER and not has_lost_owner(
            pod, self._runs
        ):
            self._clock.spawn(self._create(pod))

    def _runs(self, namespace: str, name: str) -> bool:
        state = self._api.pods.get((namespace, name))
        return state is not None and not state.terminating and not state.pod.terminal

    def _create(self, deleted: Pod) -> Steps:
        yield self._latencies.write("create", deleted.key)
        pod = replace(deleted, node_name="", nominated_node_name="", start_time=None, phase="Pending")
        self._api.create_pod(replace(pod, uid="", terminating=False, preempted=False), None)


def template_for(view: ControllerView, pod: Pod) -> ApiObject | None:
    """Return the template of the Pod's controller if its requests equal those of the Pod; otherwise None."""
    owner = controller_of(pod)
    state = None if owner is None else view.workload(owner)
    if state is None:
        return None
    template = template_of(state.object)
    return template if pod_of_template(view, state.key, state.object, template).occupies == pod.occupies else None


class StorageControllers:
    """The controllers of claims and volumes, with one worker that binds claims, and the provisioners."""

    def __init__(
        self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies, base: ClusterObjects
    ) -> None:
        """Start without pending work. `base`: contains the StorageClasses and CSINodes."""
        self._clock, self._api, self._view, self._latencies, self._base = clock, api, view, latencies, base
        self._due: deque[PodKey] = deque()
        self._provisioning: set[PodKey] = set()
        self._missing: dict[str, list[str]] = {}
        """Reason why a claim is not modelled -> the names of the claims."""
        self._task = clock.spawn(self._run())

    @property
    def not_modelled(self) -> list[str]:
        """Sentences about claims whose outcome forewarn cannot simulate."""
        reasons = [*self._missing.items()]
        if self._api.storage.unlisted:
            why = "not in the snapshot, so Pods are simulated without their volumes"
            reasons.append((why, ["/".join(key) for key in sorted(self._api.storage.unlisted)]))
        rows = ((plural(len(names), "PersistentVolumeClaim"), listed(names, _MAX_NAMED), why) for why, names in reasons)
        return [f"not modelled: {count} ({names}): {why}" for count, names, why in rows]

    def start(self) -> None:
        """Process every claim that is not bound, and watch changes from now on."""
        self._api.watchers.append(self.handle)
        claims = self._api.storage.claims()
        charge(len(claims) // 4)
        for claim in claims.values():
            if not claim.fully_bound:
                self._enqueue(claim.key)
        for state in list(self._api.pods.values()):
            self._check_pod(state)

    def handle(self, change: Change) -> None:
        """Process a change of a claim, volume, Pod or workload."""
        if change.kind == "Claim":
            if change.new is not None:
                self._enqueue(change.new.key)
            else:
                self._claim_deleted(change.old)
        elif change.kind == "Volume" and change.new.claim is not None:
            self._enqueue(change.new.claim[:2])
        elif change.kind == "Pod":
            if change.new is None:
                self._pod_deleted(change.old)
            elif change.old is None:
                self._check_pod(change.new)
        elif change.kind == "Workload" and change.new is None:
            self._workload_deleted(change.old.key)

    # Deletion of claims with Pods and workloads

    def _check_pod(self, state: PodState) -> None:
        if any(volume.ephemeral for volume in state.pod.spec.volumes):
            self._clock.spawn(self._create_ephemeral((state.pod.namespace, state.pod.name)))

    def _create_ephemeral(self, pod: PodKey) -> Steps:
        state = self._api.pods.get(pod)
        try:
            claims = [] if state is None else missing_claims(self._view, state)
        except InvalidObject as error:
            self._note(error.problem, pod)
            return
        for claim in claims:
            yield self._latencies.write("create", "/".join(claim.key))
            if self._api.storage.claim(claim.key) is None:
                self._api.storage.put_claim(claim)

    def _pod_deleted(self, state: PodState) -> None:
        for key in claims_of(state.pod):
            claim = self._api.storage.claim(key)
            if claim is not None and (claim.deleting or (claim.owner_uid and claim.owner_uid == state.pod.uid)):
                self._clock.spawn(self._delete(key))

    def _workload_deleted(self, key: Key) -> None:
        if key[0] != "apps/StatefulSet":
            return
        claims = self._api.storage.claims()
        charge(len(claims))
        for claim in claims.values():
            if claim.namespace == key[1] and claim.owner is not None and claim.owner[:2] == ("StatefulSet", key[2]):
                self._clock.spawn(self._delete(claim.key))

    def _delete(self, key: PodKey) -> Steps:
        yield self._latencies.write("delete", "/".join(key))
        self._api.storage.delete_claim(key)

    def _claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """Release the volume of a deleted claim, and recreate claims of ephemeral volumes."""
        volume = self._api.storage.volume(claim.volume_name)
        if volume is not None:
            self._api.storage.put_volume(replace(volume, phase=_RELEASED, claim=(*claim.key, claim.uid or _RELEASED)))
        for pod in self._api.storage.pods_of_claim.get(claim.key, ()):
            self._check_pod(self._api.pods[pod])

    # Binding and provisioning

    def _enqueue(self, key: PodKey) -> None:
        claim = self._api.storage.claim(key)
        if claim is not None and not claim.fully_bound and not claim.deleting and key not in self._due:
            self._due.append(key)
            self._task.wake()

    def _run(self) -> Steps:
        while True:
            if self._due:
                yield from self._sync(self._due.popleft())
            else:
                yield None

    def _sync(self, key: PodKey) -> Steps:
        claim = self._api.storage.claim(key)
        if claim is None or claim.fully_bound or claim.deleting:
            return
        storage_class = self._base.storage_classes.get(("", claim.storage_class))
        volumes = self._volumes_of_class(claim.storage_class)
        bound = sync_unbound_claim(claim, storage_class, self._api.storage.volume, volumes)
        if isinstance(bound, PersistentVolume):
            yield from self._bind(claim, bound)
        elif bound is not None and key not in self._provisioning and self._can_provision(claim, bound):
            self._provisioning.add(key)
            self._clock.spawn(self._provision(claim, bound))

    def _volumes_of_class(self, name: str) -> Sequence[PersistentVolume]:
        volumes = self._api.storage.volumes()
        charge(len(volumes) // 4)
        return [volume for volume in volumes.values() if volume.storage_class == name]

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Steps:
        """Bind a claim and a volume to each other. Source: upstream `bind`."""
        reference = (*claim.key, claim.uid)
        if volume.claim != reference:
            yield self._latencies.write("update", f"/{volume.name}")
            self._api.storage.put_volume(replace(self._api.storage.volume(volume.name) or volume, claim=reference))
        yield self._latencies.write("status", f"/{volume.name}")
        self._api.storage.put_volume(replace(self._api.storage.volume(volume.name) or volume, phase="Bound"))
        yield self._latencies.write("update", "/".join(claim.key))
        now = self._api.storage.claim(claim.key)
        if now is not None and now.uid == claim.uid:
            self._api.storage.put_claim(replace(now, volume_name=volume.name, bind_completed=True, phase="Bound"))

    def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Steps:
        """Set the provisioner of a claim; the provisioner then creates a volume.

        If the selected node no longer exists, the provisioner creates no volume, and the scheduler selects another
        node.
        """
        yield self._latencies.write("update", "/".join(claim.key))
        node = None if claim.selected_node is None else self._api.nodes.get(claim.selected_node)
        now = self._api.storage.claim(claim.key)
        if now is not None and claim.selected_node is not None and node is None:
            yield self._latencies.write("update", "/".join(claim.key))
            self._provisioning.discard(claim.key)
            self._api.storage.put_claim(replace(now, selected_node=None))
            return
        yield self._latencies.write("create", f"/pvc-{claim.uid}")
        self._provisioning.discard(claim.key)
        now = self._api.storage.claim(claim.key)
        if now is not None and now.uid == claim.uid and not now.fully_bound:
            driver = driver_of_provisioner(storage_class.provisioner) or storage_class.provisioner
            name = f"pvc-{now.uid}"
            self._api.storage.put_volume(
                PersistentVolume(
                    name=name,
                    capacity=now.request or 0,
                    access_modes=now.access_modes,
                    claim=(*now.key, now.uid),
                    storage_class=storage_class.name,
                    node_affinity=None if node is None else self._affinity(now, storage_class, node),
                    phase="Pending",
                    volume_mode=now.volume_mode,
                    attributes_class=now.attributes_class,
                    csi=(driver, name),
                )
            )

    def _can_provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Report whether the outcome of provisioning is known; record the reason if not."""
        if claim.has_data_source:
            self._note(COPIED_VOLUMES, claim.key)
            return False
        if claim.selected_node is None and self._topology_keys(storage_class, None) != ():
            self._note(f"where StorageClass {storage_class.name} {IMMEDIATE_VOLUMES}", claim.key)
            return False
        return True

    def _affinity(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node) -> NodeSelector | None:
        """Return the node affinity of a new volume, from its node's topology labels; None for all nodes or unknown."""
        keys = self._topology_keys(storage_class, node)
        if keys is None or any(key not in node.labels for key in keys):
            self._note(f"from which nodes new volumes of StorageClass {storage_class.name} can be mounted", claim.key)
            return None
        expressions = tuple(Requirement(key, "In", frozenset([node.labels[key]])) for key in keys)
        return NodeSelector((NodeSelectorTerm(expressions),)) if expressions else None

    def _topology_keys(self, storage_class: StorageClass, node: Node | None) -> tuple[str, ...] | None:
        """Return the node labels on which the topology of a StorageClass's volumes depends; None if unknown.

        These are the labels that the CSI driver registered for the node, or else the labels of other volumes of the
        class.
        """
        driver = driver_of_provisioner(storage_class.provisioner) or storage_class.provisioner
        names = [node.name] if node is not None else [name for _, name in self._base.csi_nodes]
        for name in names:
            csi_node = self._base.csi_nodes.get(("", name))
            if csi_node is not None and driver in csi_node.drivers:
                return csi_node.topology_keys.get(driver, ())
        others = [_keys_of(volume) for volume in self._volumes_of_class(storage_class.name)]
        return others[0] if others and all(keys == others[0] for keys in others) else None

    def _note(self, why: str, claim: PodKey) -> None:
        names = self._missing.setdefault(why, [])
        name = "/".join(claim)
        if name not in names:
            names.append(name)


def _keys_of(volume: PersistentVolume) -> tuple[str, ...] | None:
    """Return the node labels that a volume's affinity requires; None unless it requires one value of each."""
    if volume.node_affinity is None:
        return ()
    (first, *more) = volume.node_affinity.terms or (NodeSelectorTerm(error="none"),)
    plain = all(expression.operator == "In" and len(expression.values) == 1 for expression in first.expressions)
    return None if more or first.error or first.fields or not plain else tuple(sorted(e.key for e in first.expressions))


_A_MOMENT: Final = 1e-6
"""Seconds added to due times, because seconds since 1970 as a float are not more exact."""
RETRIES: Final = 5
"""Maximum number of attempts of an eviction."""
BETWEEN_RETRIES: Final = 0.01
"""Seconds between attempts."""


class CordonTaints:
    """The controller that taints cordoned nodes, and removes this taint from others.

    Source: kubernetes `pkg/controller/nodelifecycle` (`doNoScheduleTaintingPass`).
    """

    def __init__(self, clock: Clock, api: ApiServer) -> None:
        self._clock, self._api = clock, api

    def start(self) -> None:
        """Watch changes from now on."""
        self._api.watchers.append(self._handle)

    def _handle(self, change: Change) -> None:
        if change.kind == "Node" and change.new is not None and change.new.with_taint_of_cordon() is not change.new:
            self._clock.schedule(self._clock.now, partial(self._sync, change.new.name))

    def _sync(self, name: str) -> None:
        node = self._api.nodes.get(name)
        if node is not None and (changed := node.with_taint_of_cordon()) is not node:
            self._api.put_node(changed, in_timeline=False)


class TaintEvictions:
    """Evicts Pods for NoExecute taints of their nodes in a simulation."""

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies) -> None:
        self._clock, self._api, self._latencies = clock, api, latencies
        self._scheduled: dict[str, Mapping[str, taint_eviction.Eviction]] = {}
        self._evicted: set[str] = set()
        """uids of the Pods whose eviction has started."""

    def start(self) -> None:
        """Process every node, and watch changes from now on."""
        self._api.watchers.append(self.handle)
        for name in [node.name for node in self._api.nodes.values() if node.taints]:
            self._check(name)

    def handle(self, change: Change) -> None:
        """Process a changed node, or the node of a newly bound Pod."""
        if change.kind == "Node":
            self._check((change.new or change.old).name)
        elif change.kind == "Pod" and change.new is not None:
            node = change.new.pod.node_name
            if node and not (change.old is not None and change.old.pod.node_name):
                self._check(node)

    def _check(self, name: str) -> None:
        node, scheduled = self._api.nodes.get(name), self._scheduled.pop(name, {})
        taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE] if node else []
        if not taints and (node is not None or not scheduled):
            return
        now, here = self._api.seconds, self._api.by_node.get(name, {}).values()
        pods = [state for state in here if state.pod.uid not in self._evicted]
        deletes, left = (
            taint_eviction.evict(taints, [*map(_with_default_tolerations, pods)], scheduled, now)
            if taints
            else taint_eviction.evict_scheduled(pods, scheduled, now)
        )
        for action in deletes:
            key = action.namespace, action.name
            self._evicted.add(self._api.pods[key].pod.uid)
            self._clock.spawn(delete_for_taint(self._api, self._latencies, key, f"taint of {name}"))
        if left:
            self._scheduled[name] = left
            due = min(eviction.due for eviction in left.values())
            self._clock.schedule(due - self._api.epoch + _A_MOMENT, partial(self._check, name))


class DeviceTaintEvictions:
    """Evicts Pods for the taints of their devices, which do not change in a simulation.

    Source: kubernetes `pkg/controller/devicetainteviction`.
    """

    def __init__(self, clock: Clock, api: ApiServer, latencies: Latencies, base: ClusterObjects) -> None:
        self._clock, self._api, self._latencies, self._base = clock, api, latencies, base

    def start(self) -> None:
        """Schedule the evictions of Pods that have devices now. New Pods get devices without taints, or tolerate the
        taints; the end of such a toleration is not simulated.
        """
        base = self._base
        if not base.semantics.enabled("DRADeviceTaints"):
            return
        having = [state.pod for state in self._api.pods.values() if state.pod.node_name and state.pod.device_claims]
        taints = taint_eviction.taints_of_devices(base.resource_slices.values()) if having else {}
        rules = base.device_taint_rules.values() if base.semantics.device_taint_rules_apply else ()
        for pod in having:
            due = taint_eviction.eviction_time(pod, base.resource_claims, taints, rules)
            if due is not None:
                when = max(due, self._api.seconds) - self._api.epoch
                self._clock.schedule(when, partial(self._evict, (pod.namespace, pod.name), pod.uid))

    def _evict(self, key: PodKey, uid: str) -> None:
        state = self._api.pods.get(key)
        if state is not None and state.pod.uid == uid and not state.pod.terminal:
            self._clock.spawn(delete_for_taint(self._api, self._latencies, key, "taint of a device"))


def delete_for_taint(api: ApiServer, latencies: Latencies, key: PodKey, why: str) -> Steps:
    """Set the condition DisruptionTarget of a Pod, then delete the Pod; retry if the Pod does not exist.

    Both requests are by name, so they may affect a replacement Pod with the same name. Source: upstream
    `deletePodHandler`, `addConditionAndDeletePod`.
    """
    name = "/".join(key)
    for _ in range(RETRIES):
        state = api.pods.get(key)
        if state is not None:
            yield latencies.write("patch", name)
            if api.disrupt(key, state.pod.uid):
                yield latencies.write("delete", name)
                if api.delete_pod(key, "deleted", message=why):
                    return
        yield BETWEEN_RETRIES


def _with_default_tolerations(state: PodState) -> PodState:
    """Return the Pod with the tolerations that admission adds, which Pods of manifests and recorded cases lack."""
    own = state.pod.spec.tolerations
    added = missing_tolerations(own)
    if not added:
        return state
    return replace(state, pod=replace(state.pod, spec=replace(state.pod.spec, tolerations=(*own, *added))))
