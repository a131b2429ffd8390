"""Everybody but the scheduler: kubelets, kube-controller-manager, one write after the other.

They hear of changes in the order in which those are stored, and deal with one after the other: of each first the
kubelet (in the world of the recordings; else kubelets are by themselves), then the budgets, then the workload's
controller. What time brings (a pod has ended, a sync was put off, the collector's round) comes when every change was
dealt with.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import count
from math import floor
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.controllers import SYNC_DELAY, reconcile
from policies.controllers.actions import (
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
)
from policies.controllers.daemon_set import is_concerned, target_node
from policies.controllers.deployment import settled, settled_sync
from policies.controllers.pod_gc import CHECK_PERIOD, collect
from policies.controllers.view import WorkloadState
from policies.copies import replace
from policies.findings import ObjectRef
from policies.metering import charge
from policies.objects.fields import InvalidObject, group_kind, text
from policies.objects.pod import Owner
from policies.simulation.api_server import BUDGET, Change, controller_of, termination_seconds
from policies.simulation.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from policies.controllers.actions import Action
    from policies.controllers.deployment import Settled
    from policies.controllers.view import Key, PodState
    from policies.objects.node import Node
    from policies.objects.pod import Pod
    from policies.objects.storage import PersistentVolumeClaim
    from policies.simulation.api_server import ApiServer
    from policies.simulation.clock import Clock
    from policies.simulation.controller_view import ControllerView
    from policies.simulation.latencies import Latencies

JOB: Final = "batch/Job"
CRON_JOB: Final = "batch/CronJob"
DAEMON_SET: Final = "apps/DaemonSet"
DEPLOYMENT: Final = "apps/Deployment"
REVISED: Final = ("apps/StatefulSet", DAEMON_SET)
"""Kinds that keep their revisions as objects."""
_CALM: Final = (BUDGET, DEPLOYMENT, "apps/ReplicaSet", "apps/StatefulSet", "/ReplicationController")
"""Kinds of which a sync that has nothing to do leaves nothing behind: others draw lots, or go by more than changes."""
_SIZED: Final = ("apps/ReplicaSet", "apps/StatefulSet")
FIRST_COLLECTION: Final = 5.7
"""When the collector of lost pods looks first, in seconds."""


class Sync(NamedTuple):
    """A workload is due."""

    key: Key


class Collect(NamedTuple):
    """The collector of lost pods is due."""


class Gone(NamedTuple):
    """A pod has ended."""

    key: tuple[str, str]
    uid: str


class Arrive(NamedTuple):
    """Somebody changes something: `change` stores it, and says what else than pods has changed."""

    change: Callable[[], list[Change]]


class Quiet(NamedTuple):
    """A Deployment that needs nothing. `inputs`: what its controller went by; `until`: when it looks at the time, in
    seconds since 1970."""

    inputs: tuple[WorkloadState | None, ...]
    until: float
    actions: Sequence[Action]


Due = Change | Sync | Collect | Gone | Arrive
_NOT_WATCHED: Final = ("Status", "Claim", "Volume")
"""Changes that no controller here waits for."""
_MANY: Final = 500
_LOOK: Final = 25e-6
"""Seconds that it takes to look at a pod, where a workload has very many."""
ARRIVAL: Final = 1e-3
"""Seconds that pass after an arrival before anybody looks at what has changed."""


class ControllerManager:
    """One actor that deals with changes in their order."""

    def __init__(
        self, clock: Clock, api: ApiServer, view: ControllerView, latencies: Latencies, *, grows_only: bool = False
    ) -> None:
        """`grows_only`: the world of the recordings: ReplicaSets and StatefulSets delete no pods, kubelets are a part
        of this one actor, and the collector of lost pods deletes them in one write."""
        self._grows_only = grows_only
        self._clock, self._api, self._view, self._latencies = clock, api, view, latencies
        self._due: deque[Due] = deque()
        self._timers: deque[Due] = deque()
        self._arriving: list[Change] | None = None
        self._delayed: dict[Key, float] = {}
        self._numbers: dict[Key, int] = {}
        self._quarantine: Mapping[str, float] = {}
        self._collected: set[Key] = set()
        """Workloads whose garbage is being collected, with all that is theirs."""
        self._collects = False
        self._collected_for = 0.0
        """Seconds that its rounds have taken so far: each begins a period after the end of the one before."""
        self._quiet: dict[Key, Quiet] = {}
        self._settled: dict[Key, Settled] = {}
        self._idle: set[Key] = set()
        """Objects whose last sync had nothing to do, and of which nothing has changed since."""
        self._seen = -1
        """The API server's revision when all budgets were last brought up to date."""
        self.terminations: dict[str, float] = {}
        """uid -> when a pod that was told to end is gone."""
        self.unreadable: dict[Key, str] = {}
        """Objects whose controllers cannot read them, and why."""
        self.refusals = Refusals(api)
        self._task = clock.spawn(self._run())

    @property
    def may_try_again(self) -> bool:
        """Whether a workload that a quota refused waits to try again, and pods have gone since."""
        return self.refusals.may_be_over

    def start(self) -> None:
        """Look at every workload, and from now on at what changes."""
        for key in list(self._api.workloads):
            self._count_pods(key)
        self._api.watchers.append(self._heard)
        keys = [key for key in self._api.workloads if key[0] != BUDGET]
        if not self._grows_only:  # as the API server lists them, by namespace and name
            keys.sort(key=lambda key: key[1:])
        self._put(*map(Sync, keys))

    def take_on(self, keys: Sequence[Key]) -> None:
        """Workloads that have been loaded while it is under way, with their pods."""
        for key in keys:
            self._count_pods(key)
        self._set_statuses(key for key in keys if key[0] in REVISED)
        self._put(*(Sync(key) for key in keys))

    def set_statuses(self) -> None:
        """Bring the status of every budget up to date, before anything happens, and note of StatefulSets and DaemonSets
        which template their pods are of: one that is changed at once is rolled out."""
        self._set_statuses([key for kind in (*REVISED, BUDGET) for key in self._api.keys_of(kind)])

    def _set_statuses(self, keys: Iterable[Key]) -> None:
        for key in keys:
            try:
                actions = reconcile(self._view, key, self._api.seconds)
            except InvalidObject as error:
                self.unreadable[key] = self._told(key, error)
                continue
            for action in actions:
                if isinstance(action, SetStatus):
                    self._api.set_status(key, action.status)

    def _told(self, key: Key, error: InvalidObject) -> str:
        """What is wrong, of the workload that people know where it is wrong with a pod that has no name yet."""
        if error.ref is not None and error.ref.name:
            return str(error)
        state = self._api.workloads.get(key)
        kind, namespace, name = (state and state.controller) or key
        ref = ObjectRef("", kind.rpartition("/")[2], namespace, name)
        return str(InvalidObject(error.problem, error.path, ref))

    def _heard(self, change: Change) -> None:
        if change.kind in _NOT_WATCHED:
            return
        if change.kind != "Pod":
            self._idle.clear()
        elif change.new is change.old:
            if self._are_idle(change.new):
                return
        elif change.old is not None:  # budgets that select it no longer are not looked at now
            pod = change.old.pod
            self._idle.difference_update(self._api.budgets_of(pod.namespace, pod.labels))
        if change.kind == "Pod":
            if change.new is None:
                self._keep_for_its_job(change.old)
            elif not self._grows_only and change.new.terminating and not (change.old and change.old.terminating):
                self._kubelet_ends(change.new)
        if self._arriving is not None and change.kind != "Pod":
            self._arriving.append(change)
        else:
            self._put(change)

    def _keep_for_its_job(self, state: PodState) -> None:
        """A pod that is gone has ended now, as its kubelet says; in the recordings nobody says when. Source:
        pkg/controller/job `getFinishedTime`."""
        owner = controller_of(state.pod)
        if owner is not None and owner[0] == JOB and owner in self._api.workloads:
            ended = state.finished if self._grows_only else float(floor(self._api.seconds))
            self._view.keep(owner, replace(state, gone=True, finished=ended))

    def arrive(self, change: Callable[[], None]) -> None:
        """Somebody changes something: now, and it is looked at as soon as what is being done is done. In the world of
        the recordings it is changed only then."""
        if self._grows_only:
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
            yield from self._collect_lost_pods()
        elif isinstance(due, Gone):
            self._gone(due.key, due.uid)
        elif isinstance(due, Arrive):
            yield from self._arrived(due.change)
        elif due.kind == "Pod":
            yield from self._pod_changed(due.old, due.new)
        elif due.kind == "Node":
            yield from self._node_changed(due.old, due.new)
        else:
            yield from self._workload_changed(due.old, due.new)

    def _arrived(self, change: Callable[[], list[Change]]) -> Generator[float | None, None, None]:
        """What arrives is looked at first; its consequences wait until it is a moment old."""
        for what in change():
            yield from self._deal_with(what)
        yield from self._all_budgets()
        yield ARRIVAL

    def _pod_changed(self, old: PodState | None, new: PodState | None) -> Generator[float | None, None, None]:
        if self._grows_only and new is not None and new.terminating and not (old is not None and old.terminating):
            self._kubelet_ends(new)
        state = new if new is not None else old
        if state is None:
            return
        yield from self._budgets(state)
        owner = controller_of(state.pod)
        if owner is not None:
            yield from self._sync_after(owner)
            if owner[0] != JOB:  # a CronJob hears of its Jobs alone
                self._wake_controller(owner)

    def _kubelet_ends(self, state: PodState) -> None:
        """A pod is gone when it has ended, counted from when its kubelet hears of it, and its kubelet has said so."""
        uid, key = state.pod.uid, (state.pod.namespace, state.pod.name)
        ends = self._clock.now + termination_seconds(state)
        self.terminations[uid] = ends
        if self._grows_only:
            self._clock.at(ends, partial(self._put_timer, Gone(key, uid)))
        else:
            self._clock.at(ends + self._latencies.write("kubelet", state.pod.key), partial(self._gone, key, uid))

    def _gone(self, key: tuple[str, str], uid: str) -> None:
        self.terminations.pop(uid, None)
        self._api.remove_pod(key, uid)

    def _node_changed(self, old: Node | None, new: Node | None) -> Generator[float | None, None, None]:
        """In the world of the recordings every DaemonSet is looked at, also for a node that goes."""
        if new is None and not self._collects:
            self._collects = True
            self._arrange_collection()
        keys = self._api.keys_of(DAEMON_SET)
        if not self._grows_only:  # upstream `syncNodeUpdate` lists them in the order of a Go map
            keys.sort(key=lambda key: self._view.lot(key[2]))
            keys = [key for key in keys if new is not None and self._is_concerned(key, old, new)]
        for key in keys:
            yield from self._sync(key)

    def _is_concerned(self, key: Key, old: Node | None, new: Node) -> bool:
        try:
            return is_concerned(self._view, key, old, new)
        except InvalidObject:
            return True  # its sync notes why

    def _workload_changed(
        self, old: WorkloadState | None, new: WorkloadState | None
    ) -> Generator[float | None, None, None]:
        if new is None:
            if old is not None and old.controller not in self._collected:
                yield from self._collect_garbage(old.key)
        elif new.key[0] != BUDGET:
            if old is None:
                self._count_pods(new.key)
            yield from self._sync(new.key)
            self._wake_controller(new.key)

    def _collect_garbage(self, key: Key) -> Generator[float | None, None, None]:
        """What a deleted workload controls, the oldest first: its Jobs or ReplicaSets with theirs, and pods."""
        self._view.forget(key)
        self._collected.add(key)
        for owned in self._api.owned(key):
            self._api.remove_workload(owned.key)
            yield from self._collect_garbage(owned.key)
        self._collected.discard(key)
        for state in self._view.pods_of(key):
            if not state.terminating:
                yield from self._delete(state.pod.namespace, state.pod.name, force=False, message="garbage collector")

    # Budgets

    def _budgets(self, state: PodState) -> Generator[float | None, None, None]:
        """Bring those up to date that select a pod."""
        for key in self._api.budgets_of(state.pod.namespace, state.pod.labels):
            yield from self._sync(key)

    def _all_budgets(self) -> Generator[float | None, None, None]:
        """Where nothing has changed since the last time, as when many nodes are lost at once, none differs."""
        if self._seen == self._api.revision:
            return
        self._seen = self._api.revision
        for key in self._api.budgets():
            yield from self._sync(key)

    # Workloads

    def _are_idle(self, state: PodState) -> bool:
        """Whether all who hear of a pod would do nothing again. What is looked at after a while is not among them: the
        look that this change asks for may be the one that others wait for."""
        owner = controller_of(state.pod)
        keys = self._api.budgets_of(state.pod.namespace, state.pod.labels)
        if owner is not None:
            above = self._api.workloads.get(owner)
            if self._grows_only or owner[0] in SYNC_DELAY or len(self._api.by_controller.get(owner, ())) > _MANY:
                return False
            keys = [*keys, owner] if above is None or above.controller is None else [*keys, owner, above.controller]
        return self._idle.issuperset(keys)

    def _sync_after(self, key: Key) -> Generator[float | None, None, None]:
        """Sync a workload whose pod has changed: at once, or after a while, which further changes do not move."""
        delay = self._delay_of(key)
        if not delay:
            yield from self._sync(key)
        else:
            self._requeue(key, self._clock.now + delay)

    def _delay_of(self, key: Key) -> float:
        """Seconds between a change of a workload's pod and its sync. To look at thousands of pods takes a controller a
        while too, in which further changes come together."""
        count = len(self._api.by_controller.get(key, ()))
        return SYNC_DELAY.get(key[0], 0.0) + (count * _LOOK if count > _MANY else 0.0)

    def _wake_controller(self, key: Key) -> None:
        """What controls a workload looks at it when it, its status or its pods have changed; many changes, one look."""
        state = self._api.workloads.get(key)
        if state is not None and state.controller is not None:
            count = len(self._api.by_controller.get(key, ()))
            self._requeue(state.controller, self._clock.now + (count * _LOOK if count > _MANY else 0.0))

    def _requeue(self, key: Key, time: float) -> None:
        self._idle.discard(key)
        if not self._delayed.get(key, float("inf")) <= time:
            self._delayed[key] = time
            self._clock.at(time, partial(self._sync_due, key, time))

    def _sync_due(self, key: Key, time: float) -> None:
        if self._delayed.get(key) == time:
            self._put_timer(Sync(key))

    def _sync(self, key: Key) -> Generator[float | None, None, None]:
        if key in self.unreadable:
            return
        try:
            actions = self._reconcile(key)
        except InvalidObject as error:
            self.unreadable[key] = self._told(key, error)
            return
        yield from self._carry_out(key, actions)
        if key[0] in _CALM and (not actions or self._only_waits(key, actions)):
            self._idle.add(key)

    def _only_waits(self, key: Key, actions: Sequence[Action]) -> bool:
        """Whether there is nothing to do but to look again when it will be looked at anyway."""
        due = [action.at - self._api.epoch for action in actions if isinstance(action, Requeue) and action.key == key]
        return len(due) == len(actions) and self._delayed.get(key) == min(due)

    def _carry_out(self, key: Key, actions: Sequence[Action]) -> Generator[float | None, None, None]:
        self.refusals.begin(key, sum(isinstance(action, CreatePod) for action in actions))
        for action in actions:
            if self._grows_only and isinstance(action, DeletePod) and key[0] in _SIZED:
                continue
            if not (isinstance(action, CreatePod) and self.refusals.stops(key)):
                yield from self._apply(action)
        self._after(key)

    def _after(self, key: Key) -> None:
        """Try again later where a quota refused a pod."""
        seconds = self.refusals.back_off(key)
        if seconds is not None:
            self._requeue(key, self._clock.now + seconds)

    def _reconcile(self, key: Key) -> Sequence[Action]:
        """What the controller does; of a Deployment that is as it was when it did nothing, nothing again.

        Its controller goes by the Deployment and its ReplicaSets with their statuses alone, but for one that is
        recreated, and by the time when it gives up.
        """
        if key[0] != DEPLOYMENT:
            return reconcile(self._view, key, self._api.seconds)
        state, owned = self._api.workloads.get(key), self._api.owned(key)
        if state is not None and len(owned) == 1:
            return self._reconcile_settled(state, owned)
        inputs = state, *owned
        known = self._quiet.get(key)
        if known is not None and self._api.seconds < known.until and _are_the_same(known.inputs, inputs):
            return known.actions
        actions = reconcile(self._view, key, self._api.seconds)
        if all(isinstance(a, Requeue) for a in actions) and all(s is not None and s.status is not None for s in inputs):
            until = min((a.at for a in actions if isinstance(a, Requeue)), default=float("inf"))
            if state is not None and text(state.object, "spec", "strategy", "type") != "Recreate":
                self._quiet[key] = Quiet(inputs, until, actions)
        return actions

    def _reconcile_settled(self, state: WorkloadState, owned: Sequence[WorkloadState]) -> Sequence[Action]:
        """Of a Deployment with one ReplicaSet."""
        known, now = self._settled.get(state.key), self._api.seconds
        actions = None if known is None else settled_sync(known, state, owned[0], now)
        if actions is not None:
            return actions
        found = reconcile(self._view, state.key, now)
        known = settled(state, owned, found)
        if known is not None:
            self._settled[state.key] = known
        return found

    def _apply(self, action: Action) -> Generator[float | None, None, None]:
        if isinstance(action, CreatePod):
            yield from self._create(action)
        elif isinstance(action, DeletePod):
            yield from self._delete(action.namespace, action.name, force=action.force, message=_who(action.owner))
        elif isinstance(action, CreateClaim):
            yield from self._create_claim(action.claim)
        elif isinstance(action, SetClaimOwner):
            yield self._latencies.write("update", f"{action.namespace}/{action.name}")
            claim = self._api.claim((action.namespace, action.name))
            if claim is not None:
                self._api.put_claim(replace(claim, owner=action.owner))
        elif isinstance(action, SetStatus):
            if action.key[0] == BUDGET:
                yield self._latencies.write(*self._named("status", action.key))
            self._store_status(action)
        elif isinstance(action, ReleasePod):
            self._view.release(action.key, action.uid)
        elif isinstance(action, Requeue):
            self._requeue(action.key, action.at - self._api.epoch)
        elif isinstance(action, Report):
            self._report(action)
        elif isinstance(action, UpdateConflict):
            yield self._latencies.write(*self._named("update", action.key))
        else:
            yield from self._change_workload(action)

    def _store_status(self, action: SetStatus) -> None:
        self._api.set_status(action.key, action.status)
        self._wake_controller(action.key)

    def _report(self, action: Report) -> None:
        if action.key[0] == JOB and action.reason == "Failed":
            self._api.timeline.add("jobFailed", message=f"{action.key[1]}/{action.key[2]}: {action.message}")

    def _change_workload(
        self, action: CreateWorkload | UpdateWorkload | DeleteWorkload
    ) -> Generator[float | None, None, None]:
        if isinstance(action, CreateWorkload):
            metadata = action.object["metadata"]
            key = (group_kind(action.object), text(metadata, "namespace"), text(metadata, "name"))
            yield self._latencies.write(*self._named("create", key))
            if key not in self._api.workloads:
                now = float(int(self._api.seconds))
                self._api.put_workload(WorkloadState(key, action.object, created=now, controller=action.owner))
            return
        verb = "update" if isinstance(action, UpdateWorkload) else "delete"
        yield self._latencies.write(*self._named(verb, action.key))
        state = self._api.workloads.get(action.key)
        if state is None:
            return
        if isinstance(action, UpdateWorkload):
            self._api.put_workload(replace(state, object=action.object))
        else:
            self._api.remove_workload(action.key)

    def _named(self, verb: str, key: Key) -> tuple[str, str]:
        """What the time of a write goes by; in the recordings by less."""
        return (
            ("create" if verb == "create" else "update", key[2]) if self._grows_only else (verb, f"{key[1]}/{key[2]}")
        )

    # Pods

    def _create_claim(self, claim: PersistentVolumeClaim) -> Generator[float | None, None, None]:
        if claim.key in self._api.unlisted_claims:
            return
        yield self._latencies.write("create", "/".join(claim.key))
        if self._api.claim(claim.key) is None:
            self._api.put_claim(claim)

    def _create(self, action: CreatePod) -> Generator[float | None, None, None]:
        for claim in action.claims:
            yield from self._create_claim(claim)
        pod = action.pod
        if not pod.name:
            pod = replace(pod, name=self._name(action))
        yield self._creating(action, pod.key)
        self._store(pod, action)
        for owner in action.claim_owners:
            yield from self._apply(owner)

    def _creating(self, action: CreatePod, name: str) -> float:
        """Seconds until a Pod is stored."""
        takes = self._latencies.replacement if action.owner[0] in REVISED else partial(self._latencies.write, "create")
        return takes(name)

    def _store(self, pod: Pod, action: CreatePod) -> None:
        """The pod is there, where its workload is there still."""
        key = action.owner
        state = self._api.workloads.get(key)
        if state is None:
            return
        refusal = self._api.refusal(pod, action.template)
        if refusal:
            self.refusals.refused(key, refusal)
            return
        owner = pod.owner or Owner(key[0].rpartition("/")[2], key[2], text(state.object, "metadata", "uid"))
        pod = pod if pod.name else replace(pod, name=self._name(action))
        self.refusals.made(key, self._api.create_pod(replace(pod, owner=owner), action.template))

    def _name(self, action: CreatePod) -> str:
        if action.owner[0] == DAEMON_SET:
            return self._free_name(action.owner[1], f"{action.owner[2]}-{target_node(action.pod)}")
        number = self._numbers[action.owner] = self._numbers.get(action.owner, 0) + 1
        stem = action.generate_name.removesuffix("-")
        return f"{stem}-{number}"

    def _free_name(self, namespace: str, name: str) -> str:
        """The name, or where it is taken one like it: of a set that surges the old pod of the node is still there."""
        if (namespace, name) not in self._api.pods:
            return name
        for number in count(2):
            charge()  # a dump may have pods of any names
            if (namespace, f"{name}-{number}") not in self._api.pods:
                return f"{name}-{number}"
        raise AssertionError("numbers do not end")

    def _count_pods(self, key: Key) -> None:
        self._numbers[key] = len(self._api.by_controller.get(key, {}))

    def _delete(
        self, namespace: str, name: str, *, force: bool, message: str, disrupted: bool = False
    ) -> Generator[float | None, None, None]:
        yield self._latencies.write("delete", f"{namespace}/{name}")
        self._api.delete_pod((namespace, name), "deleted", message=message, force=force, disrupted=disrupted)

    # Lost pods

    def _arrange_collection(self) -> None:
        first = FIRST_COLLECTION + self._collected_for
        rounds = max(-(-(self._clock.now - first) // CHECK_PERIOD), 0)
        time = first + CHECK_PERIOD * rounds
        if time <= self._clock.now:
            time += CHECK_PERIOD
        self._clock.at(time, partial(self._put_timer, Collect()))

    def _collect_lost_pods(self) -> Generator[float | None, None, None]:
        pods, begun = self._api.strays(), self._clock.now
        deletes, self._quarantine = collect(pods, self._api.nodes, self._quarantine, self._api.seconds)
        for action in sorted(deletes, key=lambda action: self._view.lot(action.name)):
            if not self._grows_only:  # its phase comes first. Source: `markFailedAndDeletePod`
                yield self._latencies.write("patch", f"{action.namespace}/{action.name}")
            pod = self._api.pod(action.namespace, action.name)
            bound = pod is not None and bool(pod.node_name)
            who = "pod garbage collector"
            yield from self._delete(action.namespace, action.name, force=True, message=who, disrupted=bound)
        if not self._grows_only:  # Source: `wait.UntilWithContext`, which waits when it is through
            self._collected_for += self._clock.now - begun
        if self._quarantine or any(state.pod.node_name for state in pods):
            self._arrange_collection()
        else:
            self._collects = False


def _are_the_same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _who(owner: Key | None) -> str:
    return "pod garbage collector" if owner is None else f"{owner[0].rpartition('/')[2]} {owner[2]}"
