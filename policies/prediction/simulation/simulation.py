"""Simulate a cluster: the state at time 0, arrivals (changes by users), and their effects."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import inf
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.controllers.applied import is_known
from forewarn.policies.kubernetes.controllers.disruption import PdbStatus
from forewarn.policies.kubernetes.controllers.templates import admitted_claim
from forewarn.policies.kubernetes.controllers.view import Key, PodState, controller_of
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.disruption_budget import evicts_unhealthy
from forewarn.policies.kubernetes.objects.fields import ApiObject, group_kind, ref_of, text
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.objects.storage import PersistentVolume, default_storage_class
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
from forewarn.policies.prediction.simulation.api_server import ApiServer, Change, ControllerView, PodKey, Quotas
from forewarn.policies.prediction.simulation.clock import Clock, Latencies, Steps, Timeline
from forewarn.policies.prediction.simulation.controller_manager import (
    FIRST_COLLECTION,
    ControllerManager,
    CordonTaints,
    DeviceTaintEvictions,
    Recreation,
    StorageControllers,
    TaintEvictions,
    template_for,
)
from forewarn.policies.prediction.simulation.scenario import OPERATIONS, Arrival, World, read_node, read_workload
from forewarn.policies.prediction.simulation.scheduler import QUEUE_STARTS, Scheduler, unmodelled_pending
from forewarn.policies.prediction.simulation.scheduler_cache import SchedulerCache

if TYPE_CHECKING:
    from random import Random

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup

RETRY: Final = 5.0
"""Seconds between attempts of an eviction that a PDB blocks."""


def drain(clock: Clock, api: ApiServer, latencies: Latencies, name: str) -> None:
    """Drain a node as `kubectl drain --ignore-daemonsets --force --delete-emptydir-data` does."""
    node = api.nodes.get(name)
    if node is not None:
        if not node.unschedulable:
            api.put_node(replace(node, unschedulable=True))
        for state in [state for state in api.by_node.get(name, {}).values() if not is_skipped(state)]:
            clock.spawn(_evicts(api, latencies, state, f"drain of {name}"))


def _evicts(api: ApiServer, latencies: Latencies, state: PodState, message: str) -> Steps:
    """Evict one Pod as soon as its PDBs allow the eviction, concurrently with other Pods.

    Source: kubectl `pkg/drain` (`GetPodsForDeletion`, `evictPods`).
    """
    key = state.pod.namespace, state.pod.name
    while (stored := api.pods.get(key)) is not None and stored.pod.uid == state.pod.uid:
        yield latencies.write("evict", state.pod.key)
        if evict(api, state, message):
            return
        yield RETRY


def is_skipped(state: PodState) -> bool:
    """Report whether drain skips a Pod: a Pod of a DaemonSet, or the mirror Pod of a static Pod."""
    owner = controller_of(state.pod)
    return owner is not None and owner[0] in ("apps/DaemonSet", "/Node")


def evict(api: ApiServer, state: PodState, message: str) -> bool:
    """Evict a Pod and charge its PDB; return False if the Pod no longer exists or a PDB blocks the eviction."""
    key = state.pod.namespace, state.pod.name
    stored = api.pods.get(key)
    if stored is None or stored.pod.uid != state.pod.uid or _blocking(api, stored):
        return False
    _charge(api, stored)
    api.disrupt(key, stored.pod.uid)
    api.evictions += not stored.pod.terminal
    return api.delete_pod(key, "deleted", message=message)


def remaining_on(api: ApiServer, name: str) -> list[str]:
    """Return the Pods (`namespace/name`) that are still on a node, except those that drain skips."""
    return [state.pod.key for state in api.by_node.get(name, {}).values() if not is_skipped(state)]


def forbidden_by(api: ApiServer, state: PodState) -> list[str]:
    """Return the PDBs (`namespace/name`) that block the eviction of a Pod; empty if the eviction is allowed."""
    return sorted("/".join(key[1:]) for key in _blocking(api, state))


def _charge(api: ApiServer, state: PodState) -> None:
    for key in _pdbs_of(api, state):
        status = _status(api, key)
        if not _is_free(api, state, key):
            api.set_status(key, status._replace(disruptions_allowed=status.disruptions_allowed - 1))


def _blocking(api: ApiServer, state: PodState) -> list[Key]:
    """Return the PDBs that block the eviction of a Pod."""
    pdbs = _pdbs_of(api, state)
    if len(pdbs) > 1:
        return pdbs  # upstream: "more than one PodDisruptionBudget, which the eviction subresource does not support"
    return [k for k in pdbs if not _is_free(api, state, k) and not _status(api, k).disruptions_allowed > 0]


def _pdbs_of(api: ApiServer, state: PodState) -> list[Key]:
    """Return the PDBs that protect a Pod; none for a terminal, Pending or terminating Pod. Source: `canIgnorePDB`."""
    if state.pod.terminal or state.pod.phase == "Pending" or state.terminating:
        return []
    return api.pdbs_of(state.pod.namespace, state.pod.labels)


def _is_free(api: ApiServer, state: PodState, key: Key) -> bool:
    """Report whether the PDB with this key allows the eviction of a Pod even without allowed disruptions."""
    status = _status(api, key)
    is_ready = state.ready is not None
    return not is_ready and evicts_unhealthy(api.workloads[key].object, status.current_healthy, status.desired_healthy)


def _status(api: ApiServer, key: Key) -> PdbStatus:
    status = api.workloads[key].status
    return status if isinstance(status, PdbStatus) else PdbStatus()


def arrive(api: ApiServer, world: World, arrival: Arrival) -> None:
    """Create, update or delete an object of the API server. Raises InvalidObject."""
    kind = group_kind(arrival.object)
    if kind in _STORES:
        _STORES[kind](api, world, arrival)
    elif kind == registry.DISRUPTION_BUDGET or kind not in (registry.PRIORITY_CLASS, *registry.APPLIED):
        state = read_workload(arrival.object)
        old = api.workloads.get(state.key)
        if arrival.op == "delete":
            api.remove_workload(state.key)
        elif old is not None:
            api.put_workload(replace(old, object=arrival.object))
        elif arrival.op == "create":
            api.put_workload(replace(state, created=float(int(api.seconds))))


def _node(api: ApiServer, _: World, arrival: Arrival) -> None:
    name = text(arrival.object, "metadata", "name")
    if arrival.op == "delete":
        api.remove_node(name)
    elif arrival.op == "create" or name in api.nodes:
        api.put_node(arrival.node or read_node(arrival.object))


def _pod(api: ApiServer, world: World, arrival: Arrival) -> None:
    obj = arrival.object
    if arrival.op == "delete":
        api.delete_pod(_key(obj), "deleted", message="user")
        return
    pod = world.admission(obj)
    if _key(obj) in api.pods:
        api.update_pod(pod, obj)
    elif arrival.op == "create":
        rejection = api.rejection(pod, obj)
        if rejection:
            api.rejected[_key(obj)] = rejection
            api.timeline.add("refused", message=f"{pod.key}: {rejection}")
        else:
            api.create_pod(pod, obj)


def _pod_group(api: ApiServer, world: World, arrival: Arrival) -> None:
    key = _key(arrival.object)
    if arrival.op == "delete":
        api.pod_groups.delete(key)
    elif arrival.op == "create" or api.pod_groups.get(key) is not None:
        api.pod_groups.put(world.group_admission(arrival.object))


def _claim(api: ApiServer, world: World, arrival: Arrival) -> None:
    """Create or delete a claim. Pods are simulated without the volumes of a claim whose volume is not known."""
    key, base = _key(arrival.object), world.base or ClusterObjects()
    if arrival.op == "delete":
        api.storage.delete_claim(key)
    elif arrival.op == "create" and api.storage.claim(key) is None:
        default = default_storage_class(base.storage_classes.values())
        claim = admitted_claim({**arrival.object, "status": None}, default)
        if is_known(claim, replace(base, volumes=api.storage.volumes())):
            api.storage.put_claim(claim)
        else:
            api.storage.unlisted |= {key}


def _volume(api: ApiServer, _: World, arrival: Arrival) -> None:
    name = text(arrival.object, "metadata", "name")
    if arrival.op == "create" and api.storage.volume(name) is None:
        volume = PersistentVolume.from_api({**arrival.object, "status": None})
        api.storage.put_volume(replace(volume, phase="Available"))


def _quota(api: ApiServer, _: World, arrival: Arrival) -> None:
    if api.quotas is not None and arrival.op in ("create", "update"):
        quota = ResourceQuota.from_api({**arrival.object, "status": None})
        api.quotas.put(quota, [state for (namespace, _), state in api.pods.items() if namespace == quota.namespace])


_STORES: Final = {
    registry.NODE: _node,
    registry.POD: _pod,
    registry.POD_GROUP: _pod_group,
    registry.CLAIM: _claim,
    registry.VOLUME: _volume,
    registry.RESOURCE_QUOTA: _quota,
}


def _key(obj: ApiObject) -> PodKey:
    return text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")


class Completions:
    """Completes the Pods of Jobs whose run times are known: their containers exit with status 0."""

    def __init__(self, api: ApiServer, await_time: Callable[[float, Callable[[], None]], None]) -> None:
        """Start without Jobs. `await_time`: calls a function at a given time, and keeps the run going until then."""
        self._api, self._await_time = api, await_time
        self._seconds: dict[Key, float] = {}

    def set(self, job: Key, seconds: float) -> None:
        """Complete the Pods of a Job this many seconds after their start, including running ones."""
        if not self._seconds:
            self._api.watchers.append(self.handle)
        self._seconds[job] = seconds
        for state in [*self._api.by_controller.get(job, {}).values()]:
            self._expect(state)

    def handle(self, change: Change) -> None:
        """Schedule the completion of a Pod that has just been bound."""
        if change.kind == "Pod" and change.new is not None and not (change.old and change.old.pod.node_name):
            self._expect(change.new)

    def _expect(self, state: PodState) -> None:
        job = controller_of(state.pod)
        if job in self._seconds and state.pod.node_name and state.active:
            ends = max((state.pod.start_time or 0.0) + self._seconds[job] - self._api.seconds, 0.0)
            key = state.pod.namespace, state.pod.name
            self._await_time(ends, partial(self._api.complete_pod, key, state.pod.uid))


MAX_STEPS: Final = 2_000_000
"""Maximum number of steps of a simulation, so that every run ends."""
STEPS_EACH: Final = 200
"""Maximum number of steps for each node and Pod at the start, if this is more than MAX_STEPS."""
MAX_PODS: Final = 200_000
"""Maximum number of Pods created in a run."""
_PROGRESS_EVERY: Final = 250
_COLLECT_AFTER: Final = 200_000, 50
"""Thresholds of Python's garbage collector: new objects, and collections of new objects, before it runs.

