"""kube-scheduler in a simulation: its loop, its binding cycles, and its reactions to changes.

Source: kubernetes `pkg/scheduler/schedule_one.go`, `eventhandlers.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling import not_predicted
from forewarn.policies.kubernetes.scheduling.arguments import VolumeBindingArgs
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.devices.claims import claim_of_an_earlier_cycle, extended_resources_of
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending, responsible_for_pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import Code, Status, unresolvable
from forewarn.policies.kubernetes.scheduling.plugins.dynamic_resources import DynamicResources, claims_on
from forewarn.policies.kubernetes.scheduling.plugins.other_points import GangScheduling, SchedulingGates
from forewarn.policies.kubernetes.scheduling.pod_group_cycle import GroupPreemption, PodGroupResult, schedule_pod_group
from forewarn.policies.kubernetes.scheduling.preemption import Candidate, matching
from forewarn.policies.kubernetes.scheduling.queue import priority_queue, registrations
from forewarn.policies.kubernetes.scheduling.snapshot import Columns, Snapshot, loses_nomination, victims_to_evict
from forewarn.policies.prediction.simulation.api_server import ApiServer, Change, Condition, PodKey, name_of_group
from forewarn.policies.prediction.simulation.scheduler_cache import (
    NotPredicted,
    Rejected,
    SchedulingAlgorithm,
    volumes_on,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import PodState
    from forewarn.policies.kubernetes.objects.devices import ResourceClaim
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
    from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import PodVolumes
    from forewarn.policies.prediction.simulation.clock import Clock, Latencies, Steps, Task
    from forewarn.policies.prediction.simulation.scheduler_cache import SchedulerCache


class ViolatedPdbs:
    """Counts the violations of a simulation.

    A cycle may choose victims that an earlier cycle chose, because they are still terminating: each victim counts once.
    Several cycles may evict Pods of a PDB before its status changes: all these Pods count against this status.
    """

    def __init__(self) -> None:
        """Start without evictions."""
        self.counts: dict[str, int] = {}
        """`namespace/name` of a PDB -> number of evicted Pods beyond its allowed disruptions."""
        self._evicted: set[tuple[str, str]] = set()
        """(`namespace/name`, uid) of all victims."""
        self._since: dict[str, tuple[PodDisruptionBudget, int]] = {}
        """`namespace/name` of a PDB -> (its last state, number of victims that this state does not include)."""

    def add(self, snapshot: Snapshot, victims: Sequence[Pod]) -> None:
        """Count the violations by the eviction of these victims. `snapshot`: the state before the eviction."""
        for victim in victims:
            identity = victim.key, victim.uid
            if victim.terminating or identity in self._evicted:
                continue
            self._evicted.add(identity)
            for pdb in matching(victim, snapshot.pdbs.get(victim.namespace, ())):
                if victim.name not in pdb.disrupted_pods:
                    self._count(pdb)

    def _count(self, pdb: PodDisruptionBudget) -> None:
        name = f"{pdb.namespace}/{pdb.name}"
        state, evicted = self._since.get(name, (pdb, 0))
        if state is not pdb:
            # The new status may not include the latest evictions. It includes as many as its allowed disruptions
            # decreased by.
            fewer = state.disruptions_allowed - pdb.disruptions_allowed
            evicted = max(evicted - fewer, 0) if fewer > 0 else 0
        evicted += 1
        self._since[name] = pdb, evicted
        if evicted > pdb.disruptions_allowed:
            self.counts[name] = self.counts.get(name, 0) + 1


_POLL_SECONDS: Final = 1.0
"""Seconds between two checks whether all claims are bound."""


class VolumeBinder:
    """Writes the selected volumes and nodes of a Pod's claims, and waits until the claims are bound."""

    def __init__(
        self, clock: Clock, api: ApiServer, cache: SchedulerCache, latencies: Latencies, semantics: Semantics
    ) -> None:
        self._clock, self._api, self._cache, self._latencies = clock, api, cache, latencies
        self._semantics = semantics

    def assume(self, volumes: PodVolumes, node: str) -> None:
        """Assume that the claims are bound to their volumes, and that volumes are provisioned for `node`, until the API
        server confirms it.

        Source: upstream `AssumePodVolumes`.
        """
        for claim, volume in volumes.matched:
            self._cache.volumes.put(("", volume.name), _bound(volume, claim))
        for claim in volumes.to_provision:
            self._cache.claims.put(claim.key, replace(claim, selected_node=node))

    def revert(self, volumes: PodVolumes) -> None:
        """Undo `assume`: use the stored volumes and claims again. Source: upstream `RevertAssumedPodVolumes`."""
        for _, volume in volumes.matched:
            if (stored_volume := self._api.storage.volume(volume.name)) is not None:
                self._cache.volumes.put(("", volume.name), stored_volume)
        for claim in volumes.to_provision:
            if (stored := self._api.storage.claim(claim.key)) is not None:
                self._cache.claims.put(claim.key, stored)

    def bind(self, pod: Pod, node: str, volumes: PodVolumes) -> Generator[float | None, None, str]:
        """Bind the volumes of a Pod; return why this failed, or "" when all claims are bound.

        A volume or claim that changed since the scheduling cycle causes a conflict. Source: upstream `BindPodVolumes`.
        """
        for claim, volume in volumes.matched:
            yield self._latencies.write("update", f"/{volume.name}")
            stored_volume = self._api.storage.volume(volume.name)
            if stored_volume is not volume:
                return f'volume "{volume.name}" has changed'
            self._api.storage.put_volume(_bound(stored_volume, claim))
        for claim in volumes.to_provision:
            yield self._latencies.write("update", "/".join(claim.key))
            stored = self._api.storage.claim(claim.key)
            if stored is not claim:
                return f'claim "{"/".join(claim.key)}" has changed'
            self._api.storage.put_claim(replace(stored, selected_node=node))
        until = self._clock.now + self._timeout(pod)
        while self._clock.now + _POLL_SECONDS <= until:
            yield _POLL_SECONDS
            problem = self._problem(pod, node, volumes)
            if problem is None:
                return ""
            if problem:
                return f"binding volumes: {problem}"
        return "binding volumes: context deadline exceeded"

    def _timeout(self, pod: Pod) -> float:
        profile = configuration_of(self._semantics).profile(pod.spec.scheduler_name)
        args = None if profile is None else profile.args.get("VolumeBinding")
        return float((args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()).bind_timeout_seconds)

    def _problem(self, pod: Pod, node: str, volumes: PodVolumes) -> str | None:
        """Return why binding fails; "" while it is pending; None if all claims are bound. Source: `checkBindings`."""
        target = self._api.nodes.get(node)
        if target is None:
            return f'failed to get node "{node}": node "{node}" not found'
        if self._api.pod(pod.namespace, pod.name) is None:
            return "pod does not exist any more"
        every = True
        for claim in (*(claim for claim, _ in volumes.matched), *volumes.to_provision):
            stored = self._api.storage.claim(claim.key)
            if stored is None:
                return f'failed to check binding: could not find object "{"/".join(claim.key)}"'
            every = every and stored.fully_bound
        for claim in volumes.to_provision:
            stored = self._api.storage.claim(claim.key)
            if stored is None or stored.selected_node != node:
                return f'provisioning failed for PVC "{claim.name}"'
            volume = self._api.storage.volume(stored.volume_name)
            if volume is not None and not volume.reachable_from(target.labels):
                return f'pv "{volume.name}" node affinity doesn\'t match node "{node}"'
        return None if every else ""


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    return replace(volume, claim=(claim.namespace, claim.name, claim.uid))


