"""kube-controller-manager with several workers for each controller, which run concurrently.

Source: kubernetes `cmd/kube-controller-manager/app` (numbers of workers), client-go `util/workqueue` (only one worker
processes an object at a time; changes during the sync result in one more sync), `pkg/controller/replicaset`
(`slowStartBatch`).
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers import SYNC_DELAY
from forewarn.policies.controllers.actions import (
    CreatePod,
    DeletePod,
    Requeue,
    SetStatus,
    UpdateConflict,
    UpdateWorkload,
)
from forewarn.policies.controllers.daemon_set import DaemonSetStatus
from forewarn.policies.controllers.persistent_volume import Bind, missing_claims, sync_unbound_claim
from forewarn.policies.controllers.resource_quota import slow_start_batches
from forewarn.policies.controllers.stateful_set import StatefulSetStatus
from forewarn.policies.controllers.view import controller_of
from forewarn.policies.copies import replace
from forewarn.policies.findings import listed, plural
from forewarn.policies.kinds.registry import CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, STATEFUL_SET
from forewarn.policies.metering import charge
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.objects.node_selector import NodeSelector, NodeSelectorTerm
from forewarn.policies.objects.storage import PersistentVolume
from forewarn.policies.objects.volumes import driver_of_provisioner
from forewarn.policies.selectors import Requirement
from forewarn.policies.simulation.api_server import Change, claims_of
from forewarn.policies.simulation.controller_manager import ControllerManager
from forewarn.policies.simulation.controller_queue import Collect, Sync, delay_of
from forewarn.policies.simulation.controller_writes import REVISED
from forewarn.policies.simulation.workload_index import PDB

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from forewarn.policies.controllers.actions import Action
    from forewarn.policies.controllers.view import Key, PodState, WorkloadState
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.storage import PersistentVolumeClaim, StorageClass
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.simulation.api_server import ApiServer, PodKey
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.controller_queue import Due
    from forewarn.policies.simulation.controller_view import ControllerView
    from forewarn.policies.simulation.latencies import Latencies


_WORKERS: Final = {PDB: 1, DAEMON_SET: 2}
_USUAL_WORKERS: Final = 5
_WITH_FAILURE_STATUS: Final = ("apps/ReplicaSet", "/ReplicationController")
_APART: Final = 1e-5
"""Maximum seconds between reading the clock and setting a timer by it, with random latencies."""
_SHARED: Final = (DEPLOYMENT, "apps/ReplicaSet")
"""Kinds whose controllers write the same objects."""
_AT_ONCE: Final = ("apps/ReplicaSet", "/ReplicationController", DAEMON_SET, JOB)
"""Kinds whose Pods are created in batches, and deleted all at once."""


class ControllerWorkers(ControllerManager):
    """The simulated controllers, with a queue and several workers for each kind.

    Garbage collection runs concurrently.
    """

    def __init__(self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies) -> None:
        self._queues: dict[str, deque[Key]] = {}
        self._busy = Counter[str]()
        """Kind -> number of busy workers."""
        self._queued: set[Key] = set()
        self._worked_on: set[Key] = set()
        self._unnamed = 0
        super().__init__(clock, api, view, latencies)

    def arrive(self, change: Callable[[], None]) -> None:
        """Apply a user's change now. All controllers process the change at once."""
        change()
        for _ in self._reconcile_all_pdbs():
            pass

    def _put(self, *due: Due) -> None:
        for item in due:
            if isinstance(item, Sync):
                self._delayed.pop(item.key, None)
                self._enqueue(item.key)
                continue
            if isinstance(item, Change) and item.kind == "Pod":
                self._enqueue_of(item.old if item.new is None else item.new)
                continue
            steps = self._deal_with(item)
            if isinstance(item, Collect) or (isinstance(item, Change) and item.kind == "Workload" and item.new is None):
                self.clock.spawn(steps)
            else:
                for _ in steps:  # what is to be done is put into queues, which takes no time
                    pass

    def _put_timer(self, due: Due) -> None:
        self._put(due)

    def _enqueue_of(self, state: PodState) -> None:
        """Queue the PDBs and the workload of a changed Pod. See `_pod_changed`."""
        pod = state.pod
        for key in self.api.pdbs_of(pod.namespace, pod.labels):
            self._enqueue(key)
        owner = controller_of(pod)
        if owner is not None:
            delay = delay_of(self.api, owner)
            if delay:
                self._requeue(owner, self.clock.now + delay)
            else:
                self._enqueue(owner)
            self._wake_reader(owner)

    def _sync(self, key: Key) -> Generator[float | None, None, None]:
        self._enqueue(key)
        yield from ()

    def _enqueue(self, key: Key) -> None:
        """Add an object to the queue of its kind, unless it is queued already; start a worker if one is free."""
        self._idle.discard(key)
        if key in self._queued:
            return
        kind = key[0]
        queue = self._queues.get(kind)
        if queue is None:
            queue = self._queues[kind] = deque()
        self._queued.add(key)
        queue.append(key)
        if key not in self._worked_on and self._busy[kind] < _WORKERS.get(kind, _USUAL_WORKERS):
            self._busy[kind] += 1
            self.clock.spawn(self._work(kind, queue))

    def _work(self, kind: str, queue: deque[Key]) -> Generator[float | None, None, None]:
        """Run a worker until the queue is empty, or contains only objects that other workers are processing."""
        while (key := self._next(queue)) is not None:
            self._queued.discard(key)
            self._worked_on.add(key)
            yield from super()._sync(key)
            if kind == PDB:  # of which a pod may have thousands: each look at one counts as a step of the run
                yield 0.0
            self._worked_on.discard(key)
        self._busy[kind] -= 1

    def _next(self, queue: deque[Key]) -> Key | None:
        """Remove and return the first queued object that no other worker is processing, or None."""
        if queue and queue[0] not in self._worked_on:  # as mostly
            return queue.popleft()
        key = next((key for key in queue if key not in self._worked_on), None)
        if key is not None:
            queue.remove(key)
        return key

    def _carry_out(self, key: Key, actions: Sequence[Action]) -> Generator[float | None, None, None]:
        if not actions:
            self.rejections.begin(key, 0)
            self._after(key)
            return
        if key[0] in REVISED and self._is_revised(key, actions):
            yield self.latencies.write("create", f"{key[1]}/{key[2]}")  # the ControllerRevision
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
        if self.rejections.stops(key) and key[0] in _WITH_FAILURE_STATUS:
            yield from self._write_failure(key, actions)
        self._after(key)

    def _read(self, key: Key) -> dict[Key, WorkloadState]:
        """Return the objects of a sync that other controllers also write."""
        if key[0] not in _SHARED:
            return {}
        state = self.api.workloads.get(key)
        return {} if state is None else {item.key: item for item in (state, *self.api.owned(key))}

    def _written(
        self, key: Key, action: SetStatus | UpdateWorkload | UpdateConflict, read: dict[Key, WorkloadState]
    ) -> Generator[float | None, None, bool]:
        """Execute a write, and return whether the API server accepts it. `read`: the objects as the sync has read them.

        A sync does not read a Deployment again after writing its status, so its next status is rejected. A ReplicaSet's
        controller retries a status write once, over any change. Source: `getNewReplicaSet`, `syncRolloutStatus`,
        `updateReplicaSetStatus`.
        """
        name = f"{action.key[1]}/{action.key[2]}"
        verb = "status" if isinstance(action, SetStatus) else "update"
        yield self.latencies.write(verb, name)
        state = self.api.workloads.get(action.key)
        changed = state is None or state is not read.get(action.key)
        if isinstance(action, UpdateConflict) or (changed and key[0] == DEPLOYMENT):
            return False
        if isinstance(action, SetStatus):
            if changed:
                yield self.latencies.write(verb, name)
            self._store_status(action)
        elif state is not None:
            self.api.put_workload(replace(state, object=action.object))
            read[action.key] = self.api.workloads[action.key]
        return True

    def _write_failure(self, key: Key, actions: Sequence[Action]) -> Generator[float | None, None, None]:
        """Write the failure to create a Pod to the status of a ReplicaSet. As every status change, the write triggers a
        sync.

        Source: pkg/controller/replicaset `calculateStatus` (ReplicaFailure), `updateRS`.
        """
        written = any(isinstance(action, SetStatus) for action in actions)
        if not written and self.rejections.is_rejected(key):
            return  # it has said so already
        if not written:
            yield self.latencies.write("status", f"{key[1]}/{key[2]}")
        for _ in self._sync(key):
            pass

    def _is_revised(self, key: Key, actions: Sequence[Action]) -> bool:
        """Report whether the template of a StatefulSet or DaemonSet has changed, so that its controller creates a
        ControllerRevision.
        """
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
        if len(actions) == 1:
            yield actions
            return
        for what, group in groupby(actions, type):
            alike = list(group)
            if what is CreatePod and key[0] in (*_AT_ONCE, STATEFUL_SET):
                for size in slow_start_batches(len(alike)):
                    yield alike[:size]
                    alike = alike[size:]
            elif what is DeletePod and key[0] in _AT_ONCE:
                yield alike
            else:
                yield from ([action] for action in alike)

    def _together(self, actions: Sequence[Action]) -> Generator[float | None, None, None]:
        """Execute the writes concurrently; continue after all of them.

        The order of concurrent writes is undefined. Here, it is the order of Go on one processor, which starts with the
        last goroutine, as in the reference scheduler.
        """
        if len(actions) == 1:
            yield from self._apply(actions[0])
            return
        for task in [self.clock.spawn(self._apply(action)) for action in (actions[-1], *actions[:-1])]:
            while not task.done:
                task.then_wake = self.clock.running
                yield None

    def _apply(self, action: Action) -> Generator[float | None, None, None]:
        if isinstance(action, SetStatus) and action.key[0] != PDB:
            yield self.latencies.write("status", f"{action.key[1]}/{action.key[2]}")
        if isinstance(action, Requeue) and action.key[0] == CRON_JOB:  # who reads the clock first is anybody's guess
            action = action._replace(at=action.at + _APART * self.view.lot(action.key[2]))
        yield from super()._apply(action)
        if isinstance(action, SetStatus) and action.key[0] == JOB:  # its own status wakes it. Source: `updateJob`
            self._requeue(action.key, self.clock.now + SYNC_DELAY[JOB])

    def _create(self, action: CreatePod) -> Generator[float | None, None, None]:
        """Create a Pod. The API server generates a missing name when it stores the Pod."""
        if action.pod.name:
            yield from super()._create(action)
            return
        self._unnamed += 1
        yield self._creating(action, f"{action.owner[1]}/{self._unnamed}")
        self._store(action.pod, action)