A simulation rarely frees objects, and creates hardly any cycles.
"""
_TIME_TOLERANCE: Final = 1e-3
"""Seconds between two arrivals that are specified for the same time."""


class _SeldomCollected(ContextDecorator):
    """Context manager and decorator that reduces the runs of Python's garbage collector during simulations.

    The collector would need a tenth of the time or more. Its thresholds are global, so overlapping simulations of
    several threads share one change.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs = 0
        self._before = 0, 0, 0

    def __enter__(self) -> None:
        with self._lock:
            self._runs += 1
            if self._runs == 1:
                self._before = new, looks, older = gc.get_threshold()
                if new:  # 0: the collector is off
                    gc.set_threshold(max(_COLLECT_AFTER[0], new), max(_COLLECT_AFTER[1], looks), older)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._runs -= 1
            if not self._runs:
                gc.set_threshold(*self._before)


seldom_collected: Final = _SeldomCollected()


class Simulation:
    """One run of a simulation.

    `random`: the source of random ties and latencies; None: fixed latencies, and the first by name among equal nodes.
    """

    simulates_pod_groups = True
    """Whether PodGroups are simulated. If False, a run raises NotPredicted at the first Pod of a PodGroup."""

    def __init__(
        self,
        world: World,
        random: Random | None = None,
        *,
        choose: Callable[[Sequence[str]], str] | None = None,
        progress: Callable[[float, int], object] | None = None,
        cache: SchedulerCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Load the objects of time 0.

        `choose`: selects one of several nodes that are equal for preemption; None: by `random`. `progress`: called now
        and then with the simulated seconds and the number of steps. `cache`: the state of the scheduler at the start.
        `clock`: an unused clock.
        """
        self.world, self._progress = world, progress
        self.clock = clock or Clock(QUEUE_STARTS)
        self.timeline = Timeline(self.clock)
        base = world.base or ClusterObjects()
        self.api = ApiServer(self.clock, self.timeline, world.epoch, base)
        self.api.recreated = world.recreated
        self._latencies = latencies = Latencies(random, asks_webhooks=world.asks_webhooks)
        if world.pods_take_time_to_start:
            self.api.seconds_to_start = latencies.start
        default_class = default_storage_class(base.storage_classes.values())
        draw = random.random if random else None
        view = ControllerView(self.api, world.semantics, world.admission, draw, default_class)
        self.cache = cache or SchedulerCache(world.base)
        self.controllers = (world.controllers or ControllerManager)(self.clock, self.api, view, latencies)
        tie = partial(_choose, random, [node.name for node in world.nodes]) if random else None
        self.scheduler = Scheduler(
            self.clock,
            self.api,
            self.cache,
            latencies,
            choose or tie or itemgetter(0),
            tie,
            world.semantics,
            has_pod_groups=self.simulates_pod_groups and _has_pod_groups(world),
        )
        self._view = view
        has_quotas = any(group_kind(arrival.object) == registry.RESOURCE_QUOTA for arrival in world.arrivals)
        if (quotas_of := world.quotas_of or ((lambda _: ()) if has_quotas else None)) is not None:
            self.api.quotas = Quotas(self.clock, latencies, quotas_of, world.defaulted, partial(template_for, view))
        self._load(None if world.order_known else random)
        self.api.storage.note_unlisted()
        self.storage = StorageControllers(self.clock, self.api, view, latencies, base)
        self.clock.schedule(0.0, self.controllers.start)
        self.clock.schedule(0.0, self.storage.start)
        if world.controllers is None:
            self.clock.schedule(0.0, CordonTaints(self.clock, self.api).start)
            self.clock.schedule(0.0, TaintEvictions(self.clock, self.api, latencies).start)
            self.clock.schedule(0.0, DeviceTaintEvictions(self.clock, self.api, latencies, base).start)
        self.api.watchers.append(Recreation(self.clock, self.api, latencies).handle)
        self._completions = Completions(self.api, self._await_completion)
        self._place = self.clock.reserve()
        """The reserved number that orders arrivals among other events of the same time."""
        self._steps = 0
        """Number of steps before `run`."""
        self.max_steps = max(MAX_STEPS, STEPS_EACH * (len(world.nodes) + len(world.pods)))
        """Number of steps after which the run is stopped."""
        self._arrivals = len(world.arrivals)
        """Number of future arrivals."""
        self._last_arrival = 0.0
        self.awaited = 0
        """Number of events at known times; the simulation does not end before them."""
        self._goes_on_until = float("-inf")
        """A time before which the run does not end; later events only delay the end."""
        self.steady = True
        """True if nothing would happen after the end of the simulation."""
        self.stopped = ""
        """The reason why the simulation was stopped; "" if it was not."""
        self._arrange_arrivals()

    def _load(self, random: Random | None) -> None:
        """Store the objects of time 0.

        `random`: draws the order in which the scheduler received the Pods, if the order is unknown (see `_any_order`).
        """
        for node in self.world.nodes:
            self.api.put_node(node)
        for workload in self.world.workloads:
            self.api.put_workload(workload)
        for group in (self.world.base or ClusterObjects()).pod_groups.values():
            self.api.pod_groups.put(group)
        pods = self.world.pods
        self.scheduler.ignored.update(unmodelled_pending((state.pod for state in pods), self.cache.base))
        for pod in pods if random is None else _any_order(pods, random):
            self.api.load_pod(pod)
        if random is not None:
            created = sorted(state.created for state in pods)
            self.scheduler.queue.draw_attempts(random.randrange, self.world.epoch, created)
        self.timeline.events.clear()
        self.controllers.set_statuses()

    def _arrange_arrivals(self) -> None:
        for number, (time, arrival) in enumerate(_separate_times(self.world.arrivals), self._place):
            time -= self._latencies.up_to(arrival.sooner) if arrival.sooner else 0.0
            self.clock.schedule(time, partial(self.controllers.arrive, partial(self._arrive, arrival)), number)

    def admit_by(self, admission: Callable[[ApiObject], Pod], group_admission: Callable[[ApiObject], PodGroup]) -> None:
        """From now on, admit Pods and PodGroups with these functions, because PriorityClasses have changed."""
        self.world = self.world._replace(admission=admission, group_admission=group_admission)
        self._view.admit_by(admission)

    def end_within(self, seconds: float) -> None:
        """End the run at most this many simulated seconds from now, even if more events follow."""
        self.world = self.world._replace(horizon=min(self.world.horizon, self.clock.now + seconds))
        self._goes_on_until = float("-inf")

    def extend(self, until: float) -> None:
        """Do not end the run before this time, in seconds, if events follow."""
        if until > self.world.horizon:
            self.world = self.world._replace(horizon=until)

    # The common part of several runs of one cluster, after which they are forked

    def begin(self) -> None:
        """Run all events before the arrivals. Call this before arrivals are added and before `run`."""
        while self.clock.is_due_before(0.0, self._place):
            self._advance()

    def run_first_syncs(self) -> bool:
        """After `begin`: run the first sync of every controller, up to the first Pod garbage collection.

        Returns True if nothing changes; otherwise, discard this simulation. If nothing changes, all Pods are as at the
        start, and nodes that are lost at time 0 can be removed afterwards, because their Pods are collected later.
        Controllers read Pods, which have not changed, and not nodes; only DaemonSets sync again at each loss (see
        `is_as_if_new`).
        """
        if min(self.world.horizon, self.world.quiet) <= FIRST_COLLECTION:
            return False
        while self.clock.is_due_before(FIRST_COLLECTION) and not self.timeline.events and self._steps < self.max_steps:
            self._advance()
        return not self.clock.is_due_before(FIRST_COLLECTION) and not self.timeline.events

    def _advance(self) -> None:
        self._steps += 1
        self.clock.advance()()

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """Add arrivals from time 0 on to a simulation that has none and has not run."""
        self.world, self._arrivals = self.world._replace(arrivals=arrivals), len(arrivals)
        if arrivals:
            self.clock.now = min(self.clock.now, 0.0)
        self._arrange_arrivals()

    @property
    def is_as_if_new(self) -> bool:
        """After `run_first_syncs` and a run: whether a new simulation would have had the same result."""
        first = takewhile(lambda event: event.t < FIRST_COLLECTION, self.timeline.events)
        return all(event.event == "nodeRemoved" for event in first)

    def _arrive(self, arrival: Arrival) -> None:
        self._arrivals -= 1
        self._last_arrival = self.clock.now  # its effects may come later
        effect = OPERATIONS[arrival.op].effect
        if effect is None:
            arrive(self.api, self.world, arrival)
        else:
            effect(self, arrival.object)

    def complete(self, job: ApiObject) -> None:
        """Complete the Pods of a Job after its `durationSeconds`, if the field is set."""
        ref, seconds = ref_of(job, registry.DEFAULT_NAMESPACE), job.get("durationSeconds")
        if seconds is not None:
            self._completions.set((registry.JOB, ref.namespace, ref.name), seconds)

    def drain(self, node: str) -> None:
        """Drain a node as kubectl does (see the function `drain`)."""
        drain(self.clock, self.api, self._latencies, node)

    @seldom_collected
    def run(self, before: float = inf) -> bool:
        """Run until the horizon, until nothing happens for `World.quiet` seconds, or until a limit of work.

        Returns false if it pauses before the first event at or after `before`; `run` continues. Raises NotPredicted.
        """
        for step in range(self._steps, self.max_steps):
            if step % _PROGRESS_EVERY == 0 and self._is_too_large(step):
                return True
            time = self.clock.next_time
            if time is None or (min(time, before) > self._goes_on_until and self._ends_before(min(time, before))):
                return True
            if time >= before:
                self._steps = step
                return False
            self.clock.advance()()
        self._give_up(f"after {self.max_steps:,} steps")
        return True

    def await_time(self, time: float) -> None:
        """Do not end the run before this time, in seconds."""
        self.awaited += 1
        self.clock.schedule(time, self._reached)

    def _await_completion(self, seconds: float, complete: Callable[[], None]) -> None:
        self.clock.schedule(self.clock.now + seconds, complete)
        self.await_time(self.clock.now + seconds)

    def _reached(self) -> None:
        self.awaited -= 1

    def silence(self) -> None:
        self._progress = None

    def add(self, arrivals: Iterable[Arrival]) -> None:
        """Add arrivals in the future to a simulation that has paused or ended."""
        for time, arrival in _separate_times(arrivals):
            self._arrivals += 1
            self.clock.schedule(time, partial(self.controllers.arrive, partial(self._arrive, arrival)))

    def _ends_before(self, time: float) -> bool:
        """Report whether the run is over before the next event, at `time`; if so, set the end time and `steady`.

        It is over at the horizon, or if nothing changes for `world.quiet` seconds and nothing is awaited.
        """
        quiet = max(self.timeline.last, self._last_arrival) + self.world.quiet
        self._goes_on_until = min(quiet, self.world.horizon)
        is_steady = time > quiet and not self.expects_more
        if not is_steady and time <= self.world.horizon:
            return False
        self.clock.now, self.steady = self._goes_on_until if is_steady else self.world.horizon, is_steady
        return True

    @property
    def expects_more(self) -> bool:
        """Whether events follow for certain, or rejected Pods may be created."""
        waits = self._arrivals or self.awaited or self.controllers.terminations
        return bool(waits or self.controllers.rejections.may_be_over)

    def _is_too_large(self, steps: int) -> bool:
        if self._progress is not None:
            self._progress(max(self.clock.now, 0.0), steps)
        if self.api.created > MAX_PODS:
            self._give_up(f"after {MAX_PODS:,} new Pods")
        return bool(self.stopped)

    def _give_up(self, why: str) -> None:
        self.stopped, self.steady = why, False

    def final(self) -> dict[str, dict[str, Any]]:
        """Return `namespace/name` of every existing Pod -> its node ("" without one), nomination and termination."""
        return {state.pod.key: _entry(state) for _, state in sorted(self.api.pods.items())}


def _separate_times(arrivals: Iterable[Arrival]) -> Iterator[tuple[float, Arrival]]:
    """Yield arrivals with different times."""
    time = -1.0
    for arrival in arrivals:
        time = arrival.at if arrival.at > time else time + _TIME_TOLERANCE
        yield time, arrival


def _any_order(pods: Sequence[PodState], random: Random) -> list[PodState]:
    """Return the Pods in a possible order of their arrival at the scheduler.

    Pods of the same second are grouped by workload, and shuffled to a degree that each run draws. A Pod on a node
    arrived when it was bound, at most a second before it started. The order decides which of several Pods on a node
    with the same priority and start time is preempted, and which of several Pending Pods with the same priority is
    tried first. Source: upstream `MoreImportantPod`, `PrioritySort`; `NodeInfo.Pods` has the order of arrival.
    """
    mixed = 2 * random.random()
    turns: dict[Key | None, float] = {}

    def turn(state: PodState) -> tuple[float, float]:
        owner = controller_of(state.pod)
        bound = state.pod.start_time if state.pod.node_name else None
        return state.created if bound is None else float(bound), turns.setdefault(
            owner, random.random()
        ) + mixed * random.random()

    return sorted(pods, key=turn)


def _entry(state: PodState) -> dict[str, Any]:
    entry: dict[str, Any] = {"node": state.pod.node_name}
    if state.pod.nominated_node_name:
        entry["nominated"] = state.pod.nominated_node_name
    if state.terminating:
        entry["terminating"] = True
    return entry


def _has_pod_groups(world: World) -> bool:
    """Report whether the scheduler schedules Pods by PodGroups, and forewarn simulates this for the release."""
    base = world.base or ClusterObjects()
    if not base.semantics.groups_are_preempted_together:
        return False
    if base.semantics.pods_are_grouped is not None:
        return base.semantics.pods_are_grouped
    return base.has_pod_groups or any(group_kind(arrival.object) == registry.POD_GROUP for arrival in world.arrivals)


def _choose(random: Random, nodes: Sequence[str], names: Sequence[str]) -> str:
    """Return one of equal nodes. `nodes`: the names in the order of the world, on which the draw depends."""
    equal = frozenset(names)
    return random.choice([name for name in nodes if name in equal] or names)