QUEUE_STARTS: Final = -0.5
"""The time at which the periodic flushes of the queue begin, in simulated seconds."""
UNSCHEDULABLE: Final = "Unschedulable"
"""The reason in the condition PodScheduled of a Pod that fits on no node."""


class Scheduler:
    """A simulated kube-scheduler.

    `choose`, `tie`: see SchedulingAlgorithm. `semantics`: those of its release and configuration.
    """

    def __init__(
        self,
        clock: Clock,
        api: ApiServer,
        cache: SchedulerCache,
        latencies: Latencies,
        choose: Callable[[Sequence[str]], str],
        tie: Callable[[Sequence[str]], str] | None = None,
        semantics: Semantics = DEFAULT,
        *,
        has_pod_groups: bool = False,
    ) -> None:
        """Start the loop and watch the API server. `has_pod_groups`: whether Pods are scheduled by their PodGroups."""
        self._names, self._announces = semantics.scheduler_names, semantics.expected_bindings_are_announced
        self._binder = VolumeBinder(clock, api, cache, latencies, semantics)
        self.clock, self.api, self.cache, self.latencies = clock, api, cache, latencies
        self.algorithm = SchedulingAlgorithm(cache.node_tree, choose, tie)
        self.nominator = priority_queue.Nominator(api.pod, cache.nominate)
        executor = PreemptionExecutor(
            clock, api, latencies, self._nominated, cache.group_of if has_pod_groups else lambda _: None
        )
        self._executor, self._devices = executor, DeviceClaims(cache)
        self.ignored: set[str] = set()
        """`namespace/name` of Pods that were Pending at the start, and whose claims forewarn does not model."""
        self._groups = PodGroupScheduling(self)
        plugins = (SchedulingGates, executor, *([self._groups] if has_pod_groups else ()))
        configuration = configuration_of(semantics)
        gates = {
            name: [plugin for plugin in plugins if plugin.name in profile.plugins_at("preEnqueue")]
            for name, profile in configuration.profiles.items()
        }
        waits = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
        hints = registrations.QueueingHints.from_profiles(semantics)
        self.queue = priority_queue.PriorityQueue(
            lambda: clock.now, self.nominator, hints, gates, backoff=waits, has_pod_groups=has_pod_groups
        )
        self.violated_pdbs = ViolatedPdbs()
        self.before_preemption: Callable[[Rejected, Candidate, Pod], None] | None = None
        """Called for each preemption before the evictions: the decision, its victims and the preemptor."""
        self.late = 0
        """How many times a Pod fits or preempts only after MAX_IN_UNSCHEDULABLE_PODS: races decide whether it waits."""
        self._flush_due = self._backoff_due = float("inf")
        self._attempting: priority_queue.Entity | None = None
        """The entity that the loop tries next; it was popped before the last write was reported."""
        api.watchers.append(self.handle)
        self._loop = clock.spawn(self._run())

    def _nominated(self, node: str) -> list[Pod]:
        """Return the queued Pods nominated to a node, as stored. Source: upstream `nominatedPodToInfo`."""
        infos = (self.queue.get(pod) for pod in self.nominator.pods_for_node(node))
        return [info.pod for info in infos if info is not None]

    def watch_draws(self) -> None:
        """From now on, record in the algorithm whether the outcome depends on a choice that kube-scheduler makes by
        chance. The order of Pods that are Pending at the start is unknown.
        """
        self.algorithm.is_drawn = False
        infos = sorted(self.queue.active, key=lambda info: info.priority)
        for first, second in pairwise(infos):
            self.algorithm.note_order(first, second)

    # The loop

    def _run(self) -> Steps:
        while True:
            info, self._attempting = self._attempting or self.queue.pop(), None
            if info is None:
                self._arrange_flushes()
                yield None
                continue
            self.algorithm.note_order(info, self.queue.active.peek())
            if isinstance(info, priority_queue.QueuedPodGroupInfo):
                yield from self._groups.schedule_one(info)
            elif self.cache.is_assumed(info.pod):
                self.queue.done(info.pod)
            else:
                yield from self._schedule_one(info)

    def _schedule_one(self, info: priority_queue.QueuedPodInfo) -> Steps:
        yield self.latencies.cycle(info.pod.key)
        snapshot = self.cache.snapshot()
        result = self.algorithm.schedule_pod(snapshot, info.pod)
        is_late = self.clock.now - info.timestamp > priority_queue.MAX_IN_UNSCHEDULABLE_PODS
        self.late += is_late and (not isinstance(result, Rejected) or result.candidate is not None)
        if isinstance(result, Rejected):
            if result.candidate is not None:
                self.violated_pdbs.add(snapshot, result.candidate.victims)
                if self.before_preemption is not None:
                    self.before_preemption(result, result.candidate, info.pod)
                preemptor = Preemptor(info.pod.uid, info.pod.key, info.pod.effective_priority)
                self._executor.prepare(result.candidate.node_name, result.candidate.victims, preemptor)
            if DynamicResources.name in result.plugins:
                self._claims_changed(self._devices.deallocate_unavailable(snapshot, info.pod))
            patch = self.fail(info, result)
            if patch is not None:
                yield self.latencies.write("patch", info.pod.key)
                self.take_next()  # before informers report the write
                patch()
            return
        volumes = volumes_on(snapshot, info.pod, result.node)
        devices = devices_on(snapshot, info.pod, result.node)
        self.assume(info, result.node)
        if volumes is not None:
            self._binder.assume(volumes, result.node)
        reserved = self._devices.reserve(info.pod, devices)
        self.clock.spawn(self.bind(info, result.node, volumes, reserved))

    # For cycles of PodGroups

    def assume(self, info: priority_queue.QueuedPodInfo, node: str) -> None:
        """Treat a Pod as bound to this node from now on."""
        self.cache.assume(info.pod, node)
        self.nominator.delete(info.pod)
        self.queue.done(info.pod)

    def preempt_for_group(self, preemption: GroupPreemption, group: PodGroup) -> None:
        """Evict the victims of the preemption for a PodGroup, and record the violated PDBs."""
        self.violated_pdbs.add(self.cache.snapshot(), preemption.pods)
        self._executor.prepare("cluster", preemption.pods, Preemptor(group.uid, name_of_group(group), group.priority))

    def take_next(self) -> None:
        """Pop the next Pod or PodGroup for the loop, before informers report the last write."""
        self._attempting = self.queue.pop()

    def bind(
        self,
        info: priority_queue.QueuedPodInfo,
        node: str,
        volumes: PodVolumes | None = None,
        reserved: Sequence[ClaimUpdate] = (),
    ) -> Steps:
        """Run the binding cycle of a Pod, concurrently with the loop.

        `volumes`: those to bind first, or None. `reserved`: see `DeviceClaims.reserve`.
        """
        pod, message = info.pod, ""
        waits = pod.uid in self._groups.waiting
        if (volumes is not None or waits) and self._announces and pod.nominated_node_name != node:
            yield self.latencies.write("patch", pod.key)
            self.api.patch_pod_status((pod.namespace, pod.name), None, node)
        if waits:
            message = yield from self._groups.waiting.wait(pod.uid, self.clock.running)
        if volumes is not None:
            message = yield from self._binder.bind(pod, node, volumes)
        for _ in reserved if not message else ():
            yield self.latencies.write("update", pod.key)
        self._claims_changed(reserved)
        if not message:
            yield self.latencies.write("bind", pod.key)
            if not (why := self.api.bind(pod, node)):
                return
            message = f"binding rejected: pod {pod.key} {why}"
        if volumes is not None:
            self._binder.revert(volumes)
        self._claims_changed(self._devices.release(pod))
        if self.cache.forget(pod):
            self._move(registrations.ASSIGNED_POD_DELETE, pod.bound_to(node, {}), None)
        patch = self.fail(info, Rejected(message, nominated="", error=True))
        if patch is not None:
            yield self.latencies.write("patch", pod.key)
            patch()

    def fail(self, info: priority_queue.QueuedPodInfo, result: Rejected) -> Callable[[], None] | None:
        """Requeue a rejected Pod. Returns a function that stores the Pod's new status; None if the status does not
        change.

        Source: upstream `handleSchedulingFailure`.
        """
        info.unschedulable_plugins, info.pending_plugins = set(result.plugins), set()
        stored = self.api.pod(info.pod.namespace, info.pod.name)
        if stored is not None and not stored.node_name:
            if stored.uid != info.pod.uid:
                self.queue.done(info.pod)
                return None
            info.pod = stored
            self.queue.add_unschedulable_if_not_present(info)
            self._woken()
        else:
            self.queue.done(info.pod)
        pod = info.pod
        self.nominator.add(pod, result.nominated)
        self.api.timeline.add("unschedulable", pod.key, message=result.message)
        condition = (not_predicted.SCHEDULER_ERROR if result.error else UNSCHEDULABLE, result.message)
        is_unchanged = self.api.conditions.get(pod.uid) == condition
        nominates = result.nominated is not None and result.nominated != pod.nominated_node_name
        if is_unchanged and not nominates:
            return None
        nominated = result.nominated if nominates else None
        return partial(self.api.patch_pod_status, (pod.namespace, pod.name), condition, nominated)

    # Events of the API server

    def handle(self, change: Change) -> None:
        """Handle a stored change as upstream's event handlers do."""
        old, new = change.old, change.new
        if change.kind == "Pod":
            if old is not None and new is not None and new.pod.terminal:
                new = None  # upstream's informer does not list terminated Pods
            if not (new or old).pod.terminal:
                self._handle_pod(old, new)
        elif change.kind == "Node":
            self._handle_node(old, new)
        elif change.kind == "Claim":
            self._handle_claim(old, new)
        elif change.kind == "PodGroup":
            self._groups.handle(old, new)
        elif change.kind == "Volume":
            self.cache.volumes.put(("", new.name), new)
            self._move(registrations.VOLUME_ADD if old is None else registrations.VOLUME_UPDATE, old, new)
        elif new is None:
            self.cache.remove_workload(old)
        elif change.kind != "Status" or new.key[0] == DISRUPTION_BUDGET:  # plugins read no other status
            self.cache.put_workload(new)
        self._woken()

    def _handle_pod(self, old: PodState | None, new: PodState | None) -> None:
        """Handle a change of a Pod that has not terminated; None: it did not exist or no longer exists."""
        if new is None:
            if old is not None:
                self._pod_deleted(old.pod)
        elif old is None:
            self._pod_added(new.pod)
        elif old.pod.node_name:
            self.cache.add_pod(new.pod)
            for event in registrations.pod_scheduling_properties_change(new.pod, old.pod):
                self._move(event, old.pod, new.pod)
        elif new.pod.node_name:
            self.cache.add_pod(new.pod)
            self._move(registrations.ASSIGNED_POD_ADD, None, new.pod)
            self.queue.delete(old.pod)
        elif self._is_simulated(old.pod):
            self._waiting_pod_changed(old.pod, new.pod)

    def _pod_added(self, pod: Pod) -> None:
        if pod.node_name:
            self.cache.add_pod(pod)
            self._move(registrations.ASSIGNED_POD_ADD, None, pod)
        elif self._is_simulated(pod):
            self.cache.group_states.put(pod)
            self.queue.add(pod)
            if self.queue.groups is not None:
                self._move(registrations.UNSCHEDULED_POD_ADD, None, pod)

    def _is_simulated(self, pod: Pod) -> bool:
        return not self.leaves(pod) and pod.key not in self.ignored

    def is_pending(self, state: PodState) -> bool:
        """Report whether a Pod is Pending for one of the profiles."""
        return state.deleted is None and is_pending(state.pod, self._names)

    def leaves(self, pod: Pod) -> bool:
        """Report whether a Pod is for another scheduler."""
        return not responsible_for_pod(pod, self._names)

    def _pod_deleted(self, pod: Pod) -> None:
        if pod.node_name:
            self.cache.remove_pod(pod)
            self._move(registrations.ASSIGNED_POD_DELETE, pod, None)
            if self._devices.has(pod):
                self.clock.spawn(self._release_devices(pod))
            return
        self.ignored.discard(pod.key)
        self.queue.delete(pod)
        if self.cache.is_assumed(pod):
            self.cache.forget(pod)
            self.cache.group_states.remove(pod)
            self._move(registrations.ASSIGNED_POD_DELETE, pod, None)
            return
        self.cache.group_states.remove(pod)
        if pod.nominated_node_name:
            self._move(registrations.ASSIGNED_POD_DELETE, pod, None, priority_queue.le_priority_pre_check(pod))

    def _release_devices(self, pod: Pod) -> Steps:
        yield self.latencies.write("update", pod.key)
        self._claims_changed(self._devices.release(pod))
        self._woken()

    def _claims_changed(self, changes: Iterable[ClaimUpdate]) -> None:
        for old, new in changes:
            self._move(registrations.RESOURCE_CLAIM_UPDATE, old, new)

    def _waiting_pod_changed(self, old: Pod, new: Pod) -> None:
        """Handle the change of a Pod without a node. Source: upstream `updatePodInSchedulingQueue`."""
        if self.cache.is_assumed(new):
            return
        self.queue.update(old, new)
        if old.nominated_node_name and old.nominated_node_name != new.nominated_node_name:
            self._move(registrations.ASSIGNED_POD_DELETE, old, None, priority_queue.le_priority_pre_check(old))

    def _handle_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._move(registrations.NODE_DELETE, old, None)
                self.cache.remove_node(old.name)
            return
        self.cache.put_node(new)
        events = [registrations.NODE_ADD] if old is None else registrations.node_scheduling_properties_change(new, old)
        for event in events:
            self._move(event, old, new)

    def _handle_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self.cache.claims.put(new.key, new)
            self._move(registrations.CLAIM_ADD if old is None else registrations.CLAIM_UPDATE, old, new)
        elif old is not None:
            self.cache.claims.pop(old.key)

    def _move(self, event: Any, old: Any, new: Any, check: Callable[[Pod], bool] | None = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, check)

    # Time

    def _woken(self) -> None:
        """Wake the idle loop if there is an entity to pop, or a flush to schedule."""
        if not self._loop.parked:
            return
        if self.queue.has_next or self._backoff_to_arrange() is not None or self._flush_is_to_arrange():
            self._loop.wake()

    def _arrange_flushes(self) -> None:
        """Schedule the next flushes of the queue for the time when a Pod is due.

        Upstream flushes every whole second (back-off) and every 30 s (unschedulable Pods).
        """
        now, due = self.clock.now, self._backoff_to_arrange()
        if due is not None:
            self._backoff_due = max(due, floor(now) + 1.0)
            self.clock.schedule(self._backoff_due, self._flush_backoff)
        if self._flush_is_to_arrange():
            rounds = floor((now - QUEUE_STARTS) / priority_queue.FLUSH_PERIOD) + 1
            oldest = (
                min(info.timestamp for info in self.queue.unschedulable.values())
                + priority_queue.MAX_IN_UNSCHEDULABLE_PODS
            )
            rounds = max(rounds, ceil((oldest - QUEUE_STARTS) / priority_queue.FLUSH_PERIOD))
            self._flush_due = QUEUE_STARTS + priority_queue.FLUSH_PERIOD * rounds
            self.clock.schedule(self._flush_due, self._flush_unschedulable)

    def _backoff_to_arrange(self) -> float | None:
        """Return the second of the next back-off flush; None without back-offs, or if a flush is scheduled."""
        due = self.queue.backoff.first_completed()
        return None if due is None or self.clock.now <= self._backoff_due <= due + 1 else due + 1

    def _flush_is_to_arrange(self) -> bool:
        return bool(self.queue.unschedulable) and not self.clock.now < self._flush_due < float("inf")

    def _flush_backoff(self) -> None:
        self._backoff_due = float("inf")
        self.queue.flush_backoff_completed()
        self._woken()

    def _flush_unschedulable(self) -> None:
        self._flush_due = float("inf")
        self.queue.flush_unschedulable_leftover()
        self._woken()