_MAX_NAMED: Final = 3
_RELEASED: Final = "Released"


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
            why = "not in the cluster snapshot: Pods are simulated without their volumes"
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
        elif change.kind == "Volume":
            if change.new.claim is not None:
                self._enqueue(change.new.claim[:2])
        elif change.kind == "Pod":
            if change.new is None:
                self._pod_deleted(change.old)
            elif change.old is None:
                self._check_pod(change.new)
        elif change.kind == "Workload" and change.new is None:
            self._workload_deleted(change.old.key)

    # Pods, and workloads that claims are deleted with

    def _check_pod(self, state: PodState) -> None:
        if any(volume.ephemeral for volume in state.pod.spec.volumes):
            self._clock.spawn(self._create_ephemeral((state.pod.namespace, state.pod.name)))

    def _create_ephemeral(self, pod: PodKey) -> Generator[float | None, None, None]:
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

    def _delete(self, key: PodKey) -> Generator[float | None, None, None]:
        yield self._latencies.write("delete", "/".join(key))
        self._api.storage.delete_claim(key)

    def _claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """Release the volume of a deleted claim.

        For Pods with this claim as an ephemeral volume, create the claim again.
        """
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

    def _run(self) -> Generator[float | None, None, None]:
        while True:
            if self._due:
                yield from self._sync(self._due.popleft())
            else:
                yield None

    def _sync(self, key: PodKey) -> Generator[float | None, None, None]:
        claim = self._api.storage.claim(key)
        if claim is None or claim.fully_bound or claim.deleting:
            return
        storage_class = self._base.storage_classes.get(("", claim.storage_class))
        volumes = self._volumes_of_class(claim.storage_class)
        bound = sync_unbound_claim(claim, storage_class, self._api.storage.volume, volumes)
        if isinstance(bound, Bind):
            yield from self._bind(claim, bound.volume)
        elif bound is not None and key not in self._provisioning and self._can_provision(claim, bound.storage_class):
            self._provisioning.add(key)
            self._clock.spawn(self._provision(claim, bound.storage_class))

    def _volumes_of_class(self, name: str) -> Sequence[PersistentVolume]:
        volumes = self._api.storage.volumes()
        charge(len(volumes) // 4)
        return [volume for volume in volumes.values() if volume.storage_class == name]

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Generator[float | None, None, None]:
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

    def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> Generator[float | None, None, None]:
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
            self._api.storage.put_volume(self._new_volume(now, storage_class, node))

    def _new_volume(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None
    ) -> PersistentVolume:
        driver = driver_of_provisioner(storage_class.provisioner) or storage_class.provisioner
        name = f"pvc-{claim.uid}"
        return PersistentVolume(
            name=name,
            capacity=claim.request or 0,
            access_modes=claim.access_modes,
            claim=(*claim.key, claim.uid),
            storage_class=storage_class.name,
            node_affinity=None if node is None else self._affinity(claim, storage_class, node),
            phase="Pending",
            volume_mode=claim.volume_mode,
            attributes_class=claim.attributes_class,
            csi=(driver, name),
        )

    def _can_provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Report whether the outcome of provisioning is known; record the reason if not."""
        if claim.has_data_source:
            self._note("volumes created from a snapshot or another claim", claim.key)
            return False
        if claim.selected_node is None and self._topology_keys(storage_class, None) != ():
            self._note(f"where StorageClass {storage_class.name} (Immediate) creates volumes", claim.key)
            return False
        return True

    def _affinity(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node) -> NodeSelector | None:
        """Return the node affinity of a new volume by the topology labels of its node; None for all nodes, or if
        unknown.
        """
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
    """Return the node labels that a volume's affinity requires; None if the affinity does not require one value
    for each label.
    """
    if volume.node_affinity is None:
        return ()
    (first, *more) = volume.node_affinity.terms or (NodeSelectorTerm(error="none"),)
    plain = all(expression.operator == "In" and len(expression.values) == 1 for expression in first.expressions)
    return None if more or first.error or first.fields or not plain else tuple(sorted(e.key for e in first.expressions))