PARALLELISM: Final = 16


class Preemptor(NamedTuple):
    """A Pod or PodGroup that preempts. `name`: how the timeline refers to it."""

    uid: str
    name: str
    priority: int


@dataclass(slots=True)
class _Attempt:
    """The evictions for one preemptor. `left`: victims not deleted yet. `last`: key of the last victim."""

    preemptor: Preemptor
    left: int
    last: PodKey


class PreemptionExecutor:
    """Evicts the victims of preemptors. It is also the PreEnqueue plugin of DefaultPreemption."""

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

        Evictions no longer count once all victims but the last are deleted, and the last one is terminating or gone.
        """
        group = self._group_of(pod)
        uid = pod.uid if group is None else group.uid
        if uid not in self._preempting:
            return None
        last = self._last_victim.get(uid)
        victim = None if last is None else self._api.pod(*last)
        return _PREEMPTING if last is None or (victim is not None and not victim.terminating) else None

    def prepare(self, node: str, pods: Sequence[Pod], preemptor: Preemptor) -> None:
        """Start the evictions of victims that are not terminating, the last victim after all others.

        `node`: "cluster" for a PodGroup. Source: upstream `prepareCandidateAsync`.
        """
        victims = victims_to_evict(pods)
        if not victims:
            return
        self._preempting.add(preemptor.uid)
        self._clock.spawn(self._run(node, victims, preemptor))

    def _run(self, node: str, victims: list[Pod], preemptor: Preemptor) -> Steps:
        for pod in self._nominated(node):
            if pod.nominated_node_name and loses_nomination(pod, preemptor.priority):
                yield self._latencies.write("patch", pod.key)
                self._api.patch_pod_status((pod.namespace, pod.name), None, "")
        *first, last = victims
        attempt = _Attempt(preemptor, len(victims), (last.namespace, last.name))
        self._note(attempt)
        if first:
            waiting = first[::-1]  # divided among as many workers as in upstream
            workers = [self._clock.spawn(self._worker(waiting, attempt)) for _ in first[:PARALLELISM]]
            yield from self._clock.join(workers)
        yield from self._preempt_pod(last, attempt)
        self._preempting.discard(preemptor.uid)
        self._last_victim.pop(preemptor.uid, None)

    def _note(self, attempt: _Attempt) -> None:
        if attempt.left == 1:
            self._last_victim[attempt.preemptor.uid] = attempt.last

    def _worker(self, waiting: list[Pod], attempt: _Attempt) -> Steps:
        while waiting:
            yield from self._preempt_pod(waiting.pop(), attempt)

    def _preempt_pod(self, victim: Pod, attempt: _Attempt) -> Steps:
        """Set the victim's condition, then delete it by name, which may hit a replacement. Source: `PreemptPod`."""
        key = victim.namespace, victim.name
        if not victim.preempted:
            yield self._latencies.write("patch", victim.key)
            if not self._api.disrupt(key, preempted=True):
                self._told(attempt)
                return
        yield self._latencies.write("delete", victim.key)
        self._told(attempt)  # the client receives the response before or with the watch event
        self._api.delete_pod(key, "preempted", by=attempt.preemptor.name)

    def _told(self, attempt: _Attempt) -> None:
        attempt.left -= 1
        self._note(attempt)


PERMIT_TIMEOUT: Final = 300.0
"""Seconds that a Pod waits at Permit for the other Pods of its PodGroup."""
_PREEMPTING: Final = unresolvable("waiting for the preemption for this pod to be finished")
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
        """Wait until a Pod is allowed (""), or rejected (the reason). `task`: the waiting actor, which is woken."""
        while (why := self._answers[uid]) is None:
            if task is not None:
                self._tasks[uid] = task
            yield None
        self._tasks.pop(uid, None)
        del self._answers[uid]
        return why


class PodGroupScheduling:
    """Runs the cycles of PodGroups for one scheduler. It is also the PreEnqueue plugin of GangScheduling."""

    name: ClassVar[str] = GangScheduling.name

    def __init__(self, scheduler: Scheduler) -> None:
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

    def schedule_one(self, info: priority_queue.QueuedPodGroupInfo) -> Steps:
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
            self._finish(info, None)
            return
        pods = [member.pod for member in info.members]
        why = not_predicted.unmodelled_fields(group)
        if why := why or (
            not_predicted.CLAIMS if any(not_predicted.needs_claims(pod, snapshot) for pod in pods) else ""
        ):
            raise NotPredicted(f"not predicted: PodGroup {group.key}: {why}")
        scheduled, order = of.cache.group_states.scheduled(key), of.cache.node_tree.list()
        result = schedule_pod_group(snapshot, group, pods, scheduled, of.algorithm.place, order)
        if result.preemption is not None:
            of.preempt_for_group(result.preemption, group)
        yield from self._submit(info, group, result)

    def handle(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Handle a change of a PodGroup; None: it did not exist or no longer exists."""
        groups, queue = self._of.cache.pod_groups, self._of.queue
        if new is not None and new is not old:
            groups.put((new.namespace, new.name), new)
        elif new is None and old is not None and queue.groups is not None:
            groups.pop((old.namespace, old.name))
        if queue.groups is None:
            return  # Pods of PodGroups are not predicted, unless the gate is off
        if new is None:
            if old is not None:
                queue.groups.delete_group(old)
                queue.move_all_to_active_or_backoff_queue(registrations.POD_GROUP_DELETE, old, None)
        elif old is None:
            queue.groups.add_group(new)
            queue.move_all_to_active_or_backoff_queue(registrations.POD_GROUP_ADD, None, new)
        elif old is not new:
            queue.groups.update_group(new)
            queue.move_all_to_active_or_backoff_queue(registrations.POD_GROUP_UPDATE, old, new)

    def _submit(self, info: priority_queue.QueuedPodGroupInfo, group: PodGroup, result: PodGroupResult) -> Steps:
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
        self._finish(info, result.tried_code)
        if store is not None:
            of.take_next()
            store()

    def _finish(self, info: priority_queue.QueuedPodGroupInfo, code: Code | None) -> None:
        assert self._of.queue.groups is not None
        self._of.queue.groups.add_attempted(info, code)

    def _assume(self, member: priority_queue.QueuedPodInfo, node: str, group: PodGroup) -> None:
        """Assume a Pod on its node. The Pod waits at Permit until minCount Pods of its PodGroup are scheduled.

        Source: upstream `prepareForBindingCycle`, GangScheduling `Permit`.
        """
        of, uid = self._of, member.pod.uid
        of.assume(member, node)
        scheduled = of.cache.group_states.scheduled((group.namespace, group.name))
        if group.missing(len(scheduled)):
            self.waiting.add(uid)
            why = f"rejected due to timeout after waiting 5m0s at plugin {self.name}"
            of.clock.schedule(of.clock.now + PERMIT_TIMEOUT, partial(self.waiting.answer, uid, why))
        else:
            for pod in scheduled:
                self.waiting.answer(pod.uid)
        of.clock.spawn(of.bind(member, node))


class ClaimUpdate(NamedTuple):
    """A changed ResourceClaim. `old`, `new`: the claim before and after the change."""

    old: ResourceClaim
    new: ResourceClaim


def devices_on(snapshot: Snapshot, pod: Pod, node: str) -> list[ResourceClaim]:
    """Return the Pod's claims with the allocations on a node that Filter accepted."""
    info = snapshot.get(node)
    if info is None or not (pod.device_claims or extended_resources_of(pod, snapshot.extended_resources)):
        return []
    framework = framework_of(snapshot, pod)
    if DynamicResources.name not in framework.profile.plugins:
        return []
    plugin: DynamicResources = framework.plugin(DynamicResources.name)
    return claims_on(plugin.allocate_on(pod, (info,)), node)


def unmodelled_pending(pods: Iterable[Pod], objects: ClusterObjects) -> dict[str, str]:
    """Return `namespace/name` -> reason, for each Pending Pod with claims that forewarn does not model."""
    snapshot = Snapshot(objects, (), Columns.build(()))
    pending = (pod for pod in pods if not pod.node_name and not pod.terminal)
    reasons = ((pod.key, not_predicted.claims_reason(pod, snapshot)) for pod in pending)
    return {key: reason for key, reason in reasons if reason}


class DeviceClaims:
    """The allocations and reservations of claims in the scheduler's cache."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._generated: dict[str, list[tuple[str, str]]] = {}
        """uid of a Pod -> keys of the claims that exist only for the Pod."""

    def reserve(self, pod: Pod, claims: Iterable[ResourceClaim]) -> list[ClaimUpdate]:
        """Reserve claims for a Pod."""
        updates: list[ClaimUpdate] = []
        for claim in claims:
            stored = self._cache.resource_claims.get((claim.namespace, claim.name))
            users = (*(uid for uid in claim.reserved_for if uid != pod.uid), pod.uid)
            new = replace(claim, reserved_for=users)
            if stored is None or stored.uid != claim.uid:
                new = replace(new, name=f"{claim.name}-{pod.uid}", owner_uid=pod.uid)
                self._generated.setdefault(pod.uid, []).append((new.namespace, new.name))
                stored = claim
            self._cache.resource_claims.put((new.namespace, new.name), new)
            updates.append(ClaimUpdate(stored, new))
        return updates

    def has(self, pod: Pod) -> bool:
        """Report whether claims may be reserved for a Pod."""
        provided = self._cache.base.device_classes and pod.spec.request.scalars
        return bool(pod.device_claims or pod.uid in self._generated or provided)

    def release(self, pod: Pod) -> list[ClaimUpdate]:
        """End the reservations of a Pod, and deallocate claims without other users. Source: upstream `syncClaim`."""
        updates: list[ClaimUpdate] = []
        for key in self._keys_of(pod):
            old = self._cache.resource_claims.get(key)
            if old is None or pod.uid not in old.reserved_for:
                continue
            users = tuple(uid for uid in old.reserved_for if uid != pod.uid)
            new = replace(old, reserved_for=users, allocation=old.allocation if users else None)
            if users or old.owner_uid != pod.uid:
                self._cache.resource_claims.put((new.namespace, new.name), new)
            else:
                self._cache.resource_claims.pop(key)
            updates.append(ClaimUpdate(old, new))
        return updates

    def _keys_of(self, pod: Pod) -> Iterator[tuple[str, str]]:
        yield from self._generated.pop(pod.uid, ())
        yield from ((pod.namespace, wanted.claim) for wanted in pod.device_claims if wanted.claim is not None)
        objects = self._cache.base
        special = claim_of_an_earlier_cycle(pod, objects) if objects.device_classes else None
        if special is not None:
            yield special.namespace, special.name

    def deallocate_unavailable(self, snapshot: Snapshot, pod: Pod) -> list[ClaimUpdate]:
        """Deallocate one idle claim of a rejected Pod whose devices some nodes cannot use. Source: `PostFilter`."""
        labels = [(info.node.labels, info.name) for info in snapshot.node_infos]
        for wanted in pod.device_claims:
            claim = None if wanted.claim is None else self._cache.resource_claims.get((pod.namespace, wanted.claim))
            allocation = None if claim is None else claim.allocation
            if claim is None or allocation is None or allocation.nodes is None:
                continue
            if {*claim.reserved_for} <= {pod.uid} and not all(allocation.nodes.matches(*node) for node in labels):
                new = replace(claim, allocation=None, reserved_for=())
                self._cache.resource_claims.put((new.namespace, new.name), new)
                return [ClaimUpdate(claim, new)]
        return []
